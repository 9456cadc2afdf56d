"""What there is to say and where one can go, found by trying: views, places, the ways between them, names.

A survey plays one task at a time. Everything is judged by what the contract's read-only actions show before and after
an action, and by the engine's refusals; nothing is known of the words.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered import runtime
from align_echo.types import Evidence, Trajectory

NAMES_PER_TEMPLATE = 20
PAIRS_TRIED = 4
"""States from which each mover is held against two places of the task."""

MAX_IN_COMMON = 0.6
"""Share of the names that two places may have in common."""

MIN_CHANGES = 0.02
"""A view changes at least this often, against the one that changes most."""

MIN_SURROUNDS = 0.01
"""A word stands before names, or after them, if it does so this often: else it is a part of a name that was missed."""

MIN_MOVES = 2
MIN_TRAVEL = 0.9
ROUNDS = 12
"""How often a task is searched for places from the places that were found."""


@dataclass
class Survey:
    """What was learned of an environment's vocabulary and places; grows with every task."""

    uninformative: Sequence[str]
    tasks: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    offered: dict[str, set[str]] = field(default_factory=dict)
    """By template, the tasks that offer it, of those that were asked."""

    names: set[str] = field(default_factory=set)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    """How often which words stand before and after names in the views; "" where none does."""

    places: set[str] = field(default_factory=set)
    views: Counter[str] = field(default_factory=Counter)
    naming: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    """By mover: how often it was tried with a known place, and how often (`moves`) it led there."""

    def refused(self, state: LabState) -> bool:
        """Whether the engine's last answer was an uninformative one."""
        return state.observation.strip() in self.uninformative

    @property
    def templates(self) -> set[str]:
        """All templates that any task offers."""
        return set(self.offered)

    def always(self) -> list[str]:
        """The templates that all tasks offer whose engine was asked."""
        return sorted(template for template, tasks in self.offered.items() if tasks == self.asked)

    def movers(self) -> list[str]:
        """Templates that lead somewhere."""
        return sorted(template for template, count in self.moves.items() if count >= MIN_MOVES)

    def travel(self) -> str:
        """The template that leads to any place from any other; "" if there is none."""
        sure = [template for template in self.movers() if self.moves[template] >= MIN_TRAVEL * self.tried[template]]
        return min(sure, key=lambda template: (-self.moves[template], template), default="")

    def tester(self) -> str:
        """The template that the engine accepted most often, movers left out; "" if there is none. It tells names from
        other words: what it takes is a name.
        """
        known = [template for template in self.accepted if template not in self.movers()]
        return min(known, key=lambda template: (-self.accepted[template], template), default="")

    def looks(self) -> list[str]:
        """Read-only actions whose text changes, the one that names places first."""
        most = max(self.views.values(), default=0)
        changing = [view for view, count in self.views.items() if count > MIN_CHANGES * most]
        return sorted(changing, key=lambda view: (-self.naming[view], view))


def often(words: Counter[str]) -> set[str]:
    """The words that are at least `MIN_SURROUNDS` of all that were counted."""
    return {word for word, count in words.items() if count >= MIN_SURROUNDS * words.total()}


def names_in(lab: Lab, state: LabState) -> set[str]:
    """The names that the engine offers in a state, in lower case."""
    return {name.lower() for name in lab.offered(state).names}


def view_texts(lab: Lab, state: LabState, views: Iterable[str]) -> list[str]:
    """The texts of read-only actions in a state; kept on the state."""
    return [lab.look(state, view) for view in views]


def plain_views(lab: Lab) -> list[str]:
    """The contract's read-only actions that name no object."""
    return [action for action in lab.env.contract.read_only_actions if "{}" not in action]


def survey_task(lab: Lab, survey: Survey, task_id: str, rng: random.Random, *, thorough: bool) -> list[LabState]:
    """The states found in a task, one a place; what is met on the way joins the survey.

    `thorough`: every template is tried at the start, and movers everywhere. Otherwise the known places are visited one
    after the other by the known way of travelling.
    """
    survey.tasks.add(task_id)
    start = lab.start(task_id)
    learn_names(lab, survey, start)
    if not thorough:
        return [start, *_tour(lab, survey, start)]
    states = {headline(lab, start): start}
    reached: set[str] = set()
    frontier = [start]
    for _ in range(ROUNDS):
        following: list[LabState] = []
        for state in frontier:
            for after, name in _moves_from(lab, survey, state, reached, rng, every=state is start):
                reached.add(name)
                if headline(lab, after) not in states:
                    states[headline(lab, after)] = after
                    learn_names(lab, survey, after)
                    following.append(after)
        frontier = following
    survey.places |= reached
    _count_travel(lab, survey, list(states.values()), rng)
    return list(states.values())


