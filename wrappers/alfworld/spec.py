"""What ALFWorld is, without loading its engine: splits, action format, interface contract, what counts as invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from align_echo.interface import InterfaceContract

if TYPE_CHECKING:
    from align_echo.wrappers.catalogue import EnvironmentModule, EnvironmentSpec

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


def is_invalid(observation: str) -> bool:
    """The engine refused the action (the paper's metric; see also `facts` in the docs page)."""
    return observation.strip() == "Nothing happens."


def task_type(task_id: str) -> str:
    """One of `TASK_TYPES`, read off `<split>/<type>-.../<trial>`."""
    folder = task_id.split("/")[-2] if "/" in task_id else task_id
    return folder.split("-")[0]


def _module() -> EnvironmentModule:
    from align_echo.wrappers import alfworld

    return alfworld


def _spec() -> EnvironmentSpec:
    from align_echo.wrappers.catalogue import EnvironmentSpec

    return EnvironmentSpec(
        name="alfworld",
        gym_id="align_echo/ALFWorld-v0",
        summary="household tasks in text (ALFWorld 0.4.2)",
        splits=("train", "valid_seen", "valid_unseen"),
        train_split="train",
        test_split="valid_unseen",
        step_limit=STEP_LIMIT,
        action_format=ACTION_FORMAT,
        contract=CONTRACT,
        is_invalid=is_invalid,
        task_type=task_type,
        module=_module,
        engines=("fast", "textworld"),
    )


SPEC = _spec()
