"""Learn rules from cases: a decision list (conditions -> missing step) for each action template.

Rules are grown greedily: among all conclusions correct somewhere and conjunctions of up to four conditions, choose the
most often correct and least often wrong on undecided cases. A case without help counts against every rule with advice.
A rule must hold in several tasks. "Already so" requires evidence: a view, or the last action. Rules are scored with
`runtime.py`, the code that applies them later.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import Case
from align_echo.align.probe.lab import Lab, answers
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.runtime import ACTION, SAME
from align_echo.align.probe.spec import Row
from align_echo.types import Trajectory
from align_echo.workers.remote import ForkPool

MAX_CONDITIONS = 4
MIN_SUPPORT = 4
MIN_TASKS = 3
MIN_PRECISION = 0.99
MIN_ALLOWED = 12
"""Allowed cases required to call a condition a constant requirement; it must hold in all."""

STEPS_OF_A_NEED = 3
"""Maximum different steps that satisfy a requirement."""

_STATES = {"shows", "holds", "last", "did", "here", "active", "blank"}
"""Conditions eligible as constant requirements."""
_BEAM = 8
_WRONG = 5.0
_PRICE = {
    **{"shape": 1.75, "known": 1.5, "near": 1.5, "here": 1.25, "at": 1.25, "kind": 0.75},
    **{"shows": 0.75, "holds": 0.75, "blank": 0.75, "told": 0.75},
}
"""Cost of conditions; a current view costs less than an earlier text."""
_ONLY_SO = {"shape", "known", "near", "told", "combined"}
"""Conditions without negation, since absence says little."""

_EVIDENCE = {"shows", "holds", "told", "last", "did", "active"}
"""Conditions required, at least one of them, for "already so"."""


def conditions(spec: dict[str, Any], places: int, shapes: Iterable[list[Any]]) -> list[list[Any]]:
    """List all single conditions on an action with `places` names; `shapes` are frequent [shape] and [told] conditions.
    """
    literals: list[list[Any]] = []
    plain = [view for view in spec["views"] if "{}" not in view]
    about = [view for view in spec["views"] if "{}" in view]
    arity = {template: template.count("{") for template in spec["templates"]}
    for slot in range(2 * places):
        literals += [["shows", view, slot] for view in plain]
        literals += [["holds", view, slot, second] for view in about for second in range(places) if second != slot]
    for slot in range(places):
        for template in spec["movers"]:
            literals += [[kind, template, k, slot] for kind in ("last", "did") for k in range(arity[template])]
            literals.append(["here", slot, template])
            literals += [["at", slot, template, second] for second in range(places) if second != slot]
        for number, pair in enumerate(spec["pairs"]):
            literals += [["active", number, second, slot] for second in range(arity[pair[0]])]
        literals.append(["known", slot])
        sorting = [*spec["movers"], *(pair[0] for pair in spec["pairs"])]
        slots = [(template, second) for template in sorting for second in range(len(spec["kinds"].get(template, ())))]
        literals += [["kind", slot, template, second] for template, second in slots]
        literals += [["with", slot, second] for second in range(places) if second != slot]
        literals += [["near", slot, second] for second in range(places) if second != slot]
    literals += [["any", number, slot] for number, pair in enumerate(spec["pairs"]) for slot in range(arity[pair[0]])]
    literals += [["blank", view] for view in plain]
    literals += [["combined", template] for template in spec["combined"] if template.count("{") == places]
    literals += shapes
    return literals + [["not", literal] for literal in literals if literal[0] not in _ONLY_SO]


def conclusions(spec: dict[str, Any], case: Case) -> frozenset[str]:
    """Return all correct conclusions (as JSON) of a case; cached."""
    if not case.right:
        plain = "now" if case.now else "already" if case.already else ""
        case.right.append(frozenset({json.dumps(plain)} if plain else _conclusions(spec, case)))
    return case.right[0]


def _conclusions(spec: dict[str, Any], case: Case) -> set[str]:
    right: set[str] = set()
    terms: list[list[Any]] = []
    for slot in range(len(case.names)):
        terms += [["name", slot], ["with", slot], ["near", slot]]
        terms += [["at", slot, template] for template in spec["movers"]]
    terms += [["active", number, slot] for number, pair in enumerate(spec["pairs"]) for slot in range(len(pair[2]))]
    terms += [["last", template, slot] for template in spec["movers"] for slot in range(template.count("{"))]
    named: dict[str, list[list[Any]]] = defaultdict(list)
    for term in terms:
        named[runtime.value(case.history, term, list(case.names))].append(term)
    for step in case.steps:
        template, names = skeleton(step, spec["name"])
        choices: list[list[list[Any]]] = [[]]
        for name in names:
            choices = [[*chosen, term] for chosen in choices for term in named.get(name, ())][:400]
        fits = [False, True] if runtime.combined(spec, template, list(names)) else [False]
        right.update(json.dumps([template, chosen, only]) for chosen in choices for only in fits)
    return right


@dataclass
class _Table:
    """Cases of a template as bit sets: cases and cost of each condition, and applicable and correct cases of each
    conclusion."""

    cases: Sequence[Case]
    literals: list[tuple[list[Any], int]]
    prices: list[float]
    fires: dict[str, int]
    right: dict[str, int]

    @classmethod
    def of(cls, spec: dict[str, Any], cases: Sequence[Case], only: str = "") -> _Table:
        """Build a table of frequently correct conclusions, or of `only`."""
        places = len(cases[0].names)
        literals = _where(spec, cases, conditions(spec, places, _frequent_shapes(spec, cases)))
        votes = Counter(conclusion for case in cases for conclusion in conclusions(spec, case))
        written = _Written(spec, cases)
        plainest: dict[tuple[int, int], str] = {}
        wanted = (text for text in ([only] if only else votes) if votes[text] >= MIN_SUPPORT)
        for conclusion in sorted(wanted, key=_plainness):
            steps = written.steps(json.loads(conclusion))
            where = _bits(bool(step) and step != case.action for step, case in zip(steps, cases, strict=True))
            agrees = _bits(case.agrees(step) for step, case in zip(steps, cases, strict=True))
            plainest.setdefault((where, agrees), conclusion)
        fires = {conclusion: bits[0] for bits, conclusion in plainest.items()}
        right = {conclusion: bits[1] for bits, conclusion in plainest.items()}
        literals = _different(literals)
        return cls(cases, literals, [_price(literal) for literal, _ in literals], fires, right)

    def best(self, open_cases: int) -> tuple[float, Row, int] | None:
        """Find the best rule for undecided cases: (value, row, decided cases). It must also hold in decided cases."""
        best: tuple[float, Row, int] | None = None
        hopes = {then: (self.right[then] & self.fires[then] & open_cases).bit_count() for then in self.fires}
        for conclusion in sorted(self.fires, key=lambda then: (-hopes[then], *_plainness(then))):
            if hopes[conclusion] < MIN_SUPPORT or (best is not None and hopes[conclusion] <= best[0]):
                break
            bits = self.fires[conclusion]
            bound = best[0] if best is not None else 0.0
            candidates = [((), bits), *self._searched(conclusion, bits, open_cases, bound)]
            for chosen, bits in candidates:
                worth = self._worth(conclusion, bits, chosen, open_cases)
                literals = [self.literals[index][0] for index in chosen]
                proved = conclusion != json.dumps("already") or any(literal[0] in _EVIDENCE for literal in literals)
                if (best is None or worth > best[0]) and proved and self._sound(conclusion, bits):
                    best = (worth, {"if": literals, "then": json.loads(conclusion)}, bits)
        return best

    def _searched(self, conclusion: str, bits: int, open_cases: int, bound: float) -> list[tuple[tuple[int, ...], int]]:
        """Search for conjunctions with a beam, as (conditions, cases).

        Of equivalent conjunctions the beam keeps the cheapest, and of the rest the best by two measures. A rule is
        worth at most its correct cases, so conjunctions not above `bound` are dropped.
        """
        agreeing = self.right[conclusion]
        hopeful = agreeing & open_cases
        right, wrong = (bits & hopeful).bit_count(), (bits & ~agreeing).bit_count()
        base = right / max(right + wrong, 1)
        priced = [(index, more, self.prices[index]) for index, (_, more) in enumerate(self.literals)]
        beam: list[tuple[tuple[int, ...], int, float]] = [((), bits, 0.0)]
        conjunctions: list[tuple[tuple[int, ...], int]] = []
        for _ in range(MAX_CONDITIONS):
            grown: dict[int, tuple[float, tuple[int, ...]]] = {}
            for chosen, matched, cost in beam:
                for index, more, price in priced:
                    both = matched & more
                    if not both or both == matched:
                        continue
                    known = grown.get(both)
                    if known is not None and cost + price >= known[0]:
                        continue
                    if known is not None or (both & hopeful).bit_count() > bound:
                        grown[both] = (cost + price, (*chosen, index))
            ranked = []
            for matched, (cost, chosen) in grown.items():
                right, wrong = (matched & hopeful).bit_count(), (matched & ~agreeing).bit_count()
                candidate = (tuple(sorted(chosen)), matched, cost)
                ranked.append((-_gain(right, wrong, base, cost), cost + wrong - right, candidate))
            first = heapq.nsmallest(_BEAM, ranked, key=lambda pair: (pair[0], pair[2][0]))
            second = heapq.nsmallest(_BEAM, ranked, key=lambda pair: (pair[1], pair[2][0]))
            beam = list(dict.fromkeys(candidate for *_, candidate in (*first, *second)))
            conjunctions += [(chosen, matched) for chosen, matched, _ in beam]
        return conjunctions

    def _cost(self, chosen: tuple[int, ...]) -> float:
        return sum(self.prices[index] for index in chosen)

    def _worth(self, conclusion: str, bits: int, chosen: tuple[int, ...], open_cases: int) -> float:
        right = (bits & self.right[conclusion] & open_cases).bit_count()
        wrong = (bits & ~self.right[conclusion]).bit_count()
        return right - _WRONG * wrong - self._cost(chosen)

    def _sound(self, conclusion: str, bits: int) -> bool:
        agreeing = bits & self.right[conclusion]
        right, decided = agreeing.bit_count(), bits.bit_count()
        if right < MIN_SUPPORT or right < MIN_PRECISION * decided:
            return False
        return len({case.task_id for index, case in enumerate(self.cases) if agreeing >> index & 1}) >= MIN_TASKS


def _gain(right: int, wrong: int, base: float, cost: float) -> float:
    """Score a conjunction for the search: correct cases times the gain over share `base` (FOIL), minus its cost."""
    share = right / max(right + wrong, 1)
    surer = math.log2(share / base) if share and base else 0.0
    return right * surer - cost / 4


def _different(literals: Sequence[tuple[list[Any], int]]) -> list[tuple[list[Any], int]]:
    """Select among equivalent conditions the cheapest, and the cheapest evidence."""
    cheapest: dict[tuple[int, bool], tuple[list[Any], int]] = {}
    for literal, bits in literals:
        key = (bits, literal[0] in _EVIDENCE)
        if key not in cheapest or _price(literal) < _price(cheapest[key][0]):
            cheapest[key] = (literal, bits)
    return list(cheapest.values())


class _Written:
    """Cached results of conclusions in a template's cases."""

    def __init__(self, spec: dict[str, Any], cases: Sequence[Case]) -> None:
        self._spec = spec
        self._cases = cases
        self._values: dict[str, list[str]] = {}
        self._steps: dict[tuple[str, bool], dict[tuple[str, ...], str]] = defaultdict(dict)

    def steps(self, then: Any) -> list[str]:
        """Apply `runtime.conclude` to a conclusion in every case."""
        if isinstance(then, str):
            return [then] * len(self._cases)
        template, terms, only = then
        rows = zip(*(self._value(term) for term in terms), strict=True) if terms else [()] * len(self._cases)
        known = self._steps[template, only]
        return [known[names] if names in known else self._step(template, names, only) for names in rows]

    def _value(self, term: list[Any]) -> list[str]:
        text = json.dumps(term)
        if text not in self._values:
            self._values[text] = [runtime.value(case.history, term, list(case.names)) for case in self._cases]
        return self._values[text]

    def _step(self, template: str, names: tuple[str, ...], only: bool) -> str:
        named = [["name", index] for index in range(len(names))]
        step = runtime.conclude(self._spec, {}, [template, named, only], list(names))
        self._steps[template, only][names] = step
        return step


