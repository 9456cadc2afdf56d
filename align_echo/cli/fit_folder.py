"""The folder of `align-echo critic train`, whatever the critic reads: settings, checkpoints, the critic put in place.

    config.json      what was asked for, and which examples (by content); a resumed run must ask for the same
    checkpoints/     of `transformers`
    critic/          the critic: weights, tokenizer, calibration.json; a model to be named by its folder; appears whole
    summary.json     written last

Left out: learning, of text (`fit.py`) and of screens (`fit_screens.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from align_echo.align.run_folder import clear
from align_echo.errors import UsageError
from align_echo.interface import write_atomically

if TYPE_CHECKING:
    from align_echo.flywheel.fitting import LearningSettings

COMMAND = "critic train"
CRITIC = "critic"
Settings = TypeVar("Settings", bound="LearningSettings")


def read_settings(kind: type[Settings], file: Path | None, changes: Mapping[str, object]) -> Settings:
    """The settings of a YAML file with these changes. Raises `UsageError` in one line for what is wrong in it."""
    from pydantic import ValidationError

    from align_echo.train.config import read_file

    values = {**(read_file(file) if file else {}), **{name: one for name, one in changes.items() if one is not None}}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "settings"
        raise UsageError(f"{file or 'the options'}: {where}: {first['msg']}") from error


def beside(path: Path) -> Path:
    """Where the critic is written before it is whole, empty."""
    folder = path / f".{CRITIC}.partial"
    clear(path, [folder.name])
    return folder


def merged(learner: Any, weights: str, folder: Path) -> Any:
    """The model with its adapter merged in, the adapter itself written to `folder`. Raises `UsageError` for weights
    that are no numbers.
    """
    import torch

    if weights == "lora":
        learner.save_pretrained(str(folder / "adapter"))
        learner = learner.merge_and_unload()
    if not all(bool(torch.isfinite(one).all()) for one in learner.parameters()):
        raise UsageError("the critic's weights are no numbers any more: train anew with a smaller --lr")
    return learner


def put_in_place(folder: Path) -> None:
    """Let what was written `beside` appear whole."""
    clear(folder.parent, [CRITIC])
    folder.replace(folder.with_name(CRITIC))


def check_folder(path: Path, asked: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse a folder of something else, without touching it. One without a checkpoint is begun anew. Raises
    `UsageError`.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    there = path.exists() and any(path.iterdir())
    if resume and not there:
        raise UsageError(f"there is no critic's training to resume in {path}")
    if not there:
        return
    try:
        stored = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = None
    ours = isinstance(stored, dict) and stored.get("command") == COMMAND
    if not resume:
        if ours and {one.name for one in path.iterdir()} <= {"config.json", "checkpoints"} and not _checkpoints(path):
            return
        raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
    if not ours:
        raise UsageError(f"there is no critic's training to resume in {path}")
    other = sorted(key for key in {*stored, *asked} if stored.get(key) != asked.get(key))
    if other:
        raise UsageError(f"{path} was started with another {other[0]}: resume with the same, or name another --out")


def open_folder(path: Path, asked: Mapping[str, Any]) -> bool:
    """Make the folder; whether there is a checkpoint to go on from. One that was not written to its end is dropped."""
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / "config.json", json.dumps(asked, indent=2) + "\n")
    whole = {one.name for one in _checkpoints(path)}
    clear(path / "checkpoints", {one.name for one in (path / "checkpoints").glob("checkpoint-*")} - whole)
    return bool(whole)


def _checkpoints(path: Path) -> list[Path]:
    return [one.parent for one in (path / "checkpoints").glob("checkpoint-*/trainer_state.json")]
