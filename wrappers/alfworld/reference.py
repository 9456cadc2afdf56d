"""Reference engine: TextWorld's own PDDL environment under ALFWorld's demangler, unmodified.

It takes seconds to load a game and tens of milliseconds a step, and restores a state by replaying from the start. Its
parsers and its translator are process-wide, so one engine works at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.oracle import NOTHING_HAPPENS, Fact, GameEngine, GameSpec


@dataclass(frozen=True)
class ReplayState:
    """State: the commands from the game's start to it, and TextWorld's output for it."""

    game: GameSpec
    played: tuple[str, ...]
    commands: tuple[str, ...]
    all_facts: tuple[Fact, ...]

    position = None

    def facts(self, predicates: Iterable[str] | None = None) -> list[Fact]:
        """Return the true facts, and those made false; restricted to `predicates` unless None."""
        wanted = None if predicates is None else frozenset(predicates)
        return [fact for fact in self.all_facts if wanted is None or fact[0] in wanted]


class ReferenceEngine:
    """Engine that plays one game at a time. Not shared between threads."""

    def __init__(self) -> None:
        self._env: Any = None
        self._game: GameSpec | None = None
        self._state: Any = None
        self._played: tuple[str, ...] = ()

    def close(self) -> None:
        """Forget the game."""
        self._env = self._game = self._state = None

    def reset(self, game: GameSpec) -> str:
        """Start a game from its initial state; return the intro. Raises `EngineError` if it does not load."""
        self._state = _alone(lambda: self._load(game))
        self._game, self._played = game, ()
        return str(self._state.feedback)

    def step(self, command: str) -> str:
        """Carry out a command; return the answer. A command that is not admissible changes nothing."""
        env, _ = self._running()
        self._state = _alone(lambda: env.step(command))[0]
        answer = str(self._state.feedback)
        if answer != NOTHING_HAPPENS:
            self._played = (*self._played, command)
        return answer

    def peek(self, command: str) -> str:
        """Return the answer to a command; the game is then replayed up to this point."""
        before = self.sight
        answer = self.step(command)
        if answer != NOTHING_HAPPENS:
            self.restore(before)
        return answer

    @property
    def won(self) -> bool:
        """Return True if the goal holds."""
        return bool(self._running()[1]["won"])

    @property
    def admissible(self) -> tuple[str, ...]:
        """Admissible commands, sorted."""
        return tuple(self._running()[1]["admissible_commands"])

    @property
    def sight(self) -> ReplayState:
        """Present state."""
        state = self._running()[1]
        assert self._game is not None
        facts = tuple((fact.name, tuple(fact.names)) for fact in state["_facts"])
        return ReplayState(self._game, self._played, tuple(dict.fromkeys(state["_valid_commands"])), facts)

    @property
    def names(self) -> Mapping[str, str]:
        """Display name of every entity, by id."""
        return {name: str(info.name) for name, info in self._running()[1]["_entity_infos"].items()}

    def restore(self, sight: ReplayState) -> None:
        """Replay a game up to a state."""
        self.reset(sight.game)
        for command in sight.played:
            self.step(command)

    def _running(self) -> tuple[Any, Any]:
        if self._state is None:
            raise EngineError("no game is loaded: call reset() first")
        return self._env, self._state

    def _load(self, game: GameSpec) -> Any:
        if self._env is None:
            oracle.load("alfworld.agents.environment.alfred_tw_env")
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld.envs import PddlEnv

            infos = textworld.EnvInfos(won=True, admissible_commands=True, facts=True)
            self._env = AlfredDemangler(PddlEnv(infos), shuffle=False)
        if game != self._game:
            texts = {"pddl_domain": game.domain, "grammar": game.grammar, "pddl_problem": game.problem}
            self._env.load(texts)
        return self._env.reset()


def _alone(call: Callable[[], Any]) -> Any:
    """Run a call of TextWorld exclusively and preserve `sys.argv`."""
    from align_echo.wrappers.alfworld.grammar import PARSING
    from align_echo.wrappers.alfworld.translation import TRANSLATING

    with PARSING, TRANSLATING:
        argv = sys.argv
        try:
            return call()
        except (Exception, SystemExit) as error:
            raise EngineError(f"TextWorld failed: {type(error).__name__}: {error}".splitlines()[0]) from error
        finally:
            sys.argv = argv


# ---------------------------------------------------------------- ALFWorld's two engines by name


def _fast() -> GameEngine:
    from align_echo.wrappers.alfworld.fast.engine import FastEngine

    return FastEngine()


def _textworld() -> GameEngine:
    oracle.require_packages("ALFWorld's engine textworld")

    return ReferenceEngine()


_ENGINES: dict[str, Callable[[], GameEngine]] = {"fast": _fast, "textworld": _textworld}


def make_engine(name: str) -> GameEngine:
    """Make an engine by name. Raises `UsageError` for an unknown name, and `MissingExtraError`."""
    if name not in _ENGINES:
        raise UsageError(f"ALFWorld has no engine {name!r}; it has {', '.join(_ENGINES)}")
    return _ENGINES[name]()
