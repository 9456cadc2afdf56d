"""Registries of named objects: ours, an installed package's, a program's own, or "module:Name".

There is one `Registry` per kind (environments, agents, methods, rewards, advantages, forms of critics, rules of
selection). All objects, ours too, are found in the same three ways:

- an entry point of an installed package, in the registry's group (`align_echo.environments`, `align_echo.agents`, ...);
- `Registry.register(name, thing)` in a running program;
- "module:Name", which imports the module and takes the name from it. A module in the current folder is found
  if a user names it; a name in a file imports no module (`Registry.recorded`).

Listing imports nothing; only a requested object is imported. Not here: the kinds and their requirements.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Generic, TypeVar

from align_echo.errors import AlignEchoError, UsageError, did_you_mean, first_line

# ---------------------------------------------------------------- named modules

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


# ---------------------------------------------------------------- numbers and articles in messages

VOWELS = ("a", "e", "i", "o", "nd")
"""Beginnings of names pronounced with a vowel: "nd" as in ndarray."""


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun, given in the singular: "1 task", "2 tasks", "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def with_article(name: str) -> str:
    """Put "a" or "an" before a name, such as a type's."""
    return f"{'an' if name.lower().startswith(VOWELS) else 'a'} {name}"


# ---------------------------------------------------------------- registries of named objects

OURS = "align-echo"
"""Distribution of our own entry points."""

PREFIX = "align_echo."
"""Prefix of the groups of entry points."""

Thing = TypeVar("Thing")


def attempt(call: Callable[[], Thing], failure: str) -> Thing:
    """Call a user's code. Raises `UsageError` with the `failure` and the code's error in one line."""
    try:
        return call()
    except AlignEchoError:
        raise
    except Exception as error:
        raise UsageError(f"{failure}: {type(error).__name__}: {first_line(error)}") from error


@dataclass(frozen=True)
class RegistryEntry:
    """One name and its origin.

    `target` is "module:Name", "" for an object registered in the program; `origin` names the package and its version,
    or "this program".
    """

    name: str
    target: str
    origin: str


@cache
def _entry_points() -> dict[str, dict[str, RegistryEntry]]:
    """Collect our groups' entry points of every installed package: by group, then by name.

    If two packages have the same name, the first wins, ours before all. All metadata on `sys.path` is read: a checkout
    may hold an old `.egg-info` of itself, which would hide the installed one (`importlib.metadata.entry_points` reads
    only the first).
    """
    points = [
        (package, point)
        for package in metadata.distributions()
        for point in package.entry_points
        if point.group.startswith(PREFIX)
    ]
    by_group: dict[str, dict[str, RegistryEntry]] = {}
    for package, point in sorted(points, key=lambda pair: (pair[0].name != OURS, pair[0].name)):
        entry = RegistryEntry(point.name, point.value.replace(" ", ""), f"{package.name} {package.version}")
        by_group.setdefault(point.group, {}).setdefault(point.name, entry)
    return by_group


class LazyMapping(Mapping[str, Thing]):
    """Named objects in a fixed order, each built by `make(name)` on first access."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Thing]) -> None:
        self._names, self._make = names, make
        self._made: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        if name in self._names and name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Registry(Generic[Thing]):
    """The objects of one kind by name.

    `kind` is its word in messages, `group` its group of entry points. `read(name, object)` validates or converts an
    object of a module, or raises `UsageError`.
    """

    def __init__(self, kind: str, group: str, read: Callable[[str, object], Thing]) -> None:
        self.kind = kind
        self.group = group
        self._read = read
        self._known: dict[str, Thing] = {}
        self._registered: dict[str, RegistryEntry] = {}

    def register(self, name: str, value: object) -> Thing:
        """Register an object by name. Raises `UsageError` for a name in use, and for an object of another kind."""
        if name in self.entries():
            raise UsageError(f"there is already {with_article(self.kind)} {name!r}, of {self.entries()[name].origin}")
        checked = self._read(name, value)
        self._registered[name] = RegistryEntry(name, "", "this program")
        self._known[name] = checked
        return checked

    def keep(self, name: str, value: Thing) -> Thing:
        """Store the object found for a name used by the user."""
        self._known[name] = value
        return value

    def entries(self) -> dict[str, RegistryEntry]:
        """Return every known name, ours first. Imports nothing."""
        return {**_entry_points().get(self.group, {}), **self._registered}

    def get(self, name: str) -> Thing:
        """Look up a name or "module:Name".

        Raises `UsageError` with the most similar names, or with the error of its module's import.
        """
        if not isinstance(name, str):
            kind_of_name = with_article(type(name).__name__)
            raise UsageError(f"{with_article(self.kind)} is given by its name, not as {kind_of_name}")
        entry = self.entries().get(name)
        target = entry.target if entry is not None else name
        known = self._known.get(name)
        if known is not None:
            return known
        if ":" not in target:
            raise UsageError(self.unknown(name))
        named = next((listed.name for listed in self.entries().values() if listed.target == target), name)
        loaded = self._load(target, import_named if entry is None else importlib.import_module)
        self._known[named] = self._known[name] = self._read(named, loaded)
        return self._known[name]

    def checked(self, name: str) -> str:
        """Look up a name and return it: a validator for configs."""
        self.get(name)
        return name

    def recorded(self, name: str, source: str, remedy: str) -> Thing:
        """Look up a name recorded in a file, `source`, importing only modules of installed packages.

        Raises `UsageError` as `get` does, and for a "module:Name" not named by the user: `remedy` tells how to name
        it.
        """
        if self.knows(name):
            return self.get(name)
        raise UsageError(
            f"{source} names the {self.kind} {name!r}, and a file's word alone imports no module: "
            f"if you trust this one, {remedy}"
        )

    def knows(self, name: object) -> bool:
        """Return True for a plain name, or a "module:Name" imported before."""
        return not isinstance(name, str) or ":" not in name or name in self._known or name in self.entries()

    def unknown(self, name: str) -> str:
        """Return the message for an unknown name."""
        names = list(self.entries())
        if not names:
            return f"no {self.kind} is registered: install align-echo anew (pip install -e . in a checkout)"
        hint = did_you_mean(name, names)
        return f"unknown {self.kind} {name!r}; {hint}known: {', '.join(names)}; one of your own is module:Name"

    def _load(self, target: str, import_module: Callable[[str], ModuleType]) -> object:
        module_name, _, attribute = target.partition(":")
        failure = f"the module {module_name} of the {self.kind} {target!r} cannot be imported"

        def imported() -> object:
            try:
                return import_module(module_name)
            except UsageError as error:  # of a declaration in it
                raise UsageError(f"{failure}: {error}") from error

        loaded = attempt(imported, failure)
        for part in attribute.split("."):
            if not hasattr(loaded, part):
                names = [public for public in vars(loaded) if not public.startswith("_")]
                is_ours = module_name.partition(".")[0] not in sys.stdlib_module_names
                hint = did_you_mean(part, names, most=1).strip() if is_ours else ""
                if module_name in self.entries():
                    hint = f"{module_name} alone is {with_article(self.kind)}"
                raise UsageError(f"the module {module_name} has no {attribute}{'; ' if hint else ''}{hint}")
            loaded = getattr(loaded, part)
        return loaded
