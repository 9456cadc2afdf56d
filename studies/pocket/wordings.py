"""What a scripted critic says of an attempt, and the wordings of the corpus (`wordings.yaml`, by module and name)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from align_echo.base.dice import Dice


def wordings(module: str) -> list[Any]:
    """Return what a module says, in the order of the file; lists are tuples."""
    return list(_all()[module].values())


@cache
def _all() -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = _frozen(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")))
    return read


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Advice:
    """What the suggestions say, for the teacher that plays the refined attempt.

    `search_first` is furniture in the order in which to look; `commands` are exact commands in the order in which they
    are to be sent, as far as the suggestions name them.
    """

    search_first: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One suggestion before it is worded: its wordings, their values, and what it advises."""

    wordings: tuple[str, ...]
    values: Mapping[str, str]
    search: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Review:
    """A worded critique and its advice; no suggestions for a full score."""

    reason: str
    suggestions: tuple[str, ...] = ()
    advice: Advice = Advice()

    @classmethod
    def of(cls, reason: str, findings: Sequence[Finding], dice: Dice) -> Review:
        """The findings worded by draws."""
        suggestions = tuple(dice.pick(finding.wordings).format_map(finding.values) for finding in findings)
        search = dict.fromkeys(place for finding in findings for place in finding.search)
        commands = tuple(command for finding in findings for command in finding.commands)
        return cls(reason[0].upper() + reason[1:], suggestions, Advice(tuple(search), commands))


def listed(names: Sequence[str]) -> str:
    """"a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def then(commands: Sequence[str]) -> str:
    """Commands as one clause: "go to desk 1, then take mug 1 from desk 1"."""
    return ", then ".join(commands)
