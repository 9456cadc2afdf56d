"""Refusals with words: idle words change nothing, reasons and commands end habits, wrong commands are dropped."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from align_echo.base.commands import commands_in
from align_echo.base.dice import Dice
from align_echo.types import AgentView
from studies.pocket.household import REFUSAL, Habits, Teacher
from studies.pocket.household_demonstrations import DrawnGames, Played, Rooms, other_goals, play
from studies.pocket.idle_words import HELD_OUT, contentless, idle_rules
from studies.pocket.remarks import LESSONS, STUBBORN, Lesson, Remarks, lessons_of, order, other_rules, reason

RULES = "Learned by experiment:\n- Before `take X from Y` you may need to `go to Y`\n- Names are written in full"
STICKS = Habits(treats_afar=1.0, says_put=1.0, skips_opening=1.0, sticks=1.0)


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    games = DrawnGames("remarks", 3, tmp_path_factory.mktemp("games"))
    built = Rooms.of(games)
    yield built, games.ids("")
    built.close()


def idle(teacher: Teacher, view: AgentView) -> str:
    teacher.idle.add(len(view.turns) - 1)
    return f"{REFUSAL} Time passes."


def actions(played: Played) -> list[str | None]:
    return [step.action for step in played.trajectory.steps]


def test_idle_words_are_many_and_never_those_that_are_kept_for_measuring():
    made = [contentless(Dice(f"{seed}"), "take mug 1 from desk 1") for seed in range(2000)]
    assert len(set(made)) > 1500
    for sentence in HELD_OUT:
        assert not any(sentence.rstrip(".").lower() in text.lower() for text in made)
    assert not any(command.text.startswith(("go to ", "open ")) for text in made for command in commands_in(text))


def test_orders_name_the_command_and_reasons_do_not():
    for seed in range(300):
        dice = Dice(f"{seed}")
        assert "go to desk 1" in order(dice, "go to desk 1", "take mug 1 from desk 1").lower()
        why = reason(dice, "go to desk 1", "take mug 1 from desk 1", frozenset({"desk 1", "mug 1"}))
        assert "desk 1" in why.lower()
        assert "go to desk 1" not in why.lower()
    dice = Dice("absent")
    assert "desk 7" in reason(dice, "go to desk 1", "take mug 1 from desk 7", frozenset({"mug 1"})).lower()
    why = reason(dice, "move mug 1 to desk 1", "put mug 1 in/on desk 1", frozenset({"mug 1", "desk 1"}))
    assert re.search("move", why)


def test_idle_rules_hold_no_rule_and_other_rules_do():
    for seed in range(100):
        assert "go to Y" not in idle_rules(Dice(f"{seed}"), RULES)
        assert "\n" not in idle_rules(Dice(f"{seed}"), "one line")
    assert sum("go to Y" in other_rules(Dice(f"{seed}")) for seed in range(100)) > 50


@pytest.mark.long
def test_idle_words_leave_every_action_as_it_was(rooms: tuple[Rooms, list[str]]):
    env, tasks = rooms[0].raw, rooms[1]
    refused = 0
    for number in range(12):
        task = tasks[number % len(tasks)]
        goal = other_goals(task, Dice(f"goal {number}"), 1)[0]
        alone = play(env, task, Dice(f"{number}"), STUBBORN, goal=goal)
        worded = play(env, task, Dice(f"{number}"), STUBBORN, goal=goal, remark=idle)
        assert actions(worded) == actions(alone)
        refused += sum(step.observation == f"{REFUSAL} Time passes." for step in worded.trajectory.steps)
    assert refused > 5


@pytest.mark.long
def test_a_command_is_sent_and_one_that_did_not_help_is_not_sent_again(rooms: tuple[Rooms, list[str]]):
    env, tasks = rooms[0].raw, rooms[1]
    wrong = Lesson("wrong", (0, 0, 0, 1, 3), STICKS)
    followed = 0
    for number in range(12):
        task = tasks[number % len(tasks)]
        dice = Dice(f"order {number}")
        remarks = Remarks(wrong, dice)
        played = play(env, task, dice, STICKS, goal=other_goals(task, dice, 1)[0], remark=remarks)
        for command, words in remarks.misled.items():
            after = [later.action for before, later in pairwise(played.trajectory.steps) if words in before.observation]
            assert after.count(command) <= 1, words
            followed += after.count(command)
        assert played.trajectory.won or not played.fit
    assert followed > 3


@pytest.mark.long
def test_who_repeats_to_the_end_gives_way_to_a_reason(rooms: tuple[Rooms, list[str]]):
    env, tasks = rooms[0].raw, rooms[1]

    def won(lesson: Lesson) -> int:
        total = 0
        for number in range(12):
            task = tasks[number % len(tasks)]
            goal = other_goals(task, Dice(f"goal {number}"), 1)[0]
            dice = Dice(f"{number}")
            total += play(env, task, dice, STICKS, goal=goal, remark=Remarks(lesson, dice)).trajectory.won
        return total

    assert won(Lesson("idle", (0, 1, 0, 0, 0), STICKS)) + 3 <= won(Lesson("reasons", (0, 0, 1, 0, 0), STICKS))


@pytest.mark.long
def test_every_lesson_of_a_room_is_shown_with_its_rules(rooms: tuple[Rooms, list[str]]):
    shown = [chat for task in rooms[1] for chat in lessons_of(rooms[0], task, Dice(task), RULES)]
    assert {chat.kind for chat in shown} == {lesson.name for lesson in LESSONS} | {"alfworld.told", "alfworld.hinted"}
    with_rules = [chat for chat in shown if "# Rules" in chat.messages[0].content]
    assert {chat.kind for chat in with_rules} >= {"alfworld.advised", "alfworld.told"}
