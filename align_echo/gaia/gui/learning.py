"""Train a Qwen2.5-VL as an intuitive critic on screens: cross-entropy on one token (GAIA, paper 3, section 3.2).

The training data are the distinct actions proposed by agents on the steps of datasets, labelled by the matching rules.
Each is read by itself, with its own picture. Pictures are opened on demand, so that memory holds one batch of them.
Not here: the trainer (`gaia/fit/trainer.py`), multiple devices, gradient checkpointing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field
from transformers import TrainerCallback

from align_echo.base.dice import Dice
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import WORDS, Critic, Label, Verdict, ask
from align_echo.errors import UsageError
from align_echo.gaia.examples import balance_indices
from align_echo.gaia.fit.trainer import LearningSettings, StepPart, VerdictTrainer, build_learner
from align_echo.gaia.gui.screens import ProposedStep, ScreenQuestion, ScreenState
from align_echo.gaia.gui.vision import EncodedScreen, ScreenEncoder, ScreenModel, next_logits
from align_echo.wrappers.gui.actions import parse
from align_echo.wrappers.gui.steps import GuiStep, load_screenshot


class VisionSettings(LearningSettings):
    """Training settings of vision critics."""

    at_once: int = Field(default=4, ge=1)
    """Actions in memory at once."""


@dataclass(frozen=True)
class ScreenExample:
    """A proposed action on a step of the dataset in `folder`, with its label."""

    folder: Path
    step: GuiStep
    action: str
    label: Label

    @property
    def question(self) -> ScreenQuestion:
        """Open the picture for the question about the action. Raises `UsageError` for an unreadable one."""
        screen = ScreenState(load_screenshot(self.folder, self.step), self.step.instruction, self.step.history)
        return ScreenQuestion((), self.action, screen=screen)

    def sight(self, encoder: ScreenEncoder) -> EncodedScreen:
        """Encode the question about the action. Raises `UsageError` for an unusable picture."""
        return encoder.sight(self.question.screen, parse(self.action))


def screen_examples(folder: Path, proposed: Iterable[ProposedStep]) -> list[ScreenExample]:
    """Build an example for each distinct action of the steps, in order."""
    return [
        ScreenExample(folder, proposal.step, action, label)
        for proposal in proposed
        for action, label in proposal.labels.items()
    ]


def balanced(examples: Sequence[ScreenExample], *, seed: int = 0) -> list[ScreenExample]:
    """Balance the classes by leaving out examples of the larger class; keep the order.

    Raises `UsageError` if a class is empty.
    """
    retained = balance_indices([example.label for example in examples], seed=seed)
    if not retained:
        raise UsageError("the predictions hold no right action, or no wrong one: a critic learns from both")
    return [examples[index] for index in retained]


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
    """Train, with checkpoints in `folder`, and return the trained model, with its adapter if it has one.

    `resume` continues from the last checkpoint. Raises `UsageError` if there are no examples, or a picture cannot be
    read.
    """
    if not examples:
        raise UsageError("there is no labelled action to learn from")
    learner = build_learner(model, settings)

    def parts(step: Sequence[ScreenExample]) -> Iterator[StepPart]:
        for first in range(0, len(step), settings.at_once):
            part = step[first : first + settings.at_once]
            batch = encoder.batch([example.sight(encoder) for example in part], learner.device)
            words = [encoder.words[WORDS.index(example.label)] for example in part]
            yield StepPart(partial(next_logits, batch=batch), words, [1.0] * len(part))

    batches = [[examples[index] for index in step] for step in steps(len(examples), settings)]
    trainer = VerdictTrainer(learner, batches, parts, settings, folder, progress=progress, callbacks=callbacks)
    return trainer.learned(resume=resume)


def steps(count: int, settings: VisionSettings) -> list[list[int]]:
    """Assign `count` examples to training steps, for all epochs, in an order derived from the seed."""
    by_step: list[list[int]] = []
    for epoch in range(settings.epochs):
        order = Dice(f"fit {settings.seed} {epoch}").shuffled(range(count))
        by_step += [order[first : first + settings.batch_size] for first in range(0, count, settings.batch_size)]
    return by_step


def verdicts_on(
    model: Any, encoder: ScreenEncoder, examples: Sequence[ScreenExample], *, at_once: int
) -> list[Verdict]:
    """Ask the model for its verdict on each example. The pictures of `at_once` examples are in memory together."""
    critic = Critic(ScreenModel(model, encoder, at_once))
    parts = (examples[first : first + at_once] for first in range(0, len(examples), at_once))
    return [verdict for part in parts for verdict in ask(critic, [example.question for example in part])]
