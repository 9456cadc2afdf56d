"""What the pocket model learns of shopping: only training goals, only what a shopper sees, mistakes put right."""

from __future__ import annotations

import functools
import re
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.agents.reasoning import Vanilla
from align_echo.base.dice import Dice
from align_echo.critic.language import Form, parse_critique
from align_echo.errors import UsageError
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_episode, run_tasks
from align_echo.rollout.session import Episode
from align_echo.train.sft import Demonstration
from align_echo.types import Agent, Trajectory
from align_echo.wrappers.catalogue import environment
from studies.pocket.shopping import HABITS, Careless, Shopper, read_wish
from studies.pocket.shopping_demonstrations import refined_shopping, shopping_demonstrations


def demonstrations(seed: int, count: int) -> list[Demonstration]:
    return list(islice(shopping_demonstrations(seed), count))


def said(demonstration: Demonstration) -> list[str]:
    """The actions of a demonstration."""
    return [message.content for message in demonstration.messages if message.role == "assistant"]


def task_of(demonstration: Demonstration) -> str:
    return next(task for task, goal in goals("train").items() if goal == goal_of(demonstration))


def goal_of(demonstration: Demonstration) -> str:
    match = re.search(r"^Your task: (.*)$", demonstration.messages[1].content, re.MULTILINE)
    assert match
    return match[1]


@functools.cache
def goals(split: str) -> dict[str, str]:
    """The goal of every task of a split."""
    env = align_echo.make("webshop", split=split)
    return {task: env.reset(options={"task": task})[1]["goal"] for task in align_echo.tasks("webshop", split=split)}


def rollout(agent: Agent, ids: list[str], *, split: str = "test") -> list[Trajectory]:
    form = environment("webshop").action_format
    return run_tasks(
        lambda: align_echo.make("webshop", split=split, step_limit=12), agent, ids, split=split, action_format=form
    )


def mean_score(played: list[Trajectory]) -> float:
    return sum(trajectory.score for trajectory in played) / len(played)


def test_the_teacher_scores_well_on_goals_that_nobody_learns_from():
    played = rollout(Shopper(), list(goals("test"))[:100])
    assert mean_score(played) > 0.8
    assert sum(trajectory.won for trajectory in played) / len(played) > 0.5
    assert max(len(trajectory.steps) for trajectory in played) <= 6


@pytest.mark.parametrize("habit", HABITS)
def test_a_bad_habit_costs_score(habit):
    ids = list(goals("test"))[:40]
    careless = [rollout(Careless(habit, Dice(task)), [task])[0] for task in ids]
    assert mean_score(careless) < mean_score(rollout(Shopper(), ids)) - 0.05


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


@pytest.mark.long
def test_every_training_goal_comes_once_a_lap_and_no_goal_of_another_split_does():
    known = goals("train")
    lap = [goal_of(demonstration) for demonstration in demonstrations(0, len(known))]
    assert sorted(lap) == sorted(known.values())


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_a_demonstration_is_word_for_word_what_the_vanilla_agent_would_have_been_sent(seed):
    for demonstration in demonstrations(seed, 4):
        model = ScriptedModel(said(demonstration))
        rollout(Vanilla(model), [task_of(demonstration)], split="train")
        assert model.requests[-1] == demonstration.messages[:-1]


def test_mistakes_are_rare_and_not_imitated_and_what_follows_puts_them_right():
    many = demonstrations(3, 400)
    with_mistake = [weight for weight in many if 0 in weight.weights]
    assert 0.05 < len(with_mistake) / len(many) <= 0.18
    for demonstration in with_mistake:
        assert demonstration.weights.count(0) == 1
        index = demonstration.weights.index(0)
        wrong, *after = said(demonstration)[index:]
        assert after[-1] == "click[Buy Now]"
        assert wrong not in after
        if re.fullmatch(r"click\[B0\w{8}\]", wrong):
            assert after[0] == "click[< Prev]"


def test_a_refused_slip_leaves_the_page_as_it_was():
    for demonstration in demonstrations(3, 200):
        if 0 not in demonstration.weights:
            continue
        index = demonstration.weights.index(0)
        if not re.fullmatch(r"click\[B0\w{8}\]", said(demonstration)[index]):
            before, after = [message.content for message in demonstration.messages if message.role == "user"][
                index : index + 2
            ]
            assert after in before


def test_every_demonstration_ends_with_a_purchase():
    for demonstration in demonstrations(9, 200):
        assert said(demonstration)[-1] == "click[Buy Now]"
        assert said(demonstration).count("click[Buy Now]") == 1


def test_a_critique_that_names_a_search_and_a_product_is_followed_and_a_product_that_it_warns_of_is_not_opened():
    [task] = list(goals("test"))[:1]
    [before] = rollout(Shopper(), [task])
    code = str(before.actions[1]).removeprefix("click[").removesuffix("]")
    other = next(product for product in re.findall(r"B0\w{8}", before.steps[0].observation) if product != code)
    env = align_echo.make("webshop", split="test")
    warned, sent = (
        run_episode(env, Shopper(), Episode(task, critique=critique), split="test")
        for critique in (f"Do not open {code} again.", f"First {before.actions[0]}, then click[{other}].")
    )
    assert warned.actions[0] == before.actions[0]
    assert f"click[{code}]" not in warned.actions
    assert warned.actions[-1] == "click[Buy Now]"
    assert sent.actions[1] == f"click[{other}]"
    searched = run_episode(env, Shopper(), Episode(task, critique="You should search[dress]."), split="test")
    assert searched.actions[0] == "search[dress]"


def test_a_refined_attempt_is_told_the_suggestions_of_the_critique_before_it_and_ends_with_a_purchase():
    many = list(islice(refined_shopping(4), 200))
    assert {demonstration.kind for demonstration in many} == {"webshop.critique", "webshop.refined"}
    for before, demonstration in pairwise(many):
        if demonstration.kind == "webshop.refined":
            assert before.kind == "webshop.critique"
            form: Form = "echo" if "<reason>" in before.messages[-1].content else "icrl"
            advice = parse_critique(before.messages[-1].content, form).advice
            assert advice
            assert f"\n{advice}\n" in demonstration.messages[1].content
            assert said(demonstration)[-1] == "click[Buy Now]"


@pytest.mark.long
def test_refined_attempts_score_well():
    refined = [
        demonstration for demonstration in islice(refined_shopping(4), 200) if demonstration.kind == "webshop.refined"
    ]
    played = [
        rollout(Vanilla(ScriptedModel(said(demonstration))), [task_of(demonstration)], split="train")[0]
        for demonstration in refined
    ]
    assert mean_score(played) > 0.85
    assert not any(step.problem for trajectory in played for step in trajectory.steps)


def test_refined_shopping_is_the_same_for_the_same_seed():
    assert list(islice(refined_shopping(4), 20)) == list(islice(refined_shopping(4), 20))


def test_other_products_than_the_embedded_ones_are_refused(monkeypatch, tmp_path):
    for name in ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"):
        (tmp_path / name).write_text("[]")
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    with pytest.raises(UsageError, match="unset WEBSHOP_DATA"):
        next(shopping_demonstrations(0))
