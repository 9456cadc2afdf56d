"""Import modules named by the user as `module:Name`, also from the current folder, which is not on Python's path.

A folder on `sys.path` is searched for every module that any library tries to import, and so runs any matching file in
it. Instead, a finder at the end of `sys.meta_path` knows the named modules and their folders. It finds

- a named module, for any importer (pickles and gymnasium's entry points import it later);
- any other module of such a folder, only for modules found in that folder.

Installed modules take precedence, as on a path. Not here: resolving names (`registry.py`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

MACHINERY = {"importlib", "_frozen_importlib", "_frozen_importlib_external"}
"""Python's modules that import on behalf of others."""


class NamedModuleFinder(MetaPathFinder):
    """Finder of named modules and, for these, of the modules beside them."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        """Folder of each named module, by top-level name."""
        self.served: dict[str, str] = {}
        """Folder of each module found by this finder, by top-level name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a named module, or of a module beside its importer; None otherwise."""
        if path is not None:  # a package finds its own modules
            return None
        folder = self.named.get(fullname) or self.served.get(_importing_module())
        spec = PathFinder.find_spec(fullname, [folder], target) if folder else None
        if folder and spec is not None:
            self.served[fullname] = folder
        return spec


def _importing_module() -> str:
    """Return the top-level name of the importing module."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in MACHINERY:
            return name
        frame = frame.f_back
    return ""


_finder = NamedModuleFinder()


def import_named(name: str) -> ModuleType:
    """Import a module named by a user; it may be in the current folder. Propagates errors of the import."""
    _name(name, os.getcwd())
    return importlib.import_module(name)


def name_beside(name: str, neighbour: str) -> None:
    """Name a module in the folder of another named module, if that was found in a folder."""
    folder = _finder.served.get(neighbour.partition(".")[0])
    if folder is not None:
        _name(name, folder)


def served_modules() -> dict[str, str]:
    """Return the folder of each found module, by top-level name."""
    return dict(_finder.served)


def serve_modules(folders: Mapping[str, str]) -> None:
    """Adopt another process's `served_modules`."""
    for name, folder in folders.items():
        _name(name, folder)
    _finder.served.update(folders)


def _name(name: str, folder: str) -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    _finder.named[name.partition(".")[0]] = folder
