"""Optimizer steps on rows that are given: by this package's trainer and by TRL's, both timed at the same places.

A step (see `stopwatch`) is advantages, padding, forward and backward passes, clipping and AdamW. What stands for
generation (handing over the rows; in TRL all of `_generate`, which also decodes them) is taken out.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainingArguments

from align_echo.tokens import TokenSequence
from align_echo.train.backbone import WholeModels
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import RolloutBatch, Row
from align_echo.train.trainer import RoleTrainer, StepSettings, build_optimizer
from studies.training_arms.stopwatch import Spent, Stopwatch

GROUP = 8
LR = 1e-6
BETA = 0.001
FIRST_ID = 8
"""Ids below may be special tokens."""


@dataclass(frozen=True)
class Shape:
    """Rows of a step: tokens of a prompt, of a completion, and turns that a completion is divided into, of which the
    second half of the tokens is the environment's; `spread`: how much shorter the shortest row is, as a share.
    """

    rows: int
    prompt: int
    completion: int
    turns: int = 1
    spread: float = 0.0


def some_rows(shape: Shape, vocabulary: int, seed: int) -> list[Row]:
    """Random rows of that shape with random rewards; a group shares its prompt."""
    dice = random.Random(seed)
    measured = []
    for number in range(shape.rows):
        if number % GROUP == 0:
            prompt = tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(shape.prompt))
        length = round(shape.completion * (1 - shape.spread * dice.random()))
        completion = tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(length))
        turn = max(1, length // shape.turns)
        sampled = [int(shape.turns == 1 or index % turn < (turn + 1) // 2) for index in range(length)]
        ids, mask = (*prompt, *completion), (*[0] * len(prompt), *sampled)
        tokens = TokenSequence(ids, mask, (0.0,) * len(ids), ((len(prompt), len(ids)),))
        measured.append(Row(tokens, "policy", str(number // GROUP), dice.random()))
    return measured


def ours(model: Any, rows: Sequence[Row], micro: int, steps: int, folder: Path, *, kl: bool) -> list[Spent]:
    """Steps of `RoleTrainer`; `micro` rows of the longest fit a batch. Rows share no prefixes, as TRL's do not."""
    learner = copy.deepcopy(model)
    backbone, watch = WholeModels({"policy": learner, "critic": learner}, reference=kl), Stopwatch()
    longest = max(len(row.tokens.ids) for row in rows)
    trainer = RoleTrainer(
        backbone,
        watch.paused(lambda number: RolloutBatch(tuple(rows))),
        StepSettings(
            objective=ObjectiveSettings(beta=BETA if kl else 0.0),
            tokens_per_batch=micro * longest,
            normalisation="sequence",  # as TRL's "grpo" does
            share_prefixes=False,
        ),
        TrainingArguments(
            str(folder),
            max_steps=steps,
            learning_rate=LR,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            logging_steps=1,
            save_strategy="no",
        ),
        optimizer=build_optimizer(backbone, {"policy": LR, "critic": LR}),
        publish=lambda: None,
        watch=lambda step, signals: None,
        callbacks=[watch],
    )
    return _stepped(trainer, watch)


def _stepped(trainer: Any, watch: Stopwatch) -> list[Spent]:
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return watch.steps


def trls(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    micro: int,
    steps: int,
    folder: Path,
    *,
    kl: bool,
) -> list[Spent]:
    """Steps of a stock `GRPOTrainer`, `micro` rows a batch. Its model must be in `folder`, for the reference."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    starts = [row.tokens.mask.index(1) for row in rows]

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        parts = list(zip(rows, starts, strict=True))
        return {
            "prompt_ids": [list(row.tokens.ids[:start]) for row, start in parts],
            "completion_ids": [list(row.tokens.ids[start:]) for row, start in parts],
            "env_mask": [list(row.tokens.mask[start:]) for row, start in parts],
            "logprobs": None,
            "earned": [row.reward for row in rows],
        }

    learner = copy.deepcopy(model)
    watch = Stopwatch()
    arguments = GRPOConfig(
        output_dir=str(folder),
        max_steps=steps,
        learning_rate=LR,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        disable_tqdm=True,
        logging_steps=1,
        save_strategy="no",
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=len(rows) // micro,
        num_generations=GROUP,
        loss_type="grpo",
        beta=BETA if kl else 0.0,
        use_bias_correction_kl=False,
    )
    make: Callable[..., Any] = GRPOTrainer
    trainer = make(
        model=learner,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * (len(rows) // GROUP)),
        processing_class=tokenizer,
        reward_funcs=lambda earned, **_: earned,
        rollout_func=rollout,
        callbacks=[watch],
    )
    trainer._generate = watch.paused(trainer._generate)
    return _stepped(trainer, watch)
