"""A reasoning critic learns from collected actions: first the form, then who is right; and it resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("peft")

import torch

from align_echo.critic.ask import (
    ActionQuestion,
    Critic,
    Label,
    ask,
    parse_reasoned_verdict,
    reasoned_verdict_messages,
)
from align_echo.errors import UsageError
from align_echo.gaia.examples import ActionExample
from align_echo.gaia.fit.reasoning import (
    ReasoningSettings,
    Watch,
    choose_demonstrations,
    crew_config,
    demonstration,
    fitting_examples,
    judge_actions,
    learn_to_reason,
    reason,
    select_labelled,
    states_at,
)
from align_echo.models import ScriptedModel
from align_echo.train.role_models import RoleModels, find_sources, gather
from align_echo.train.signals import Signals
from align_echo.types import Message
from tests.gaia.test_examples import example
from tests.models.local.tiny import tiny_encoder, tiny_model, tiny_tokenizer

ENCODER = tiny_encoder()
SETTINGS = ReasoningSettings(
    weights="full", warm_examples=4, warm_batch=2, steps=2, states=2, samples=2, reply_tokens=96, save_every=1
)


def examples() -> list[ActionExample]:
    """Whether an action is right can be told from its first word."""
    words = {"go": "correct", "sing": "wrong"}
    return [example(f"task {task}", f"{word} {task}", nearer=of) for task in range(6) for word, of in words.items()]


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "tiny"
    tiny_model(context=1024).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("verdict", ["correct", "wrong"])
def test_what_is_imitated_is_a_reply_of_the_form_after_the_question_that_the_critic_is_asked(verdict: Label):
    one = example(action="go to «desk» 1")
    row = demonstration(one, verdict, ENCODER)
    asked = ENCODER.opening(reasoned_verdict_messages(one.messages, one.action))
    assert row.tokens.ids[: len(asked)] == asked
    assert row.tokens.mask == (0,) * len(asked) + (1,) * (len(row.tokens.ids) - len(asked))
    read = parse_reasoned_verdict(ENCODER.text(row.tokens.ids[len(asked) :]))
    assert read == (reason(one, verdict), verdict)
    assert one.action in read[0]
    assert (row.role, row.expert, row.tokens.ids[-1]) == ("critic", True, ENCODER.end_id)


def test_the_reason_says_what_the_label_knows_and_what_can_be_read():
    again = (
        Message(role="user", content="Hall."),
        Message(role="assistant", content="look"),
        Message(role="user", content="."),
    )
    told = [
        reason(example(explores=True), "correct"),
        reason(example(), "correct"),
        reason(example(messages=again), "wrong"),
        reason(example(explores=True), "wrong"),
    ]
    assert len(set(told)) == 4
    assert "sent before" in told[2]


def test_every_harvest_is_half_correct_and_all_actions_come_before_any_comes_again():
    settings = SETTINGS.model_copy(update={"states": 4})
    pairs = select_labelled(examples(), "nearer")
    laps = [states_at(number, pairs, settings) for number in range(3)]
    assert all([of.label for of in lap].count("wrong") == 2 for lap in laps)
    assert {of.example.key for lap in laps for of in lap} == {example.key for example in examples()}
    assert [of.example for of in states_at(3, pairs, settings)] != [of.example for of in laps[0]]
    assert states_at(1, pairs, settings) == laps[1]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(2, 20), st.integers(0, 5))
def test_no_action_is_judged_twice_in_a_lap_and_a_lap_ends_before_the_next_begins(correct, wrong, states, seed):
    pairs = select_labelled(examples()[::2][:correct] + examples()[1::2][:wrong], "nearer")
    settings = SETTINGS.model_copy(update={"states": states, "seed": seed})
    found = [one for harvest in range(4) for one in states_at(harvest, pairs, settings)]
    assert len(found) == 4 * states
    for label, count in (("correct", correct), ("wrong", wrong)):
        drawn = [(of.lap, of.example.key) for of in found if of.label == label]
        assert len(set(drawn)) == len(drawn)
        assert [lap for lap, _ in drawn] == [index // count for index in range(len(drawn))]


def test_an_action_that_comes_again_is_judged_by_other_draws():
    class Model(ScriptedModel):
        def with_sample(self, sample: int) -> Model:
            asked.append(sample)
            return self

    asked: list[int] = []
    pairs = select_labelled(examples()[:2], "nearer")
    settings = SETTINGS.model_copy(update={"states": 4, "samples": 3})
    model: Any = Model(lambda messages: "hm")
    judge_actions(model, states_at(0, pairs, settings), settings)
    judge_actions(model, states_at(1, pairs, settings), settings)
    assert sorted(asked) == sorted([*range(12), *range(12)]), "12 draws of each of two actions"


def test_a_demonstration_longer_than_a_reply_may_be_is_not_shown():
    long = example("z", "search[" + "very " * 40 + "long]", nearer="correct")
    pairs = select_labelled([long, *examples()], "nearer")
    shown = choose_demonstrations(pairs, ENCODER, SETTINGS.model_copy(update={"warm_examples": 20}))
    assert {one.key for one, _ in shown} == {example.key for example in examples()}
    for one, label in shown:
        start, end = demonstration(one, label, ENCODER).tokens.turns[0]
        assert end - start <= SETTINGS.reply_tokens
    assert len(choose_demonstrations(pairs, ENCODER, SETTINGS)) == SETTINGS.warm_examples
    short = SETTINGS.model_copy(update={"reply_tokens": 8})
    assert choose_demonstrations(pairs, ENCODER, short.model_copy(update={"warm_examples": 0})) == []
    with pytest.raises(UsageError, match="no demonstration fits into 8 tokens"):
        choose_demonstrations(pairs, ENCODER, short)


def test_conversations_that_leave_no_room_for_a_reply_are_left_out():
    long = example("b", messages=(Message(role="user", content="word " * 300),))
    assert fitting_examples([example(), long], ENCODER, longest=400, reply_tokens=8) == [example()]


def ignore(step: int, signals: Signals) -> None:
    """Nobody listens."""


def learn(
    crew: RoleModels,
    folder: Path,
    settings: ReasoningSettings = SETTINGS,
    *,
    of: list[ActionExample] | None = None,
    watch: Watch = ignore,
    watch_warm: Watch = ignore,
) -> None:
    learn_to_reason(
        crew,
        examples() if of is None else of,
        "nearer",
        settings,
        folder / "checkpoints",
        warm=folder / "warm",
        watch=watch,
        watch_warm=watch_warm,
    )


def crew_of(model: str, settings: ReasoningSettings = SETTINGS) -> RoleModels:
    config = crew_config(model, settings)
    return gather(config, find_sources(config))


@pytest.mark.long
@pytest.mark.parametrize("weights", ["full", "lora"])
def test_it_learns_the_form_and_then_to_judge(weights: str, model: str, tmp_path: Path):
    changes = {"weights": weights, "warm_examples": 12, "warm_lr": 3e-2 if weights == "lora" else 1e-2}
    settings = SETTINGS.model_copy(update=changes)
    crew = crew_of(model, settings)
    seen: list[Signals] = []

    def keep(step: int, signals: Signals) -> None:
        seen.append(signals)

    try:
        learn(crew, tmp_path, settings, watch=keep, watch_warm=keep)
    finally:
        crew.close()
    warm, after = seen[:6], seen[6:]
    assert warm[-1]["critic/loss"] < warm[0]["critic/loss"] - 0.5
    assert [one["rows"] for one in after] == [4, 4]
    assert all("critic/reward" in one and "count/unread_verdicts" in one for one in after)


def weights_of(crew: RoleModels) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in crew.backbone.activate("critic").parameters()]


class StoppedError(Exception):
    """From outside."""


@pytest.mark.long
@pytest.mark.parametrize("phase", ["warm", "compare"])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(phase: str, model: str, tmp_path: Path):
    whole, cut, resumed = (crew_of(model) for _ in range(3))
    try:
        learn(whole, tmp_path / "whole")

        def stop(step: int, signals: Signals) -> None:
            if step == 2:
                raise StoppedError

        watch, watch_warm = (ignore, stop) if phase == "warm" else (stop, ignore)
        with pytest.raises(StoppedError):
            learn(cut, tmp_path / "cut", watch=watch, watch_warm=watch_warm)
        learn(resumed, tmp_path / "cut")
        for one, other in zip(weights_of(whole), weights_of(resumed), strict=True):
            assert torch.equal(one, other)
        asked = [Critic(crew.models["critic"], votes=1, max_tokens=8) for crew in (whole, resumed)]
        questions = [ActionQuestion(examples()[0].messages, action) for action in ("go 1", "sing 1")]
        told = [[ask(critic, [question])[0] for question in questions] for critic in asked]  # alone: batches round
        assert told[0] == told[1]
    finally:
        for crew in (whole, cut, resumed):
            crew.close()


def test_one_label_alone_teaches_nothing_and_is_refused(model: str, tmp_path: Path):
    crew = crew_of(model)
    try:
        with pytest.raises(UsageError, match="both correct and wrong"):
            learn(crew, tmp_path, of=examples()[::2])
    finally:
        crew.close()
