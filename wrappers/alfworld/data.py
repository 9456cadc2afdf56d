"""Source of ALFWorld's games: the official download if there is one, else the embedded games, in one layout.

Official: `<root>/json_2.1.1/<split>/<task>/<trial>/{game.tw-pddl,traj_data.json}`, filtered as ALFWorld does. A task's
id is `<split>/<task>/<trial>`. Embedded games are written to a cache folder in the same layout on first use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from align_echo.errors import EngineError, MissingDataError, UsageError
from align_echo.files import write_atomically
from align_echo.reading import parse_json
from align_echo.wrappers.alfworld import manifest, upstream
from align_echo.wrappers.alfworld.spec import FOLDER, GAME, TASK_TYPES, TRAJECTORY
from align_echo.wrappers.cache import cache_folder


class GameSource(Protocol):
    """Collection of games. `label` identifies it in the record of a run.

    A task's folder holds the files `GAME` and `TRAJECTORY`.
    """

    @property
    def label(self) -> str: ...
    def ids(self, split: str) -> list[str]: ...
    def folder(self, task_id: str) -> Path: ...


def source(data_root: Path | None) -> GameSource:
    """Return the official games under `data_root` or `$ALFWORLD_DATA`; without either, the embedded ones.

    ALFWorld's own default folder counts as unset if it holds no games, because the package exports it on import. Raises
    `MissingDataError` if a configured folder holds no games, `MissingExtraError` if their packages are not installed.
    """
    if data_root is not None:
        return _official(data_root, f"{data_root}", "leave data_root out")
    configured = upstream.configured_data()
    if not configured or (_is_default(Path(configured)) and not (Path(configured) / FOLDER).is_dir()):
        return manifest.load_embedded()
    return _official(Path(configured), f"$ALFWORLD_DATA ({configured})", "unset it")


def _official(root: Path, named: str, otherwise: str) -> OfficialGames:
    if not (root / FOLDER).is_dir():
        raise MissingDataError(
            f"no ALFWorld games under {named}: expected {root / FOLDER}/<split>/<task>/<trial>/{GAME} "
            f"(alfworld-download of the extra alfworld makes it); {otherwise} to play the embedded games"
        )
    upstream.require_packages(f"playing the ALFWorld games under {named} ({otherwise} to play the embedded ones)")
    return OfficialGames(root / FOLDER)


def _is_default(path: Path) -> bool:
    """Check if a folder is the one ALFWorld itself puts into `$ALFWORLD_DATA`."""
    return path.absolute() == Path("~/.cache/alfworld").expanduser().absolute()


# ---------------------------------------------------------------- official


@dataclass(frozen=True)
class OfficialGames:
    """Games on disk under `<root>/<split>/<task>/<trial>`."""

    root: Path

    @property
    def label(self) -> str:
        """Location of the games."""
        return f"official games at {self.root.parent.absolute()}"

    def ids(self, split: str) -> list[str]:
        """Return the playable games of a split, sorted. Raises `MissingDataError` if the split is missing or holds
        none."""
        folder = self.root / split
        if not folder.is_dir():
            raise MissingDataError(f"no split {split!r} in the ALFWorld data: expected the folder {folder}")
        listed = _list_playable(folder)
        if not listed:
            raise MissingDataError(f"no playable game in {folder}: expected <task>/<trial>/{GAME} and {TRAJECTORY}")
        return [f"{split}/{name}" for name in listed]

    def folder(self, task_id: str) -> Path:
        """Return the folder of a game. Raises `UsageError` for an unknown id."""
        parts = task_id.split("/")
        folder = self.root / task_id
        if len(parts) != 3 or {"", ".", ".."} & set(parts) or not (folder / GAME).is_file():
            raise UsageError(f"there is no ALFWorld task {task_id!r} under {self.root}")
        return folder


def _list_playable(folder: Path) -> list[str]:
    """List `<task>/<trial>` of the playable games, from the cache unless a file was added, removed or changed."""
    candidates = list(_candidates(folder))
    stamp = hashlib.sha256("\n".join(f"{name} {mtime} {size}" for name, mtime, size in candidates).encode()).hexdigest()
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    cache = cache_folder() / "alfworld" / "listings" / f"{name}.json"
    try:
        stored = parse_json(cache.read_text(encoding="utf-8"))
        if stored["stamp"] == stamp:
            return list(stored["games"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no listing yet, or a damaged one: make it again
    games = sorted(name for name, _, _ in candidates if _is_playable(folder / name))
    cache.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(cache, json.dumps({"stamp": stamp, "games": games}))
    return games


def _candidates(folder: Path) -> Iterable[tuple[str, int, int]]:
    for task in sorted(os.scandir(folder), key=lambda entry: entry.name):
        # ALFWorld leaves these out: its engine has neither movable receptacles nor slices.
        if not task.is_dir() or "movable" in task.name or "Sliced" in task.name:
            continue
        for trial in sorted(os.scandir(task.path), key=lambda entry: entry.name):
            try:
                game = os.stat(os.path.join(trial.path, GAME))
                trajectory = os.stat(os.path.join(trial.path, TRAJECTORY))
            except OSError:
                continue
            yield (
                f"{task.name}/{trial.name}",
                max(game.st_mtime_ns, trajectory.st_mtime_ns),
                game.st_size + trajectory.st_size,
            )


def _is_playable(folder: Path) -> bool:
    try:
        if read_json(folder / TRAJECTORY)["task_type"] not in TASK_TYPES:
            return False
        return bool(read_json(folder / GAME).get("solvable"))
    except (EngineError, KeyError):
        return False


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file. Raises `EngineError` if the file holds none."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot read {path}: {error}") from error
    if not isinstance(record, dict):
        raise EngineError(f"{path} holds no JSON object")
    return record
