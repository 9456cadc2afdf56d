"""What a game asks for, in the lower-case names of the engine: the part of traj_data.json that the oracle reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TaskParameters:
    """Type of the task and the kinds it names; empty where the type has none."""

    task_type: str
    object_target: str
    parent_target: str
    toggle_target: str

    @classmethod
    def read(cls, trajectory: Mapping[str, Any]) -> TaskParameters:
        """From the content of traj_data.json. Raises `KeyError` where it lacks one."""
        given = trajectory["pddl_params"]
        return cls(
            task_type=str(trajectory["task_type"]),
            object_target=str(given["object_target"]).lower(),
            parent_target=str(given["parent_target"]).lower(),
            toggle_target=str(given["toggle_target"]).lower(),
        )