def _holds(spec: dict[str, Any], case: Case, literal: list[Any], text: str) -> bool:
    """Check if a condition holds in a case; cached."""
    if text not in case.memo:
        case.memo[text] = runtime.holds(spec, case.history, literal, case.about)
    return case.memo[text]


def _where(spec: dict[str, Any], cases: Sequence[Case], literals: Iterable[list[Any]]) -> list[tuple[list[Any], int]]:
    """Find the cases of each condition, skipping those true in none or all. A condition precedes its negation."""
    everywhere = (1 << len(cases)) - 1
    holding: dict[str, int] = {}
    matches: list[tuple[list[Any], int]] = []
    for literal in literals:
        if literal[0] == "not":
            bits = everywhere ^ holding[json.dumps(literal[1])]
        else:
            text = json.dumps(literal)
            bits = holding[text] = _bits(
                [case.memo[text] if text in case.memo else _holds(spec, case, literal, text) for case in cases]
            )
        if bits not in (0, everywhere):
            matches.append((literal, bits))
    return matches


def _price(literal: list[Any]) -> float:
    if literal[0] == "not":
        return 0.25 + _price(literal[1])
    return _PRICE.get(literal[0], 1.0)


def _frequent_shapes(spec: dict[str, Any], cases: Sequence[Case]) -> list[list[Any]]:
    """List shapes of last mentions and views shared by several cases."""
    shapes: Counter[tuple[Any, ...]] = Counter()
    for case in cases:
        shapes.update(case.shapes(spec))
    return [list(shape) for shape, count in sorted(shapes.items(), key=str) if count >= MIN_SUPPORT and shape[-1]]


