"""Runtime of the rules: follow an episode and say what its rules have to say about each answer.

The learner tries rules with the same code that an interface plays. State is read from the agent's own actions and the
environment's answers alone.
"""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from align_echo.interface.rules.actions import (
    ActionGrammar,
    ActionTree,
    Reading,
    Term,
    build_name_pattern,
    kind_name,
    match_text,
    text_of,
)
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import SituationGuide, make_guide
from align_echo.interface.rules.edits import apply_edit, undo_edit
from align_echo.interface.rules.model import (
    Advice,
    Condition,
    Effect,
    EndsEpisode,
    LockedAfter,
    NeedsFirst,
    NothingChanged,
    PlainClaim,
    Rule,
    RuleSet,
    SayInstead,
    TurnLimit,
    WorksWhere,
    fill_words,
    plain_text,
)
from align_echo.interface.rules.page_guide import PageGuide
from align_echo.interface.rules.place_guide import PlaceGuide

DEPTH = 4
"""Maximum steps that lead back from an action to the first that is possible."""

PATIENCE = 3
"""Times that a step is advised, done and refused for reasons that other rules know."""

MOST_TEXT = 200_000
"""Characters of an episode's texts in which names are looked up; older ones are dropped."""


MOST_PLACES = 12
"""Latest places of a name in the texts at which names beside it are looked for."""


class HeardAnswer(NamedTuple):
    """Action and its canonical answer, as the rules read them. `refused`: the rules know the answer as a refusal."""

    action: str
    reading: Reading | None
    answer: str
    refused: bool


