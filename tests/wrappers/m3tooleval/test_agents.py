"""Agents on a chat model get calls and answers through whole, from an endpoint to the engine."""

from __future__ import annotations

import json

import pytest

import align_echo
from align_echo.agents.reasoning import ReAct, Vanilla
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import base_env
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.m3tooleval.tasks import make_task
from tests.align.endpoint import serve

TASK = "message_decoder/test-0"
REPLIES = [
    "Thought: the hexadecimal first.\nAction: convert_hex_to_ascii, 6162 End Action",
    "**Action:** caesar_decode,\nbc, 1\nEnd Action",
    "```\nAction: reverse_string, ab End Action\n```",
    "Thought: so. Action: string_length, abcd End Action Action: view End Action",
    "Action: string_length, ab End Action\nAnswer: 2",
    f"It is done.\n\nAnswer: {make_task(TASK).expected}",
]
ENGINE = [
    "ab",
    "ab",
    "ba",
    "4\nNote: you sent more than one action, and only the first was used.",
    "This turn is not valid: it holds both `Action:` and `Answer:`. Send one of them.",
    "The answer is right.",
]


@pytest.mark.parametrize("kind", [Vanilla, ReAct])
def test_replies_reach_the_engine_whole(kind):
    env = base_env(align_echo.make("m3tooleval", split="test"))
    with serve({"m": REPLIES}) as endpoint:
        agent = kind(OpenAICompatibleModel("m", base_url=endpoint.url, api_key="k"))
        played = run_episode(env, agent, TASK, split="test", action_format=environment("m3tooleval").action_format)
    assert [step.observation for step in played.steps] == ENGINE
    assert (played.won, played.fault) == (True, None)


def test_a_call_as_json_reaches_the_engine_whole():
    env = base_env(align_echo.make("m3tooleval", split="test", engine="json"))
    call = json.dumps({"tool": "caesar_decode", "args": ["b, c", 1]})
    with serve(
        {"m": [f"Thought: so.\nAction: {call} End Action", f"Action: Answer: {make_task(TASK).expected}"]}
    ) as endpoint:
        agent = Vanilla(OpenAICompatibleModel("m", base_url=endpoint.url, api_key="k"))
        played = run_episode(env, agent, TASK, split="test", action_format=environment("m3tooleval").action_format)
    assert [step.observation for step in played.steps] == ["a, b", "The answer is right."]


def test_a_reply_without_a_label_is_told_so_by_the_engine():
    env = base_env(align_echo.make("m3tooleval", split="test"))
    with serve({"m": ["string_length, abc", "Answer: 1"]}) as endpoint:
        agent = Vanilla(OpenAICompatibleModel("m", base_url=endpoint.url, api_key="k"))
        played = run_episode(env, agent, TASK, split="test", action_format=environment("m3tooleval").action_format)
    assert played.steps[0].observation == "This turn is not valid: it holds neither `Action:` nor `Answer:`."
