"""Explore by trying: actions, views, places, routes between them, and names.

A survey plays a task at a time. It judges only by read-only actions before and after an action, and by refusals; words
have no assumed meaning.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from align_echo.align.probe.lab import Lab, LabState
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.places import mentions, surrounds
from align_echo.types import Evidence, Trajectory

NAMES_PER_TEMPLATE = 20
PAIRS_TRIED = 4
"""States per mover tested against two places of the task."""

MAX_IN_COMMON = 0.6
"""Maximum share of names two places have in common."""

MIN_CHANGES = 0.02
"""Minimum changes of a view, relative to the most frequently changing one."""

MIN_SURROUNDS = 0.01
"""Minimum frequency of a word before or after names; rarer ones are parts of missed names."""

MIN_MOVES = 2
MIN_TRAVEL = 0.9
ROUNDS = 12
"""Searches per task for places, from known places."""


@dataclass
class VocabularySurvey:
    """Vocabulary and places of an environment; grows with every task."""

    uninformative: Sequence[str]
    tasks: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    offered: dict[str, set[str]] = field(default_factory=dict)
    """Tasks offering each template, of those asked."""

    names: set[str] = field(default_factory=set)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    """Counts of words before and after names in views; "" for none."""

    places: set[str] = field(default_factory=set)
    views: Counter[str] = field(default_factory=Counter)
    naming: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    """Tries of each mover with a known place; `moves` counts successes."""

    def refused(self, state: LabState) -> bool:
        """Check if the engine's last answer was uninformative."""
        return state.observation.strip() in self.uninformative

    @property
    def templates(self) -> set[str]:
        """Return all templates offered in any task."""
        return set(self.offered)

    def always(self) -> list[str]:
        """List templates offered by all asked tasks."""
        return sorted(template for template, tasks in self.offered.items() if tasks == self.asked)

    def movers(self) -> list[str]:
        """List templates that lead somewhere."""
        return sorted(template for template, count in self.moves.items() if count >= MIN_MOVES)

    def travel(self) -> str:
        """Return the template that leads from any place to any other; "" if there is none."""
        sure = [template for template in self.movers() if self.moves[template] >= MIN_TRAVEL * self.tried[template]]
        return min(sure, key=lambda template: (-self.moves[template], template), default="")

    def tester(self) -> str:
        """Return the most accepted template, except movers; "" if there is none.

        It separates names from other words, because it accepts only names.
        """
        known = [template for template in self.accepted if template not in self.movers()]
        return min(known, key=lambda template: (-self.accepted[template], template), default="")

    def looks(self) -> list[str]:
        """List read-only actions with changing text, the one naming places first."""
        most = max(self.views.values(), default=0)
        changing = [view for view, count in self.views.items() if count > MIN_CHANGES * most]
        return sorted(changing, key=lambda view: (-self.naming[view], view))


def often(words: Counter[str]) -> set[str]:
    """Select words above `MIN_SURROUNDS` of the total count."""
    return {word for word, count in words.items() if count >= MIN_SURROUNDS * words.total()}


def names_in(lab: Lab, state: LabState) -> set[str]:
    """Return the names offered in a state, in lower case."""
    return {name.lower() for name in lab.offered(state).names}


def view_texts(lab: Lab, state: LabState, views: Iterable[str]) -> list[str]:
    """Return the texts of read-only actions in a state; cached on the state."""
    return [lab.look(state, view) for view in views]


def plain_views(lab: Lab) -> list[str]:
    """List the contract's read-only actions without a name."""
    return [action for action in lab.env.contract.read_only_actions if "{}" not in action]


