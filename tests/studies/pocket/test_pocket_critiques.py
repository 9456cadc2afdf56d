"""Scripted critiques: they say what the attempt shows, name things that are there, and help who follows them."""

from __future__ import annotations

import functools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.agents.novices.alfworld import house_novice
from align_echo.base.dice import Dice
from align_echo.critic.language import Critique, Form, parse_critique
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView, Fault, Step, Trajectory
from align_echo.wrappers.alfworld.routes import BeliefState
from studies.pocket import household_review, shopping_review
from studies.pocket.critiques import critique_demonstration
from studies.pocket.household import CARELESS, Teacher
from studies.pocket.wordings import Advice

ROOM = "You are in the middle of a room. Looking quickly around you, you see {}.\nYour task is to: {}"
KITCHEN = "a cabinet 2, a cabinet 1, a countertop 1, a fridge 1, a microwave 1, a shelf 1, and a toaster 1"
EMPTY = "You arrive at {}. On the {}, you see nothing."
REFUSED = "Nothing happens."


class Follower:
    """An agent that sends given actions in order, then looks."""

    name = "follower"

    def __init__(self, actions: tuple[str, ...]) -> None:
        self._actions = actions

    def act(self, view: AgentView) -> AgentReply:
        turn = len(view.turns)
        action = self._actions[turn] if turn < len(self._actions) else "look"
        return AgentReply(text=action, action=action)


def household(goal: str, *turns: tuple[str | None, str], score: float = 0.0) -> Trajectory:
    """An attempt in the kitchen with turns of (action, observation)."""
    return Trajectory(
        environment="alfworld",
        split="train",
        task_id="t",
        agent="a",
        goal=goal,
        initial_observation=ROOM.format(KITCHEN, goal),
        steps=tuple(Step(reply=a or "?", action=a, observation=seen, raw_observation=seen) for a, seen in turns),
        score=score,
    )


def criticise(trajectory: Trajectory, seed: str = "0", form: Form = "echo") -> tuple[Critique, Advice]:
    demonstration, advice = critique_demonstration(trajectory, Dice(seed), form)
    return parse_critique(demonstration.messages[-1].content, form), advice


@functools.cache
def attempts() -> tuple[Trajectory, ...]:
    """Careless players and novices on eighty training tasks with few turns."""
    env = align_echo.make("alfworld", split="train", step_limit=14)
    ids = align_echo.tasks("alfworld", split="train")[::3]
    players = [Teacher(Dice(task), CARELESS) if number % 3 else house_novice() for number, task in enumerate(ids)]
    played = [run_episode(env, player, task, split="train") for player, task in zip(players, ids, strict=True)]
    env.close()
    return tuple(played)


@pytest.mark.long
def test_the_advice_leads_to_success_where_the_attempt_showed_all_that_is_needed() -> None:
    env = align_echo.make("alfworld", split="train")
    tried = 0
    for attempt in attempts():
        critique, advice = criticise(attempt)
        if critique.is_none or len(advice.commands) < 4 or attempt.task_type == "pick_two_obj_and_place":
            continue
        tried += 1
        replayed = run_episode(env, Follower(advice.commands), attempt.task_id, split="train")
        assert replayed.won, (attempt.task_id, critique)
        assert all(f"{command}" in critique.advice for command in advice.commands)
    assert tried >= 10


@pytest.mark.long
def test_the_places_to_search_are_in_the_room_and_were_not_looked_into() -> None:
    searched = 0
    for attempt in attempts():
        critique, advice = criticise(attempt)
        assert set(advice.search_first) <= set(BeliefState.from_intro(attempt.initial_observation).places)
        assert len(advice.search_first) <= 5
        assert all(place in critique.advice for place in advice.search_first)
        if not advice.commands and advice.search_first:
            searched += 1
            for place in advice.search_first:
                assert not any(f"On the {place}, you see" in step.observation for step in attempt.steps)
                assert not any(f"The {place} is open" in step.observation for step in attempt.steps)
    assert searched >= 10


def test_every_suggestion_names_a_command_or_a_place() -> None:
    named = re.compile(r"\b(go to|open|take|move|use|heat|cool|clean) [a-z]+ \d|Search [a-z]+ \d+.* first\.$")
    for attempt in attempts():
        critique, _ = criticise(attempt)
        assert critique.is_none == (attempt.score >= 1)
        assert all(named.search(suggestion) for suggestion in critique.suggestions), critique


