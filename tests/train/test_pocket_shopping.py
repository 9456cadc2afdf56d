"""What the pocket model learns of shopping: only training goals, only what a shopper sees, mistakes put right."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.agents.vanilla import Vanilla
from align_echo.errors import UsageError
from align_echo.models.scripted import ScriptedModel
from align_echo.rollout import run_tasks
from align_echo.train.demonstrations import Demonstration
from align_echo.train.pocket.shopping import Shopper, read_wish
from align_echo.train.pocket.shopping_demonstrations import shopping_demonstrations
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment


def demonstrations(seed: int, count: int) -> list[Demonstration]:
    return list(islice(shopping_demonstrations(seed), count))


def said(demonstration: Demonstration) -> list[str]:
    """The actions of a demonstration."""
    return [message.content for message in demonstration.messages if message.role == "assistant"]


def goal_of(demonstration: Demonstration) -> str:
    found = re.search(r"^Your task: (.*)$", demonstration.messages[1].content, re.MULTILINE)
    assert found
    return found[1]


def play(actions: list[str], goal: str) -> Trajectory:
    """The actions on the task with that goal, by the usual rollout and a model that writes them."""
    [task] = [one for one, text in goals("train").items() if text == goal][:1]
    agent = Vanilla(ScriptedModel(actions))
    make_env = lambda: align_echo.make("webshop", split="train")  # noqa: E731
    form = environment("webshop").action_format
    return run_tasks(make_env, agent, [task], split="train", action_format=form)[0]


def goals(split: str) -> dict[str, str]:
    env = align_echo.make("webshop", split=split)
    return {task: env.reset(options={"task": task})[1]["goal"] for task in align_echo.tasks("webshop", split=split)}


def test_the_teacher_scores_well_on_goals_that_nobody_learns_from():
    ids = align_echo.tasks("webshop", split="test")[:100]
    played = run_tasks(lambda: align_echo.make("webshop", split="test"), Shopper(), ids, split="test")
    assert sum(one.score for one in played) / len(played) > 0.8
    assert sum(one.won for one in played) / len(played) > 0.5
    assert max(len(one.steps) for one in played) <= 6


def test_a_goal_is_read_in_its_parts():
    wish = read_wish(
        "looking for a gaming headset that is noise cancelling and sweat proof in green and bundle with case style, "
        "and price lower than 80.00 dollars"
    )
    assert (wish.thing, wish.details) == ("gaming headset", "noise cancelling and sweat proof")
    assert (wish.choice, wish.bound) == ("green and bundle with case style", 80.0)
    assert read_wish("i want smart projector. i prefer rose gold").bound == float("inf")


def test_a_seed_tells_the_same_demonstrations_twice_and_seeds_tell_different_ones():
    assert demonstrations(5, 20) == demonstrations(5, 20)
    assert demonstrations(5, 20) != demonstrations(6, 20)


def test_every_training_goal_comes_once_a_lap_and_no_goal_of_another_split_does():
    known = goals("train")
    lap = [goal_of(one) for one in demonstrations(0, len(known))]
    assert sorted(lap) == sorted(known.values())


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_a_demonstration_is_word_for_word_what_the_vanilla_agent_would_have_been_sent(seed):
    for one in demonstrations(seed, 4):
        model = ScriptedModel(said(one))
        form = environment("webshop").action_format
        [task] = [task for task, goal in goals("train").items() if goal == goal_of(one)][:1]
        run_tasks(
            lambda: align_echo.make("webshop", split="train"), Vanilla(model), [task], split="train", action_format=form
        )
        assert model.requests[-1] == one.messages[:-1]


def test_mistakes_are_rare_and_not_imitated_and_what_follows_puts_them_right():
    many = demonstrations(3, 400)
    with_mistake = [one for one in many if 0 in one.weights]
    assert 0.05 < len(with_mistake) / len(many) <= 0.18
    for one in with_mistake:
        assert one.weights.count(0) == 1
        place = one.weights.index(0)
        wrong, *after = said(one)[place:]
        assert after[-1] == "click[Buy Now]"
        assert wrong not in after
        if re.fullmatch(r"click\[B0\w{8}\]", wrong):
            assert after[0] == "click[< Prev]"


def test_a_refused_slip_leaves_the_page_as_it_was():
    for one in demonstrations(3, 200):
        if 0 not in one.weights:
            continue
        place = one.weights.index(0)
        if not re.fullmatch(r"click\[B0\w{8}\]", said(one)[place]):
            before, after = [message.content for message in one.messages if message.role == "user"][place : place + 2]
            assert after in before


def test_every_demonstration_ends_with_a_purchase():
    for one in demonstrations(9, 200):
        assert said(one)[-1] == "click[Buy Now]"
        assert said(one).count("click[Buy Now]") == 1


def test_other_products_than_the_embedded_ones_are_refused(monkeypatch, tmp_path):
    for name in ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"):
        (tmp_path / name).write_text("[]")
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    with pytest.raises(UsageError, match="unset WEBSHOP_DATA"):
        next(shopping_demonstrations(0))
