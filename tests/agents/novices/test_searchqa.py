"""The scripted novice of SearchQA: what it reads, what it gets wrong of itself, and how it takes a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.agents.novices.searchqa import STUBBORN, SearchHabits, reader_novice
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentView, Turn

GOOD = SearchHabits(own_form=0.0, answers_early=0.0)
ABOUT_THE_BOOK = (
    "<search>The Old Mill</search>",
    "<information>\nDoc 1(Title: The Old Mill) The Old Mill is a book by Ann Berg. It came out in 1901.\n"
    "Doc 2(Title: The Old Inn) The Old Inn is a book by Tom Lind.\n</information>",
)
ABOUT_THE_WOMAN = (
    "<search>Ann Berg</search>",
    "<information>\nDoc 1(Title: Ann Berg) Ann Berg was born in Upper Lom in 1850.\n</information>",
)
REFUSED = ("Search[The Old Mill]", "Not an action: write <search>words to look for</search>.")


def view(*turns: tuple[str, str], goal: str = "In which year was the author of The Old Mill born?", rules: str = ""):
    return AgentView(
        task_id="t",
        action_format="",
        goal=goal,
        rules=rules,
        initial_observation=f"Question: {goal}",
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


def actions(habits: SearchHabits, *turns: tuple[str, str], rules: str = "", n: int = 200) -> list[str | None]:
    """What novices with other draws do."""
    return [reader_novice(habits, seed=seed).act(view(*turns, rules=rules)).action for seed in range(n)]


def test_without_bad_habits_it_searches_what_it_met_and_answers():
    assert {*actions(GOOD)} == {"<search>The Old Mill</search>"}
    assert {*actions(GOOD, ABOUT_THE_BOOK)} == {"<search>Ann Berg</search>"}
    third = ("<search>Upper Lom</search>", "<information>\nDoc 1(Title: Ann Berg) Born in 1850.\n</information>")
    assert {*actions(GOOD, ABOUT_THE_BOOK, ABOUT_THE_WOMAN, third)} == {"<answer>1850</answer>"}


def test_it_answers_with_a_name_where_no_number_is_asked_for():
    habits = SearchHabits(own_form=0.0, answers_early=1.0)
    who = reader_novice(habits).act(view(ABOUT_THE_BOOK, goal="Who wrote The Old Mill?"))
    assert who.action == "<answer>Ann Berg</answer>"
    older = {
        reader_novice(habits, seed=seed).act(view(ABOUT_THE_BOOK, goal="Who is older, Ann Berg or Tom Lind?")).action
        for seed in range(30)
    }
    assert older == {"<answer>Ann Berg</answer>", "<answer>Tom Lind</answer>"}


def test_it_writes_actions_as_other_benchmarks_do_less_often_where_rules_show_the_form():
    plain, ruled = (actions(SearchHabits(), rules=rules) for rules in ("", "Write `<search>X</search>`."))
    assert {*plain} == {*ruled} == {"<search>The Old Mill</search>", "Search[The Old Mill]"}
    assert plain.count("Search[The Old Mill]") > ruled.count("Search[The Old Mill]") > 0


def test_it_repeats_what_was_refused_and_heeds_a_hint():
    assert {*actions(SearchHabits(), REFUSED)} == {"<search>The Old Mill</search>", "Search[The Old Mill]"}
    form = (REFUSED[0], "No. Write `<search>X</search>`.")
    assert {*actions(SearchHabits(), form)} == {"<search>The Old Mill</search>"}
    assert "Search[The Old Mill]" in actions(STUBBORN, form)
    named = (REFUSED[0], "No. First `<search>old mill</search>`.")
    assert {*actions(SearchHabits(), named)} == {"<search>old mill</search>"}
    assert "<search>old mill</search>" not in actions(STUBBORN, named)


def test_it_plays_and_wins_some():
    tasks = align_echo.tasks("searchqa", split="test")[::20]
    played = run_tasks(
        lambda: align_echo.make("searchqa", split="test"), make_novice("searchqa"), tasks, split="test"
    )
    assert 0 < sum(episode.won for episode in played) < len(played)
    assert all(episode.fault is None for episode in played)


def test_there_is_no_careful_one():
    with pytest.raises(UsageError, match="novice-careful"):
        make_novice("searchqa", "novice-careful")


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=80)), max_size=6), st.text(max_size=60))
def test_any_history_gets_one_action_and_always_the_same(turns: list[tuple[str, str]], rules: str):
    seen = view(*turns, rules=rules)
    assert reader_novice().act(seen) == reader_novice().act(seen)
    assert reader_novice().act(seen).action
