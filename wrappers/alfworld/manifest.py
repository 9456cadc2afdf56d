"""The list of embedded games that ships with the package: id -> floor plan, type and the hash of its files.

Every listed game was won by the expert in the real engine when the list was built (`build_manifest.py`), so listing
needs neither engine nor generator, and a game made on another machine is checked against the list.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from importlib import resources

from align_echo.errors import EngineError

FILE = "embedded.json"
HASH_DIGITS = 16


@dataclass(frozen=True)
class ListedGame:
    """One listed game. `digest` is the start of the SHA-256 of both files."""

    task_id: str
    digest: str
    expert_steps: int


@dataclass(frozen=True)
class Manifest:
    """All embedded games, and which versions made them."""

    versions: dict[str, str]
    entries: dict[str, ListedGame]

    def ids(self, split: str) -> list[str]:
        """Sorted ids of a split."""
        return sorted(task_id for task_id in self.entries if task_id.startswith(f"{split}/"))


@functools.cache
def shipped() -> Manifest:
    """The manifest in the package. Raises `EngineError` if it is missing or damaged."""
    try:
        return decode(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"the list of embedded ALFWorld games is not readable ({error}): reinstall") from error


def digest(game: str, trajectory: str) -> str:
    """Hash of a game's two files."""
    return hashlib.sha256(f"{game}\0{trajectory}".encode()).hexdigest()[:HASH_DIGITS]


def encode(manifest: Manifest) -> str:
    """Compact JSON: one line per folder (`<split>/<task>`), trial -> [hash, expert's steps]."""
    folders: dict[str, dict[str, list[object]]] = {}
    for entry in sorted(manifest.entries.values(), key=lambda entry: entry.task_id):
        folder, trial = entry.task_id.rsplit("/", 1)
        folders.setdefault(folder, {})[trial] = [entry.digest, entry.expert_steps]
    lines = ",\n".join(f"  {json.dumps(folder)}: {json.dumps(trials)}" for folder, trials in folders.items())
    return f'{{\n "versions": {json.dumps(manifest.versions)},\n "games": {{\n{lines}\n }}\n}}\n'


def decode(text: str) -> Manifest:
    """The reverse of `encode`. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    record = json.loads(text)
    entries = {}
    for folder, trials in record["games"].items():
        for trial, (digest_, steps) in trials.items():
            task_id = f"{folder}/{trial}"
            entries[task_id] = ListedGame(task_id, str(digest_), int(steps))
    return Manifest(dict(record["versions"]), entries)
