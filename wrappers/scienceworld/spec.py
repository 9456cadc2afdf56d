"""Static facts about ScienceWorld, without Java: splits, action forms, interface contract, invalid actions."""

from __future__ import annotations

from align_echo.errors import install_line
from align_echo.interface.contract import InterfaceContract

ACTION_FORMAT = """\
One action a turn, written exactly in one of these forms (OBJ is a thing that you see or carry, LOC a room):
look around | inventory | task | look at OBJ | look in OBJ | read OBJ | open OBJ | close OBJ
go to LOC | teleport to LOC | pick up OBJ | put down OBJ | move OBJ to OBJ | focus on OBJ
activate OBJ | deactivate OBJ | use OBJ on OBJ | connect OBJ to OBJ | disconnect OBJ
pour OBJ in OBJ | dunk OBJ in OBJ | mix OBJ | eat OBJ | flush OBJ | wait | wait1
If you are asked which of several things you mean, answer with its number alone."""

CONTRACT = InterfaceContract(
    environment="scienceworld",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="scored",
    read_only_actions=("look around", "inventory", "task"),
)

STEP_LIMIT = 100
"""Turns of an episode (ALIGN, appendix C)."""

REFUSAL = "No known action matches that input."

INSTALL = install_line("scienceworld")


def is_invalid(observation: str) -> bool:
    """Check if the engine refused the action, as in ALIGN's metric; "Unknown action", questions and the like are valid.
    """
    return observation.startswith(REFUSAL)


def as_read(action: str) -> str:
    """Return the action as the engine reads it: lower case, one space between words, no articles."""
    return " ".join(word for word in action.lower().split() if word not in ("a", "an", "the"))


def task_type(task_id: str) -> str:
    """Return the task's name, the first part of a task id."""
    return task_id.partition("/")[0]
