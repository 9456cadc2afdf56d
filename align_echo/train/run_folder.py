"""The folder of a training run on disk: whether it may be begun or gone on with, and its lines of signals.

Left out: what a run is and does (`align_echo.train.run`), and what is in a checkpoint (`transformers`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError
from align_echo.interface import write_atomically

FINISHED = "trainer_state.json"
"""What `transformers` writes last of a checkpoint; after it only older ones are deleted."""


def check_run_folder(folder: Path, asked: Mapping[str, Any], *, resume: bool) -> str:
    """The checkpoint to go on from, "" for none. Raises `UsageError` for a folder that holds something else.

    A run without a checkpoint is nothing to lose: it is begun anew.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")
    if not resume:
        if folder.exists() and any(folder.iterdir()) and not _made_nothing(folder):
            raise UsageError(f"{folder} is not empty: add --resume to go on with it, or name another --out")
        return ""
    stored = flat(on_record(folder))
    wanted = flat(asked)
    for key in sorted(stored.keys() | wanted.keys()):
        if stored.get(key) != wanted.get(key):
            raise UsageError(
                f"{folder} was started with {key} = {stored.get(key)!r}, not {wanted.get(key)!r}; "
                "resume with the same, or name another --out"
            )
    return newest_checkpoint(folder / "checkpoints")


def on_record(folder: Path) -> dict[str, Any]:
    """What `config.json` holds. Raises `UsageError` if there is no training run in the folder."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("command") != "train" or not isinstance(found.get("config"), dict):
        raise UsageError(f"there is no training run to resume in {folder}")
    return found


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def step_of(checkpoint: str) -> int:
    """How many steps a checkpoint has behind it; 0 for none."""
    return int(checkpoint.rpartition("-")[2] or 0)


def keep_before(file: Path, step: int) -> None:
    """Drop the lines of steps that will be made again, and a last line that was not written to its end."""
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    write_atomically(file, "".join(line for line in whole if json.loads(line)["step"] < step))


def append(file: Path, record: dict[str, Any]) -> None:
    """One more line of JSON."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")


def whole_checkpoints(checkpoints: Path) -> list[Path]:
    """Those that were written to their end, oldest first."""
    found = [one for one in checkpoints.glob("checkpoint-*") if (one / FINISHED).is_file()]
    return sorted(found, key=lambda one: step_of(str(one)))


def newest_checkpoint(checkpoints: Path) -> str:
    """The last that was written to its end; "" for none."""
    return str(next(reversed(whole_checkpoints(checkpoints)), ""))


def _made_nothing(folder: Path) -> bool:
    """Whether the folder is that of a run that left no checkpoint, and holds nothing else."""
    try:
        on_record(folder)
    except UsageError:
        return False
    ours = {"config.json", "held_out.jsonl", "signals.jsonl", "refinements.jsonl", "checkpoints"}
    return {one.name for one in folder.iterdir()} <= ours and not any((folder / "checkpoints").glob("*"))
