"""Episodes on MiniWoB become a step dataset: turns with their screenshots, the expert's action, and what was proposed.

An episode is played again, since pictures are not kept; it comes out as it had, or is left out from there on. The box
of a right click is that of the smallest listed element around it. Left out: playing (`align-echo critic collect`,
`evaluate`), and turns in which the expert knows no action.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from align_echo.errors import EngineError, UsageError
from align_echo.gaia.labelling import candidates_of
from align_echo.gui.screens import PREDICTIONS, Prediction, write_predictions
from align_echo.rollout import replay
from align_echo.types import AgentView, Frozen, Step, Trajectory
from align_echo.wrappers.gui.actions import Point, parse, point_of
from align_echo.wrappers.gui.steps import Recorded, write_steps
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.page import SIZE
from align_echo.wrappers.miniwob.screen import read_screen

Box = tuple[int, int, int, int]


class Recording(Frozen):
    """What became of `episodes`: `steps` were recorded, in `no_expert` turns there is no right action to record, and
    `changed` episodes did not come out again as they had, and in `broken` the browser failed.
    """

    episodes: int
    steps: int
    no_expert: int
    changed: int
    broken: int


def box_around(point: Point, listing: str) -> Box | None:
    """[x1, y1, x2, y2] of the smallest element of a listing that the point lies in, within the screen."""
    around: list[tuple[int, Box]] = []
    for element in read_screen(listing):
        left, top = element.center.x - element.width // 2, element.center.y - element.height // 2
        right, bottom = left + element.width, top + element.height
        if left <= point.x <= right and top <= point.y <= bottom:
            box = (max(left, 0), max(top, 0), min(right, SIZE[0]), min(bottom, SIZE[1]))
            around.append((element.width * element.height, box))
    return min(around)[1] if around else None


def step_at(env: MiniWoBEnv, view: AgentView, name: str) -> Recorded | None:
    """The step that `env` stands at, of an episode that `view` tells so far; None if the expert knows no action."""
    right = None if env.over else env.oracle().expert_action()
    if right is None:
        return None
    action = parse(right)
    point = point_of(action)
    return Recorded(
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
) -> Recording:
    """Write a new step dataset with its predictions; it appears whole or not at all. `on_episode` is told the number
    of each episode that is played again, from 1.

    Raises `UsageError` if the folder is there already, no turn could be recorded, or an episode is none of the
    environment's; `EngineError` if nothing was recorded since the browser failed; `MissingExtraError` without Pillow.
    """
    if folder.exists():
        raise UsageError(f"{folder} is there already: name another folder")
    predictions: list[Prediction] = []
    counts = {"no_expert": 0, "changed": 0}
    broken: list[EngineError] = []
    env = make_env()

    def steps() -> Iterator[Recorded]:
        for number, episode in enumerate(episodes, start=1):
            on_episode(number)
            try:
                for step, prediction in _again(env, episode, counts):
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
    return Recording(episodes=len(episodes), steps=len(predictions), broken=len(broken), **counts)


def _why_nothing(counts: Mapping[str, int]) -> str:
    if counts["no_expert"]:
        return "the expert knows no action in any turn that came out again as it had: nothing to record"
    return "no episode came out again as it had: record where they were played, with the same browser"


def _again(
    env: MiniWoBEnv, trajectory: Trajectory, counts: dict[str, int]
) -> Iterator[tuple[Recorded, Prediction]]:
    def look(view: AgentView, step: Step) -> tuple[Recorded | None, Prediction]:
        name = f"{trajectory.task_id}-{trajectory.sample}-{len(view.turns)}"
        texts = tuple(candidate.action or "" for candidate in candidates_of(step))
        return step_at(env, view, name), Prediction(step=name, candidates=texts, agent=trajectory.agent)

    played = 0
    for seen, prediction in replay(env, trajectory, look):
        played += 1
        if seen is None:
            counts["no_expert"] += 1
        else:
            yield seen, prediction
    counts["changed"] += played < len(trajectory.steps)
