"""The scripted novice of TextWorldExpress: what it plays, what it gets wrong of itself, and how it takes a hint."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.agents.novices.smallgames import amount, read_exits, read_sum, read_things, way
from align_echo.agents.novices.textworldexpress import STUBBORN, USUAL, GameHabits, game_novice
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentView, Turn
from align_echo.wrappers.textworldexpress.spec import GAMES

needs_engine = pytest.mark.skipif(
    find_spec("textworld_express") is None, reason="the extra is not installed: pip install '.[textworldexpress]'"
)

GOOD = GameHabits(own_words=0.0, repeats=0.0, gets_stuck=0.0, walks_into_doors=0.0, hurries=0.0, wanders=0.0)
COIN = "Your task is to search the environment and find the coin.  Once you find the coin, take it."
SORT = "Your task is to sort objects by quantity.  First, place the object with the smallest quantity in the box."
KITCHEN = (
    "You are in the kitchen. In one part of the room you see a stove. There is also an open fridge, that contains a "
    "raw chicken leg, and some salt. You also see a counter, that has nothing on it. In another part of the room you "
    "see a trash can that is closed. In one part of the room you see a dining chair that has 16l of oak, and 18ml of "
    "marble on it. There is also a box, that is empty. \nTo the North you see a closed wood door. "
)
WITH_COIN = "You are in the hall. In one part of the room you see a coin. \nTo the South you see the kitchen. "
UNKNOWN = "Unknown action: I'm not sure what you mean."


def view(*turns: tuple[str, str], goal: str = COIN, at: str = WITH_COIN, rules: str = "") -> AgentView:
    return AgentView(
        task_id="t",
        action_format="",
        goal=goal,
        rules=rules,
        initial_observation=at,
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


def actions(habits: GameHabits, *turns: tuple[str, str], n: int = 200, **seen: str) -> list[str | None]:
    """What novices with other draws do."""
    return [game_novice(habits, seed=seed).act(view(*turns, **seen)).action for seed in range(n)]


def test_it_reads_a_room():
    things, closed = read_things(KITCHEN)
    assert things == {
        **{"stove": "", "chicken leg": "fridge", "salt": "fridge"},
        **{"16l of oak": "dining chair", "18ml of marble": "dining chair"},
    }
    assert closed == {"fridge": False, "counter": False, "trash can": True, "dining chair": False, "box": False}
    assert read_exits(KITCHEN) == {"north": ""}
    assert read_exits("Through an open wood door, to the East you see the back yard. ") == {"east": "back yard"}


def test_it_knows_sums_units_and_ways():
    problems = ("subtract 6 from 31", "multiply 35 and 20", "divide 48 by 4", "add 5 and 34", "divide 1 by 0")
    assert [read_sum(f"problem: {problem} .") for problem in problems] == [25, 700, 12, 39, None]
    assert [amount(f"{much} of oak") for much in ("5ml", "16l", "8g", "2kg", "7mm")] == [0.005, 16, 8, 2000, 0.007]
    assert [amount(thing, units=False) for thing in ("18ml of marble", "6 papayas", "coin")] == [18, 6, None]
    assert way({"a": ["b", "c"], "b": ["d"], "c": []}, "a", ["d"]) == ["b", "d"]
    assert way({"a": ["b"]}, "a", ["z"]) == way({"a": ["b"]}, "a", ["a"]) == []


def test_without_bad_habits_it_takes_the_smallest_first_and_otherwise_often_the_smallest_number():
    assert {*actions(GOOD, goal=SORT, at=KITCHEN)} == {"take 18ml of marble"}
    in_hand = ("take 18ml of marble", "You take the 18ml of marble.")
    assert {*actions(GOOD, in_hand, goal=SORT, at=KITCHEN)} == {"put 18ml of marble in box"}
    hurried = actions(replace(GOOD, hurries=0.3), goal=SORT, at=KITCHEN)
    assert 20 < hurried.count("take 16l of oak") < 100


def test_it_says_things_its_own_way_less_often_where_rules_show_the_form():
    plain = actions(USUAL)
    for rules in ("Write `take X` for that.", "Say take X instead of pick up X."):
        ruled = actions(USUAL, rules=rules)
        assert {"take coin", "pick up the coin", "get coin"} < {*plain}
        assert {"take coin", "pick up the coin", "get coin"} < {*ruled}
        assert ruled.count("take coin") > plain.count("take coin") + 20
        assert actions(STUBBORN, rules=rules) == plain
    assert actions(USUAL, rules="You cannot take coins instead of notes.") == plain


def test_it_walks_into_closed_doors_and_opens_them_when_told_or_refused():
    doors = replace(GOOD, walks_into_doors=0.4, repeats=0.5)
    assert {*actions(doors, at=KITCHEN)} == {"move north", "open door to north"}
    ruled = actions(doors, at=KITCHEN, rules="Open a door before you move.")
    assert ruled.count("move north") < actions(doors, at=KITCHEN).count("move north")
    closed = ("move north", "You can't move there, the door is closed. ")
    assert {*actions(doors, closed, at=KITCHEN)} == {"move north", "open door to north"}
    assert {*actions(replace(doors, repeats=0.0), closed, at=KITCHEN)} == {"open door to north"}


def test_it_repeats_what_was_refused_now_and_then_to_the_end():
    own = replace(GOOD, own_words=1.0, repeats=0.5)
    refused = ("pick up the coin", UNKNOWN)
    once = actions(own, refused)
    assert {"pick up the coin", "take coin"} < {*once}
    stuck = replace(own, repeats=0.0, gets_stuck=0.3)
    often, seldom = (
        actions(habits, *[refused] * 30).count("pick up the coin") for habits in (stuck, replace(stuck, gets_stuck=0.0))
    )
    assert often > seldom + 10


def test_it_takes_a_hint_twice_and_the_stubborn_never_does():
    named = ("get coin", "Not understood. Try `examine coin`.")
    assert {*actions(USUAL, named)} == {"examine coin"}
    assert "examine coin" not in actions(replace(STUBBORN, wanders=0.0), named)
    again = (named, ("examine coin", UNKNOWN), named, ("examine coin", UNKNOWN), named)
    assert "examine coin" not in actions(replace(USUAL, wanders=0.0), *again)
    form = ("pick up the coin", "Not understood. Write `take {thing}`.")
    assert {*actions(replace(USUAL, wanders=0.0), form)} == {"take coin"}
    assert {"take coin", "pick up the coin"} < {*actions(STUBBORN, form)}


def test_there_is_no_careful_one():
    with pytest.raises(UsageError, match="novice-careful"):
        make_novice("textworldexpress", "novice-careful")
    assert make_novice("textworldexpress", "novice-stubborn").act(view()).action


@pytest.mark.long
@needs_engine
def test_without_bad_habits_it_wins_a_game_of_each_kind():
    tasks = [f"{game}/{seed}" for game, seed in zip(GAMES, range(1, 9), strict=True)]
    played = run_tasks(
        lambda: align_echo.make("textworldexpress", split="train"), game_novice(GOOD), tasks, split="train"
    )
    assert [episode.task_id for episode in played if not episode.won] == []
    assert all(episode.fault is None for episode in played)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=80)), max_size=6), st.text(max_size=60))
def test_any_history_gets_one_action_and_always_the_same(turns: list[tuple[str, str]], rules: str):
    seen = view(*turns, at=KITCHEN, rules=rules)
    assert game_novice().act(seen) == game_novice().act(seen)
    assert game_novice().act(seen).action
