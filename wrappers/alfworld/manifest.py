"""Embedded games: a list in the package (id, hash of the game's files), and the files made from it.

The expert won every listed game in the real engine when the list was built (`build_manifest.py`), so listing needs
neither engine nor generator. A game's files are made on first use and checked against the list.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from align_echo.errors import EngineError, UsageError
from align_echo.files import write_atomically
from align_echo.wrappers.alfworld.spec import FOLDER, GAME, TRAJECTORY
from align_echo.wrappers.cache import cache_folder

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
        from align_echo.wrappers.alfworld.games import GENERATOR_VERSION, write_game
        from align_echo.wrappers.alfworld.tables import tables

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
