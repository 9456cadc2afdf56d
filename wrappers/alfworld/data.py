"""Source of ALFWorld's games: the official download if there is one, else the embedded games, in one layout.

Official: `<root>/json_2.1.1/<split>/<task>/<trial>/{game.tw-pddl,traj_data.json}`, filtered as ALFWorld does. A task's
id is `<split>/<task>/<trial>`. Embedded games are written to a cache folder in the same layout on first use.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from align_echo.base.files import cache_folder, write_atomically
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import EngineError, MissingDataError, UsageError, unreadable
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.spec import FOLDER, GAME, TASK_TYPES, TRAJECTORY

# ---------------------------------------------------------------- embedded games

FILE = "embedded.json"
HASH_DIGITS = 16


@dataclass(frozen=True)
class ListedGame:
    """Entry of the list. `digest` is the digest of the game's files."""

    task_id: str
    digest: str
    expert_steps: int


@dataclass(frozen=True)
class EmbeddedGames:
    """List of generated games, with the versions used to make them. It is a `Source` of games (`data.py`)."""

    versions: dict[str, str]
    entries: dict[str, ListedGame]

    @property
    def label(self) -> str:
        """Version of the generator."""
        return f"embedded games, generator {self.versions['generator']}"

    def ids(self, split: str) -> list[str]:
        """Return the sorted ids of a split."""
        return sorted(task_id for task_id in self.entries if task_id.startswith(f"{split}/"))

    def folder(self, task_id: str) -> Path:
        """Return the folder of a game, made on first use. Raises `UsageError`; `EngineError` if the files differ from
        the list."""
        entry = self.entries.get(task_id)
        if entry is None:
            raise UsageError(f"there is no embedded ALFWorld task {task_id!r}")
        folder = cache_folder() / "alfworld" / f"embedded-{self.versions['generator']}" / FOLDER / task_id
        if not _intact(folder, entry.digest):
            self._write(entry, folder)
        return folder

    def _write(self, entry: ListedGame, folder: Path) -> None:
        from align_echo.wrappers.alfworld.games import GENERATOR_VERSION, tables, write_game

        files = write_game(entry.task_id)
        if digest(files) != entry.digest:
            versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
            raise EngineError(
                f"the embedded ALFWorld game {entry.task_id} came out different from the listed one: it was listed "
                f"with {versions}; here are generator {GENERATOR_VERSION}, tables of alfworld {tables().version}"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (TRAJECTORY, GAME):
                write_atomically(folder / name, files[name])
        except OSError as error:
            raise UsageError(
                f"cannot write the embedded game to {error.filename or folder} ({error.strerror}): "
                "set ALIGN_ECHO_CACHE to a folder that can be written"
            ) from error


def _intact(folder: Path, digest_: str) -> bool:
    try:
        stamps = (folder / GAME).stat().st_mtime_ns, (folder / TRAJECTORY).stat().st_mtime_ns
        return _known_intact(folder, *stamps, digest_)
    except (OSError, UnicodeDecodeError):
        return False


@functools.lru_cache(maxsize=1024)
def _known_intact(folder: Path, game_stamp: int, trajectory_stamp: int, digest_: str) -> bool:
    return digest({name: (folder / name).read_text(encoding="utf-8") for name in (GAME, TRAJECTORY)}) == digest_


@functools.cache
def load_embedded() -> EmbeddedGames:
    """Load the list of games in the package. Raises `EngineError` if it is missing or damaged."""
    try:
        return decode(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"the list of embedded ALFWorld games is not readable ({error}): reinstall") from error


def digest(files: Mapping[str, str]) -> str:
    """Compute the start of the SHA-256 of a game's two files, from their texts by name."""
    return hashlib.sha256(f"{files[GAME]}\0{files[TRAJECTORY]}".encode()).hexdigest()[:HASH_DIGITS]


def encode(games: EmbeddedGames) -> str:
    """Serialize as compact JSON: one line per folder (`<split>/<task>`), trial -> [hash, expert's steps]."""
    folders: dict[str, dict[str, list[object]]] = {}
    for entry in sorted(games.entries.values(), key=lambda entry: entry.task_id):
        folder, trial = entry.task_id.rsplit("/", 1)
        folders.setdefault(folder, {})[trial] = [entry.digest, entry.expert_steps]
    lines = ",\n".join(f"  {json.dumps(folder)}: {json.dumps(trials)}" for folder, trials in folders.items())
    return f'{{\n "versions": {json.dumps(games.versions)},\n "games": {{\n{lines}\n }}\n}}\n'


def decode(text: str) -> EmbeddedGames:
    """Parse the output of `encode`. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    record = json.loads(text)
    entries = {}
    for folder, trials in record["games"].items():
        for trial, (digest_, steps) in trials.items():
            task_id = f"{folder}/{trial}"
            entries[task_id] = ListedGame(task_id, str(digest_), int(steps))
    return EmbeddedGames(dict(record["versions"]), entries)


# ---------------------------------------------------------------- source of ALFWorld's games


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
        return _official(data_root, f"{data_root}", "leave --data-root out")
    configured = oracle.configured_data()
    if not configured or (_is_default(Path(configured)) and not (Path(configured) / FOLDER).is_dir()):
        return load_embedded()
    return _official(Path(configured), f"$ALFWORLD_DATA ({configured})", "unset it")


def _official(root: Path, named: str, otherwise: str) -> OfficialGames:
    if not (root / FOLDER).is_dir():
        raise MissingDataError(
            f"no ALFWorld games under {named}: expected {root / FOLDER}/<split>/<task>/<trial>/{GAME} "
            f"(alfworld-download of the extra alfworld makes it); {otherwise} to play the embedded games"
        )
    oracle.require_packages(f"playing the ALFWorld games under {named} ({otherwise} to play the embedded ones)")
    return OfficialGames(root / FOLDER)


def _is_default(path: Path) -> bool:
    """Check if a folder is the one ALFWorld itself puts into `$ALFWORLD_DATA`."""
    return path.absolute() == Path("~/.cache/alfworld").expanduser().absolute()


# ---------------------------------------------------------------- official games


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
        raise EngineError(unreadable(path, error)) from error
    if not isinstance(record, dict):
        raise EngineError(f"{path} holds no JSON object")
    return record
