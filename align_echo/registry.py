"""Registries of named objects: ours, an installed package's, a program's own, or "module:Name".

There is one `Registry` per kind (environments, agents, methods, forms of critics, rules of selection). All objects,
ours too, are found in the same three ways:

- an entry point of an installed package, in the registry's group (`align_echo.environments`, `align_echo.agents`, ...);
- `Registry.register(name, thing)` in a running program;
- "module:Name", which imports the module and takes the name from it. A module in the current folder is found
  (`named_modules.py`) if a user names it; a name in a file imports no module (`Registry.recorded`).

Listing imports nothing; only a requested object is imported. Not here: the kinds and their requirements.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Generic, TypeVar

from align_echo.errors import AlignEchoError, UsageError, did_you_mean, first_line
from align_echo.grammar import with_article
from align_echo.named_modules import import_named

OURS = "align-echo"
"""Distribution of our own entry points."""

PREFIX = "align_echo."
"""Prefix of the groups of entry points."""

Thing = TypeVar("Thing")


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
        try:
            loaded: object = import_module(module_name)
        except AlignEchoError:
            raise
        except Exception as error:
            raise UsageError(
                f"the module {module_name} of the {self.kind} {target!r} cannot be imported: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        for part in attribute.split("."):
            if not hasattr(loaded, part):
                names = [public for public in vars(loaded) if not public.startswith("_")]
                hint = did_you_mean(part, names, most=1).strip()
                raise UsageError(f"the module {module_name} has no {attribute}{'; ' if hint else ''}{hint}")
            loaded = getattr(loaded, part)
        return loaded
