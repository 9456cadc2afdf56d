"""The folder of a training run: whether it holds any work yet, and its lines of signals.

Not here: the common part of all runs' folders (`align_echo.run_dir`), and the run itself (`run.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from align_echo.base.files import entries, write_atomically
from align_echo.base.plain_yaml import json_lines, json_object
from align_echo.errors import UsageError
from align_echo.run_dir import CHECKPOINTS, CONFIG, RunDir, is_run_by, newest_checkpoint
from align_echo.train.presets import with_new_keys
from align_echo.train.rollouts import CRITIQUES, ROLLOUTS
from align_echo.train.serving import PUBLISHED
from align_echo.train.trackers import TENSORBOARD, WANDB


class TrainingDir(RunDir):
    """Folder of a training run. Without a checkpoint it starts again."""

    def __init__(self, path: Path, config: Mapping[str, Any], *, resume: bool = False) -> None:
        super().__init__(
            path,
            config,
            resume=resume,
            left=[TENSORBOARD],
            has_output=has_checkpoint,
            compared=lasts,
            read=stored_as(config),
        )

    def find_checkpoint(self) -> str:
        """Check the folder, and return the checkpoint to resume from, "" for none. Raises as `check`."""
        self.check()
        return newest_checkpoint(self.path / CHECKPOINTS) if self.resume else ""


def stored_as(settings: Mapping[str, Any]) -> Callable[[Path], dict[str, Any] | None]:
    """Return a reader of `config.json` that renames old keys, for a comparison with the `settings` of this run."""
    method = str(settings["config"]["method"])

    def read(file: Path) -> dict[str, Any] | None:
        record = json_object(file)
        config = record.get("config") if record else None
        return {**record, "config": with_new_keys(config, method)} if record and isinstance(config, dict) else record

    return read


def lasts(name: str) -> bool:
    """Return whether a resumed run must have the same value under this dotted name.

    Servers may have moved, and the number of processes changes only rounding.
    """
    return name != "processes" and not name.startswith("config.collecting.servers")


def on_record(folder: Path) -> dict[str, Any]:
    """Read `config.json`, with old keys renamed. Raises `UsageError` if there is no training run in the folder."""
    config = json_object(folder / "config.json")
    if config is None or config.get("command") != "train" or not isinstance(config.get("config"), dict):
        raise UsageError(f"there is no training run to resume in {folder}")
    return {**config, "config": with_new_keys(config["config"])}


def tokens_on_record(folder: Path, under: Sequence[str] = ("config", "step")) -> int | None:
    """Read `tokens_per_batch` of a run's `config.json`, inside of the keys `under`; None if it names none."""
    config: Any = json_object(folder / CONFIG)
    for key in (*under, "tokens_per_batch"):
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, int) and config > 0 else None


def keep_before(file: Path, step: int) -> None:
    """Drop the lines of `step` and later ones, and an incomplete last line.

    Raises `UsageError` for a damaged line.
    """
    if file.is_file():
        write_atomically(file, "".join(json.dumps(record) + "\n" for record in steps_in(file) if record["step"] < step))


def steps_in(file: Path) -> list[dict[str, Any]]:
    """Read the lines of a file of `append`, each of a `step`. Raises `UsageError` for a line without a step."""
    records = json_lines(file)
    if any(not isinstance(record.get("step"), int) for record in records):
        raise UsageError(f"{file} is damaged: a line of it belongs to no step")
    return records


def append(file: Path, record: dict[str, Any]) -> None:
    """Append a line of JSON. Raises `ValueError` for NaN or infinity."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record, allow_nan=False) + "\n")


def has_checkpoint(folder: Path) -> bool:
    """Return False for a folder that holds only a training run without a checkpoint."""
    files = {CONFIG, "held_out.jsonl", "signals.jsonl", "refinements.jsonl"}
    ours = files | {ROLLOUTS, CRITIQUES, TENSORBOARD, WANDB, CHECKPOINTS, PUBLISHED, "last"}
    names = {entry.name for entry in entries(folder)}
    return not is_run_by(folder, "train") or not names <= ours or any((folder / CHECKPOINTS).glob("*"))
