"""Metrics against hand-worked figures and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo import intervals
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import compare
from align_echo.interface.hints import met_refusal, shown_invalid, steps_in_runs
from align_echo.rollout import refusals
from align_echo.rollout.answers import replay_answers
from align_echo.types import Fault, Step, Trajectory
from align_echo.wrappers.catalogue import environment
from tests.room_env import TASK_IDS, RoomEnv, instead_of

ROOM = instead_of(environment("alfworld"))


def room_is_invalid(observation: str) -> bool:
    return observation == "Nothing happens."


def played(
    *actions: str | None, task: str = "room/mug-to-study", won: bool = False, score: float = 0.0, fault: bool = False
) -> Trajectory:
    """A trajectory that claims, wrongly, that every action went through: only a replay finds the truth."""
    return Trajectory(
        environment="room",
        split="train",
        task_id=task,
        agent="test",
        goal="",
        initial_observation="",
        steps=tuple(Step(reply="", action=action, observation="Fine.", raw_observation="Fine.") for action in actions),
        won=won,
        score=score,
        fault=Fault(source="model", error="ModelError", message="down") if fault else None,
    )


@pytest.mark.parametrize(
    ("flags", "share"),
    [
        ([[True, True, False, True]], 50.0),  # the lone one does not count
        ([[False] * 4, [True] * 4], 50.0),
        ([[True], [True]], 0.0),  # runs do not cross tasks
        ([[True] * 3, [False]], 75.0),  # pooled over tasks, not a mean of per-task values (which is 50)
        ([], None),
        ([[]], None),
    ],
)
def test_share_of_consecutive_invalid_steps(flags, share):
    turns = [len(task) for task in flags]
    estimate = refusals.pooled_percent([steps_in_runs(task) for task in flags], turns)
    assert (None if estimate is None else estimate.value) == share


@given(st.lists(st.booleans()))
def test_a_step_counts_exactly_when_it_and_a_neighbour_are_invalid(invalid):
    padded = [False, *invalid, False]
    expected = sum(padded[i] and (padded[i - 1] or padded[i + 1]) for i in range(1, len(padded) - 1))
    assert steps_in_runs(invalid) == expected


def test_replay_judges_the_agents_own_actions_in_the_plain_environment():
    trajectory = played(
        "fly", "take mug 1\nand then go", "take mug 1", None, "drop mug 9", "go to study", "drop mug 1", "look", "fly"
    )
    answers = replay_answers(RoomEnv(step_limit=50), trajectory)
    flags = [answer.action is None or answer.text == "Nothing happens." for answer in answers]
    # First line only: the second is a valid take, so the third fails; no action is invalid; the seventh wins, and what
    # comes after the end is not refused by anybody.
    assert flags == [True, False, True, True, True, False, False, False, False]


def test_shown_share_judges_what_the_agent_saw():
    trajectory = played("fly", "fly", None)
    assert shown_invalid(trajectory, room_is_invalid) == [False, False, True]


def test_a_refusal_is_met_whatever_the_agent_was_shown_of_it():
    texts = [("fly", "Nothing happens."), ("fly", None), ("go to study", "You arrive."), (None, None)]
    steps = tuple(
        Step(reply="", action=action, observation="Try another way.", raw_observation=raw) for action, raw in texts
    )
    trajectory = played().model_copy(update={"steps": steps})
    assert met_refusal(trajectory, room_is_invalid) == [True, True, False, True]


def test_success_rate_is_in_percent_with_wilsons_interval_and_skips_faults():
    lost = [played(task=f"t{i}") for i in range(9)]
    estimate = intervals.success_rate([played(won=True), *lost, played(task="t9", won=True, fault=True)])
    assert (estimate.value, estimate.n) == (10.0, 10)
    # Wilson (1927) for 1 of 10, worked by hand: 1.79% to 40.42%
    assert estimate.low == pytest.approx(1.787, abs=0.01)
    assert estimate.high == pytest.approx(40.416, abs=0.01)


@pytest.mark.parametrize("gain", [30.0, -30.0])
def test_tasks_that_all_change_alike_show_a_change_from_six_of_them_on(gain):
    signs = [intervals.bootstrap({"gain": np.full(n, gain)}, lambda of: of["gain"], seed=0).sign for n in (1, 2, 5)]
    assert signs == [0, 0, 0]
    alike = intervals.ratio([gain] * 6, [1.0] * 6)
    assert (alike.ci95, alike.sign) == (None, 1 if gain > 0 else -1)


def test_a_change_within_its_interval_is_not_shown_however_many_tasks_there_are():
    assert intervals.ratio([1.0, -1.0] * 50 + [1.0], [1.0] * 101).sign == 0
    assert intervals.ratio([0.0] * 50, [1.0] * 50).sign == 0
    assert intervals.ratio([1.0] * 9 + [-1.0], [1.0] * 10).sign == 1
    assert intervals.ratio([-1.0] * 9 + [1.0], [1.0] * 10).sign == -1


def test_one_task_has_no_interval_however_often_it_is_played():
    for episodes in ([played(won=True)], [played(won=won) for won in (True, False, True)]):
        assert intervals.success_rate(episodes).ci95 is None


def test_episodes_of_one_task_that_all_end_alike_say_no_more_than_one_of_them():
    once = [played(task=f"t{i}", won=i % 4 == 0) for i in range(20)]
    assert intervals.success_rate(once * 8) == intervals.success_rate(once)


def test_episodes_of_one_task_that_end_by_chance_say_as_much_as_tasks():
    mixed = [played(task=f"t{i}", won=won) for i in range(20) for won in (True, False)]
    estimate, alone = intervals.success_rate(mixed), intervals.wilson(20, 40)
    assert (estimate.value, estimate.n) == (50.0, 20)
    assert (estimate.low, estimate.high) == (alone.low, alone.high)


@given(st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=30))
def test_a_rate_over_repeats_is_between_that_of_as_many_tasks_and_of_as_many_episodes(tasks):
    won, sizes = zip(*tasks, strict=True)
    assert len(sizes) <= intervals.effective_draws(won, sizes) <= sum(sizes)
    episodes = [played(task=f"t{i}", won=k < count) for i, (count, size) in enumerate(tasks) for k in range(size)]
    estimate = intervals.success_rate(episodes)
    assert len(tasks) == 1 or 0 <= estimate.low <= estimate.value <= estimate.high <= 100
    assert estimate.value == pytest.approx(100 * sum(won) / sum(sizes))


def test_the_share_of_replies_is_pooled_over_tasks_and_leaves_faults_out():
    trajectories = [played("fly", None, task=TASK_IDS[0]), played("fly", "look", task=TASK_IDS[1])]
    broken = played(None, task=TASK_IDS[1], fault=True)
    estimate = compare(ROOM, {"none": [*trajectories, broken]}).variants["none"].unparsed
    assert estimate is not None
    assert (estimate.value, estimate.n) == (25.0, 2)
    assert compare(ROOM, {"none": [played(task=TASK_IDS[0])]}).variants["none"].unparsed is None


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_rate_lies_in_its_interval_within_0_and_100(case):
    successes, n = case
    estimate = intervals.wilson(successes, n)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 100
    mirrored = intervals.wilson(n - successes, n)
    assert estimate.low == pytest.approx(100 - mirrored.high)


def test_no_finished_episode_is_an_error_that_says_so():
    with pytest.raises(UsageError, match="at least one task"):
        intervals.success_rate([played(fault=True)])
    with pytest.raises(UsageError, match="no finished episode"):
        intervals.mean_score([])


def test_mean_score_and_its_bootstrap_interval_are_seeded():
    trajectories = [played(task=f"t{i}", score=i / 9) for i in range(10)]
    uneven = [played(task=f"t{i}", score=(i / 10) ** 2.5) for i in range(10)]
    assert intervals.mean_score(uneven, seed=3) == intervals.mean_score(uneven, seed=3)
    assert intervals.mean_score(uneven, seed=3) != intervals.mean_score(uneven, seed=4)
    first = intervals.mean_score(trajectories, seed=3)
    assert first.value == pytest.approx(0.5)
    # the standard error of this mean is 0.101: a 95% interval of about +-0.2
    assert first.low == pytest.approx(0.3, abs=0.03)
    assert first.high == pytest.approx(0.7, abs=0.03)


def test_the_interval_is_over_tasks_not_over_steps_or_repeats():
    repeats = [played(task=f"t{i % 2}", score=float(i % 2)) for i in range(40)]
    estimate = intervals.mean_score(repeats)
    assert (estimate.n, estimate.low, estimate.high) == (2, 0.0, 1.0)


def test_pooled_share_has_an_interval_around_it():
    estimate = refusals.pooled_percent([2 * (i % 2 == 0) for i in range(20)], [2] * 20)
    assert estimate is not None
    assert estimate.value == 50.0
    assert 20 < estimate.low < 50 < estimate.high < 80
