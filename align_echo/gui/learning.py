"""A Qwen2.5-VL becomes an intuitive critic on screens: cross-entropy on one token (GAIA, paper 3, section 3.2).

What is learned from are the distinct actions that agents proposed on the steps of datasets, right where they succeed by
the matching rules. Each is read by itself, with its own picture; pictures are opened when they are needed, so that
memory holds a batch of them. Left out: the trainer (`gaia/fit/trainer.py`), several devices, gradient
checkpointing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field
from transformers import TrainerCallback

from align_echo.critic.verdict import VERDICTS, Verdict
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.gaia.examples import balanced_places
from align_echo.gaia.fit.trainer import LearningSettings, Part, VerdictTrainer, learner_of
from align_echo.gui.screen_verdict import Screen
from align_echo.gui.screens import Proposed
from align_echo.gui.vision import ScreenEncoder, ScreenQuestion, next_logits, read_verdicts
from align_echo.progress import SILENT, Progress
from align_echo.wrappers.gui.actions import parse
from align_echo.wrappers.gui.steps import GuiStep, screenshot_of


class VisionSettings(LearningSettings):
    """The settings of critics that look."""

    at_once: int = Field(default=4, ge=1)
    """Actions in memory at once."""


@dataclass(frozen=True)
class ScreenExample:
    """A proposed action on a step of the dataset in `folder`, and what is true of it."""

    folder: Path
    step: GuiStep
    action: str
    label: Verdict

    def sight(self, encoder: ScreenEncoder) -> ScreenQuestion:
        """The question about it. Raises `UsageError` for a picture that cannot be read."""
        screen = Screen(screenshot_of(self.folder, self.step), self.step.instruction, self.step.history)
        return encoder.sight(screen, parse(self.action))


def screen_examples(folder: Path, proposed: Iterable[Proposed]) -> list[ScreenExample]:
    """The distinct actions of the steps of a dataset, in order."""
    return [
        ScreenExample(folder, proposal.step, action, label)
        for proposal in proposed
        for action, label in proposal.labels.items()
    ]


def balanced(examples: Sequence[ScreenExample], *, seed: int = 0) -> list[ScreenExample]:
    """As many correct as wrong ones, in order; some of the class that has more are left out. Raises `UsageError` where
    a class has none.
    """
    kept = balanced_places([example.label for example in examples], seed=seed)
    if not kept:
        raise UsageError("the predictions hold no right action, or no wrong one: a critic learns from both")
    return [examples[index] for index in kept]


def learn_on_screens(
    model: Any,
    encoder: ScreenEncoder,
    examples: Sequence[ScreenExample],
    settings: VisionSettings,
    folder: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    callbacks: Iterable[TrainerCallback] = (),
) -> Any:
    """Train, with checkpoints in `folder`, and return the model that learned, with its adapter where it has one.
    `resume` goes on from the last checkpoint. Raises `UsageError` if there is nothing to learn from, or a picture
    cannot be read.
    """
    if not examples:
        raise UsageError("there is no labelled action to learn from")
    learner = learner_of(model, settings)

    def parts(step: Sequence[ScreenExample]) -> Iterator[Part]:
        for first in range(0, len(step), settings.at_once):
            part = step[first : first + settings.at_once]
            batch = encoder.batch([example.sight(encoder) for example in part], learner.device)
            words = [encoder.words[VERDICTS.index(example.label)] for example in part]
            yield Part(partial(next_logits, batch=batch), words, [1.0] * len(part))

    batches = [[examples[index] for index in step] for step in steps(len(examples), settings)]
    trainer = VerdictTrainer(learner, batches, parts, settings, folder, progress=progress, callbacks=callbacks)
    return trainer.learned(resume=resume)


def steps(count: int, settings: VisionSettings) -> list[list[int]]:
    """Which of `count` examples each step learns from, for all epochs, in an order by the seed."""
    by_step: list[list[int]] = []
    for epoch in range(settings.epochs):
        order = Dice(f"fit {settings.seed} {epoch}").shuffled(range(count))
        by_step += [order[first : first + settings.batch_size] for first in range(0, count, settings.batch_size)]
    return by_step


def verdicts_on(
    model: Any, encoder: ScreenEncoder, examples: Sequence[ScreenExample], *, at_once: int
) -> list[tuple[Verdict | None, float]]:
    """What the model says of each example: its verdict (None: neither word), and the logit."""
    verdicts: list[tuple[Verdict | None, float]] = []
    for first in range(0, len(examples), at_once):
        sights = [example.sight(encoder) for example in examples[first : first + at_once]]
        verdicts += read_verdicts(model, encoder, sights, model.device)
    return verdicts
