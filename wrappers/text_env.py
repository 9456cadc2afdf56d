"""Contract of all text environments: a `gymnasium.Env` over strings with turns, a score and an oracle.

A subclass supplies the engine (`_load`, `_act`, `_probe`). This class owns turns, the step limit, `info`, and the split
between the agent's own turns (`step`, `pass_turn`) and the read-only looks of an interface (`probe`). A reward is the
increase of the score, which lies in [0, 1].
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar, runtime_checkable

import gymnasium as gym
import numpy as np

from align_echo.errors import AlignEchoError, EngineError, UsageError
from align_echo.interface.contract import InterfaceContract
from align_echo.types import AgentView

MAX_TEXT = 100_000
"""Longest observation or action, in characters; longer actions are refused, longer observations cut."""

TEXT_CHARACTERS = "".join(map(chr, range(32, 127))) + "\n\t"


Answer = TypeVar("Answer")


class Oracle(Protocol):
    """Ground truth about the current state. For labels and tests; never shown to an agent."""

    def expert_action(self) -> str | None:
        """Return the expert's next action from this state, None if it has none (won, or lost)."""

    def distance(self) -> int | None:
        """Return the planner's least number of actions to the goal; None if it cannot be reached."""


@runtime_checkable
class TryingOracle(Protocol):
    """Oracle that knows one way to the goal, and measures distances beside it by trying."""

    def costs_at_most(self, action: str, allowance: int) -> bool | None:
        """Check if `action` costs the expert at most `allowance` extra actions on the way to the goal, itself included.
        None if the expert does not reach the goal from this state."""


class StepInfo(TypedDict):
    """`info` of every text environment."""

    task_id: str
    task_type: str
    goal: str
    score: float
    won: bool
    turns: int
    engine_calls: int
    raw_observation: str | None
    raw_score: NotRequired[float]
    admissible_actions: NotRequired[tuple[str, ...]]
    rules: NotRequired[str]
    interface_error: NotRequired[str]
    violations: NotRequired[tuple[Any, ...]]
    forged: NotRequired[tuple[str, ...]]
    hints: NotRequired[tuple[Any, ...]]


@dataclass(frozen=True)
class EngineState:
    """Engine's output after reset or an action. `admissible_actions` is None if the engine does not list them.

    `raw_score` is the engine's own score if its range is not [0, 1], mapped to [0, 1] by `score`; or a second score, if
    there are two. `truncated`: the engine itself cut the episode short.
    """

    observation: str
    score: float = 0.0
    won: bool = False
    done: bool = False
    admissible_actions: tuple[str, ...] | None = None
    raw_score: float | None = None
    truncated: bool = False


@dataclass(frozen=True)
class ActionOptions:
    """Possible commands according to the engine's own API: templates with {0}, {1} ... and names to fill in."""

    templates: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """Moment of an episode, for `restore`. `engine` is the engine's own saved state."""

    task_id: str
    state: EngineState
    turns: int
    engine_calls: int
    over: bool
    engine: Any


