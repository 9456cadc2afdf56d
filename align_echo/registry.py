"""Things that are found by name: ours, an installed package's, one that a program registers, or "module:Name".

One `Registry` for each kind (environments, agents, methods, forms of critics, rules of selection). All are reached by
the same three ways, ours too:

- an entry point of an installed package, in the registry's group (`align_echo.environments`, `align_echo.agents`, ...);
- `Registry.register(name, thing)` in a running program;
- "module:Name", which imports the module and takes the name from it. A module in the current folder is found
  (`named_modules.py`), if a user says the name: one that a file says imports no module (`Registry.recorded`).

Listing imports nothing; only the thing that is asked for is imported. Left out: what a kind is and what it needs.
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
"""The distribution whose entry points are our own."""

PREFIX = "align_echo."
"""What the groups of entry points begin with."""

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Entry:
    """One name and where it came from. `target` is "module:Name", "" for a thing that was registered in the program;
    `origin` names the package and its version, or "this program"."""

    name: str
    target: str
    origin: str


@cache
def _entry_points() -> dict[str, dict[str, Entry]]:
    """The entry points in our groups of every installed package: by group, then by name.

    Where two packages have one name it is the first one's, ours before all. All that `sys.path` holds of a package is
    read: a checkout may hold an old `.egg-info` of itself, which would hide what is installed
    (`importlib.metadata.entry_points` reads the first of a name alone).
    """
    points = [
        (package, point)
        for package in metadata.distributions()
        for point in package.entry_points
        if point.group.startswith(PREFIX)
    ]
    by_group: dict[str, dict[str, Entry]] = {}
    for package, point in sorted(points, key=lambda pair: (pair[0].name != OURS, pair[0].name)):
        entry = Entry(point.name, point.value.replace(" ", ""), f"{package.name} {package.version}")
        by_group.setdefault(point.group, {}).setdefault(point.name, entry)
    return by_group


class MadeWhenAsked(Mapping[str, Thing]):
    """Things by name, in the order of their names; each is made by `make(name)` when it is first asked for."""

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
    """The things of one kind by name.

    `kind` is the word for it in messages, `group` that of its entry points. `read(name, object)` makes a thing of
    what a module holds, or raises `UsageError`.
    """

    def __init__(self, kind: str, group: str, read: Callable[[str, object], Thing]) -> None:
        self.kind = kind
        self.group = group
        self._read = read
        self._known: dict[str, Thing] = {}
        self._registered: dict[str, Entry] = {}

    def register(self, name: str, thing: object) -> Thing:
        """Let a name stand for a thing from now on. Raises `UsageError` for a name that is taken, and for a thing of
        another kind."""
        if name in self.entries():
            raise UsageError(f"there is already {with_article(self.kind)} {name!r}, of {self.entries()[name].origin}")
        checked = self._read(name, thing)
        self._registered[name] = Entry(name, "", "this program")
        self._known[name] = checked
        return checked

    def keep(self, name: str, thing: Thing) -> Thing:
        """Let a name that a user said stand for the thing that it was found to be."""
        self._known[name] = thing
        return thing

    def entries(self) -> dict[str, Entry]:
        """Every name that is known, ours first. Imports nothing."""
        return {**_entry_points().get(self.group, {}), **self._registered}

    def get(self, name: str) -> Thing:
        """The thing of a name or of "module:Name". Raises `UsageError` with the nearest names, or with what keeps its
        module from being imported."""
        if not isinstance(name, str):
            given = with_article(type(name).__name__)
            raise UsageError(f"{with_article(self.kind)} is given by its name, not as {given}")
        entry = self.entries().get(name)
        target = entry.target if entry is not None else name
        known = self._known.get(name)
        if known is not None:
            return known
        if ":" not in target:
            raise UsageError(self.unknown(name))
        named = next((listed.name for listed in self.entries().values() if listed.target == target), name)
        thing = self._load(target, import_named if entry is None else importlib.import_module)
        self._known[named] = self._known[name] = self._read(named, thing)
        return self._known[name]

    def recorded(self, name: str, source: str, remedy: str) -> Thing:
        """Return the thing of a name that `source`, a file, says. It imports no module but those of installed packages.

        Raises `UsageError` as `get` does, and for a "module:Name" that nobody said to this program: `remedy` tells how
        a user says it.
        """
        if self.knows(name):
            return self.get(name)
        raise UsageError(
            f"{source} names the {self.kind} {name!r}, and a file's word alone imports no module: "
            f"if you trust this one, {remedy}"
        )

    def knows(self, name: object) -> bool:
        """Return whether a name is a plain one, or a "module:Name" that was imported before."""
        return not isinstance(name, str) or ":" not in name or name in self._known or name in self.entries()

    def unknown(self, name: str) -> str:
        """What is said of a name that nothing has."""
        names = list(self.entries())
        if not names:
            return f"no {self.kind} is registered: install align-echo anew (pip install -e . in a checkout)"
        hint = did_you_mean(name, names)
        return f"unknown {self.kind} {name!r}; {hint}known: {', '.join(names)}; one of your own is module:Name"

    def _load(self, target: str, import_module: Callable[[str], ModuleType]) -> object:
        module_name, _, attribute = target.partition(":")
        try:
            thing: object = import_module(module_name)
        except AlignEchoError:
            raise
        except Exception as error:
            raise UsageError(
                f"the module {module_name} of the {self.kind} {target!r} cannot be imported: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        for part in attribute.split("."):
            if not hasattr(thing, part):
                names = [public for public in vars(thing) if not public.startswith("_")]
                hint = did_you_mean(part, names, most=1).strip()
                raise UsageError(f"the module {module_name} has no {attribute}{'; ' if hint else ''}{hint}")
            thing = getattr(thing, part)
        return thing