def survey_task(
    lab: Lab, survey: VocabularySurvey, task_id: str, rng: random.Random, *, thorough: bool
) -> list[LabState]:
    """Explore a task, add findings to the survey, and return a state for each place.

    `thorough`: try every template at the start, and movers everywhere. Otherwise visit known places by known routes.
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


def _tour(lab: Lab, survey: VocabularySurvey, start: LabState) -> list[LabState]:
    """Travel to each known place and return the states."""
    states: list[LabState] = []
    state, travel = start, survey.travel()
    for destination in sorted(survey.places) if travel else ():
        if mentions(" ".join(headline(lab, state)), destination):
            continue
        after = lab.after(state, fill(travel, [destination]))
        if after.over:
            break
        if _count_move(lab, survey, state, after, travel, destination):
            learn_names(lab, survey, after)
            states.append(after)
            state = after
    return states


def headline(lab: Lab, state: LabState) -> tuple[str, ...]:
    """Return the beginnings of the views, up to the first punctuation mark."""
    return tuple(lead(text) for text in view_texts(lab, state, plain_views(lab)))


def lead(text: str) -> str:
    """Return the first few words of a text in lower case, up to its first punctuation mark."""
    line = text.lower().strip().split("\n")[0]
    return min((line.split(mark)[0] for mark in ".:,;"), key=len)


def learn_names(lab: Lab, survey: VocabularySurvey, state: LabState) -> None:
    """Add the names and templates offered in a state."""
    survey.asked.add(state.task_id)
    for template in lab.offered(state).templates:
        survey.offered.setdefault(template, set()).add(state.task_id)
    offered = names_in(lab, state)
    survey.names.update(offered)
    for text in view_texts(lab, state, plain_views(lab)):
        learn_surroundings(survey, text.lower(), offered)


def learn_surroundings(survey: VocabularySurvey, text: str, names: Iterable[str]) -> None:
    """Count the words around names in a lower-case text, skipping names inside longer ones."""
    for name in sorted(names, key=lambda name: (-len(name), name)):
        for before, after in surrounds(text, name):
            survey.before[before] += 1
            survey.after[after] += 1
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "|", text)


def _moves_from(
    lab: Lab, survey: VocabularySurvey, state: LabState, reached: set[str], rng: random.Random, *, every: bool
) -> Iterable[tuple[LabState, str]]:
    """Yield (state, place) for actions after which a view begins with the place's name.

    `every`: each template with a few names; otherwise movers with all names not `reached` yet.
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
            action = fill(template, [name])
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


def compare_views(lab: Lab, survey: VocabularySurvey, before: LabState, after: LabState) -> list[str]:
    """List and count the views an action changed."""
    changed = [view for view in plain_views(lab) if lab.look(before, view) != lab.look(after, view)]
    survey.views.update(changed)
    return changed


def _led_to(lab: Lab, survey: VocabularySurvey, before: LabState, after: LabState, name: str) -> bool:
    """Check if a view newly begins with the name and other names are available."""
    led = False
    for view in compare_views(lab, survey, before, after):
        old, new = lead(lab.look(before, view)), lead(lab.look(after, view))
        if mentions(new, name) and not mentions(old, name):
            old_names, new_names = names_in(lab, before), names_in(lab, after)
            if len(old_names & new_names) < MAX_IN_COMMON * len(old_names | new_names):
                survey.naming[view] += 1
                led = True
    return led


def _count_travel(lab: Lab, survey: VocabularySurvey, states: Sequence[LabState], rng: random.Random) -> None:
    """Test movers on pairs of places, near and far."""
    for mover in survey.movers():
        for state in rng.sample(states, min(PAIRS_TRIED, len(states))):
            heading = " ".join(headline(lab, state))
            away = [destination for destination in sorted(survey.places) if not mentions(heading, destination)]
            for destination in rng.sample(away, min(2, len(away))):
                after = lab.after(state, fill(mover, [destination]))
                _count_move(lab, survey, state, after, mover, destination)


def _count_move(
    lab: Lab, survey: VocabularySurvey, before: LabState, after: LabState, mover: str, destination: str
) -> bool:
    """Check if a mover led to a place, and count it."""
    led = not after.over and not survey.refused(after) and _led_to(lab, survey, before, after, destination)
    survey.tried[mover] += 1
    survey.moves[mover] += led
    return led


# ---------------------------------------------------------------- actions that failed for their wording

NAME_WORDS = 4
DROPPED = 0.6
"""Weight of a reading for each dropped name."""

SWAPPED = 0.75
"""Weight of a reading with reordered names."""

