"""Static facts about ALFWorld, without its engine: splits, action format, interface contract, invalid actions."""

from __future__ import annotations

from align_echo.interface.contract import InterfaceContract

TASK_TYPES = (
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "look_at_obj_in_light",
    "pick_two_obj_and_place",
)

ACTION_FORMAT = """\
One action a turn, written exactly in one of these forms (objects and receptacles carry a number, e.g. "mug 1"):
look | inventory | go to {receptacle} | open {receptacle} | close {receptacle}
take {object} from {receptacle} | move {object} to {receptacle} | examine {object or receptacle} | use {object}
heat {object} with {receptacle} | clean {object} with {receptacle} | cool {object} with {receptacle}
slice {object} with {object}"""

CONTRACT = InterfaceContract(
    environment="alfworld",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="batched",
    read_only_actions=("look", "inventory", "examine {}"),
)

STEP_LIMIT = 50

FOLDER = "json_2.1.1"
GAME = "game.tw-pddl"
TRAJECTORY = "traj_data.json"
"""A game is two files of these names in `FOLDER/<split>/<task>/<trial>`, as in ALFWorld's download."""


def is_invalid(observation: str) -> bool:
    """Check if the engine refused the action (the paper's metric; see also `facts` in the docs page)."""
    return observation.strip() == "Nothing happens."


def task_type(task_id: str) -> str:
    """Read the task type, one of `TASK_TYPES`, from `<split>/<type>-.../<trial>`."""
    folder = task_id.split("/")[-2] if "/" in task_id else task_id
    return folder.split("-")[0]
