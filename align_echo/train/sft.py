"""Supervised training on demonstrations: the warm start of a policy, and how the pocket model is made.

It uses `transformers.Trainer` (checkpoints, resume, logging, devices). A batch holds chats of similar length up to a
number of tokens. The loss is a weighted mean over tokens: the demonstration's weights for assistant messages,
`context_weight` for other messages after the opening instructions, 0 for the instructions. With `share_prefixes` a
batch is a tree of chats (`tree_attention.py`): what they begin with is computed once. Chats are not packed otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import model_validator
from transformers import PreTrainedModel, TrainerCallback

from align_echo.base.dice import Dice
from align_echo.errors import UsageError
from align_echo.models.local.encoding import ChatEncoder
from align_echo.train.arguments import MuonWithAdamW, build_arguments
from align_echo.train.checkpoints import KeepingTrainer
from align_echo.train.forward import token_logprobs
from align_echo.train.tree_attention import tree, trees
from align_echo.types import Frozen, Message

# ---------------------------------------------------------------- demonstrations


class Demonstration(Frozen):
    """A chat to imitate. `weights` has a number for each assistant message: 1 to imitate, 0 not to (a mistake).

    `kind` names the lesson ("alfworld.expert"), for counts and mixing.
    """

    kind: str
    messages: tuple[Message, ...]
    weights: tuple[float, ...]

    @model_validator(mode="after")
    def _one_weight_each(self) -> Demonstration:
        spoken = sum(message.role == "assistant" for message in self.messages)
        if spoken != len(self.weights):
            raise ValueError(f"{spoken} assistant messages and {len(self.weights)} weights")
        return self


# ---------------------------------------------------------------- supervised training on demonstrations

POOL = 512
"""Number of chats sorted by length at a time."""


class SftSettings(Frozen):
    """Settings of supervised training. `tokens_per_batch` counts padding, and a shared prefix once; `muon_lr` is for
    hidden matrices (0: AdamW for all), `adamw_lr` for all other parameters.
    """

    epochs: float = 1.0
    tokens_per_batch: int = 6000
    longest: int = 3000
    muon_lr: float = 0.02
    adamw_lr: float = 3e-3
    weight_decay: float = 0.01
    warmup: float = 0.02
    context_weight: float = 0.1
    share_prefixes: bool = False
    bf16: bool = True
    seed: int = 0
    log_every: int = 20
    save_every: int = 200


@dataclass(frozen=True)
class EncodedChat:
    """A demonstration in T tokens: `ids` [T] int32, `weights` [T] float32 of each token as a target."""

    ids: np.ndarray
    weights: np.ndarray
    kind: str


def encode(demonstration: Demonstration, encoder: ChatEncoder, *, context_weight: float) -> EncodedChat:
    """Encode a chat as in a rollout, with the weight of each token.

    A single question without instructions before it has half of `context_weight`: part of it is instructions.
    """
    supervised = encoder.supervised(demonstration.messages)
    weights = np.full(len(supervised.ids), context_weight, dtype=np.float32)
    opening = next(index for index, message in enumerate(demonstration.messages) if message.role == "assistant")
    if demonstration.messages[0].role == "system":
        weights[: len(encoder.opening(demonstration.messages[:1]))] = 0.0
    elif opening == 1:
        weights[: supervised.turns[0][0]] *= 0.5
    for (first, end), weight in zip(supervised.turns, demonstration.weights, strict=True):
        weights[first:end] = weight
    return EncodedChat(np.asarray(supervised.ids, dtype=np.int32), weights, demonstration.kind)


def batches(chats: Sequence[EncodedChat], *, tokens_per_batch: int, seed: int) -> list[list[EncodedChat]]:
    """Divide chats into batches of similar length, in random order.

    The padded size of a batch is at most `tokens_per_batch`, unless a single chat is longer.
    """
    shuffled = Dice(f"sft {seed}").shuffled(range(len(chats)))
    batched: list[list[EncodedChat]] = []
    for start in range(0, len(shuffled), POOL):
        pool = sorted((chats[index] for index in shuffled[start : start + POOL]), key=lambda chat: len(chat.ids))
        batch: list[EncodedChat] = []
        for chat in pool:
            if batch and (len(batch) + 1) * len(chat.ids) > tokens_per_batch:
                batched.append(batch)
                batch = []
            batch.append(chat)
        batched.append(batch)
    return Dice(f"sft order {seed}").shuffled(batched)


def shared_batches(chats: Sequence[EncodedChat], *, tokens_per_batch: int, seed: int) -> list[list[EncodedChat]]:
    """Divide chats into batches that begin alike, in random order, each in the order of its tree's rows.

    The tree of a batch has at most `tokens_per_batch` tokens, unless a single chat is longer.
    """
    grouped = trees([chat.ids.tolist() for chat in chats], most_tokens=tokens_per_batch)
    return Dice(f"sft order {seed}").shuffled([[chats[row] for row in group.rows] for group in grouped])


def schedule(
    chats: Sequence[EncodedChat], settings: SftSettings, lead: Sequence[Sequence[EncodedChat]] = ()
) -> list[list[EncodedChat]]:
    """Order the batches of a run: each part of the lead once, then every epoch in another random order."""
    size, seed = settings.tokens_per_batch, settings.seed
    divide = shared_batches if settings.share_prefixes else batches
    planned = [batch for part in lead for batch in divide(part, tokens_per_batch=size, seed=seed)]
    for epoch in range(math.ceil(settings.epochs)):
        batches_of_epoch = divide(chats, tokens_per_batch=size, seed=seed + 1 + epoch)
        planned += batches_of_epoch[: math.ceil(min(settings.epochs - epoch, 1.0) * len(batches_of_epoch))]
    return planned


def pad(batch: Sequence[EncodedChat]) -> dict[str, torch.Tensor]:
    """Pad a batch on the right, with weight 0: `input_ids` [B, T], `weights` [B, T] and `lengths` [B]."""
    longest = max(len(chat.ids) for chat in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    for row, chat in enumerate(batch):
        ids[row, : len(chat.ids)] = torch.from_numpy(chat.ids.astype(np.int64))
        weights[row, : len(chat.ids)] = torch.from_numpy(chat.weights)
    lengths = torch.tensor([len(chat.ids) for chat in batch])
    return {"input_ids": ids, "weights": weights, "lengths": lengths}


def weighted_loss(logits_BTV: torch.Tensor, ids_BT: torch.Tensor, weights_BT: torch.Tensor) -> torch.Tensor:
    """Compute the weighted mean cross-entropy of each token given those before it; 0 if all weights are 0.

    Losses of tokens without weight are ignored, even if infinite.
    """
    losses = torch.nn.functional.cross_entropy(
        logits_BTV[:, :-1].float().flatten(0, 1), ids_BT[:, 1:].flatten(), reduction="none"
    )
    weights = weights_BT[:, 1:].flatten()
    total = weights.sum()
    return (torch.where(weights > 0, losses, 0.0) * weights).sum() / torch.where(total > 0, total, 1.0)


def fine_tune(
    model: PreTrainedModel,
    chats: Sequence[EncodedChat],
    settings: SftSettings,
    folder: Path,
    *,
    lead: Sequence[Sequence[EncodedChat]] = (),
    resume: bool = False,
    callbacks: Iterable[TrainerCallback] = (),
) -> float:
    """Train the model in place, with checkpoints in `folder`, and return the mean loss over the run.

    `resume` continues from the last checkpoint. The parts of `lead` come first, once each, in the same schedule. Chats
    longer than `settings.longest` tokens, and chats without weights, are omitted. Raises `UsageError` if no chat
    remains.
    """
    counting, *first = [[chat for chat in part if _counts(chat, settings.longest)] for part in (chats, *lead)]
    planned = schedule(counting, settings, first)
    if not planned:
        raise UsageError(f"there is nothing to learn: no chat of at most {settings.longest} tokens has one that counts")
    arguments = build_arguments(
        folder,
        steps=len(planned),
        lr=settings.adamw_lr,
        schedule="cosine",
        warmup=settings.warmup,
        bf16=settings.bf16,
        seed=settings.seed,
        log_every=settings.log_every,
        save_every=settings.save_every,
    )
    trainer = (_SharingTrainer if settings.share_prefixes else _WeightedTrainer)(
        model=model,
        args=arguments,
        train_dataset=planned,
        data_collator=_padded,
        optimizers=(build_optimizer(model, settings), None),
        callbacks=list(callbacks),
    )
    return float(trainer.train(resume_from_checkpoint=resume or None).training_loss)


def build_optimizer(model: PreTrainedModel, settings: SftSettings) -> torch.optim.Optimizer:
    """Build Muon with AdamW, or AdamW alone."""
    rate, decay = settings.adamw_lr, settings.weight_decay
    if settings.muon_lr:
        return MuonWithAdamW(model, muon_lr=settings.muon_lr, adamw_lr=rate, weight_decay=decay)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.95), weight_decay=decay)


def _counts(chat: EncodedChat, longest: int) -> bool:
    """Return whether a chat is short enough and has a weight on any token after the first."""
    return len(chat.ids) <= longest and bool(chat.weights[1:].any())


def _padded(batches_of_step: list[list[EncodedChat]]) -> dict[str, torch.Tensor]:
    """Collate a step's single batch, and pad it."""
    (batch,) = batches_of_step
    return pad(batch)


class _WeightedTrainer(KeepingTrainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        outputs = model(input_ids=inputs["input_ids"], use_cache=False)
        loss = weighted_loss(outputs.logits, inputs["input_ids"], inputs["weights"])
        return (loss, outputs) if return_outputs else loss


class _SharingTrainer(KeepingTrainer):
    """Reads a batch as a tree, and runs the head on the positions with a weight alone."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        ids, weights = inputs["input_ids"], inputs["weights"][:, 1:]
        lengths = inputs["lengths"].tolist()
        rows = tree([row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)])
        logprobs, _ = token_logprobs(model, ids, (weights > 0).to(weights.dtype), tree=rows)
        loss = -(logprobs * weights).sum() / weights.sum()
        return (loss, {}) if return_outputs else loss
