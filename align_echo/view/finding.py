"""Which files hold episodes: those of evaluations, grids, studies, collections, generation runs and training alike.

    trajectories/<part>.jsonl                a variant or a round of an evaluation, or what a collection played
    iterations/<i>/trajectories.jsonl        an iteration of a generation run
    rollouts/<step>.jsonl                    a step of training

A folder is searched to any depth, so that a grid or a study is the runs within it. Left out: what the files hold
(`reading.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from align_echo.errors import UsageError, did_you_mean
from align_echo.reading import json_object
from align_echo.runs import CONFIG

EPISODES, ITERATIONS, ROLLOUTS = "trajectories", "iterations", "rollouts"

CRITIQUES = {EPISODES: "reviews", ROLLOUTS: "critiques"}
"""The folder beside that of episodes which holds what a critic said of them."""

MOST_NAMED = 12
"""Parts that a message names."""

PASSED_BY = {"cache", "checkpoints"}
"""Folders that hold many files and no episodes."""


@dataclass(frozen=True)
class EpisodeFile:
    """A file of episodes: `part` of a run, which is called `run`. `critiques` is what a critic said, if it is there."""

    file: Path
    folder: Path
    part: str
    run: str = ""
    critiques: Path | None = None


def find_episodes(paths: Sequence[Path]) -> list[EpisodeFile]:
    """The files of episodes in these folders, each once, run by run; a path may also be such a file itself.

    Raises `UsageError` for a path that is not there, and for one that holds none.
    """
    by_file: dict[Path, EpisodeFile] = {}
    names: dict[Path, str] = {}
    for path in paths:
        here = path.resolve()
        parts = [_part_of(file) for file in _files_of(path, here)]
        if not parts:
            raise UsageError(f"{path} holds no episodes: name the folder of a run, or a .jsonl file of episodes")
        for part in parts:
            by_file.setdefault(part.file, part)
            names.setdefault(part.folder, run_name(part.folder, here))
    unique = told_apart(names)
    order = {folder: number for number, folder in enumerate(names)}
    named = [replace(part, run=unique[part.folder]) for part in by_file.values()]
    variants = {folder: _variants(folder) for folder in names}
    return sorted(named, key=lambda part: (order[part.folder], _sort_key(part.part, variants[part.folder])))


def part_named(parts: Sequence[EpisodeFile], name: str | None) -> str | None:
    """The part that a name means: "both", as tables call the whole interface, is "full" where no part has that name."""
    names = {part.part for part in parts}
    return "full" if name == "both" and "both" not in names and "full" in names else name


def of_part(parts: Sequence[EpisodeFile], name: str | None) -> list[EpisodeFile]:
    """Those of a part, or all for None. Raises `UsageError` for a part that there is not."""
    wanted = [part for part in parts if name in (None, part.part)]
    if not wanted:
        names = list(dict.fromkeys(part.part for part in parts))
        there = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED))
        raise UsageError(f"there is no part {name!r} here; {did_you_mean(str(name), names)}there are {there}")
    return wanted


def _files_of(path: Path, here: Path) -> list[Path]:
    if here.is_file():
        return [here]
    if not here.is_dir():
        raise UsageError(f"there is no {path}")
    return list(_walk(here))


def _walk(top: Path) -> Iterator[Path]:
    for file in _named(top):
        if file.is_symlink() and not file.resolve().is_relative_to(top):
            raise UsageError(f"{file} leads out of {top}: put the file itself there")
        yield file


def _named(top: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if name not in PASSED_BY and not name.startswith("."))
        parts = (top.name, *Path(folder).relative_to(top).parts)
        of_iteration = Path(folder).parent.name == ITERATIONS and names.count(f"{EPISODES}.jsonl") == 1
        if EPISODES in parts or ROLLOUTS in parts:
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".jsonl"))
        elif of_iteration:
            yield Path(folder, f"{EPISODES}.jsonl")


def _part_of(file: Path) -> EpisodeFile:
    """A file with its run and part, as the folders that it lies in tell."""
    for above in file.parents:
        if above.name in CRITIQUES:
            inside = file.relative_to(above)
            part = inside.with_suffix("").as_posix()
            critiques = above.parent / CRITIQUES[above.name] / inside
            return EpisodeFile(
                file,
                folder=above.parent,
                part=part if above.name == EPISODES else f"{ROLLOUTS}/{part}",
                critiques=critiques if critiques.is_file() else None,
            )
        if above.parent.name == ITERATIONS:
            return EpisodeFile(file, folder=above.parents[1], part=f"{ITERATIONS}/{above.name}")
    return EpisodeFile(file, folder=file.parent, part=file.stem)


def run_name(folder: Path, searched: Path) -> str:
    """How a run is called: by its folder, below the path that was searched."""
    if folder == searched or not folder.is_relative_to(searched):
        return folder.name or str(folder)
    return f"{searched.name}/{folder.relative_to(searched).as_posix()}"


def told_apart(names: Mapping[Path, str]) -> dict[Path, str]:
    """Names of which no two are the same."""
    told: dict[Path, str] = {}
    for folder, name in names.items():
        longer = f"{folder.parent.name}/{folder.name}" if list(names.values()).count(name) > 1 else name
        number = 2
        unique = longer
        while unique in told.values():
            unique, number = f"{longer} ({number})", number + 1
        told[folder] = unique
    return told


def _variants(folder: Path) -> list[str]:
    """The parts of an evaluation in the order in which they were played, where its settings tell."""
    variants = (json_object(folder / CONFIG) or {}).get("interfaces")
    return list(variants) if isinstance(variants, dict) else []


def _sort_key(part: str, variants: Sequence[str]) -> tuple[int, list[tuple[int, str]]]:
    """What parts are sorted by: the order of the variants, then their names, numbers in them as numbers."""
    known = variants.index(part) if part in variants else len(variants)
    pieces = re.findall(r"\d+|\D+", part)
    return known, [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]
