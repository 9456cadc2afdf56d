"""One trainer for every recipe: harvest rows, make batches, learn from each role's, serve the new weights.

On `transformers.Trainer`, which keeps the optimizer, the schedule, checkpoints, resuming, evaluation, early stopping
and logging. A step's batches differ in number and size from step to step, so they are accumulated inside
`training_step`. Several processes hold the same weights, learn a part of the batches each, and sum their gradients
(`processes.py`). Left out: weights that are divided among processes (`trl_trainer.py`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainerCallback, TrainingArguments

from align_echo import stopping
from align_echo.errors import TrainingError
from align_echo.runs import checkpoint_step
from align_echo.train import processes
from align_echo.train.advantages import Advantages, group_advantages, uncompared
from align_echo.train.ahead import Ahead
from align_echo.train.backbone import Backbone
from align_echo.train.batching import Batch, Normalisation, batches, scales
from align_echo.train.forward import CHECKED_IDS, token_logprobs, why_not_shared
from align_echo.train.kept_harvest import HARVEST, KeptHarvest
from align_echo.train.loss import Objective, batch_loss
from align_echo.train.role_checkpoints import Evaluation, RoleCheckpoints
from align_echo.train.rows import Harvest, Role, Row
from align_echo.train.signals import LOSSES, Losses, Signals, numbers, of_harvest, without_loss
from align_echo.types import Frozen

Recipe = Callable[[int], Harvest]
"""From a harvest's number, counted from 0, to what was brought home with the weights of that time."""

PLAYED_BY = "-played-by.safetensors"
"""How a checkpoint's file ends of the weights that play the harvest under way, behind the role's name."""


class StepSettings(Frozen):
    """How a batch becomes steps."""

    objective: Objective = Objective()
    """The loss: see below."""
    advantage: Literal["group", "reward"] = "group"
    """A reward compared within its group, or the reward itself (imitation)."""
    normalisation: Normalisation = "token"
    """What counts the same in the mean: every token, or every row."""
    joint: bool = False
    """Both roles of a task are one group (an ablation of ICRL)."""
    scaled: bool = True
    """Whether an advantage is divided by its group's standard deviation."""
    updates: int = Field(default=1, ge=1)
    """Steps that learn from one batch."""
    critic_warmup: int = Field(default=0, ge=0)
    """Steps at the beginning in which the critic learns alone."""
    tokens_per_batch: int = Field(default=8192, ge=1)
    """Tokens computed at once (a micro-batch), with padding."""
    max_loss: float = Field(default=1e4, gt=0)
    """A loss beyond this ends the run."""
    share_prefixes: bool = True
    """What rows begin with alike is computed once, where that saves enough."""
    ahead: bool = False
    """Whether the next batch is played while this one is learned from, by the weights before it."""


