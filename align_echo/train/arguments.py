"""Arguments of `transformers.Trainer`: for training on a dataset with one item a step, and for a run that plays and is
evaluated while it learns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer
from transformers import TrainingArguments

from align_echo.train.config import TrainConfig
from align_echo.train.processes import LONGEST_WAIT
from align_echo.train.trackers import PROJECT, reported_by_name


def build_arguments(
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
    """Build the arguments for `steps` steps in the order of the dataset, with checkpoints in `folder`.

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


def run_settings(config: TrainConfig, folder: Path, last_step: int) -> dict[str, Any]:
    """Return the arguments of a run in `folder` by name, for our trainer and for TRL's."""
    every, plan = config.evaluating.every, config.optimising.schedule
    return {
        "output_dir": str(folder / "checkpoints"),
        "max_steps": last_step,
        "learning_rate": config.optimising.lr,
        "lr_scheduler_type": "constant_with_warmup" if plan == "constant" else plan,
        "warmup_steps": config.optimising.warmup_steps,
        "max_grad_norm": config.optimising.max_grad_norm,
        "bf16": config.bf16,
        "use_cpu": not torch.cuda.is_available(),
        "seed": config.seed,
        "save_steps": config.steps_a_checkpoint,
        "save_total_limit": 2,
        "logging_steps": 1,
        "eval_strategy": "steps" if every else "no",
        "eval_steps": every or None,
        "load_best_model_at_end": bool(every),
        "metric_for_best_model": "eval_score" if every else None,
        "greater_is_better": True,
        "restore_callback_states_from_checkpoint": True,
        "report_to": reported_by_name(config.report_to),
        "run_name": str(folder),
        "project": PROJECT,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "logging_nan_inf_filter": False,
        "dataloader_pin_memory": False,
        "ddp_timeout": int(LONGEST_WAIT.total_seconds()),
    }


# ---------------------------------------------------------------- optimizers


class MuonWithAdamW(Optimizer):
    """Muon and AdamW behind one interface: schedulers and checkpoints see the parameter groups of both."""

    def __init__(
        self, model: nn.Module, *, muon_lr: float = 0.02, adamw_lr: float = 3e-3, weight_decay: float = 0.01
    ) -> None:
        hidden, rest = split_parameters(model)
        self._both: tuple[Optimizer, ...] = (
            Muon(hidden, lr=muon_lr, weight_decay=weight_decay),
            AdamW(rest, lr=adamw_lr, betas=(0.9, 0.95), weight_decay=weight_decay),
        )
        super().__init__([*hidden, *rest], {})
        self.param_groups = [group for optimizer in self._both for group in optimizer.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step with each optimizer. A `closure` is evaluated once, before both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for optimizer in self._both:
            optimizer.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both, in order."""
        return {"both": [optimizer.state_dict() for optimizer in self._both]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both."""
        for optimizer, state in zip(self._both, state_dict["both"], strict=True):
            optimizer.load_state_dict(state)
        self.param_groups = [group for optimizer in self._both for group in optimizer.param_groups]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Split the trained parameters into (matrices of hidden layers, all others)."""
    embeddings = {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    head = getattr(model, "lm_head", None)
    outside = embeddings | ({id(p) for p in head.parameters()} if isinstance(head, nn.Module) else set())
    trained = [p for p in model.parameters() if p.requires_grad]
    hidden = [p for p in trained if p.ndim == 2 and id(p) not in outside]
    return hidden, _without(trained, hidden)


def _without(parameters: Iterable[nn.Parameter], left_out: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    known = {id(p) for p in left_out}
    return [p for p in parameters if id(p) not in known]
