"""Count the outcomes of an interface's hints in a run folder, and store the counts with the interface.

A run plays under the record its interface had at the start and never changes it, so that episodes do not depend on each
other. `keep_record` adds a run's counts for later runs. Not here: the effect of a record (`hints.py`,
`wrappers/hint_watch.py`).
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


def count_run_hints(interface: Interface, folder: Path) -> tuple[HintCount, ...]:
    """Count the outcomes of the interface's hints, by rule, in a folder of `evaluate` or `generate-interface`.

    Episodes of its placebo do not count. Raises `UsageError` if none was played under exactly this source.
    """
    labels: dict[str, None] = {}
    played = []
    for trajectory in _episodes(folder):
        labels[trajectory.interface] = None
        is_own = trajectory.source == interface.content_hash and not trajectory.is_placebo
        if is_own and trajectory.fault is None:
            played.append(trajectory)
    if not played:
        contents = f"it holds those of {', '.join(labels)}" if labels else "it holds none"
        label = f"{interface.name}@{interface.content_hash}"
        raise UsageError(f"no episode of {folder} was played under the interface {label}: {contents}")
    return count_hints(played)


def keep_record(interface: Interface, file: Path, record: tuple[HintCount, ...]) -> Interface:
    """Add counts to the record of an interface's `.py` file, in its `.json`, and return the updated interface.

    Raises `UsageError` unless the file is the user's own.
    """
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"a record is kept beside a .py file of your own: copy {file} and name the copy")
    updated = interface.model_copy(update={"record": merged(interface.record, record)})
    save_interface(updated, file.parent, file.stem)
    return updated


def _episodes(folder: Path) -> Iterator[Trajectory]:
    for pattern in _EPISODES:
        for file in sorted(folder.glob(pattern)):
            yield from JsonlFile(file).read(Trajectory)
