"""Price of a generation run's experiments before it starts: a step, a return to a state, and all of them, by guess."""

from __future__ import annotations

import random
import time
from statistics import median

from align_echo.align.budget import BudgetLimits
from align_echo.align.probe.cases import count_walks
from align_echo.align.world import TrainingSplit
from align_echo.errors import EngineError
from align_echo.rollout.session import base_env
from align_echo.types import Frozen
from align_echo.wrappers.copies import draw_action
from align_echo.wrappers.plain import PlainEnv
from align_echo.wrappers.text_env import TextEnv

PRICED_TASKS = 2
PRICED_TURNS = 10
"""Tasks and turns in which the price is measured."""

STEPS_PER_WALK = 1_000
"""Engine steps for a walk and the trials along it: 250 in small worlds, 7,000 in ALFWorld."""

RESTORED_SECONDS = 0.001
"""A return to a state by a declared `restore`, for comparison."""

USUAL_SECONDS = 600.0
"""Limit of an environment from outside that would take longer, if none is given."""


class ExperimentPrice(Frozen):
    """Seconds of a step and of a return to a state, the way of returning, and the engine steps expected.

    `plain`: the environment is a `gymnasium.Env` from outside.
    """

    step: float
    fork: float
    way: str
    replays: bool
    plain: bool
    steps: int

    @property
    def seconds(self) -> float:
        """Expected seconds."""
        return self.steps * (self.step + self.fork)

    @property
    def in_words(self) -> str:
        """Return the price in a line, with what `save` and `restore` would make of it where states are replayed."""
        expected = f"about {self.steps:,} engine steps, {_minutes(self.seconds)}"
        line = f"experiments: {expected}; states are returned to {self.way}"
        if not self.replays:
            return line
        restored = self.steps * (self.step + RESTORED_SECONDS)
        return f"{line}: declare save and restore to make it about {_minutes(restored)}"

    def limits(self, asked: BudgetLimits) -> BudgetLimits:
        """Return the limits asked for, or `USUAL_SECONDS` where an environment from outside takes long without any."""
        if self.plain and asked == BudgetLimits(tokens=asked.tokens) and self.seconds > USUAL_SECONDS:
            return asked.model_copy(update={"seconds": USUAL_SECONDS})
        return asked

    def about_limits(self, asked: BudgetLimits) -> str:
        """Return a note if the expected seconds exceed the limit, "" otherwise."""
        limit = self.limits(asked).seconds
        if limit is None or self.seconds <= limit:
            return ""
        return (
            f"that is more than the budget of {limit:.0f} seconds (--max-seconds): "
            "walks are shorter and tasks fewer, as the first walk shows"
        )


def measure_price(world: TrainingSplit, tasks: int, fresh: int) -> ExperimentPrice:
    """Play two tasks and return to a state in each. `tasks` and `fresh` count the tasks of the experiments."""
    steps: list[float] = []
    forks: list[float] = []
    env = base_env(world.env())
    try:
        for task_id in world.spec.tasks(world.split, world.data_root)[:PRICED_TASKS]:
            _measure_in(env, task_id, world.spec.action_format, steps, forks)
        way, replays, plain = env.fork_way, env.replays, isinstance(env, PlainEnv)
    finally:
        env.close()
    count = STEPS_PER_WALK * count_walks(tasks, fresh)
    step, fork = median(steps or [0.0]), median(forks or [0.0])
    return ExperimentPrice(step=step, fork=fork, way=way, replays=replays, plain=plain, steps=count)


def _measure_in(env: TextEnv, task_id: str, action_format: str, steps: list[float], forks: list[float]) -> None:
    rng = random.Random(task_id)
    env.reset(seed=0, options={"task": task_id})
    moments = [env.snapshot()]
    while not env.over and len(moments) <= PRICED_TURNS:
        action = draw_action(rng, env.state.admissible_actions, action_format, env.state.observation)
        start = time.perf_counter()
        env.step(action)
        steps.append(time.perf_counter() - start)
        moments.append(env.snapshot())
    for moment in (moments[len(moments) // 2], *moments[:0:-1]):
        start = time.perf_counter()
        try:
            env.restore(moment)
        except EngineError:
            return  # it does not repeat itself: the probe says so
        forks.append(time.perf_counter() - start)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
