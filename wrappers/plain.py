"""Any `gymnasium.Env` over strings as a text environment. A user's environment needs two methods.

`reset(seed=, options=)` gives a first text; `step(action)` gives the next text, a reward, terminated and truncated.
`info` may be empty. All else is declared in a `TextEnvironment`, or has a default:

- a task is a seed, or a value of one of `reset`'s options;
- the score is the return (the sum of rewards) scaled from `return_range` to [0, 1]. An episode is won if `info["won"]`
  says so; where `info` has no such entry, from a return of `won_at`;
- a state is restored by the declared `save` and `restore`. Without them it is restored from a copy of the environment
  where copies answer like the environment in a trial, or else by replaying the episode's actions from its reset. A
  different answer on replay is refused: such an environment can be played and measured, but not forked;
- admissible actions come from `info`, if it lists them.

Not here: lookup by name (`catalogue.py`).
"""

from __future__ import annotations

import math
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from pydantic import JsonValue

from align_echo.base.dice import drawn
from align_echo.errors import AlignEchoError, EngineError, UsageError, first_line
from align_echo.interface.contract import InterfaceContract
from align_echo.registry import with_article
from align_echo.wrappers.copies import CannotCopyError, CopyShelf, ForkWays, copied, draw_action, quiet_remains
from align_echo.wrappers.environment import EnvironmentSpec, always, never
from align_echo.wrappers.text_env import MAX_TEXT, Answer, EngineState, Oracle, TextEnv

ACTION_FORMAT = "One action a turn: a short command in plain text."
GOAL = "Get the highest return that this environment gives."
"""Goal shown to an agent if nothing else is known: true of every environment."""

TRAINING_TASKS = 20
"""Tasks of one iteration of ALIGN, as in its WebShop runs (appendix C.1)."""


def _seeds() -> dict[str, Sequence[object]]:
    return {"train": range(200), "test": range(200, 250)}


def _one_type(task_id: str) -> str:
    return "task"


