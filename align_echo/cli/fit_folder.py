"""The folder of `align-echo critic train`: whether it may be begun or gone on with, and what was asked for.

    config.json      what was asked for, and which examples (by content); a resumed run must ask for the same
    checkpoints/     of `transformers`; warm/ those of a reasoning critic's warm start, signals.jsonl its steps
    critic/          the critic: weights, tokenizer, calibration.json; a model to be named by its folder; appears whole
    summary.json     `fit.Fitted`, written last

Left out: training (`fit.py`, `fit_reasoning.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from align_echo.align.run_folder import clear
from align_echo.errors import UsageError
from align_echo.flywheel.examples import examples_file
from align_echo.interface import write_atomically

COMMAND = "critic train"
CRITIC = "critic"
CHECKPOINTS, WARM = "checkpoints", "warm"
SIGNALS = "signals.jsonl"


def contents(collections: Sequence[Path]) -> dict[str, Path]:
    """The collections by the SHA-256 of their examples: one that is named twice, by whatever path, is there once.

    Raises `MissingDataError` for one without examples.
    """
    found: dict[str, Path] = {}
    for one in collections:
        found.setdefault(hashlib.sha256(examples_file(one).read_bytes()).hexdigest(), one)
    return found


def check_folder(path: Path, asked: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse a folder of something else, without touching it. One without a checkpoint is begun anew. By what paths
    the collections are named is no matter. Raises `UsageError`.
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
        if ours and _made_nothing(path):
            return
        raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
    if not ours:
        raise UsageError(f"there is no critic's training to resume in {path}")
    other = sorted(key for key in {*stored, *asked} - {"collections"} if stored.get(key) != asked.get(key))
    if other:
        raise UsageError(f"{path} was started with another {other[0]}: resume with the same, or name another --out")


def open_folder(path: Path, asked: Mapping[str, Any]) -> None:
    """Make the folder. Checkpoints that were not written to their end are dropped."""
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / "config.json", json.dumps(asked, indent=2) + "\n")
    for part in (CHECKPOINTS, WARM):
        whole = {one.name for one in whole_checkpoints(path / part)}
        clear(path / part, {one.name for one in (path / part).glob("checkpoint-*")} - whole)


def whole_checkpoints(folder: Path) -> list[Path]:
    """Those that were written to their end."""
    return [one.parent for one in folder.glob("checkpoint-*/trainer_state.json")]


def _made_nothing(path: Path) -> bool:
    """Whether nothing but a training that left no checkpoint is there."""
    ours = {"config.json", CHECKPOINTS, WARM, SIGNALS}
    began = [one for part in (CHECKPOINTS, WARM) for one in whole_checkpoints(path / part)]
    return {one.name for one in path.iterdir()} <= ours and not began
