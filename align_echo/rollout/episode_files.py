"""Find and read the episodes of evaluations, grids, studies, collections, generation runs and training.

    trajectories/<part>.jsonl                a variant or a round of an evaluation, or the episodes of a collection
    iterations/<i>/trajectories.jsonl        an iteration of a generation run
    rollouts/<step>.jsonl                    a step of training

A folder is searched at any depth, so a grid or a study is found as the runs inside it. A line that is no `Trajectory`
is skipped and reported. Lone surrogates and invalid UTF-8 are replaced by marks. A last line without an end is read if
it is complete; otherwise its writer was killed, or is still writing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from align_echo.base.files import read_lines
from align_echo.base.plain_yaml import first_wrong, json_object, parse_json
from align_echo.errors import UsageError, did_you_mean, printable
from align_echo.run_dir import CONFIG
from align_echo.types import Trajectory, impossible

EPISODES, ITERATIONS, ROLLOUTS = "trajectories", "iterations", "rollouts"

CRITIQUES = {EPISODES: "reviews", ROLLOUTS: "critiques"}
"""Folder of a critic's critiques for each folder of episodes."""

MOST_NAMED = 12
"""Most parts named in a message."""

PASSED_BY = {"cache", "checkpoints"}
"""Folders with many files and no episodes."""


@dataclass(frozen=True)
class EpisodeFile:
    """A file of episodes: a `part` of a `run`. `critiques` is the file of a critic's critiques, if there is one."""

    file: Path
    folder: Path
    part: str
    run: str = ""
    critiques: Path | None = None


def find_episodes(paths: Sequence[Path]) -> list[EpisodeFile]:
    """Find the files of episodes in these folders, each once, run by run; a path may also be such a file itself.

    Raises `UsageError` for a missing path, and for one without episodes.
    """
    by_file: dict[Path, EpisodeFile] = {}
    names: dict[Path, str] = {}
    for path in paths:
        resolved = path.resolve()
        parts = [_describe_file(file) for file in _list_files(path, resolved)]
        if not parts:
            raise UsageError(f"{path} holds no episodes: name the folder of a run, or a .jsonl file of episodes")
        for part in parts:
            by_file.setdefault(part.file, part)
            names.setdefault(part.folder, run_name(part.folder, resolved))
    unique = make_unique(names)
    order = {folder: number for number, folder in enumerate(names)}
    renamed = [replace(part, run=unique[part.folder]) for part in by_file.values()]
    variants = {folder: _variants(folder) for folder in names}
    return sorted(renamed, key=lambda part: (order[part.folder], _sort_key(part.part, variants[part.folder])))


def resolve_part(parts: Sequence[EpisodeFile], name: str | None) -> str | None:
    """Return the part meant by a name: "both", as in tables, means "full" if no part is called "both"."""
    names = {part.part for part in parts}
    return "full" if name == "both" and "both" not in names and "full" in names else name


def select_part(parts: Sequence[EpisodeFile], name: str | None) -> list[EpisodeFile]:
    """Select the files of a part, or all for None. Raises `UsageError` for an unknown part."""
    wanted = [part for part in parts if name in (None, part.part)]
    if not wanted:
        names = list(dict.fromkeys(part.part for part in parts))
        listed, more = ", ".join(map(repr, names[:MOST_NAMED])), len(names) - MOST_NAMED
        hint = did_you_mean(str(name), names, quoted=True) if len(names) > 1 else ""
        listing = "there is only" if len(names) == 1 else "there are"
        listed += f" and {more} more" if more > 0 else ""
        raise UsageError(f"there is no part {name!r} here; {hint}{listing} {listed}")
    return wanted


def _list_files(path: Path, resolved: Path) -> list[Path]:
    if resolved.is_file():
        return [resolved]
    if not resolved.is_dir():
        raise UsageError(f"there is no folder or file {path}: name the folder of a run, or a .jsonl file of episodes")
    return list(_walk(resolved))


def _walk(top: Path) -> Iterator[Path]:
    for file in _find_files(top):
        if file.is_symlink() and not file.resolve().is_relative_to(top):
            raise UsageError(f"{file} leads out of {top}: put the file itself there")
        yield file


def _find_files(top: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if name not in PASSED_BY and not name.startswith("."))
        parts = (top.name, *Path(folder).relative_to(top).parts)
        of_iteration = Path(folder).parent.name == ITERATIONS and names.count(f"{EPISODES}.jsonl") == 1
        if EPISODES in parts or ROLLOUTS in parts:
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".jsonl"))
        elif of_iteration:
            yield Path(folder, f"{EPISODES}.jsonl")


