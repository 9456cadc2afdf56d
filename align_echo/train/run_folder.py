"""The folder of a training run: whether it holds any work yet, and its lines of signals.

Left out: what every run's folder has (`align_echo.runs`), and what a run is and does (`align_echo.train.run`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError
from align_echo.files import entries, write_atomically
from align_echo.reading import json_lines, json_object
from align_echo.runs import CHECKPOINTS, CONFIG, check_run, is_run_by, newest_checkpoint
from align_echo.train.renamed_keys import with_new_keys
from align_echo.train.rollouts import CRITIQUES, ROLLOUTS
from align_echo.train.serving import PUBLISHED
from align_echo.train.trackers import TENSORBOARD, WANDB


def check_run_folder(folder: Path, settings: Mapping[str, Any], *, resume: bool) -> str:
    """The checkpoint to go on from, "" for none. Raises `UsageError` for a folder that holds something else, and for
    one that another process works in. A run without a checkpoint is begun anew.
    """
    check_run(folder, settings, resume=resume, unmade=made_nothing, compared=lasts, read=stored_as(settings))
    return newest_checkpoint(folder / CHECKPOINTS) if resume else ""


def stored_as(settings: Mapping[str, Any]) -> Callable[[Path], dict[str, Any] | None]:
    """Return a reader of `config.json` that renames old keys, for a comparison with the `settings` of this run."""
    method = str(settings["config"]["method"])

    def read(file: Path) -> dict[str, Any] | None:
        record = json_object(file)
        config = record.get("config") if record else None
        return {**record, "config": with_new_keys(config, method)} if record and isinstance(config, dict) else record

    return read


def lasts(name: str) -> bool:
    """Whether a run that goes on must ask for the same under this dotted name: servers may have moved, and processes
    change nothing but rounding.
    """
    return name != "processes" and not name.startswith("config.collecting.servers")


def on_record(folder: Path) -> dict[str, Any]:
    """What `config.json` holds. Raises `UsageError` if there is no training run in the folder."""
    config = json_object(folder / "config.json")
    if config is None or config.get("command") != "train" or not isinstance(config.get("config"), dict):
        raise UsageError(f"there is no training run to resume in {folder}")
    return {**config, "config": with_new_keys(config["config"])}


def keep_before(file: Path, step: int) -> None:
    """Drop the lines of steps that will be made again, and a last line that was not written to its end.

    Raises `UsageError` for a line that is damaged.
    """
    if file.is_file():
        write_atomically(file, "".join(json.dumps(record) + "\n" for record in steps_in(file) if record["step"] < step))


def steps_in(file: Path) -> list[dict[str, Any]]:
    """The lines of a file that `append` wrote, each of a `step`. Raises `UsageError` for one that is not."""
    records = json_lines(file)
    if any(not isinstance(record.get("step"), int) for record in records):
        raise UsageError(f"{file} is damaged: a line of it belongs to no step")
    return records


def append(file: Path, record: dict[str, Any]) -> None:
    """One more line of JSON. Raises `ValueError` for a number that is none."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record, allow_nan=False) + "\n")


def made_nothing(folder: Path) -> bool:
    """Whether the folder is that of a run that left no checkpoint, and holds nothing else."""
    files = {CONFIG, "held_out.jsonl", "signals.jsonl", "refinements.jsonl"}
    ours = files | {ROLLOUTS, CRITIQUES, TENSORBOARD, WANDB, CHECKPOINTS, PUBLISHED, "last"}
    left = {entry.name for entry in entries(folder)}
    return is_run_by(folder, "train") and left <= ours and not any((folder / CHECKPOINTS).glob("*"))
