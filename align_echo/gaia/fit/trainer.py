"""Trainer of an intuitive critic, whatever its input: cross-entropy on the token "correct" or "wrong".

Checkpoints, resume and devices come from `transformers.Trainer` and PEFT. Not here: the content of a step, for text
(`learning.py`) and for screens (`gui/learning.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from peft import PeftModel, get_peft_model
from pydantic import Field
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback

from align_echo.base.progress import Progress
from align_echo.critic.ask import CriticCalibration, write_calibration
from align_echo.critic.calibration import CriticReport, LabelledVerdict, fit_temperature, report
from align_echo.gaia.fit.folder import merge_adapter, partial_folder, publish_critic
from align_echo.models.local.weights import load_state, read_model, without_bars
from align_echo.run_dir import CHECKPOINTS, checkpoint_step, newest_checkpoint
from align_echo.train.arguments import build_arguments
from align_echo.train.backbone import name_layers_in_order
from align_echo.train.checkpoints import KeepingTrainer
from align_echo.train.config import LoraSettings
from align_echo.train.role_models import build_lora_config
from align_echo.types import Frozen

MOST_BETWEEN = 50
"""Default for the most steps between checkpoints."""


class LearningSettings(Frozen, allow_inf_nan=False):
    """Settings of every critic training; defaults are GAIA's."""

    weights: Literal["lora", "full"] = "lora"
    """LoRA on all linear layers, or all weights."""
    rank: int = Field(default=8, ge=1)
    """Rank of LoRA."""
    alpha: int = Field(default=32, ge=1)
    """Alpha of LoRA: its scale is alpha / rank."""
    lr: float = Field(default=1e-4, gt=0)
    """Learning rate of AdamW."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of steps with a rising rate; afterwards it falls linearly."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW."""
    epochs: int = Field(default=1, ge=1)
    """Passes over all examples."""
    batch_size: int = Field(default=16, ge=1)
    """Actions a step."""
    bf16: bool = False
    """Mixed precision (bfloat16)."""
    seed: int = 0
    """Seed of the order and of new adapters."""
    save_every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints; null: four in total, at most 50 steps apart."""


@dataclass(frozen=True)
class StepPart:
    """Questions of a step, computed at once: `logits` returns the model's logits after each [R, V], with gradient;
    `words` [R] are the target tokens, and `weights` [R] their weights, about 1 on average.
    """

    logits: Callable[[Any], torch.Tensor]
    words: list[int]
    weights: list[float]


def build_learner(model: PreTrainedModel, settings: LearningSettings) -> Any:
    """Return the model with a new adapter on all linear layers, or the model itself for full training."""
    if settings.weights == "full":
        return model
    torch.manual_seed(settings.seed)
    return name_layers_in_order(
        get_peft_model(model, build_lora_config(LoraSettings(rank=settings.rank, alpha=settings.alpha)))
    )


class VerdictTrainer(KeepingTrainer):
    """Minimises the weighted mean cross-entropy of a step's verdicts over the full vocabulary, part by part."""

    def __init__(
        self,
        learner: Any,
        steps: Sequence[Sequence[Any]],
        parts: Callable[[Sequence[Any]], Iterator[StepPart]],
        settings: LearningSettings,
        folder: Path,
        *,
        progress: Progress,
        callbacks: Iterable[TrainerCallback],
    ) -> None:
        """`steps` holds the questions of each step; `parts` divides them; checkpoints go to `folder`. `progress` gets
        the loss in one line whenever it is logged.
        """
        without_bars()
        arguments = build_arguments(
            folder,
            steps=len(steps),
            lr=settings.lr,
            schedule="linear",
            warmup=settings.warmup,
            weight_decay=settings.weight_decay,
            bf16=settings.bf16,
            seed=settings.seed,
            log_every=10,
            save_every=settings.save_every or max(1, min(MOST_BETWEEN, len(steps) // 4)),
        )
        super().__init__(
            model=learner,
            args=arguments,
            train_dataset=cast("Any", list(steps)),
            data_collator=_only,
            callbacks=list(callbacks),
        )
        self.remove_callback(PrinterCallback)
        self._learner, self._parts, self._progress = learner, parts, progress

    def learned(self, *, resume: bool) -> Any:
        """Train and return the model, with its adapter if it has one; `resume` continues from the last checkpoint."""
        done = checkpoint_step(newest_checkpoint(Path(str(self.args.output_dir)))) if resume else 0
        if done:
            self._progress.say(f"going on after step {done} of {self.args.max_steps}")
        self.train(resume_from_checkpoint=resume or None)
        self._learner.eval()
        return self._learner

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the figures of a step, called by `transformers`."""
        super().log(logs, start_time)
        if "loss" in logs:
            self._progress.say(f"step {self.state.global_step}/{self.state.max_steps}: loss {logs['loss']:.3f}")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load the weights, also of a Qwen2.5-VL, whose older names in files `transformers` 5.23 skips with a warning.
        """
        learner: Any = self.model
        if isinstance(learner, PeftModel):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        else:
            load_state(learner, read_model(type(learner), resume_from_checkpoint, torch.float32).state_dict())

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Accumulate the gradient of one step and return its loss, detached."""
        step = inputs["step"]
        device = self.args.device
        total = torch.zeros((), device=device)
        model.train()
        for part in self._parts(step):
            target_R = torch.tensor(part.words, device=device)
            weight_R = torch.tensor(part.weights, device=device)
            with self.compute_loss_context_manager():
                logits_RV = part.logits(model).float()
                losses_R = torch.nn.functional.cross_entropy(logits_RV, target_R, reduction="none")
            loss = (weight_R * losses_R).sum() / len(step)
            self.accelerator.backward(loss)
            total += loss.detach()
        return total


def _only(items: list[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {"step": items[0]}


# ---------------------------------------------------------------- train, calibrate and publish a critic


def fit_calibrated(
    path: Path,
    settings: LearningSettings,
    *,
    learn: Callable[[Path, bool], Any],
    verdicts: Callable[[Any], list[LabelledVerdict]],
    save: Callable[[Any, Path], None],
) -> tuple[CriticReport | None, list[LabelledVerdict]]:
    """Train a critic and publish it. Returns the report on its test examples (None without any), and its verdicts
    there.

    The temperature is the report's; without a report the critic stays uncalibrated, at 1. `learn(checkpoints, resume)`
    returns the trained model, with its adapter if it has one; it resumes from a complete checkpoint. `verdicts(critic)`
    asks it about its test examples, with logits. `save(critic, folder)` writes it with its tokenizer or processor.
    """
    checkpoints = path / CHECKPOINTS
    learned = learn(checkpoints, bool(newest_checkpoint(checkpoints)))
    folder = partial_folder(path)
    critic = merge_adapter(learned, settings.weights, folder)
    rows = verdicts(critic)
    rated = [(row.logit, row.label == "correct") for row in rows if row.logit is not None]
    temperature = fit_temperature([logit for logit, _ in rated], [right for _, right in rated]) if rows else 1.0
    save(critic, folder)
    if rows:
        write_calibration(CriticCalibration(temperature=temperature, n=len(rows)), folder)
    publish_critic(folder)
    return report(rows, temperature, seed=settings.seed) if rows else None, rows
