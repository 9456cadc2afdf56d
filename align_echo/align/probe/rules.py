"""Learn rules from cases: a decision list (conditions -> missing step) for each form of action.

Rules are grown greedily: among all conclusions correct somewhere and conjunctions of up to four conditions, choose the
most often correct and least often wrong on undecided cases. A case without help counts against every rule with advice.
A rule must hold in several tasks. "Already so" requires evidence: a view, or the last action. Rules are scored by the
code that applies them later (`interface/rules/decisions.py`).
"""

from __future__ import annotations

import heapq
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from align_echo.align.probe.cases import Case
from align_echo.align.probe.lab import Lab, answers
from align_echo.align.probe.names import skeleton
from align_echo.interface.rules import situations as on
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import DecisionLists, DecisionRule
from align_echo.interface.rules.model import AllowedWhere, AlreadySo, AlwaysNeeds, MissingStep, NeedsStep
from align_echo.interface.rules.situations import NameTerm, PlainCondition, StateCondition
from align_echo.interface.rules.vocabulary import ACTION, Vocabulary, find_refusal, without_action
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

Conclusion = MissingStep | str
"""Missing step, "already" or "now"."""


def conditions(vocabulary: Vocabulary, slots: int, mentions: Iterable[PlainCondition]) -> list[StateCondition]:
    """List all single conditions on an action with `slots` names, with frequent `mentions`."""
    found: list[PlainCondition] = []
    plain = [view for view in vocabulary.views if "{}" not in view]
    about = [view for view in vocabulary.views if "{}" in view]
    for slot in range(2 * slots):
        found += [on.IsShown("shows", view, slot) for view in plain]
        found += [on.IsHeld("holds", view, slot, other) for view in about for other in range(slots) if other != slot]
    for slot in range(slots):
        others = [other for other in range(slots) if other != slot]
        for form in vocabulary.movers:
            places = range(form.count("{"))
            found += [on.WasLatest("last", form, place, slot) for place in places]
            found += [on.WasDone("did", form, place, slot) for place in places]
            found.append(on.IsSeenHere("here", slot, form))
            found += [on.IsSeenAfter("at", slot, form, other) for other in others]
        for do, undo, order in vocabulary.pairs:
            found += [on.IsActive("active", do, undo, place, slot) for place in range(len(order))]
        found.append(on.IsKnown("known", slot))
        for form in (*vocabulary.movers, *(pair.do for pair in vocabulary.pairs)):
            found += [on.IsKind("kind", slot, form, place) for place in range(len(vocabulary.kinds.get(form, ())))]
        found += [on.IsShownWith("with", slot, other) for other in others]
        found += [on.IsNear("near", slot, other) for other in others]
    for do, undo, order in vocabulary.pairs:
        found += [on.AnyActive("any", do, undo, place) for place in range(len(order))]
    found += [on.IsBlank("blank", view) for view in plain]
    found += [on.GoTogether("combined", form) for form in vocabulary.together if form.count("{") == slots]
    found += mentions
    return [*found, *(on.IsNot("not", each) for each in found if each.kind not in _ONLY_SO)]


def make_rule(form: str, when: Sequence[StateCondition], then: Conclusion) -> DecisionRule:
    """Return the rule with this conclusion."""
    if isinstance(then, MissingStep):
        return NeedsStep(form=form, when=tuple(when), step=then)
    return (AllowedWhere if then == "now" else AlreadySo)(form=form, when=tuple(when))


def conclusions(vocabulary: Vocabulary, case: Case) -> frozenset[Conclusion]:
    """Return all correct conclusions of a case; cached."""
    if not case.right:
        plain = "now" if case.now else "already" if case.already else ""
        case.right.append(frozenset([plain] if plain else _conclusions(vocabulary, case)))
    return case.right[0]


def _conclusions(vocabulary: Vocabulary, case: Case) -> set[Conclusion]:
    right: set[Conclusion] = set()
    named: dict[str, list[NameTerm]] = defaultdict(list)
    for term in _terms(vocabulary, len(case.names)):
        named[term.value(case.situation, case.names)].append(term)
    for step in case.steps:
        form, names = skeleton(step, vocabulary.pattern)
        choices: list[tuple[NameTerm, ...]] = [()]
        for name in names:
            choices = [(*chosen, term) for chosen in choices for term in named.get(name, ())][:400]
        fits = [False, True] if vocabulary.goes_together(form, names) else [False]
        right.update(MissingStep(form, chosen, only) for chosen in choices for only in fits)
    return right


