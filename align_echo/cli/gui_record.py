"""The work of `align-echo critic gui-record`: episodes on MiniWoB in, a step dataset with predictions out.

Left out: what a step is made of (`flywheel/recording.py`), and scoring (`gui_steps.py`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from align_echo.cli.console import note
from align_echo.errors import MissingDataError, UsageError
from align_echo.flywheel.recording import Recording, record
from align_echo.intervals import scored
from align_echo.jsonl import JsonlFile
from align_echo.types import Trajectory
from align_echo.wrappers.miniwob.env import MiniWoBEnv

ENVIRONMENT = "miniwob"
TOLD = 20
"""A line after every so many episodes."""


def gui_record_into(out: Path, episodes: Path) -> Recording:
    """Record the episodes of a folder of `critic collect` or `evaluate`, or of a file of it.

    Raises `MissingDataError` for no episodes, `UsageError` for episodes that cannot be played again on screens.
    """
    file = _file_of(episodes)
    played = scored(JsonlFile(file).read(Trajectory))
    if not played:
        raise MissingDataError(f"{file} holds no episode that was played to its end")
    others = {one.environment for one in played} - {ENVIRONMENT}
    if others:
        raise UsageError(f"{file} holds episodes of {', '.join(sorted(others))}: screens are those of {ENVIRONMENT}")
    if any(one.interface != "none" for one in played):
        raise UsageError(f"{file} holds episodes under an interface: record those of the environment alone")
    if len({one.split for one in played}) > 1:
        raise UsageError(f"{file} holds episodes of several splits: record those of one")
    twice = [one for one, count in Counter((each.task_id, each.sample) for each in played).items() if count > 1]
    if twice:
        task, sample = twice[0]
        raise UsageError(f"{file} holds sample {sample} of {task} twice: an episode is recorded once")

    def tell(number: int) -> None:
        if number == 1:
            note(f"playing {len(played)} episodes again")
        if number % TOLD == 0:
            note(f"{number} of {len(played)} episodes")

    made = record(lambda: MiniWoBEnv(played[0].split), played, out, on_episode=tell)
    print(f"{made.steps:,} steps of {made.episodes:,} episodes; in {made.no_expert:,} turns the expert knows no action")
    if made.changed:
        print(f"{made.changed} of {made.episodes} episodes did not come out again as they had, and end there")
    if made.broken:
        print(f"in {made.broken} of {made.episodes} episodes the browser failed, and they end there")
    print(f"written: {out}, for align-echo critic gui-steps and critic train --steps")
    return made


def _file_of(episodes: Path) -> Path:
    """The one file of trajectories. Raises `MissingDataError` for none, `UsageError` for several."""
    if episodes.is_file():
        return episodes
    found = sorted((episodes / "trajectories").glob("*.jsonl"))
    if not found:
        raise MissingDataError(f"{episodes} holds no trajectories: name a folder of critic collect or evaluate")
    if len(found) > 1:
        raise UsageError(f"{episodes} holds several kinds of episodes: name one of {', '.join(map(str, found))}")
    return found[0]
