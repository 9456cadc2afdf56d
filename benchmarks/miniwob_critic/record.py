"""Steps of MiniWoB pages as a step dataset, with what the scripted novice would do in each.

An episode goes the novice's own way, its first candidate taken each time, so that the steps are those that a critic of
it meets. The right action is the expert's, its box that of the smallest listed element around it. Left out: pages
without an expert, and steps whose right action is no click.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from align_echo.agents.novices.miniwob import screen_novice
from align_echo.gui.recording import step_at
from align_echo.gui.screens import PREDICTIONS, StepPrediction, write_predictions
from align_echo.session import extend, start_view, take_turn
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.gui.actions import ClickAction
from align_echo.wrappers.gui.steps import UnsavedStep, write_steps
from align_echo.wrappers.miniwob.env import MiniWoBEnv

DRAWS = 1000
"""Novices of one seed: more than candidates are ever drawn."""


def drawn(view: AgentView, seed: int, count: int) -> list[AgentReply]:
    """What `count` novices of a seed do in a view; they differ in their draws alone."""
    return [screen_novice(seed=seed * DRAWS + number).act(view) for number in range(count)]


def episode(
    env: MiniWoBEnv, task_id: str, *, seed: int, candidates: int, turns: int
) -> Iterator[tuple[UnsavedStep, StepPrediction]]:
    """The clicks of one episode of at most so many turns, each with its candidates."""
    view = start_view(env, task_id, "", 0)
    for number in range(turns):
        name = f"{task_id.replace('/', '-')}-{seed}-{number}"
        step = step_at(env, view, name)
        if step is None:
            return
        replies = drawn(view, seed, candidates)
        if isinstance(step.action, ClickAction):
            yield step, StepPrediction(step=name, candidates=tuple(reply.text for reply in replies), agent="novice")
        view = extend(view, take_turn(env, replies[0]))


def record(
    folder: Path, pages: Sequence[str], seeds: Sequence[int], *, seed: int, candidates: int, turns: int
) -> Path:
    """A new step dataset of these pages, with its predictions. Raises `UsageError` if the folder is there."""
    env = MiniWoBEnv("expert_test" if max(seeds) < 10 else "expert_train")
    try:
        made = [
            pair
            for page in pages
            for one in seeds
            for pair in episode(env, f"{page}/{one}", seed=seed, candidates=candidates, turns=turns)
        ]
    finally:
        env.close()
    write_steps((step for step, _ in made), folder)
    write_predictions([one for _, one in made], folder / PREDICTIONS)
    return folder
