"""Where ALFWorld's games come from: the official download if there is one, else the embedded games, in one layout.

Official: `<root>/json_2.1.1/<split>/<task>/<trial>/{game.tw-pddl,traj_data.json}`, filtered as ALFWorld does. The id of
a task is `<split>/<task>/<trial>`. Embedded games are written to a cache folder in that layout when first played.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from align_echo.errors import EngineError, MissingDataError, UsageError
from align_echo.files import write_atomically
from align_echo.reading import parse_json
from align_echo.wrappers.alfworld import manifest, upstream
from align_echo.wrappers.alfworld.spec import TASK_TYPES
from align_echo.wrappers.cache import cache_folder

FOLDER = "json_2.1.1"
GAME = "game.tw-pddl"
TRAJECTORY = "traj_data.json"


@dataclass(frozen=True)
class GameFolder:
    """The two files of one game."""

    game: Path
    trajectory: Path


class Source(Protocol):
    """A collection of games. `label` says which one, for the record of a run."""

    @property
    def label(self) -> str: ...
    def ids(self, split: str) -> list[str]: ...
    def folder(self, task_id: str) -> GameFolder: ...


def source(data_root: Path | None) -> Source:
    """The official games under `data_root` or `$ALFWORLD_DATA`; without either, the embedded ones.

    ALFWorld's own default folder without games in it counts as unset: the package itself exports it when imported.
    Raises `MissingDataError` if the folder that was named holds no games.
    """
    if data_root is not None:
        return _official(data_root, f"{data_root}", "leave data_root out")
    configured = upstream.configured_data()
    if not configured or (_is_default(Path(configured)) and not (Path(configured) / FOLDER).is_dir()):
        return EmbeddedGames()
    return _official(Path(configured), f"$ALFWORLD_DATA ({configured})", "unset it")


def _official(root: Path, named: str, otherwise: str) -> OfficialGames:
    if not (root / FOLDER).is_dir():
        raise MissingDataError(
            f"no ALFWorld games under {named}: expected {root / FOLDER}/<split>/<task>/<trial>/{GAME} "
            f"(alfworld-download makes it); {otherwise} to play the embedded games"
        )
    return OfficialGames(root / FOLDER)


def _is_default(path: Path) -> bool:
    """Whether it is the folder that ALFWorld puts into `$ALFWORLD_DATA` by itself."""
    return path.absolute() == Path("~/.cache/alfworld").expanduser().absolute()


# ---------------------------------------------------------------- official


@dataclass(frozen=True)
class OfficialGames:
    """Games on disk under `<root>/<split>/<task>/<trial>`."""

    root: Path

    @property
    def label(self) -> str:
        """Where they lie."""
        return f"official games at {self.root.parent.absolute()}"

    def ids(self, split: str) -> list[str]:
        """Playable games of a split, sorted. Raises `MissingDataError` if the split is not there or holds none."""
        folder = self.root / split
        if not folder.is_dir():
            raise MissingDataError(f"no split {split!r} in the ALFWorld data: expected the folder {folder}")
        listed = _listed(folder)
        if not listed:
            raise MissingDataError(f"no playable game in {folder}: expected <task>/<trial>/{GAME} and {TRAJECTORY}")
        return [f"{split}/{name}" for name in listed]

    def folder(self, task_id: str) -> GameFolder:
        """The files of a game. Raises `UsageError` for an id that is not there."""
        parts = task_id.split("/")
        folder = self.root / task_id
        if len(parts) != 3 or {"", ".", ".."} & set(parts) or not (folder / GAME).is_file():
            raise UsageError(f"there is no ALFWorld task {task_id!r} under {self.root}")
        return GameFolder(folder / GAME, folder / TRAJECTORY)


def _listed(folder: Path) -> list[str]:
    """`<task>/<trial>` of the playable games, from the cache unless a file was added, removed or changed."""
    candidates = list(_candidates(folder))
    stamp = hashlib.sha256("\n".join(f"{name} {mtime} {size}" for name, mtime, size in candidates).encode()).hexdigest()
    place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    cache = cache_folder() / "alfworld" / "listings" / f"{place}.json"
    try:
        stored = parse_json(cache.read_text(encoding="utf-8"))
        if stored["stamp"] == stamp:
            return list(stored["games"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no listing yet, or a damaged one: make it again
    games = sorted(name for name, _, _ in candidates if _playable(folder / name))
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


def _playable(folder: Path) -> bool:
    try:
        if read_json(folder / TRAJECTORY)["task_type"] not in TASK_TYPES:
            return False
        return bool(read_json(folder / GAME).get("solvable"))
    except (EngineError, KeyError):
        return False


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises `EngineError` if it is not one."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot read {path}: {error}") from error
    if not isinstance(record, dict):
        raise EngineError(f"{path} holds no JSON object")
    return record


# ---------------------------------------------------------------- embedded


class EmbeddedGames:
    """Generated games, listed in the shipped manifest and made when first played."""

    @property
    def label(self) -> str:
        """Which version of the generator makes them."""
        return f"embedded games, generator {manifest.shipped().versions['generator']}"

    def ids(self, split: str) -> list[str]:
        """Listed games of a split, sorted."""
        return manifest.shipped().ids(split)

    def folder(self, task_id: str) -> GameFolder:
        """The files of a game, made on first use. Raises `UsageError`; `EngineError` if made differently."""
        entry = manifest.shipped().entries.get(task_id)
        if entry is None:
            raise UsageError(f"there is no embedded ALFWorld task {task_id!r}")
        version = manifest.shipped().versions["generator"]
        place = cache_folder() / "alfworld" / f"embedded-{version}" / FOLDER / task_id
        files = GameFolder(place / GAME, place / TRAJECTORY)
        if not _intact(files, entry.digest):
            _write(task_id, entry.digest, files)
        return files


@functools.lru_cache(maxsize=1024)
def _known_intact(game: Path, game_stamp: int, trajectory_stamp: int, digest: str) -> bool:
    trajectory = game.with_name(TRAJECTORY)
    return manifest.digest(game.read_text(encoding="utf-8"), trajectory.read_text(encoding="utf-8")) == digest


def _intact(files: GameFolder, digest: str) -> bool:
    try:
        stamps = files.game.stat().st_mtime_ns, files.trajectory.stat().st_mtime_ns
        return _known_intact(files.game, *stamps, digest)
    except (OSError, UnicodeDecodeError):
        return False


def _write(task_id: str, digest: str, files: GameFolder) -> None:
    from align_echo.wrappers.alfworld.games import GENERATOR_VERSION, write_game

    made = write_game(task_id)
    if manifest.digest(made.game, made.trajectory) != digest:
        versions = ", ".join(f"{name} {version}" for name, version in manifest.shipped().versions.items())
        raise EngineError(
            f"the embedded ALFWorld game {task_id} came out different from the listed one: it was listed with "
            f"{versions}; here are generator {GENERATOR_VERSION}, alfworld {metadata.version('alfworld')}"
        )
    try:
        files.game.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(files.trajectory, made.trajectory)
        write_atomically(files.game, made.game)
    except OSError as error:
        raise UsageError(
            f"cannot write the embedded game to {error.filename or files.game.parent} ({error.strerror}): "
            "set ALIGN_ECHO_CACHE to a folder that can be written"
        ) from error
