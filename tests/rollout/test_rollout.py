"""Rollouts: faults are data, and what broke is said."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import AgentError, EngineError, ModelError, ReplyFormatError, UsageError
from align_echo.interface.contract import identity
from align_echo.intervals import scored
from align_echo.rollout.batches import (
    ATTEMPTS,
    HOPELESS,
    LocalHost,
    failed,
    play_batch,
    run_episode,
    run_tasks,
)
from align_echo.rollout.faults import FirstReplies, faults_by_source
from align_echo.rollout.session import Episode
from align_echo.types import AgentReply, AgentView, Trajectory
from align_echo.wrappers import AlignWrapper
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv


class Walker:
    """Plays the room's mug task; `break_at` makes the model fail on that turn."""

    name = "walker"

    def __init__(self, break_at: int | None = None) -> None:
        self.break_at = break_at
        self.calls = 0

    def act(self, view: AgentView) -> AgentReply:
        self.calls += 1
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
    assert agent.calls == 2


def test_a_batch_stops_when_the_model_never_answers():
    agent = Walker(break_at=0)
    with pytest.raises(ModelError, match="the endpoint is down"):
        run_tasks(RoomEnv, agent, [TASK_IDS[0]] * 50, split="test")
    assert agent.calls == HOPELESS


@pytest.mark.parametrize("workers", [1, 4])
def test_results_come_in_task_order(workers: int):
    tasks = [TASK_IDS[0], TASK_IDS[1]] * 4
    seen: list[str] = []
    played = run_tasks(
        RoomEnv, Walker(), tasks, split="test", workers=workers, on_trajectory=lambda ended: seen.append(ended.task_id)
    )
    assert [trajectory.task_id for trajectory in played] == tasks
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


class Broken(Walker):
    """Its code fails on a turn of the tasks named."""

    def __init__(self, error: BaseException | None, tasks: tuple[str, ...] = TASK_IDS) -> None:
        super().__init__()
        self.error = error
        self.tasks = tasks

    def act(self, view: AgentView) -> AgentReply:
        if view.task_id in self.tasks and view.turns:
            self.calls += 1
            return self.fall_over()
        return AgentReply(text="look", action="look")

    def fall_over(self) -> AgentReply:
        if self.error is None:
            return {"action": "look"}  # type: ignore[return-value]
        raise self.error.with_traceback(None)


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (KeyError("inventory"), "KeyError", "'inventory'"),
        (ReplyFormatError("no action in it"), "ReplyFormatError", "no action in it"),
        (FileNotFoundError(2, "No such file", "notes.txt"), "FileNotFoundError", "notes.txt"),
        (ValueError("odd \ud800 text\nand more"), "ValueError", "odd ? text"),
        (Unreadable(), "Unreadable", "cannot be read"),
        (None, "AgentError", "act() returned dict, not an AgentReply"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_agent_whose_code_fails_loses_its_own_episode_only(workers, error, name, message, tmp_path):
    agent = Broken(error, TASK_IDS[:1])
    file = JsonlFile(tmp_path / "played.jsonl")
    played = run_tasks(
        lambda: RoomEnv(step_limit=3),
        agent,
        [*TASK_IDS, TASK_IDS[1]],
        split="test",
        workers=workers,
        on_trajectory=file.append,
    )
    fault = played[0].fault
    assert fault is not None
    assert (fault.source, fault.error) == ("agent", name)
    assert message in fault.message
    assert "\n" not in fault.message
    assert ("fall_over" in fault.traceback) == (error is not None)
    assert "faults.py" not in fault.traceback, "the frames are the agent's own"
    assert "rollout.py" not in fault.traceback.replace("test_rollout.py", "")
    assert [trajectory.fault for trajectory in played[1:]] == [None, None]
    assert len(played[0].steps) == agent.calls == 1, "what was played is kept, and the code is not tried again"
    assert scored(played) == played[1:]
    assert failed(played) == played[1:]
    assert faults_by_source(played) == {"agent": 1}
    stored = {trajectory.task_id: trajectory.fault for trajectory in file.read(Trajectory)}
    assert stored == {trajectory.task_id: trajectory.fault for trajectory in played}


def test_a_long_traceback_is_cut():
    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        raise ValueError("x" * 100_000)

    class Deep(Walker):
        def act(self, view: AgentView) -> AgentReply:
            fall(200)
            raise AssertionError

    fault = run_episode(RoomEnv(), Deep(), TASK_IDS[0], split="test").fault
    assert fault is not None
    assert len(fault.message) <= 500
    assert len(fault.traceback) <= 8_000


def test_a_reply_that_is_not_text_is_a_fault_of_the_agent():
    reply = AgentReply.model_construct(text="look", action=["look"])
    fault = run_episode(RoomEnv(), Fixed(reply), TASK_IDS[0], split="test").fault
    assert fault is not None
    assert (fault.source, fault.message) == ("agent", "the action of an AgentReply is text, not list")


def test_half_a_character_can_be_written_down(tmp_path):
    agent = Fixed(AgentReply(text="\ud83d", action="lo\ud83dk"))
    played = run_episode(RoomEnv(step_limit=2), agent, TASK_IDS[0], split="test")
    JsonlFile(tmp_path / "played.jsonl").append(played)
    assert played.actions == ("lo?k", "lo?k")


class Fixed:
    """Always the same reply."""

    name = "fixed"

    def __init__(self, reply: AgentReply) -> None:
        self.reply = reply

    def act(self, view: AgentView) -> AgentReply:
        return self.reply


def test_a_batch_stops_when_the_agents_code_always_fails():
    agent = Broken(KeyError("inventory"))
    with pytest.raises(AgentError) as caught:
        run_tasks(RoomEnv, agent, [TASK_IDS[0]] * 50, split="test")
    assert agent.calls == HOPELESS
    assert str(caught.value) == (
        "the first 4 episodes were all broken: the agent's own code failed: KeyError: 'inventory'"
    )


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), MemoryError(), CancelledError(), UsageError("no such critic")]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_not_the_agents_own_failure_ends_the_batch(error, workers):
    with pytest.raises(type(error)):
        run_tasks(RoomEnv, Broken(error), TASK_IDS, split="test", workers=workers)