@dataclass(frozen=True)
class TextEnvironment:
    """Declaration of a user's `gymnasium.Env` over strings. `make` builds it: its class, or a function.

    `splits` maps a split to its tasks: seeds of `reset`, or with `option` the values of that option of `reset`.
    Learning samples tasks from `train_split`; evaluation uses `test_split`. `info[admissible]` lists the actions the
    environment would accept. `is_invalid` tells from an observation if an action was refused; without it, refusals are
    inferred from the admissible actions or the answers, where possible (`align_echo/rollout/refusals.py`).
    `read_only_actions` change nothing (`{}` stands for an object).
    `expert(env)` returns an expert's next action in the present state or
    None; `distance(env)` returns the least number of actions to the goal.

    `save(env)` returns a state that later actions leave alone, and `restore(env, state)` goes back to it, also from
    another task; both get the environment as `make` returns it. With `global_random`, `random` and `numpy.random` are
    seeded by the task for each episode and are the caller's own again after each call: for an environment that draws
    from them. `tools` are the JSON schemas of the environment's own tools. `idle(env)` returns the reward of a turn
    without an action, as after a reply that cannot be read; such turns are not replayed, so it needs `save`.
    """

    make: Callable[[], gym.Env[str, str]]
    splits: Mapping[str, Sequence[object]] = field(default_factory=_seeds)
    option: str = ""
    train_split: str = "train"
    test_split: str = "test"
    return_range: tuple[float, float] = (0.0, 1.0)
    won_at: float | None = None
    step_limit: int = 50
    summary: str = ""
    goal: str = GOAL
    action_format: str = ACTION_FORMAT
    admissible: str = "admissible_actions"
    read_only_actions: tuple[str, ...] = ()
    task_type: Callable[[str], str] = _one_type
    is_invalid: Callable[[str], bool] | None = None
    expert: Callable[[Any], str | None] | None = None
    distance: Callable[[Any], int | None] | None = None
    save: Callable[[Any], Any] | None = None
    restore: Callable[[Any, Any], None] | None = None
    global_random: bool = False
    tools: tuple[Mapping[str, JsonValue], ...] = ()
    idle: Callable[[Any], float] | None = None

    def __post_init__(self) -> None:
        """Check the declaration. Raises `UsageError` if no episode could follow it."""
        self._check_kinds()
        low, high = self.return_range
        if not (low < high and math.isfinite(low) and math.isfinite(high)):
            raise UsageError(f"return_range goes from a lower to a higher return, not from {low} to {high}")
        if self.won_at is not None and not low < self.won_at <= high:
            raise UsageError(f"won_at is a return above {low} and at most {high}, not {self.won_at}")
        for split in (self.train_split, self.test_split):
            if split not in self.splits:
                raise UsageError(f"there is no split {split!r} among the declared {', '.join(self.splits)}")
        both = {*map(str, self.splits[self.train_split])} & {*map(str, self.splits[self.test_split])}
        if both and self.train_split != self.test_split:
            raise UsageError(f"the splits {self.train_split!r} and {self.test_split!r} share the task {min(both)!r}")
        for split, values in self.splits.items():
            if not values:
                raise UsageError(f"the split {split!r} names no task")
            if (twice := Counter(map(str, values)).most_common(1)[0])[1] > 1:
                raise UsageError(f"the split {split!r} names the task {twice[0]!r} {twice[1]} times")
            if not self.option and not all(isinstance(value, int) for value in values):
                raise UsageError(f"tasks of the split {split!r} are no seeds: name the option of reset that takes them")

    def _check_kinds(self) -> None:
        """Check the types of the fields. Raises `UsageError`."""
        if not callable(self.make):
            raise UsageError(
                "a TextEnvironment is given the class of an environment or a function that makes one, not "
                f"{str(self.make)[:40]!r}; for a registered id: lambda: gymnasium.make(ID)"
            )
        if not isinstance(self.step_limit, int) or self.step_limit < 1:
            raise UsageError(f"step_limit is a number of turns, 1 or more, not {self.step_limit!r}")
        if isinstance(self.read_only_actions, str):
            raise UsageError(f"read_only_actions are several texts: write ({self.read_only_actions!r},)")
        if (self.save is None) != (self.restore is None):
            raise UsageError("save and restore belong together: declare both, or neither")
        if self.idle is not None and self.save is None:
            raise UsageError("idle turns cannot be replayed: declare save and restore with idle")
        for field_name in ("task_type", "is_invalid", "expert", "distance", "save", "restore", "idle"):
            value = getattr(self, field_name)
            if value is not None and not callable(value):
                raise UsageError(f"{field_name} is a function, not {value!r}")

    def spec(self, name: str) -> EnvironmentSpec:
        """Return the specification of the environment under a name."""
        contract = InterfaceContract(
            environment=name,
            infer_rules_args=("init_obs", "task"),
            wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
            step_layout="single",
            read_only_actions=self.read_only_actions,
        )
        ways = ForkWays()

        def make_env(
            *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
        ) -> TextEnv:
            return PlainEnv(self, contract, split, self.step_limit if step_limit is None else step_limit, ways)

        def task_ids(*, split: str, data_root: Path | None) -> list[str]:
            if data_root is not None:
                raise UsageError(f"{name} has no data of its own: leave out the data folder")
            return [str(value) for value in self.splits[split]]

        def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
            ids = task_ids(split=self.train_split, data_root=data_root)
            return drawn(ids, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed}")

        return EnvironmentSpec(
            name=name,
            summary=self.summary or _read_summary(self.make),
            splits=tuple(self.splits),
            train_split=self.train_split,
            test_split=self.test_split,
            step_limit=self.step_limit,
            action_format=self.action_format,
            contract=contract,
            is_invalid=self.is_invalid,
            task_type=self.task_type,
            make_env=make_env,
            task_ids=task_ids,
            training_tasks=training_tasks,
            measures_distance=self.distance is not None,
            has_expert=always if self.expert is not None else never,
            tools=self.tools,
            declared={"return_range": [*self.return_range], "won_at": self.won_at, "step_limit": self.step_limit},
        )


def _read_summary(make: Callable[[], gym.Env[str, str]]) -> str:
    """Return the first line of an environment's docstring."""
    text = (make.__doc__ or "").strip() if isinstance(make, type) else ""
    return text.partition("\n")[0].rstrip(".") or "a gymnasium environment over text"


_Episode = tuple[tuple[str, str], ...]
"""Episode so far: each action and the resulting text, the first text with an empty action."""


