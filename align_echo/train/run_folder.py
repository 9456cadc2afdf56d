"""The folder of a training run on disk: whether it may be begun or gone on with, and its lines of signals.

Left out: what a run is and does (`align_echo.train.run`), and what is in a checkpoint (`transformers`).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError, first_line
from align_echo.interface import write_atomically
from align_echo.locking import check_free
from align_echo.reading import json_lines, json_object, parse_json

FINISHED = "trainer_state.json"
"""What `transformers` writes last of a checkpoint; after it only older ones are deleted."""


def check_run_folder(folder: Path, asked: Mapping[str, Any], *, resume: bool) -> str:
    """The checkpoint to go on from, "" for none. Raises `UsageError` for a folder that holds something else, and for
    one that another process works in.

    A run without a checkpoint is nothing to lose: it is begun anew.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")
    check_free(folder)
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
    found = json_object(folder / "config.json")
    if found is None or found.get("command") != "train" or not isinstance(found.get("config"), dict):
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
    """Drop the lines of steps that will be made again, and a last line that was not written to its end.

    Raises `UsageError` for a line that is damaged.
    """
    if file.is_file():
        write_atomically(file, "".join(json.dumps(one) + "\n" for one in steps_in(file) if one["step"] < step))


def steps_in(file: Path) -> list[dict[str, Any]]:
    """The lines of a file that `append` wrote, each of a `step`. Raises `UsageError` for one that is not."""
    found = json_lines(file)
    if any(not isinstance(one.get("step"), int) for one in found):
        raise UsageError(f"{file} is damaged: a line of it belongs to no step")
    return found


def append(file: Path, record: dict[str, Any]) -> None:
    """One more line of JSON."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")


def whole_checkpoints(checkpoints: Path) -> list[Path]:
    """Those that were written to their end, oldest first."""
    found = [one for one in checkpoints.glob("checkpoint-*") if (one / FINISHED).is_file()]
    return sorted(found, key=lambda one: step_of(str(one)))


def newest_checkpoint(checkpoints: Path) -> str:
    """The last that was written to its end; "" for none. Raises `UsageError` if a file of it was cut short since."""
    newest = next(reversed(whole_checkpoints(checkpoints)), None)
    if newest is None:
        return ""
    for file in sorted(newest.rglob("*")):
        damage = damage_of(file)
        if damage:
            raise UsageError(f"{file} is damaged ({damage}): delete {newest}, and --resume goes on from before it")
    return str(newest)


def damage_of(file: Path) -> str:
    """What is wrong with a file of a checkpoint, as far as its ends tell; "" if nothing is."""
    from safetensors import SafetensorError, safe_open

    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="numpy"):
                return ""
        if file.suffix == ".json":
            parse_json(file.read_text(encoding="utf-8"))
        if file.suffix in (".pt", ".pth", ".bin") and not zipfile.is_zipfile(file):
            return "it ends too early"
    except (OSError, ValueError, SafetensorError) as error:
        return first_line(error)
    return ""


def _made_nothing(folder: Path) -> bool:
    """Whether the folder is that of a run that left no checkpoint, and holds nothing else."""
    try:
        on_record(folder)
    except UsageError:
        return False
    ours = {"config.json", "held_out.jsonl", "signals.jsonl", "refinements.jsonl", "checkpoints", "last"}
    return {one.name for one in folder.iterdir()} <= ours and not any((folder / "checkpoints").glob("*"))
