"""ALFWorld's handcoded expert, made repeatable: it follows an episode and names the next action.

Three things differ from the class in ALFWorld's wheel. Where that class draws at random, this one takes the first
choice or a draw that is fixed by the step. Its bookkeeping waits for the verb "put", so the engine's verb "move" is
passed on as "put". The engine refuses to "go" to furniture at which the agent already stands, so that is examined
instead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from align_echo.dice import Dice
from align_echo.wrappers.alfworld import upstream
from align_echo.wrappers.alfworld.engine import Fact
from align_echo.wrappers.alfworld.task import TaskParameters

FACTS_READ = ("holds", "inreceptacle", "ishot", "iscool", "isclean")
"""The only facts that the expert looks at."""

MOST_STEPS = 200
ATTEMPTS = 3
"""The expert may first want to shut something that is elsewhere. It drops the idea when it is asked again."""


class HandcodedExpert:
    """One episode. Give it every step in order with `follow`; it answers with its next action or None."""

    def __init__(self, parameters: TaskParameters, intro: str) -> None:
        """Raises `MissingExtraError` where ALFWorld's package is not installed."""
        upstream.require_packages("ALFWorld's expert")
        self._policy = _policy_class(parameters.task_type)(asdict(parameters), max_steps=MOST_STEPS)
        self._policy.observe(intro)
        self._steps = 0

    def follow(self, action: str, feedback: str, commands: Iterable[str], facts: Sequence[Fact]) -> str | None:
        """The expert's next action, None when it is at a loss.

        It is told the last action, the engine's answer to it, what can be done next, and the facts of `FACTS_READ`.
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
        """Furniture at the agent's place cannot be gone to, only examined; the expert knows no such case."""
        name = action.removeprefix("examine ")
        if action != name and name in self._policy.receptacles and name != self._policy.curr_recep:
            return f"go to {name}"
        return action


@functools.cache
def _policy_class(task_type: str) -> Any:
    module = upstream.load("alfworld.agents.expert.handcoded_expert_tw")
    base = module.HandCodedTWAgent().get_task_policy({"task_type": task_type})

    class Repeatable(base):  # type: ignore[misc, valid-type]
        def get_next_subgoal(self) -> Any:
            action, parameter, objects = super().get_next_subgoal()
            return action, parameter, objects[:1]

        def update_state_tracking(self, game_state: Any, last_action: str) -> None:
            if last_action.startswith("move "):
                last_action = "put " + last_action.removeprefix("move ")
            super().update_state_tracking(game_state, last_action)

    return Repeatable