def _terms(vocabulary: Vocabulary, slots: int) -> Iterator[NameTerm]:
    """Yield all terms for an action with `slots` names."""
    for slot in range(slots):
        yield from (on.OwnName("name", slot), on.NameWith("with", slot), on.NameNear("near", slot))
        yield from (on.NameAt("at", slot, form) for form in vocabulary.movers)
    for do, undo, order in vocabulary.pairs:
        yield from (on.ActiveName("active", do, undo, place) for place in range(len(order)))
    for form in vocabulary.movers:
        yield from (on.LatestName("last", form, place) for place in range(form.count("{")))


@dataclass
class _Table:
    """Cases of a form as bit sets: cases and cost of each condition, and applicable and correct cases of each
    conclusion."""

    cases: Sequence[Case]
    literals: list[tuple[StateCondition, int]]
    prices: list[float]
    fires: dict[Conclusion, int]
    right: dict[Conclusion, int]

    @classmethod
    def of(cls, lists: DecisionLists, cases: Sequence[Case], only: Conclusion = "") -> _Table:
        """Build a table of frequently correct conclusions, or of `only`."""
        vocabulary = lists.vocabulary
        counts = Counter(mention for case in cases for mention in case.mentions(vocabulary))
        mentions = [each for each, count in sorted(counts.items(), key=str) if count >= MIN_SUPPORT and each[-1]]
        literals = _where(cases, conditions(vocabulary, len(cases[0].names), mentions))
        votes = Counter(conclusion for case in cases for conclusion in conclusions(vocabulary, case))
        written = _WrittenSteps(lists, cases)
        plainest: dict[tuple[int, int], Conclusion] = {}
        wanted = (then for then in ([only] if only else votes) if votes[then] >= MIN_SUPPORT)
        for conclusion in sorted(wanted, key=_plainness):
            steps = written.steps(conclusion)
            where = _bits(bool(step) and step != case.action for step, case in zip(steps, cases, strict=True))
            agrees = _bits(case.agrees(step) for step, case in zip(steps, cases, strict=True))
            plainest.setdefault((where, agrees), conclusion)
        fires = {conclusion: bits[0] for bits, conclusion in plainest.items()}
        right = {conclusion: bits[1] for bits, conclusion in plainest.items()}
        cheapest: dict[tuple[int, bool], tuple[StateCondition, int]] = {}
        for literal, bits in literals:  # of equivalent conditions the cheapest, and the cheapest evidence
            key = (bits, literal.kind in _EVIDENCE)
            if key not in cheapest or _price(literal) < _price(cheapest[key][0]):
                cheapest[key] = (literal, bits)
        literals = list(cheapest.values())
        return cls(cases, literals, [_price(literal) for literal, _ in literals], fires, right)

    def best(self, open_cases: int) -> tuple[float, DecisionRule, int] | None:
        """Find the best rule for undecided cases: (value, rule, decided cases). It must also hold in decided cases."""
        best: tuple[float, DecisionRule, int] | None = None
        hopes = {then: (self.right[then] & self.fires[then] & open_cases).bit_count() for then in self.fires}
        for conclusion in sorted(self.fires, key=lambda then: (-hopes[then], *_plainness(then))):
            if hopes[conclusion] < MIN_SUPPORT or (best is not None and hopes[conclusion] <= best[0]):
                break
            bits = self.fires[conclusion]
            bound = best[0] if best is not None else 0.0
            candidates = [((), bits), *self._searched(conclusion, bits, open_cases, bound)]
            for chosen, bits in candidates:
                right = (bits & self.right[conclusion] & open_cases).bit_count()
                wrong = (bits & ~self.right[conclusion]).bit_count()
                worth = right - _WRONG * wrong - sum(self.prices[index] for index in chosen)
                literals = [self.literals[index][0] for index in chosen]
                proved = conclusion != "already" or any(literal.kind in _EVIDENCE for literal in literals)
                if (best is None or worth > best[0]) and proved and self._sound(conclusion, bits):
                    best = (worth, make_rule(self.cases[0].template, literals, conclusion), bits)
        return best

    def _searched(
        self, conclusion: Conclusion, bits: int, open_cases: int, bound: float
    ) -> list[tuple[tuple[int, ...], int]]:
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
                share = right / max(right + wrong, 1)
                surer = math.log2(share / base) if share and base else 0.0  # FOIL's gain over the share `base`
                ranked.append((cost / 4 - right * surer, cost + wrong - right, candidate))
            first = heapq.nsmallest(_BEAM, ranked, key=lambda pair: (pair[0], pair[2][0]))
            second = heapq.nsmallest(_BEAM, ranked, key=lambda pair: (pair[1], pair[2][0]))
            beam = list(dict.fromkeys(candidate for *_, candidate in (*first, *second)))
            conjunctions += [(chosen, matched) for chosen, matched, _ in beam]
        return conjunctions

    def _sound(self, conclusion: Conclusion, bits: int) -> bool:
        agreeing = bits & self.right[conclusion]
        right, decided = agreeing.bit_count(), bits.bit_count()
        if right < MIN_SUPPORT or right < MIN_PRECISION * decided:
            return False
        return len({case.task_id for index, case in enumerate(self.cases) if agreeing >> index & 1}) >= MIN_TASKS