def _describe_file(file: Path) -> EpisodeFile:
    """Derive run and part of a file from the folders around it."""
    for parent in file.parents:
        if parent.name in CRITIQUES:
            inside = file.relative_to(parent)
            part = inside.with_suffix("").as_posix()
            critiques = parent.parent / CRITIQUES[parent.name] / inside
            return EpisodeFile(
                file,
                folder=parent.parent,
                part=part if parent.name == EPISODES else f"{ROLLOUTS}/{part}",
                critiques=critiques if critiques.is_file() else None,
            )
        if parent.parent.name == ITERATIONS:
            return EpisodeFile(file, folder=parent.parents[1], part=f"{ITERATIONS}/{parent.name}")
    return EpisodeFile(file, folder=file.parent, part=file.stem)


def run_name(folder: Path, searched: Path) -> str:
    """Name a run by its folder, relative to the searched path."""
    if folder == searched or not folder.is_relative_to(searched):
        return folder.name or str(folder)
    return f"{searched.name}/{folder.relative_to(searched).as_posix()}"


def make_unique(names: Mapping[Path, str]) -> dict[Path, str]:
    """Make names unique."""
    unique_names: dict[Path, str] = {}
    for folder, name in names.items():
        longer = f"{folder.parent.name}/{folder.name}" if list(names.values()).count(name) > 1 else name
        number = 2
        unique = longer
        while unique in unique_names.values():
            unique, number = f"{longer} ({number})", number + 1
        unique_names[folder] = unique
    return unique_names


def _variants(folder: Path) -> list[str]:
    """Return the parts of an evaluation in the order played, if its settings record it."""
    variants = (json_object(folder / CONFIG) or {}).get("interfaces")
    return list(variants) if isinstance(variants, dict) else []


def _sort_key(part: str, variants: Sequence[str]) -> tuple[int, list[tuple[int, str]]]:
    """Sort by the order of the variants, then by name, with numbers compared as numbers."""
    known = variants.index(part) if part in variants else len(variants)
    pieces = re.findall(r"\d+|\D+", part)
    return known, [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


# ---------------------------------------------------------------- read the episodes of a file

MOST_TOLD = 5
"""Damaged lines of a file to report individually."""

LONGEST_REASON = 120

Kind = TypeVar("Kind", bound=BaseModel)
_HALVES = re.compile("[\ud800-\udfff]")


class DamagedLine(NamedTuple):
    """An unreadable line, counted from 1. `is_cut` marks a last line without an end."""

    file: Path
    line: int
    reason: str
    is_cut: bool = False


def read_episodes(file: Path, damaged: list[DamagedLine]) -> Iterator[Trajectory]:
    """Read the episodes of a file in order. Damaged lines are added to `damaged`."""
    yield from read_records(file, Trajectory, damaged)


def read_records(
    file: Path, kind: type[Kind], damaged: list[DamagedLine], *, folder: Path | None = None
) -> Iterator[Kind]:
    """Read the records of one kind in a file. Damaged lines are added to `damaged`. Raises as `read_lines`."""
    for number, line in enumerate(read_lines(file, folder=folder), start=1):
        if not line.strip():
            continue
        try:
            record = _record(line, kind)
            if isinstance(record, Trajectory) and (problem := impossible(record)):
                raise ValueError(problem)
            yield record
        except ValueError as error:
            damaged.append(DamagedLine(file, number, _reason(error), is_cut=_is_cut(line, error)))


def describe_damage(damaged: list[DamagedLine]) -> list[str]:
    """Describe damaged lines: the first of each file one by one, the rest as a count."""
    lines = []
    for file in dict.fromkeys(entry.file for entry in damaged):
        entries = [entry for entry in damaged if entry.file == file and not entry.is_cut]
        name = printable(str(file))
        lines += [f"{name} line {entry.line} is damaged and left out: {entry.reason}" for entry in entries[:MOST_TOLD]]
        more = len(entries) - MOST_TOLD
        lines += [f"{name}: {more} more lines are damaged and left out"] if more > 0 else []
        is_cut = any(entry.is_cut for entry in damaged if entry.file == file)
        lines += [f"the last line of {name} is not whole and is left out"] if is_cut else []
    return lines


def _record(line: bytes, kind: type[Kind]) -> Kind:
    """Parse a line. Raises `ValueError`, the base of pydantic's own error."""
    try:
        return kind.model_validate_json(line, strict=issubclass(kind, Trajectory))
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise
        try:
            stored = parse_json(line.decode("utf-8", "replace"))
        except ValueError:
            raise error from None
        mended = _HALVES.sub("\ufffd", json.dumps(stored, ensure_ascii=False))
        return kind.model_validate_json(mended, strict=issubclass(kind, Trajectory))


def _is_cut(line: bytes, error: ValueError) -> bool:
    """Return whether a line ends before its record does."""
    if line.endswith(b"\n") or not isinstance(error, ValidationError):
        return False
    return error.errors(include_url=False)[0]["type"] == "json_invalid"


def _reason(error: ValueError) -> str:
    reason = first_wrong(error) if isinstance(error, ValidationError) else str(error)
    return " ".join(printable(reason[:LONGEST_REASON]).split())
