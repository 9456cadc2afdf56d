"""Checks for packages beyond the base install, without importing them (which takes seconds)."""

from __future__ import annotations

from importlib.util import find_spec

from align_echo.errors import MissingExtraError, require

EXTRA_PACKAGES = ("torch", "transformers", "peft", "accelerate", "yaml")


def require_training() -> None:
    """Raise `MissingExtraError` unless the packages for training are installed."""
    if any(find_spec(name) is None for name in EXTRA_PACKAGES):
        raise MissingExtraError("training", "train")


def require_trl() -> None:
    """Raise `MissingExtraError` unless TRL is installed."""
    if find_spec("trl") is None:
        raise MissingExtraError("backend: trl", "train")


def require_reports() -> None:
    """Raise `MissingExtraError` unless the package for a critic's report is installed."""
    if find_spec("sklearn") is None:
        raise MissingExtraError("a critic's report", "train")


def require_pictures() -> None:
    """Raise `MissingExtraError` unless the package for screenshots is installed."""
    require("a critic on screens", "gui", ("PIL",))
