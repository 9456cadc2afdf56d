"""A tiny critic learns from recorded steps, and what its verdicts are worth beside answers that look at nothing.

It learns from as many right as wrong clicks of every page, so that the page alone tells nothing, is calibrated on
episodes that it did not learn from, and is tested on all distinct actions of other seeds: as they come, and with how
often a page's actions are right in the training seeds (`shares`). Left out: playing with it (`play.py`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from align_echo.critic.calibration import LabelledVerdict, fit_temperature
from align_echo.critic.scoring import CriticCalibration, write_calibration
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.files import write_atomically
from align_echo.gaia.examples import is_held_out
from align_echo.gui.learning import (
    ScreenExample,
    VisionSettings,
    balanced,
    learn_on_screens,
    screen_examples,
    verdicts_on,
)
from align_echo.gui.screens import PREDICTIONS, ProposedStep, StepPrediction, read_predictions
from align_echo.gui.vision import ScreenEncoder, VisionScorer, load_scorer
from align_echo.gui.vision_tiny import tiny_vision
from align_echo.types import Frozen
from align_echo.wrappers.gui.actions import ClickAction, Point, action_type, parse, write
from align_echo.wrappers.gui.steps import read_steps

HELD_OUT = 0.1
"""Share of the training episodes that the temperature is fitted on."""

AT_ONCE = 8
RATE = 1.5e-3
VISION_WIDTH = 128
"""Wide enough to see where in a patch of 14x14 pixels the circle is; the tiny model's own 32 are not."""

CRITIC, CHECKPOINTS, HOW = "critic", "checkpoints", "how.json"


class How(Frozen):
    """How a critic came to be: of how many `actions`, in how many `seconds` of a processor, and by which settings."""

    seed: int
    epochs: int
    explored: int
    actions: int
    seconds: float


def examples_of(folder: Path) -> list[ScreenExample]:
    """The distinct actions of every step of a dataset, with their labels."""
    return screen_examples(folder, read_predictions(folder / PREDICTIONS, read_steps(folder)))


def explored(folder: Path, count: int, *, seed: int) -> list[ScreenExample]:
    """So many clicks into the box of every step and as many anywhere, labelled by the same rules as the novice's."""
    dice = Dice(f"explored {seed}")
    proposed = []
    for step in read_steps(folder):
        if step.box is None:
            continue
        x1, y1, x2, y2 = step.box
        inside = [Point(x1 + dice.below(x2 - x1), y1 + dice.below(y2 - y1)) for _ in range(count)]
        anywhere = [Point(dice.below(step.width), dice.below(step.height)) for _ in range(count)]
        clicks = tuple(write(ClickAction(point)) for point in (*inside, *anywhere))
        proposed.append(ProposedStep(step, StepPrediction(step=step.id, candidates=clicks)))
    return screen_examples(folder, proposed)


def page_of(example: ScreenExample) -> str:
    """The page that a step is of."""
    return example.step.episode.partition("/")[0]


def evened(examples: Sequence[ScreenExample], seed: int) -> list[ScreenExample]:
    """As many right as wrong actions of every page, in random order."""
    pages = dict.fromkeys(map(page_of, examples))
    kept = [one for page in pages for one in balanced([e for e in examples if page_of(e) == page], seed=seed)]
    return Dice(f"evened {seed}").shuffled(kept)


def learn(folder: Path, train: Path, *, seed: int, epochs: int, explore: int) -> tuple[VisionScorer, How]:
    """The critic of one seed in `folder`, trained from nothing and calibrated, or read if it is there.

    Raises `UsageError` for one that was trained by other settings.
    """
    if (folder / HOW).is_file():
        how = How.model_validate_json((folder / HOW).read_text(encoding="utf-8"))
        if (how.seed, how.epochs, how.explored) != (seed, epochs, explore):
            raise UsageError(f"{folder} holds a critic of other settings ({how}): name another --out")
        return load_scorer(folder / CRITIC), how
    started = time.process_time()
    material, held_out = parts(train, seed=seed, explore=explore)
    settings = VisionSettings(
        weights="full", lr=RATE, batch_size=8, at_once=8, epochs=epochs, seed=seed, save_every=10**6
    )
    model, encoder = tiny_vision(seed, vision_width=VISION_WIDTH)
    critic = learn_on_screens(model, encoder, material, settings, folder / CHECKPOINTS)
    seconds = time.process_time() - started
    how = How(seed=seed, epochs=epochs, explored=explore, actions=len(material), seconds=seconds)
    return keep(folder, critic, encoder, held_out, how), how


def parts(train: Path, *, seed: int, explore: int) -> tuple[list[ScreenExample], list[ScreenExample]]:
    """What is learned from and what the temperature is fitted on, of different episodes; both evened by page."""
    kept = evened(examples_of(train) + explored(train, explore, seed=seed), seed)
    held_out = [example for example in kept if is_held_out(example.step.episode, HELD_OUT, seed=seed)]
    return [example for example in kept if not is_held_out(example.step.episode, HELD_OUT, seed=seed)], held_out


def keep(
    folder: Path, critic: Any, encoder: ScreenEncoder, held_out: Sequence[ScreenExample], how: How
) -> VisionScorer:
    """Calibrate a critic on the episodes held out, and write it."""
    logits = [logit for _, logit in verdicts_on(critic, encoder, held_out, at_once=AT_ONCE)]
    temperature = fit_temperature(logits, [example.label == "correct" for example in held_out])
    critic.save_pretrained(str(folder / CRITIC))
    encoder.save(folder / CRITIC)
    write_calibration(CriticCalibration(temperature=temperature, n=len(held_out)), folder / CRITIC)
    write_atomically(folder / HOW, how.model_dump_json() + "\n")
    return VisionScorer(critic, encoder, temperature, AT_ONCE)


def verdicts(scorer: VisionScorer, examples: Sequence[ScreenExample]) -> list[LabelledVerdict]:
    """What the critic says of every action, in order, beside what is true."""
    said = verdicts_on(scorer.model, scorer.encoder, examples, at_once=AT_ONCE)
    return [
        LabelledVerdict(one.step.episode, action_type(parse(one.action)), one.label, verdict, logit)
        for one, (verdict, logit) in zip(examples, said, strict=True)
    ]


def shares(examples: Sequence[ScreenExample]) -> dict[str, float]:
    """By page, the share of the actions that is right, as if one more were right and one more wrong."""
    right = Counter(page_of(example) for example in examples if example.label == "correct")
    every = Counter(page_of(example) for example in examples)
    return {page: (right[page] + 1) / (every[page] + 2) for page in every}
