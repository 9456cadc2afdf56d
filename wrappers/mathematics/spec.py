"""Static facts about the math environment, without its verifier: splits, form of an answer, unreadable replies."""

from __future__ import annotations

from align_echo.errors import install_line
from align_echo.interface.contract import InterfaceContract

SPLITS = ("train", "dev", "test")

ACTION_FORMAT = r"""There is one turn: one reply that holds the answer once, as \boxed{answer}, and ends the task.
A number stands there worked out and alone, without its unit; a fraction may be written as 1/2 or in LaTeX."""

GOAL = r"Solve the problem, and give its answer as \boxed{answer}."

CONTRACT = InterfaceContract(
    environment="math",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
)

STEP_LIMIT = 1

UNREADABLE = "No answer could be read"
"""Prefix of the observation after a reply without an answer."""

INSTALL = install_line("math")


def is_invalid(observation: str) -> bool:
    """Check if the reply held no readable answer; a wrong answer is a valid action."""
    return observation.startswith(UNREADABLE)


def task_type(task_id: str) -> str:
    """Return the kind of problem, the first part of a task id; in a user's rows the subject, after the split."""
    first, _, rest = task_id.partition("/")
    return rest.partition("/")[0] if first in SPLITS else first
