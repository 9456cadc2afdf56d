"""A method, an advantage and a critic reward from a file of one's own, trained with through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from align_echo.cli.main import main
from tests.train.run_record import write_models

FILE = """
from dataclasses import replace

from align_echo.tokens import TokenSequence
from align_echo.train.method import BatchCost, Method
from align_echo.train.objective import BatchLoss, summed
from align_echo.train.rewards import REWARDS
from align_echo.train.rows import RolloutBatch, Row


def collect(tasks, stage, collecting):
    earned = REWARDS.get(collecting.critic_reward)(0.25, 0.75)
    said = [TokenSequence((5, 6, 7, 8 + n), (0, 0, 1, 1), (0.0, 0.0, -1.0, -1.0), ((2, 4),)) for n in range(2)]
    return RolloutBatch(tuple(Row(tokens, "policy", tasks[0], n * earned) for n, tokens in enumerate(said)), steps=1)


def sevens(rows, groups, scaled):
    return [7.0 for row in rows]


def loss(batch, logprobs, objective, *, old, reference, stale):
    return BatchLoss(summed(-logprobs * batch.advantages, batch))


def still(batch, logprobs, objective, **_):
    return BatchLoss(summed(0 * logprobs, batch))


def tenfold(before, after):
    return 10 * (after - before)


OURS = Method("ours", collect, lambda collecting: BatchCost(0, rows=2))
OWN = replace(OURS, advantage=sevens, loss=loss)
STILL = replace(OURS, loss=still)

NO_BOUNDS = replace(OURS, bounds=3)
NO_COST = replace(OURS, bounds=lambda collecting: 3)
NUMBER = replace(OURS, loss=lambda batch, logprobs, objective, **_: logprobs.sum())
VECTOR = replace(OURS, loss=lambda batch, logprobs, objective, **_: BatchLoss(logprobs.sum(-1)))
ROWS = replace(OURS, loss=lambda batch, logprobs, objective, **_: BatchLoss(summed(logprobs.sum(-1), batch)))
NAN = replace(OURS, loss=lambda batch, logprobs, objective, **_: BatchLoss(summed(logprobs * float("nan"), batch)))
BROKEN = replace(OURS, loss=lambda batch, logprobs, objective, **_: 1 / 0)
NO_NUMBERS = replace(OURS, advantage=lambda rows, groups, scaled: [float("nan") for row in rows])
ONE = replace(OURS, advantage=lambda rows, groups, scaled: [1.0])


def word(before, after):
    return "much"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own")
    write_models(made)
    (made / "own_method.py").write_text(FILE)
    return made


def train(folder: Path, text: str, out: str, *more: str) -> int:
    (folder / f"{out}.yaml").write_text(f"{text}\nmodel: ./first\nsteps: 2\noptimising: {{lr: 1.0e-2}}\n")
    return main(["train", "--config", f"{out}.yaml", "--out", out, *more])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def moved(folder: Path, out: str) -> bool:
    before, after = weights(folder / "first"), weights(folder / out / "policy")
    return any(not torch.equal(before[name], after[name]) for name in after)


def signals(folder: Path, out: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / out / "signals.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_a_methods_own_advantage_and_loss_are_those_it_learns_by(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert train(folder, "method: own_method:OWN", "own") == 0
    assert "advantage: that of own_method:OWN; loss: that of own_method:OWN" in capsys.readouterr().err
    steps = signals(folder, "own")
    assert [(step["policy/advantage"], step["policy/advantage_std"]) for step in steps] == [(7.0, 0.0)] * 2
    assert steps[0]["policy/loss"] > 7  # 7 nats and more a token, where ours is 0 at first
    assert "policy/clip_share" not in steps[0]
    assert moved(folder, "own")
    assert train(folder, "method: own_method:STILL", "still") == 0
    assert not moved(folder, "still")
    named = 'method: own_method:OWN\nstep: {advantage: group}'
    assert train(folder, named, "named") == 0
    assert signals(folder, "named")[0]["policy/advantage"] == pytest.approx(0)
    assert train(folder, "method: own_method:OWN", "own", "--resume") == 0


def test_an_advantage_and_a_reward_of_ones_own_are_named_in_a_config(folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = 'method: own_method:OURS\nstep: {advantage: "own_method:sevens"}\n'
    assert train(folder, f'{text}collecting: {{critic_reward: "own_method:tenfold"}}', "by-name") == 0
    first = signals(folder, "by-name")[0]
    assert (first["policy/advantage"], first["policy/reward"]) == (7.0, 2.5)
    config = json.loads((folder / "by-name" / "config.json").read_text())["config"]
    names = (config["step"]["advantage"], config["collecting"]["critic_reward"])
    assert names == ("own_method:sevens", "own_method:tenfold")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: own_method:NO_BOUNDS", "its bounds is an int, and must be a function"),
        ("method: own_method:NO_COST", "the bounds of own_method:NO_COST give an int, and must give a BatchCost"),
        ("method: own_method:NUMBER", "gives a Tensor, and must give a BatchLoss"),
        ("method: own_method:VECTOR", "must be a scalar tensor with a gradient"),
        ("method: own_method:ROWS", "have the shape [2], and must have that of the mask, [2, 1]"),
        ("method: own_method:NAN", "must be finite numbers"),
        ("method: own_method:BROKEN", "the loss of own_method:BROKEN fails: ZeroDivisionError: division by zero"),
        ("method: own_method:NO_NUMBERS", "it must give a finite number for each"),
        ("method: own_method:ONE", "gives [1.0] for 4 rows"),
        ("method: own_method:OWN\nbackend: trl", "backend: trl has a loss of its own"),
        ('method: grpo\nstep: {advantage: "own_method:collect"}', "the advantage own_method:collect fails"),
        ('method: grpo\nstep: {advantage: "own_method:FILE"}', "the module own_method has no FILE"),
        ("method: grpo\nstep: {advantage: grup}", "unknown advantage 'grup'; did you mean group? known: group, reward"),
        ('method: echo\ncollecting: {critic_reward: "own_method:word"}', "gives 'much' for scores 0 and 0"),
        ('method: echo\ncollecting: {critic_reward: "own_method:OURS"}', "a critic reward is a function"),
        ("method: echo\ncollecting: {critic_reward: much}", "unknown critic reward 'much'"),
    ],
)
def test_what_is_wrong_with_ones_own_is_told_in_one_line_and_nothing_is_written(
    text, message, folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    assert train(folder, text, "wrong") == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not (folder / "wrong").exists()
