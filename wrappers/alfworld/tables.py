"""What ships of ALFWorld: its PDDL domain, text grammar, goal templates, tables of kinds, and floor plans.

`tables.json` is taken from ALFWorld's wheel by `build_data.py`; `NOTICE` holds its licence. Tests compare the two, so
that games are made without the wheel as they were with it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from align_echo.errors import EngineError

FILE = "tables.json"

Kinds = frozenset[str]


@dataclass(frozen=True)
class GoalTemplate:
    """A type's goal in PDDL, and the sentences that say it."""

    pddl: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """One floor plan: the kinds of things that occur, and [x, z, rotation, horizon] of furniture by its id."""

    occurring: tuple[str, ...]
    placed: Mapping[str, list[float]]


@dataclass(frozen=True)
class Tables:
    """ALFWorld's tables.

    `holds`: what fits in or on a kind of furniture; `able`: the kinds that something can be done to, by the ability;
    `rooms`: where a type of task makes sense; `goals` by task type; `layouts` by the floor plan's number.
    """

    version: str
    domain: str
    grammar: str
    objects: Kinds
    receptacles: Kinds
    movable: Kinds
    openable: Kinds
    holds: Mapping[str, Kinds]
    able: Mapping[str, Kinds]
    rooms: Mapping[str, Kinds]
    goals: Mapping[str, GoalTemplate]
    layouts: Mapping[int, Layout]


@functools.cache
def tables() -> Tables:
    """The tables that ship. `grammar` has `UNKNOWN GOAL` where a game states its goal. Raises `EngineError`."""
    try:
        record = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
        return Tables(
            version=record["version"],
            domain=record["domain"],
            grammar=record["grammar"],
            objects=frozenset(record["objects"]),
            receptacles=frozenset(record["receptacles"]),
            movable=frozenset(record["movable"]),
            openable=frozenset(record["openable"]),
            holds=_by_kind(record["holds"]),
            able=_by_kind(record["able"]),
            rooms=_by_kind(record["rooms"]),
            goals={kind: GoalTemplate(pddl, tuple(sentences)) for kind, (pddl, sentences) in record["goals"].items()},
            layouts={int(plan): Layout(tuple(kinds), placed) for plan, (kinds, placed) in record["layouts"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"ALFWorld's tables are not readable ({error}): reinstall") from error


def _by_kind(record: Mapping[str, list[str]]) -> dict[str, Kinds]:
    return {name: frozenset(kinds) for name, kinds in record.items()}