def _plainness(conclusion: str) -> tuple[float, str]:
    """Sort conclusions about the action's own names first."""
    then = json.loads(conclusion)
    return 0 if isinstance(then, str) else then[2] / 2 + sum(term[0] != "name" for term in then[1]), conclusion


def _bits(flags: Iterable[bool]) -> int:
    """Pack flags into an integer, first flag lowest."""
    return int("".join(["1" if flag else "0" for flag in flags])[::-1] or "0", 2)


def learn(
    spec: dict[str, Any], cases: Sequence[Case], processes: int = 1, check: Callable[[], None] = lambda: None
) -> dict[str, list[Row]]:
    """Learn further rows for each template: its decision list on refusals, and "now" rows for allowed actions.

    Learns from cases left undecided by `spec`, with several templates in parallel if `processes` > 1. `check` is called
    before each template, and may raise.
    """
    by_template: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.template in spec["templates"] and case.names:
            by_template[case.template].append(case)
    shares = _shares(by_template, processes)
    with ForkPool[dict[str, list[Row]]](processes) as pool:
        for share in shares[1:]:
            pool.give(partial(_learn_share, spec, share, check))
        pool.keep(_learn_share(spec, shares[0], check))
        learned = {template: rows for share, _ in pool.answers() for template, rows in share.items()}
    return {template: learned[template] for template in sorted(learned)}


