"""ALFWorld's handcoded expert, made reproducible: it follows an episode and names the next action.

It differs from the class in ALFWorld's wheel in three ways. It replaces random draws by the first choice or by a draw
fixed by the step. It is sent the engine's verb "move" as "put", which its bookkeeping expects. It examines furniture at
the agent's place, because the engine refuses to "go" there.
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
"""Facts the expert reads."""

MOST_STEPS = 200
ATTEMPTS = 3
"""Calls per step. The expert may first want to shut furniture elsewhere; on a second call it drops the idea."""


class HandcodedExpert:
    """Expert for one episode. Pass every step in order to `follow`; it returns the next action or None."""

    def __init__(self, parameters: TaskParameters, intro: str) -> None:
        """Start with an episode's task and intro. Raises `MissingExtraError` if ALFWorld's package is not installed."""
        upstream.require_packages("ALFWorld's expert")
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
    module = upstream.load("alfworld.agents.expert.handcoded_expert_tw")
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
