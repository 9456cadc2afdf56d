"""The folder of a run, for any command: starting or resuming it, its lock, settings and checkpoints.

    config.json      the settings; a resumed run must have the same
    checkpoints/     of a training run: `checkpoint-<step>`, as written by `transformers`
    summary.json     the results, written last

Nothing is created before a run starts, so a refused run leaves nothing behind, and one process at a time works in a
folder. A run without any output yet can be started again. Not here: each command's other files (`align/run_folder.py`,
`evaluate/folder.py`, `train/run.py`), and lines of records (`base/jsonl.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from align_echo.base.files import clear, drop_half_written, entries, read_text, write_atomically
from align_echo.base.jsonl import JsonlFile
from align_echo.base.locking import FolderLock, check_free
from align_echo.base.plain_yaml import in_yaml, json_object, parse_json
from align_echo.errors import UsageError, first_line
from align_echo.interface.contract import Interface
from align_echo.models.recording import CallLog
from align_echo.types import Frozen, Trajectory

CONFIG, SUMMARY, CHECKPOINTS = "config.json", "summary.json", "checkpoints"

GENERATE = "generate-interface"

FINISHED = "trainer_state.json"
"""Last file of a checkpoint written by `transformers`; after it only older checkpoints are deleted."""

LEAST_ROOM = 10**7
"""Minimum free bytes for any run."""

LONGEST_VALUE = 120
"""Maximum characters of a setting in a message."""


def always(value: object) -> bool:
    """Return True: every folder may have output, and every setting must be the same in a resumed run."""
    return True


class RunDir:
    """The folder of one run: refused or accepted by `check`, created and locked by `begin`, ended by `finish`.

    As a context manager it begins if it has not, and on leaving lets other processes in. `config` is None where it is
    not known yet. `has_output` returns False for a folder of this command without any output, which starts again; its
    files `left` are removed. Settings are compared by dotted names if `compared(name)` is True; `read` reads the stored
    ones.
    """

    def __init__(
        self,
        path: str | Path,
        config: Mapping[str, Any] | None = None,
        *,
        resume: bool = False,
        left: Collection[str] = (),
        has_output: Callable[[Path], bool] = always,
        compared: Callable[[str], bool] = always,
        read: Callable[[Path], dict[str, Any] | None] = json_object,
    ) -> None:
        self.path = Path(path)
        self.config = config
        self.resume = resume
        self._left = left
        self._has_output = has_output
        self._compared = compared
        self._read = read
        self._lock: FolderLock | None = None

    def check(self) -> None:
        """Refuse a folder that cannot take this run, or is in use by another process, without changing it.

        Raises `UsageError` in one line.
        """
        path = self.path
        check_room(path)
        if not path.exists() or not entries(path):
            if self.resume:
                raise UsageError(f"there is nothing to resume in {path}")
            return
        check_free(path)
        if not self.resume:
            if not self._has_output(path):
                return
            raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
        stored = self._read(path / CONFIG)
        if stored is None:
            raise UsageError(f"{path} is not the folder of a run: it has no readable {CONFIG}")
        if self.config is not None:
            old, new = recorded_verb(stored), recorded_verb(self.config)
            if old and new and old != new:
                raise UsageError(f"{path} is a folder of {old}, not of {new}: name another --out")
            _check_same(path, *_by_content(flat(stored), flat(self.config)), self._compared)

    def begin(self) -> Self:
        """Create the folder and lock it against other processes until `close`.

        A new run writes its settings and removes what a false start left; a resumed run leaves them unchanged. Raises
        as `check`, also if another process has started meanwhile.
        """
        self.check()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        self.check()
        drop_half_written(self.path)
        if not self.resume:
            clear(self.path, self._left)
            write_atomically(self.path / CONFIG, json.dumps(self.config, indent=2) + "\n")
        return self

    def finish(self, summary: Frozen | Mapping[str, Any]) -> Path:
        """Write `summary.json`, the last file of a run."""
        text = json.dumps(summary, indent=2) if isinstance(summary, Mapping) else summary.model_dump_json(indent=2)
        return write_atomically(self.path / SUMMARY, text + "\n")

    def close(self) -> None:
        """Let other processes in. Safe to call twice."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> Self:
        return self if self._lock is not None else self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_room(path: Path, needed: int = LEAST_ROOM) -> None:
    """Refuse an unwritable folder, or a disk with less free space than `needed` bytes, without changing it.

    Raises `UsageError` in one line.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    parent = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not parent.is_dir():
        raise UsageError(f"{parent} is a file, and {path} would lie in it: name another --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"{parent} cannot be written to: name another --out")
    free = shutil.disk_usage(parent).free
    if free < needed:
        room = f"there are {free / 1e6:,.0f} MB free where {path} is, and {needed / 1e6:,.0f} MB are needed"
        raise UsageError(f"{room}: make room, or name another --out")


def _check_same(path: Path, stored: dict[str, Any], wanted: dict[str, Any], compared: Callable[[str], bool]) -> None:
    for key in sorted(filter(compared, stored.keys() | wanted.keys())):
        old, new = stored.get(key), wanted.get(key)
        if old != new:
            name, old, new = _difference(key.removeprefix("config."), old, new)
            old_text = f"without {name}" if old is None else f"with {name} = {_short(old)}"
            new_text = "without it" if new is None else f"with {_short(new)}" if old is None else _short(new)
            raise UsageError(
                f"{path} was started {old_text}, not {new_text}; resume with the same, or name another --out"
            )


def _difference(name: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Narrow two values down to what differs where a message would cut them: numbers of entries, or one entry."""
    are_cut = _short(old) != in_yaml(old) or _short(new) != in_yaml(new)
    if not are_cut or not isinstance(old, list) or not isinstance(new, list):
        return name, old, new
    if len(old) != len(new):
        return f"number of {name}", len(old), len(new)
    at = next(index for index, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1])
    return f"{name}[{at}]", old[at], new[at]