CASES_PER_FORM = 12
CASES_PER_TASK = 2
MIN_SUPPORT = 2
MIN_RATE = 0.5
MARGIN = 1.2
OTHER_WORD_RATE = 0.9


@dataclass(frozen=True)
class RefusedAction:
    """Refused utterance with its state."""

    state: LabState
    action: str
    form: str
    names: tuple[str, ...]


@dataclass
class ReadingCounts:
    """Results of a form's readings: tries, effects, refusals and endings.

    Understood readings without effect count neither way: they may have been in effect.
    """

    tried: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    tasks: set[str] = field(default_factory=set)
    cases: int = 0
    example: RefusedAction | None = None


def lift_names(names: Iterable[str], action: str, texts: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Replace the longest known names with {0}, {1} ... and return (form, names).

    Words before a name belong to it if a text in `texts` has them together; they are dropped from the name unless the
    engine accepts it with them ("old lamp" is "lamp").
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
            if any(mentions(text, longer) for text in texts):
                before = " ".join([*words[:cut], ""])
                name = longer if longer in longest else name
                break
        form += before + "{" + str(len(lifted_names)) + "}"
        lifted_names.append(name)
        start = match.end()
    return form + utterance[start:], tuple(lifted_names)


def refused_sayings(
    lab: Lab, survey: VocabularySurvey, trajectories: Iterable[Trajectory]
) -> list[tuple[LabState, str]]:
    """Collect the agents' refused utterances with their states; add names to the survey."""
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


def lifted_sayings(lab: Lab, survey: VocabularySurvey, refused: Iterable[tuple[LabState, str]]) -> list[RefusedAction]:
    """Collect refused utterances about places and things at hand, a few per form and task."""
    sayings: list[RefusedAction] = []
    counts: Counter[tuple[str, str]] = Counter()
    for state, action in refused:
        texts = [text.lower() for text in view_texts(lab, state, survey.looks())]
        form, names = lift_names(survey.names | survey.places, action, texts)
        objects = [name for name in names if name not in survey.places]
        at_hand = all(any(mentions(text, name) for text in texts) for name in objects)
        counts[state.task_id, form] += at_hand
        if names and at_hand and counts[state.task_id, form] <= CASES_PER_TASK:
            sayings.append(RefusedAction(state, action, form, names))
    return sayings


def _learn_names_said(lab: Lab, survey: VocabularySurvey, state: LabState, action: str) -> None:
    """Add unoffered names in an utterance: words of a view the tester accepts."""
    texts = [text.lower() for text in view_texts(lab, state, plain_views(lab))]
    words = action.lower().split()
    for size in range(min(NAME_WORDS, len(words)), 0, -1):
        for start in range(len(words) - size + 1):
            name = " ".join(words[start : start + size])
            if name in survey.names or not survey.tester() or not any(mentions(text, name) for text in texts):
                continue
            if not survey.refused(lab.after(state, fill(survey.tester(), [name]))):
                survey.names.add(name)


def candidates(survey: VocabularySurvey, form: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (reading, action) for every template possibly meant.

    A reading writes a template over the form's slots: "hold {1}" drops the first name. Templates with the form's first
    word may drop any names, others only the last.
    """
    for template in sorted(survey.templates):
        arity = template.count("{")
        if template == form or not 0 < arity <= len(names):
            continue
        leading = [tuple(range(arity))] if arity < len(names) and not same_word(template, form) else None
        for places in leading or permutations(range(len(names)), arity):
            reading = re.sub(r"\{(\d)\}", _over(places), template)
            yield reading, fill(reading, list(names))


def same_word(form: str, template: str) -> bool:
    """Check if two forms begin with the same word."""
    return form.split(" ")[0] == template.split(" ")[0]


def _over(places: Sequence[int]) -> Callable[[re.Match[str]], str]:
    return lambda match: "{" + str(places[int(match[1])]) + "}"


def try_readings(lab: Lab, survey: VocabularySurvey, saying: RefusedAction, readings: ReadingCounts) -> None:
    """Try every reading of an utterance. An ending counts as an effect, but against readings on a single name.

    The lab sees no reward, so an ending may be the goal: likely for bringing something somewhere, a guess for naming
    something.

    Readings without effect are not undone, since a replay costs a full episode; an ending after them is retried alone.
    """
    readings.cases += 1
    readings.tasks.add(saying.state.task_id)
    readings.example = readings.example or saying
    current = saying.state
    before = view_mentions(lab, survey, current, saying.names)
    for reading, action in candidates(survey, saying.form, saying.names):
        after = lab.after(current, action)
        if after.over and current is not saying.state:
            after = lab.after(saying.state, action)
        readings.tried[reading] += 1
        if survey.refused(after):
            readings.refused[reading] += 1
        elif after.over and reading.count("{") < 2:
            readings.ended[reading] += 1
        elif after.over or view_mentions(lab, survey, after, saying.names) != before:
            readings.worked[reading] += 1
        if after.over or compare_views(lab, survey, current, after):
            current = saying.state
        elif not survey.refused(after):
            current = after


def view_mentions(lab: Lab, survey: VocabularySurvey, state: LabState, names: Sequence[str]) -> list[list[str]]:
    """Return the clauses of each view that mention these names, ignoring changes elsewhere."""
    clauses = [re.split(r"[\n.;]", text.lower()) for text in view_texts(lab, state, survey.looks())]
    return [
        [clause.strip() for clause in view if any(mentions(clause, name) for name in names)] for view in clauses
    ]


@dataclass(frozen=True)
class MiswordedForm:
    """Learned misworded form: its reading and effects by task, judged by other tasks."""

    reading: str
    tested: Evidence
    example: RefusedAction


def learn_forms(
    lab: Lab, survey: VocabularySurvey, sayings: Sequence[RefusedAction], known: Iterable[str]
) -> dict[str, MiswordedForm]:
    """Learn forms with a clearly best reading. Each task tests the reading learned from the others."""
    new = [saying for saying in sayings if saying.form not in survey.templates and saying.form not in set(known)]
    learned = {}
    for form in sorted({saying.form for saying in new}):
        by_task = _readings(lab, survey, [saying for saying in new if saying.form == form])
        everything = sum_readings(by_task.values())
        best = best_reading(everything, survey.templates)
        if not best or everything.example is None:
            continue
        agreeing = [
            readings
            for task_id, readings in by_task.items()
            if best_reading(sum_readings(by_task[task] for task in by_task if task != task_id), survey.templates)
            == best
        ]
        tested = sum_readings(agreeing)
        learned[form] = MiswordedForm(best, _evidence(tested, best), everything.example)
    return learned


def _readings(lab: Lab, survey: VocabularySurvey, sayings: Iterable[RefusedAction]) -> dict[str, ReadingCounts]:
    """Try the readings of a form by task, in a few cases each."""
    by_task: dict[str, ReadingCounts] = defaultdict(ReadingCounts)
    for saying in list(sayings)[:CASES_PER_FORM]:
        try_readings(lab, survey, saying, by_task[saying.state.task_id])
    return by_task


def sum_readings(parts: Iterable[ReadingCounts]) -> ReadingCounts:
    """Sum the counts of several tasks."""
    total = ReadingCounts()
    for part in parts:
        total.tried.update(part.tried)
        total.worked.update(part.worked)
        total.refused.update(part.refused)
        total.ended.update(part.ended)
        total.tasks |= part.tasks
        total.cases += part.cases
        total.example = total.example or part.example
    return total


def _evidence(readings: ReadingCounts, reading: str) -> Evidence:
    tasks = len(readings.tasks)
    against = readings.refused[reading] + readings.ended[reading]
    return Evidence(support=readings.worked[reading], refuted=against, tasks=tasks)


def best_reading(readings: ReadingCounts, templates: Iterable[str]) -> str:
    """Return the reading with the most effects, if frequent and clear enough; else "".

    Readings with the form's own word come first. Others need these to be refused and must nearly always work. None
    counts if the engine's form of this word has more names than the utterance.
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


def _clearly_best(readings: ReadingCounts, choice: Sequence[str], least: float) -> str:
    """Return the best reading if its rate is at least `least` and above the next; else ""."""

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
