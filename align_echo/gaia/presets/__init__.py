"""Settings of a critic's training by name: a YAML file each. Not here: their meaning (`fit.learning.FitSettings`)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

SMALL, PAPER = "small", "paper-gaia"
MOST_SMALL = 50_000_000
"""Most parameters of a small model."""


def presets() -> list[str]:
    """List the names of the presets."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def preset_for(parameters: int) -> str:
    """Return the default preset for a model with this number of parameters."""
    return SMALL if parameters <= MOST_SMALL else PAPER


def preset_file(name: str) -> Path:
    """Return the file of a preset."""
    return Path(str(_folder().joinpath(f"{name}.yaml")))


def _folder() -> resources.abc.Traversable:
    return resources.files("align_echo.gaia.presets")
