"""Problems by task id: those that are generated, or the rows of a user's files.

A file is JSON lines with `problem` and `answer`, and optionally `level`, `subject` or `type`, and `unique_id` (the
layout of MATH-500). A single file is the `test` split; a folder holds `train.jsonl`, `dev.jsonl`, `test.jsonl` or some
of them. Left out: how problems are generated (`generator.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from align_echo.errors import MissingDataError, UsageError
from align_echo.reading import parse_json
from align_echo.wrappers.mathematics import generator
from align_echo.wrappers.mathematics.generator import Problem
from align_echo.wrappers.mathematics.spec import SPLITS

LONGEST_ANSWER = 2_000
LONGEST_PROBLEM = 50_000
"""Characters in a file's row: observations end at twice as many."""


class _File(NamedTuple):
    """A file of one split, and how it was when it was found: it is read again when that changes."""

    split: str
    path: Path
    modified_ns: int
    size: int


def problems(split: str, data_root: Path | None) -> Mapping[str, Problem]:
    """The problems of a split by task id, in a fixed order; generated ones without a `data_root`.

    Raises `MissingDataError` for a file that is not there, `UsageError` for one that is damaged, naming its line.
    """
    if data_root is None:
        return generator.problems(split)
    by_split, _ = _read(_files(data_root))
    if split not in by_split:
        raise MissingDataError(f"{data_root} has no {split} problems: name a folder that holds {split}.jsonl")
    return by_split[split]


def task_ids(split: str, data_root: Path | None) -> list[str]:
    """The task ids of a split in their order; those of generated problems are known without generating any.

    Raises as `problems`.
    """
    return generator.task_ids(split) if data_root is None else list(problems(split, data_root))


def label(data_root: Path | None) -> str:
    """Whose problems they are, in one line. Raises as `problems`."""
    if data_root is None:
        return f"generated problems, generator {generator.VERSION}"
    _, repeated = _read(_files(data_root))
    without = f", {repeated} left out that a later split has too" if repeated else ""
    return f"problems at {data_root.absolute()}{without}"


def _files(data_root: Path) -> tuple[_File, ...]:
    paths = {"test": data_root} if data_root.is_file() else {name: data_root / f"{name}.jsonl" for name in SPLITS}
    files = []
    for split, path in paths.items():
        if path.is_file():
            status = path.stat()
            files.append(_File(split, path, status.st_mtime_ns, status.st_size))
    if not files:
        names = ", ".join(f"{split}.jsonl" for split in SPLITS)
        raise MissingDataError(f"{data_root} is no file of problems and no folder that holds one of {names}")
    return tuple(files)


@lru_cache(maxsize=4)
def _read(files: tuple[_File, ...]) -> tuple[dict[str, dict[str, Problem]], int]:
    """The problems by split and task id, and how many were left out so that no two splits share a text."""
    by_split = {file.split: _rows(file.path, file.split) for file in files}
    taken: set[str] = set()
    repeated = 0
    for split in reversed([file.split for file in files]):
        rows = by_split[split]
        texts = {task_id: " ".join(row.text.split()) for task_id, row in rows.items()}
        by_split[split] = {task_id: row for task_id, row in rows.items() if texts[task_id] not in taken}
        repeated += len(rows) - len(by_split[split])
        taken |= set(texts.values())
        if not by_split[split]:
            raise UsageError(f"{split}.jsonl holds no problem that a later split does not hold too")
    return by_split, repeated


def _rows(path: Path, split: str) -> dict[str, Problem]:
    """The problems of a split's file by task id, in its order; empty lines do not count."""
    rows: dict[str, Problem] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise MissingDataError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = _row(parse_json(line.decode()), split, number)
            if row.task_id in rows:
                raise ValueError(f"there is an earlier row with the id {row.task_id!r}")
        except ValueError as error:
            raise UsageError(f"{path} line {number} is damaged: {error}") from error
        rows[row.task_id] = row
    if not rows:
        raise UsageError(f"{path} holds no problems")
    return rows


def _row(record: Any, split: str, number: int) -> Problem:
    """A problem from one row. Raises `ValueError` for what is missing or too long.

    Its task id is `<split>/<subject>/<level>/<unique_id>`, with what stands in for one that the row lacks.
    """
    if not isinstance(record, dict):
        raise ValueError("it holds no names and values")
    text = _text(record, "problem", LONGEST_PROBLEM)
    answer = _text(record, "answer", LONGEST_ANSWER)
    subject = _slug(record.get("subject") or record.get("type") or "problem", "").lower()
    level = re.search(r"\d+", str(record.get("level", "")))
    name = _slug(record.get("unique_id") or f"line-{number}", "._/-")
    level_text = level[0] if level else "any"
    return Problem(f"{split}/{subject}/{level_text}/{name}", text, answer, subject, level_text, worked_out=False)


def _text(record: Mapping[str, Any], key: str, longest: int) -> str:
    """A row's text. An answer may be a number as well."""
    value = record.get(key)
    if key == "answer" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it has no {key!r} that is a text")
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ValueError(f"its {key!r} holds half a character (a lone surrogate)")
    if len(value) > longest:
        raise ValueError(f"its {key!r} has {len(value)} characters, more than {longest}")
    return value.strip()


def _slug(value: object, signs: str) -> str:
    """A name as a part of a task id: runs of other signs than letters, digits and these become a hyphen."""
    slug = re.sub(rf"[^A-Za-z0-9{re.escape(signs)}]+", "-", str(value)).strip("-/")
    if not slug:
        raise ValueError(f"{str(value)[:40]!r} can be no part of a task id")
    return slug