def test_a_call_that_the_agents_own_client_cancelled_is_the_agents_fault():
    (played,) = run_tasks(RoomEnv, Broken(asyncio.CancelledError()), TASK_IDS[:1], split="test")
    assert played.fault is not None
    assert (played.fault.source, played.fault.error) == ("agent", "CancelledError")


def test_an_agent_that_cannot_draw_a_sample_loses_that_one_only():
    class Choosy(Walker):
        def with_sample(self, sample: int) -> Walker:
            raise ZeroDivisionError(f"sample {sample}")

    played = run_tasks(RoomEnv, Choosy(), [Episode(TASK_IDS[0]), Episode(TASK_IDS[0], 1)], split="test")
    assert played[0].won
    assert played[1].fault is not None
    assert (played[1].fault.source, played[1].fault.message) == ("agent", "sample 1")


def test_what_is_no_agent_is_refused():
    with pytest.raises(UsageError, match="an agent has a `name`"):
        run_tasks(RoomEnv, Walker.act, TASK_IDS, split="test")  # type: ignore[arg-type]


def test_rules_that_fail_are_named_on_the_trajectory():
    source = identity(CONTRACT).source.replace("return ''", "raise ValueError('no rules today')")
    interface = identity(CONTRACT).model_copy(update={"source": source})
    trajectory = run_episode(AlignWrapper(RoomEnv(), interface), Walker(), TASK_IDS[0], split="test")
    assert "no rules today" in trajectory.reset_error
    assert trajectory.won


class LateSpeaker(Walker):
    """Says nothing in the mug's task, and walks in the book's."""

    def act(self, view: AgentView) -> AgentReply:
        mute = view.task_id == TASK_IDS[0]
        return Silent().act(view) if mute else super().act(view)


def batch(agent, tasks, workers: int, first_replies: FirstReplies) -> list[Trajectory]:
    ended: dict[int, Trajectory] = {}
    play_batch(
        lambda: LocalHost(RoomEnv(step_limit=9), agent, "train", "", 0, first_replies),
        tasks,
        workers=workers,
        on_end=ended.__setitem__,
        first_replies=first_replies,
    )
    return [ended[index] for index in range(len(tasks))]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_mute_agent_ends_a_batch_that_is_to_stop(workers: int):
    tasks = [Episode(TASK_IDS[number % 2], sample=number) for number in range(8)]
    with pytest.raises(UsageError, match=f"none of its first 3 replies in ({TASK_IDS[0]}|{TASK_IDS[1]})"):
        batch(Silent(), tasks, workers, FirstReplies(stop_after=2))


@pytest.mark.parametrize("workers", [1, 3])
def test_an_episode_that_was_put_off_is_played_to_its_end_after_the_others(workers: int):
    said: list[str] = []
    mute, *others = batch(LateSpeaker(), [TASK_IDS[0], *[TASK_IDS[1]] * 3], workers, FirstReplies(stop_after=2))
    assert len(mute.steps) == 9
    assert all(other.task_id == TASK_IDS[1] and None not in other.actions for other in others)
    batch(LateSpeaker(), TASK_IDS, workers, FirstReplies(said.append))
    assert len(said) <= 1
    batch(Silent(), TASK_IDS, workers, FirstReplies(said.append))
    assert said[-1].endswith("holds an action: 'hm' (no action in it)")