class TextEnv(gym.Env[str, str], abc.ABC):
    """Base of all text environments. `reset(seed=, options={"task": id})`; without a task, the seed draws it."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - gymnasium's own convention

    contract: InterfaceContract
    step_limit: int

    in_memory = False
    """Whether all engine state is in this process's memory, so that a forked copy of the process can play on alone."""

    def __init__(self, task_ids: tuple[str, ...], contract: InterfaceContract, step_limit: int) -> None:
        if not task_ids:
            raise UsageError("there is no task to play: the split is empty")
        if step_limit < 1:
            raise UsageError(f"step_limit must be at least 1, not {step_limit}")
        self.task_ids = task_ids
        self.contract = contract
        self.step_limit = step_limit
        self.render_mode: str | None = "ansi"
        self.observation_space = gym.spaces.Text(MAX_TEXT, min_length=0, charset=TEXT_CHARACTERS)
        self.action_space = gym.spaces.Text(200, min_length=0, charset=TEXT_CHARACTERS)
        self._task_id = ""
        self._state = EngineState("")
        self._turns = 0
        self._engine_calls = 0
        self._over = True

    # ------------------------------------------------------------ the engine, by the subclass

    @abc.abstractmethod
    def _load(self, task_id: str) -> EngineState:
        """Start a task from its initial state."""

    @abc.abstractmethod
    def _act(self, action: str) -> EngineState:
        """Carry out the agent's action."""

    @abc.abstractmethod
    def _probe(self, action: str) -> str:
        """Answer one of the contract's read-only actions without changing anything."""

    def _answer_look(self, action: str) -> str:
        """Answer a look of interface code, if not by `_probe`."""
        return self._probe(action)

    @property
    @abc.abstractmethod
    def goal(self) -> str:
        """Task description in the environment's own words."""

    @property
    @abc.abstractmethod
    def task_type(self) -> str:
        """Type of the task, for tables by type."""

    @abc.abstractmethod
    def oracle(self) -> Oracle:
        """Return ground truth about the current state."""

    @abc.abstractmethod
    def _save(self) -> Any:
        """Return the engine's present state, for `_restore`; it must stay valid after further actions and other tasks.
        """

    @abc.abstractmethod
    def _restore(self, task_id: str, saved: Any) -> None:
        """Bring the engine back to a saved state."""

    @property
    def fork_way(self) -> str:
        """How a state is returned to, in words."""
        return "by the engine's own saved states"

    @property
    def replays(self) -> bool:
        """True if a state is returned to by playing its actions once more; known after the first return."""
        return False

    def refuses(self, observation: str) -> bool:
        """Check if an observation says the engine refused the action; False if no text shows it."""
        return False

    @property
    def declares_refusals(self) -> bool:
        """Whether the environment tells which observations refuse an action."""
        return type(self).refuses is not TextEnv.refuses

    def explores(self, view: AgentView, action: str, observation: str | None = None) -> bool:
        """Check if an action searches: it looks in a new place for an object that the task needs.

        `observation` is the answer to the action, if known. The state does not change. False in worlds without search.
        """
        return False

    def offered(self) -> ActionOptions | None:
        """Return the templates and names of the present state; None if the engine's API has none."""
        return None

    def position(self) -> Hashable | None:
        """Return a value that determines all later answers of the engine, or None if there is none.

        Moments of a task with equal positions list the same actions and answer alike, however they were reached.
        """
        return None

    def as_read(self, action: str) -> str:
        """Return the action as the engine reads it: equivalent actions give the same text."""
        return action.strip()

    def read_only(self, action: str) -> str:
        """Return the matching read-only action of the contract, as written or as the engine reads it; "" if none
        matches."""
        if not self.contract.read_only_actions:
            return ""
        return next((form for form in (action.strip(), self.as_read(action)) if self.contract.is_read_only(form)), "")

    def opening(self, observation: str) -> tuple[str, str]:
        """Return the initial observation and the task, as interface code of this environment receives them."""
        return observation, self.goal

    def extra_arguments(self) -> dict[str, str | int]:
        """Return the contract's extra arguments by name. Available after a task started."""
        return {}

    # ------------------------------------------------------------ gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start `options["task"]`, or a task drawn with the seed.

        Raises `UsageError` for an unknown task, `EngineError` if the engine breaks.
        """
        super().reset(seed=seed)
        unknown = set(options or {}) - {"task"}
        if unknown:
            raise UsageError(f"unknown reset option {sorted(unknown)[0]!r}; the only option is 'task'")
        task = (options or {}).get("task")
        if task is None:
            task = self.task_ids[int(self.np_random.integers(len(self.task_ids)))]
        self._over = True  # if the task does not exist, the previous episode cannot go on
        self._task_id = str(task)
        self._state = self._ask(self._load, self._task_id)
        self._turns = 0
        self._engine_calls = 0
        self._over = False
        return self._state.observation, self.info(self._state.observation)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn of the agent. Raises `EngineError` if the engine breaks, `UsageError` before a reset."""
        self._check_running()
        if not isinstance(action, str | np.str_):
            raise UsageError(f"an action is text, not {type(action).__name__}")
        before = self._state.score
        self._state = self._ask(self._act, str(action)[:MAX_TEXT])
        self._engine_calls += 1
        return self._end_turn(self._state.observation, self._state.score - before, self._state.observation)

    def pass_turn(self) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Count a turn without an engine call: the interface answered alone, or there was no action."""
        self._check_running()
        return self._end_turn(self._state.observation, 0.0, None)

    def probe(self, action: str) -> str:
        """Look without acting or taking a turn. Raises `UsageError` unless the action is a read-only one of the
        contract."""
        return self._check_and_look(self._probe, action)

    def look(self, action: str) -> str:
        """Answer a look of interface code: like `probe`, unless the engine's own users know another answer."""
        return self._check_and_look(self._answer_look, action)

    def render(self) -> str:
        """Return the last observation."""
        return self._state.observation

    def snapshot(self) -> Snapshot:
        """Return this moment of the episode."""
        self._check_started()
        return Snapshot(self._task_id, self._state, self._turns, self._engine_calls, self._over, self._save())

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a moment of this or another episode of this environment."""
        self._restore(snapshot.task_id, snapshot.engine)
        self._task_id = snapshot.task_id
        self._state = snapshot.state
        self._turns = snapshot.turns
        self._engine_calls = snapshot.engine_calls
        self._over = snapshot.over

    # ------------------------------------------------------------ state

    @property
    def state(self) -> EngineState:
        """Engine's last answer to a reset or to the agent's own action."""
        return self._state

    @property
    def interface_score(self) -> float:
        """Score as interface code sees it, 1 for 100 points: the state's, or the one the engine's own users know."""
        return self._state.score

    @property
    def over(self) -> bool:
        """Return True if no turn can be taken: the episode has ended, or none has started."""
        return self._over

    @property
    def turns(self) -> int:
        """Turns of the agent since reset."""
        return self._turns

    @property
    def engine_calls(self) -> int:
        """Engine calls since reset: the agent's own and probes."""
        return self._engine_calls

    def info(self, raw_observation: str | None) -> dict[str, Any]:
        """Build a fresh `StepInfo` for the current state."""
        info = StepInfo(
            task_id=self._task_id,
            task_type=self.task_type,
            goal=self.goal,
            score=self._state.score,
            won=self._state.won,
            turns=self._turns,
            engine_calls=self._engine_calls,
            raw_observation=raw_observation,
        )
        if self._state.raw_score is not None:
            info["raw_score"] = self._state.raw_score
        if self._state.admissible_actions is not None:
            info["admissible_actions"] = self._state.admissible_actions
        return dict(info)

    def _check_and_look(self, answer: Callable[[str], str], action: str) -> str:
        self._check_running()
        if not self.contract.is_read_only(action):
            raise UsageError(f"{action!r} is not a read-only action of {self.contract.environment}")
        self._engine_calls += 1
        return self._ask(answer, action)

    def _end_turn(
        self, observation: str, reward: float, raw_observation: str | None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._turns += 1
        terminated = self._state.done
        truncated = not terminated and (self._state.truncated or self._turns >= self.step_limit)
        self._over = terminated or truncated
        return observation, float(reward), terminated, truncated, self.info(raw_observation)

    def _ask(self, call: Callable[[str], Answer], argument: str) -> Answer:
        """Call the engine; its own errors become an `EngineError`."""
        try:
            return call(argument)
        except AlignEchoError:
            raise
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            name = self.contract.environment
            raise EngineError(f"the engine of {name} failed: {type(error).__name__}: {reason}") from error

    def _check_started(self) -> None:
        if not self._task_id:
            raise UsageError("call reset() before step()")

    def _check_running(self) -> None:
        self._check_started()
        if self._over:
            raise EngineError("the episode is over: call reset()")
