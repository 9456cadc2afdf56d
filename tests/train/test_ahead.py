"""Harvests that are played while the trainer learns: by which weights, what is kept, and that they can be given up."""

from __future__ import annotations

import json
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from align_echo.base.halting import pause
from align_echo.errors import ModelError
from align_echo.train.backbone import Backbone, WholeModels
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import RolloutBatch
from align_echo.train.run import TrainingRun
from align_echo.train.signals import Signals
from align_echo.train.trainer import AheadWorker, RoleTrainer
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.train.test_run import config_of, trained
from tests.train.test_trainer import (
    StopAt,
    adapters,
    differing,
    liking,
    liking_of,
    pair,
    settings_of,
    shared,
    trainer,
    weights_of,
)


class Published:
    """An engine's weights, as a number: how much the policy likes its token; and which harvest was played by which."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.of_harvest: dict[int, float] = {}
        self.now = 0.0

    def publish(self) -> None:
        self.now = liking_of(self._backbone, "policy")

    def recipe(self, number: int) -> RolloutBatch:
        self.of_harvest[number] = self.now
        return liking(number)


def run_ahead(folder: Path, backbone: Backbone, *, updates: int = 1, resume: bool = False, **options: Any) -> Published:
    played = Published(backbone)
    settings = settings_of(ahead=True, updates=updates)
    made: RoleTrainer = trainer(folder, backbone, played.recipe, settings, publish=played.publish, **options)
    made.train(resume_from_checkpoint=resume or None)
    made.close()
    return played


@pytest.mark.parametrize("updates", [1, 2])
def test_a_harvest_is_played_by_the_weights_from_before_the_one_that_is_learned_from(updates, tmp_path):
    seen: list[tuple[int, Signals]] = []
    backbone = shared()
    begin = liking_of(backbone, "policy")
    played = run_ahead(tmp_path, backbone, updates=updates, steps=4 * updates, seen=seen).of_harvest
    assert list(played) == [0, 1, 2, 3]
    assert played[0] == played[1] == begin
    assert begin < played[2] < played[3] < liking_of(backbone, "policy")
    behind = [signals["staleness"] for _, signals in seen]
    assert behind == ([0, 1, 1, 1] if updates == 1 else [0, 1, 2, 3, 2, 3, 2, 3])
    assert all(signals["policy/stale/log_ratio"] > 0 for _, signals in seen)


@pytest.mark.long
@pytest.mark.parametrize("make", [shared, pair, adapters])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_resumed_run_plays_by_the_weights_of_one_that_was_not_disturbed(make, updates, tmp_path):
    straight, resumed = make(), make()
    wanted = run_ahead(tmp_path / "straight", straight, updates=updates, steps=6)
    run_ahead(tmp_path / "cut", make(), updates=updates, steps=6, callbacks=[StopAt(4)])
    played = run_ahead(tmp_path / "cut", resumed, updates=updates, steps=6, resume=True)
    assert differing(weights_of(straight), weights_of(resumed)) == set()
    assert played.of_harvest.items() <= wanted.of_harvest.items()


@pytest.mark.long
def test_what_is_played_while_held_out_tasks_are_is_played_by_its_own_weights(tmp_path):
    plain, evaluated = shared(), shared()
    wanted = run_ahead(tmp_path / "plain", plain)
    options: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 1}
    played = run_ahead(tmp_path / "evaluated", evaluated, evaluation=lambda: {"score": 0.5}, **options)
    assert played.of_harvest == wanted.of_harvest
    assert differing(weights_of(plain), weights_of(evaluated)) == set()


def test_rows_of_the_weights_of_now_are_learned_from_as_without_it(tmp_path):
    losses = []
    for ahead in (False, True):
        seen: list[tuple[int, Signals]] = []
        backbone = shared()
        harvest = of_now(backbone)
        settings = settings_of(ahead=ahead)
        recipe = {0: harvest}.__getitem__
        trainer(tmp_path / str(ahead), backbone, recipe, settings, steps=1, seen=seen).train()
        losses.append([seen[0][1][name] for name in ("policy/loss", "critic/loss", "policy/grad_norm")])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def of_now(backbone: WholeModels) -> RolloutBatch:
    """The usual harvest, with the log-probabilities that its tokens have under the weights of now."""
    rows = []
    for row in liking(0).rows:
        with torch.no_grad():
            logprobs = backbone.activate(row.role)(input_ids=torch.tensor([row.tokens.ids])).logits[0].log_softmax(-1)
        last = float(logprobs[-2, row.tokens.ids[-1]])
        tokens = replace(row.tokens, logprobs=(*row.tokens.logprobs[:-1], last))
        rows.append(replace(row, tokens=tokens))
    return RolloutBatch(tuple(rows), steps=3)


def test_what_a_harvest_raises_is_raised_when_it_is_wanted():
    def play(number: int) -> RolloutBatch:
        raise ModelError("gone")

    ahead = AheadWorker(play)
    ahead.begin(1, 0)
    ahead.settle()
    assert ahead.take(2) is None
    with pytest.raises(ModelError, match="gone"):
        ahead.take(1)
    ahead.close()


def test_a_harvest_under_way_is_given_up_at_once():
    began = threading.Event()
    ends: list[str] = []

    def play(number: int) -> RolloutBatch:
        began.set()
        try:
            pause(60)
        except CancelledError:
            ends.append("given up")
            raise
        ends.append("waited for")
        return liking(number)

    ahead = AheadWorker(play)
    ahead.begin(1, 0)
    assert began.wait(60)
    ahead.close()
    assert ends == ["given up"]


@pytest.mark.long
def test_a_run_that_plays_ahead_resumes_to_the_same_weights_and_files(tmp_path):
    model = str(tmp_path / "model")
    tiny_model(context=4096).save_pretrained(model)
    tiny_tokenizer().save_pretrained(model)
    config = config_of("icrl", model, steps=4, save_every=2, step={"ahead": True})
    whole = trained(config, tmp_path / "whole")
    cut = TrainingRun(config, tmp_path / "cut")

    def stop_at(step: int, signals: Signals) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut.train(stop_at)
    rest = trained(config, tmp_path / "cut", resume=True)
    assert [signals["staleness"] for _, signals in whole] == [0, 1, 1, 1]
    assert [signals["staleness"] for _, signals in rest] == [1, 1]
    for name in ("policy/reward", "policy/tokens", "environment_steps"):
        assert [signals[name] for _, signals in rest] == [signals[name] for _, signals in whole[2:]]
    weights, others = (load_file(tmp_path / run / "policy" / "model.safetensors") for run in ("whole", "cut"))
    assert all(torch.allclose(weights[name], others[name], atol=1e-6) for name in weights)
    for run in ("whole", "cut"):
        lines = (tmp_path / run / "signals.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]
        kept = sorted(file.name for file in (tmp_path / run / "rollouts").iterdir())
        assert kept == [f"{step}.jsonl" for step in (1, 2, 3, 4)]


@pytest.mark.long
def test_rows_that_earlier_weights_sampled_are_weighed_by_the_trainer(tmp_path):
    losses = []
    for name, ahead, corrected in (("fresh", False, True), ("uncorrected", True, False), ("corrected", True, True)):
        seen: list[tuple[int, Signals]] = []
        settings = settings_of(ObjectiveSettings(corrected=corrected), ahead=ahead)
        made = trainer(tmp_path / name, shared(), liking, settings, steps=1, seen=seen)
        made.train()
        made.close()
        losses.append(seen[0][1]["policy/loss"])
    assert losses[0] == losses[1] != losses[2]
