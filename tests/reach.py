"""Settings that must act: for every field of a model of settings a table has what is seen of its values where it acts.

A test of a pure function does not hold the way from a file to that function. Here a run is made with some values, all
that it does is put on record, and each row of the table looks at the one place where its field acts. A field without a
row fails the test of the table, and so does a choice of a field that no row makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from typer.main import get_command

from align_echo.cli.main import app

Record = TypeVar("Record")

NONE: Mapping[str, Any] = MappingProxyType({})


Case = tuple[Any, Any]
"""A value, and what is seen of it."""


@dataclass(frozen=True)
class Row(Generic[Record]):
    """A field by its path, and its `cases` run by run. Runs after the last of them go on with its value, unseen."""

    field: str
    see: Callable[[Record], Any]
    cases: Sequence[Case]


@dataclass(frozen=True)
class Scene(Generic[Record]):
    """Runs that differ in the fields of their rows alone; `base` is what they have in common."""

    base: Mapping[str, Any]
    rows: Sequence[Row[Record]]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The values of every run, those of the rows in their sections."""
        count = max(len(row.cases) for row in self.rows)
        return [
            nested(self.base, {row.field: row.cases[min(run, len(row.cases) - 1)][0] for row in self.rows})
            for run in range(count)
        ]


def check(scene: Scene[Record], play: Callable[[dict[str, Any], int], Record]) -> None:
    """Make the runs of a scene by their values and numbers, and see every field of a row where it acts."""
    records = [play(values, number) for number, values in enumerate(scene.runs)]
    wrong = []
    for row in scene.rows:
        for (value, expected), record in zip(row.cases, records, strict=False):
            seen = row.see(record)
            if seen != expected and not (is_measured(expected) and seen == pytest.approx(expected, rel=1e-3)):
                wrong.append(f"{row.field}: {value}: {seen} is seen, not {expected}")
    assert not wrong, "\n".join(wrong)


def is_measured(expected: Any) -> bool:
    """Whether what is expected are numbers, which may be seen with some rounding."""
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return all(map(is_measured, expected))
    return isinstance(expected, int | float) and not isinstance(expected, bool)


def nested(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base with values at paths such as `step.objective.beta`."""
    made: dict[str, Any] = {
        name: nested(value, {}) if isinstance(value, Mapping) else value for name, value in base.items()
    }
    for path, value in changes.items():
        *sections, last = path.split(".")
        place = made
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return made


def fields(model: type[BaseModel], before: str = "") -> dict[str, set[Any]]:
    """Every field of a model by its path, those of the models in it too, with the values that it lets choose from."""
    known: dict[str, set[Any]] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            known |= fields(inner, f"{before}{name}.")
        else:
            known[f"{before}{name}"] = choices(inner)
    return known


def options(verb: str) -> dict[str, set[Any]]:
    """Every option and argument of a verb of the command line, with the values that it lets choose from; without
    --memory, which is one for all verbs (`tests/cli/test_memory.py`).
    """
    group: Any = get_command(app)
    for word in verb.split():
        group = group.commands[word]
    return {taken.name: choices(taken.type_descriptor.annotation) for taken in group.params if taken.name != "memory"}


def choices(annotation: Any) -> set[Any]:
    """The values of a type with few of them; none where it has many."""
    if annotation is bool:
        return {False, True}
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    return {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}


def unseen(
    known: Mapping[str, set[Any]], scenes: Iterable[Scene[Any]], apart: Mapping[str, Callable[..., object]] = NONE
) -> list[str]:
    """What is wrong with a table of what is `known`, with its choices: fields without a row, or a test `apart`; choices
    that no row makes; rows of no field; rows in which values look the same.
    """
    rows = [row for scene in scenes for row in scene.rows]
    problems = [f"{field} has no row" for field in known.keys() - {row.field for row in rows} - apart.keys()]
    problems += [f"{field} is no field" for field in {*apart, *(row.field for row in rows)} - known.keys()]
    for name, offered in known.items():
        made = {value for row in rows if row.field == name for value, _ in row.cases if isinstance(value, Hashable)}
        problems += [f"{name}: {choice} is never chosen" for choice in offered - made if name not in apart]
    for row in rows:
        problems += [
            f"{row.field}: {value} and {other} look the same"
            for (value, seen), (other, seen_too) in itertools.combinations(row.cases, 2)
            if value != other and seen == seen_too
        ]
        problems += [f"{row.field} has one value" for _ in range(all(case[0] == row.cases[0][0] for case in row.cases))]
    return sorted(problems)
