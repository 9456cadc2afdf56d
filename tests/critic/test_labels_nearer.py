"""The rule `nearer`: labels by the oracle's distance, kind to a search in the dark; and labels of whole episodes."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

import align_echo
from align_echo.agents.reasoning import Vanilla
from align_echo.critic.labels import label, label_turns
from align_echo.errors import EngineError
from align_echo.models import ScriptedModel
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import base_env, extend, take_turn
from align_echo.types import AgentReply, Trajectory
from tests.critic.episodes import played, way


@pytest.fixture(scope="module")
def house() -> gym.Env[str, str]:
    return align_echo.make("alfworld", split="train")


@pytest.fixture(scope="module")
def shop() -> gym.Env[str, str]:
    return align_echo.make("webshop", split="train")


def household_tasks() -> list[str]:
    return align_echo.tasks("alfworld", split="train")[::24]


@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_every_action_of_the_expert_is_right_where_it_brings_the_goal_nearer(name: str) -> None:
    env = align_echo.make(name, split="train")
    oracle = base_env(env).oracle
    right = 0
    for task in align_echo.tasks(name, split="train")[::240][:6]:
        view = played(env, task)
        while oracle().distance():
            best = way(env)[0]
            assert label(env, view, best, "nearer") == "correct"
            view = extend(view, take_turn(env, AgentReply(text=best, action=best)))
            right += 1
    assert right >= 4


def test_labelling_leaves_no_trace(house: gym.Env[str, str]) -> None:
    view = played(house, household_tasks()[0])
    base = base_env(house)
    before = (base.state, base.engine_calls, base.oracle().distance(), base.info(None))
    for action in base.state.admissible_actions or ():
        label(house, view, action, "nearer")
    label(house, view, "no such thing", "nearer")
    assert (base.state, base.engine_calls, base.oracle().distance(), base.info(None)) == before
    assert base.oracle().expert_action() is not None


def test_refused_and_idle_actions_are_wrong(house: gym.Env[str, str]) -> None:
    for task in household_tasks():
        view = played(house, task)
        for action in ("look", "inventory", "dance", "go to nowhere 7", "open cabinet 99"):
            assert label(house, view, action, "nearer") == "wrong"


def task_of(words: str) -> str:
    return next(task for task in align_echo.tasks("alfworld", split="train") if words in task)


def visits(env: gym.Env[str, str]) -> list[str]:
    return [action for action in base_env(env).state.admissible_actions or () if action.startswith("go to ")]


def test_looking_into_new_furniture_is_right_until_the_thing_is_found(house: gym.Env[str, str]) -> None:
    task = task_of("Mug-None-Shelf")
    view = played(house, task)
    assert {label(house, view, action, "nearer") for action in visits(house)} == {"correct"}
    first, second, third = [action for action in visits(house) if action != way(house)[0]][:3]
    view = played(house, task, first, second)
    assert label(house, view, third, "nearer") == "correct"
    assert label(house, view, first, "nearer") == "wrong"


@pytest.mark.long
def test_the_search_for_the_second_thing_or_the_lamp_is_right_too(house: gym.Env[str, str]) -> None:
    for words, sought in (("pick_two_obj", ""), ("look_at_obj_in_light", "lamp")):
        checked = 0
        for task in [task for task in align_echo.tasks("alfworld", split="train") if words in task]:
            played(house, task)
            take = next(number for number, action in enumerate(way(house)) if action.startswith("take "))
            opening = way(house)[: take + 1]
            thing = opening[-1].removeprefix("take ").partition(" ")[0]
            view = played(house, task, *opening)
            seen = " ".join(turn.observation for turn in view.turns[:-1])
            if (sought in seen) if sought else (len(set(re.findall(rf"{thing} \d+", seen))) > 1):
                continue
            fresh = [action for action in visits(house) if action not in opening and action != way(house)[0]]
            assert label(house, view, fresh[0], "nearer") == "correct"
            checked += 1
        assert checked >= 5


def test_opening_what_one_stands_at_is_right_while_the_thing_is_not_found(house: gym.Env[str, str]) -> None:
    task = task_of("Mug-None-Shelf")
    view = played(house, task)
    shut = next(a for a in base_env(house).state.admissible_actions or () if a.startswith("go to drawer"))
    opening = f"open {shut.removeprefix('go to ')}"
    view = played(house, task, shut)
    assert label(house, view, opening, "nearer") == "correct"
    view = played(house, task, shut, opening)
    assert label(house, view, opening, "nearer") == "wrong"
    assert label(house, view, opening.replace("open", "close"), "nearer") == "wrong"


def side_by_side(env: gym.Env[str, str], kind: str) -> tuple[str, str, str]:
    """A task whose thing is not in sight from furniture of a kind, how one goes there, and what stands beside it."""
    for task in [one for one in align_echo.tasks("alfworld", split="train") if "pick_and_place" in one]:
        thing = task.split("-")[1].lower()
        played(env, task)
        for way_there in [visit for visit in visits(env) if visit.startswith(f"go to {kind} ")]:
            view = played(env, task, way_there)
            near = [one for one in base_env(env).state.admissible_actions or () if one.startswith(f"examine {kind} ")]
            others = [one for one in near if not way_there.endswith(one.removeprefix("examine "))]
            if others and thing not in view.turns[-1].observation:
                return task, way_there, others[0].removeprefix("examine ")
    raise LookupError(kind)


def test_examining_what_stands_beside_is_right_until_it_was_seen_what_is_there(house: gym.Env[str, str]) -> None:
    task, way_there, other = side_by_side(house, "shelf")
    examine = f"examine {other}"
    view = played(house, task, way_there)
    assert label(house, view, examine, "nearer") == "correct"
    assert label(house, view, f"examine {way_there.removeprefix('go to ')}", "nearer") == "wrong"
    view = played(house, task, way_there, examine)
    assert f"On the {other}, you see" in view.turns[-1].observation
    assert label(house, view, examine, "nearer") == "wrong"


def test_what_is_known_to_be_closed_or_is_out_of_reach_is_not_looked_into_by_examining(house) -> None:
    task, way_there, other = side_by_side(house, "drawer")
    view = played(house, task, way_there)
    assert base_env(house).explores(view, f"examine {other}")
    view = played(house, task, way_there, f"examine {other}")
    assert "is closed" in view.turns[-1].observation
    assert not base_env(house).explores(view, f"examine {other}")
    assert label(house, view, f"open {other}", "nearer") == "correct"
    view = played(house, task)
    assert label(house, view, f"examine {other}", "nearer") == "wrong"
    assert not base_env(house).explores(view, f"examine {other}")


def test_wandering_is_wrong_once_all_is_in_sight(house: gym.Env[str, str]) -> None:
    task = task_of("Mug-None-Shelf")
    played(house, task)
    take = next(number for number, action in enumerate(way(house)) if action.startswith("take "))
    view = played(house, task, *way(house)[:take])
    assert label(house, view, way(house)[0], "nearer") == "correct"
    assert {label(house, view, action, "nearer") for action in visits(house)} == {"wrong"}


def test_a_purchase_of_another_product_and_a_click_on_nothing_are_wrong(shop: gym.Env[str, str]) -> None:
    task = align_echo.tasks("webshop", split="train")[0]
    played(shop, task)
    search, opening = way(shop)[:2]
    view = played(shop, task, search)
    codes = [a for a in base_env(shop).state.admissible_actions or () if a.lower().startswith("click[b0")]
    other = next(code for code in codes if code.lower() != opening.lower())
    assert label(shop, view, opening, "nearer") == "correct"
    assert label(shop, view, other, "nearer") == "wrong"
    assert label(shop, view, "click[nothing]", "nearer") == "wrong"
    view = played(shop, task, search, other)
    assert label(shop, view, "click[Buy Now]", "nearer") == "wrong"


def test_an_episode_that_is_over_is_not_labelled(shop: gym.Env[str, str]) -> None:
    task = align_echo.tasks("webshop", split="train")[0]
    played(shop, task)
    view = played(shop, task, *way(shop))
    with pytest.raises(EngineError, match="over"):
        label(shop, view, "click[Buy Now]", "nearer")


def again(env: gym.Env[str, str], task: str, *replies: str) -> Trajectory:
    """An episode of these replies; an empty one holds no action."""
    agent = Vanilla(ScriptedModel(replies))
    return run_episode(env, agent, task, split="train")


def test_an_episode_is_labelled_turn_by_turn_and_what_was_no_action_has_no_label() -> None:
    short = align_echo.make("alfworld", split="train", step_limit=4)
    task = task_of("Mug-None-Shelf")
    played(short, task)
    first, second = way(short)[:2]
    episode = again(short, task, first, "", "look", second)
    assert label_turns(short, episode, "nearer") == ["correct", None, "wrong", "correct"]
    assert label_turns(short, episode, "nearer") == ["correct", None, "wrong", "correct"]


def test_an_episode_that_comes_out_otherwise_is_labelled_up_to_there(house: gym.Env[str, str]) -> None:
    short = align_echo.make("alfworld", split="train", step_limit=3)
    episode = again(short, task_of("Mug-None-Shelf"), "look", "look", "look")
    steps = (episode.steps[0], episode.steps[1].model_copy(update={"observation": "Rain."}), episode.steps[2])
    assert label_turns(short, episode.model_copy(update={"steps": steps}), "nearer") == ["wrong", None, None]