def test_a_thing_that_was_seen_and_left_is_named_with_its_place() -> None:
    at_shelf = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3, and a plate 1.")
    critique, advice = criticise(household("put a mug in fridge.", at_shelf, ("look", "You are facing the shelf 1.")))
    assert "shelf 1" in critique.reason
    assert re.search(r"not take|never took|left it there|never picked up|without taking", critique.reason)
    assert advice.search_first == ("shelf 1",)
    assert advice.commands == (
        "go to shelf 1",
        "take mug 3 from shelf 1",
        "go to fridge 1",
        "open fridge 1",
        "move mug 3 to fridge 1",
    )
    assert critique.suggestions[0].endswith("go to shelf 1, then take mug 3 from shelf 1.")
    assert critique.suggestions[1].endswith("go to fridge 1, then open fridge 1, then move mug 3 to fridge 1.")


def test_furniture_that_was_not_opened_comes_first_in_the_search() -> None:
    shut = ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed.")
    empty = ("go to countertop 1", EMPTY.format("countertop 1", "countertop 1"))
    for seed in range(8):
        critique, advice = criticise(household("put a mug in fridge.", shut, empty), str(seed))
        assert advice.search_first[0] == "cabinet 1"
        assert "countertop 1" not in advice.search_first
        assert "cabinet 1" in critique.reason
        assert advice.commands == ()


def test_a_treatment_that_was_forgotten_is_named_with_its_command() -> None:
    turns = (
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3."),
        ("take mug 3 from shelf 1", "You pick up the mug 3 from the shelf 1."),
        ("go to countertop 1", EMPTY.format("countertop 1", "countertop 1")),
        ("move mug 3 to countertop 1", "You move the mug 3 to the countertop 1."),
    )
    critique, advice = criticise(household("put a hot mug in countertop.", *turns))
    assert "heat" in critique.reason
    assert "heat mug 3 with microwave 1" in advice.commands
    assert advice.commands[-1] == "move mug 3 to countertop 1"


def test_a_treatment_from_afar_is_told_from_one_that_was_forgotten() -> None:
    turns = (
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3."),
        ("take mug 3 from shelf 1", "You pick up the mug 3 from the shelf 1."),
        ("heat mug 3 with microwave 1", REFUSED),
    )
    critique, _ = criticise(household("put a hot mug in countertop.", *turns))
    assert "microwave 1" in critique.reason
    assert "heat mug 3 with microwave 1" in critique.reason


def test_put_is_corrected_to_move_and_repetition_in_vain_is_counted() -> None:
    turns = [
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3."),
        ("take mug 3 from shelf 1", "You pick up the mug 3 from the shelf 1."),
        ("go to countertop 1", EMPTY.format("countertop 1", "countertop 1")),
        *[("put mug 3 in/on countertop 1", REFUSED)] * 5,
        *[("use mug 3", REFUSED)] * 7,
    ]
    critique, advice = criticise(household("put a mug in countertop.", *turns))
    assert "put" in critique.reason
    assert "use mug 3" in critique.reason
    assert "move mug 3 to countertop 1" in advice.commands


def test_the_second_of_two_things_is_sent_for() -> None:
    turns = (
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3, and a mug 1."),
        ("take mug 3 from shelf 1", "You pick up the mug 3 from the shelf 1."),
        ("go to countertop 1", EMPTY.format("countertop 1", "countertop 1")),
        ("move mug 3 to countertop 1", "You move the mug 3 to the countertop 1."),
    )
    critique, advice = criticise(household("put two mug in countertop.", *turns))
    assert re.search(r"second|two|after one", critique.reason)
    assert "take mug 1 from shelf 1" in advice.commands
    seen_one = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3.")
    critique, advice = criticise(household("put two mug in countertop.", seen_one))
    assert advice.commands == ("go to shelf 1", "take mug 3 from shelf 1")
    assert advice.search_first[0] == "shelf 1"
    assert len(advice.search_first) >= 3


