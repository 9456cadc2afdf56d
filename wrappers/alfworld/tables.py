"""ALFWorld's data in the package: PDDL domain, text grammar, goal templates, tables of kinds, and floor plans.

`build_data.py` takes `tables.json` from ALFWorld's wheel; `NOTICE` holds its licence. Tests compare the two, so games
are the same with and without the wheel.
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
    """Goal of a task type in PDDL, and sentences for it."""

    pddl: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class LayoutSpec:
    """Floor plan: the kinds of objects in it, and [x, z, rotation, horizon] of furniture by id."""

    occurring: tuple[str, ...]
    placed: Mapping[str, list[float]]


@dataclass(frozen=True)
class AlfworldTables:
    """ALFWorld's tables.

    `holds`: kinds that fit in or on a kind of furniture; `able`: kinds that can be cleaned, heated etc., by ability;
    `rooms`: rooms where a task type makes sense; `goals` by task type; `layouts` by floor plan number.
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
    layouts: Mapping[int, LayoutSpec]


@functools.cache
def tables() -> AlfworldTables:
    """Load the tables. `grammar` has `UNKNOWN GOAL` in place of a game's goal. Raises `EngineError`."""
    try:
        record = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
        return AlfworldTables(
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
            layouts={
                int(plan): LayoutSpec(tuple(kinds), placed) for plan, (kinds, placed) in record["layouts"].items()
            },
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"ALFWorld's tables are not readable ({error}): reinstall") from error


def _by_kind(record: Mapping[str, list[str]]) -> dict[str, Kinds]:
    return {name: frozenset(kinds) for name, kinds in record.items()}