@dataclass(frozen=True, eq=False)
class _SavedState:
    """State that the environment's own `save` returned, with what `PlainEnv` keeps of the episode."""

    state: Any
    played: _Episode
    goal: str
    earned: float
    chance: _Chance


SHAPES = {"reset": "(text, info)", "step": "(text, reward, terminated, truncated, info)"}
"""What each method of a plain environment returns; `info` is a dict."""

TRIAL_TASKS = 2
TRIAL_DRAWS = 4
TELLING_DRAWS = 2
TRIAL_TURNS = 8
MOST_TRIALS = 4
"""A trial of copies: tasks, most episodes drawn in each, episodes enough in which a state showed, turns of an episode;
and most trials where no state showed."""

_GENERATORS = threading.RLock()
"""Held while an environment draws from the process's generators, so that episodes in threads do not share draws."""


@dataclass(frozen=True)
class _Chance:
    """State of the process's generators, `random` and `numpy.random`."""

    python: Any
    numpy: Any

    @classmethod
    def now(cls) -> _Chance:
        """Return the present state."""
        return cls(random.getstate(), np.random.get_state())

    @classmethod
    def of(cls, task_id: str) -> _Chance:
        """Return a state that depends on the task alone."""
        seed = zlib.crc32(task_id.encode())
        return cls(random.Random(seed).getstate(), np.random.RandomState(seed).get_state())

    def use(self) -> None:
        """Set the generators to this state."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)


@dataclass(frozen=True, eq=False)
class _KeptCopy:
    """Copy of the environment in a state, with what `PlainEnv` keeps of the episode."""

    env: gym.Env[str, str]
    task_id: str
    played: _Episode
    goal: str
    earned: float
    says_won: bool | None
    chance: _Chance


def _ended(state: EngineState) -> bool:
    return state.done or state.truncated


def _shown(state: EngineState) -> tuple[object, ...]:
    """Return what a state shows of itself, without the score."""
    return state.observation, state.done, state.truncated, state.admissible_actions


class _DeclaredOracle:
    """Oracle from a declaration; it returns None for undeclared functions."""

    def __init__(self, declared: TextEnvironment, env: gym.Env[str, str]) -> None:
        self._declared = declared
        self._env = env

    def expert_action(self) -> str | None:
        """Return the declared expert's next action."""
        return None if self._declared.expert is None else self._declared.expert(self._env.unwrapped)

    def distance(self) -> int | None:
        """Return the declared distance."""
        return None if self._declared.distance is None else self._declared.distance(self._env.unwrapped)


def _make_env(declared: TextEnvironment, name: str) -> gym.Env[str, str]:
    """Make the plain environment. Errors of its own code become a one-line `EngineError`."""
    try:
        return declared.make()
    except AlignEchoError:
        raise
    except Exception as error:
        raise EngineError(f"{name} cannot be made: {type(error).__name__}: {first_line(error)}") from error


