"""Rollouts: faults are data, and what broke is said."""

from __future__ import annotations

import threading

import pytest

from align_echo.errors import EngineError, ModelError
from align_echo.interface import identity
from align_echo.rollout import ATTEMPTS, HOPELESS, failed, run_episode, run_tasks
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers import AlignWrapper
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv


class Walker:
    """Plays the room's mug task; `break_at` makes the model fail on that turn."""

    name = "walker"

    def __init__(self, break_at: int | None = None) -> None:
        self.break_at = break_at
        self.asked = 0

    def act(self, view: AgentView) -> AgentReply:
        self.asked += 1
        if len(view.turns) == self.break_at:
            raise ModelError("the endpoint is down")
        plan = ["take mug 1", "go to study", "drop mug 1"]
        action = plan[min(len(view.turns), 2)]
        return AgentReply(text=f"I will {action}", action=action)


class Silent:
    name = "silent"

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text="hm", action=None, problem="no action in it")


class Brittle(RoomEnv):
    """Its engine breaks on the first action of the first `breaks` episodes."""

    breaks = 0

    def _act(self, action: str):
        if self.breaks > 0:
            self.breaks -= 1
            raise EngineError("pipe closed")
        return super()._act(action)


def test_an_episode_is_told_in_full():
    trajectory = run_episode(RoomEnv(), Walker(), TASK_IDS[0], split="test")
    assert trajectory.won
    assert trajectory.terminated
    assert not trajectory.truncated
    assert trajectory.actions == ("take mug 1", "go to study", "drop mug 1")
    assert [step.score for step in trajectory.steps] == [0, 0, 1]
    assert sum(step.reward for step in trajectory.steps) == 1
    assert trajectory.steps[0].reply == "I will take mug 1"
    assert trajectory.interface == "none"


def test_a_reply_without_an_action_is_a_turn_that_reaches_no_engine():
    trajectory = run_episode(RoomEnv(step_limit=3), Silent(), TASK_IDS[0], split="test")
    assert trajectory.truncated
    assert [step.engine_calls for step in trajectory.steps] == [0, 0, 0]
    assert all(step.raw_observation is None and step.problem for step in trajectory.steps)
    assert "no action in it" in trajectory.steps[0].observation


def test_a_broken_engine_is_started_once_more_and_then_marked():
    env = Brittle()
    env.breaks = 1
    assert run_episode(env, Walker(), TASK_IDS[0], split="test").won
    env.breaks = ATTEMPTS
    broken = run_episode(env, Walker(), TASK_IDS[0], split="test")
    assert broken.fault is not None
    assert broken.fault.source == "environment"
    assert not broken.won
    assert failed([broken]) == []


def test_a_broken_model_ends_its_episode_only_and_is_not_asked_again():
    agent = Walker(break_at=1)
    trajectory = run_episode(RoomEnv(), agent, TASK_IDS[0], split="test")
    assert trajectory.fault is not None
    assert trajectory.fault.source == "model"
    assert len(trajectory.steps) == 1
    assert agent.asked == 2


def test_a_batch_stops_when_the_model_never_answers():
    agent = Walker(break_at=0)
    with pytest.raises(ModelError, match="the endpoint is down"):
        run_tasks(RoomEnv, agent, [TASK_IDS[0]] * 50, split="test")
    assert agent.asked == HOPELESS


@pytest.mark.parametrize("workers", [1, 4])
def test_results_come_in_task_order(workers: int):
    tasks = [TASK_IDS[0], TASK_IDS[1]] * 4
    seen: list[str] = []
    played = run_tasks(
        RoomEnv, Walker(), tasks, split="test", workers=workers, on_trajectory=lambda one: seen.append(one.task_id)
    )
    assert [one.task_id for one in played] == tasks
    assert sorted(seen) == sorted(tasks)


def test_what_stops_a_batch_stops_its_other_episodes_at_their_next_turn():
    """Ctrl-C when the first episode has ended; the others would look around for a long time."""
    begun = threading.Barrier(4, timeout=60)
    limit = 3000
    looks: list[str] = []

    class Onlooker(Walker):
        def act(self, view: AgentView) -> AgentReply:
            if not view.turns:
                begun.wait()
            if view.task_id == TASK_IDS[0]:
                return super().act(view)
            looks.append("look")
            return AgentReply(text="look", action="look")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    tasks = [TASK_IDS[0], *[TASK_IDS[1]] * 3]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(lambda: RoomEnv(limit), Onlooker(), tasks, split="test", workers=4, on_trajectory=stop)
    assert len(looks) < 3 * limit


def test_rules_that_fail_are_named_on_the_trajectory():
    source = identity(CONTRACT).source.replace("return ''", "raise ValueError('no rules today')")
    interface = identity(CONTRACT).model_copy(update={"source": source})
    trajectory = run_episode(AlignWrapper(RoomEnv(), interface), Walker(), TASK_IDS[0], split="test")
    assert "no rules today" in trajectory.reset_error
    assert trajectory.won
