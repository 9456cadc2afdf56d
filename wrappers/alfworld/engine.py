"""Interface of an engine for ALFWorld's games, shared by the two engines. `engines.py` chooses between them."""

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
class GameSpec:
    """Three texts of a `game.tw-pddl`; `cache` is a folder for compiled forms, None for no cache."""

    domain: str
    grammar: str
    problem: str
    cache: Path | None = None

    @property
    def bytes(self) -> int:
        """Size of the texts in memory."""
        return sum(map(sys.getsizeof, (self.domain, self.grammar, self.problem)))


class GameView(Protocol):
    """State of a game: what can be seen in it, and the target of `GameEngine.restore`."""

    @property
    def position(self) -> Hashable | None:
        """Key of this state among the states of its game; None if unknown (`TextEnv.position`)."""

    @property
    def commands(self) -> Iterable[str]:
        """Admissible commands, each once, in the engine's own order."""

    def facts(self, predicates: Iterable[str] | None = None) -> list[Fact]:
        """Return the facts that are true, and as `not_...` those an action made false; restricted to `predicates`
        unless None."""


class GameEngine(Protocol):
    """Engine that plays one game at a time. Not shared between threads. Every method but `reset` raises `EngineError`
    before it."""

    def close(self) -> None:
        """Release the engine's resources. A later reset starts it again."""

    def reset(self, game: GameSpec) -> str:
        """Start a game from its initial state; return the intro with the goal. Raises `EngineError`."""

    def step(self, command: str) -> str:
        """Carry out a command; return the answer. A command that is not admissible changes nothing."""

    def peek(self, command: str) -> str:
        """Return the answer to a command without carrying it out."""

    @property
    def won(self) -> bool:
        """Return True if the goal holds."""

    @property
    def admissible(self) -> tuple[str, ...]:
        """Admissible commands, sorted."""

    @property
    def sight(self) -> GameView:
        """Present state; valid for every later `restore` of an engine of the same kind."""

    @property
    def names(self) -> Mapping[str, str]:
        """Display name of every entity, by id."""

    def restore(self, sight: Any) -> None:
        """Return to a state."""
