"""A trainer that writes a checkpoint of its last whole step when it is stopped early.

An optimizer step, with the logging and checkpoint after it, is never interrupted. Playing, forward and backward passes
and evaluations are. The checkpoint then holds weights, optimizer and random generators as after the last step; the
resumed run makes an evaluation that was due. One process alone cannot write weights divided among processes; for them
the newest regular checkpoint remains.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput

from align_echo.base import halting
from align_echo.base.files import clear
from align_echo.run_dir import FINISHED, checkpoint_step, whole_checkpoints
from align_echo.train import processes
from align_echo.train.backbone import Backbone
from align_echo.train.rows import Role
from align_echo.train.signals import Signals


class KeepingTrainer(Trainer):
    """A `Trainer` that saves its last whole step when stopped. Subclasses save more in `_keep_more`.

    It does not count floating-point operations: all processes would have to synchronize for that.
    """

    _stepping_from: int | None = None
    _going_on_from: str | bool | None = None
    _dice: tuple[int, Mapping[str, Any]] = (0, MappingProxyType({}))

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train as `transformers` does; save the last whole step if stopped."""
        self._going_on_from = resume_from_checkpoint
        callback = _Sections(self)
        self.add_callback(callback)
        try:
            with halting.keeping(self._keep_step):
                try:
                    result: TrainOutput = super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
                except _OverError:
                    finalize: Any = self._finalize_training
                    result = finalize(trial, 0, time.time())
                halting.let_go()
                return result
        finally:
            self.remove_callback(callback)

    def store_flos(self) -> None:
        """Do nothing (see the class)."""

    # ---------------------------------------------------------------- ended before its time

    def _keep_step(self) -> str:
        """Write a checkpoint of the last whole step, unless it exists, and return a message about what is saved."""
        folder, step = Path(str(self.args.output_dir)), int(self.state.global_step)
        if not processes.is_first():
            return "the first process keeps the last step"
        newest = next(reversed(whole_checkpoints(folder)), None)
        last = checkpoint_step(str(newest)) if newest else 0
        problem = ""
        if step > last and self._is_whole(step) and not self._writes_alone(step):
            problem = f"step {step} is lost, as one process alone cannot write it; "
        elif step > last and self._is_whole(step):
            newest, before = folder / f"{PREFIX_CHECKPOINT_DIR}-{step}", newest
            try:
                self._write_step(newest)
            except OSError as error:
                problem = f"step {step} cannot be written ({error.strerror or error}); "
                clear(folder, [newest.name])
                newest = before
        if newest is None:
            return f"{problem}no step is kept" if problem else "no step is finished"
        return f"{problem}step {checkpoint_step(str(newest))} is kept in {newest}"

    def _is_whole(self, step: int) -> bool:
        """Return whether the weights are those after this step."""
        return step != self._stepping_from

    def _writes_alone(self, step: int) -> bool:
        """Return whether one process alone can write a checkpoint of this step."""
        return not (self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def _write_step(self, folder: Path) -> None:
        """Write a checkpoint as `transformers` does, but without other processes, and without deleting older ones."""
        clear(folder.parent, [folder.name])
        self.save_model(str(folder), _internal_call=True)
        step, states = self._dice
        if step == self.state.global_step:
            set_dice(states)
        self._save_optimizer_and_scheduler(str(folder))
        self._save_scaler(str(folder))
        self._save_rng_state(str(folder))
        self._keep_more(folder)
        exported = [part for part in (*self.callback_handler.callbacks, self.control) if _is_exported(part)]
        names = [type(each).__name__ for each in exported]
        states = {
            name: [each.state() for each in exported if type(each).__name__ == name] for name in dict.fromkeys(names)
        }
        callbacks: Any = self.state.stateful_callbacks
        callbacks.update({name: known if len(known) > 1 else known[0] for name, known in states.items()})
        self.state.save_to_json(str(folder / FINISHED))

    def _keep_more(self, folder: Path) -> None:
        """Write more state of an interrupted step. For subclasses."""

    # ---------------------------------------------------------------- going on

    def _catch_up(self) -> None:
        """Make the evaluation that was due after the last step, and the checkpoint after it.

        Raises `_OverError` if this ends the training.
        """
        folder = Path(str(self._going_on_from))
        self._load_rng_state(str(folder))
        if processes.is_first():
            (folder / FINISHED).unlink(missing_ok=True)  # the checkpoint is written again
        self.control.should_training_stop = self.state.global_step >= self.state.max_steps
        halting.hold()
        epoch = float(self.state.epoch or 0)
        self._maybe_log_save_evaluate(self._tr_loss, None, self.model_wrapped, None, epoch, None, time.time())
        halting.let_go()
        if self.control.should_training_stop:
            raise _OverError


class _OverError(Exception):
    """The pending evaluation has ended the training."""


class _Sections(TrainerCallback):
    """Callback that marks the begin of an optimizer step and the end of everything after it."""

    def __init__(self, trainer: KeepingTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if self._trainer._going_on_from and control.should_evaluate:
            self._trainer._catch_up()

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        halting.hold()
        self._trainer._stepping_from = int(state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._trainer._dice = int(state.global_step), dice()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._trainer._stepping_from = None
        halting.let_go()


def _is_exported(callback: object) -> bool:
    return isinstance(callback, ExportableState)


# ---------------------------------------------------------------- random generators


def dice() -> dict[str, Any]:
    """Return the states of all random generators of this process."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state(), "cuda": cuda}


def set_dice(states: Mapping[str, Any]) -> None:
    """Restore the states of the random generators."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])


# ---------------------------------------------------------------- common base of both trainers

Evaluation = Callable[[], Signals]


class RoleCheckpoints(KeepingTrainer):
    """A trainer of both roles. Subclasses set the attributes below.

    `transformers` loads weights divided among processes.
    """

    _backbone: Backbone
    _tokenizers: Mapping[Role, PreTrainedTokenizerBase]
    _evaluation: Evaluation | None
    _publish: Callable[[], None]
    _last: Path | None

    def close(self) -> None:
        """Stop a batch played ahead. Nothing to do here."""

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the held-out tasks with the current weights and log the figures."""
        if self._evaluation is None:
            return {}
        with halting.interruptible():
            self._publish()
            figures = self._evaluation()
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in figures.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_rng_state(self, output_dir: str) -> None:
        if processes.is_first():  # draws are seeded one by one, and those of all processes are alike
            super()._save_rng_state(output_dir)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        for role in self._backbone.kept:
            folder = Path(output_dir or str(self.args.output_dir)) / role
            self._backbone.save(role, folder, writes=processes.is_first())
            if role in self._tokenizers and processes.is_first():
                self._tokenizers[role].save_pretrained(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._load_roles(resume_from_checkpoint, model)

    def _load_roles(self, checkpoint: str, model: Any) -> None:
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            super()._load_from_checkpoint(checkpoint, model)
            return
        for role in self._backbone.kept:
            self._backbone.load(role, Path(checkpoint) / role)

    def _load_best_model(self) -> None:
        if self._last is not None:
            self._save(str(self._last))
        if self.is_deepspeed_enabled:
            super()._load_best_model()
        elif self.state.best_model_checkpoint is not None:
            self._load_roles(self.state.best_model_checkpoint, self.model_wrapped)
