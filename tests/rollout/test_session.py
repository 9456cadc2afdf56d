"""An episode that somebody else's loop drives is the episode that an agent plays."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import Episode, Session
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.plain import TextEnvironment
from tests.doors import Doors
from tests.room_env import TASK_IDS, RoomEnv

WAY = ["take mug 1", "go to study", "drop mug 1"]


class Script:
    """Says what stands in a list."""

    name = "script"

    def act(self, view: AgentView) -> AgentReply:
        action = WAY[len(view.turns)]
        return AgentReply(text=action, action=action)


def session() -> Session:
    return Session(RoomEnv(step_limit=6), agent="script", split="train")


def test_a_driven_episode_is_the_one_that_an_agent_plays():
    driven = session()
    view = driven.reset(TASK_IDS[0])
    assert view.task_id == TASK_IDS[0]
    for action in WAY:
        assert not driven.over
        step = driven.step(action)
        assert driven.view.turns[-1].observation == step.observation
    assert driven.over
    assert driven.trajectory() == run_episode(RoomEnv(step_limit=6), Script(), TASK_IDS[0], split="train")
    assert driven.trajectory().won


def test_an_episode_can_be_taken_before_its_end_and_begun_anew():
    driven = session()
    driven.reset(TASK_IDS[0])
    driven.step("look")
    assert (len(driven.trajectory().steps), driven.trajectory().won) == (1, False)
    driven.reset(Episode(TASK_IDS[1], sample=2, critique="think"))
    assert (driven.trajectory().steps, driven.trajectory().sample) == ((), 2)
    assert driven.view.critique == "think"


def test_a_reply_without_an_action_costs_its_turn():
    driven = session()
    driven.reset(TASK_IDS[0])
    step = driven.act(AgentReply(text="hm", action=None, problem="it says nothing to do"))
    assert step.observation == "Your reply held no action: it says nothing to do"
    assert (step.raw_observation, driven.trajectory().steps[0].reply) == (None, "hm")


def test_what_comes_too_early_or_too_late_is_told():
    driven = session()
    for call in (lambda: driven.view, lambda: driven.step("look"), driven.trajectory):
        with pytest.raises(UsageError, match="reset"):
            call()
    driven.reset(TASK_IDS[0])
    for action in WAY:
        driven.step(action)
    with pytest.raises(UsageError, match="over"):
        driven.step("look")
    assert driven.trajectory().fault is None


class Breaking(Doors):
    """Breaks at its second step."""

    def step(self, action):
        if self.opened:
            raise OSError("the hinge is gone")
        return super().step(action)


def test_what_breaks_is_raised_and_is_a_fault_of_the_trajectory():
    spec = TextEnvironment(Breaking, return_range=(-4.0, 2.0)).spec("breaking")
    with Session.open(spec, agent="me") as driven:
        view = driven.reset("0")
        wrong = "open green" if "red one leads" in view.initial_observation else "open red"
        driven.step(wrong)
        with pytest.raises(EngineError, match="the hinge is gone"):
            driven.step(wrong)
        broken = driven.trajectory()
    assert driven.over
    assert broken.fault is not None
    assert (broken.fault.source, broken.won, len(broken.steps)) == ("environment", False, 1)


def test_a_session_is_opened_by_name_and_under_an_interface():
    task = align_echo.tasks("alfworld", split="valid_unseen")[0]
    with Session.open("alfworld", split="valid_unseen", interface="probe", agent="me", step_limit=2) as driven:
        view = driven.reset(task)
        assert view.rules
        driven.step("look")
        driven.step("look")
        assert driven.over
        played = driven.trajectory()
    assert (played.environment, played.split, played.truncated) == ("alfworld", "valid_unseen", True)
    assert played.interface.startswith("alfworld/probe@")
