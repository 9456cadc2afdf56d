"""Misworded actions: what agents say that the engine never understands, and the offered template that does it.

An utterance is lifted to a form by the names in it ("lay {0} in {1}"). For each form every template that could take its
names is tried in the states where agents said it; the one that is understood and changes what the views show, most
often and clearly more often than the next, is what the form may be rewritten to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.survey import Survey, compare_views, learn_names, plain_views, view_texts
from align_echo.types import Evidence, Trajectory

NAME_WORDS = 4
DROPPED = 0.6
"""What a reading is worth for every name of the form that it drops."""

SWAPPED = 0.75
"""What it is worth if it takes the names in another order."""

CASES_PER_FORM = 12
CASES_PER_TASK = 2
MIN_SUPPORT = 2
MIN_RATE = 0.5
MARGIN = 1.2
OTHER_WORD_RATE = 0.9


@dataclass(frozen=True)
class Saying:
    """One refused utterance in the state where it was said."""

    state: LabState
    action: str
    form: str
    names: tuple[str, ...]


@dataclass
class Readings:
    """What came of a form's possible readings: how often each was tried, did something, was refused or ended it all.

    A reading that was understood and changed nothing counts neither for nor against: it may have been in effect.
    """

    tried: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    tasks: set[str] = field(default_factory=set)
    cases: int = 0
    example: Saying | None = None


def lifted(names: Iterable[str], action: str, texts: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """(form, names): the longest known names become {0}, {1} ...

    The words before a name belong to it as far as a text of `texts` has them together; they are left out of the name
    unless the engine takes it with them ("old lamp" is "lamp").
    """
    lifted_names: list[str] = []
    utterance = " ".join(action.lower().split())
    longest = sorted(set(names), key=lambda name: (-len(name), name))
    if not longest:
        return utterance, ()
    form, start = "", 0
    for match in re.finditer(r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)", utterance):
        before, name = utterance[start : match.start()], match.group(0)
        words = before.split(" ")
        for cut in range(max(len(words) - 1, 0)):
            longer = " ".join([*words[cut:-1], name])
            if any(runtime.mentions(text, longer) for text in texts):
                before = " ".join([*words[:cut], ""])
                name = longer if longer in longest else name
                break
        form += before + "{" + str(len(lifted_names)) + "}"
        lifted_names.append(name)
        start = match.end()
    return form + utterance[start:], tuple(lifted_names)


def refused_sayings(lab: Lab, survey: Survey, trajectories: Iterable[Trajectory]) -> list[tuple[LabState, str]]:
    """The agents' refused utterances, each in the state in which it was said; names met on the way join the survey."""
    refused = []
    for trajectory in sorted(trajectories, key=lambda trajectory: trajectory.task_id):
        state = lab.start(trajectory.task_id)
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or state.over:
                continue
            if step.raw_observation.strip() in survey.uninformative:
                learn_names(lab, survey, state)
                _learn_names_said(lab, survey, state, step.action)
                refused.append((state, step.action))
            else:
                after = lab.after(state, step.action)
                compare_views(lab, survey, state, after)
                state = after
    return refused


def lifted_sayings(lab: Lab, survey: Survey, refused: Iterable[tuple[LabState, str]]) -> list[Saying]:
    """The refused utterances about places and things at hand, each form a few times a task."""
    sayings: list[Saying] = []
    counts: Counter[tuple[str, str]] = Counter()
    for state, action in refused:
        texts = [text.lower() for text in view_texts(lab, state, survey.looks())]
        form, names = lifted(survey.names | survey.places, action, texts)
        things = [name for name in names if name not in survey.places]
        at_hand = all(any(runtime.mentions(text, name) for text in texts) for name in things)
        counts[state.task_id, form] += at_hand
        if names and at_hand and counts[state.task_id, form] <= CASES_PER_TASK:
            sayings.append(Saying(state, action, form, names))
    return sayings


def _learn_names_said(lab: Lab, survey: Survey, state: LabState, action: str) -> None:
    """Names in an utterance that the engine does not offer and yet takes: words of a view that the tester accepts."""
    texts = [text.lower() for text in view_texts(lab, state, plain_views(lab))]
    words = action.lower().split()
    for size in range(min(NAME_WORDS, len(words)), 0, -1):
        for start in range(len(words) - size + 1):
            name = " ".join(words[start : start + size])
            if name in survey.names or not survey.tester() or not any(runtime.mentions(text, name) for text in texts):
                continue
            if not survey.refused(lab.after(state, runtime.fill(survey.tester(), [name]))):
                survey.names.add(name)


