"""What plays a game of ALFWorld: the surface that its two engines share. The choice between them is in `engines.py`."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

NOTHING_HAPPENS = "Nothing happens."

Fact = tuple[str, tuple[str, ...]]
"""Predicate and the ids of its arguments."""


@dataclass(frozen=True)
class Game:
    """The three texts of a `game.tw-pddl`; `cache` is a folder that remembers what is made of them, None for none."""

    domain: str
    grammar: str
    problem: str
    cache: Path | None = None

    @property
    def bytes(self) -> int:
        """What the texts take in memory."""
        return sum(map(sys.getsizeof, (self.domain, self.grammar, self.problem)))


class Sight(Protocol):
    """One state of a game: what can be seen in it, now or later, and what `GameEngine.restore` comes back to."""

    @property
    def position(self) -> Hashable | None:
        """What tells this state from others of its game; None where that is not known (`TextEnv.position`)."""

    @property
    def commands(self) -> Iterable[str]:
        """Admissible commands, each once, in the order in which the engine finds them."""

    def facts(self, predicates: Iterable[str] | None = None) -> list[Fact]:
        """What is true, and as `not_...` what an action made false; of some predicates only, if they are named."""


class GameEngine(Protocol):
    """Plays one game at a time. Not shared between threads. Every method but `reset` raises `EngineError` before it."""

    def close(self) -> None:
        """Give back what the engine holds. A later reset brings it to life again."""

    def reset(self, game: Game) -> str:
        """Start a game from its initial state; returns the intro with the goal. Raises `EngineError`."""

    def step(self, command: str) -> str:
        """Carry out a command; returns what happened. A command that is not admissible changes nothing."""

    def peek(self, command: str) -> str:
        """What a command would answer, without doing it."""

    @property
    def won(self) -> bool:
        """The goal holds."""

    @property
    def admissible(self) -> tuple[str, ...]:
        """Admissible commands, sorted."""

    @property
    def sight(self) -> Sight:
        """The present state; good for every later `restore` of an engine of the same kind."""

    @property
    def names(self) -> Mapping[str, str]:
        """What every entity is called in text, by its id."""

    def restore(self, sight: Any) -> None:
        """Go to a state."""
