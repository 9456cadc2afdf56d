"""The ceiling and the floor: they follow the episode that they are shown, whatever order they are asked in."""

from __future__ import annotations

from align_echo.agents.privileged import Expert, RandomChoice
from align_echo.rollout import extend, run_episode, start_view, take_turn
from align_echo.types import AgentReply
from tests.room_env import TASK_IDS, RoomEnv


def make() -> RoomEnv:
    return RoomEnv(step_limit=10**9)


def test_the_expert_wins_what_its_oracle_can_win():
    trajectory = run_episode(RoomEnv(), Expert(make), TASK_IDS[0], split="train")
    assert trajectory.won
    assert trajectory.actions == ("take mug 1", "go to study", "drop mug 1")


def test_an_episode_can_be_forked_and_taken_up_in_any_order():
    env, agent = RoomEnv(), Expert(make)
    start = start_view(env, TASK_IDS[0], "", 0)
    taken = extend(start, take_turn(env, AgentReply(text="", action="take mug 1")))
    nothing = extend(start, take_turn(env, AgentReply(text="", action=None)))
    assert [agent.act(view).action for view in (taken, start, nothing, taken)] == [
        *("go to study", "take mug 1", "take mug 1", "go to study")
    ]


def test_chance_takes_what_the_engine_accepts_and_repeats_itself_by_seed():
    runs = [run_episode(RoomEnv(), RandomChoice(make, seed=seed), TASK_IDS[1], split="train") for seed in (0, 0, 1)]
    assert runs[0].actions == runs[1].actions != runs[2].actions
    assert all("Nothing happens" not in step.observation for one in runs for step in one.steps)
