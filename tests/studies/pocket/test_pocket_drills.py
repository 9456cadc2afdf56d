"""Exercises of the pocket model: each answer can be read off what stands before it."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.types import Message
from studies.pocket.drills import drills, glances


def shown(seed: int, kind: str) -> tuple[Message, ...]:
    return next(drill.messages for drill in drills(seed) if drill.kind == f"drill.{kind}")


def rounds(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.content, other.content) for message, other in zip(messages[::2], messages[1::2], strict=True)]


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None
    return match[1]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_next_place_is_the_one_listed_after(seed):
    messages = shown(seed, "next")
    places = re.findall(r"\ba ([a-z]+ \d+)", messages[0].content.partition("\n")[0])
    for question, answer in rounds(messages):
        turns = found(r"After ([a-z]+ \d+)\.$", question)
        assert answer == f"go to {places[places.index(turns) + 1]}"


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_walk_goes_through_the_room_in_order_and_takes_what_is_wanted_where_it_is_seen(seed):
    messages = shown(seed, "walk")
    places = re.findall(r"\ba ([a-z]+ \d+)", messages[0].content.partition("\n")[0])
    wanted, stops = "", iter(places)
    for question, answer in rounds(messages):
        wanted = [wanted, *re.findall(r"find some ([a-z]+)\.", question)][-1]
        here = re.search(r"On the ([a-z]+ \d+), you see", question)
        seen = re.findall(rf"\ba ({wanted} \d+)", question) if here else []
        assert answer == (f"take {seen[0]} from {here[1]}" if here and seen else f"go to {next(stops)}")


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_thing_is_taken_only_where_it_is_seen(seed):
    for question, answer in rounds(shown(seed, "spot")):
        wanted = found(r"find some ([a-z]+)\.", question)
        seen = re.findall(rf"\ba ({wanted} \d+)", question)
        place = found(r"On the ([a-z]+ \d+), you see", question)
        assert answer == (f"take {seen[0]} from {place}" if seen else "look")


def test_a_glance_is_one_question_with_one_answer():
    first = list(itertools.islice(glances(1), 40))
    assert {demonstration.kind for demonstration in first} == {"drill.glance"}
    turns = [rounds(demonstration.messages) for demonstration in first]
    assert all(len(drill) == 1 for drill in turns)
    assert {answer.split()[0] for ((_, answer),) in turns} == {"take", "look"}
    assert len({question for ((question, _),) in turns}) == 40


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_what_is_said_is_said_again(seed):
    for question, answer in rounds(shown(seed, "copy")):
        assert question == f"Say: {answer}"


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_code_is_the_one_before_its_title(seed):
    messages = shown(seed, "code")
    for question, answer in rounds(messages):
        title = question.rpartition("Instruction: ")[2]
        code = answer.removeprefix("click[").removesuffix("]")
        assert f"{code} [SEP] {title} [SEP] $" in messages[0].content


def test_the_same_seed_gives_the_same_exercises_and_another_seed_others():
    def first(seed: int) -> list[str]:
        return [demonstration.model_dump_json() for demonstration in itertools.islice(drills(seed), 10)]

    assert first(1) == first(1)
    assert first(1) != first(2)
