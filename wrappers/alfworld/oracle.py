"""Ground truth about a running episode: the expert's next action, and the distance to the goal.

The expert has to follow the whole episode (it keeps notes), but only catches up on demand. Distances are exact.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from align_echo.base.dice import Dice
from align_echo.errors import EngineError, install_line, require
from align_echo.wrappers.alfworld.routes import TaskParameters, shortest_route

# ---------------------------------------------------------------- what every engine does

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


# ---------------------------------------------------------------- modules of ALFWorld's own package, an extra

EXTRA = "alfworld"
PACKAGES = ("alfworld", "textworld", "fast_downward")
"""Packages of the extra, by their import names."""

TOOLS = "it builds a planner from source: have a C++ compiler and cmake; for CMake 4, CMAKE_POLICY_VERSION_MINIMUM=3.5"
"""Requirements for installing the extra: the planner has no wheels."""

_LOCK = threading.RLock()
_VARIABLE = "ALFWORLD_DATA"


def require_packages(feature: str) -> None:
    """Check that ALFWorld, TextWorld and their planner are installed. Raises `MissingExtraError` naming the feature."""
    require(feature, EXTRA, PACKAGES, TOOLS)


def load(module: str) -> ModuleType:
    """Import a module of ALFWorld without its side effects. Raises `EngineError` if the import fails."""
    with _LOCK:  # also for the lookup: `sys.modules` lists modules that another thread has half imported
        if module in sys.modules:
            return sys.modules[module]
        with _own_environment():
            try:
                return importlib.import_module(module)
            except ImportError as error:
                raise EngineError(f"ALFWorld does not import ({error}): {install_line(EXTRA)}") from error


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Point ALFWorld's import at a temporary folder, then restore the variable."""
    before = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = before


def configured_data() -> str | None:
    """Return `$ALFWORLD_DATA` as the user set it, also while another thread imports ALFWorld."""
    with _LOCK:
        return os.environ.get(_VARIABLE)


# ---------------------------------------------------------------- ALFWorld's handcoded expert, made reproducible

FACTS_READ = ("holds", "inreceptacle", "ishot", "iscool", "isclean")
"""Facts the expert reads."""

MOST_STEPS = 200
ATTEMPTS = 3
"""Calls per step. The expert may first want to shut furniture elsewhere; on a second call it drops the idea."""


class HandcodedExpert:
    """Expert for one episode. Pass every step in order to `follow`; it returns the next action or None."""

    def __init__(self, parameters: TaskParameters, intro: str) -> None:
        """Start with an episode's task and intro. Raises `MissingExtraError` if ALFWorld's package is not installed."""
        require_packages("ALFWorld's expert")
        self._policy = _policy_class(parameters.task_type)(asdict(parameters), max_steps=MOST_STEPS)
        self._policy.observe(intro)
        self._steps = 0

    def follow(self, action: str, feedback: str, commands: Iterable[str], facts: Sequence[Fact]) -> str | None:
        """Return the expert's next action, None if it has none.

        Arguments: the last action, the engine's answer to it, the commands possible next, and the facts of
        `FACTS_READ`.
        """
        self._steps += 1
        from textworld.logic import Proposition, Variable

        admissible = list(commands)
        state = {
            "feedback": feedback,
            "admissible_commands": list(admissible),
            "facts": [Proposition(name, [Variable(a, a) for a in names]) for name, names in facts],
        }
        last = self._as_movement(action)
        for _ in range(ATTEMPTS):
            try:
                advice: str = self._policy.act(state, last)
            except Exception:  # whatever its heuristics run into: an empty list, a missing key, its own time-out
                return None
            if advice == last:
                return Dice(f"expert {self._steps}").pick(sorted(admissible))
            if advice.startswith("go to ") and advice not in admissible:
                advice = "examine " + advice.removeprefix("go to ")
            if advice in admissible:
                return advice
            last = "look"
        return None

    def _as_movement(self, action: str) -> str:
        """Translate examining nearby furniture into going there; the expert does not know this case."""
        name = action.removeprefix("examine ")
        if action != name and name in self._policy.receptacles and name != self._policy.curr_recep:
            return f"go to {name}"
        return action


@functools.cache
def _policy_class(task_type: str) -> Any:
    module = load("alfworld.agents.expert.handcoded_expert_tw")
    base = module.HandCodedTWAgent().get_task_policy({"task_type": task_type})

    class RepeatablePolicy(base):  # type: ignore[misc, valid-type]
        def get_next_subgoal(self) -> Any:
            action, parameter, objects = super().get_next_subgoal()
            return action, parameter, objects[:1]

        def update_state_tracking(self, game_state: Any, last_action: str) -> None:
            if last_action.startswith("move "):
                last_action = "put " + last_action.removeprefix("move ")
            super().update_state_tracking(game_state, last_action)

    return RepeatablePolicy


# ---------------------------------------------------------------- ground truth about a running episode


@dataclass(frozen=True)
class EpisodeStep:
    """Step and the state after it, kept so that the expert can catch up later."""

    action: str
    feedback: str
    sight: GameView


class HouseOracle:
    """Oracle over one episode of an engine; every action must be passed to `record`."""

    def __init__(self, engine: GameEngine, intro: str, trajectory: dict[str, Any]) -> None:
        """Start an episode. `trajectory` is the content of traj_data.json. Raises `KeyError` if it lacks a task
        parameter."""
        self._engine = engine
        self._intro = intro
        self._parameters = TaskParameters.read(trajectory)
        self._moments: list[EpisodeStep] = []
        self._followed = 0
        self._expert: HandcodedExpert | None = None
        self._advice: str | None = None
        self.record("look", intro)

    def record(self, action: str, feedback: str) -> None:
        """Record an action that was carried out or refused."""
        self._moments.append(EpisodeStep(action, feedback, self._engine.sight))

    @property
    def moments(self) -> tuple[EpisodeStep, ...]:
        """Recorded moments, in order."""
        return tuple(self._moments)

    def rewind(self, moments: tuple[EpisodeStep, ...]) -> None:
        """Reset the record to earlier moments."""
        self._moments = list(moments)
        self._followed = 0
        self._expert = None
        self._advice = None

    def handcoded_action(self) -> str | None:
        """Return the handcoded expert's next action; None if it has none."""
        if self._expert is None:
            self._expert = HandcodedExpert(self._parameters, self._intro)
        for moment in self._moments[self._followed :]:
            facts = self._facts(moment.sight)
            self._advice = self._expert.follow(moment.action, moment.feedback, moment.sight.commands, facts)
            self._followed += 1
        return self._advice

    def expert_action(self) -> str | None:
        """Return the handcoded expert's next action, or the first of a shortest route if it has none; None once won."""
        if self._engine.won:
            return None
        action = self.handcoded_action()
        if action is not None:
            return action
        route = self.route()
        return route[0] if route else None

    def distance(self) -> int | None:
        """Return the least number of actions to the goal; 0 once won, None if it cannot be reached."""
        route = self.route()
        return None if route is None else len(route)

    def route(self) -> list[str] | None:
        """Return an exact shortest route to the goal; [] once won, None if it cannot be reached."""
        if self._engine.won:
            return []
        return shortest_route(self._engine.sight.facts(), self._engine.names, self._parameters)

    def _facts(self, sight: GameView) -> list[Fact]:
        """Return the facts the expert reads, with the names it knows."""
        names = self._engine.names
        return sorted(
            (predicate, tuple(names[name].strip() for name in arguments))
            for predicate, arguments in sight.facts(FACTS_READ)
        )
