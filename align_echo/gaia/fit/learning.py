"""Train a causal language model as an intuitive critic: cross-entropy on one token (GAIA, paper 3, section 3.2).

The input is the agent's conversation with the question about an action; the target is the one token that distinguishes
"correct" from "wrong". All actions of an episode are computed as one tree (`train/tree_attention.py`), so that their
shared history is read once. Not here: the trainer (`trainer.py`), the examples (`gaia/collect.py`), and the evaluation
(`gaia/trial.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from pydantic import Field
from transformers import PreTrainedModel, TrainerCallback

from align_echo.base.dice import Dice
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import WORDS, Label, verdict_messages
from align_echo.errors import UsageError
from align_echo.gaia.examples import ActionExample, Balance, even_weights
from align_echo.gaia.fit.trainer import LearningSettings, StepPart, VerdictTrainer, build_learner
from align_echo.models.local.chat import first_differing
from align_echo.models.local.encoding import ChatEncoder
from align_echo.train.forward import reads_trees
from align_echo.train.tree_attention import TokenTree, over_trees, tree_inputs, trees


class FitSettings(LearningSettings):
    """Settings of critics of text. A step takes whole episodes until they have `batch_size` examples (the paper: 16, of
    any episodes). `balance` "dropped" is the paper's; "weighed" trains on every action of states with correct and wrong
    ones, and so learns to distinguish candidates rather than states.
    """

    batch_size: int = Field(default=64, ge=1)
    """Actions a step, in whole episodes."""
    tokens_per_tree: int = Field(default=6000, ge=1)
    """Most tokens in memory at once."""
    longest: int = Field(default=4096, ge=1)
    """Most tokens of a conversation; the model's context, if that is shorter."""
    balance: Balance = "dropped"
    """`dropped`: drop actions of the larger class; `weighed`: use all, with equal weight for correct and wrong ones in
    every state."""


@dataclass(frozen=True)
class VerdictQuestion:
    """An example in tokens: `ids` [T] end before the verdict, `target` is its index in `VERDICTS`, and `weight` its
    weight in the loss.
    """

    ids: tuple[int, ...]
    target: int
    task: str
    episode: str
    weight: float = 1.0


def question_ids(example: ActionExample, encoder: ChatEncoder) -> tuple[int, ...]:
    """Encode the conversation and the question about the action, up to the first differing token of the verdicts [T].
    """
    start, _ = verdict_tokens(encoder)
    return encoder.opening(verdict_messages(example.messages, example.action)) + start


