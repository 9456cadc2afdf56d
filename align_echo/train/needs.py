"""What training needs that the base install lacks. Found without importing it, which takes seconds."""

from __future__ import annotations

from importlib.util import find_spec

from align_echo.errors import MissingExtraError, require

EXTRA_PACKAGES = ("torch", "transformers", "peft", "accelerate", "yaml")


def require_training() -> None:
    """Raises `MissingExtraError` where packages that training needs are not installed."""
    if any(find_spec(name) is None for name in EXTRA_PACKAGES):
        raise MissingExtraError("training", "train")


def require_trl() -> None:
    """Raises `MissingExtraError` where TRL is not installed."""
    if find_spec("trl") is None:
        raise MissingExtraError("backend: trl", "train")


def require_reports() -> None:
    """Raises `MissingExtraError` where the package that rates a critic's verdicts is not installed."""
    if find_spec("sklearn") is None:
        raise MissingExtraError("a critic's report", "train")


def require_pictures() -> None:
    """Raises `MissingExtraError` where the package that reads screenshots is not installed."""
    require("a critic on screens", "gui", ("PIL",))
