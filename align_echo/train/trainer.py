"""One trainer for all methods: play a batch, divide it into micro-batches, learn, publish the new weights.

`transformers.Trainer` provides optimizer, schedule, checkpoints, resuming, evaluation, early stopping and logging. The
number and size of micro-batches varies from step to step, so `training_step` accumulates their gradients itself. With
several processes each learns a part of the micro-batches, and gradients are summed (`processes.py`). Not here: weights
divided among processes (`trl_trainer.py`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, Field
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainerCallback, TrainingArguments

from align_echo.base import halting
from align_echo.base.halting import Halt, under, wait_for_result
from align_echo.errors import TrainingError
from align_echo.run_dir import checkpoint_step
from align_echo.train import processes
from align_echo.train.advantages import ADVANTAGES, AdvantageFunction, GroupAdvantages, counted
from align_echo.train.backbone import Backbone
from align_echo.train.batching import BATCH_TOKENS, Normalisation, TensorBatch, batches, scales
from align_echo.train.checkpoints import Evaluation, RoleCheckpoints
from align_echo.train.current_batch import HARVEST, CurrentBatch
from align_echo.train.forward import CHECKED_IDS, token_logprobs, why_not_shared
from align_echo.train.objective import LossFunction, ObjectiveSettings, batch_loss
from align_echo.train.rows import Role, RolloutBatch, Row
from align_echo.train.signals import LOSSES, LossSummary, Signals, batch_signals, numbers, without_loss
from align_echo.types import Frozen

# ---------------------------------------------------------------- play a batch while another one is learned


@dataclass(frozen=True)
class _UnderWay:
    number: int
    steps: int
    halt: Halt
    future: Future[RolloutBatch]


class AheadWorker:
    """A thread that plays at most one batch ahead. `play` plays a batch by its number."""

    def __init__(self, play: Callable[[int], RolloutBatch]) -> None:
        self._play = play
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="next-batch")
        self._next: _UnderWay | None = None

    def begin(self, number: int, steps: int) -> None:
        """Start playing a batch. The engines hold the weights after `steps` steps, and keep them until `take`."""
        halt = Halt()
        with under(halt):
            future = self._threads.submit(copy_context().run, self._play, number)
        self._next = _UnderWay(number, steps, halt, future)

    def settle(self) -> None:
        """Wait until a batch under way no longer needs the engines."""
        if self._next is not None:
            self._next.future.exception()

    def take(self, number: int) -> tuple[RolloutBatch, int] | None:
        """Return a batch and the number of steps behind the weights that played it; None if it was never begun.

        Waits for the batch and raises its errors.
        """
        under_way = self._next
        if under_way is None or under_way.number != number:
            return None
        batch = wait_for_result(under_way.future)
        self._next = None
        return batch, under_way.steps

    def close(self) -> None:
        """Stop the batch under way and wait for its threads to end."""
        if self._next is not None:
            self._next.halt.set()
        self._threads.shutdown(wait=True, cancel_futures=True)


# ---------------------------------------------------------------- one trainer for all methods

PlayFunction = Callable[[int], RolloutBatch]
"""Function that plays a batch with the current weights, by its number from 0."""

PLAYING_WEIGHTS = "-played-by.safetensors"
"""Suffix of a checkpoint's file with the weights that play the batch under way, after the role's name."""


class StepSettings(Frozen):
    """How a batch becomes steps."""

    objective: ObjectiveSettings = ObjectiveSettings()
    """The loss: see below."""
    advantage: Annotated[str, AfterValidator(ADVANTAGES.checked)] | None = None
    """Advantage: the reward compared within its group, or the reward itself (imitation); null: the method's own, or
    `group`."""
    normalisation: Normalisation = "token"
    """Equal weights in the mean: of every token, or of every row ("sequence")."""
    joint: bool = False
    """Compare both roles of a task in one group (an ablation of ICRL)."""
    scaled: bool = True
    """Divide advantages by the standard deviation of their group."""
    updates: int = Field(default=1, ge=1)
    """Steps from each batch."""
    critic_warmup: int = Field(default=0, ge=0)
    """Steps at the start in which only the critic learns."""
    tokens_per_batch: int | None = Field(default=None, ge=1)
    """Tokens computed at once (a micro-batch), with padding; null: the most of 8192, 4096 and 2048 that fit into the
    memory."""
    max_loss: float = Field(default=1e4, gt=0)
    """A loss beyond this ends the run."""
    share_prefixes: bool = True
    """Compute shared prefixes once when that is faster."""
    ahead: bool = False
    """Play the next batch during the steps of the current one, with the weights before them."""


class RoleTrainer(RoleCheckpoints):
    """Our own trainer. `play` plays a batch; `publish` is called before, so that engines sample with the current
    weights.

    Engines sample at `temperature`. `watch` receives the signals of every step, counted from 1, as do trackers.
    Gradients are clipped for each set of weights, so that a role's gradient never shrinks another's. `train` raises
    `TrainingError` for a loss that is not finite or out of bounds, and saves the micro-batch in `post-mortem.pt` beside
    the checkpoints.
    """

    def __init__(
        self,
        backbone: Backbone,
        play: PlayFunction,
        settings: StepSettings,
        arguments: TrainingArguments,
        *,
        optimizer: torch.optim.Optimizer,
        publish: Callable[[], None],
        watch: Callable[[int, Signals], None],
        temperature: float = 1.0,
        evaluation: Evaluation | None = None,
        tokenizers: Mapping[Role, PreTrainedTokenizerBase] = MappingProxyType({}),
        callbacks: Iterable[TrainerCallback] = (),
        last: Path | None = None,
        keep: Callable[[int, RolloutBatch], None] = lambda number, batch: None,
        advantage: AdvantageFunction | None = None,
        loss: LossFunction | None = None,
    ) -> None:
        """Create the trainer. `tokenizers` are saved beside their roles' weights, so each folder is a complete model.

        `last` is the folder for the weights of the last step, if the best are loaded at the end. `keep` receives each
        batch, with its number, before its first step. `advantage` and `loss` are a method's own (`Method`).
        """
        super().__init__(
            model=backbone.module,
            args=arguments,
            train_dataset=range(arguments.max_steps),
            eval_dataset=range(1) if evaluation else None,
            data_collator=_numbers,
            optimizers=(optimizer, None),
            callbacks=list(callbacks),
        )
        self.remove_callback(PrinterCallback)  # results alone go to standard output
        self._backbone = backbone
        self._play = play
        self._settings = settings
        self._publish = publish
        self._watch = watch
        self._temperature = temperature
        self._evaluation = evaluation
        self._tokenizers = tokenizers
        self._current: CurrentBatch | None = None
        self._norms: dict[Role, torch.Tensor] = {}
        self._signals: Signals = {}
        self._folder = Path(str(arguments.output_dir))
        self._last = last
        self._keep = keep
        self._advantage = advantage
        self._loss = loss
        self._ahead = AheadWorker(play) if settings.ahead else None
        self._published: int | None = None  # steps behind the engines' weights in a resumed run
        self._played_by: dict[int, Mapping[Role, Mapping[str, torch.Tensor]]] = {}  # by the number of a batch

    def close(self) -> None:
        """Stop a batch under way."""
        if self._ahead is not None:
            self._ahead.close()

    # ------------------------------------------------------------ a step

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Accumulate the gradients of a step and return its loss, detached."""
        step, updates = self._step, self._settings.updates
        start = time.perf_counter()
        if (step - 1) % updates == 0 or self._current is None:
            self._current = self._next_batch((step - 1) // updates)
        current, played = self._current, time.perf_counter()
        model.train()
        losses = LossSummary.of(processes.gathered(lambda: self._learn_part(current))).read()
        if updates > 1 and (step - 1) % updates == 0:
            self._share_old(current)
        processes.sum_gradients([weights for role in self._backbone.kept for weights in self._backbone.weights(role)])
        end = time.perf_counter()
        tokens = sum(batch.computed for batch in current.batches)
        times = {"seconds/harvest": played - start, "seconds/learn": end - played}
        self._norms = self._gradient_norms()
        norms = {f"{role}/grad_norm": float(norm) for role, norm in self._norms.items()} if current.batches else {}
        stale = {"staleness": step - 1 - current.steps} if self._settings.ahead else {}
        self._signals = numbers({**current.signals, **losses, **norms, **times, **stale, "trained_tokens": tokens})
        self._watch(step, self._signals)
        current.signals = {name: value for name, value in current.signals.items() if not name.startswith("seconds/")}
        total = sum(loss for name, loss in losses.items() if name in LOSSES)
        return torch.tensor(total, device=self.args.device)

    @property
    def _step(self) -> int:
        """Number of the current step."""
        return int(self.state.global_step) + 1

    def _learn_part(self, current: CurrentBatch) -> LossSummary:
        """Accumulate the gradients of this process's micro-batches."""
        takers = processes.fair_shares([batch.computed for batch in current.batches], processes.count())
        losses = LossSummary(stale=self._settings.ahead)
        for index, batch in enumerate(current.batches):
            if takers[index] == processes.index():
                self._learn(current, index, batch, losses)
        return losses

    def _share_old(self, current: CurrentBatch) -> None:
        """Share the first log-probabilities of all micro-batches among processes: one alone may have to save them."""
        if processes.count() > 1:
            parts = processes.gathered(lambda: [old if old is None else old.cpu() for old in current.old])
            for index in range(len(current.old)):
                shared = next((part[index] for part in parts if part[index] is not None), None)
                current.old[index] = shared if shared is None else shared.to(self.args.device)

    def _learn(self, current: CurrentBatch, index: int, batch: TensorBatch, losses: LossSummary) -> None:
        batch = batch.to(self.args.device)
        role_model = self._backbone.activate(batch.role)
        with self.compute_loss_context_manager():
            logprobs, entropies = self._forward(role_model, batch)
            reference = self._reference(batch) if self._settings.objective.beta else None
            old = logprobs.detach() if current.old[index] is None else current.old[index]
            inputs: Any = {"old": old, "reference": reference, "stale": self._settings.ahead}
            loss = (self._loss or batch_loss)(batch, logprobs, self._settings.objective, **inputs)
        if not math.isfinite(float(loss.loss.detach())) or abs(float(loss.loss.detach())) > self._settings.max_loss:
            self._give_up(batch, logprobs)
        self.accelerator.backward(loss.loss)
        losses.add(batch, loss, entropies)
        if self._settings.updates > 1 and current.old[index] is None:
            current.old[index] = logprobs.detach()

    def _gradient_norms(self) -> dict[Role, torch.Tensor]:
        """Compute gradient norms before clipping, one for each set of weights. Raises `TrainingError` if not finite."""
        norms = {}
        for role in self._backbone.kept:
            gradients = [weights.grad for weights in self._backbone.weights(role) if weights.grad is not None]
            norms[role] = get_total_norm(gradients).to(self.args.device)  # without gradients it is on the CPU
            if not math.isfinite(float(norms[role])):
                raise TrainingError(f"the gradient of step {self._step} ({role}) is no number: lower lr")
        return norms

    def _forward(self, model: Any, batch: TensorBatch) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=self.args.bf16):
            return token_logprobs(model, batch.ids, batch.mask, tree=batch.tree, temperature=self._temperature)

    @torch.no_grad()
    def _reference(self, batch: TensorBatch) -> torch.Tensor:
        with self._backbone.reference(batch.role) as model:
            return self._forward(model, batch)[0]

    def _next_batch(self, number: int) -> CurrentBatch:
        batch, steps = self._played(number)
        self._keep(number, batch)
        if self._ahead is not None and (number + 1) * self._settings.updates < self.args.max_steps:
            self._play_ahead(self._ahead, number)
        rows = [row for row in batch.rows if row.role in self._backbone.trained]
        advantages = compute_advantages(rows, self._settings, self._advantage)
        together = len(self._backbone.kept) < len(self._backbone.trained)
        scale = scales(rows, self._settings.normalisation, together=together)
        divided = batches(
            *useful(
                rows,
                advantages.values,
                scale,
                learning(self._backbone, self._settings, number),
                every=bool(self._settings.objective.beta or self._loss),
            ),
            tokens_per_batch=self._settings.tokens_per_batch or BATCH_TOKENS[0],
            share=self._shares,
        )
        return CurrentBatch(divided, [None] * len(divided), steps, batch_signals(batch, rows, advantages))

    def _played(self, number: int) -> tuple[RolloutBatch, int]:
        """Return a batch, played ahead or now, and the number of steps behind the weights that played it."""
        played_ahead = self._ahead.take(number) if self._ahead is not None else None
        if played_ahead is not None:
            return played_ahead
        steps, self._published = self._published, None
        if steps is None:
            self._publish()
        return self._play(number), self._step - 1 if steps is None else steps

    def _play_ahead(self, ahead: AheadWorker, number: int) -> None:
        """Start the next batch with the current weights, which checkpoints hold until its first step."""
        self._publish()
        states = {role: self._backbone.state(role) for role in self._backbone.kept}
        self._played_by = {later: by for later, by in self._played_by.items() if later == number}
        self._played_by[number + 1] = {
            role: {name: weights.detach().cpu().clone() for name, weights in state.items()}
            for role, state in states.items()
        }
        ahead.begin(number + 1, self._step - 1)

    @cached_property
    def _shares(self) -> bool:
        """Return whether rows with shared prefixes are read as trees. Warns if the model cannot."""
        if not self._settings.share_prefixes:
            return False
        ids = torch.tensor(CHECKED_IDS, device=self.args.device)
        models = [self._backbone.activate(role) for role in self._backbone.trained]
        for why in filter(None, (why_not_shared(model, ids) for model in models)):
            warnings.warn(f"rows do not share prefixes: {why}", stacklevel=3)
            return False
        return True

    def _give_up(self, batch: TensorBatch, logprobs: torch.Tensor) -> None:
        file = self._folder / "post-mortem.pt"
        tensors = {name: value for name, value in vars(batch).items() if name != "tree"}
        torch.save({"step": self._step, **tensors, "logprobs": logprobs.detach()}, file)
        raise TrainingError(
            f"the loss of step {self._step} is no number or beyond {self._settings.max_loss:g}: "
            f"its micro-batch is kept in {file}"
        )

    # ------------------------------------------------------------ what Trainer asks for

    def create_accelerator_and_postprocess(self) -> None:
        """Prepare the model without accelerate's wrapper, which cannot handle two models or adapters."""
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = partial(self.accelerator.prepare_model, evaluation_mode=True)

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        for role, norm in self._norms.items():
            clip_grads_with_norm_(self._backbone.weights(role), self.args.max_grad_norm, norm)
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack(list(self._norms.values())))
        return total

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log to trackers, with the signals of the step. A step without a micro-batch has no loss."""
        if "learning_rate" in logs:
            learned = bool(self._current and self._current.batches)
            logs = {**(logs if learned else without_loss(logs)), **self._signals}
        super().log(logs, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the held-out tasks with the current weights, after a batch under way."""
        if self._ahead is not None and self._evaluation is not None:
            with halting.interruptible():
                self._play_next(self._ahead)
                self._ahead.settle()
        return super().evaluate(metric_key_prefix=metric_key_prefix)

    def _play_next(self, ahead: AheadWorker) -> None:
        """Start the next batch of a resumed run before the engines lose the weights for it."""
        steps, self._published = self._published, None
        if steps is not None:
            ahead.begin(self._batch_after(int(self.state.global_step)), steps)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        folder, to_come = Path(output_dir or self._folder), self._batch_after(int(self.state.global_step))
        if processes.is_first() and folder.parent == self._folder:
            for role, state in self._played_by.get(to_come, {}).items():
                save_file(dict(state), folder / f"{role}{PLAYING_WEIGHTS}")

    def _batch_after(self, step: int) -> int:
        """Return the number of the batch after the one of this step."""
        return (step - 1) // self._settings.updates + 1

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        files = {role: folder / f"{role}{PLAYING_WEIGHTS}" for role in self._backbone.kept}
        if self._ahead is not None and all(file.is_file() for file in files.values()):
            to_come = self._batch_after(checkpoint_step(str(folder)))
            self._played_by = {to_come: {role: load_file(file) for role, file in files.items()}}
            for role, state in self._played_by[to_come].items():
                self._backbone.restore(role, state)
            self._publish()
            self._published = (to_come - 1) * self._settings.updates
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if (folder / HARVEST).is_file():
            self._current = CurrentBatch.read(folder / HARVEST, self.args.device)

    def _keep_more(self, folder: Path) -> None:
        """Write the current batch if it has steps left."""
        if self._current is not None and int(self.state.global_step) % self._settings.updates:
            self._current.write(folder / HARVEST)