class _WrittenSteps:
    """Cached results of conclusions in a form's cases."""

    def __init__(self, lists: DecisionLists, cases: Sequence[Case]) -> None:
        self._lists = lists
        self._cases = cases
        self._values: dict[NameTerm, list[str]] = {}
        self._steps: dict[tuple[str, bool], dict[tuple[str, ...], str]] = defaultdict(dict)

    def steps(self, then: Conclusion) -> list[str]:
        """Apply `DecisionLists.conclude` to a conclusion in every case."""
        if isinstance(then, str):
            return [then] * len(self._cases)
        rows = zip(*(self._value(term) for term in then.terms), strict=True) if then.terms else [()] * len(self._cases)
        known = self._steps[then.form, then.together]
        return [known[names] if names in known else self._step(then, names) for names in rows]

    def _value(self, term: NameTerm) -> list[str]:
        if term not in self._values:
            self._values[term] = [term.value(case.situation, case.names) for case in self._cases]
        return self._values[term]

    def _step(self, then: MissingStep, names: tuple[str, ...]) -> str:
        step = self._steps[then.form, then.together][names] = self._lists.write_step(then, names)
        return step


def _where(cases: Sequence[Case], literals: Iterable[StateCondition]) -> list[tuple[StateCondition, int]]:
    """Find the cases of each condition, skipping those true in none or all. A condition precedes its negation."""
    everywhere = (1 << len(cases)) - 1
    holding: dict[StateCondition, int] = {}
    matches: list[tuple[StateCondition, int]] = []
    for literal in literals:
        if isinstance(literal, on.IsNot):
            bits = everywhere ^ holding[literal.condition]
        else:
            bits = holding[literal] = _bits([case.holds(literal) for case in cases])
        if bits not in (0, everywhere):
            matches.append((literal, bits))
    return matches


def _price(literal: StateCondition) -> float:
    if isinstance(literal, on.IsNot):
        return 0.25 + _price(literal.condition)
    return _PRICE.get(literal.kind, 1.0)


@lru_cache(maxsize=100_000)
def _plainness(then: Conclusion) -> tuple[float, str]:
    """Sort conclusions about the action's own names first."""
    further = 0.0 if isinstance(then, str) else then.together / 2 + sum(term.kind != "name" for term in then.terms)
    return further, json.dumps(then)


def _bits(flags: Iterable[bool]) -> int:
    """Pack flags into an integer, first flag lowest."""
    return int("".join(["1" if flag else "0" for flag in flags])[::-1] or "0", 2)


def learn(
    lists: DecisionLists, cases: Sequence[Case], processes: int = 1, check: Callable[[], None] = lambda: None
) -> list[DecisionRule]:
    """Learn further rules for each form: its decision list on refusals, and rules on when it is allowed.

    Learns from cases left undecided by `lists`, with several forms in parallel if `processes` > 1. `check` is called
    before each form, and may raise.
    """
    by_form: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.template in lists.vocabulary.forms and case.names:
            by_form[case.template].append(case)
    work = {form: len(cases) * (1 + len(cases[0].names)) for form, cases in by_form.items()}
    every: list[dict[str, list[Case]]] = [{} for _ in range(processes)]
    for form in sorted(work, key=lambda form: (-work[form], form)):
        least = min(every, key=lambda share: sum(work[name] for name in share))
        least[form] = by_form[form]
    shares = [every[0], *filter(None, every[1:])]
    with ForkPool[dict[str, list[DecisionRule]]](processes) as pool:
        for share in shares[1:]:
            pool.give(partial(_learn_share, lists, share, check))
        pool.keep(_learn_share(lists, shares[0], check))
        learned = {form: rules for share, _ in pool.answers() for form, rules in share.items()}
    return [rule for form in sorted(learned) for rule in learned[form]]


def _learn_share(
    lists: DecisionLists, share: dict[str, list[Case]], check: Callable[[], None]
) -> dict[str, list[DecisionRule]]:
    learned = {}
    for form, known in sorted(share.items()):
        check()
        learned[form] = _learn_list(lists, form, known)
    return learned


