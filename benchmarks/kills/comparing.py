"""What two folders of one command hold, without what may differ between two runs of it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from align_echo.models import CallLog
from align_echo.models.cache import REPLIES

MAY_DIFFER = {
    "events.jsonl": "a diary: a run that went on says so",
}
"""Files that are not compared, and why."""

DICE = "rng_state.pth"
"""States of random generators, which equal ones may be written as other bytes: what they hold is compared."""

CALLS = "calls.jsonl"
"""A log in which a process that goes on asks again what is in the cache, and begins anew with whole messages: the
distinct exchanges are compared."""

KEYS_THAT_MAY_DIFFER = re.compile(r"seconds(?:[/_].*)?|tokens_per_second|time|engine_steps|cached")
"""Keys of JSON, at any depth, that are not compared: what a clock said, and the steps that an analysis took, which the
next process does not know of one that was killed right after it, and whether a reply was asked for or in the cache."""


def contents(folder: Path) -> dict[str, str]:
    """A hash of what each file holds, by its path within the folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): _digest(file) for file in files}


def differing(undisturbed: dict[str, str], killed: dict[str, str]) -> list[str]:
    """Paths of the files that are missing from the second, or hold something else there."""
    return sorted(path for path, digest in undisturbed.items() if killed.get(path) != digest)


def left_over(undisturbed: dict[str, str], killed: dict[str, str]) -> list[str]:
    """Paths of the files that only the second has."""
    return sorted(killed.keys() - undisturbed.keys())


def _digest(file: Path) -> str:
    if file.name in MAY_DIFFER:
        return "-"
    data = file.read_bytes()
    if file.name == DICE:
        import torch

        data = repr(_listed(torch.load(file, weights_only=False))).encode()  # written by the run that is compared
    if file.suffix in (".json", ".jsonl"):
        told = [json.dumps(_timeless(value), sort_keys=True) for value in _values(file)]
        data = "\n".join(sorted(set(told)) if file.name in (CALLS, REPLIES) else told).encode()
    return hashlib.sha256(data).hexdigest()


def _values(file: Path) -> list[Any]:
    """The JSON values of a file, calls with all their messages."""
    if file.name == CALLS:
        return [call.model_dump(mode="json") for call in CallLog(file).read()]
    text = file.read_text()
    return [json.loads(line) for line in (text.splitlines() if file.suffix == ".jsonl" else [text])]


def _listed(value: Any) -> Any:
    """Without tensors and arrays, whose text is cut short."""
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if not KEYS_THAT_MAY_DIFFER.fullmatch(key)}
    return [_timeless(part) for part in value] if isinstance(value, list) else value
