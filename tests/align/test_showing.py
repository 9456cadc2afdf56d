"""What a model reads of an environment and of failed episodes: tools, answers that came again and again, replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from align_echo.align.experiments import trajectory_text
from align_echo.align.llm.backend import LlmBackend
from align_echo.align.loop import TrainingSplit
from align_echo.align.showing import describe_actions, repeated_answers, tools_text
from align_echo.interface.contract import identity
from align_echo.models import ScriptedModel
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView, Message, Trajectory
from tests.align.room_world import BOOK, MUG, SPEC
from tests.room_env import RoomEnv

CANCEL: dict[str, Any] = {
    "name": "cancel_order",
    "description": "Cancel a pending order.",
    "parameters": {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "The order's id, such as '#W0000000'."},
            "reason": {"enum": ["no longer needed", "ordered by mistake"]},
            "items": {"type": "array", "items": {"type": "string"}},
            "payer": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "address": {"type": "object", "properties": {"zip": {"type": "integer"}}},
            "flights": {"type": "array", "items": {"$ref": "#/$defs/Flight"}},
        },
        "$defs": {
            "Flight": {"type": "object", "properties": {"date": {"type": "string"}, "next": {"$ref": "#/$defs/Flight"}}}
        },
        "required": ["order_id", "items"],
    },
}


def test_a_tool_is_shown_with_the_type_and_need_of_each_parameter() -> None:
    assert tools_text([{"type": "function", "function": CANCEL}]).splitlines() == [
        "- cancel_order(order_id, [reason], items, [payer], [address], [flights]): Cancel a pending order.",
        "  - order_id: string, required: The order's id, such as '#W0000000'.",
        '  - reason: one of "no longer needed", "ordered by mistake", optional',
        "  - items: list of string, required",
        "  - payer: string or null, optional",
        "  - address: object with zip (integer), optional",
        "  - flights: list of object with date (string), next (object with date (any), next (any)), optional",
    ]


@pytest.mark.parametrize("name", ["parameters", "input_schema"])
def test_flat_schemas_are_read_too(name: str) -> None:
    flat: dict[str, Any] = {"name": "look", name: {"properties": {"at": {"type": "string"}}}}
    assert tools_text([flat]) == "- look([at])\n  - at: string, optional"


def test_what_is_left_out_of_many_tools_is_named_with_the_limit() -> None:
    tools: list[dict[str, Any]] = [{"name": f"tool_{number}", "description": "word " * 90} for number in range(9)]
    text = tools_text(tools, limit=800)
    assert text.count("word  ...") == 3
    last = "- 6 more tools, named only, since 800 characters are shown: tool_3, tool_4, tool_5, tool_6, tool_7, tool_8"
    assert text.splitlines()[-1] == last


@pytest.mark.parametrize("odd", [{}, {"name": 3, "parameters": "x"}, {"function": {"parameters": {"properties": []}}}])
def test_odd_schemas_are_shown_as_far_as_they_go(odd: dict[str, Any]) -> None:
    assert tools_text([odd]).startswith("- ")


class Speaker:
    """Gives these replies in turn, the last one for ever; a reply is read as an action if it is one line."""

    name = "speaker"

    def __init__(self, *replies: str) -> None:
        self._replies = replies

    def act(self, view: AgentView) -> AgentReply:
        text = self._replies[min(len(view.turns), len(self._replies) - 1)]
        if "\n" in text:
            return AgentReply(text=text, action=None, problem="two lines")
        action = json.loads(text)["action"] if text.startswith("{") else text
        return AgentReply(text=text, action=action)


def played(task: str, *replies: str) -> Trajectory:
    return run_episode(RoomEnv(step_limit=8), Speaker(*replies), task, split="train")


def test_equal_answers_are_one_line_with_their_count_tasks_and_an_example() -> None:
    failed = [played(BOOK, "take book 1"), played(MUG, "look", "take book 1", "take pen 2", "hm\nwell")]
    assert repeated_answers(failed).splitlines() == [
        f"- x 8 in 2 tasks: the text before again; for example to `take book 1` (task {BOOK}, step 2)"
        " and to 1 other action",
        f"- x 5 in 1 task: no action could be read: two lines; for example 'hm well' (task {MUG}, step 4)",
        f"- x 10 in 2 tasks: 'Nothing happens.'; for example to `take book 1` (task {BOOK}, step 1)"
        " and to 1 other action",
    ]


def test_of_many_repeated_answers_the_first_are_listed_and_the_others_counted() -> None:
    class Counting(RoomEnv):
        def _act(self, action: str) -> Any:
            return replace(super()._act(action), observation=f"You read {'abcdefghijklm'[self.turns // 3]}.")

    failed = run_episode(Counting(step_limit=36), Speaker("look"), BOOK, split="train")
    lines = repeated_answers([failed]).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "- 3 more answers that came 3 times or more"


def test_a_log_folds_steps_alike_and_shows_replies_that_were_read_otherwise() -> None:
    log = trajectory_text(played(BOOK, '{"action": "look"}', "take book 1", "take book 1", "hm\nwell"), 4000)
    assert '[1] Action: look\n(the agent wrote: {"action": "look"})\nObservation: You are in the kitchen' in log
    assert "[2 to 3, 2 times alike] Action: take book 1\nObservation: Nothing happens." in log
    assert "[4 to 8, 5 times alike] Action: (none could be read; the agent wrote: hm\nwell)" in log


TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": CANCEL},)


@pytest.mark.parametrize("expert", [True, False])
def test_the_analyst_reads_the_tools_the_repeated_answers_and_an_expert_s_way_if_there_is_one(expert: bool) -> None:
    asked: list[Sequence[Message]] = []

    def analyst(messages: Sequence[Message]) -> str:
        asked.append([*messages])
        return "<misalignments>none</misalignments>"

    spec = replace(SPEC, tools=TOOLS, has_expert=lambda task_id: expert)
    model = ScriptedModel(analyst)
    backend = LlmBackend(TrainingSplit(spec), Speaker("look"), analyzer_model=model, optimizer_model=model)
    backend.analyze([played(BOOK, "take book 1")], (), identity(SPEC.contract))
    system, prompt = (message.content for message in asked[0])
    assert describe_actions(spec) in system
    assert "  - items: list of string, required\n" in system
    assert "x 8 in 1 task: 'Nothing happens.'" in prompt
    assert ("An expert solves the same task like this" in prompt) is expert
    assert ("Compare with the expert's way." in prompt) is expert
    assert ("No expert's way is known." in prompt) is not expert


def test_an_expert_that_loses_shows_no_way() -> None:
    lost = replace(SPEC, make_env=lambda **given: RoomEnv(step_limit=1))
    assert TrainingSplit(SPEC).gold(BOOK)
    assert TrainingSplit(lost).gold(BOOK) == []
