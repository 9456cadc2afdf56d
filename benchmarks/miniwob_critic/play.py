"""Episodes on MiniWoB: the novice alone, best of N by the critic on the screenshot, and by a critic that never errs.

All draw from the same novices, so that a turn from the same state has the same candidates. Left out: pages without an
expert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from align_echo.critic.selection import by_critic
from align_echo.errors import ReplyFormatError
from align_echo.gui.recording import box_around
from align_echo.gui.screen_verdict import ScreenState
from align_echo.gui.screens import ProposedStep, StepPrediction
from align_echo.gui.vision import VisionScorer
from align_echo.intervals import Estimate, clustered_rate
from align_echo.session import extend, start_view, take_turn
from align_echo.wrappers.gui.actions import GuiAction, parse, write
from align_echo.wrappers.gui.matching import succeeds
from align_echo.wrappers.gui.steps import GuiStep
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.page import SIZE
from benchmarks.miniwob_critic.record import drawn

Choose = Callable[[MiniWoBEnv, Sequence[str], Sequence[str]], int]
"""Which of the candidates is taken, given the environment, the actions before and the candidates."""


@dataclass(frozen=True)
class Played:
    """An episode of one arm: how many actions it took to win (None: it was not won), and how many the expert takes."""

    task: str
    seed: int
    arm: str
    won_after: int | None
    expert: int

    @property
    def at_once(self) -> bool:
        """Whether it was won in as many actions as the expert takes."""
        return self.won_after is not None and self.won_after <= self.expert


def first(_env: MiniWoBEnv, _history: Sequence[str], _candidates: Sequence[str]) -> int:
    """The novice alone."""
    return 0


def critic_of(scorer: VisionScorer) -> Choose:
    """Best of N by GAIA's rule (`by_critic`)."""

    def choose(env: MiniWoBEnv, history: Sequence[str], candidates: Sequence[str]) -> int:
        texts = [None if (one := _parsed(text)) is None else write(one) for text in candidates]
        distinct = list(dict.fromkeys(text for text in texts if text is not None))
        if not distinct:
            return 0
        judged = scorer.score(ScreenState(env.screenshot(), env.goal, history), distinct)
        return by_critic(texts, dict(zip(distinct, judged, strict=True)))

    return choose


def never_wrong(env: MiniWoBEnv, _history: Sequence[str], candidates: Sequence[str]) -> int:
    """Pass@N: the first candidate that is right by the expert's action and its box, if one is."""
    right = env.oracle().expert_action()
    if right is None:
        return 0
    point = getattr(parse(right), "point", None)
    box = None if point is None else box_around(point, env.state.observation)
    width, height = SIZE
    step = GuiStep(
        id="now", episode="now", number=0, instruction=env.goal, screenshot="now.png", width=width, height=height,
        action=right, box=box,
    )  # fmt: skip
    actions = ProposedStep(step, StepPrediction(step="now", candidates=tuple(candidates))).actions
    return next((index for index, action in enumerate(actions) if action is not None and succeeds(action, step)), 0)


def play(
    env: MiniWoBEnv, task: str, arm: str, choose: Choose, *, seed: int, candidates: int, turns: int
) -> Played:
    """One episode of at most so many turns."""
    view = start_view(env, task, "", 0)
    expert = env.oracle().distance() or 0
    for number in range(1, turns + 1):
        replies = drawn(view, seed, candidates)
        taken = choose(env, [turn.action or "" for turn in view.turns], [reply.text for reply in replies])
        view = extend(view, take_turn(env, replies[taken]))
        if env.state.won:
            return Played(task, seed, arm, number, expert)
        if env.over:
            break
    return Played(task, seed, arm, None, expert)


def success(episodes: Iterable[Played], *, at_once: bool) -> Estimate:
    """Percent of the episodes that were won, at all or in as many actions as the expert takes; tasks are clusters."""
    by_task: dict[str, list[bool]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task, []).append(episode.at_once if at_once else episode.won_after is not None)
    return clustered_rate([sum(group) for group in by_task.values()], [len(group) for group in by_task.values()])


def _parsed(text: str) -> GuiAction | None:
    try:
        return parse(text)
    except ReplyFormatError:
        return None
