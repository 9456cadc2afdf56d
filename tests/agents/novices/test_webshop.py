"""The scripted novice of WebShop: what it wants, what it gets wrong of itself, and how it takes a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.agents.novices.webshop import STUBBORN, PageSight, ShopHabits, read_page, shop_novice
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentView, Turn

GOAL = "i need a women's wrap dress in navy blue, and price lower than 40.00 dollars"
START = f"WebShop [SEP] Instruction: [SEP] {GOAL} [SEP] Search"
RESULTS = (
    f"Instruction: [SEP] {GOAL} [SEP] Back to Search [SEP] Page 1 (Total results: 3) [SEP] Next > [SEP] "
    "B000000001 [SEP] Oak Table [SEP] $30.0 [SEP] B000000002 [SEP] Women's Wrap Dress [SEP] $90.0 to $99.0 [SEP] "
    "B000000003 [SEP] Wrap Dress [SEP] $25.0"
)
ITEM = (
    f"Instruction: [SEP] {GOAL} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] navy blue [SEP] blue [SEP] red "
    "[SEP] Wrap Dress [SEP] Price: $25.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] "
    "Buy Now"
)
DESCRIPTION = f"Instruction: [SEP] {GOAL} [SEP] Back to Search [SEP] < Prev [SEP] A fine dress."
GOOD = ShopHabits(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, gets_stuck=0.0)
OPENED = (("search[dress]", RESULTS), ("click[B000000003]", ITEM))


def view(*turns: tuple[str, str], rules: str = "", task: str = "t") -> AgentView:
    return AgentView(
        task_id=task,
        action_format="",
        goal=GOAL,
        rules=rules,
        initial_observation=START,
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


def actions(habits: ShopHabits, *turns: tuple[str, str], rules: str = "", n: int = 200) -> list[str | None]:
    """What novices with other draws do."""
    return [shop_novice(habits, seed=seed).act(view(*turns, rules=rules)).action for seed in range(n)]


def test_pages_are_read_also_with_words_around_them():
    assert read_page(START) == PageSight("search")
    assert read_page(f"Nothing changed.\n{DESCRIPTION}\n\nGo back first.") == read_page(DESCRIPTION)
    item = read_page(f"{ITEM}\n\nYou need to choose.")
    assert item == PageSight("item", values=("color", "navy blue", "blue", "red"), title="Wrap Dress")
    results = read_page(RESULTS)
    assert results is not None
    assert [code for code, _, _ in results.products] == ["B000000001", "B000000002", "B000000003"]
    assert read_page("Thank you for shopping with us!") is None


def test_without_bad_habits_it_searches_opens_chooses_and_buys():
    novice = shop_novice(GOOD)
    assert novice.act(view()).action == "search[women's wrap dress navy blue]"
    assert novice.act(view(("search[dress]", RESULTS))).action == "click[B000000003]"
    first = novice.act(view(*OPENED)).action
    assert first == "click[navy blue]"
    second = novice.act(view(*OPENED, (first, ITEM))).action
    assert second in ("click[blue]", "click[Buy Now]")
    assert novice.act(view(*OPENED, (first, ITEM), ("click[blue]", ITEM))).action == "click[Buy Now]"


def test_it_says_things_in_its_own_words():
    assert "search women's wrap dress navy blue" in actions(ShopHabits())
    assert "click[Wrap Dress]" in actions(ShopHabits(), ("search[dress]", RESULTS))
    assert {"click[navy blue please]", "click[option navy blue]"} <= set(actions(ShopHabits(), *OPENED))
    assert "click[Buy]" in actions(ShopHabits(), *OPENED, ("click[navy blue]", ITEM), ("click[blue]", ITEM))
    read = (*OPENED, ("click[Description]", DESCRIPTION))
    assert set(actions(ShopHabits(), *read)) == {"click[Buy Now]", "click[< Prev]"}


def test_a_page_that_did_not_change_is_taken_for_a_choice_that_was_made():
    said = "click[navy blue please]"
    assert not any("navy" in str(action) for action in actions(ShopHabits(), *OPENED, (said, ITEM)))


def test_it_repeats_what_did_nothing_and_some_never_stop():
    chosen = (*OPENED, ("click[navy blue]", ITEM), ("click[blue]", ITEM), ("click[Description]", DESCRIPTION))
    back = (*chosen, ("click[< Prev]", ITEM))
    histories = [[*back, *[("click[Buy]", ITEM)] * tries] for tries in (0, 1, 4, 9)]
    still = [actions(ShopHabits(), *history).count("click[Buy]") for history in histories]
    assert still[0] > still[1] > still[2] == still[3] > 0
    assert "click[Buy]" not in actions(ShopHabits(gets_stuck=0.0), *back, *[("click[Buy]", ITEM)] * 4)


def test_it_does_what_feedback_names_in_backquotes():
    said = (*OPENED, ("click[Buy]", f"Nothing changed: you need to `click[Buy Now]` instead.\n{ITEM}"))
    assert set(actions(ShopHabits(), *said)) == {"click[Buy Now]"}
    assert "click[Buy]" in actions(STUBBORN, *said[:-1], ("click[navy blue]", ITEM), said[-1])


@pytest.mark.parametrize(
    "text", ["You need more.", "Others said `click[Buy Now]`.", "You need to `click[Buy]` first.", "No `click[Red]`."]
)
def test_it_takes_no_order_from_other_words(text):
    said = (*OPENED, ("click[Buy]", f"{text}\n{ITEM}"))
    assert set(actions(GOOD, *said)) <= {"click[navy blue]", "click[blue]"}


def test_it_stops_taking_a_hint_that_never_helps():
    hint = f"You need to `click[Size]` first.\n{ITEM}"
    turns = (*OPENED, ("click[Buy]", hint), ("click[Size]", hint), ("click[Buy]", hint), ("click[Size]", hint))
    assert set(actions(GOOD, *turns, ("click[Buy]", hint))) == {"click[navy blue]"}


def test_rules_told_up_front_cure_some_of_some_habits():
    bought = (*OPENED, ("click[navy blue]", ITEM), ("click[blue]", ITEM))
    plain = actions(ShopHabits(), *bought).count("click[Buy]")
    told = actions(ShopHabits(), *bought, rules="To buy, write click[Buy Now].").count("click[Buy]")
    assert 0 < told < plain
    assert actions(STUBBORN, *bought, rules="To buy, write click[Buy Now].").count("click[Buy]") == plain


@pytest.mark.long
def test_alone_it_scores_about_half(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    tasks = align_echo.tasks("webshop", split="test")[:100]
    played = run_tasks(lambda: align_echo.make("webshop", split="test"), make_novice("webshop"), tasks, split="test")
    assert 0.35 < sum(trajectory.score for trajectory in played) / len(played) < 0.65
    assert not any(trajectory.fault for trajectory in played)


def test_the_kinds_that_there_are():
    assert make_novice("webshop", "novice-stubborn").name == "novice-stubborn"
    with pytest.raises(UsageError, match="no scripted novice-careful for webshop"):
        make_novice("webshop", "novice-careful")


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=5), st.text(max_size=40))
def test_any_history_gets_one_action_and_always_the_same(turns: list[tuple[str, str]], rules: str):
    seen = view(*turns, rules=rules)
    first, second = shop_novice().act(seen), shop_novice().act(seen)
    assert first == second
    assert first.action
    assert "\n" not in first.action