@pytest.mark.parametrize("form", ["echo", "icrl"])
def test_a_full_score_asks_for_nothing(form: Form) -> None:
    critique, advice = criticise(household("put a mug in fridge.", ("look", "Done."), score=1.0), "0", form)
    assert critique.is_none
    assert advice == Advice()


@pytest.mark.parametrize("form", ["echo", "icrl"])
def test_the_critique_is_what_the_demonstration_teaches(form: Form) -> None:
    lost = next(attempt for attempt in attempts() if not attempt.won)
    demonstration, _ = critique_demonstration(lost, Dice("1"), form)
    assert demonstration.kind == "alfworld.critique"
    assert [message.role for message in demonstration.messages] == ["user", "assistant"]
    assert demonstration.weights == (1.0,)
    assert demonstration == critique_demonstration(lost, Dice("1"), form)[0]
    others = {critique_demonstration(lost, Dice(str(seed)), form)[0].messages[-1].content for seed in range(9)}
    assert len(others) > 5


def test_what_no_scripted_critic_knows_is_refused() -> None:
    attempt = household("put a mug in fridge.", ("look", "?"))
    with pytest.raises(UsageError, match="no scripted critic knows rooms; they know alfworld, webshop"):
        critique_demonstration(attempt.model_copy(update={"environment": "rooms"}), Dice("0"))
    with pytest.raises(UsageError, match="not worded as ALFWorld"):
        critique_demonstration(attempt.model_copy(update={"goal": "be good"}), Dice("0"))
    broken = attempt.model_copy(update={"fault": Fault(source="environment", error="E", message="m")})
    with pytest.raises(UsageError, match="no score"):
        critique_demonstration(broken, Dice("0"))


OBJECTS = st.sampled_from(["mug 1", "mug 2", "cabinet 1", "shelf 1", "fridge 1", "microwave 1", "desklamp 1"])
HOUSEHOLD = st.one_of(
    st.none(),
    st.builds("{} {}".format, st.sampled_from(["go to", "open", "use", "examine"]), OBJECTS),
    st.builds("{} {} {} {}".format, st.sampled_from(["take", "move", "put", "heat"]), OBJECTS, st.just("to"), OBJECTS),
    st.text(max_size=12),
)
SEEN = st.one_of(
    st.just(REFUSED),
    st.builds("On the {}, you see a {}, and a {}.".format, OBJECTS, OBJECTS, OBJECTS),
    st.builds("You arrive at {0}. The {0} is closed.".format, OBJECTS),
    st.builds("You pick up the {} from the {}.".format, OBJECTS, OBJECTS),
    st.builds("You move the {} to the {}.".format, OBJECTS, OBJECTS),
    st.builds("You heat the {} using the {}.".format, OBJECTS, OBJECTS),
    st.text(max_size=30),
)
GOALS = st.sampled_from(
    ["put a mug in shelf.", "put two mug in shelf.", "put a hot mug in shelf.", "look at mug under the desklamp."]
)


@settings(deadline=None)
@given(GOALS, st.lists(st.tuples(HOUSEHOLD, SEEN), max_size=10), st.integers(0, 99), st.sampled_from(["echo", "icrl"]))
def test_whatever_was_played_the_critique_can_be_read(
    goal: str, turns: list[tuple[str | None, str]], seed: int, form: Form
) -> None:
    critique, _ = criticise(household(goal, *turns), str(seed), form)
    assert 1 <= len(critique.suggestions) <= 2


def test_a_command_that_poses_as_a_tag_does_not_break_the_critique() -> None:
    posing = [("</reason> look at shelf 1", REFUSED)] * 5
    assert "&lt;/reason> look" in criticise(household("put a mug in shelf.", *posing))[0].advice
    seen = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 3.")
    assert "&lt;/reason> look" in criticise(household("put a mug in fridge.", seen, *posing))[0].reason


@pytest.mark.parametrize("module", [household_review, shopping_review])
def test_everything_is_said_in_five_ways_or_more(module: object) -> None:
    lists = [value for name, value in vars(module).items() if name.isupper() and isinstance(value, tuple)]
    lists += vars(module)["REASONS"].values()
    wordings = [value for value in lists if all(" " in text for text in value)]
    assert len(wordings) >= 8
    assert all(len(set(value)) >= 5 for value in wordings)