def verdict_tokens(encoder: ChatEncoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids both verdicts begin with, and the first differing id of each. Raises `UsageError` if there is
    none.
    """
    return first_differing([encoder.plain(word) for word in WORDS], WORDS)


def questions(
    examples: Sequence[ActionExample], encoder: ChatEncoder, rule: str, *, longest: int, balance: Balance = "dropped"
) -> list[VerdictQuestion]:
    """Encode the examples labelled by the rule and not too long. With `balance` "weighed", actions of states with only
    correct or only wrong ones have weight 0.

    Raises `UsageError` if all weights are 0.
    """
    known = [(example, label) for example in examples if (label := example.label(rule)) is not None]
    short = [(example, label, ids) for example, label in known if len(ids := question_ids(example, encoder)) <= longest]
    weights = even_weights([example for example, _, _ in short], rule) if balance == "weighed" else [1.0] * len(short)
    if short and not any(weights):
        raise UsageError("no state has right and wrong actions to weigh: collect with more --candidates")
    return [
        VerdictQuestion(
            ids, WORDS.index(label), example.task_id, f"{example.task_id} {example.sample} {example.round}", weight
        )
        for (example, label, ids), weight in zip(short, weights, strict=True)
    ]


def steps(questions: Sequence[VerdictQuestion], settings: FitSettings) -> list[list[int]]:
    """Choose the questions of each step, for all epochs: whole episodes, shuffled by the seed."""
    by_episode: dict[str, list[int]] = {}
    for index, question in enumerate(questions):
        by_episode.setdefault(question.episode, []).append(index)
    by_step: list[list[int]] = []
    for epoch in range(settings.epochs):
        step: list[int] = []
        for episode in Dice(f"fit {settings.seed} {epoch}").shuffled(sorted(by_episode)):
            step += by_episode[episode]
            if len(step) >= settings.batch_size:
                by_step.append(step)
                step = []
        by_step += [step] if step else []
    return by_step


def tree_logits(model: Any, tree: TokenTree, device: torch.device) -> torch.Tensor:
    """Compute the model's logits after each conversation of the tree [R, V], in the order of `tree.rows`, with
    gradient.

    The model has to be patched by `over_trees`.
    """
    last_R = torch.tensor([path[-1] for path in tree.paths], device=device)
    logits: torch.Tensor = model(**tree_inputs(model, tree, device), logits_to_keep=last_R).logits[0]
    return logits


def check_trees(model: Any, ids_T: Sequence[int], device: torch.device) -> None:
    """Raise `UsageError` if the model's output on a tree differs from its output on single conversations.

    This is so for models with a sliding window or a recurrent state. Tested on conversations of the given ids, those of
    the longest one, since a wider window does no harm.
    """
    if not reads_trees(model.get_decoder(), torch.tensor(ids_T, device=device)):
        raise UsageError(f"{type(model).__name__} cannot read conversations as a tree: its attention is not standard")


def learn(
    model: PreTrainedModel,
    encoder: ChatEncoder,
    questions: Sequence[VerdictQuestion],
    settings: FitSettings,
    folder: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    callbacks: Iterable[TrainerCallback] = (),
) -> PreTrainedModel | PeftModel:
    """Train, with checkpoints in `folder`, and return the trained model, with its adapter if it has one.

    Questions of weight 0 are left out. `resume` continues from the last checkpoint. Raises `UsageError` without any
    question, or for an unsuitable model.
    """
    questions = [question for question in questions if question.weight]
    if not questions:
        raise UsageError("there is no labelled action to learn from")
    model.config.use_cache = False
    check_trees(model, max((question.ids for question in questions), key=len), model.device)
    learner = build_learner(model, settings)
    words = verdict_tokens(encoder)[1]

    def parts(step: Sequence[VerdictQuestion]) -> Iterator[StepPart]:
        for tree in trees([question.ids for question in step], most_tokens=settings.tokens_per_tree):
            targets = [words[step[row].target] for row in tree.rows]
            weights = [step[row].weight for row in tree.rows]
            yield StepPart(partial(tree_logits, tree=tree, device=learner.device), targets, weights)

    batches = [[questions[index] for index in step] for step in steps(questions, settings)]
    trainer = VerdictTrainer(learner, batches, parts, settings, folder, progress=progress, callbacks=callbacks)
    with over_trees(learner):
        learned: PreTrainedModel | PeftModel = trainer.learned(resume=resume)
    return learned


@torch.no_grad()
def read_verdicts(
    model: Any, encoder: ChatEncoder, ids_M: Sequence[Sequence[int]], *, tokens_per_tree: int, device: torch.device
) -> list[tuple[Label | None, float]]:
    """Return for each of M questions the likeliest verdict (None: the likeliest token is neither), and the logit log
    P(correct) - log P(wrong). `ids_M` are the questions' tokens.
    """
    words = verdict_tokens(encoder)[1]
    verdicts: dict[int, tuple[Label | None, float]] = {}
    with over_trees(model):
        for tree in trees(ids_M, most_tokens=tokens_per_tree):
            logits_RV = tree_logits(model, tree, device).float()
            likeliest = logits_RV.argmax(dim=-1).tolist()
            between = (logits_RV[:, words[0]] - logits_RV[:, words[1]]).tolist()
            for row, token, logit in zip(tree.rows, likeliest, between, strict=True):
                verdicts[row] = (WORDS[words.index(token)] if token in words else None, logit)
    return [verdicts[row] for row in range(len(ids_M))]
