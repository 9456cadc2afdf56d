"""`backend: trl` beside our own trainer: the same recipes end at the same weights, what TRL cannot do is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from align_echo.errors import TrainingError, UsageError
from align_echo.tokens import TokenSequence
from align_echo.train.config import checked_config, merged, method
from align_echo.train.rows import Row
from align_echo.train.run import Run
from align_echo.train.trl_plan import MicroBatches, divided
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.train.test_processes import check_same, losses, values_of, weights

pytestmark = pytest.mark.filterwarnings("ignore:.*(is_)?gradient_checkpointing.* is deprecated:FutureWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def train(values: dict[str, Any], folder: Path, *, resume: bool = False, until: int | None = None) -> None:
    class Stop(Exception):
        pass

    def watch(step: int, signals: dict[str, float]) -> None:
        if step == until:
            raise Stop

    with suppress(Stop):
        Run(checked_config(values, "test"), folder, resume=resume).train(watch)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one model": ("grpo", {}),
    "adapters, clipped apart": ("echo", {"weights": "adapters", "optimising": {"max_grad_norm": 0.1}}),
    "w_t": ("icrl", {"trl": {"rows": 3}}),
    "ratios of sequences": (
        "grpo",
        {
            "steps": 4,
            "save_every": 2,
            "step": {
                "normalisation": "sequence",
                "updates": 2,
                "objective": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
            },
        },
    ),
    "a KL term": ("echo", {"weights": "adapters", "step": {"objective": {"beta": 0.1}}}),
    "a KL term to a copy": ("grpo", {"step": {"objective": {"beta": 0.1}}}),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_both_backends_end_at_the_same_weights(case, model, tmp_path):
    name, changes = CASES[case]
    values = merged(values_of(name, model), changes)
    train(values, tmp_path / "own")
    train({**values, "backend": "trl"}, tmp_path / "trl")
    start = weights_at_start(model)
    moved = max(
        float((tensor - start.get(key, 0 * tensor)).abs().max())
        for key, tensor in weights(tmp_path / "own").items()
        if "lora_A" not in key
    )
    assert moved > 1e-3
    check_same(tmp_path / "own", tmp_path / "trl", within=3e-5)


def weights_at_start(model: str) -> dict[str, torch.Tensor]:
    return {f"policy {name}": tensor for name, tensor in tiny_model(context=4096).state_dict().items()}


@pytest.mark.long
def test_a_stopped_run_goes_on_to_the_same_end(model, tmp_path):
    values = {**values_of("echo", model, weights="adapters"), "backend": "trl"}
    values = merged(values, {"evaluating": {"every": 1, "tasks": 2}, "save_every": None})
    train(values, tmp_path / "whole")
    train(values, tmp_path / "cut", until=2)
    train(values, tmp_path / "cut", resume=True)
    last, other = (weights(tmp_path / run / "last") for run in ("whole", "cut"))
    assert all(torch.equal(last[name], other[name]) for name in last)
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")
    assert len((tmp_path / "cut" / "held_out.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("echo", {}, "adapters"),
        ("sft", {"env": "alfworld"}, "likelihood"),
        ("luffy", {"env": "alfworld"}, "shaped"),
        ("echo", {"weights": "adapters", "step": {"critic_warmup": 1}}, "critic_warmup"),
        ("grpo", {"step": {"normalisation": "sequence", "objective": {"beta": 0.1}}}, "KL term"),
        ("grpo", {"step": {"objective": {"beta": 0.1, "kl": "k1"}}}, "KL term"),
    ],
)
def test_what_trl_cannot_express_is_refused_before_anything_is_loaded(name, changes, why):
    values = merged(merged(method(name), changes), {"backend": "trl"})
    with pytest.raises(UsageError, match=f"backend: trl .*{why}.*: take own"):
        checked_config(values, "test")


def test_micro_batches_have_as_many_rows_in_every_process(monkeypatch):
    def row(length: int) -> Row:
        return Row(TokenSequence((0,) * length, (1,) * length, (0.0,) * length, ()), "policy", "", 1.0)

    taught = [(row(length), 1.0, 1.0) for length in (2, 9, 4, 7, 3)]
    plan, shares = MicroBatches(2, {"policy": 2}), []
    monkeypatch.setattr("align_echo.train.processes.count", lambda: 2)
    for number in (0, 1):
        monkeypatch.setattr("align_echo.train.processes.index", lambda number=number: number)
        shares.append([[len(row.tokens.ids) for row, *_ in part] for part in divided(taught, "policy", plan)])
    assert [[len(part) for part in share] for share in shares] == [[2, 1], [2, 1]]
    assert shares == [[[9, 4], [2]], [[7, 3], [2]]]  # the last is of no row: it counts nothing
    with pytest.raises(TrainingError, match="room for 8"):
        divided(taught * 2, "policy", plan)