class PlainEnv(TextEnv):
    """Plain environment behind the contract of all text environments. Not shared between threads."""

    def __init__(
        self,
        declared: TextEnvironment,
        contract: InterfaceContract,
        split: str,
        step_limit: int,
        ways: ForkWays | None = None,
    ) -> None:
        """Make the environment. Raises `UsageError` if the result is no `gymnasium.Env`, `EngineError` if it cannot be
        made."""
        self._tasks = {str(value): value for value in declared.splits[split]}
        super().__init__(tuple(self._tasks), contract, step_limit)
        self._declared = declared
        self._inner = _make_env(declared, contract.environment)
        if not isinstance(self._inner, gym.Env):
            kind = with_article(type(self._inner).__name__)
            methods = ", ".join(f"{method}() that returns {shape}" for method, shape in SHAPES.items())
            raise UsageError(f"{contract.environment} makes {kind}, not a gymnasium.Env with {methods}")
        for method, shape in SHAPES.items():
            if getattr(type(self._inner.unwrapped), method) is getattr(gym.Env, method):
                raise UsageError(f"{contract.environment} has no {method}(): write one that returns {shape}")
        self._goal = declared.goal
        self._return = 0.0
        self._says_won: bool | None = None
        self._at_task = ""
        self._played: _Episode = ()
        self._chance = _Chance.of("")
        self._made = self._inner
        self._ways = ForkWays() if ways is None else ways
        self._shelf = CopyShelf()

    @property
    def declares_refusals(self) -> bool:
        """Whether the declaration says which answers refuse."""
        return self._declared.is_invalid is not None

    def refuses(self, observation: str) -> bool:
        return self._declared.is_invalid is not None and self._declared.is_invalid(observation)

    @property
    def goal(self) -> str:
        return self._goal

    @property
    def task_type(self) -> str:
        return self._declared.task_type(self._task_id)

    def oracle(self) -> Oracle:
        return _DeclaredOracle(self._declared, self._inner)

    def close(self) -> None:
        """Close the plain environment."""
        self._over = True
        self._shelf.kept.clear()
        self._inner.close()
        if self._made is not self._inner:
            self._made.close()

    @property
    def fork_way(self) -> str:
        if self._declared.save is not None:
            return "by the declared save and restore"
        if self._ways.copies:
            return "by copies, which answered like replays"
        why = f" ({self._ways.why_not})" if self._ways.why_not else ""
        return f"by replaying from the reset{why}"

    @property
    def replays(self) -> bool:
        return self._declared.save is None and not self._ways.copies

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        if task_id not in self._tasks:
            raise UsageError(f"there is no task {task_id!r} in this split; see tasks() for the ids")
        value, option = self._tasks[task_id], self._declared.option
        if option:
            arguments: dict[str, Any] = {"seed": 0, "options": {option: value}}
        else:
            arguments = {"seed": int(str(value))}
        self._played, self._at_task = (), task_id
        self._chance = _Chance.of(task_id)
        observation, info = self._answer_of("reset", lambda: self._inner.reset(**arguments))
        self._return = 0.0
        self._says_won = _read_won(info)
        self._goal = info["goal"] if isinstance(info.get("goal"), str) else self._declared.goal
        text = self._text(observation)
        self._played = (("", text),)
        return EngineState(text, self._score(), self._won, False, self._listed_actions(info), self._return)

    def _act(self, action: str) -> EngineState:
        played, self._played = self._played, ()  # of no known state, if the environment breaks here
        observation, reward, terminated, truncated, info = self._answer_of("step", lambda: self._inner.step(action))
        self._return += float(reward)
        self._says_won = _read_won(info)
        text = self._text(observation)
        self._played = (*played, (action, text))
        return EngineState(
            text, self._score(), self._won, bool(terminated), self._listed_actions(info), self._return, bool(truncated)
        )

    def pass_turn(self) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Count a turn without an action, at the declared price."""
        self._check_running()
        before = self._state.score
        if self._declared.idle is not None:
            self._return += float(self._declared.idle(self._inner))
            self._state = replace(self._state, score=self._score(), won=self._won, raw_score=self._return)
        return self._end_turn(self._state.observation, self._state.score - before, None)

    def _probe(self, action: str) -> str:
        """Answer a read-only action, then replay the episode up to this point."""
        before = self._save()
        text = self._act(action).observation
        self._restore(self._task_id, before)
        return text

    def _answer_of(self, method: str, call: Callable[[], Any]) -> Any:
        """Call a method of the environment. Raises `EngineError` or `UsageError` that name it and what it returns."""
        name, shape = self.contract.environment, SHAPES[method]
        try:
            answer = self._with_chance(call)
        except AlignEchoError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise EngineError(f"the engine of {name} failed in {method}(), which returns {shape}: {why}") from error
        if wrong := _wrong_kind(answer, shape):
            raise UsageError(f"{method}() of {name} returned {wrong}, not {shape}")
        return answer

    def _with_chance(self, call: Callable[[], Answer]) -> Answer:
        """Call the environment, with the episode's own state of the process's generators if it is declared so."""
        if not self._declared.global_random:
            return call()
        with _GENERATORS:
            outside = _Chance.now()
            self._chance.use()
            try:
                return call()
            finally:
                self._chance = _Chance.now()
                outside.use()

    def _save(self) -> _Episode | _SavedState:
        if self._declared.save is None:
            return self._played
        state = self._declared.save(self._inner)
        return _SavedState(state, self._played, self._goal, self._return, self._chance)

    def _restore(self, task_id: str, saved: _Episode | _SavedState) -> None:
        if isinstance(saved, _SavedState):
            if self._declared.restore is not None:
                self._declared.restore(self._inner, saved.state)
            self._played, self._goal, self._return = saved.played, saved.goal, saved.earned
            self._chance = saved.chance
            self._at_task = task_id
        elif task_id != self._at_task or saved != self._played:
            self._return_to(task_id, saved)

    def _return_to(self, task_id: str, played: _Episode) -> None:
        """Return to a state the cheapest way: onward from the present state, from a copy, or from the reset.

        Raises `EngineError` if the episode goes differently this time.
        """
        if self._ways.copies is None:
            self._try_copies(task_id, [action for action, _ in played[1:]])
        ways = self._ways
        turns = len(played)
        here = len(self._played)
        onward = here > 0 and task_id == self._at_task and played[:here] == self._played
        price = ways.reset_seconds + (turns - 1) * ways.step_seconds
        if onward and (turns - here) * ways.step_seconds <= price:
            price = (turns - here) * ways.step_seconds
        else:
            onward = False
        length, kept = self._shelf.longest(task_id, played) if ways.copies else (0, None)
        if kept is not None and ways.copy_seconds + (turns - length) * ways.step_seconds < price:
            price = ways.copy_seconds + (turns - length) * ways.step_seconds
            self._use(kept)
        elif not onward:
            opening = self._load(task_id).observation
            self._check_repeats(opening == played[0][1])
        for action, text in played[len(self._played) :]:
            self._check_repeats(self._act(action).observation == text)
        if ways.copies and price > 2 * ways.copy_seconds:
            self._shelf.put(task_id, played, self._keep(), ways.capacity)

    def _check_repeats(self, same: bool) -> None:
        if not same:
            self._played = ()
            raise EngineError(
                f"{self.contract.environment} does not repeat itself: the same task and actions gave another text, "
                "so its states cannot be come back to; let reset(seed=...) seed all of its chance"
            )

    # ------------------------------------------------------------ copies

    def _keep(self) -> _KeptCopy:
        """Copy the environment as it is. Raises `CannotCopyError`."""
        env, size = copied(self._inner)
        self._ways.copy_bytes = max(self._ways.copy_bytes, size)
        return _KeptCopy(env, self._at_task, self._played, self._goal, self._return, self._says_won, self._chance)

    def _use(self, kept: _KeptCopy) -> None:
        """Play on in a copy of a copy, which stays as it is."""
        self._inner = copied(kept.env)[0]
        self._at_task, self._played, self._goal = kept.task_id, kept.played, kept.goal
        self._return, self._says_won, self._chance = kept.earned, kept.says_won, kept.chance

    def _try_copies(self, task_id: str, said: Sequence[str]) -> None:
        """Find out if copies answer like the environment itself, in two tasks. The present state is lost.

        `said` are actions of the task that are known. Where none changes an answer, the next return tries again, a few
        times.
        """
        tasks = [task_id, *(task for task in self.task_ids if task != task_id)][:TRIAL_TASKS]
        ways = self._ways
        ways.trials += 1
        with quiet_remains():
            try:
                copied(self._inner)
                tried = [self._compare_in(task, said if task == task_id else ()) for task in tasks]
                if any(tried):
                    ways.copies = True
                elif ways.trials < MOST_TRIALS:
                    ways.why_not = "no action changed an answer so far, so copies could not be compared"
                else:
                    ways.refuse("no action changed an answer, so copies could not be compared")
            except CannotCopyError as error:
                ways.refuse(str(error))
            except Exception as error:  # of the environment's own code: a replay shows it, if it comes again
                ways.refuse(f"it broke in the trial of copies ({type(error).__name__})")
        self._played = ()
        self._inner = self._inner if ways.copies else self._made

    def _compare_in(self, task: str, said: Sequence[str]) -> bool:
        """Compare copies with the environment in a task, and check if a comparison could have told them apart.

        Raises `CannotCopyError` for a copy that answers otherwise.
        """
        telling = 0
        episodes = (self._draw_episode(task, random.Random(f"copies/{task}/{draw}")) for draw in range(TRIAL_DRAWS))
        for actions in chain([self._without_end(task, said)], episodes):
            if telling == TELLING_DRAWS:
                break
            if len(actions) < 2:
                continue
            head, ahead = actions[: len(actions) // 2], actions[len(actions) // 2 :]
            first = self._play_from_reset(task, head)
            start = time.perf_counter()
            kept = self._keep()
            self._ways.copy_seconds = time.perf_counter() - start
            once = self._play(ahead)
            again = self._play(ahead)
            telling += [_shown(state) for state in once] != [_shown(state) for state in again]
            answers = []
            for _ in range(2):
                self._use(kept)
                answers.append(self._play(ahead))
            if self._play_from_reset(task, head) != first or self._play(ahead) != once:
                raise CannotCopyError("it does not repeat itself")
            self._use(kept)
            answers.append(self._play(ahead))
            if any(answer != once for answer in answers):
                raise CannotCopyError("a copy answers otherwise")
        return telling > 0

    def _without_end(self, task: str, said: Sequence[str]) -> list[str]:
        """Return the last actions that are known, without one that ends the episode."""
        states = self._play_from_reset(task, said[-TRIAL_TURNS:])[1:]
        return [action for action, state in zip(said[-TRIAL_TURNS:], states, strict=False) if not _ended(state)]

    def _draw_episode(self, task: str, rng: random.Random) -> list[str]:
        """Draw actions that do not end the episode, and measure the reset and a step."""
        start = time.perf_counter()
        state = self._load(task)
        self._ways.reset_seconds = time.perf_counter() - start
        actions: list[str] = []
        start = time.perf_counter()
        for _ in range(TRIAL_TURNS):
            action = draw_action(rng, state.admissible_actions, self._declared.action_format, state.observation)
            state = self._act(action)
            if _ended(state):
                break
            actions.append(action)
        self._ways.step_seconds = (time.perf_counter() - start) / max(1, len(actions))
        return actions

    def _play_from_reset(self, task: str, actions: Sequence[str]) -> list[EngineState]:
        return [self._load(task), *self._play(actions)]

    def _play(self, actions: Sequence[str]) -> list[EngineState]:
        """Play actions up to an end of the episode."""
        states: list[EngineState] = []
        for action in actions:
            states.append(self._act(action))
            if _ended(states[-1]):
                break
        return states

    # ------------------------------------------------------------ what it says

    def _text(self, observation: object) -> str:
        if not isinstance(observation, str):
            raise UsageError(
                f"{self.contract.environment} shows {with_article(type(observation).__name__)}, not text: wrap it in a "
                "gymnasium.ObservationWrapper that writes its observations as strings"
            )
        return str(observation)[:MAX_TEXT]

    def _score(self) -> float:
        low, high = self._declared.return_range
        score = (self._return - low) / (high - low)
        if not -1e-6 <= score <= 1 + 1e-6:
            raise UsageError(
                f"an episode of {self.contract.environment} has the return {self._return:g}, outside of {low:g} to "
                f"{high:g}: declare the range of its returns, TextEnvironment(..., return_range=(lowest, highest))"
            )
        return min(max(score, 0.0), 1.0)

    @property
    def _won(self) -> bool:
        if self._says_won is not None:
            return self._says_won
        high = self._declared.return_range[1]
        return self._return >= (high if self._declared.won_at is None else self._declared.won_at) - 1e-9

    def _listed_actions(self, info: Mapping[str, Any]) -> tuple[str, ...] | None:
        listed = info.get(self._declared.admissible)
        return None if listed is None else tuple(sorted(map(str, listed)))


def _wrong_kind(answer: object, shape: str) -> str:
    """Return what an answer is in place of its shape; "" if it has the shape. Texts are checked where they are shown.
    """
    if not isinstance(answer, tuple):
        return with_article(type(answer).__name__)
    names = shape.strip("()").split(", ")
    if len(answer) != len(names):
        return f"a tuple of {len(answer)}"
    kinds = {"reward": SupportsFloat, "info": Mapping}
    for name, value in zip(names, answer, strict=True):
        if not isinstance(value, kinds.get(name, object)):
            return f"{with_article(type(value).__name__)} as {name}"
    return ""


def _read_won(info: Mapping[str, Any]) -> bool | None:
    """Return what `info` says of a win; None if it says nothing."""
    won = info.get("won")
    return bool(won) if isinstance(won, bool | np.bool_) else None
