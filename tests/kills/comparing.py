"""What two folders of one command hold, without what may differ between two runs of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
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

ROUNDING = re.compile(r"(?:policy|critic)/mismatch/.*")
"""Keys of signals whose values are rounding, while they are below `MOST_ROUNDING`: how far the log-probabilities of the
engine and of the trainer are apart. Which conversations share a step of the engine, and so the order of its sums, is
a matter of when its threads were run."""

MOST_ROUNDING = 1e-4
"""What docs/local-models.md promises of log-probabilities."""

MOST_TOLD = 5
"""Differences of a file that are printed."""


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


def where_differing(undisturbed: Path, killed: Path) -> list[str]:
    """What two files hold that is not the same, a line each: of JSON the values, by line and dotted name."""
    if not killed.is_file():
        return [f"{killed.name} is not there"]
    if undisturbed.suffix not in (".json", ".jsonl"):
        sizes = (file.stat().st_size for file in (undisturbed, killed))
        return ["{} and {} bytes".format(*sizes)]
    first, second = ({name: value for line in _lines(file) for name, value in line} for file in (undisturbed, killed))
    names = [name for name in dict.fromkeys((*first, *second)) if first.get(name) != second.get(name)]
    told = [f"{name}: {first.get(name, 'nothing')} and {second.get(name, 'nothing')}" for name in names[:MOST_TOLD]]
    return told + [f"and {len(names) - MOST_TOLD} more"] * (len(names) > MOST_TOLD)


def _digest(file: Path) -> str:
    if file.name in MAY_DIFFER:
        return "-"
    data = file.read_bytes()
    if file.name == DICE:
        import torch

        data = repr(_listed(torch.load(file, weights_only=False))).encode()  # written by the run that is compared
    if file.suffix in (".json", ".jsonl"):
        told = [json.dumps(record, sort_keys=True) for record in _records(file)]
        data = "\n".join(sorted(set(told)) if file.name in (CALLS, REPLIES) else told).encode()
    return hashlib.sha256(data).hexdigest()


def _records(file: Path) -> list[Any]:
    """What is compared of a file of JSON, or of each line of one; of calls with all their messages."""
    if file.name == CALLS:
        return [_timeless(call.model_dump(mode="json")) for call in CallLog(file).read()]
    text = file.read_text(encoding="utf-8")
    return [_timeless(json.loads(line)) for line in (text.splitlines() if file.suffix == ".jsonl" else [text])]


def _lines(file: Path) -> list[list[tuple[str, Any]]]:
    """The values of each record, by dotted name."""
    return [list(_flat(record, f"line {number}")) for number, record in enumerate(_records(file), 1)]


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(part, f"{name}.{key}")
    else:
        yield name, value


def _listed(value: Any) -> Any:
    """Without tensors and arrays, whose text is cut short."""
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if not KEYS_THAT_MAY_DIFFER.fullmatch(key)}
        return {key: "rounding" if _is_rounding(key, part) else _timeless(part) for key, part in kept.items()}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _is_rounding(key: str, value: Any) -> bool:
    return ROUNDING.fullmatch(key) is not None and isinstance(value, float) and abs(value) < MOST_ROUNDING