def _shares(by_template: dict[str, list[Case]], count: int) -> list[dict[str, list[Case]]]:
    """Divide templates with cases into at most `count` shares of similar work, at least one."""
    work = {template: len(cases) * (1 + len(cases[0].names)) for template, cases in by_template.items()}
    shares: list[dict[str, list[Case]]] = [{} for _ in range(count)]
    for template in sorted(work, key=lambda template: (-work[template], template)):
        least = min(shares, key=lambda share: sum(work[name] for name in share))
        least[template] = by_template[template]
    return [shares[0], *(share for share in shares[1:] if share)]


def _learn_share(
    spec: dict[str, Any], share: dict[str, list[Case]], check: Callable[[], None]
) -> dict[str, list[Row]]:
    learned = {}
    for template, known in sorted(share.items()):
        check()
        learned[template] = _learn_lists(spec, template, known)
    return learned


def _learn_lists(spec: dict[str, Any], template: str, cases: Sequence[Case]) -> list[Row]:
    refused = [case for case in cases if not case.now]
    undecided = [runtime.decide(spec, case.history, template, list(case.names)) is None for case in refused]
    rows = _grown(_Table.of(spec, refused), _bits(undecided)) if refused else []
    table = _Table.of(spec, cases, only=json.dumps("now"))
    decisions = [runtime.decide(spec, case.history, template, list(case.names), True) for case in cases]
    undecided = [case.now and decision is None for case, decision in zip(cases, decisions, strict=True)]
    return rows + _grown(table, _bits(undecided)) + _musts(spec, cases, rows)


def _musts(spec: dict[str, Any], cases: Sequence[Case], rows: Sequence[Row]) -> list[Row]:
    """Find constant requirements of a template: conditions true whenever it is allowed, each with its most helpful
    step.

    These rows do not claim the step is sufficient.
    """
    allowed = [case for case in cases if case.now]
    if len(allowed) < MIN_ALLOWED or len({case.task_id for case in allowed}) < MIN_TASKS:
        return []
    musts: list[Row] = []
    for literal in conditions(spec, len(cases[0].names), []):
        text = json.dumps(literal)
        if literal[0] not in _STATES or not all(_holds(spec, case, literal, text) for case in allowed):
            continue
        lacking = [case for case in cases if not case.now and case.depth == 1 and not _holds(spec, case, literal, text)]
        for then in _helpful(spec, lacking):
            musts.append({"if": [["not", literal]], "then": then, "must": True})
    return _plainest(musts)


