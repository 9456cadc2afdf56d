"""Record episodes on MiniWoB as a step dataset with screenshots and predictions.

Not here: the contents of a step (`recording.py`), and scoring (`trial.py`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from align_echo.errors import MissingDataError, UsageError
from align_echo.gui.recording import RecordingResult, record
from align_echo.intervals import scored
from align_echo.jsonl import JsonlFile
from align_echo.progress import SILENT, Progress
from align_echo.types import Trajectory
from align_echo.wrappers.miniwob.env import MiniWoBEnv

ENVIRONMENT = "miniwob"
TOLD = 20
"""Episodes between two progress lines."""


def record_episodes(episodes: Path, out: Path, *, progress: Progress = SILENT) -> RecordingResult:
    """Record the episodes in a folder of `critic collect` or `evaluate`, or in a single file.

    Raises `MissingDataError` if there are no episodes, `UsageError` for episodes that cannot be replayed on screens.
    """
    file = _find_file(episodes)
    trajectories = scored(JsonlFile(file).read(Trajectory))
    if not trajectories:
        raise MissingDataError(f"{file} holds no episode that was played to its end")
    foreign = {trajectory.environment for trajectory in trajectories} - {ENVIRONMENT}
    if foreign:
        raise UsageError(f"{file} holds episodes of {', '.join(sorted(foreign))}: screens are those of {ENVIRONMENT}")
    if any(trajectory.interface != "none" for trajectory in trajectories):
        raise UsageError(f"{file} holds episodes under an interface: record those of the environment alone")
    if len({trajectory.split for trajectory in trajectories}) > 1:
        raise UsageError(f"{file} holds episodes of several splits: record those of one")
    counts = Counter((trajectory.task_id, trajectory.sample) for trajectory in trajectories)
    repeated = [episode for episode, count in counts.items() if count > 1]
    if repeated:
        task, sample = repeated[0]
        raise UsageError(f"{file} holds sample {sample} of {task} twice: an episode is recorded once")

    def tell(number: int) -> None:
        if number == 1:
            progress.say(f"playing {len(trajectories)} episodes again")
        if number % TOLD == 0:
            progress.say(f"{number} of {len(trajectories)} episodes")

    return record(lambda: MiniWoBEnv(trajectories[0].split), trajectories, out, on_episode=tell)


def _find_file(episodes: Path) -> Path:
    """Find the only file of trajectories. Raises `MissingDataError` if there is none, `UsageError` if there are more.
    """
    if episodes.is_file():
        return episodes
    files = sorted((episodes / "trajectories").glob("*.jsonl"))
    if not files:
        raise MissingDataError(f"{episodes} holds no trajectories: name a folder of critic collect or evaluate")
    if len(files) > 1:
        raise UsageError(f"{episodes} holds several kinds of episodes: name one of {', '.join(map(str, files))}")
    return files[0]