class RoleTrainer(RoleCheckpoints):
    """`publish` is called before each harvest: engines must draw with the weights of that time, at `temperature`.

    `watch` is given the signals of every step, which are counted from 1; trackers are given them too. Gradients are
    clipped by what weights they are of: those of one role do not make another's smaller. `train` raises `TrainingError`
    when a loss is no number or beyond bounds; the batch is then kept in `post-mortem.pt` beside the checkpoints.
    """

    def __init__(
        self,
        backbone: Backbone,
        recipe: Recipe,
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
        keep: Callable[[int, Harvest], None] = lambda number, harvest: None,
    ) -> None:
        """`tokenizers` are saved beside the weights of their roles: each is a model to be named by its folder.

        `last` is the folder for the weights of the last step, where the best are loaded at the end. `keep` is given
        each harvest, with its number, when it is about to be learned from.
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
        self._recipe = recipe
        self._settings = settings
        self._publish = publish
        self._watch = watch
        self._temperature = temperature
        self._evaluation = evaluation
        self._tokenizers = tokenizers
        self._kept: KeptHarvest | None = None
        self._norms: dict[Role, torch.Tensor] = {}
        self._signals: Signals = {}
        self._folder = Path(str(arguments.output_dir))
        self._last = last
        self._keep = keep
        self._ahead = Ahead(recipe) if settings.ahead else None
        self._published: int | None = None  # steps behind the weights of a run that goes on, which the engines hold
        self._played_by: dict[int, Mapping[Role, Mapping[str, torch.Tensor]]] = {}  # by the number of a harvest

    def close(self) -> None:
        """Give up a harvest under way."""
        if self._ahead is not None:
            self._ahead.close()

    # ------------------------------------------------------------ a step

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Accumulate the gradients of one step; its loss, detached."""
        step, updates = self._step, self._settings.updates
        begun = time.perf_counter()
        if (step - 1) % updates == 0 or self._kept is None:
            self._kept = self._harvest((step - 1) // updates)
        kept, harvested = self._kept, time.perf_counter()
        model.train()
        losses = Losses.of(processes.gathered(lambda: self._learn_part(kept))).read()
        if updates > 1 and (step - 1) % updates == 0:
            self._share_old(kept)
        processes.sum_gradients([weights for role in self._backbone.kept for weights in self._backbone.weights(role)])
        ended = time.perf_counter()
        tokens = sum(batch.computed for batch in kept.batches)
        times = {"seconds/harvest": harvested - begun, "seconds/learn": ended - harvested}
        self._norms = self._gradient_norms()
        norms = {f"{role}/grad_norm": float(norm) for role, norm in self._norms.items()} if kept.batches else {}
        stale = {"staleness": step - 1 - kept.steps} if self._settings.ahead else {}
        self._signals = numbers({**kept.signals, **losses, **norms, **times, **stale, "trained_tokens": tokens})
        self._watch(step, self._signals)
        kept.signals = {name: value for name, value in kept.signals.items() if not name.startswith("seconds/")}
        whole = sum(loss for name, loss in losses.items() if name in LOSSES)
        return torch.tensor(whole, device=self.args.device)

    @property
    def _step(self) -> int:
        """The number of the step that is being made."""
        return int(self.state.global_step) + 1

    def _learn_part(self, kept: KeptHarvest) -> Losses:
        """Accumulate the gradients of the batches that are this process's."""
        takers = processes.fair_shares([batch.computed for batch in kept.batches], processes.count())
        losses = Losses(stale=self._settings.ahead)
        for index, batch in enumerate(kept.batches):
            if takers[index] == processes.index():
                self._learn(kept, index, batch, losses)
        return losses

    def _share_old(self, kept: KeptHarvest) -> None:
        """Let every process have what the others' batches were likely to be at first: one alone may have to write it.
        """
        if processes.count() > 1:
            parts = processes.gathered(lambda: [old if old is None else old.cpu() for old in kept.old])
            for index in range(len(kept.old)):
                found = next((part[index] for part in parts if part[index] is not None), None)
                kept.old[index] = found if found is None else found.to(self.args.device)

    def _learn(self, kept: KeptHarvest, index: int, batch: Batch, losses: Losses) -> None:
        batch = batch.to(self.args.device)
        role_model = self._backbone.activate(batch.role)
        with self.compute_loss_context_manager():
            logprobs, entropies = self._forward(role_model, batch)
            reference = self._reference(batch) if self._settings.objective.beta else None
            objective, stale = self._settings.objective, self._settings.ahead
            loss = batch_loss(batch, logprobs, objective, old=kept.old[index], reference=reference, stale=stale)
        if not math.isfinite(float(loss.loss.detach())) or abs(float(loss.loss.detach())) > self._settings.max_loss:
            self._give_up(batch, logprobs)
        self.accelerator.backward(loss.loss)
        losses.add(batch, loss, entropies)
        if self._settings.updates > 1 and kept.old[index] is None:
            kept.old[index] = logprobs.detach()

    def _gradient_norms(self) -> dict[Role, torch.Tensor]:
        """Norms before clipping, by role; roles that share weights have one. Raises `TrainingError` for no number."""
        norms = {}
        for role in self._backbone.kept:
            gradients = [weights.grad for weights in self._backbone.weights(role) if weights.grad is not None]
            norms[role] = get_total_norm(gradients).to(self.args.device)  # of no gradient it is on the CPU
            if not math.isfinite(float(norms[role])):
                raise TrainingError(f"the gradient of step {self._step} ({role}) is no number: lower lr")
        return norms

    def _forward(self, model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=self.args.bf16):
            return token_logprobs(model, batch.ids, batch.mask, tree=batch.tree, temperature=self._temperature)

    @torch.no_grad()
    def _reference(self, batch: Batch) -> torch.Tensor:
        with self._backbone.reference(batch.role) as model:
            return self._forward(model, batch)[0]

    def _harvest(self, number: int) -> KeptHarvest:
        harvest, steps = self._played(number)
        self._keep(number, harvest)
        if self._ahead is not None and (number + 1) * self._settings.updates < self.args.max_steps:
            self._play_ahead(self._ahead, number)
        rows = [row for row in harvest.rows if row.role in self._backbone.trained]
        advantages = advantages_of(rows, self._settings)
        together = len(self._backbone.kept) < len(self._backbone.trained)
        scale = scales(rows, self._settings.normalisation, together=together)
        divided = batches(
            *useful(rows, advantages.values, scale, self._settings, learning(self._backbone, self._settings, number)),
            tokens_per_batch=self._settings.tokens_per_batch,
            share=self._shares,
        )
        return KeptHarvest(divided, [None] * len(divided), steps, of_harvest(harvest, advantages))

    def _played(self, number: int) -> tuple[Harvest, int]:
        """The harvest, and how many steps had made the weights that played it."""
        begun = self._ahead.take(number) if self._ahead is not None else None
        if begun is not None:
            return begun
        steps, self._published = self._published, None
        if steps is None:
            self._publish()
        return self._recipe(number), self._step - 1 if steps is None else steps

    def _play_ahead(self, ahead: Ahead, number: int) -> None:
        """Begin the harvest after this one, with the weights of now, which a checkpoint holds until it is learned from.
        """
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
        """Whether rows that begin alike are read as trees. That they are not is said if it was asked for."""
        if not self._settings.share_prefixes:
            return False
        ids = torch.tensor(CHECKED_IDS, device=self.args.device)
        models = [self._backbone.activate(role) for role in self._backbone.trained]
        for why in filter(None, (why_not_shared(model, ids) for model in models)):
            warnings.warn(f"rows do not share what they begin with alike: {why}", stacklevel=3)
            return False
        return True

    def _give_up(self, batch: Batch, logprobs: torch.Tensor) -> None:
        file = self._folder / "post-mortem.pt"
        tensors = {name: value for name, value in vars(batch).items() if name != "tree"}
        torch.save({"step": self._step, **tensors, "logprobs": logprobs.detach()}, file)
        raise TrainingError(
            f"the loss of step {self._step} is no number or beyond {self._settings.max_loss:g}: "
            f"its batch is kept in {file}"
        )

    # ------------------------------------------------------------ what Trainer asks for

    def create_accelerator_and_postprocess(self) -> None:
        """Without a wrapper that sums gradients of its own: it knows neither two models nor which adapter is active."""
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = partial(self.accelerator.prepare_model, evaluation_mode=True)

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        for role, norm in self._norms.items():
            clip_grads_with_norm_(self._backbone.weights(role), self.args.max_grad_norm, norm)
        whole: torch.Tensor = torch.linalg.vector_norm(torch.stack(list(self._norms.values())))
        return whole

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """To trackers; with what `Trainer` says of a step go its signals. A step without a batch has no loss."""
        if "learning_rate" in logs:
            learned = bool(self._kept and self._kept.batches)
            logs = {**(logs if learned else without_loss(logs)), **self._signals}
        super().log(logs, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the held-out tasks with the weights as they are."""
        if self._ahead is not None and self._evaluation is not None:
            with stopping.interruptible():
                self._play_next(self._ahead)
                self._ahead.settle()
        return super().evaluate(metric_key_prefix=metric_key_prefix)

    def _play_next(self, ahead: Ahead) -> None:
        """Begin the next harvest where the engines of a run that goes on hold the weights for it, and are about to be
        given others.
        """
        steps, self._published = self._published, None
        if steps is not None:
            ahead.begin(self._harvest_after(int(self.state.global_step)), steps)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        folder, to_come = Path(output_dir or self._folder), self._harvest_after(int(self.state.global_step))
        if processes.is_first() and folder.parent == self._folder:
            for role, state in self._played_by.get(to_come, {}).items():
                save_file(dict(state), folder / f"{role}{PLAYED_BY}")

    def _harvest_after(self, step: int) -> int:
        """The number of the harvest that is played once all steps of the one that this step learned from are made."""
        return (step - 1) // self._settings.updates + 1

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        files = {role: folder / f"{role}{PLAYED_BY}" for role in self._backbone.kept}
        if self._ahead is not None and all(file.is_file() for file in files.values()):
            to_come = self._harvest_after(checkpoint_step(str(folder)))
            self._played_by = {to_come: {role: load_file(file) for role, file in files.items()}}
            for role, state in self._played_by[to_come].items():
                self._backbone.restore(role, state)
            self._publish()
            self._published = (to_come - 1) * self._settings.updates
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if (folder / HARVEST).is_file():
            self._kept = KeptHarvest.read(folder / HARVEST, self.args.device)

    def _keep_more(self, folder: Path) -> None:
        """Write the harvest of which steps are still to be made."""
        if self._kept is not None and int(self.state.global_step) % self._settings.updates:
            self._kept.write(folder / HARVEST)


def advantages_of(rows: Sequence[Row], settings: StepSettings) -> Advantages:
    """How much better each row did than those that it is compared with."""
    rewards = [row.reward for row in rows]
    if settings.advantage == "reward":
        return uncompared(rewards)
    keys = [row.group if settings.joint else (row.role, row.group) for row in rows]
    return group_advantages(rewards, keys, scaled=settings.scaled)


def learning(backbone: Backbone, settings: StepSettings, harvest: int) -> tuple[Role, ...]:
    """The roles that learn from a harvest, counted from 0."""
    warming_up = harvest * settings.updates < settings.critic_warmup
    return ("critic",) if warming_up else backbone.trained


def useful(
    rows: Sequence[Row],
    advantages: Sequence[float],
    scale: Sequence[float],
    settings: StepSettings,
    roles: Sequence[Role],
) -> tuple[list[Row], list[float], list[float]]:
    """Rows of the roles that learn now whose loss has a gradient: those with a token to learn from and, without a KL
    term, an advantage.
    """
    taught = [bool(advantage or settings.objective.beta) for advantage in advantages]
    kept = [index for index, row in enumerate(rows) if taught[index] and row.learnable and row.role in roles]
    return [rows[index] for index in kept], [advantages[index] for index in kept], [scale[index] for index in kept]


def optimizer_of(
    backbone: Backbone,
    rates: dict[Role, float],
    *,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """AdamW with a group for each role that is trained; roles that share weights must share the rate.

    Raises `TrainingError` if they do not.
    """
    groups: dict[int, dict[str, Any]] = {}
    for role in backbone.trained:
        weights = backbone.weights(role)
        known = groups.setdefault(id(weights[0]), {"params": weights, "lr": rates[role]})
        if known["lr"] != rates[role]:
            raise TrainingError("both roles share their weights: give them one learning rate")
    return torch.optim.AdamW(list(groups.values()), weight_decay=weight_decay, betas=betas)


def _numbers(steps: list[int]) -> dict[str, torch.Tensor]:
    """What `Trainer` is given as a batch: nothing but the numbers of steps, for rows come from recipes."""
    return {"step": torch.tensor(steps)}
