"""Draw screens for a critic to learn from: boxes of different colours, and the instruction to click one of them.

Of every screen two clicks are judged, one into that box and one into another: the better constant answer is right in
50%. Unless `anyone` is set the box is always the first colour's.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from align_echo.base.dice import Dice
from align_echo.gaia.gui.screens import StepPrediction, read_predictions, write_predictions
from align_echo.wrappers.gui.actions import ClickAction, Point, write
from align_echo.wrappers.gui.steps import UnsavedStep, read_steps, write_steps

if TYPE_CHECKING:
    from align_echo.gaia.gui.learning import ScreenExample, VisionSettings

COLOURS = {
    "red": (220, 30, 30),
    "blue": (40, 80, 220),
    "green": (30, 160, 60),
    "black": (20, 20, 20),
    "yellow": (240, 210, 40),
    "pink": (240, 130, 190),
}
CELL, BOX, MARGIN = 42, 30, 9
"""Pixels of a cell, of the box in it, and of the box's rim that is not clicked."""


def drawn(number: int, *, seed: str, size: tuple[int, int], colours: tuple[str, ...], anyone: bool, boxes: int = 2) -> (
    tuple[UnsavedStep, StepPrediction]
):
    """A screen of `size` with so many boxes, and a click into the right one and into another, in random order."""
    from PIL import Image, ImageDraw

    dice = Dice(f"{seed} {number}")
    wanted = dice.pick(colours) if anyone else colours[0]
    shown = [wanted, *dice.shuffled([colour for colour in colours if colour != wanted])[: boxes - 1]]
    cells = [(x, y) for x in range(size[0] // CELL) for y in range(size[1] // CELL)]
    image = Image.new("RGB", size, "white")
    places = []
    for colour, (across, down) in zip(shown, dice.shuffled(cells)[:boxes], strict=True):
        left, top = (cell * CELL + 1 + dice.below(CELL - BOX - 1) for cell in (across, down))
        ImageDraw.Draw(image).rectangle((left, top, left + BOX, top + BOX), fill=COLOURS[colour])
        places.append((left, top, left + BOX, top + BOX))

    def click(box: tuple[int, int, int, int]) -> ClickAction:
        span = BOX - 2 * MARGIN
        return ClickAction(Point(box[0] + MARGIN + dice.below(span), box[1] + MARGIN + dice.below(span)))

    right, wrong = click(places[0]), click(dice.pick(places[1:]))
    step = UnsavedStep(
        id=f"{seed}-{number}",
        episode=f"{seed}-{number}",
        number=0,
        instruction=f"Click the {wanted} box.",
        screenshot=image,
        action=right,
        box=places[0],
    )
    return step, StepPrediction(step=step.id, candidates=tuple(dice.shuffled([write(right), write(wrong)])))


def dataset(
    folder: Path,
    count: int,
    *,
    seed: str,
    size: tuple[int, int] = (84, 84),
    colours: tuple[str, ...] = ("red", "blue", "green"),
    anyone: bool = False,
) -> Path:
    """A step dataset of so many drawn screens, with its predictions."""
    made = [drawn(number, seed=seed, size=size, colours=colours, anyone=anyone) for number in range(count)]
    write_steps((step for step, _ in made), folder)
    write_predictions([one for _, one in made], folder / "predictions.jsonl")
    return folder


def examples_in(folder: Path) -> list[ScreenExample]:
    """Every click of the folder with its label."""
    from align_echo.gaia.gui.learning import screen_examples

    return screen_examples(folder, read_predictions(folder / "predictions.jsonl", read_steps(folder)))


def settings_of(examples: int) -> VisionSettings:
    """What the tiny critic learns by: all weights, small steps, one pass."""
    from align_echo.gaia.gui.learning import VisionSettings

    return VisionSettings(weights="full", lr=3e-3, batch_size=8, at_once=8, save_every=examples)


def learn(folder: Path, tested: Path, out: Path) -> tuple[float, float]:
    """(accuracy in percent on `tested`, seconds of learning) of a critic that learned from `folder`."""
    from align_echo.gaia.gui.fit import tiny_vision
    from align_echo.gaia.gui.learning import learn_on_screens, verdicts_on

    examples, held_out = examples_in(folder), examples_in(tested)
    model, encoder = tiny_vision()
    started = time.process_time()
    learned = learn_on_screens(model, encoder, examples, settings_of(len(examples)), out)
    seconds = time.process_time() - started
    said = verdicts_on(learned, encoder, held_out, at_once=8)
    right = [((of.logit or 0) > 0) == (one.label == "correct") for one, of in zip(held_out, said, strict=True)]
    return 100 * sum(right) / len(right), seconds