def _helpful(spec: dict[str, Any], cases: Sequence[Case]) -> Iterator[list[Any]]:
    """Yield the most often correct conclusions, each for cases not covered so far."""
    left = [(case, conclusions(spec, case) - {json.dumps("already")}) for case in cases]
    for _ in range(STEPS_OF_A_NEED):
        votes = Counter(conclusion for _, right in left for conclusion in right)
        best = max(sorted(votes, key=_plainness), key=votes.__getitem__, default="")
        if not best or votes[best] < MIN_SUPPORT:
            return
        then = json.loads(best)
        yield then
        left = [pair for pair in left if not runtime.conclude(spec, pair[0].history, then, list(pair[0].names))]


def _plainest(musts: Sequence[Row]) -> list[Row]:
    """Select the cheapest condition among rows with the same step."""
    by_step: dict[str, Row] = {}
    for row in sorted(musts, key=lambda row: _price(row["if"][0])):
        by_step.setdefault(json.dumps(row["then"]), row)
    return list(by_step.values())


def _grown(table: _Table, open_cases: int) -> list[Row]:
    rows: list[Row] = []
    while (best := table.best(open_cases)) is not None and best[0] > 0:
        rows.append(best[1])
        open_cases &= ~best[2]
    return rows


# ---------------------------------------------------------------- how refusals look

MIN_ACTIONS = 5
MIN_KINDS = 2
"""Different refused actions, and kinds of them, with the same answer before it counts as uninformative."""

MOST_TRIED = 12
"""Maximum answers to try with further actions, most frequent first."""

FEW = 0.05
"""Accepted actions tolerated per refused action with the same answer."""

MIN_HEARD = 2
"""Tasks with a refusal required without lists."""

SHARE_SAME = 0.5
"""Share of refused actions with an unchanged answer above which silence counts as refusal."""


@dataclass
class AnswerCounts:
    """Answers of an engine. `refused` maps shapes to refused actions, `taken` counts shapes after accepted actions,
    `times` counts all refusals by shape."""

    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    taken: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def take(self, before: str, action: str, answer: str, *, refused: bool) -> None:
        """Count an answer in all its shapes; `before` is the previous answer."""
        for shape in shapes(before, action, answer):
            if refused:
                self.refused[shape].add(action)
                self.times[shape] += 1
            else:
                self.taken[shape] += 1


def shapes(before: str, action: str, answer: str) -> list[str]:
    """List possible shapes of a refusal: its text, its text around the action, or silence."""
    text = answer.strip()
    ways = [text, runtime.without_action(action, text)]
    return list(dict.fromkeys([*ways, *([SAME] if text == before.strip() else [])]))


def listed_refusals(lab: Lab, failed: Sequence[Trajectory], rng: random.Random) -> list[str]:
    """Find shapes of refusals with listed actions.

    Answers to a single kind of action are tried with refused actions of other kinds, built from the lists.
    """
    heard = AnswerCounts()
    for trajectory in failed:
        for before, action, answer, refused in _replayed(lab, trajectory):
            heard.take(before, action, answer, refused=refused)
    known = _plain(lab.name, heard)
    doubtful = [shape for shape, _ in heard.times.most_common(MOST_TRIED) if shape not in known]
    if doubtful:
        _try_others(lab, failed[0].task_id, rng, heard)
        known = [shape for shape in _plain(lab.name, heard) if shape in {*known, *doubtful}]
    return known


def unlisted_refusals(failed: Sequence[Trajectory]) -> list[str]:
    """Find shapes of refusals without lists: answers to many different actions in several tasks.

    A text counts if several kinds of actions, or agents in half of the episodes, got it as a new answer. An engine with
    worded refusals repeats itself only after a second refusal; a silent one repeats any last text. So silence counts
    only if most repetitions are not such texts.
    """
    heard, tasks, verbs = AnswerCounts(), defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    repeated: list[set[str]] = []
    for trajectory in failed:
        for action, answer, before in answers(trajectory):
            same = bool(answer.strip()) and before.strip().endswith(answer.strip())
            ways = shapes(answer if same else before, action, answer)
            for shape in ways:
                heard.refused[shape].add(action)
                if not same:
                    tasks[shape].add(trajectory.task_id)
                    verbs[shape].add(_verb(action))
            if same:
                repeated.append({*ways})
    texts = [
        text
        for text in _plain(r"(?!)", heard)
        if text != SAME
        and len(tasks[text]) >= MIN_HEARD
        and (len(verbs[text]) >= MIN_KINDS or 2 * len(tasks[text]) >= len(failed))
    ]
    explained = sum(not ways.isdisjoint(texts) for ways in repeated)
    if texts and explained >= SHARE_SAME * len(repeated):
        return texts
    kinds = {_verb(action) for action in heard.refused[SAME]}
    return [SAME] if len(heard.refused[SAME]) >= MIN_ACTIONS and len(kinds) >= MIN_KINDS else []


