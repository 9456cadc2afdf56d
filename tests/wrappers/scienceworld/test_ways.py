"""What is left of a gold path from beside it: which rests are tried, and that trying plans nothing anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld import env
from align_echo.wrappers.scienceworld.env import (
    JavaSimulator,
    costs_at_most,
    gold_path,
    list_remainders,
    shorten_path,
    turns_to_win,
)
from align_echo.wrappers.scienceworld.tasks import LabTask, read_task
from tests.wrappers.scienceworld.conftest import needs_engine

WAY = ("teleport to kitchen", "pick up pot", "wait", "wait", "teleport to workshop", "focus on pot")
TOY = LabTask("toy", "", 0)
ANIMAL = "find-animal/easy/0"


@given(st.lists(st.sampled_from("abc")).map(tuple), st.data())
def test_on_a_way_what_is_left_is_the_rest_of_it(way, data):
    done = data.draw(st.integers(0, len(way)))
    after, unplayed, *_ = list_remainders(way, way[:done])
    assert after == unplayed == way[done:]


@given(st.lists(st.sampled_from("abcd")).map(tuple), st.lists(st.sampled_from("xyz")))
def test_what_is_not_on_the_way_does_nothing_to_it(way, noise):
    assert set(list_remainders(way, noise)) <= {way, ("look around", *way)}


def test_what_was_done_before_its_time_need_not_be_done_again():
    after, unplayed, look, back, onward, whole = list_remainders(WAY, ("Teleport to the kitchen", "wait"))
    assert unplayed == ("pick up pot", "wait", "teleport to workshop", "focus on pot")
    assert after == WAY[3:]
    assert look == ("look around", *unplayed)
    assert back == ("teleport to kitchen", *unplayed)
    assert (onward, whole) == (WAY[1:], WAY)


def test_going_to_a_room_stands_for_teleporting_to_it():
    assert list_remainders(WAY, ("go to kitchen",))[0] == WAY[1:]
    assert list_remainders(WAY, ("go to greenhouse",))[0] == WAY


def scripted(monkeypatch: pytest.MonkeyPatch, goal: str) -> None:
    """A world in which the score is full once the letters of a goal were played in order, small or capital."""

    def turns(task: LabTask, played: Sequence[str], plan: Sequence[str]) -> int | None:
        left = list(goal)
        for number, action in enumerate((*played, *plan)):
            if not left:
                return max(number - len(played), 0)
            left = left[1:] if action.lower() == left[0] else left
        return None if left else len(plan)

    monkeypatch.setattr(env, "turns_to_win", turns)
    shorten_path.cache_clear()


@given(
    way=st.text("abc", min_size=1, max_size=8),
    goal=st.text("abc", min_size=1, max_size=4),
    played=st.text("abc", max_size=5),
    allowance=st.integers(0, 3),
)
@example(way="babc", goal="aba", played="aa", allowance=1)  # what is left wins before it ends
def test_an_idle_action_costs_exactly_one(way, goal, played, allowance):
    with pytest.MonkeyPatch.context() as monkeypatch:
        scripted(monkeypatch, goal)
        gold, before = (*way, *goal), tuple(played)
        if env.turns_to_win(TOY, before, ()) is None:
            assert costs_at_most(TOY, gold, before, "idle", allowance) is (allowance >= 1)


def test_a_rest_that_only_finds_out_what_to_answer_is_no_merit_of_waiting(monkeypatch):
    scripted(monkeypatch, "z")
    gold = tuple("abcdefgz")
    assert costs_at_most(TOY, gold, (), "idle", 0) is False
    assert costs_at_most(TOY, gold, (), "z", 0) is True


@pytest.mark.parametrize("letter", ["B", "b"])
def test_steps_in_other_words_one_after_the_other_are_right(monkeypatch, letter):
    scripted(monkeypatch, "abcd")
    monkeypatch.setattr(env, "as_read", str)
    assert costs_at_most(TOY, tuple("abcd"), (), "A", 0) is True
    assert costs_at_most(TOY, tuple("abcd"), ("A",), letter, 0) is True
    assert costs_at_most(TOY, tuple("abcd"), ("A",), "A", 0) is False
    assert costs_at_most(TOY, tuple("abcd"), ("A", "B"), "C", 0) is True


@pytest.mark.long
@needs_engine
def test_what_is_needed_of_a_gold_path_wins_and_has_no_way_round():
    task = read_task(ANIMAL, "train")
    gold = gold_path(task)
    way = shorten_path(task, gold)
    assert turns_to_win(task, (), way) == len(way) < len(gold)
    assert not any(action.startswith(("open door", "go to", "look")) for action in way)
    assert turns_to_win(task, (), way[:-1]) is None
    assert turns_to_win(task, way[:-1], way[-1:]) == 1
    assert turns_to_win(task, way, ()) == 0


@pytest.mark.long
@needs_engine
def test_what_the_way_needs_costs_nothing_and_a_detour_what_it_takes():
    task = read_task(ANIMAL, "train")
    gold = gold_path(task)
    there, focus = shorten_path(task, gold)[:2]
    assert there == "teleport to outside"
    assert focus.startswith("focus on ")
    assert costs_at_most(task, gold, (), there, 0) is True
    assert costs_at_most(task, gold, (there,), focus, 0) is True
    assert costs_at_most(task, gold, (there,), "teleport to bedroom", 1) is False
    assert costs_at_most(task, gold, (there,), "teleport to bedroom", 2) is True
    assert costs_at_most(task, gold, (there, "teleport to bedroom"), there, 0) is True
    assert costs_at_most(task, gold, (there, "teleport to bedroom"), "look around", 0) is False


@pytest.mark.long
@needs_engine
def test_a_simulator_that_planned_a_gold_path_does_not_plan_it_at_every_reset():
    task = read_task(ANIMAL, "train")
    with java_pool(JavaSimulator).borrowed() as simulator:
        simulator.load(task.name, task.variation, task.simplifications, gold=True)
        planned = simulator.gold_path()
        simulator.load(task.name, task.variation, task.simplifications)
        simulator.reset()
        assert simulator.gold_path() != planned
