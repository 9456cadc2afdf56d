"""The folder of a run, whatever its verb: whether it may be begun or gone on with, its lock, settings and checkpoints.

    config.json      what was asked for; a resumed run must ask for the same
    checkpoints/     of a run that trains: `checkpoint-<step>`, as `transformers` writes them
    summary.json     what came of it, written last

Nothing is created before a run is begun, so one that is refused leaves nothing behind, and one process at a time works
in a folder. A run that has made nothing yet is nothing to lose: it is begun anew. Left out: what a verb keeps beside
these (`align/run_folder.py`, `evaluate/folder.py`, `train/run.py`), and lines of records (`jsonl.py`).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from align_echo.errors import UsageError, first_line
from align_echo.files import clear, drop_half_written, entries, write_atomically
from align_echo.interface import Interface
from align_echo.jsonl import JsonlFile
from align_echo.locking import FolderLock, check_free
from align_echo.models.call_log import CallLog
from align_echo.reading import in_yaml, json_object, parse_json
from align_echo.regular_files import read_text
from align_echo.types import Trajectory

CONFIG, SUMMARY, CHECKPOINTS = "config.json", "summary.json", "checkpoints"

VERSIONED = ("align-echo", "pydantic-monty", "gymnasium", "openai", "alfworld", "textworld")
"""Packages whose versions a run records, where they are installed."""

FINISHED = "trainer_state.json"
"""What `transformers` writes last of a checkpoint; after it only older ones are deleted."""

LEAST_ROOM = 10**7
"""Bytes that any run may need, at the least."""

LONGEST_VALUE = 120
"""Characters of a setting in a message."""


def keeps_nothing(path: Path) -> bool:
    """False of every folder: the run is never begun anew over what is there."""
    return False


def every_key(key: str) -> bool:
    """True of every setting: the run is only resumed with all of them as they were."""
    return True


def check_run(
    path: Path,
    config: Mapping[str, Any] | None,
    *,
    resume: bool,
    unmade: Callable[[Path], bool] = keeps_nothing,
    compared: Callable[[str], bool] = every_key,
) -> None:
    """Refuse a folder that cannot take this run, without touching it, and one that another process works in.

    `config` None is not known yet. `unmade(path)` says of a folder whether what is there is a run of this verb that has
    made nothing yet. Settings are compared by their dotted names, those of which `compared(name)` is True. Raises
    `UsageError` in one line.
    """
    check_room(path)
    if not path.exists() or not entries(path):
        if resume:
            raise UsageError(f"there is nothing to resume in {path}")
        return
    check_free(path)
    if not resume:
        if unmade(path):
            return
        raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
    stored = json_object(path / CONFIG)
    if stored is None:
        raise UsageError(f"{path} is not the folder of a run: it has no readable {CONFIG}")
    if config is not None:
        _check_same(path, *_by_content(flat(stored), flat(config)), compared)


def check_room(path: Path, needed: int = LEAST_ROOM) -> None:
    """Refuse a folder that cannot be written, or whose disk has less room than `needed` bytes, without touching it.

    Raises `UsageError` in one line.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    place = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not place.is_dir():
        raise UsageError(f"{place} is a file, and {path} would lie in it: name another --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{place} cannot be written to: name another --out")
    free = shutil.disk_usage(place).free
    if free < needed:
        room = f"there are {free / 1e6:,.0f} MB free where {path} is, and {needed / 1e6:,.0f} MB are needed"
        raise UsageError(f"{room}: make room, or name another --out")


def begin_run(
    path: Path,
    config: Mapping[str, Any],
    *,
    resume: bool,
    left: Collection[str] = (),
    unmade: Callable[[Path], bool] = keeps_nothing,
    compared: Callable[[str], bool] = every_key,
) -> FolderLock:
    """Make the folder and keep other processes out of it until the lock is closed. A run that is begun writes its
    settings, and loses what a false start `left`; one that is resumed keeps them as they are.

    Raises as `check_run`, also if another process has begun since.
    """
    check_run(path, config, resume=resume, unmade=unmade, compared=compared)
    path.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(path)
    check_run(path, config, resume=resume, unmade=unmade, compared=compared)
    drop_half_written(path)
    if not resume:
        clear(path, left)
        write_atomically(path / CONFIG, json.dumps(config, indent=2) + "\n")
    return lock


def _check_same(path: Path, stored: dict[str, Any], wanted: dict[str, Any], compared: Callable[[str], bool]) -> None:
    for key in sorted(filter(compared, stored.keys() | wanted.keys())):
        old, new = stored.get(key), wanted.get(key)
        if old != new:
            begun = f"without {key}" if old is None else f"with {key} = {_short(old)}"
            now = "without it" if new is None else f"with {_short(new)}" if old is None else _short(new)
            raise UsageError(f"{path} was started {begun}, not {now}; resume with the same, or name another --out")


