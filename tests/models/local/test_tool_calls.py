"""Tools of local models: the tokenizer's own ids of conversations with calls, and calls read in the family's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from align_echo.agents.catalogue import tools_for
from align_echo.agents.reasoning import Vanilla
from align_echo.errors import TokenDriftError, UsageError
from align_echo.models.call_forms import FORMS, find_form
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import close_all
from align_echo.models.local.rows import EngineRow, PendingRequest
from align_echo.models.tool_calls import ToolSet
from align_echo.rollout.batches import run_tasks
from align_echo.tokens import token_sequences
from align_echo.train.config import checked_config, merged, method
from align_echo.train.run import TrainingRun
from align_echo.types import Message, Tokens, ToolCall, Trajectory
from tests.cli.door_models import DOORS
from tests.models.local.families import FAMILIES, family_tokenizer
from tests.models.local.plain_loop import watch_gaps
from tests.models.local.scripted_engine import ScriptedEngine
from tests.models.local.tiny import tiny_tokenizer
from tests.models.local.tool_families import CALLS, tool_tokenizer

TOOLS = ToolSet.of((), "go to {} | take {}").text
CALL = ToolCall(name="act", arguments='{"action": "go to cabinet 1, Ünï"}', id="call00000")
CHAT = (
    Message(role="system", content="Rules: be brief.", tools=TOOLS),
    Message(role="user", content="You see 3 things."),
    Message(role="assistant", content="", call=CALL),
    Message(role="tool", content='It is "closed".', call=CALL),
    Message(role="assistant", content="look"),
    Message(role="user", content="Nothing happens."),
    Message(role="assistant", content="", call=CALL.model_copy(update={"id": "call00002"})),
    Message(role="tool", content="Open.", call=CALL.model_copy(update={"id": "call00002"})),
)


def own_ids(family: str, messages: Any) -> tuple[int, ...]:
    """What the tokenizer itself makes of a chat with tools."""
    chat: list[dict[str, Any]] = []
    for message in messages:
        chat.append({"role": message.role, "content": message.content})
        if message.call and message.role == "tool":
            chat[-1] |= {"name": message.call.name, "tool_call_id": message.call.id}
        elif message.call:
            function = {"name": message.call.name, "arguments": json.loads(message.call.arguments)}
            chat[-1]["tool_calls"] = [{"type": "function", "id": message.call.id, "function": function}]
    tokenizer: Any = tool_tokenizer(family)
    ids = tokenizer.apply_chat_template(
        chat, tools=json.loads(TOOLS), tokenize=True, add_generation_prompt=True, return_dict=False
    )
    return tuple(ids)


@pytest.mark.parametrize("family", CALLS)
@pytest.mark.parametrize("length", [2, 4, 6, 8])
def test_the_ids_of_a_conversation_with_tools_are_the_tokenizers_own(family, length):
    encoder = ChatEncoder(tool_tokenizer(family))
    encoder.check_tools(TOOLS)
    assert encoder.opening(CHAT[:length]) == own_ids(family, CHAT[:length])


def sampled(encoder: ChatEncoder, chat: list[Message], text: str) -> Tokens:
    """The call of a model that replies with a text in which names of tokens are tokens."""
    before, gained = encoder.conversation(chat)
    ids: Any = tokenizer_ids(encoder, text)
    return Tokens(start=len(before), context_ids=gained, sampled_ids=(*ids, encoder.end_id), logprobs=(0.0,) * 99)


def tokenizer_ids(encoder: ChatEncoder, text: str) -> tuple[int, ...]:
    return tuple(encoder._template_tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("family", CALLS)
def test_sampled_calls_stay_in_the_history_as_the_template_writes_them(family):
    encoder = ChatEncoder(tool_tokenizer(family))
    chat = list(CHAT[:2])
    tokens = sampled(encoder, chat, CALLS[family].replace("{}", "look"))
    beside, (call,) = encoder.read_calls(encoder.text(tokens.sampled_ids))
    assert (beside.strip(), json.loads(call.arguments)) == ("", {"action": "look"})
    call = call.model_copy(update={"id": "call00000"})
    chat += [Message(role="assistant", content="", call=call, tokens=tokens)]
    chat += [Message(role="tool", content="A mug.", call=call)]
    before, gained = encoder.conversation(chat)
    assert before + gained == own_ids(family, chat)
    appends = len(before) == tokens.end
    assert appends == (family != "mistral-v3"), "Mistral's template adds the call's id to the past"
    chat[2] = chat[2].model_copy(update={"call": call.model_copy(update={"arguments": '{"action": "jump"}'})})
    with pytest.raises(TokenDriftError):
        encoder.conversation(chat)


@pytest.mark.parametrize("family", ["qwen2.5", "llama-3.1"])
def test_a_sampled_call_keeps_the_ids_that_were_drawn(family):
    encoder = ChatEncoder(tool_tokenizer(family))
    text = CALLS[family].replace("{}", "go to cabinet 1")
    whole = tokenizer_ids(encoder, text)
    drawn = [piece for part in text.split("cabinet") for piece in tokenizer_ids(encoder, part)]
    middle = len(tokenizer_ids(encoder, text.split("cabinet")[0]))
    drawn[middle:middle] = [number for letter in "cabinet" for number in tokenizer_ids(encoder, letter)]
    assert tuple(drawn) != whole
    before, gained = encoder.conversation(CHAT[:2])
    tokens = Tokens(start=0, context_ids=gained, sampled_ids=(*drawn, encoder.end_id), logprobs=())
    beside, (call,) = encoder.read_calls(encoder.text(tokens.sampled_ids))
    reply = Message(role="assistant", content=beside.strip(), call=call, tokens=tokens)
    before, gained = encoder.conversation([*CHAT[:2], reply, Message(role="tool", content="A mug.", call=call)])
    assert before[-len(tokens.sampled_ids) :] == tokens.sampled_ids


REPLIES = {
    "Hermes, Qwen2.5, Qwen3, SmolLM3": [
        ('I look.\n<tool_call>{"name": "act", "arguments": {"a": 1}}</tool_call>', "I look.\n", [("act", '{"a": 1}')]),
        ('<tool_call>\n{"name": "act", "arguments": "{}"}', "", [("act", "{}")]),
        ('<tool_call>{"name": "act", "arguments": {"a</tool_call>', "", [("act", '{"name": "act", "arguments": {"a')]),
        ('<tool_call>1</tool_call><tool_call>{"name": "b"}</tool_call>', "", [("", "1"), ("b", "{}")]),
        ("look", "look", []),
    ],
    "Mistral v3 to v13": [
        ('[TOOL_CALLS] [{"name": "act", "arguments": {"a": 1}}]', "", [("act", '{"a": 1}')]),
        ('So.[TOOL_CALLS]act[ARGS]{"a": 1}', "So.", [("act", '{"a": 1}')]),
        ('[TOOL_CALLS]act{"a": 1}[TOOL_CALLS]b{}', "", [("act", '{"a": 1}'), ("b", "{}")]),
        ("[TOOL_CALLS] [", "", [("", "[")]),
        ("look", "look", []),
    ],
    "Llama-3.1 to 3.3": [
        ('{"name": "act", "parameters": {"a": 1}}', "", [("act", '{"a": 1}')]),
        ('<|python_tag|>{"name": "act", "parameters": {"a": 1}}', "", [("act", '{"a": 1}')]),
        ('{"name": "act", "parameters": {"a"', "", [("act", '{"name": "act", "parameters": {"a"')]),
        ('{"action": "look"}', '{"action": "look"}', []),
        ("look", "look", []),
    ],
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.families)
def test_calls_are_read_in_the_form_of_the_family(form):
    for text, beside, calls in REPLIES[form.families]:
        read, found = form.read(text)
        assert (read, [(call.name, call.arguments) for call in found]) == (beside, calls), text


def test_a_template_names_its_form():
    named = [find_form(str(tool_tokenizer(family).chat_template)) for family in CALLS]
    assert [form and form.families for form in named] == [
        "Hermes, Qwen2.5, Qwen3, SmolLM3", "Llama-3.1 to 3.3", "Mistral v3 to v13",
    ]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_template_without_tools_is_refused_in_a_line(family):
    encoder = ChatEncoder(family_tokenizer(family))
    with pytest.raises(UsageError, match=r"writes no tools.*leave --tools out"):
        encoder.check_tools(TOOLS)
    with pytest.raises(UsageError, match="writes no tools"):
        tools_for(DOORS.spec("doors"), LocalModel(ScriptedEngine("m", encoder, lambda *_: ""), encoder))


def test_the_own_template_writes_no_tools():
    with pytest.raises(UsageError, match="writes no tools"):
        ChatEncoder(tiny_tokenizer()).check_tools(TOOLS)


def test_texts_of_tools_calls_and_answers_stay_text():
    encoder = ChatEncoder(tool_tokenizer("qwen2.5"))
    odd = "</tool_call><|im_end|>"
    call = ToolCall(name="act", arguments=json.dumps({"action": odd}), id="call00000")
    chat = [Message(role="system", content="", tools=ToolSet.of((), odd).text), CHAT[1]]
    chat += [Message(role="assistant", content="", call=call), Message(role="tool", content=odd, call=call)]
    plain = [message.model_copy(update={"call": CALL if message.call else None}) for message in chat]
    plain[0] = plain[0].model_copy(update={"tools": TOOLS})
    plain[3] = plain[3].model_copy(update={"content": "x"})
    names = [encoder._ids[name] for name in ("</tool_call>", "<|im_end|>")]

    def count(messages: list[Message]) -> list[int]:
        return [encoder.opening(messages).count(number) for number in names]

    assert count(chat) == count(plain)


@pytest.mark.parametrize("family", CALLS)
def test_a_local_model_plays_by_calls_and_malformed_ones_cost_a_turn(family):
    encoder = ChatEncoder(tool_tokenizer(family))
    texts = iter([CALLS[family].replace("act", "fly"), CALLS[family].replace("{}", "open red")])
    engine = ScriptedEngine("m", encoder, lambda text, seed: next(texts))
    spec = DOORS.spec("doors")
    agent = Vanilla(LocalModel(engine, encoder)).with_tools(ToolSet.of((), spec.action_format))
    (played,) = run_tasks(lambda: spec.make("test"), agent, ["8"], split="test")
    assert played.fault is None
    first, second = played.steps
    assert (first.action, first.call) == (None, None)
    assert first.problem.startswith("there is no tool 'fly'; known: act")
    assert (second.action, second.reply) == ("open red", "")
    assert second.call is not None
    assert sum(len(sequence.ids) for sequence in token_sequences(played)) > 0


# ---------------------------------------------------------------- training

EXACT = 5e-6


def random_model(family: str, folder: Path) -> None:
    """Save a tiny model of the family, of random weights."""
    tokenizer = tool_tokenizer(family)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=4096, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id, initializer_range=0.15,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def saying(replies: Sequence[Sequence[int]]) -> Callable[..., list[dict[int, list[PendingRequest]]]]:
    """Let the engine draw these replies by turns, with the probabilities that the model gives them."""

    def draw(ready: Sequence[EngineRow], logits_BV: torch.Tensor, most: int) -> list[dict[int, list[PendingRequest]]]:
        logprobs_BV = torch.log_softmax(logits_BV.float(), dim=-1)
        drawn: list[dict[int, list[PendingRequest]]] = [{} for _ in ready]
        for at, row in enumerate(ready):
            for pending in row.requests:
                token = replies[pending.request.sampling.seed % len(replies)][len(row.drawn)]
                pending.logprobs.append(float(logprobs_BV[at, token]))
                drawn[at].setdefault(token, []).append(pending)
        return drawn

    return draw


@pytest.mark.long
@pytest.mark.parametrize("family", CALLS)
def test_a_step_of_grpo_learns_from_calls_with_the_numbers_of_transformers(family, tmp_path, monkeypatch):
    random_model(family, tmp_path / "model")
    encoder, form = ChatEncoder(tool_tokenizer(family)), CALLS[family]
    texts = (form.replace("{}", "open red"), form.replace("{}", "open green"), form.replace("act", "fly"))
    replies = [(*tokenizer_ids(encoder, text), encoder.end_id) for text in texts]
    monkeypatch.setattr("align_echo.models.local.transformers_engine.draw_tokens", saying(replies))
    gaps = watch_gaps(monkeypatch)
    changes = {
        "env": "tests.cli.door_models:DOORS", "model": str(tmp_path / "model"),
        "steps": 1, "save_every": 1, "threads": 1, "tools": True,
        "collecting": {"tasks": 1, "samples": 8, "turns": 2, "reply_tokens": 128, "workers": 4},
    }  # fmt: skip
    run = TrainingRun(checked_config(merged(method("grpo"), changes), "test"), tmp_path / "run")
    steps: list[int] = []
    run.train(lambda step, _: steps.append(step), lambda step, _: None)
    close_all()
    assert steps == [1]
    assert max(gaps) < EXACT
    lines = [line for file in (tmp_path / "run" / "rollouts").glob("*.jsonl") for line in file.read_text().splitlines()]
    turns = [step for line in lines for step in Trajectory.model_validate_json(line).steps]
    assert {step.action for step in turns} == {"open red", "open green", None}
    assert all((step.call is None) == (step.action is None) for step in turns)
