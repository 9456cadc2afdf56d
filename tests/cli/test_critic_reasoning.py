"""`align-echo critic train --reasoning` as a user meets it: what it writes, where it goes on, what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

from align_echo.critic.ask import ActionQuestion, Critic, Verdict, ask
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.fit.reasoning import ReasoningSettings, crew_config
from align_echo.models import load_model
from align_echo.models.local.memory import POOL
from align_echo.prompts import prompt_hash
from align_echo.train.backbone import ROLES
from align_echo.train.obstacles import estimate
from tests.cli.test_critic import examples, model

__all__ = ["examples", "model"]

SETTINGS = "{weights: full, warm_examples: 4, warm_batch: 2, steps: 2, states: 2, samples: 2, reply_tokens: 96}"


def train(examples: Path, model: Path, *more: object) -> list[object]:
    Path("settings.yaml").write_text(SETTINGS)
    command = ["critic", "train", "--reasoning", "--examples", examples, "--model", model, "--least", "1"]
    return [*command, "--out", "critic", "--config", "settings.yaml", *more]


@pytest.mark.long
def test_it_writes_a_model_that_can_be_asked_and_what_it_is_worth_on_tasks_it_did_not_learn_from(examples, model, run):
    status, out, err = run(*train(examples, model, "--held-out", "0.3"))
    assert status == 0, err
    assert "to be named as --judge with --reasoning" in out
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert fitted.held_out is not None
    assert (fitted.learned_from + fitted.held_out.n, fitted.tasks + fitted.held_out.accuracy.n) == (16, 8)
    assert (fitted.held_out.unreadable, fitted.held_out.auroc) == (fitted.held_out.n, None), "two steps teach no form"
    signals = [json.loads(line) for line in Path("critic/signals.jsonl").read_text().splitlines()]
    assert [(signal["step"], signal["rows"], signal["count/unread_verdicts"]) for signal in signals] == [
        (1, 4, 4),
        (2, 4, 4),
    ]
    names = {"checkpoints", "config.json", "critic", "signals.jsonl", "summary.json", "warm"}
    assert {entry.name for entry in Path("critic").iterdir()} == names
    assert Path("critic/critic/model.safetensors").is_file()
    assert not Path("critic/critic/calibration.json").exists()
    command = ("evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--temperature", "1")
    status, out, err = run(*command, "--best-of", "2", "--judge", "critic/critic", "--reasoning", "--out", "play")
    assert status == 0, err
    assert "verdicts: 0 correct, 0 wrong" in out


@pytest.mark.long
@pytest.mark.parametrize("weights", ["lora", "full"])
def test_the_saved_critic_says_what_the_trained_one_said(weights, examples, model, run, monkeypatch):
    verdicts: list[tuple[ActionQuestion, str]] = []

    def keep(critic: Critic, questions: Sequence[ActionQuestion], **how: Any) -> list[Verdict]:
        judged = ask(critic, questions, **how)
        if critic.draws_at is None:  # of held-out actions
            verdicts.extend(zip(questions, (verdict.reply for verdict in judged), strict=True))
        return judged

    with monkeypatch.context() as patch:
        patch.setattr("align_echo.gaia.fit.reasoning.ask", keep)
        command = train(examples, model, "--held-out", "0.3", "--weights", weights)
        rate = {"lora": "3e-2", "full": "1e-2"}[weights]
        Path("settings.yaml").write_text(SETTINGS.replace("weights: full", f"warm_lr: {rate}"))
        status, _, err = run(*command)
        assert status == 0, err
    assert verdicts
    assert Path("critic/critic/adapter").is_dir() == (weights == "lora")

    def replies(name: str) -> list[str]:
        critic = Critic(load_model(name), votes=1, max_tokens=96)
        return [verdict.reply for verdict in ask(critic, [question for question, _ in verdicts])]

    assert replies("./critic/critic") == [reply for _, reply in verdicts] != replies(str(model))


@pytest.mark.long
def test_it_goes_on_where_it_was_by_whatever_path_the_examples_are_named(examples, model, run):
    assert run(*train(examples, model, "--held-out", "0"))[0] == 0
    before = Path("critic/critic/model.safetensors").read_bytes()
    signals = Path("critic/signals.jsonl").read_text()
    shutil.rmtree("critic/critic")
    Path("critic/summary.json").unlink()
    shutil.copytree(examples, "elsewhere")
    status, out, err = run(*train(Path("elsewhere"), model, "--examples", examples, "--held-out", "0", "--resume"))
    assert status == 0, err
    assert "the critic is not tested" in out
    assert "warm start" not in err
    assert Path("critic/critic/model.safetensors").read_bytes() == before
    assert Path("critic/signals.jsonl").read_text() == signals
    status, _, err = run(*train(examples, model, "--held-out", "0", "--lr", "0.5", "--resume"))
    assert (status, err.count("\n")) == (2, 1)
    assert "critic was started with settings.lr = 0.0001, not 0.5" in err


@pytest.mark.long
def test_what_it_was_taught_by_stays_the_same(examples, model, run, monkeypatch):
    assert run(*train(examples, model, "--held-out", "0"))[0] == 0

    def changed(name: str) -> str:
        return "another" if name == "critic/reason" else prompt_hash(name)

    monkeypatch.setattr("align_echo.gaia.fit.folder.prompt_hash", changed)
    status, _, err = run(*train(examples, model, "--held-out", "0", "--resume"))
    assert (status, err.count("\n")) == (2, 1)
    assert "critic was started with prompt.critic/reason = " in err


@pytest.mark.long
def test_as_many_tokens_are_learned_from_at_once_as_fit_and_a_resumed_run_keeps_the_number(examples, model, run):
    used = estimate(crew_config(str(model), ReasoningSettings()), dict.fromkeys(ROLES, str(model))).memory
    less = sum(used.values()) - used["activations of learning"] // 3
    command = train(examples, model, "--held-out", "0", "--memory")
    try:
        for memory, more in ((less, ()), (8 * less, ("--resume",))):
            status, _, err = run(*command, f"{memory // 2**20}MiB", *more)
            assert status == 0, err
            assert json.loads(Path("critic/config.json").read_text())["settings"]["tokens_per_batch"] == 4096
        status, _, err = run(*command, "1MiB", "--out", "none")
        assert (status, err.count("\n")) == (2, 1)
        assert "does not fit in 1 MiB of memory" in err
        assert not Path("none").exists()
    finally:
        POOL.set_limit(0)


def test_replies_too_short_for_what_is_to_be_imitated_are_refused(examples, model, run):
    command = train(examples, model)
    Path("settings.yaml").write_text("{weights: full, reply_tokens: 8}")
    status, out, err = run(*command)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "no demonstration fits into 8 tokens: set `reply_tokens`, or `warm_examples: 0`" in err
    assert not Path("critic").exists()


def test_too_few_actions_are_refused(examples, model, run):
    status, out, err = run(*train(examples, model, "--held-out", "0", "--least", "17"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "16 actions are too few to learn from (none was left out): a critic needs 17" in err
    assert not Path("critic").exists()


def test_a_setting_that_it_does_not_have_is_refused(examples, model, run):
    command = train(examples, model)
    Path("settings.yaml").write_text("{epochs: 3}")
    status, out, err = run(*command)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "settings.yaml: epochs: there is no such setting" in err
    assert not Path("critic").exists()
