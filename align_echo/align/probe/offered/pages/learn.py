"""From pages that were tried out to rules: which parts each form takes, and what leads to a name that is not shown.

Left out: the tests of these rules on other tasks (`trials.py`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered.pages import runtime
from align_echo.align.probe.offered.pages.survey import PageSeen, Spec, changes, strange

MIN_TASKS = 3
MIN_TIMES = 5
MIN_OPEN = 30
"""A region is called open, or closed, after so many parts of it were tried."""

MIN_TEXTS = 10
"""A shape is learned from so many different texts."""

COMMON = 0.5
"""The frame holds texts that were taken in this share of the tasks."""

MOST_EXCEPTIONS = 60
PAGES_FOR_WAYS = 12
"""Pages of each frame from which ways are tried."""

SHIFTS = (-3, -2, -1, 1, 2, 3)
MIN_WORDS = 3
"""Parts of fewer words are not looked for beside names: too many pages show them."""

MIN_RATE = 0.95


class Tried(NamedTuple):
    """One part of one page, tried with one form."""

    task_id: str
    text: str
    features: tuple[str, ...]
    shape: str
    taken: bool


def frame_texts(pages: Sequence[PageSeen]) -> list[str]:
    """The texts that led to other pages in many tasks, and wherever they stood alone."""
    tasks = len({page.task_id for page in pages})
    where: dict[str, set[str]] = defaultdict(set)
    idle: set[str] = set()
    for page in pages:
        idle.update(part.lower() for part in page.parts if part.lower() not in page.moving)
        for text in page.moving:
            where[text].add(page.task_id)
    return sorted(text for text, known in where.items() if len(known) >= COMMON * tasks and text not in idle)


def free_frames(lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen], rng: random.Random) -> list[str]:
    """The frames on whose pages a form takes any words, as far as the next page shows it."""
    frames = []
    for frame, known in sampled(spec, pages).items():
        tasks = {page.task_id for page in known}
        if len(known) < MIN_TIMES or len(tasks) < MIN_TASKS:
            continue
        if all(changes(lab, page.state, runtime.fill(form, strange(rng))) for page in known):
            frames.append(frame)
    return frames


def closed_rule(spec: Spec, form: str, pages: Sequence[PageSeen]) -> Spec:
    """What is known of one form: texts it always or never took, and its regions."""
    tried: dict[str, list[Tried]] = defaultdict(list)
    by_text: dict[str, list[Tried]] = defaultdict(list)
    lies: set[str] = set()
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for index, part in enumerate(page.parts):
            taken = index in page.taken[form]
            features = tuple(runtime.features_of(lower, index))
            seen = Tried(page.task_id, lower[index], features, runtime.shape_of(part), taken)
            by_text[lower[index]].append(seen)
            tried[runtime.region_of(spec, lower, index)].append(seen)
            lies |= {lower[index]} if lower[index] in page.offered and not taken else set()
    sure = [text for text in spec["frame"] if by_text[text] and all(seen.taken for seen in by_text[text])]
    never = [text for text in sorted(lies) if _often(by_text[text]) and not any(seen.taken for seen in by_text[text])]
    regions = {}
    for key, rows in sorted(tried.items()):
        region = region_rule([seen for seen in rows if seen.text not in sure and seen.text not in never])
        if region is not None:
            regions[key] = region
    return {"sure": sure, "never": never, "regions": regions}


def _often(rows: Sequence[Tried]) -> bool:
    return len(rows) >= MIN_TIMES and len({seen.task_id for seen in rows}) >= MIN_TASKS


def region_rule(rows: Sequence[Tried]) -> Spec | None:
    """How the parts of a region that can be named are told from the others; None where that cannot be told.

    Either all but those with certain features ("open" is "all", and "not" holds the features), or those of certain
    shapes ("shapes"), and then none else ("open" is "none") or who knows ("").
    """
    if len(rows) < MIN_OPEN or len({seen.task_id for seen in rows}) < MIN_TASKS:
        return None
    exceptions = _exceptions(rows)
    if exceptions is not None:
        return {"open": "all", "not": exceptions, "shapes": []}
    shapes = _shapes(rows)
    rest = [seen for seen in rows if seen.shape not in shapes]
    if any(seen.taken for seen in rest):
        return {"open": "", "not": [], "shapes": shapes} if shapes else None
    return {"open": "none", "not": [], "shapes": shapes}


def _exceptions(rows: Sequence[Tried]) -> list[str] | None:
    """Features that no part with them was taken, and all parts without them were; None if there are none such."""
    known: dict[str, list[Tried]] = defaultdict(list)
    for seen in rows:
        for feature in seen.features:
            known[feature].append(seen)
    usable = {feature for feature, rows in known.items() if _often(rows) and not any(seen.taken for seen in rows)}
    left = [seen for seen in rows if not seen.taken]
    chosen: list[str] = []
    while left and len(chosen) < MOST_EXCEPTIONS:
        counts = Counter(feature for seen in left for feature in seen.features if feature in usable)
        if not counts:
            return None
        best = min(counts, key=lambda feature: (-counts[feature], feature))
        chosen.append(best)
        left = [seen for seen in left if best not in seen.features]
    taken = [seen for seen in rows if seen.taken]
    enough = len(taken) >= MIN_OPEN and len({seen.task_id for seen in taken}) >= MIN_TASKS
    return sorted(chosen) if enough and not left else None


def _shapes(rows: Iterable[Tried]) -> list[str]:
    """Shapes of which many different texts were met, all of them taken."""
    by_shape: dict[str, list[Tried]] = defaultdict(list)
    for seen in rows:
        by_shape[seen.shape].append(seen)
    return sorted(
        shape
        for shape, having in by_shape.items()
        if all(seen.taken for seen in having) and len({seen.text for seen in having}) >= MIN_TEXTS and _often(having)
    )


# ---------------------------------------------------------------- ways


def sampled(spec: Spec, pages: Iterable[PageSeen]) -> dict[str, list[PageSeen]]:
    """Some pages of each frame, spread over tasks."""
    by_frame: dict[str, list[PageSeen]] = defaultdict(list)
    for page in pages:
        by_frame[runtime.frame_of(spec, [part.lower() for part in page.parts])].append(page)
    return {frame: known[:: -(-len(known) // PAGES_FOR_WAYS)] for frame, known in sorted(by_frame.items())}


def learn_steps(lab: Lab, spec: Spec, pages: Iterable[PageSeen]) -> dict[str, dict[str, dict[str, str]]]:
    """By frame and form, for names that its pages do not show: the name that leads to a page where they are taken."""
    steps: dict[str, dict[str, dict[str, str]]] = {}
    for frame, known in sampled(spec, pages).items():
        for form in spec["closed"]:
            led, tries = _steps_from(lab, spec, form, known)
            ways = {
                (wanted, step): count
                for (wanted, step), count in sorted(led.items())
                if count == tries[step] and count >= MIN_TIMES
            }
            if len({page.task_id for page in known}) >= MIN_TASKS:
                for wanted, step in sorted(ways, key=lambda way: (ways[way], way)):
                    steps.setdefault(frame, {}).setdefault(form, {})[wanted] = step
    return steps


def _steps_from(
    lab: Lab, spec: Spec, form: str, pages: Sequence[PageSeen]
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """(how often a step led to a name, how often a step was tried): names of the frame, as the pages write them. A name
    that only takes the step back is none."""
    led: Counter[tuple[str, str]] = Counter()
    tries: Counter[str] = Counter()
    for page in pages:
        lower = [part.lower() for part in page.parts]
        for step in runtime.possible(spec, form, list(page.parts)):
            if step.lower() not in spec["frame"]:
                continue
            tries[step] += 1
            after = lab.after(page.state, runtime.fill(form, step))
            names = [] if after.over else runtime.possible(spec, form, runtime.parts_of(spec, after.observation))
            new = [name for name in names if name.lower() in spec["frame"] and name.lower() not in lower]
            led.update(
                (name, step)
                for name in new
                if lab.after(after, runtime.fill(form, name)).observation != page.state.observation
            )
    return led, tries


def learn_beside(lab: Lab, spec: Spec, pages: Iterable[PageSeen]) -> dict[str, dict[str, Any]]:
    """By form, where the name stands that leads to a page with a part on it that cannot be named itself."""
    beside = {}
    for form in spec["closed"]:
        hits: Counter[tuple[int, str]] = Counter()
        tries: Counter[tuple[int, str]] = Counter()
        for known in sampled(spec, pages).values():
            for page in known:
                for shift, region, led in leads(lab, spec, form, page):
                    tries[shift, region] += 1
                    hits[shift, region] += led
        good = [way for way in sorted(tries) if hits[way] >= MIN_TEXTS and hits[way] >= MIN_RATE * tries[way]]
        if good:
            shift = max(good, key=lambda way: hits[way])[0]
            beside[form] = {"shift": shift, "regions": [region for other, region in good if other == shift]}
    return beside


def leads(lab: Lab, spec: Spec, form: str, page: PageSeen) -> list[tuple[int, str, bool]]:
    """(shift, region, whether the name there, and no other of its region, leads to a page that shows the part) for the
    parts of a page that cannot be named, and the names near them."""
    parts = list(page.parts)
    lower = [part.lower() for part in parts]
    regions = [runtime.region_of(spec, lower, index) for index in range(len(parts))]
    names = [index for index in range(len(parts)) if runtime.named(spec, form, parts, index) == "yes"]
    shown: dict[int, list[str]] = {}
    verdicts = []
    for index, part in enumerate(parts):
        near = [shift for shift in SHIFTS if index + shift in names]
        if len(part.split()) < MIN_WORDS or not near or runtime.named(spec, form, parts, index) != "no":
            continue
        for number in names:
            if number not in shown:
                after = lab.after(page.state, runtime.fill(form, parts[number]))
                shown[number] = runtime.parts_of(spec, after.observation)
        for shift in near:
            like = [number for number in names if regions[number] == regions[index + shift]]
            others = [number for number in like if parts[number] != parts[index + shift]]
            if others:
                led = part in shown[index + shift] and not any(part in shown[number] for number in others)
                verdicts.append((shift, regions[index], led))
    return verdicts