def _learn_list(lists: DecisionLists, form: str, cases: Sequence[Case]) -> list[DecisionRule]:
    refused = [case for case in cases if not case.now]
    undecided = [lists.decide(case.situation, form, case.names) is None for case in refused]
    rules = _grown(_Table.of(lists, refused), _bits(undecided)) if refused else []
    table = _Table.of(lists, cases, only="now")
    decisions = [lists.decide(case.situation, form, case.names, True) for case in cases]
    undecided = [case.now and decision is None for case, decision in zip(cases, decisions, strict=True)]
    return [*rules, *_grown(table, _bits(undecided)), *_musts(lists, form, cases)]


def _musts(lists: DecisionLists, form: str, cases: Sequence[Case]) -> list[AlwaysNeeds]:
    """Find constant requirements of a form: conditions true whenever it is allowed, each with its most helpful step.

    These rules do not claim the step is sufficient.
    """
    allowed = [case for case in cases if case.now]
    if len(allowed) < MIN_ALLOWED or len({case.task_id for case in allowed}) < MIN_TASKS:
        return []
    musts: list[AlwaysNeeds] = []
    for literal in conditions(lists.vocabulary, len(cases[0].names), []):
        if literal.kind not in _STATES or isinstance(literal, on.IsNot):
            continue
        if not all(case.holds(literal) for case in allowed):
            continue
        lacking = [case for case in cases if not case.now and case.depth == 1 and not case.holds(literal)]
        for step in _helpful(lists, lacking):
            musts.append(AlwaysNeeds(form=form, when=(on.IsNot("not", literal),), step=step))
    by_step: dict[MissingStep, AlwaysNeeds] = {}
    for rule in sorted(musts, key=lambda rule: _price(rule.when[0])):
        by_step.setdefault(rule.step, rule)
    return list(by_step.values())


def _helpful(lists: DecisionLists, cases: Sequence[Case]) -> Iterator[MissingStep]:
    """Yield the most often correct steps, each for cases not covered so far."""
    left = [(case, conclusions(lists.vocabulary, case) - {"already"}) for case in cases]
    for _ in range(STEPS_OF_A_NEED):
        votes = Counter(conclusion for _, right in left for conclusion in right)
        best = max(sorted(votes, key=_plainness), key=votes.__getitem__, default="")
        if isinstance(best, str) or votes[best] < MIN_SUPPORT:
            return
        yield best
        left = [pair for pair in left if not lists.conclude(pair[0].situation, best, pair[0].names)]


def _grown(table: _Table, open_cases: int) -> list[DecisionRule]:
    rules: list[DecisionRule] = []
    while (best := table.best(open_cases)) is not None and best[0] > 0:
        rules.append(best[1])
        open_cases &= ~best[2]
    return rules


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
    ways = [text, without_action(action, text)]
    return list(dict.fromkeys([*ways, *([SAME] if text == before.strip() else [])]))


def listed_refusals(lab: Lab, failed: Sequence[Trajectory], rng: random.Random) -> list[str]:
    """Find shapes of refusals with listed actions.

    Answers to a single kind of action are tried with refused actions of other kinds, built from the lists.
    """
    heard = AnswerCounts()
    for state, action, child in (turn for trajectory in failed for turn in lab.replay(trajectory)):
        refused = action not in state.admissible and child.admissible == state.admissible and not child.over
        heard.take(state.observation, action, child.observation, refused=refused)
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


def refused_actions(failed: Iterable[Trajectory], known: Collection[str]) -> list[tuple[str, str]]:
    """List (task id, action) of refused steps, by known shapes of refusals."""
    return [(task_id, action) for task_id, action, refused in _judged(failed, known) if refused]


def taken_actions(
    played: Sequence[Trajectory], lost: Iterable[Trajectory], known: Collection[str]
) -> list[tuple[str, str]]:
    """List (task id, action) of accepted steps, with those that ended an episode that was not lost."""
    not_won = {id(each) for each in lost}
    ended = [each for each in played if id(each) not in not_won and each.steps and each.steps[-1].terminated]
    winning = [(each.task_id, each.steps[-1].action or "") for each in ended]
    return [*((task_id, action) for task_id, action, refused in _judged(played, known) if not refused), *winning]


def _judged(trajectories: Iterable[Trajectory], known: Collection[str]) -> Iterator[tuple[str, str, bool]]:
    for trajectory in trajectories:
        for action, answer, before in answers(trajectory):
            yield trajectory.task_id, action, bool(find_refusal(known, before, action, answer))


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