def _by_content(stored: dict[str, Any], wanted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two runs' settings by dotted names, in which the same thing has one name, and different things have two.

    An interface is what its `interface_contents` say, a local model what the hash of its weights says, an agent of
    `generate-interface` what it was named by (`player`). An older run has no contents: there the label tells, without
    the name in front; and no `player`, nor what was declared.
    """
    stored, wanted = dict(stored), dict(wanted)
    for key in [key for key in wanted if key.partition(".")[0] in ("interface", "interfaces")]:
        content = f"interface_contents{key.removeprefix(key.partition('.')[0])}"
        old, new = stored.pop(content, None), wanted.pop(content, None)
        label, now = str(stored.get(key)), str(wanted[key])
        if (old or label.rpartition("@")[2]) == (new if old else now.rpartition("@")[2]):
            _rename(wanted, stored, key, *(["config.interface"] if key == "interface" else []))
        elif label == now:
            stored[key], wanted[key] = f"{label} ({old})", f"{now} ({new})"
    unknown = [] if "player" in stored else ["player", *(key for key in wanted if key.startswith("declared."))]
    for key in ("interface_named", *(unknown if "player" in wanted else [])):
        stored.pop(key, None)
        wanted.pop(key, None)
    for role in [key.rpartition(".")[2] for key in wanted if key.startswith("agent_details.weights.")]:
        if _same(stored, wanted, f"agent_details.weights.{role}"):
            whole = ["model", *(["agent"] if _same(stored, wanted, "player") else [])] if role == "agent" else []
            _rename(wanted, stored, f"agent_details.model.{role}", *whole)
    if all(_same(stored, wanted, f"weights.{role}") for role in ("policy", "critic")):
        _rename(wanted, stored, "config.model", "config.critic")
    return stored, wanted


def _same(stored: Mapping[str, Any], wanted: Mapping[str, Any], key: str) -> bool:
    """Whether both have the same setting, which is not empty."""
    return bool(stored.get(key)) and stored[key] == wanted.get(key)


def _rename(wanted: dict[str, Any], stored: Mapping[str, Any], *keys: str) -> None:
    """Let what was shown to be the same have the name that it was stored under."""
    wanted.update({key: stored[key] for key in keys if key in stored})


def contents_of(interfaces: Mapping[str, Interface | None]) -> dict[str, Any]:
    """What tells the interfaces of a run from others, by variant, as its settings have it."""
    return {name: interface.fingerprint if interface else "none" for name, interface in interfaces.items()}


def _short(value: object) -> str:
    """A setting as one writes it in YAML, cut off where it is long."""
    written = in_yaml(value)
    return written if len(written) <= LONGEST_VALUE else f"{written[:LONGEST_VALUE]}..."


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted names."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def agent_details(path: Path) -> dict[str, str]:
    """What the agent of a run is made of, as its folder tells."""
    config = json_object(path / CONFIG) or {}
    details = config.get("agent_details")
    return details if isinstance(details, dict) else {}


def of_verb(path: Path, command: object) -> bool:
    """Whether what is in a folder is a run of a verb."""
    stored = json_object(path / CONFIG)
    return stored is not None and command is not None and stored.get("command") == command


def finished_nothing(path: Path, known: Collection[str], episodes: str) -> bool:
    """Whether a run's folder holds no reply, no episode that ended well, and nothing but `known` names.

    `episodes` is the pattern of the trajectory files, the only files that may lie in its subfolders.
    """
    if {entry.name for entry in entries(path)} - {*known}:
        return False
    files = set(path.glob(episodes))
    if any(entry.is_file() and entry.parent != path and entry not in files for entry in path.rglob("*")):
        return False
    try:
        calls = CallLog(path / "calls.jsonl").read()
        played = [trajectory for file in files for trajectory in JsonlFile(file).read(Trajectory)]
    except UsageError:
        return False
    return all(call.reply is None for call in calls) and all(episode.fault is not None for episode in played)


NO_FAULT = b'"fault":null'
"""What the line of an episode that ended without a fault holds. In a text its quotes would be escaped."""


def finished_episodes(path: Path) -> int:
    """Return how many episodes in a run's folder, and in those of its parts, ended without a fault. Lines are counted,
    not checked: that is for whoever goes on with them.
    """
    files = [*path.rglob("trajectories/*.jsonl"), *path.rglob("trajectories.jsonl")]
    return sum(_count(file) for file in files if file.is_file() and not file.is_symlink())


def _count(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(NO_FAULT in line and line.endswith(b"\n") for line in lines)


def episodes_kept(path: Path) -> str:
    """Return how many episodes are kept in a folder, in words."""
    count = finished_episodes(path)
    return "1 finished episode is kept" if count == 1 else f"{count:,} finished episodes are kept"


def how_to_go_on(path: Path, kept: Sequence[str]) -> str:
    """Return in one line what is kept of a run and how to go on with it. `kept` are the words of those who have just
    written it.
    """
    told = [*kept, *([episodes_kept(path)] if finished_episodes(path) else [])]
    return f"{', '.join(told) or 'what is finished is kept'}; to go on, repeat the command with: --resume --out {path}"


def stop_line(path: Path, kept: Sequence[str]) -> str:
    """Return what is said of a run that is stopped."""
    return f"stopped; {how_to_go_on(path, kept)}" if (path / CONFIG).exists() else "stopped before anything was written"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape a run."""
    by_package = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return by_package


# ---------------------------------------------------------------- checkpoints


def step_of(checkpoint: str) -> int:
    """How many steps a checkpoint has behind it; 0 for none."""
    return int(checkpoint.rpartition("-")[2] or 0)


def whole_checkpoints(checkpoints: Path) -> list[Path]:
    """The checkpoints that were written to their end, oldest first."""
    folders = [folder for folder in checkpoints.glob("checkpoint-*") if (folder / FINISHED).is_file()]
    return sorted(folders, key=lambda folder: step_of(str(folder)))


def drop_unfinished(checkpoints: Path) -> None:
    """Remove checkpoints that were not written to their end."""
    whole = {folder.name for folder in whole_checkpoints(checkpoints)}
    clear(checkpoints, {folder.name for folder in checkpoints.glob("checkpoint-*")} - whole)


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
            parse_json(read_text(file))
        if file.suffix in (".pt", ".pth", ".bin") and not zipfile.is_zipfile(file):
            return "it ends too early"
    except (OSError, ValueError, SafetensorError) as error:
        return first_line(error)
    return ""
