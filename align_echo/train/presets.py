"""The methods that ship: a YAML file each in `configs/`, with the settings that make it this method.

A file may say `implementation: NAME`, the name of the `Method` that plays its batches; without it, that is the file's
own name. Reading a file imports no torch.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from align_echo.reading import yaml_mapping

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
