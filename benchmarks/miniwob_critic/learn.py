"""A tiny critic learns from recorded steps, and what its verdicts are worth beside answers that look at nothing.

It learns from as many right as wrong clicks of every page, so that the page alone tells nothing, is calibrated on
episodes that it did not learn from, and is tested on all distinct actions of other seeds as they come. Left out:
playing with it (`play.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.critic.calibration import LabelledVerdict, fit_temperature
from align_echo.critic.vision import VisionScorer
from align_echo.critic.vision_tiny import tiny_vision
from align_echo.flywheel.examples import is_held_out
from align_echo.flywheel.screens import Prediction, Proposed, read_predictions
from align_echo.flywheel.vision_fitting import (
    ScreenExample,
    VisionSettings,
    balanced,
    fit,
    screen_examples,
    verdicts_on,
)
from align_echo.wrappers.dice import Dice
from align_echo.wrappers.gui.actions import Click, Point, action_type, parse, write
from align_echo.wrappers.gui.steps import read_steps
from benchmarks.miniwob_critic.record import PREDICTIONS

HELD_OUT = 0.1
"""Share of the training episodes that the temperature is fitted on."""

AT_ONCE = 8


@dataclass(frozen=True)
class Learned:
    """A critic and how many actions it learned from."""

    scorer: VisionScorer
    actions: int


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
        clicks = tuple(write(Click(point)) for point in (*inside, *anywhere))
        proposed.append(Proposed(step, Prediction(step=step.id, candidates=clicks)))
    return screen_examples(folder, proposed)


def page_of(example: ScreenExample) -> str:
    """The page that a step is of."""
    return example.step.episode.partition("/")[0]


def evened(examples: Sequence[ScreenExample], seed: int) -> list[ScreenExample]:
    """As many right as wrong actions of every page, in random order."""
    pages = dict.fromkeys(map(page_of, examples))
    kept = [one for page in pages for one in balanced([e for e in examples if page_of(e) == page], seed=seed)]
    return Dice(f"evened {seed}").shuffled(kept)


def learn(examples: Sequence[ScreenExample], out: Path, *, seed: int, epochs: int, lr: float = 3e-3) -> Learned:
    """A critic of one seed, calibrated on the episodes held out."""
    kept = evened(examples, seed)
    held_out = [one for one in kept if is_held_out(one.step.episode, HELD_OUT, seed=seed)]
    material = [one for one in kept if not is_held_out(one.step.episode, HELD_OUT, seed=seed)]
    settings = VisionSettings(
        weights="full", lr=lr, batch_size=8, at_once=8, epochs=epochs, seed=seed, save_every=10**6
    )
    model, encoder = tiny_vision(seed)
    critic = fit(model, encoder, material, settings, out)
    logits = [logit for _, logit in verdicts_on(critic, encoder, held_out, at_once=AT_ONCE)]
    temperature = fit_temperature(logits, [one.label == "correct" for one in held_out])
    return Learned(VisionScorer(critic, encoder, temperature, AT_ONCE), len(material))


def verdicts(scorer: VisionScorer, examples: Sequence[ScreenExample]) -> list[LabelledVerdict]:
    """What the critic says of every action, in order, beside what is true."""
    said = verdicts_on(scorer.model, scorer.encoder, examples, at_once=AT_ONCE)
    return [
        LabelledVerdict(one.step.episode, action_type(parse(one.action)), one.label, verdict, logit)
        for one, (verdict, logit) in zip(examples, said, strict=True)
    ]
