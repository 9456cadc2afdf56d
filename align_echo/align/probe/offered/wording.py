"""Misworded actions: what agents say that the engine never understands, and the offered template that does it.

An utterance is lifted to a form by the names in it ("lay {0} in {1}"). For each form every template that could take its
names is tried in the states where agents said it; the one that is understood and changes what the views show, most
often and clearly more often than the next, is what the form may be rewritten to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from align_echo.align.probe.lab import Lab, State
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.survey import Survey, plain_views, view_texts
from align_echo.types import Evidence, Trajectory

CASES_PER_FORM = 5
CASES_PER_TASK = 2
MIN_SUPPORT = 3
MIN_RATE = 0.6
MARGIN = 1.25
SAME_WORD = 1.5
"""A template that begins with the form's own first word counts that much more than another."""


@dataclass(frozen=True)
class Saying:
    """One refused utterance in the state where it was said."""

    task_id: str
    state: State
    action: str
    form: str
    names: tuple[str, ...]


@dataclass
class Readings:
    """What came of a form's possible readings: per template how often it was tried, and how often it did something."""

    tried: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    tasks: set[str] = field(default_factory=set)
    example: Saying | None = None


def lifted(survey: Survey, action: str) -> tuple[str, tuple[str, ...]]:
    """(form, names): the longest known names become {0}, {1} ..."""
    names: list[str] = []

    def mark(found: re.Match[str]) -> str:
        names.append(found.group(0))
        return "{" + str(len(names) - 1) + "}"

    longest = sorted(survey.names | survey.places, key=lambda name: (-len(name), name))
    pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)"
    form = re.sub(pattern, mark, " ".join(action.lower().split())) if longest else action.lower()
    return form, tuple(names)


def sayings(lab: Lab, survey: Survey, trajectories: Iterable[Trajectory]) -> Iterator[Saying]:
    """The agents' refused utterances with a name in them, each form a few times a task, in the state it was said in."""
    for trajectory in sorted(trajectories, key=lambda one: one.task_id):
        state = lab.start(trajectory.task_id)
        taken: Counter[str] = Counter()
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            if step.raw_observation.strip() not in survey.uninformative:
                state = lab.after(state, step.action)
                continue
            form, names = lifted(survey, step.action)
            if names and taken[form] < CASES_PER_TASK:
                taken[form] += 1
                yield Saying(trajectory.task_id, state, step.action, form, names)


def candidates(survey: Survey, form: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(template, action) for every template that takes names of the form; fewer names only under the same first word.

    A template is written over the form's own places: "grab {0} off {1}" stays, "hold {1}" drops the first name.
    """
    for template in sorted(survey.templates):
        arity = template.count("{")
        same_word = template.split(" ")[0] == form.split(" ")[0]
        if template == form or not 0 < arity <= len(names) or (arity < len(names) and not same_word):
            continue
        for places in permutations(range(len(names)), arity):
            reading = runtime.fill(template, ["{" + str(place) + "}" for place in places])
            yield reading, runtime.fill(reading, list(names))


def try_readings(lab: Lab, survey: Survey, saying: Saying, readings: Readings) -> None:
    """Try every reading of an utterance whose names are all at hand. One that ends the episode counts against itself."""
    texts = view_texts(lab, saying.state, plain_views(lab))
    if not all(any(runtime.mentions(text.lower(), name) for text in texts) for name in saying.names):
        return
    readings.tasks.add(saying.task_id)
    readings.example = readings.example or saying
    for reading, action in candidates(survey, saying.form, saying.names):
        after = lab.after(saying.state, action)
        changed = not after.over and view_texts(lab, after, plain_views(lab)) != texts
        readings.tried[reading] += 1
        readings.worked[reading] += changed and not survey.refused(after)


def learn_forms(
    lab: Lab, survey: Survey, said: Iterable[Saying], known: Iterable[str]
) -> dict[str, tuple[str, Evidence, Saying]]:
    """form -> (template over its places, evidence, an example) where one reading is clearly the best."""
    known = set(known)
    by_form: dict[str, Readings] = defaultdict(Readings)
    cases: Counter[str] = Counter()
    for saying in said:
        if saying.form in survey.templates or saying.form in known or cases[saying.form] >= CASES_PER_FORM:
            continue
        before = sum(by_form[saying.form].tried.values())
        try_readings(lab, survey, saying, by_form[saying.form])
        cases[saying.form] += sum(by_form[saying.form].tried.values()) > before
    found = {}
    for form, readings in sorted(by_form.items()):
        best = best_reading(form, readings, cases[form])
        if best and readings.example is not None:
            support = readings.worked[best]
            evidence = Evidence(support=support, refuted=readings.tried[best] - support, tasks=len(readings.tasks))
            found[form] = (best, evidence, readings.example)
    return found


def best_reading(form: str, readings: Readings, cases: int) -> str:
    """The reading that did something most often, if often enough and clearly; else ""."""

    def worth(reading: str) -> float:
        rate = readings.worked[reading] / readings.tried[reading]
        return rate * (SAME_WORD if reading.split(" ")[0] == form.split(" ")[0] else 1.0)

    ranked = sorted(readings.tried, key=lambda reading: (-worth(reading), reading))
    if not ranked or cases < MIN_SUPPORT:
        return ""
    best = ranked[0]
    clear = len(ranked) == 1 or worth(best) >= MARGIN * worth(ranked[1])
    enough = readings.worked[best] >= MIN_SUPPORT and readings.worked[best] >= MIN_RATE * readings.tried[best]
    return best if clear and enough else ""
