"""What became of an interface's hints in the episodes of a run folder, and keeping that beside the interface.

A run plays under the record that its interface had when it began, and never changes it: what is measured does not
change while it is measured, and no episode depends on another. Whoever wants later runs to know of it says so, with
`keep_record`. Left out: what a record does (`hints.py`, `wrappers/hint_watch.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from align_echo.errors import UsageError
from align_echo.hints import HintCount, count_hints, merged
from align_echo.interface import Interface, save_interface
from align_echo.jsonl import JsonlFile
from align_echo.types import Trajectory

_EPISODES = ("trajectories/*.jsonl", "iterations/*/trajectories.jsonl")


def record_of_run(interface: Interface, folder: Path) -> tuple[HintCount, ...]:
    """What became of the interface's hints in the episodes of a folder of `evaluate` or `generate-interface`, by rule.

    Episodes of its placebo do not count. Raises `UsageError` where none was played under this very source.
    """
    labels: dict[str, None] = {}
    played = []
    for trajectory in _episodes(folder):
        labels[trajectory.interface] = None
        ours = trajectory.source == interface.content_hash and not trajectory.is_placebo
        if ours and trajectory.fault is None:
            played.append(trajectory)
    if not played:
        there = f"it holds those of {', '.join(labels)}" if labels else "it holds none"
        label = f"{interface.name}@{interface.content_hash}"
        raise UsageError(f"no episode of {folder} was played under the interface {label}: {there}")
    return count_hints(played)


def keep_record(interface: Interface, file: Path, record: tuple[HintCount, ...]) -> Interface:
    """Add a record to that of an interface's `.py` file, in the `.json` beside it: the interface as it is then.

    Raises `UsageError` for what is no file of the user's own.
    """
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"a record is kept beside a .py file of your own: copy {file} and name the copy")
    kept = interface.model_copy(update={"record": merged(interface.record, record)})
    save_interface(kept, file.parent, file.stem)
    return kept


def _episodes(folder: Path) -> Iterator[Trajectory]:
    for pattern in _EPISODES:
        for file in sorted(folder.glob(pattern)):
            yield from JsonlFile(file).read(Trajectory)
