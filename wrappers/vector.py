"""Environments stepped together in one process: gymnasium's `SyncVectorEnv` with faster merging of infos.

Results are identical to gymnasium's. gymnasium writes each value of each info into an array separately, which takes
longer than a step of a fast engine. Here the infos of a step are collected, and each key becomes an array at once.
Infos of different shapes are left to gymnasium.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, iterate
from numpy.typing import NDArray

from align_echo.base.files import open_file
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import MissingDataError, UsageError

NUMBERS = (int, float, bool)


class TextVectorEnv(gym.vector.SyncVectorEnv):
    """Vector environment of `make_vec`. Differs from gymnasium's only in speed."""

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step all environments, as gymnasium's method does."""
        observations: list[Any] = []
        rewards, terminated, truncated = np.zeros(self.num_envs), *np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: list[dict[str, Any]] = []
        over = self._autoreset_envs.tolist()
        for number, (env, action) in enumerate(zip(self.envs, iterate(self.action_space, actions), strict=True)):
            if over[number]:
                observation, info = env.reset()
            else:
                observation, rewards[number], terminated[number], truncated[number], info = env.step(action)
            observations.append(observation)
            infos.append(info)
        self._env_obs, self._rewards = observations, rewards
        self._terminations, self._truncations = terminated, truncated
        self._observations = concatenate(self.single_observation_space, observations, self._observations)
        self._autoreset_envs = terminated | truncated
        return deepcopy(self._observations), rewards.copy(), terminated.copy(), truncated.copy(), self._merge(infos)

    def _merge(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Merge the infos of all environments as gymnasium does."""
        merged = self._merge_plain(infos)
        if merged is None:
            merged = {}
            for number, info in enumerate(infos):
                merged = self._add_info(merged, info, number)
        return merged

    def _merge_plain(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Merge the infos quickly; None unless all have the same keys and plain values."""
        keys = list(infos[0])
        if any(list(info) != keys for info in infos):
            return None
        merged: dict[str, Any] = {}
        for key in keys:
            column = [info[key] for info in infos]
            array = None if key == "final_obs" or key.startswith("_") else _array(column)
            if array is None:
                return None
            merged[key], merged[f"_{key}"] = array, np.ones(self.num_envs, dtype=np.bool_)
        return merged


def _array(column: list[Any]) -> NDArray[Any] | None:
    """Convert plain numbers of one type to an array of that type, and other plain objects to an object array; None for
    all else."""
    kinds = set(map(type, column))
    if len(kinds) == 1 and kinds <= set(NUMBERS):
        return np.array(column, dtype=type(column[0]))
    if type(column[0]) in NUMBERS or any(issubclass(kind, np.ndarray | np.generic | dict) for kind in kinds):
        return None
    return np.fromiter(column, dtype=object, count=len(column))


# ---------------------------------------------------------------- read users' files with one JSON object a line

Row = TypeVar("Row")

LONGEST_LINE = 16 * 2**20
"""Longest line in bytes. A file that is one JSON array may be a hundred times as long."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class RowsResult(NamedTuple, Generic[Row]):
    """Rows of a file. `damage` describes the first skipped row; "" if none was skipped."""

    rows: list[Row]
    left_out: int
    damage: str

    @property
    def note(self) -> str:
        """Say how many rows were skipped, and why the first was; "" if none was."""
        return f"{self.left_out} damaged rows left out ({self.damage})" if self.left_out else ""


def read_rows(file: Path, read: Callable[[dict[str, Any], int, int], Row], kind: str) -> RowsResult[Row]:
    """Read the rows of a file. `read` makes a row of an object, its line and its index, or raises `ValueError`.

    Lines are counted from 1; the index, from 0, counts the lines that are not blank.

    `kind` is the word for the rows. Raises `MissingDataError` for a file that cannot be read, and `UsageError` for a
    file without a valid row, naming the fault of the first.
    """
    rows: list[Row] = []
    left_out, damage = 0, ""
    try:
        for index, (number, line) in enumerate(_lines(file)):
            try:
                rows.append(read(_record(line), number, index))
            except ValueError as error:
                left_out, damage = left_out + 1, damage or f"{file} line {number} is damaged: {_reason(error)}"
    except (OSError, EOFError) as error:
        raise MissingDataError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not rows:
        raise UsageError(damage or f"{file} holds no {kind}")
    return RowsResult(rows, left_out, damage)


def _lines(file: Path) -> Iterator[tuple[int, bytes | Any]]:
    """Yield the number and the bytes of each line that is not blank; for a JSON array its entries."""
    if not file.is_file():
        raise MissingDataError(f"{file} is not a file")
    with open_file(file) as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        stream: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        start = stream.read(4096)
        stream.seek(0)
        if start.startswith(_UTF16):
            text = _bounded(stream).decode("utf-16", "replace")
            yield from enumerate((line.encode() for line in text.splitlines() if line.strip()), start=1)
        elif start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[" and (array := _rows_array(stream)) is not None:
            yield from enumerate(array, start=1)
        else:
            stream.seek(0)
            yield from _bounded_lines(stream)


def _bounded(stream: BinaryIO) -> bytes:
    content = stream.read(100 * LONGEST_LINE + 1)
    if len(content) > 100 * LONGEST_LINE:
        raise UsageError(f"{stream.name} is longer than {100 * LONGEST_LINE} bytes: write one JSON object a line")
    return content


def _rows_array(stream: BinaryIO) -> list[Any] | None:
    """Return the entries of a JSON array; None if the file is lines and the first is no object."""
    try:
        parsed = parse_json(_bounded(stream).decode("utf-8-sig"))
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) and all(isinstance(entry, dict) for entry in parsed) else None


def _bounded_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UsageError(f"{stream.name} line {number} is longer than {LONGEST_LINE} bytes")
        if line.strip():
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _record(line: bytes | Any) -> dict[str, Any]:
    record = parse_json(line.decode()) if isinstance(line, bytes) else line
    if not isinstance(record, dict):
        raise ValueError("it holds no names and values")
    return record


def _reason(error: ValueError) -> str:
    return f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
