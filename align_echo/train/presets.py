"""The methods that ship: a YAML file each in `configs/`, with the settings that make it this method.

A file may say `implementation: NAME`, the name of the `Method` that plays its batches; without it, that is the file's
own name. Reading a file imports no torch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from align_echo.base.plain_yaml import yaml_mapping
from align_echo.errors import UsageError

IMPLEMENTATION = "implementation"


def methods() -> list[str]:
    """List the names of the methods that ship."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def about(name: str) -> str:
    """Return the first line of a method's file, which describes it."""
    return _text(name).splitlines()[0].lstrip("# ")


def preset_settings(name: str) -> dict[str, Any]:
    """Read the settings of a method's file, with the method's name among them."""
    settings = {"method": name, **yaml_mapping(_text(name), name)}
    settings.pop(IMPLEMENTATION, None)
    return settings


def implementation_for(method: str) -> str:
    """Return the name of the `Method` behind a method's name; any other name stands for itself."""
    if method not in methods():
        return method
    return str(yaml_mapping(_text(method), method).get(IMPLEMENTATION, method))


def _text(name: str) -> str:
    return _folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _folder() -> Traversable:
    return resources.files("align_echo.train").joinpath("configs")


# ---------------------------------------------------------------- renamed keys

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