def candidates(survey: Survey, form: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(reading, action) for every template that may be meant.

    A reading is a template written over the form's own places: "hold {1}" drops the first name. Templates that begin
    with the form's first word may drop any names, others only the last.
    """
    for template in sorted(survey.templates):
        arity = template.count("{")
        if template == form or not 0 < arity <= len(names):
            continue
        leading = [tuple(range(arity))] if arity < len(names) and not same_word(template, form) else None
        for places in leading or permutations(range(len(names)), arity):
            reading = re.sub(r"\{(\d)\}", _over(places), template)
            yield reading, runtime.fill(reading, list(names))


def same_word(form: str, other: str) -> bool:
    """Whether two forms begin with the same word."""
    return form.split(" ")[0] == other.split(" ")[0]


def _over(places: Sequence[int]) -> Callable[[re.Match[str]], str]:
    return lambda match: "{" + str(places[int(match[1])]) + "}"


def try_readings(lab: Lab, survey: Survey, saying: Saying, readings: Readings) -> None:
    """Try every reading of an utterance. What ends the episode changed something; on one thing alone it counts against.

    The lab sees no reward, so an ending may be the goal: bringing this there is likely to be, naming this is a guess.

    What changed no view is not undone before the next reading is tried, since going back costs the engine a whole
    episode; what then ends the episode is tried once more without the readings before it.
    """
    readings.cases += 1
    readings.tasks.add(saying.state.task_id)
    readings.example = readings.example or saying
    current = saying.state
    before = told_of(lab, survey, current, saying.names)
    for reading, action in candidates(survey, saying.form, saying.names):
        after = lab.after(current, action)
        if after.over and current is not saying.state:
            after = lab.after(saying.state, action)
        readings.tried[reading] += 1
        if survey.refused(after):
            readings.refused[reading] += 1
        elif after.over and reading.count("{") < 2:
            readings.ended[reading] += 1
        elif after.over or told_of(lab, survey, after, saying.names) != before:
            readings.worked[reading] += 1
        if after.over or compare_views(lab, survey, current, after):
            current = saying.state
        elif not survey.refused(after):
            current = after


def told_of(lab: Lab, survey: Survey, state: LabState, names: Sequence[str]) -> list[list[str]]:
    """What each view says of some names: the clauses that mention one, so that changes elsewhere do not count."""
    clauses = [re.split(r"[\n.;]", text.lower()) for text in view_texts(lab, state, survey.looks())]
    return [
        [clause.strip() for clause in view if any(runtime.mentions(clause, name) for name in names)]
        for view in clauses
    ]


@dataclass(frozen=True)
class MiswordedForm:
    """A misworded form that was learned: its reading, and what that did in each task, judged by the other tasks."""

    reading: str
    tested: Evidence
    example: Saying


def learn_forms(lab: Lab, survey: Survey, sayings: Sequence[Saying], known: Iterable[str]) -> dict[str, MiswordedForm]:
    """Forms with one clearly best reading. Each task's sayings are a test of what the other tasks' teach."""
    new = [saying for saying in sayings if saying.form not in survey.templates and saying.form not in set(known)]
    learned = {}
    for form in sorted({saying.form for saying in new}):
        by_task = _readings(lab, survey, [saying for saying in new if saying.form == form])
        everything = summed(by_task.values())
        best = best_reading(everything, survey.templates)
        if not best or everything.example is None:
            continue
        agreeing = [
            readings
            for task_id, readings in by_task.items()
            if best_reading(summed(by_task[task] for task in by_task if task != task_id), survey.templates) == best
        ]
        tested = summed(agreeing)
        learned[form] = MiswordedForm(best, _evidence(tested, best), everything.example)
    return learned


def _readings(lab: Lab, survey: Survey, sayings: Iterable[Saying]) -> dict[str, Readings]:
    """What the readings of one form did, by task, in a few cases of each."""
    by_task: dict[str, Readings] = defaultdict(Readings)
    for saying in list(sayings)[:CASES_PER_FORM]:
        try_readings(lab, survey, saying, by_task[saying.state.task_id])
    return by_task


def summed(parts: Iterable[Readings]) -> Readings:
    """The counts of several tasks together."""
    total = Readings()
    for part in parts:
        total.tried.update(part.tried)
        total.worked.update(part.worked)
        total.refused.update(part.refused)
        total.ended.update(part.ended)
        total.tasks |= part.tasks
        total.cases += part.cases
        total.example = total.example or part.example
    return total


def _evidence(readings: Readings, reading: str) -> Evidence:
    tasks = len(readings.tasks)
    against = readings.refused[reading] + readings.ended[reading]
    return Evidence(support=readings.worked[reading], refuted=against, tasks=tasks)


def best_reading(readings: Readings, templates: Iterable[str]) -> str:
    """The reading that did something most often, if often enough and clearly; else "".

    Readings that begin with the form's own word come first. Others count only where those were refused too, and must
    have worked nearly always; none counts where the engine's form of that word takes more names than were said.
    """
    if readings.example is None or readings.cases < MIN_SUPPORT:
        return ""
    form = readings.example.form
    own = [reading for reading in readings.tried if same_word(reading, form)]
    foreign = [reading for reading in readings.tried if not same_word(reading, form)]
    has_own = any(same_word(template, form) for template in templates)
    if has_own and not own:
        return ""
    best = _clearly_best(readings, own, MIN_RATE)
    if best or any(2 * readings.refused[reading] < readings.tried[reading] for reading in own):
        return best
    return _clearly_best(readings, foreign, OTHER_WORD_RATE if has_own else MIN_RATE)


def _clearly_best(readings: Readings, choice: Sequence[str], least: float) -> str:
    """The best of some readings, if it worked at this rate at least and better than the next; else ""."""

    def worth(reading: str) -> float:
        rate = readings.worked[reading] / readings.tried[reading]
        places = re.findall(r"\{(\d)\}", reading)
        swapped = SWAPPED if places != sorted(places) else 1.0
        return rate * swapped * DROPPED ** (most - len(places))

    most = len(readings.example.names) if readings.example else 0
    ranked = sorted(choice, key=lambda reading: (-worth(reading), reading))
    if not ranked:
        return ""
    best = ranked[0]
    clear = len(ranked) == 1 or worth(best) >= MARGIN * worth(ranked[1])
    enough = readings.worked[best] >= MIN_SUPPORT and readings.worked[best] >= least * readings.tried[best]
    return best if clear and enough else ""
