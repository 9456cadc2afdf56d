"""Settings of a critic's training by name: a YAML file each. Left out: what they mean (`fitting.FitSettings`)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

SMALL, PAPER = "small", "paper-gaia"
MOST_SMALL = 50_000_000
"""Parameters of a model that counts as small."""


def presets() -> list[str]:
    """Their names."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def preset_for(parameters: int) -> str:
    """The one that a model of so many parameters learns by where none is asked for."""
    return SMALL if parameters <= MOST_SMALL else PAPER


def preset_file(name: str) -> Path:
    """The file of a preset."""
    return Path(str(_folder().joinpath(f"{name}.yaml")))


def _folder() -> resources.abc.Traversable:
    return resources.files("align_echo.gaia.presets")
