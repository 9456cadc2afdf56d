"""A reasoning critic learns from collected actions: first the form, then who is right; and it resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("peft")

import torch

from align_echo.critic.reasoned_verdict import parse_reasoned_verdict, reasoned_verdict_messages
from align_echo.critic.reasoning import Reasoner
from align_echo.critic.verdict import Verdict
from align_echo.errors import UsageError
from align_echo.flywheel.examples import Example, Said
from align_echo.flywheel.reasoning import (
    ReasoningSettings,
    Watch,
    crew_config,
    demonstration,
    fit_reasoning,
    fitting_examples,
    reason,
    states_at,
)
from align_echo.train.crew import Crew, gather
from align_echo.train.signals import Signals
from tests.flywheel.test_examples import example
from tests.models.local.tiny import tiny_encoder, tiny_model, tiny_tokenizer

ENCODER = tiny_encoder()
SETTINGS = ReasoningSettings(
    weights="full", warm_examples=4, warm_batch=2, steps=2, states=2, samples=2, reply_tokens=8, save_every=1
)


def examples() -> list[Example]:
    """Whether an action is right can be told from its first word."""
    words = {"go": "correct", "sing": "wrong"}
    return [example(f"task {task}", f"{word} {task}", nearer=of) for task in range(6) for word, of in words.items()]


def labelled() -> list[tuple[Example, Verdict]]:
    return [(one, label) for one in examples() if (label := one.label("nearer")) is not None]


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "tiny"
    tiny_model(context=1024).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("verdict", ["correct", "wrong"])
def test_what_is_imitated_is_a_reply_of_the_form_after_the_question_that_the_critic_is_asked(verdict: Verdict):
    one = example(action="go to «desk» 1")
    row = demonstration(one, verdict, ENCODER)
    asked = ENCODER.opening(reasoned_verdict_messages(one.conversation, one.action))
    assert row.tokens.ids[: len(asked)] == asked
    assert row.tokens.mask == (0,) * len(asked) + (1,) * (len(row.tokens.ids) - len(asked))
    said = parse_reasoned_verdict(ENCODER.text(row.tokens.ids[len(asked) :]))
    assert (said.verdict, said.reason) == (verdict, reason(one, verdict))
    assert one.action in said.reason
    assert (row.role, row.expert, row.tokens.ids[-1]) == ("critic", True, ENCODER.end_id)


def test_the_reason_says_what_the_label_knows_and_what_can_be_read():
    again = (Said(role="user", content="Hall."), Said(role="assistant", content="look"), Said(role="user", content="."))
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
    laps = [states_at(number, labelled(), settings) for number in range(3)]
    assert all([label for _, label in one].count("wrong") == 2 for one in laps)
    assert {one.key for lap in laps for one, _ in lap} == {one.key for one in examples()}
    assert states_at(3, labelled(), settings) != laps[0]
    assert states_at(1, labelled(), settings) == laps[1]


def test_conversations_that_leave_no_room_for_a_reply_are_left_out():
    long = example("b", messages=(Said(role="user", content="word " * 300),))
    assert fitting_examples([example(), long], ENCODER, longest=400, reply_tokens=8) == [example()]


def ignore(step: int, signals: Signals) -> None:
    """Nobody listens."""


def learn(
    crew: Crew,
    folder: Path,
    settings: ReasoningSettings = SETTINGS,
    *,
    of: list[Example] | None = None,
    watch: Watch = ignore,
    watch_warm: Watch = ignore,
) -> None:
    fit_reasoning(
        crew,
        examples() if of is None else of,
        "nearer",
        settings,
        folder / "checkpoints",
        warm=folder / "warm",
        watch=watch,
        watch_warm=watch_warm,
    )


@pytest.mark.parametrize("weights", ["full", "lora"])
def test_it_learns_the_form_and_then_to_judge(weights: str, model: str, tmp_path: Path):
    changes = {"weights": weights, "warm_examples": 12, "warm_lr": 3e-2 if weights == "lora" else 1e-2}
    settings = SETTINGS.model_copy(update=changes)
    crew = gather(crew_config(model, settings))
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


def weights_of(crew: Crew) -> list[torch.Tensor]:
    return [one.detach().clone() for one in crew.backbone.activate("critic").parameters()]


class StoppedError(Exception):
    """From outside."""


@pytest.mark.parametrize("phase", ["warm", "compare"])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(phase: str, model: str, tmp_path: Path):
    whole, cut, resumed = (gather(crew_config(model, SETTINGS)) for _ in range(3))
    try:
        learn(whole, tmp_path / "whole")

        def stop(step: int, signals: Signals) -> None:
            if step == 1:
                raise StoppedError

        watch, watch_warm = (ignore, stop) if phase == "warm" else (stop, ignore)
        with pytest.raises(StoppedError):
            learn(cut, tmp_path / "cut", watch=watch, watch_warm=watch_warm)
        learn(resumed, tmp_path / "cut")
        for one, other in zip(weights_of(whole), weights_of(resumed), strict=True):
            assert torch.equal(one, other)
        asked = [Reasoner(crew.models["critic"], max_tokens=8) for crew in (whole, resumed)]
        told = [critic.score(examples()[0].conversation, ["go 1", "sing 1"]) for critic in asked]
        assert told[0] == told[1]
    finally:
        for crew in (whole, cut, resumed):
            crew.close()


def test_one_label_alone_teaches_nothing_and_is_refused(model: str, tmp_path: Path):
    crew = gather(crew_config(model, SETTINGS))
    try:
        with pytest.raises(UsageError, match="both correct and wrong"):
            learn(crew, tmp_path, of=examples()[::2])
    finally:
        crew.close()