def compute_advantages(
    rows: Sequence[Row], settings: StepSettings, own: AdvantageFunction | None = None
) -> GroupAdvantages:
    """Compute the advantage of each row, as the settings name it; without a name by the method's `own`, or `group`."""
    keys = [row.group if settings.joint else (row.role, row.group) for row in rows]
    if own is not None and settings.advantage is None:
        return counted("of the method", own(rows, keys, settings.scaled), keys)
    return ADVANTAGES.get(settings.advantage or "group")(rows, keys, settings.scaled)


def learning(backbone: Backbone, settings: StepSettings, number: int) -> tuple[Role, ...]:
    """Return the roles that learn from a batch, by its number from 0."""
    warming_up = number * settings.updates < settings.critic_warmup
    return ("critic",) if warming_up else backbone.trained


def useful(
    rows: Sequence[Row],
    advantages: Sequence[float],
    scale: Sequence[float],
    roles: Sequence[Role],
    *,
    every: bool,
) -> tuple[list[Row], list[float], list[float]]:
    """Select rows of these roles with a gradient: with a token to learn from and an advantage.

    With `every` (a KL term, or a method's own loss) a row needs no advantage. Returns the rows, one for each context of
    a conversation, with their advantages and scales. A token's advantage and scale are those of its whole conversation.
    """
    chosen = [
        (context, advantages[index], scale[index])
        for index, row in enumerate(rows)
        if (advantages[index] or every) and row.learnable and row.role in roles
        for context in row.contexts()
        if context.learnable
    ]
    return [row for row, _, _ in chosen], [advantage for _, advantage, _ in chosen], [each for _, _, each in chosen]


def build_optimizer(
    backbone: Backbone,
    rates: dict[Role, float],
    *,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """Build AdamW with a parameter group for each set of trained weights.

    Raises `TrainingError` if roles with shared weights have different rates.
    """
    groups: dict[int, dict[str, Any]] = {}
    for role in backbone.trained:
        weights = backbone.weights(role)
        known = groups.setdefault(id(weights[0]), {"params": weights, "lr": rates[role]})
        if known["lr"] != rates[role]:
            raise TrainingError("both roles share their weights: give them one learning rate")
    return torch.optim.AdamW(list(groups.values()), weight_decay=weight_decay, betas=betas)


def _numbers(steps: list[int]) -> dict[str, torch.Tensor]:
    """Collate items of the dataset: only numbers of steps, as rows come from methods."""
    return {"step": torch.tensor(steps)}
