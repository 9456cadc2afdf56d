"""An action is spelled anew only where it can mean nothing else."""

from __future__ import annotations

import pytest

from align_echo.agents.parsing import as_offered, parse_action
from align_echo.errors import ReplyFormatError
from align_echo.types import AgentView


def view(action_format: str, goal: str = "") -> AgentView:
    return AgentView(task_id="t", action_format=action_format, goal=goal, rules="", initial_observation="")


@pytest.mark.parametrize("said", ["press OK", "press CANCEL"])
def test_capitals_that_nothing_explains_are_words_of_an_action(said):
    assert parse_action(said, view("One of:\npress OK | press CANCEL | wait")) == said


def test_capitals_that_are_explained_are_blanks():
    with_blank = view("One of these (OBJ is a thing):\nopen OBJ | wait", "The Door")
    assert parse_action("I shall do it now.\nopen Door.", with_blank) == "open Door"


def test_text_of_the_agents_own_keeps_its_letters():
    assert parse_action("say Paris", view("wait | say {text}", "Write the word 'paris' well")) == "say Paris"


TAGGED = view("One of:\n<search>{query}</search> | <answer>{answer}</answer>", "who was born in upper kelmar?")


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("I look it up.\n<search>Upper Kelmar</search>", "<search>Upper Kelmar</search>"),
        ("I look it up.\n<search> Upper Kelmar </search>", "<search> Upper Kelmar </search>"),
        ("Thought: it is known.\nAction: <answer>Paris.</answer>", "<answer>Paris.</answer>"),
        ("<think>First\n\nhm.</think>\n\n<search>Upper Kelmar</search>", "<search>Upper Kelmar</search>"),
        ("**Action:** `<search>Upper Kelmar</search>`", "<search>Upper Kelmar</search>"),
        ("<action><search>Upper Kelmar</search></action>", "<search>Upper Kelmar</search>"),
    ],
)
def test_a_pair_of_tags_is_a_form_and_no_blank(reply, action):
    assert parse_action(reply, TAGGED) == action


@pytest.mark.parametrize(
    "reply", ["<search>a</search>\n<search>b</search>", "<search>{query}</search>", "well\nor not"]
)
def test_two_tagged_actions_or_none_are_not_guessed_at(reply):
    with pytest.raises(ReplyFormatError):
        parse_action(reply, TAGGED)


def test_a_blank_in_angle_brackets_stays_one():
    forms = view("look | put <thing> in <place>")
    assert parse_action("I will do it now.\nput mug 1 in sink 1", forms) == "put mug 1 in sink 1"


def test_a_form_on_a_line_of_its_own_is_one():
    forms = view("One of:\nlook | go to {room}\ncut {thing} with {thing}", "apple 1 knife 1")
    assert parse_action("I will do it now.\ncut apple 1 with knife 1", forms) == "cut apple 1 with knife 1"


@pytest.mark.parametrize(
    ("said", "offered"),
    [
        ("click[vitamin a 100mg]", ["click[vitamin 100mg]", "click[back]"]),
        ("press A", ["press", "press B"]),
        ("press A B", ["press B"]),
    ],
)
def test_an_article_that_may_be_a_name_stays(said, offered):
    assert as_offered(said, offered) == said


def test_an_article_before_a_thing_is_dropped():
    assert as_offered("Open the drawer 1.", ["open drawer 1", "look"]) == "open drawer 1"
