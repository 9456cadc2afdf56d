"""Families of public models: two turns and two steps of training, to the tokenizer's ids and the model's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from align_echo.models.local.chat import LocalModel
from align_echo.models.local.chat_template import ChatFormat
from align_echo.models.local.encoding import AWKWARD, ChatEncoder
from align_echo.models.local.loading import close_all, run_transformers
from align_echo.tokens import join
from align_echo.train.config import checked_config, merged, method
from align_echo.train.run import TrainingRun
from align_echo.types import Completion, Message, Tokens
from tests.models.local.families import FAMILIES, family_tokenizer
from tests.models.local.plain_loop import logprobs_of, watch_gaps

pytestmark = pytest.mark.long

EXACT = 5e-6
SWITCHED = {"qwen3": '{"enable_thinking": false}', "smollm3": '{"enable_thinking": false}'}
CASES = [*((name, "") for name in FAMILIES), *SWITCHED.items()]


@pytest.fixture
def folder(family: str, tmp_path: Path) -> Iterator[Path]:
    """A model of the family, of random weights that are large enough for its replies to vary."""
    tokenizer = family_tokenizer(family)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=2048, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id, initializer_range=0.15,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    yield tmp_path / "model"
    close_all()


def own_ids(family: str, messages: list[Message], args: dict[str, Any]) -> tuple[int, ...]:
    """What the tokenizer itself makes of a chat that its template accepts."""
    chat = [{"role": message.role, "content": message.content} for message in messages]
    if family in ("gemma-2", "mistral-v0.2"):
        chat[:2] = [{"role": "user", "content": f"{chat[0]['content']}\n\n{chat[1]['content']}"}]
    ids: Any = family_tokenizer(family).apply_chat_template(
        chat, tokenize=True, add_generation_prompt=True, return_dict=False, **args
    )
    return tuple(ids)


def say(model: LocalModel, messages: list[Message]) -> Completion:
    return model.complete(messages, temperature=1.0, max_tokens=8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("family", "args"), CASES)
def test_two_turns_have_the_ids_and_log_probabilities_of_transformers(family, args, folder):
    model = run_transformers(str(folder), name=family, chat=ChatFormat(args=args))
    encoder, variables = model.encoder, ChatFormat(args=args).variables
    assert encoder.opening(AWKWARD) == own_ids(family, list(AWKWARD), variables)
    chat, calls = list(AWKWARD[:2]), []
    for observation in ("You see a mug.", "Nothing happens."):
        reply = say(model, chat)
        assert reply.tokens is not None
        calls.append(reply.tokens)
        said = Message(role="assistant", content=reply.text.strip() or "(no reply)", tokens=reply.tokens)
        chat += [said, Message(role="user", content=observation)]
    assert calls[0].context_ids == own_ids(family, chat[:2], variables)
    rewrites = FAMILIES[family].rewrites or (family == "qwen3" and args)
    sequence = join(calls)
    assert len(sequence.contexts()) == (2 if rewrites else 1)
    if rewrites:
        assert_own_context(model, family, chat, calls, variables)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reference.train(False)
    for context in sequence.contexts():
        full = [0.0, *logprobs_of(reference, context.ids, 1.0).tolist()]
        for (first, end), call in zip(context.turns, calls[context.first_turn :], strict=False):
            assert max(abs(a - b) for a, b in zip(full[first:end], call.logprobs, strict=True)) < EXACT


def assert_own_context(
    model: LocalModel, family: str, chat: list[Message], calls: list[Tokens], variables: dict[str, Any]
) -> None:
    """The second call begins where the first one differs from what the template now writes."""
    whole = own_ids(family, chat[:4], variables) if model.encoder.text(calls[0].sampled_ids).strip() else ()
    first = (*calls[0].context_ids, *calls[0].sampled_ids)
    second = (*first[: calls[1].start], *calls[1].context_ids)
    if not any(token in chat[2].content for token in ("<", "[")):  # tokens that a reply names are plain text
        assert second == whole
    assert first[calls[1].start] != second[calls[1].start]


@pytest.mark.parametrize(("family", "args"), CASES)
def test_two_steps_of_training_see_the_log_probabilities_of_the_engine(family, args, folder, monkeypatch):
    gaps = watch_gaps(monkeypatch)
    changes = {
        "env": "tests.train.run_sights:HALL", "method": "studies.graded:GRPO", "model": str(folder), "steps": 2,
        "save_every": 2, "threads": 1, "optimising": {"lr": 1e-3}, "rollouts": {"episodes": 0},
        "chat_template": None, "template_args": args or None,
        "collecting": {"tasks": 1, "samples": 4, "turns": 2, "reply_tokens": 6, "workers": 4},
    }  # fmt: skip
    steps: list[int] = []
    config = checked_config(merged(method("grpo"), changes), "test")
    TrainingRun(config, folder.parent / "run").train(lambda step, _: steps.append(step), lambda step, _: None)
    assert steps == [1, 2]
    assert gaps
    assert max(gaps) < EXACT


THOUGHT = "<think>\nThe mug may be there.\n</think>\n\nlook"


@pytest.mark.parametrize("family", ["qwen3", "r1-distill"])
def test_thoughts_are_left_out_of_the_history_and_learned_in_their_turn(family, folder):
    encoder = ChatEncoder(family_tokenizer(family))
    reply = THOUGHT if family == "qwen3" else THOUGHT.removeprefix("<think>\n")
    chat = [*AWKWARD[:2], Message(role="assistant", content=reply), Message(role="user", content="Nothing.")]
    whole = encoder.supervised([*chat, Message(role="assistant", content=reply)])
    one, other = whole.contexts()
    for context, messages in ((one, chat[:2]), (other, chat)):
        ((first, end),) = context.turns
        assert context.ids[:first] == own_ids(family, messages, {})
        assert encoder.text(context.ids[first:end]).strip() == reply.strip()
        assert sum(context.mask) == end - first
    assert "may be there" not in encoder.text(other.ids[: other.turns[0][0]])
