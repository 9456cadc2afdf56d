"""The scripted novice of M3ToolEval: what it can, its habit of form, and how it takes a hint."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.agents.novices.m3tooleval import STUBBORN, ToolHabits, tool_novice
from align_echo.errors import UsageError
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentView, Turn

TOOLS = "You have these tools:\nconvert_hex_to_ascii(hex_string: str) -> str"
GOAL = "The text behind 62636465 was encoded with a Caesar cipher with a shift of 1 and then in hexadecimal. Decode it."
PYTHON = "Action: convert_hex_to_ascii('62636465') End Action"
PLAIN = "Action: convert_hex_to_ascii, 62636465 End Action"
REFUSAL = "There is no tool named \"convert_hex_to_ascii('62636465')\"."
ALWAYS = ToolHabits(writes_python=1.0, gets_stuck=0.0)


def view(*turns: tuple[str, str], rules: str = "") -> AgentView:
    seen = tuple(Turn(reply=action, action=action, observation=text) for action, text in turns)
    return AgentView(task_id="t", action_format="", goal=GOAL, rules=rules, initial_observation=TOOLS, turns=seen)


def says(habits: ToolHabits, *turns: tuple[str, str], rules: str = "") -> set[str | None]:
    """What novices with other draws do."""
    return {tool_novice(habits, seed=seed).act(view(*turns, rules=rules)).action for seed in range(60)}


def test_it_decodes_a_message_step_by_step():
    good = ToolHabits(writes_python=0.0)
    turns = [(PLAIN, "bcde")]
    assert says(good) == {PLAIN}
    assert says(good, *turns) == {"Action: caesar_decode, bcde, 1 End Action"}
    assert says(good, *turns, ("Action: caesar_decode, bcde, 1 End Action", "abcd")) == {"Answer: abcd"}


def test_it_calls_tools_as_in_python_until_its_patience_ends_or_a_hint_shows_the_form():
    assert says(ALWAYS) == {PYTHON}
    assert says(ALWAYS, *[(PYTHON, REFUSAL)] * 2) == {PYTHON}
    assert says(ALWAYS, *[(PYTHON, REFUSAL)] * 3) == {PLAIN}
    assert says(ALWAYS, (PYTHON, f"{REFUSAL} Write `{PLAIN}`.")) == {PLAIN}


def test_rules_are_read_weakly_and_a_stubborn_one_takes_no_hint():
    assert says(ToolHabits(writes_python=1.0, gets_stuck=1.0), rules=f"Write `{PLAIN}`.") == {PLAIN, PYTHON}
    assert PYTHON in says(STUBBORN, (PYTHON, f"Write `{PLAIN}`."), rules=f"Write `{PLAIN}`.")


def test_it_wins_some_of_every_kind_that_it_knows_and_repeats_itself():
    tasks = align_echo.tasks("m3tooleval", split="test")
    tasks = [task for task in tasks if task.startswith(("message_decoder", "web_browsing"))]
    novice = tool_novice(ToolHabits(writes_python=0.0))
    played = [
        run_tasks(lambda: align_echo.make("m3tooleval", split="test"), novice, tasks, split="test") for _ in (1, 2)
    ]
    won = [[episode.task_id for episode in episodes if episode.won] for episodes in played]
    assert won[0] == won[1]
    assert {task.partition("/")[0] for task in won[0]} == {"message_decoder", "web_browsing"}
    assert len(won[0]) < len(tasks)


def test_there_is_no_careful_one():
    with pytest.raises(UsageError, match="no scripted novice-careful for m3tooleval"):
        make_novice("m3tooleval", "novice-careful")
