"""Several replies of an agent to one view: each is what its sample number gives alone, drawn at once where one can."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.reasoning import Planning, ReAct, SelfRefine, Vanilla
from align_echo.errors import ModelError
from align_echo.models import ScriptedModel
from align_echo.types import AgentReply, Completion, Message, Usage
from tests.agents.views import FIVE, SPOKEN, VIEW, after

SAMPLES = (0, 3, 1, 3)


class Sampled:
    """Names an action by its sample number in the agent's form, every third one cut off; draws several at once."""

    name = "sampled"

    def __init__(self, kind: type[ChatAgent], sample: int = 0, at_once: list[list[int]] | None = None) -> None:
        self.kind, self.sample, self.at_once = kind, sample, [] if at_once is None else at_once

    def with_sample(self, sample: int) -> Sampled:
        return Sampled(self.kind, sample, self.at_once)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        if "Verdict: keep" in messages[-1].content:
            return Completion(text="Fine.\nVerdict: keep")
        text = SPOKEN[self.kind.kind].format(f"go to room {self.sample} at {temperature} with {max_tokens}")
        usage = Usage(completion_tokens=self.sample)
        return Completion(text=text, finish_reason="length" if self.sample % 3 == 0 else "stop", usage=usage)

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        self.at_once.append(list(samples))
        models = [self.with_sample(sample) for sample in samples]
        return [model.complete(messages, temperature=temperature, max_tokens=max_tokens) for model in models]


@pytest.mark.parametrize("kind", FIVE, ids=lambda kind: kind.kind)
def test_each_reply_is_that_of_its_sample_alone(kind: type[ChatAgent]) -> None:
    view = after((SPOKEN[kind.kind].format("look"), "look", "A door."))
    agent = kind(Sampled(kind), temperature=0.9, max_tokens=33)
    replies = agent.act_all(view, SAMPLES)
    assert replies == [agent.with_sample(sample).act(view) for sample in SAMPLES]
    assert len({reply.text for reply in replies}) == 3
    assert agent.act_all(view, ()) == []


@pytest.mark.parametrize(("kind", "at_once"), [(Vanilla, 1), (ReAct, 1), (Planning, 1), (SelfRefine, 0)])
def test_where_one_call_is_a_turn_all_are_drawn_at_once(kind: type[ChatAgent], at_once: int) -> None:
    model = Sampled(kind)
    kind(model, temperature=0.9).act_all(VIEW, SAMPLES)
    assert model.at_once == [list(SAMPLES)] * at_once


def test_a_reply_that_cannot_be_drawn_breaks_all() -> None:
    with pytest.raises(ModelError, match="down"):
        Vanilla(ScriptedModel(["look", ModelError("down")]), temperature=1.0).act_all(VIEW, (0, 1))


def test_a_local_models_replies_are_those_of_each_sample_alone_to_the_token() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from align_echo.models import load_model

    agent = Vanilla(load_model("pocket"), temperature=3.0, max_tokens=12)
    view = after(("look", "look", "You see a shelf 1 and a cabinet 2."))
    replies, alone = agent.act_all(view, SAMPLES), [agent.with_sample(sample).act(view) for sample in SAMPLES]

    def exact(reply: AgentReply) -> tuple[object, ...]:
        assert reply.tokens is not None
        return (reply.tokens.start, reply.tokens.context_ids, reply.tokens.sampled_ids)

    assert [exact(reply) for reply in replies] == [exact(reply) for reply in alone]
    for reply, other in zip(replies, alone, strict=True):
        assert reply.tokens is not None
        assert other.tokens is not None
        assert reply.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=1e-4)
        assert reply.model_copy(update={"tokens": None}) == other.model_copy(update={"tokens": None})
    assert len({reply.text for reply in replies}) > 1
