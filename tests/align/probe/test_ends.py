"""An environment in which actions end the episode unwon: no end is taken for a refusal, and none for nothing."""

from __future__ import annotations

import gymnasium as gym

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered.learner import uninformative
from align_echo.align.probe.rules import unlisted_refusals
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import base_env
from align_echo.wrappers.searchqa.env import WRONG
from align_echo.wrappers.searchqa.spec import UNREAD

TASKS = align_echo.tasks("searchqa", split="train")[::12]


def make() -> gym.Env[str, str]:
    return align_echo.make("searchqa")


def test_what_ends_an_episode_is_no_refusal():
    played = run_tasks(make, make_novice("searchqa"), TASKS, split="train")
    assert sum(episode.steps[-1].raw_observation == WRONG for episode in played) > 10
    for refusals in (uninformative(played), unlisted_refusals(played)):
        assert UNREAD in refusals
        assert WRONG not in refusals


def test_an_end_is_left_behind_even_where_its_answer_is_known_to_leave_no_trace():
    lab = Lab(base_env(make()))
    lab.traceless = frozenset({WRONG})
    start = lab.start(TASKS[0])
    assert lab.after(start, "<answer>x</answer>").over
    assert not lab.after(start, "<search>x</search>").over