def _tour(lab: Lab, survey: Survey, start: LabState) -> list[LabState]:
    """The states after travelling to each known place in turn."""
    states: list[LabState] = []
    state, travel = start, survey.travel()
    for place in sorted(survey.places) if travel else ():
        if runtime.mentions(" ".join(headline(lab, state)), place):
            continue
        after = lab.after(state, runtime.fill(travel, [place]))
        if after.over:
            break
        if _count_move(lab, survey, state, after, travel, place):
            learn_names(lab, survey, after)
            states.append(after)
            state = after
    return states


def headline(lab: Lab, state: LabState) -> tuple[str, ...]:
    """What the views begin with: up to the first mark of punctuation."""
    return tuple(lead(text) for text in view_texts(lab, state, plain_views(lab)))


def lead(text: str) -> str:
    """The first few words of a text, lower-case, up to its first mark of punctuation."""
    line = text.lower().strip().split("\n")[0]
    return min((line.split(mark)[0] for mark in ".:,;"), key=len)


def learn_names(lab: Lab, survey: Survey, state: LabState) -> None:
    """Add what the engine offers in a state."""
    survey.asked.add(state.task_id)
    for template in lab.offered(state).templates:
        survey.offered.setdefault(template, set()).add(state.task_id)
    offered = names_in(lab, state)
    survey.names.update(offered)
    for text in view_texts(lab, state, plain_views(lab)):
        learn_surroundings(survey, text.lower(), offered)


def learn_surroundings(survey: Survey, text: str, names: Iterable[str]) -> None:
    """Add the words around names in a lower-case text; of a name within a longer one, nothing is learned."""
    for name in sorted(names, key=lambda name: (-len(name), name)):
        for before, after in runtime.surroundings(text, name):
            survey.before[before] += 1
            survey.after[after] += 1
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "|", text)


def _moves_from(
    lab: Lab, survey: Survey, state: LabState, reached: set[str], rng: random.Random, *, every: bool
) -> Iterable[tuple[LabState, str]]:
    """(state, place) for actions that led to a view which begins otherwise, with the place's name in that beginning.

    `every`: each template with a few names; otherwise the movers with all names that led nowhere yet (`reached`).
    """
    names = sorted(names_in(lab, state))
    rng.shuffle(names)
    current = state
    for template in sorted(survey.templates) if every else survey.movers():
        if template.count("{") != 1:
            continue
        for name in names if template in survey.movers() else names[:NAMES_PER_TEMPLATE]:
            if name in reached and template in survey.movers():
                continue
            action = runtime.fill(template, [name])
            names_in(lab, current)  # asked before the step: to ask later would take a way back
            after = lab.after(current, action)
            if after.over or survey.refused(after):
                current = state if after.over else current
                continue
            if not _led_to(lab, survey, current, after, name):
                survey.accepted[template] += 1
                current = after if every else state
                continue
            _count_move(lab, survey, current, after, template, name)
            current = state
            yield lab.after(state, action), name


def compare_views(lab: Lab, survey: Survey, before: LabState, after: LabState) -> list[str]:
    """The views that an action changed, counted."""
    changed = [view for view in plain_views(lab) if lab.look(before, view) != lab.look(after, view)]
    survey.views.update(changed)
    return changed


def _led_to(lab: Lab, survey: Survey, before: LabState, after: LabState, name: str) -> bool:
    """Whether a view begins with the name now and did not before, and other things than before can be named."""
    led = False
    for view in compare_views(lab, survey, before, after):
        old, new = lead(lab.look(before, view)), lead(lab.look(after, view))
        if runtime.mentions(new, name) and not runtime.mentions(old, name):
            old_names, new_names = names_in(lab, before), names_in(lab, after)
            if len(old_names & new_names) < MAX_IN_COMMON * len(old_names | new_names):
                survey.naming[view] += 1
                led = True
    return led


def _count_travel(lab: Lab, survey: Survey, states: Sequence[LabState], rng: random.Random) -> None:
    """Hold the movers against pairs of places, near and far."""
    for mover in survey.movers():
        for state in rng.sample(states, min(PAIRS_TRIED, len(states))):
            heading = " ".join(headline(lab, state))
            away = [place for place in sorted(survey.places) if not runtime.mentions(heading, place)]
            for place in rng.sample(away, min(2, len(away))):
                after = lab.after(state, runtime.fill(mover, [place]))
                _count_move(lab, survey, state, after, mover, place)


def _count_move(lab: Lab, survey: Survey, before: LabState, after: LabState, mover: str, place: str) -> bool:
    """Whether a mover led to a place, counted."""
    led = not after.over and not survey.refused(after) and _led_to(lab, survey, before, after, place)
    survey.tried[mover] += 1
    survey.moves[mover] += led
    return led


# ---------------------------------------------------------------- misworded actions

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
        [clause.strip() for clause in view if any(runtime.mentions(clause, name) for name in names)] for view in clauses
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
