"""Convert episodes on MiniWoB to a step dataset: turns with screenshots, the expert's action, and the proposed
actions.

An episode is replayed, since pictures are not stored; if it turns out differently, the rest is left out. The box of a
correct click is that of the smallest listed element around it. Not here: playing (`align-echo critic collect`,
`evaluate`), and turns without an expert action.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from align_echo.base.jsonl import JsonlFile
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import EngineError, MissingDataError, UsageError
from align_echo.gaia.examples import turn_candidates
from align_echo.gaia.gui.screens import PREDICTIONS, StepPrediction, write_predictions
from align_echo.intervals import scored
from align_echo.rollout.batches import replay
from align_echo.types import AgentView, Frozen, Step, Trajectory
from align_echo.wrappers.gui.actions import Point, parse, target_point
from align_echo.wrappers.gui.steps import UnsavedStep, write_steps
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.page import SIZE, read_screen

Box = tuple[int, int, int, int]


class RecordingResult(Frozen):
    """Outcome of recording `episodes`: the number of recorded `steps` and of those left out.

    `no_expert` turns have no expert action to record, `changed` episodes did not replay as recorded, and in `broken`
    episodes the browser failed.
    """

    episodes: int
    steps: int
    no_expert: int
    changed: int
    broken: int


def box_around(point: Point, listing: str) -> Box | None:
    """Return [x1, y1, x2, y2] of the smallest listed element around the point, clipped to the screen; None if there is
    none.
    """
    around: list[tuple[int, Box]] = []
    for element in read_screen(listing):
        left, top = element.center.x - element.width // 2, element.center.y - element.height // 2
        right, bottom = left + element.width, top + element.height
        if left <= point.x <= right and top <= point.y <= bottom:
            box = (max(left, 0), max(top, 0), min(right, SIZE[0]), min(bottom, SIZE[1]))
            around.append((element.width * element.height, box))
    return min(around)[1] if around else None


def step_at(env: MiniWoBEnv, view: AgentView, name: str) -> UnsavedStep | None:
    """Build the current step of `env`; `view` is the episode so far. Returns None if the expert knows no action."""
    right = None if env.over else env.oracle().expert_action()
    if right is None:
        return None
    action = parse(right)
    point = target_point(action)
    return UnsavedStep(
        id=name,
        episode=view.task_id,
        number=len(view.turns),
        instruction=env.goal,
        screenshot=env.screenshot(),
        action=action,
        history=tuple(turn.action or "" for turn in view.turns),
        box=None if point is None else box_around(point, env.state.observation),
    )


def record(
    make_env: Callable[[], MiniWoBEnv],
    episodes: Sequence[Trajectory],
    folder: Path,
    *,
    on_episode: Callable[[int], None] = lambda number: None,
) -> RecordingResult:
    """Write a new step dataset with its predictions; it appears complete or not at all.

    `on_episode` receives the number of each replayed episode, from 1.

    Raises `UsageError` if the folder exists, no turn could be recorded, or an episode belongs to another environment;
    `EngineError` if nothing was recorded because the browser failed; `MissingExtraError` without Pillow.
    """
    if folder.exists():
        raise UsageError(f"{folder} is there already: name another folder")
    predictions: list[StepPrediction] = []
    counts = {"no_expert": 0, "changed": 0}
    broken: list[EngineError] = []
    env = make_env()

    def steps() -> Iterator[UnsavedStep]:
        for number, episode in enumerate(episodes, start=1):
            on_episode(number)
            try:
                for step, prediction in _replay_steps(env, episode, counts):
                    predictions.append(prediction)
                    yield step
            except EngineError as error:
                broken.append(error)
        if not predictions:
            raise broken[-1] if broken else UsageError(_why_nothing(counts))

    beside = folder.with_name(f".{folder.name}.recording")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        write_steps(steps(), beside)
        write_predictions(predictions, beside / PREDICTIONS)
        beside.rename(folder)
    finally:
        env.close()
        shutil.rmtree(beside, ignore_errors=True)
    return RecordingResult(episodes=len(episodes), steps=len(predictions), broken=len(broken), **counts)


def _why_nothing(counts: Mapping[str, int]) -> str:
    if counts["no_expert"]:
        return "the expert knows no action in any turn that came out again as it had: nothing to record"
    return "no episode came out again as it had: record where they were played, with the same browser"


def _replay_steps(
    env: MiniWoBEnv, trajectory: Trajectory, counts: dict[str, int]
) -> Iterator[tuple[UnsavedStep, StepPrediction]]:
    def look(view: AgentView, step: Step) -> tuple[UnsavedStep | None, StepPrediction]:
        name = f"{trajectory.task_id}-{trajectory.sample}-{len(view.turns)}"
        texts = tuple(candidate.action or "" for candidate in turn_candidates(step))
        return step_at(env, view, name), StepPrediction(step=name, candidates=texts, agent=trajectory.agent)

    replayed = 0
    for recorded, prediction in replay(env, trajectory, look):
        replayed += 1
        if recorded is None:
            counts["no_expert"] += 1
        else:
            yield recorded, prediction
    counts["changed"] += replayed < len(trajectory.steps)


# ---------------------------------------------------------------- record

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
