"""When nothing can be learned: hand-made signals of steps, what is said of them, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.obstacles import ObstacleAlarm, nothing_differs, obstacles
from align_echo.train.signals import Signals

LOST: Signals = {
    "episodes": 8,
    "groups": 2,
    "zero_variance_share": 1.0,
    "singleton_groups": 0,
    "rows": 8,
    "policy/reward": 0.0,
    "policy/reward_std": 0.0,
    "policy/no_action_share": 0.1,
    "policy/cut_share": 0.0,
    "policy/turn_limit_share": 0.5,
    "policy/context_limit_share": 0.0,
    "policy/grad_norm": 0.0,
}
LEARNING: Signals = LOST | {
    "zero_variance_share": 0.5,
    "policy/reward": 0.3,
    "policy/reward_std": 0.4,
    "policy/grad_norm": 0.7,
}


def config(name: str = "grpo", **changes: Any) -> TrainConfig:
    return checked_config(merged(method(name), {"collecting": {"turns": 30}, **changes}), name)


def met(signals: Signals, name: str = "grpo", **changes: Any) -> list[str]:
    return [f"{known.fact}: {known.advice}" for known in obstacles(5, signals, config(name, **changes))]


def test_a_step_that_taught_something_meets_no_obstacle():
    assert met(LEARNING) == []
    assert met(LEARNING | {"policy/turn_limit_share": 1.0, "policy/cut_share": 1.0}) == []


def test_tasks_that_are_all_lost_or_all_won_are_told_apart():
    (lost,) = met(LOST)
    assert lost.startswith("every task was lost by every sample: take easier tasks (task_types), a stronger start (--m")
    assert lost.endswith("an --interface or more samples a task (collecting.samples, now 8)")
    assert "--interface" not in met(LOST, interface="probe")[0]
    (won,) = met(LOST | {"policy/reward": 1.0})
    assert won == "every task was won by every sample: take harder tasks (task_types, split), or end the run"


def test_what_cut_all_episodes_short_is_told_with_the_key_that_bounds_it():
    assert met(LOST | {"policy/turn_limit_share": 1.0})[0].startswith(
        "every task was lost by every sample, and nearly all episodes ended at their limit of 30 turns: "
        "raise collecting.turns, now 30; or take easier tasks"
    )
    (own_limit,) = met(LOST | {"policy/turn_limit_share": 1.0}, collecting={"turns": None})
    assert "ended at the environment's limit of turns: take easier tasks" in own_limit
    (outgrown,) = met(LOST | {"policy/context_limit_share": 1.0})
    assert "outgrew the model's context: take a --model with a longer context, or fewer turns (collecting" in outgrown
    (cut,) = met(LOST | {"policy/cut_share": 1.0})
    assert "nearly all replies were cut off: raise collecting.reply_tokens, now 64; or" in cut


def test_rewards_that_are_the_same_within_each_group_or_everywhere():
    (equal,) = met(LOST | {"policy/reward": 0.5, "policy/reward_std": 0.5})
    assert equal.startswith("all samples of a task earned the same: take more samples a task (collecting.samples, no")
    assert "(collecting.tasks, now 4) or more varied replies (collecting.temperature, now 1)" in equal
    (constant,) = met(LOST | {"policy/reward": 0.25})
    assert constant.startswith("every reward of the policy was 0.25: ")
    critic = {name.replace("policy", "critic"): value for name, value in LOST.items()}
    (verdicts,) = met(critic | {"critic/reward": 0.1}, "rcm")
    assert verdicts.startswith("every reward of the critic was 0.1: ")


@pytest.mark.parametrize(
    ("groups", "share", "singles", "expected"),
    [(2, 1, 0, True), (3, 1 / 3, 2, True), (3, 1 / 3, 1, False), (3, 0, 3, True), (2, 0.5, 0, False), (0, 0, 0, False)],
)
def test_a_group_of_one_teaches_as_little_as_one_without_variance(groups, share, singles, expected):
    signals = {"groups": groups, "zero_variance_share": share, "singleton_groups": singles}
    assert nothing_differs(signals) is expected


def test_replies_without_actions_are_told_before_what_follows_from_them():
    assert met(LOST | {"policy/no_action_share": 0.97}) == [
        "97% of the policy's replies held no action: take a --model that knows the action format, or teach it one "
        "first (--method sft); collecting.reply_tokens, now 64 may be too few"
    ]
    (cut,) = met(LOST | {"policy/no_action_share": 1.0, "policy/cut_share": 1.0}, collecting={"reply_tokens": 4})
    none = "100% of the policy's replies held no action, as they were cut off"
    assert cut == f"{none}: raise collecting.reply_tokens, now 4"


def test_episodes_that_all_broke_are_told_by_what_broke_them():
    broken: Signals = {"episodes": 4, "count/environment_faults": 3, "count/agent_faults": 1, "groups": 0, "rows": 0}
    assert met(broken) == [
        "all 4 episodes broke (the environment broke): rollouts/ holds what it said (`fault`), and align-echo doctor "
        "what is missing"
    ]
    assert "set rollouts.episodes" in met(broken, rollouts={"episodes": 0})[0]
    assert "broke" not in met(broken | {"episodes": 5})[0]


def test_critiques_that_nobody_could_read():
    unread: Signals = {
        "groups": 1,
        "zero_variance_share": 1.0,
        "singleton_groups": 0,
        "critic/reward": -0.5,
        "critic/reward_std": 0.0,
        "count/critiques_of_lost_attempts": 4,
        "count/unread_critiques_of_lost_attempts": 4,
        "count/cut_critiques_of_lost_attempts": 4,
    }
    cut = "none of 4 critiques could be read, as they were cut off: raise collecting.critique_tokens, now 160"
    assert met(unread, "echo") == [cut]
    (whole,) = met(unread | {"count/cut_critiques_of_lost_attempts": 0}, "echo")
    assert "take a critic that knows its form" in whole
    assert whole.endswith("; critiques/ has the problem of each")
    assert met(unread | LEARNING, "icrl") == []  # its other attempts teach the policy
    verdicts = {"rows": 8, "count/unread_verdicts": 8, "critic/reward": 0.0}
    assert "no verdict of the critic could be read: teach the critic its form" in met(verdicts, "rcm")[0]


def test_a_step_without_anything_to_learn_from():
    assert met({"groups": 0, "rows": 0, "count/failed_lessons": 8}, "sft") == [
        "the environment's expert won none of the tasks: raise collecting.turns, now 30"
    ]
    assert "no task fits into the model's context" in met({"episodes": 2, "policy/context_limit_share": 1.0})[0]
    assert "there was no episode or reply to learn from" in met({"episodes": 2})[0]


def test_a_gradient_of_zero_where_rewards_differ():
    clipped = LEARNING | {"policy/grad_norm": 0.0, "policy/clip_share": 1.0}
    (still,) = met(clipped)
    assert still.startswith("the gradient of the policy is 0 although rewards differ, as every ratio is clipped: lower")
    warming_up = LEARNING | {"policy/grad_norm": 0.0, "critic/grad_norm": 0.3, "critic/reward": 0.1}
    assert obstacles(2, warming_up, config("echo")) == []
    still_critic = warming_up | {"critic/grad_norm": 0.0}
    assert "of the policy and of the critic is 0" in met(still_critic, "echo")[0]
    assert "gradient of the critic is 0" in met(still_critic, "echo", step={"critic_warmup": 9})[0]


def said(*steps: Signals, **changes: Any) -> list[list[str]]:
    alarm = ObstacleAlarm(config(**changes))
    return [alarm.lines(step, signals) for step, signals in enumerate(steps, start=1)]


def test_one_step_without_difference_may_be_chance_and_the_second_is_told_once():
    first, second, third = said(LOST, LOST, LOST)
    assert (first, third) == ([], [])
    assert second[0].startswith("warning: step 2: nothing can be learned: every task was lost by every sample: take")
    assert said(LOST, LEARNING, LOST, LEARNING) == [[], [], [], []]
    assert said(LOST, steps=1)[0] != []


def test_what_is_no_chance_is_told_at_once():
    ((line,),) = said(LOST | {"policy/no_action_share": 1.0})
    assert line.startswith("warning: step 1: nothing can be learned: 100% of the policy's replies held no action")


def test_it_is_told_when_it_changes_when_it_ends_and_every_so_many_steps():
    won = LOST | {"policy/reward": 1.0}
    _, lost, changed, again, over, later = said(LOST, LOST, won, LOST, LEARNING, LEARNING)
    assert "lost by every sample" in lost[0]
    assert "won by every sample" in changed[0]
    assert again == later == []
    assert over == [
        "step 5: there is something to learn again (before: every task was lost by every sample; every task was won by "
        "every sample)"
    ]
    *_, once_more = said(LOST, LOST, LEARNING, LOST, LOST)
    assert "step 5: nothing can be learned: every task was lost" in once_more[0]
    repeated = [step for step, lines in enumerate(said(*[LOST] * 60), start=1) if lines]
    assert repeated == [2, 27, 52]
