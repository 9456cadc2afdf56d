"""Every setting of supervised training, seen where it acts (`tests/reach.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from align_echo.train.sft import SftSettings, fine_tune
from tests.reach import Case, Row, Scene, check, fields, unseen
from tests.train import test_sft
from tests.train.updates import Group, updates_kept

LENGTHS = (16, 15, 14, 13, 12, 11, 10, 9)
CHATS = [test_sft.chat(length) for length in (*LENGTHS, 40)]


@dataclass
class SftRecord(TrainerCallback):
    """What a training did: `batches` are the shapes of what was computed at once, rows and tokens."""

    updates: list[list[Group]] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    layers: list[torch.dtype] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    logged: list[int] = field(default_factory=list)

    @property
    def steps(self) -> list[list[Group]]:
        """The updates of both optimizers together."""
        return [update for update in self.updates if len(update) == 2]

    def rate(self, group: int) -> float:
        return max(update[group].lr for update in self.steps)

    @property
    def warmup(self) -> float:
        """The share of steps before the highest rate, in halves."""
        rates = [update[1].lr for update in self.steps]
        return round(2 * rates.index(max(rates)) / len(rates)) / 2

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.logged.append(state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.saved.append(state.global_step)


def row(name: str, see: Callable[[SftRecord], Any], *cases: Case) -> Row[SftRecord]:
    return Row(name, see, cases)


SCENE: Scene[SftRecord] = Scene(
    {},
    [
        row("epochs", lambda record: sum(rows for rows, _ in record.batches) // len(LENGTHS), (1.0, 1), (2.0, 2)),
        row("tokens_per_batch", lambda record: record.batches[0][0], (32, 2), (16, 1)),
        row("longest", lambda record: max(tokens for _, tokens in record.batches), (39, 16), (40, 40)),
        row("muon_lr", lambda record: record.rate(0), (0.02, 0.02), (0.03, 0.03)),
        row("adamw_lr", lambda record: record.rate(1), (1e-3, 1e-3), (2e-3, 2e-3)),
        row(
            "weight_decay",
            lambda record: [group.weight_decay for group in record.steps[-1]],
            *((0.0, [0.0, 0.0]), (0.1, [0.1, 0.1])),
        ),
        row("warmup", lambda record: record.warmup, (0.0, 0.0), (0.5, 0.5)),
        row("bf16", lambda record: str(record.layers[0]), (False, "torch.float32"), (True, "torch.bfloat16")),
        row("log_every", lambda record: record.logged[0], (2, 2), (3, 3)),
        row("save_every", lambda record: record.saved[0], (2, 2), (5, 5)),
    ],
)


def trained(settings: SftSettings, folder: Path) -> SftRecord:
    record, network = SftRecord(), test_sft.model()

    def seen(module: Any, given: Any, options: dict[str, torch.Tensor]) -> None:
        record.batches.append((options["input_ids"].shape[0], options["input_ids"].shape[1]))

    network.register_forward_pre_hook(seen, with_kwargs=True)
    linear = network.model.layers[0].mlp.up_proj
    linear.register_forward_hook(lambda module, given, made: record.layers.append(made.dtype))
    with updates_kept(record.updates):
        fine_tune(network, CHATS, settings, folder, callbacks=[record])
    return record


def test_every_setting_is_seen_where_it_acts():
    apart: dict[str, Callable[..., object]] = {
        "seed": test_another_seed_is_another_order,
        "share_prefixes": test_sft.test_chats_that_begin_alike_are_read_as_one_tree_and_teach_the_same,
        "context_weight": test_sft.test_replies_count_by_their_weight_others_little_and_instructions_not_at_all,
    }
    assert unseen(fields(SftSettings), [SCENE], apart) == []


def test_settings_act(tmp_path):
    check(SCENE, lambda values, run: trained(SftSettings(**values), tmp_path / str(run)))


@pytest.mark.long
def test_another_seed_is_another_order(tmp_path):
    first, other, again = (
        trained(SftSettings(seed=seed, bf16=False, tokens_per_batch=16), tmp_path / str(run)).batches
        for run, seed in enumerate((0, 5, 0))
    )
    assert first == again != other
    assert sorted(first) == sorted(other)