def _by_content(stored: dict[str, Any], wanted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rename settings by dotted names so that equal contents have one name, and different contents have two.

    An interface is identified by its `interface_contents`, a local model by the hash of its weights, an agent of
    `generate-interface` by its name (`player`). An older run has no contents: the hash in the label decides; it also
    has no `player` and no declarations.
    """
    stored, wanted = dict(stored), dict(wanted)
    for key in [key for key in wanted if key.partition(".")[0] in ("interface", "interfaces")]:
        content = f"interface_contents{key.removeprefix(key.partition('.')[0])}"
        old, new = stored.pop(content, None), wanted.pop(content, None)
        label, new_label = str(stored.get(key)), str(wanted[key])
        if (old or label.rpartition("@")[2]) == (new if old else new_label.rpartition("@")[2]):
            _rename(wanted, stored, key, *(["config.interface"] if key == "interface" else []))
        elif label == new_label:
            stored[key], wanted[key] = f"{label} ({old})", f"{new_label} ({new})"
    unknown = [] if "player" in stored else ["player", *(key for key in wanted if key.startswith("declared."))]
    for key in ("interface_named", *(unknown if "player" in wanted else [])):
        stored.pop(key, None)
        wanted.pop(key, None)
    for role in [key.rpartition(".")[2] for key in wanted if key.startswith("agent_details.weights.")]:
        if _same(stored, wanted, f"agent_details.weights.{role}"):
            agent_keys = ["model", *(["agent"] if _same(stored, wanted, "player") else [])] if role == "agent" else []
            _rename(wanted, stored, f"agent_details.model.{role}", *agent_keys)
    if all(_same(stored, wanted, f"weights.{role}") for role in ("policy", "critic")):
        _rename(wanted, stored, "config.model", "config.critic")
    return stored, wanted


def _same(stored: Mapping[str, Any], wanted: Mapping[str, Any], key: str) -> bool:
    """Return True if both have the same nonempty setting."""
    return bool(stored.get(key)) and stored[key] == wanted.get(key)


def _rename(wanted: dict[str, Any], stored: Mapping[str, Any], *keys: str) -> None:
    """Use the stored name of settings shown to be equal."""
    wanted.update({key: stored[key] for key in keys if key in stored})


def interface_fingerprints(interfaces: Mapping[str, Interface | None]) -> dict[str, Any]:
    """Return the interfaces' fingerprints by variant, as in a run's settings."""
    return {name: interface.fingerprint if interface else "none" for name, interface in interfaces.items()}


def _short(value: object) -> str:
    """Write a setting in YAML, shortened if it is long."""
    written = in_yaml(value)
    return written if len(written) <= LONGEST_VALUE else f"{written[:LONGEST_VALUE]}..."


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested values to dotted names."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def agent_details(path: Path) -> dict[str, str]:
    """Read the agent's details in a run's folder."""
    config = json_object(path / CONFIG) or {}
    details = config.get("agent_details")
    return details if isinstance(details, dict) else {}


def recorded_verb(config: Mapping[str, Any]) -> str:
    """Return the verb of a run's settings; "" for anything else. A run of `generate-interface` does not record it."""
    verb = config.get("command", GENERATE if {"backend", "iterations"} <= config.keys() else "")
    return verb if isinstance(verb, str) else ""


def is_run_by(path: Path, command: object) -> bool:
    """Return True if a folder holds a run of this command."""
    stored = json_object(path / CONFIG)
    return stored is not None and command is not None and stored.get("command") == command


def finished_nothing(path: Path, known: Collection[str], episodes: str) -> bool:
    """Return True if a run's folder has no reply, no episode without a fault, and only `known` names.

    `episodes` is the pattern of the trajectory files, the only files allowed in subfolders.
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
"""Part of the line of an episode without a fault. Inside a text its quotes would be escaped."""


def finished_episodes(path: Path) -> int:
    """Count the episodes without a fault in a run's folder and its parts. Lines are counted, not validated."""
    files = [*path.rglob("trajectories/*.jsonl"), *path.rglob("trajectories.jsonl")]
    return sum(_count(file) for file in files if file.is_file() and not file.is_symlink())


def _count(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(NO_FAULT in line and line.endswith(b"\n") for line in lines)


def episodes_kept(path: Path) -> str:
    """Describe how many episodes a folder holds."""
    count = finished_episodes(path)
    return "1 finished episode is kept" if count == 1 else f"{count:,} finished episodes are kept"


def how_to_go_on(path: Path, saved: Sequence[str]) -> str:
    """Describe in one line the saved work of a run and how to resume it. `saved` are descriptions of just-written work.
    """
    parts = [*saved, *([episodes_kept(path)] if finished_episodes(path) else [])]
    return f"{', '.join(parts) or 'what is finished is kept'}; to go on, repeat the command with: --resume --out {path}"


def stop_line(path: Path, saved: Sequence[str]) -> str:
    """Return the message about a stopped run."""
    if (path / CONFIG).exists():
        return f"stopped; {how_to_go_on(path, saved)}"
    return "stopped before anything was written"


# ---------------------------------------------------------------- checkpoints


def checkpoint_step(checkpoint: str) -> int:
    """Return the number of steps of a checkpoint; 0 for none."""
    return int(checkpoint.rpartition("-")[2] or 0)


def whole_checkpoints(checkpoints: Path) -> list[Path]:
    """List the complete checkpoints, oldest first."""
    folders = [folder for folder in checkpoints.glob("checkpoint-*") if (folder / FINISHED).is_file()]
    return sorted(folders, key=lambda folder: checkpoint_step(str(folder)))


def drop_unfinished(checkpoints: Path) -> None:
    """Remove incomplete checkpoints."""
    complete = {folder.name for folder in whole_checkpoints(checkpoints)}
    clear(checkpoints, {folder.name for folder in checkpoints.glob("checkpoint-*")} - complete)


def newest_checkpoint(checkpoints: Path) -> str:
    """Return the newest complete checkpoint; "" for none. Raises `UsageError` if one of its files was truncated since.
    """
    newest = next(reversed(whole_checkpoints(checkpoints)), None)
    if newest is None:
        return ""
    for file in sorted(newest.rglob("*")):
        damage = find_damage(file)
        if damage:
            raise UsageError(f"{file} is damaged ({damage}): delete {newest}, and --resume goes on from before it")
    return str(newest)


def find_damage(file: Path) -> str:
    """Describe the damage of a checkpoint file, as far as its ends show; "" if there is none."""
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
