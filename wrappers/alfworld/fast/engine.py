"""Fast engine: one integer holds the state; everything else is shared between engines of the same game."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.engine import NOTHING_HAPPENS, Fact, GameSpec
from align_echo.wrappers.alfworld.fast.program import GameProgram
from align_echo.wrappers.alfworld.fast.store import load_program


@dataclass(frozen=True, slots=True)
class GameState:
    """State of a game, and what can be seen in it."""

    game: GameSpec
    program: GameProgram
    bits: int

    @property
    def position(self) -> int:
        """Bits the future may depend on."""
        return self.bits & self.program.telling

    @property
    def commands(self) -> Iterable[str]:
        """Admissible commands in the library's order."""
        return self.program.menu(self.bits)

    def facts(self, predicates: Iterable[str] | None = None) -> list[Fact]:
        """Return the true facts, and those made false; restricted to `predicates` unless None."""
        return self.program.facts(self.bits, predicates)


class FastEngine:
    """Engine that plays one game at a time. Not shared between threads, but games are."""

    def __init__(self) -> None:
        self._state: GameState | None = None

    def close(self) -> None:
        """Forget the game."""
        self._state = None

    def reset(self, game: GameSpec) -> str:
        """Start a game from its initial state; return the intro. Raises `EngineError` if it cannot be compiled."""
        program = load_program(game)
        self._state = GameState(game, program, program.initial)
        return program.intro

    def step(self, command: str) -> str:
        """Carry out a command; return the answer. A command that is not admissible changes nothing."""
        sight = self.sight
        program = sight.program
        operator = program.menu(sight.bits).get(command.strip())
        if operator is None:
            return NOTHING_HAPPENS
        bits = program.apply(operator, sight.bits)
        self._state = GameState(sight.game, program, bits)
        return program.answer(operator, bits)

    def peek(self, command: str) -> str:
        """Return the answer to a command without carrying it out."""
        before = self.sight
        answer = self.step(command)
        self._state = before
        return answer

    @property
    def won(self) -> bool:
        """Return True if the goal holds."""
        return self.sight.program.won(self.sight.bits)

    @property
    def admissible(self) -> tuple[str, ...]:
        """Admissible commands, sorted."""
        return self.sight.program.commands(self.sight.bits)

    @property
    def sight(self) -> GameState:
        """Present state. Raises `EngineError` before a reset."""
        if self._state is None:
            raise EngineError("no game is loaded: call reset() first")
        return self._state

    @property
    def names(self) -> Mapping[str, str]:
        """Display name of every entity, by id."""
        return self.sight.program.names

    def restore(self, sight: GameState) -> None:
        """Return to a state, possibly another fast engine's."""
        self._state = sight
