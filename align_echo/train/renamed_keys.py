"""Keys of a training config that earlier versions called otherwise.

A user's file with an old key is refused, in one line with the new name. The config that a run of an earlier version
stored is read as if it had the new names, so that such a run can still be resumed and reported.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from align_echo.errors import UsageError
from align_echo.train.presets import implementation_for

RENAMED_KEYS = {
    "collecting.recipe": "method",
    "collecting.queries": "collecting.tasks",
    "step.most_loss": "step.max_loss",
    "step.objective.most_weight": "step.objective.max_weight",
}
"""Old to new, by dotted names."""


def refuse_old_keys(values: Mapping[str, Any], source: str) -> None:
    """Raise `UsageError` with the new name of the first old key in `values`, which come from `source`."""
    for old, new in RENAMED_KEYS.items():
        *sections, key = old.split(".")
        section = _section(values, sections)
        if section is not None and key in section:
            raise UsageError(f"{source}: {old} is now {new}")


def with_new_keys(values: Mapping[str, Any], method: str = "") -> dict[str, Any]:
    """Return a stored config with its old keys renamed.

    Earlier versions stored the name of the implementation alone. With `method`, a config whose implementation is that
    of `method` gets this name.
    """
    renamed = copy.deepcopy(dict(values))
    was_old = False
    for old, new in RENAMED_KEYS.items():
        *sections, key = old.split(".")
        section = _section(renamed, sections)
        if section is None or key not in section:
            continue
        was_old = True
        *sections, new_key = new.split(".")
        target = _section(renamed, sections)
        if target is not None:
            target[new_key] = section.pop(key)
    if was_old and method and renamed.get("method") == implementation_for(method):
        renamed["method"] = method
    return renamed


def _section(values: Any, names: list[str]) -> Any:
    """Return the mapping under these names, None where there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values if isinstance(values, Mapping) else None