class RuleRuntime:
    """Episode under a rule set. Call `hear` for each action and its answer, `look` by the `views` it asks for;
    then `advise`."""

    def __init__(self, rules: RuleSet, opening: str, task: str = "") -> None:
        self.rules = rules
        self.grammar = ActionGrammar(rules.forms, rules.names)
        self.texts = f"{opening}\n{task}"
        self.raw = opening
        self.page = self.news = rules.reader.page(opening)
        self._stood = frozenset({self.page})
        self.effects: list[ActionTree] = []
        self._answered: list[tuple[ActionTree, str]] = []
        self.answers: list[str] = []
        self._pages = PageGuide(rules.pages, rules.rules) if rules.pages else None
        self._guide: SituationGuide | PlaceGuide | None = make_guide(rules, opening, task)
        if rules.places:
            self._guide = PlaceGuide(rules.places, rules, opening, task)
        self._views: dict[str, str] = {}
        self._page_named = ""
        self._advised = ""
        self._in_vain: Counter[str] = Counter()
        self._claimed: set[str] = set()
        self._kinds = {form: tuple(map(frozenset, slots)) for form, slots in rules.kinds.items()}
        self._by_page = [rule for rule in rules.rules if isinstance(rule, WorksWhere)]
        self._by_form: dict[str, list[Rule]] = defaultdict(list)
        for rule in rules.rules:
            self._by_form[getattr(rule, "form", "")].append(rule)
        self._cases = [
            (self._form(each.actions[-1]), plain_text(each.sees), rule)
            for rule in rules.rules
            if isinstance(rule, PlainClaim)
            for each in rule.experiments
            if each.sees.strip()
        ]

    def begin(self, raw: str) -> None:
        """Take a text as the first page, where the opening says more than the environment's first observation."""
        self.raw = raw
        self.page = self.news = self.rules.reader.page(raw)
        self._stood = frozenset({self.page})

    def branch(self) -> RuleRuntime:
        """Return a runtime that goes on from here by itself."""
        other = copy.copy(self)
        other._guide = copy.deepcopy(self._guide)
        other.effects, other.answers, other._answered = [*self.effects], [*self.answers], [*self._answered]
        other._in_vain, other._claimed = self._in_vain.copy(), self._claimed.copy()
        return other

    def hear(self, action: str, raw: str) -> HeardAnswer:
        """Read an answer and remember what came of the action."""
        if self._guide:
            self._guide.hear(action, raw)
        reading = self.grammar.read(action)
        arguments = reading.tree.arguments if reading else ()
        form = reading.tree.form if reading else ""
        refusals, unknown = self.rules.refusals.get(form, ()), self.rules.unknown.get(form, ())
        reader = self.rules.reader
        page = reader.page(raw, self.raw, action)
        self.news = reader.news(page, self.page, self.news)
        text = reader.lift(self.news, action, arguments, reading.tree.call_names if reading else ())
        answer = SAME if page == self.page and text not in refusals else text
        refused = answer in refusals
        own = any(tree.form == form and was == page for tree, was in self._answered)
        came_back = page in self._stood and not own and SAME in (*refusals, *unknown)
        idle = refused or came_back or (reading is None and any(text in each for each in self.rules.refusals.values()))
        self._stood = self._stood | {page} if idle else frozenset({page})
        if reading and not idle and answer not in unknown:
            self.effects.append(reading.tree)
            self._answered.append((reading.tree, page))
        self.answers.append(answer)
        self.page, self.raw = page, raw
        read = text if refused and answer != SAME else raw  # a refusal that repeats an argument does not name it
        self.texts = f"{self.texts}\n{read}"[-MOST_TEXT:]
        return HeardAnswer(action, reading, answer, refused)

    def views(self) -> list[str]:
        """Return the read-only actions to look by before advice on the last turn."""
        return self._guide.views() if self._guide else []

    def look(self, views: dict[str, str]) -> None:
        """Take in what the views show now."""
        self._views = views

    def advise(self, turn: HeardAnswer) -> Advice:
        """Return what the rules say of a turn that did not end the episode; without text if nothing is certain."""
        guided = self._guide.advise(self._views) if self._guide else Advice("")
        if self._pages and turn.answer == SAME:
            guided = self._pages.advise(self.page, turn.action)
        action = self._about_action(turn)
        if guided.text and not any(isinstance(rule, SayInstead) for rule in action.rules):
            action = Advice("")  # beside a guide, other rules speak of wordings alone
        self._remember(turn, action if action.text else guided)
        if not (guided.text or action.text):
            action = self._about_answer(turn)
        parts = [guided, action, self._about_end(turn), self._about_page(), self._about_limit()]
        spoken = [part for part in parts if part.text]
        if not spoken:
            return Advice("")
        rules = tuple(rule for part in spoken for rule in part.rules)
        step = next((part.step for part in spoken if part.step), "")
        return Advice(" ".join(part.text for part in spoken), rules, step)

    # ------------------------------------------------------------ about the action

    def _about_action(self, turn: HeardAnswer) -> Advice:
        if turn.reading is None or not turn.refused:
            return Advice("")
        rules = [
            rule
            for rule in self._by_form[turn.reading.tree.form]
            if turn.answer in getattr(rule, "answers", ())
            and (isinstance(rule, SayInstead) or not self._is_silent(rule, turn.reading.tree))
        ]
        wordings = [self._instead(rule, turn) for rule in rules if isinstance(rule, SayInstead)]
        for advice in wordings:
            if advice and advice.step:
                return advice
        if needed := self._needed(turn.reading.tree, DEPTH, turn.answer):
            return self._first(turn, *needed)
        for advice in filter(None, wordings):
            return advice
        for rule in rules:
            if isinstance(rule, LockedAfter) and self.holds(_as_condition(rule), turn.reading.tree):
                return Advice(self._fill(rule.say, turn), (rule,))
        for rule in rules:
            if isinstance(rule, NothingChanged):
                return Advice(self._fill(rule.say, turn), (rule,))
        return Advice("")

    def _instead(self, rule: SayInstead, turn: HeardAnswer) -> Advice | None:
        """Return the advice of an edit, with the step that the edited action needs."""
        assert turn.reading is not None
        tree = apply_edit(rule.edit, turn.reading, self.grammar, self.texts)
        if tree is None:
            return None
        exact = rule.edit.kind in ("sign", "list", "text", "number")
        known = any(self._is_known(each, rule.edit.slot, exact) for each in (tree, turn.reading.tree))
        if not self._makes_sense(tree) or any(map(self._names_another, (tree, turn.reading.tree))):
            return None
        if not known or rule.edit.others or self._is_silent(rule, tree):
            return Advice(f"{rule.text.removesuffix('.')}.", (rule,))
        wanted = self.grammar.write(tree)
        if wanted == turn.action.strip() or self._is_in_vain(tree):
            return None
        needed = self._needed(tree, DEPTH)
        message = self._fill(rule.say, turn, wanted)
        if needed is None:
            return Advice(message, (rule,), wanted)
        first = self._first(turn, *needed)
        return Advice(f"{first.text} Then: {message}", (*first.rules, rule), first.step)

    def _first(self, turn: HeardAnswer, rules: tuple[NeedsFirst, ...], step: ActionTree) -> Advice:
        pairs = zip(rules[-1].terms, step.arguments, strict=True)
        free = [value is None and (term is None or term.by != "") for term, value in pairs]
        blank = zip(free, step.arguments, strict=True)
        arguments = tuple("..." if is_free else value for is_free, value in blank)
        written = self.grammar.write(step._replace(arguments=arguments))
        return Advice(self._fill(rules[-1].say, turn, written), rules, "" if any(free) else written)

    def _needed(
        self, tree: ActionTree, depth: int, answer: str | None = None
    ) -> tuple[tuple[NeedsFirst, ...], ActionTree] | None:
        """Return the first missing step for an action and the rules that lead to it; None if none is known."""
        for rule in self._by_form[tree.form]:
            if not isinstance(rule, NeedsFirst) or (answer is not None and answer not in rule.answers):
                continue
            if self._is_silent(rule, tree) or (rule.at_times and answer is None):
                continue
            step = self._find_step(rule, tree)
            if step is None or not self._is_known(step) or not (self._makes_sense(step) and self._makes_sense(tree)):
                continue
            step = step._replace(arguments=tuple(map(self._as_read, step.arguments)))
            if step == tree or self._is_in_vain(step):
                continue
            if rule.at_times and not self._are_read(tree, step):
                continue
            before = self._needed(step, depth - 1) if depth > 1 else None
            return ((rule,), step) if before is None else ((rule, *before[0]), before[1])
        return None

    def _are_read(self, *trees: ActionTree) -> bool:
        """Check that the environment has named all arguments in this episode."""
        values = (value for tree in trees for value in tree.arguments)
        return all(value is None or self._was_read(value, exact=False) for value in values)

    def _remember(self, turn: HeardAnswer, advice: Advice) -> None:
        """Count advice that was followed in vain: at once for all where no rule knows why it was refused."""
        if turn.refused and turn.reading and self.grammar.write(turn.reading.tree) == self._advised:
            self._in_vain[self._advised] += 1 if advice.step else PATIENCE
        self._advised = advice.step

    def _is_in_vain(self, tree: ActionTree) -> bool:
        """Whether an action is not advised again in this episode."""
        return bool(self._in_vain) and self._in_vain[self.grammar.write(tree)] >= PATIENCE

    def _is_silent(self, rule: Rule, tree: ActionTree) -> bool:
        """Whether an exception of a rule holds for an action."""
        return any(self.holds(condition, tree) for condition in getattr(rule, "unless", ()))

    def step(self, form: str, terms: Sequence[Term | None], tree: ActionTree) -> ActionTree | None:
        """Return the step for an action, a free argument as None; None if another argument is not known."""
        values = tuple(self._argument(term, tree, form, at) for at, term in enumerate(terms))
        wanted = zip(values, terms, strict=True)
        missing = any(value is None and term is not None and term.slot >= 0 for value, term in wanted)
        return None if missing else ActionTree(form, values)

    def _find_step(self, rule: NeedsFirst, tree: ActionTree) -> ActionTree | None:
        """Return a rule's step; None in place of a name that belongs to an argument and is not known yet."""
        step = self.step(rule.step, rule.terms, tree)
        known = tuple(None if term and term.by else term for term in rule.terms)
        return step if step is not None or known == rule.terms else self.step(rule.step, known, tree)

    def _as_read(self, value: JsonValue) -> JsonValue:
        """Return a name in the letters in which it was read; as it is where it was read so, or nowhere.

        The first letter of a line or sentence says nothing.
        """
        if not isinstance(value, str) or not value or _names(self.texts, value, exact=True):
            return value
        for read in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", self.texts, re.IGNORECASE):
            begins = re.search(r"(?:^|[.!?:]\s+|\n\s*)$", self.texts[max(0, read.start() - 3) : read.start()])
            if not begins or read[0][1:] != value[1:]:
                return read[0]
        return value

    def _argument(self, term: Term | None, tree: ActionTree, form: str, at: int) -> JsonValue:
        own = None if term is None else term.of(tree)
        if term is None or not term.by or own is None:
            return own
        return self._seen(text_of(own), form, at) if term.by == "seen" else self._beside(text_of(own), form, at)

    def belongings(self, value: JsonValue, form: str, at: int) -> dict[Literal["", "seen", "beside"], JsonValue]:
        """Return the names that belong to a value, for an argument of a form."""
        return {"seen": self._seen(text_of(value), form, at), "beside": self._beside(text_of(value), form, at)}

    def _seen(self, name: str, form: str, at: int) -> JsonValue:
        for effect, answer in reversed(self._answered):
            if effect.form == form and at < len(effect.arguments) and _names(answer, name):
                return effect.arguments[at]
        return None

    def _beside(self, name: str, form: str, at: int) -> str | None:
        kinds = self.rules.kinds.get(form, ())
        if at >= len(kinds) or not kinds[at]:
            return None
        pattern = _compile_names(kinds[at])
        own = [*re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", self.texts, re.IGNORECASE)]
        for place in reversed(own[-MOST_PLACES:]):
            start = max(self.texts.rfind(stop, 0, place.start()) for stop in (". ", "\n", "! ", "? "))
            ends = [end for stop in (". ", "\n", ".\n") if (end := self.texts.find(stop, place.end())) >= 0]
            sentence = range(start + 1, min(ends, default=len(self.texts)))
            near = [
                (min(abs(each.start() - place.end()), abs(place.start() - each.end())), each[0])
                for each in pattern.finditer(self.texts, sentence.start, sentence.stop)
                if not _same(each[0], name)
            ]
            if near:
                return min(near)[1]
        return None

    def holds(self, condition: Condition, tree: ActionTree) -> bool:
        """Check a condition for an action."""
        return self._is_so(condition, tree) != condition.negated

    def _is_so(self, condition: Condition, tree: ActionTree) -> bool:
        if condition.kind == "reads":
            value = condition.terms[0].of(tree) if condition.terms and condition.terms[0] else None
            return value is not None and match_text(condition.form, text_of(value)) is not None
        if condition.kind == "latest":
            latest = next((effect for effect in reversed(self.effects) if effect.form == condition.form), None)
            return latest is not None and self._is_effect(condition, tree, latest)
        for effect in reversed(self.effects):
            if any(self._is_effect(undoing, tree, effect) for undoing in condition.undone_by):
                return False
            if self._is_effect(condition, tree, effect):
                return True
        return False

    def _is_effect(self, wanted: Effect, tree: ActionTree, effect: ActionTree) -> bool:
        """Whether an action is of a form, with arguments by terms of the action at hand."""
        if effect.form != wanted.form:
            return False
        values = (self._argument(term, tree, wanted.form, at) for at, term in enumerate(wanted.terms))
        pairs = zip(values, effect.arguments, strict=False)
        return all(value is None or _same(value, other) for value, other in pairs)

    def _is_known(self, tree: ActionTree, slot: int = -1, exact: bool = False) -> bool:
        """Check that the environment has named an action's arguments, or that they worked in other tasks.

        With `exact`, upper case counts.
        """
        pools = self.rules.values.get(tree.form, ())
        slots = range(len(tree.arguments)) if slot < 0 else [slot]
        return all(
            tree.arguments[each] is None
            or any(self._was_read(value, exact) for value in self._unsigned(tree, each))
            or tree.arguments[each] in (pools[each] if each < len(pools) else ())
            for each in slots
        )

    def _unsigned(self, tree: ActionTree, slot: int) -> Iterator[JsonValue]:
        """Yield an argument, and it without the signs that rules say it needs, which texts may leave out."""
        value = tree.arguments[slot]
        yield value
        for rule in self._by_form[tree.form]:
            if isinstance(rule, SayInstead) and rule.edit.kind == "sign" and rule.edit.slot == slot:
                yield undo_edit(rule.edit, value)

    def _makes_sense(self, tree: ActionTree) -> bool:
        """Check that the action took effect with names of these kinds, where the kinds are known."""
        pairs = zip(self._kinds.get(tree.form, ()), tree.arguments, strict=False)
        return all(not kinds or value is None or kind_name(value) in kinds for kinds, value in pairs)

    def _names_another(self, tree: ActionTree) -> bool:
        """Whether a tool's argument is known in this episode as another one's, and not as its own."""
        known = self.grammar.forms[tree.form].arguments
        pairs = [(name, value) for name, value in zip(known, tree.arguments, strict=False) if isinstance(value, str)]
        worked: dict[str, set[str]] = defaultdict(set)
        for effect in self.effects if pairs else ():
            for name, value in zip(self.grammar.forms[effect.form].arguments, effect.arguments, strict=False):
                worked[text_of(value)].add(name)
        return any(value in worked and name not in worked[value] for name, value in pairs)

    def _was_read(self, value: JsonValue, exact: bool) -> bool:
        parts = value if isinstance(value, list) else [value]
        return all(_names(self.texts, text_of(part), exact) for part in parts)

    def _form(self, action: str) -> str:
        """Return the form of an action, "" without one."""
        reading = self.grammar.read(action)
        return reading.tree.form if reading else ""

    def _about_answer(self, turn: HeardAnswer) -> Advice:
        """Return a claim about an answer like this, once an episode, or about what refuses the action."""
        form, heard = (turn.reading.tree.form if turn.reading else ""), plain_text(self.page)
        for case, told, rule in self._cases:
            if case == form and told in heard and rule.text not in self._claimed:
                self._claimed.add(rule.text)
                return Advice(rule.say, (rule,))
        if turn.reading is None or not turn.refused:
            return Advice("")
        claims = [each for each in self._by_form[form] if isinstance(each, PlainClaim) and turn.answer in each.answers]
        claim = next((each for each in claims if not self._is_silent(each, turn.reading.tree)), None)
        return Advice(claim.say, (claim,)) if claim else Advice("")

    # ------------------------------------------------------------ about the episode

    def _about_end(self, turn: HeardAnswer) -> Advice:
        for rule in self._by_form[""]:
            if not isinstance(rule, EndsEpisode) or turn.answer not in rule.answers:
                continue
            if count_refusals(self.answers, rule) == rule.count - 1:
                return Advice(rule.say, (rule,))
        return Advice("")

    def _about_page(self) -> Advice:
        """Name the actions without effect on this page, unless the answer before was the same page."""
        page = bounded_page(self.page)
        known, self._page_named = self._page_named, page
        rules = tuple(rule for rule in self._by_page if not any(phrase in page for phrase in rule.phrases))
        if not rules or page == known:
            return Advice("")
        return Advice(rules[0].say.replace("{forms}", ", ".join(rule.form for rule in rules)), rules)

    def _about_limit(self) -> Advice:
        for rule in self._by_form[""]:
            if isinstance(rule, TurnLimit) and rule.turns - len(self.answers) == rule.left:
                return Advice(rule.say.replace("{left}", str(rule.left)), (rule,))
        return Advice("")

    def _fill(self, say: str, turn: HeardAnswer, step: str = "") -> str:
        """Fill a message's template."""
        arguments = turn.reading.tree.arguments if turn.reading else ()
        said = self.grammar.write(turn.reading.tree) if turn.reading and turn.reading.exact else turn.action.strip()
        words = {"{action}": said, "{step}": step}
        words |= {f"{{{slot}}}": text_of(value) for slot, value in enumerate(arguments)}
        return fill_words(say, words)


def bounded_page(page: str) -> str:
    """Return a page on one line, its parts between ";"."""
    parts = [" ".join(part.split()) for part in re.split(r"[\n;]", page)]
    return f";{';'.join(part for part in parts if part)};"


def count_refusals(answers: Sequence[str], rule: EndsEpisode) -> int:
    """Return how many answers count for a rule at the end of an episode's answers."""
    if not rule.in_a_row:
        return sum(answer in rule.answers for answer in answers)
    return next((number for number, answer in enumerate(reversed(answers)) if answer not in rule.answers), len(answers))


def _as_condition(rule: LockedAfter) -> Condition:
    return Condition(kind="done", form=rule.cause, terms=rule.terms)


@functools.lru_cache(maxsize=64)
def _compile_names(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(build_name_pattern(kinds), re.IGNORECASE)


def _names(text: str, name: str, exact: bool = False) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, 0 if exact else re.IGNORECASE) is not None


def _same(value: JsonValue, other: JsonValue) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return value.lower() == other.lower()
    return value == other
