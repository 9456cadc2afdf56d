"""ALFWorld as a `TextEnv`: the real engine's text, turns and step limit, an oracle, and exact snapshots.

The initial observation is the usual one for ALFWorld's agents: the engine's intro without its banner, a line with the
furniture and a line with the task. All other text is the engine's, unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar

from align_echo.base.files import cache_folder
from align_echo.errors import EngineError, UsageError
from align_echo.types import AgentView
from align_echo.wrappers.alfworld.data import GameSource, read_json
from align_echo.wrappers.alfworld.oracle import EpisodeStep, GameSpec, HouseOracle
from align_echo.wrappers.alfworld.reference import make_engine
from align_echo.wrappers.alfworld.routes import BeliefState, entity_name, read_goal
from align_echo.wrappers.alfworld.spec import CONTRACT, GAME, STEP_LIMIT, TRAJECTORY, is_invalid
from align_echo.wrappers.pool import memory
from align_echo.wrappers.text_env import EngineState, TextEnv

# ---------------------------------------------------------------- decide if an action in ALFWorld searches

EXAMINE = "examine "
LOOKING = ("go to ", "open ", EXAMINE)
"""Prefixes of actions that may show the contents of furniture."""


def explores(view: AgentView, action: str, answer: str = "") -> bool:
    """Check if an ALFWorld action looks into new furniture while an object of the task is still unseen.

    It reads only the agent's text, so it does not see if the action is refused. Going to a piece of furniture counts
    once; opening it counts until its inside was seen. Examining shows furniture at the agent's place: it counts if the
    engine's `answer` reports for the first time what is there, or that the furniture is closed.
    """
    goal = read_goal(view.goal)
    command = action.strip()
    verb = next((start for start in LOOKING if command.startswith(start)), None)
    if goal is None or verb is None:
        return False
    furniture = command.removeprefix(verb)
    belief = BeliefState.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {item for items in belief.contents.values() for item in items}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [entity_name(item) for item in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    known = {"go to ": furniture in stood, "open ": False, EXAMINE: furniture in belief.closed}
    fresh = furniture not in belief.contents and not known[verb]
    belief.update(answer, goal.dest)
    shows = verb != EXAMINE or furniture in belief.contents or furniture in belief.closed
    return missing and fresh and shows


# ---------------------------------------------------------------- ALFWorld as a `TextEnv`

T = TypeVar("T")
R = TypeVar("R")

TASK_PREFIX = "Your task is to: "


class AlfworldEnv(TextEnv):
    """Environment over one split of ALFWorld. Not shared between threads: each needs its own."""

    in_memory = True

    def __init__(self, source: GameSource, split: str, step_limit: int | None = None, engine: str = "fast") -> None:
        """Open a split. `engine` is "fast" or "textworld".

        Raises `MissingDataError` if the source has no such split, `UsageError` for a step limit below 1 or an unknown
        engine.
        """
        limit = STEP_LIMIT if step_limit is None else step_limit
        super().__init__(tuple(source.ids(split)), CONTRACT, limit)
        self._source = source
        self._engine = make_engine(engine)
        self._oracle: HouseOracle | None = None
        self._goal = ""
        self._task_type = ""

    @property
    def goal(self) -> str:
        return self._goal

    @property
    def task_type(self) -> str:
        return self._task_type

    def oracle(self) -> HouseOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        if self._oracle is None:
            raise UsageError("call reset() before oracle()")
        return self._oracle

    def refuses(self, observation: str) -> bool:
        """Check if the engine's text is a refusal."""
        return is_invalid(observation)

    def explores(self, view: AgentView, action: str, observation: str | None = None) -> bool:
        """Check if an action looks into new furniture while an object of the task is still unseen.

        An examining action without a known answer is tried out, because only its answer decides. Raises `EngineError`.
        """
        if observation is None and action.strip().startswith(EXAMINE) and not self.over:
            before = self.snapshot()
            try:
                observation, _, _, _, _ = self.step(action)
            finally:
                self.restore(before)
        return explores(view, action, observation or "")

    def position(self) -> Hashable | None:
        """Return the engine's key of the present state. Raises `EngineError` before a reset."""
        return self._engine.sight.position

    def opening(self, observation: str) -> tuple[str, str]:
        """Return the line with the furniture and the line with the task, as in ALIGN's own runs."""
        room, _, task = observation.partition("\n")
        return room.strip(), task.strip()

    def close(self) -> None:
        """Release the engine. Only `reset` starts the environment again."""
        self._over = True
        self._engine.close()

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        if task_id not in self._known:
            raise UsageError(f"there is no task {task_id!r} in this split; see tasks() for the ids")
        folder = self._source.folder(task_id)
        trajectory = read_json(folder / TRAJECTORY)
        intro = _call_engine(self._engine.reset, _game(folder / GAME))
        try:
            self._oracle = HouseOracle(self._engine, intro, trajectory)
            self._task_type = str(trajectory["task_type"])
        except KeyError as error:
            raise EngineError(f"{folder / TRAJECTORY} lacks {error}") from error
        self._goal = intro.rpartition(TASK_PREFIX)[2].strip()
        return self._answer("\n".join(part.strip() for part in intro.split("\n\n")[1:]))

    def _act(self, action: str) -> EngineState:
        answer = _call_engine(self._engine.step, action)
        self.oracle().record(action.strip(), answer)
        return self._answer(answer)

    def _probe(self, action: str) -> str:
        return _call_engine(self._engine.peek, action)

    def _answer(self, observation: str) -> EngineState:
        won = self._engine.won
        return EngineState(observation, float(won), won, won, self._engine.admissible)

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.task_ids)

    def _save(self) -> tuple[EpisodeStep, ...]:
        return self.oracle().moments

    def _restore(self, task_id: str, saved: tuple[EpisodeStep, ...]) -> None:
        if task_id != self._task_id:
            self._load(task_id)
        _call_engine(self._engine.restore, saved[-1].sight)  # the oracle records the state after every action
        self.oracle().rewind(saved)


def _call_engine(call: Callable[[T], R], argument: T) -> R:
    """Call the engine, turning its errors into `EngineError`."""
    try:
        return call(argument)
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"ALFWorld's engine failed: {type(error).__name__}: {error}".splitlines()[0]) from error


def _game(file: Path) -> GameSpec:
    stamp = file.stat()
    key = (file, stamp.st_mtime_ns, stamp.st_size)
    return memory().recall(key, lambda: _read_game(file), lambda game: game.bytes)


def _read_game(path: Path) -> GameSpec:
    record = read_json(path)
    try:
        texts = record["pddl_domain"], record["grammar"], record["pddl_problem"]
    except KeyError as error:
        raise EngineError(f"{path} lacks {error}") from error
    return GameSpec(*texts, cache=cache_folder() / "alfworld" / "compiled")
