"""Task parameters of a game: the part of traj_data.json that the generator writes and the oracle reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TaskParameters:
    """Type of the task and the kinds it names; empty if the type has none.

    `toggle_target`, a lamp, is only for look_at_obj_in_light, and `parent_target`, a receptacle, for all others.
    """

    task_type: str
    object_target: str
    parent_target: str
    toggle_target: str

    @classmethod
    def read(cls, trajectory: Mapping[str, Any]) -> TaskParameters:
        """Parse the content of traj_data.json, in the engine's lower case. Raises `KeyError` for a missing parameter.
        """
        parameters = trajectory["pddl_params"]
        kinds = (str(parameters[name]) for name in ("object_target", "parent_target", "toggle_target"))
        return cls(str(trajectory["task_type"]), *kinds).lower()

    def lower(self) -> TaskParameters:
        """Return a copy with kinds in lower case, as the engine names them."""
        kinds = (kind.lower() for kind in (self.object_target, self.parent_target, self.toggle_target))
        return TaskParameters(self.task_type, *kinds)
