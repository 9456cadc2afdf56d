"""Task ids of ScienceWorld and its splits, without Java.

An id is `<task>/<simplification>/<variation>`: `boil/easy/21`, `boil/none/21`, `boil/teleportAction+openDoors/21`. A
split lists its tasks with ALIGN's simplification, `easy`; name an id to play any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from align_echo.errors import UsageError

VARIATIONS = {
    "boil": (14, 7, 9),
    "change-the-state-of-matter-of": (14, 7, 9),
    "chemistry-mix": (16, 8, 8),
    "chemistry-mix-paint-secondary-color": (18, 9, 9),
    "chemistry-mix-paint-tertiary-color": (18, 9, 9),
    "find-animal": (150, 75, 75),
    "find-living-thing": (150, 75, 75),
    "find-non-living-thing": (150, 75, 75),
    "find-plant": (150, 75, 75),
    "freeze": (14, 7, 9),
    "grow-fruit": (62, 31, 33),
    "grow-plant": (62, 31, 33),
    "identify-life-stages-1": (6, 3, 5),
    "identify-life-stages-2": (4, 2, 4),
    "inclined-plane-determine-angle": (84, 42, 42),
    "inclined-plane-friction-named-surfaces": (692, 346, 348),
    "inclined-plane-friction-unnamed-surfaces": (80, 40, 42),
    "lifespan-longest-lived": (62, 31, 32),
    "lifespan-longest-lived-then-shortest-lived": (62, 31, 32),
    "lifespan-shortest-lived": (62, 31, 32),
    "measure-melting-point-known-substance": (218, 109, 109),
    "measure-melting-point-unknown-substance": (150, 75, 75),
    "melt": (14, 7, 9),
    "mendelian-genetics-known-plant": (60, 30, 30),
    "mendelian-genetics-unknown-plant": (240, 120, 120),
    "power-component": (10, 5, 5),
    "power-component-renewable-vs-nonrenewable-energy": (10, 5, 5),
    "test-conductivity": (450, 225, 225),
    "test-conductivity-of-unknown-substances": (300, 150, 150),
    "use-thermometer": (270, 135, 135),
}
"""Task -> number of variations for training, development and test; they are numbered from 0 in this order."""

SIMPLIFICATIONS = ("teleportAction", "openDoors", "openContainers", "selfWateringFlowerPots", "noElectricalAction")
"""The engine's own simplifications; `easy` is all of them that the task allows, `none` is none."""

FIRST = 5
"""Largest number of variations of each task in ALIGN's tests (appendix C)."""


@dataclass(frozen=True)
class LabTask:
    """Task in the engine's terms: `simplifications` is "" or names joined by commas."""

    name: str
    simplifications: str
    variation: int


def task_ids(split: str) -> tuple[str, ...]:
    """Return the ids of a split, by task and then by variation."""
    return tuple(f"{name}/easy/{number}" for name in VARIATIONS for number in variations(name, split))


def variations(name: str, split: str) -> range:
    """Return the variations of a task in a split. Raises `KeyError` for an unknown task or split."""
    train, dev, test = VARIATIONS[name]
    return {
        "train": range(train),
        "dev": range(train, train + dev),
        "test": range(train + dev, train + dev + test),
        "align_test": range(train + dev, train + dev + min(FIRST, test)),
    }[split]


def read_task(task_id: str, split: str) -> LabTask:
    """Parse a task id. Raises `UsageError` for an unknown task, or a variation outside the split."""
    name, _, rest = task_id.partition("/")
    simplification, _, number = rest.partition("/")
    if name not in VARIATIONS:
        raise UsageError(f"there is no task {task_id!r}: an id is <task>/<simplification>/<variation>, see tasks()")
    if not (number.isascii() and number.isdigit() and len(number) < 9 and str(int(number)) == number):
        raise UsageError(f"{task_id!r} does not end in the number of a variation, as in {name}/easy/0")
    known = variations(name, split)
    if int(number) not in known:
        raise UsageError(f"{name} has no variation {number} in split {split}; it has {known[0]} to {known[-1]}")
    return LabTask(name, _simplifications(name, simplification), int(number))


def _simplifications(task: str, text: str) -> str:
    if text in ("easy", "none"):
        return "" if text == "none" else text
    named = text.split("+")
    for name in named:
        if name not in SIMPLIFICATIONS or named.count(name) > 1:
            known = ", ".join(SIMPLIFICATIONS)
            raise UsageError(f"unknown simplification {text!r}; say easy, none, or some of {known} joined by +")
    if "noElectricalAction" in named and ("power-component" in task or "conductivity" in task):
        raise UsageError(f"{task} needs electrical actions: leave out noElectricalAction")
    return ",".join(named)
