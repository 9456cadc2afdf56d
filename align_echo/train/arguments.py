"""The arguments of `transformers.Trainer` for trainings whose dataset holds ready steps, one item each.

Left out: those of a run of both roles, which plays and is evaluated while it learns (`run.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from transformers import TrainingArguments


def arguments_of(
    folder: Path,
    *,
    steps: int,
    lr: float,
    schedule: Literal["constant", "linear", "cosine"],
    warmup: float = 0.0,
    weight_decay: float = 0.0,
    bf16: bool,
    seed: int,
    log_every: int,
    save_every: int,
) -> TrainingArguments:
    """A training takes `steps` steps in the order of its dataset and keeps checkpoints in `folder`.

    `warmup` is a share of the steps.
    """
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=1,
        train_sampling_strategy="sequential",
        learning_rate=lr,
        lr_scheduler_type=schedule,
        warmup_steps=int(warmup * steps),
        weight_decay=weight_decay,
        max_grad_norm=1.0,
        bf16=bf16,
        use_cpu=not torch.cuda.is_available(),
        seed=seed,
        logging_steps=log_every,
        save_steps=save_every,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        logging_nan_inf_filter=False,
        dataloader_pin_memory=False,
    )
