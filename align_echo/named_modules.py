"""Modules that a user names as `module:Name`, also those in the current folder, which is on no path of Python.

A folder on `sys.path` is searched for every module that any library tries, and so runs whatever lies in it under such a
name. Here a finder at the end of `sys.meta_path` knows the named modules and their folders. It serves

- a module that was named, to whoever imports it (pickles and gymnasium's entry points do so later);
- any other module of such a folder, only to the modules that were served from it.

Installed modules come first, as on a path. Left out: what a name stands for (`registry.py`).
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
"""The modules of Python that import for others."""


class NamedModuleFinder(MetaPathFinder):
    """Finder of named modules and, for these, of the modules beside them."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        """The folder of each module that was named, by its top-level name."""
        self.served: dict[str, str] = {}
        """The folder of each module that was found in one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that is named, or that lies beside its importer; None for any other."""
        if path is not None:  # a package finds its own modules
            return None
        folder = self.named.get(fullname) or self.served.get(_importing_module())
        spec = PathFinder.find_spec(fullname, [folder], target) if folder else None
        if folder and spec is not None:
            self.served[fullname] = folder
        return spec


def _importing_module() -> str:
    """Return the top-level name of the module whose code asks for an import."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in MACHINERY:
            return name
        frame = frame.f_back
    return ""


_finder = NamedModuleFinder()


def import_named(name: str) -> ModuleType:
    """Import a module that a user named; it may lie in the current folder. Raises what the import raises."""
    _name(name, os.getcwd())
    return importlib.import_module(name)


def name_beside(name: str, other: str) -> None:
    """Let a module be found in the folder that another named module came from, if it came from one."""
    folder = _finder.served.get(other.partition(".")[0])
    if folder is not None:
        _name(name, folder)


def served_modules() -> dict[str, str]:
    """Return the folder of each module that was found in one, by its top-level name."""
    return dict(_finder.served)


def serve_modules(folders: Mapping[str, str]) -> None:
    """Find modules as another process does, whose `served_modules` these are."""
    for name, folder in folders.items():
        _name(name, folder)
    _finder.served.update(folders)


def _name(name: str, folder: str) -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    _finder.named[name.partition(".")[0]] = folder