def further_refusals(lab: Lab, tasks: Sequence[str]) -> list[str]:
    """Find refusals the agent rarely met, by trying all possible actions at the start of some tasks.

    Answers count if the saved engine state stayed equal. Empty if states cannot be compared.
    """
    heard, sayings = AnswerCounts(), lab.sayings
    if sayings is None or not lab.comparable:
        return []
    for task_id in tasks:
        state = lab.start(task_id)
        for action in sayings.fill(lab.known_names(state)):
            child = lab.after(state, action)
            if not child.over:
                heard.take("", action, child.observation, refused=lab.key(child) == lab.key(state))
    return [shape for shape in _plain(lab.name, heard) if shape != SAME]


def refused_actions(failed: Iterable[Trajectory], known: list[str]) -> list[tuple[str, str]]:
    """List (task id, action) of refused steps, by known shapes of refusals."""
    return [(task_id, action) for task_id, action, refused in _judged(failed, known) if refused]


def taken_actions(failed: Iterable[Trajectory], known: list[str]) -> list[tuple[str, str]]:
    """List (task id, action) of accepted steps."""
    return [(task_id, action) for task_id, action, refused in _judged(failed, known) if not refused]


def _judged(trajectories: Iterable[Trajectory], known: list[str]) -> Iterator[tuple[str, str, bool]]:
    for trajectory in trajectories:
        for action, answer, before in answers(trajectory):
            yield trajectory.task_id, action, bool(runtime.refusal(known, before, action, answer))


def _plain(name: str, heard: AnswerCounts) -> list[str]:
    """Find shapes of many refused actions of several kinds and no accepted action. Silence counts only without such a
    text."""
    shapes_met = [
        shape
        for shape, actions in sorted(heard.refused.items())
        if len(actions) >= MIN_ACTIONS and len({_kind(name, action) for action in actions}) >= MIN_KINDS
    ]
    texts = [text for text in shapes_met if text != SAME and heard.taken[text] <= FEW * heard.times[text]]
    texts = [text for text in texts if not re.search(name, text.replace(ACTION, ""))]
    if SAME not in shapes_met:
        return texts
    every = sum(count for shape, count in heard.times.items() if shape in texts or shape == SAME)
    explained = sum(heard.times[text] for text in texts)
    return texts if explained >= SHARE_SAME * max(every, 1) else [*texts, SAME]


def _replayed(lab: Lab, trajectory: Trajectory) -> Iterator[tuple[str, str, str, bool]]:
    """Replay an episode and yield (answer before, action, answer, refused)."""
    state = lab.start(trajectory.task_id)
    for step in trajectory.steps:
        if step.action is None or step.raw_observation is None or state.over:
            continue
        child = lab.after(state, step.action)
        refused = step.action not in state.admissible and child.admissible == state.admissible and not child.over
        yield state.observation, step.action, child.observation, refused
        state = child


def _try_others(lab: Lab, task_id: str, rng: random.Random, heard: AnswerCounts) -> None:
    """Try refused actions of all kinds along a random walk."""
    state, known = lab.start(task_id), defaultdict[str, set[str]](set)
    for _ in range(40):
        if state.over or not state.admissible:
            return
        for action in state.admissible:
            known[_kind(lab.name, action)].add(action)
        for _, actions in sorted(known.items()):
            refused = sorted(actions - state.admissible)
            if refused:
                action = rng.choice(refused)
                child = lab.after(state, action)
                heard.take(state.observation, action, child.observation, refused=not child.over)
        action = rng.choice(sorted(state.admissible))
        child = lab.after(state, action)
        if not child.over and child.admissible != state.admissible:
            heard.take(state.observation, action, child.observation, refused=False)
        state = child


def _kind(name: str, action: str) -> str:
    """Remove the names from an action."""
    return re.sub(name, "{}", action)


def _verb(action: str) -> str:
    return next(iter(action.lower().split()), "")
