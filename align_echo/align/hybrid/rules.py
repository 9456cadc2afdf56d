"""Hypotheses as rules of the one rule model (`interface/rules`), and such rules as hypotheses, to be tried again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from align_echo.align.hybrid.hypotheses import (
    Hypothesis,
    NeededStep,
    NoEffect,
    StatedClaim,
    WrongWording,
    in_words,
    list_forms,
    slots_of,
    spoken_forms,
    with_letters,
)
from align_echo.interface.rules.actions import (
    ActionGrammar,
    ActionTree,
    Form,
    Term,
    call_keys,
    fill,
    parse_call,
    text_of,
)
from align_echo.interface.rules.edits import Edit
from align_echo.interface.rules.model import (
    Condition,
    Effect,
    NeedsFirst,
    NothingChanged,
    PlainClaim,
    Rule,
    RuleSet,
    SayInstead,
)

UNTESTED = "(not tested) "
"""Beginning of an untested rule's text."""

Values = tuple[JsonValue, ...]
"""Arguments of an action with a hypothesis's slots in them; None for an argument of a tool that is not named."""


# ---------------------------------------------------------------- forms


def fit_forms(hypotheses: Iterable[Hypothesis], known: Sequence[Form]) -> list[Form]:
    """Return forms that read all actions of some hypotheses: the known ones, and others, the most general first."""
    forms = list(known)
    wanted = dict.fromkeys(form for hypothesis in hypotheses for form in list_forms(hypothesis))
    for form in sorted(wanted, key=lambda form: len(re.sub(r"\{\d\}", "", form))):
        if _express(form, ActionGrammar(forms)) is None:
            forms = _with_form(forms, form)
    return forms


def _with_form(forms: list[Form], form: str) -> list[Form]:
    call = parse_call(form)
    if call is None:
        numbers = iter(range(len(form)))
        return [*forms, Form(text=re.sub(r"\{\d\}", lambda _: f"{{{next(numbers)}}}", form))]
    tool, arguments = call
    known = next((each for each in forms if each.tool.lower() == tool.lower()), None)
    if known is None:
        named = tuple(arguments)
        return [*forms, Form(tool=tool, arguments=named, types=("",) * len(named), keys=call_keys(form))]
    if any(known.types):
        return forms  # declared: no other arguments exist
    more = tuple(name for name in arguments if name not in known.arguments)
    wider = {"arguments": (*known.arguments, *more), "types": (*known.types, *("",) * len(more))}
    return [known.model_copy(update=wider) if each is known else each for each in forms]


def _express(form: str, grammar: ActionGrammar) -> tuple[str, Values] | None:
    """Return a hypothesis's form as the name of a known form and arguments, at most one slot in each; None without."""
    reading = grammar.read(re.sub(r"\{(\d)\}", "\ue000\\1\ue001", form))
    if reading is None or not reading.exact or reading.tree.extra:
        return None
    values = tuple(_with_slots(value) for value in reading.tree.arguments)
    return None if any(len(slots_of(text_of(value))) > 1 for value in values) else (reading.tree.form, values)


def _with_slots(value: JsonValue) -> JsonValue:
    written = re.sub("\ue000(\\d)\ue001", r"{\1}", json.dumps(value, ensure_ascii=False))
    filled: JsonValue = json.loads(written)
    return filled


# ---------------------------------------------------------------- from hypotheses


class _Action:
    """Action that a hypothesis is about. `places` are the argument and its text for each slot."""

    def __init__(self, form: str, grammar: ActionGrammar) -> None:
        self.grammar = grammar
        self.form, self.values = self.express(form)
        texts = {slot: text_of(value) for slot, value in enumerate(self.values) if value is not None}
        self.places = {number: (slot, text) for slot, text in texts.items() for number in slots_of(text)}
        self.where = tuple(
            Condition(kind="reads", form=_one_slot(text), terms=(Term(slot=slot),), negated=True)
            for slot, text in texts.items()
            if not _is_bare(text)
        )

    def express(self, form: str) -> tuple[str, Values]:
        """Return a form with arguments. Raises `ValueError` if no known form reads it."""
        known = _express(form, self.grammar)
        if known is None:
            raise ValueError(f"`{form}` is not of a form that can be told from others")
        return known

    def terms(self, form: str) -> tuple[str, tuple[Term | None, ...]]:
        """Return another form with its arguments in terms of the action's; None for any value."""
        name, values = self.express(form)
        return name, tuple(self._term(value) for value in values)

    def _term(self, value: JsonValue) -> Term | None:
        text = text_of(value)
        if value is None or not slots_of(text):
            return Term(value=value)
        if value in self.values:
            return Term(slot=self.values.index(value))
        place = self.places.get(slots_of(text)[0])
        if place is None:
            return None
        slot, own = place
        return Term(
            slot=slot, reads="" if _is_bare(own) else _one_slot(own), text="" if _is_bare(text) else _one_slot(text)
        )


def _is_bare(text: str) -> bool:
    return re.fullmatch(r"\{\d\}", text) is not None


def _one_slot(text: str) -> str:
    return re.sub(r"\{\d\}", "{0}", text)


def as_rule(
    hypothesis: Hypothesis,
    grammar: ActionGrammar,
    refusals: Mapping[str, Sequence[str]],
    *,
    latest: bool = False,
    untested: bool = False,
    played: str = "",
) -> Rule:
    """Return a hypothesis as a rule, in its own words or in those of what was `played`.

    `refusals` are the canonical answers that refuse each form; `latest`: another step of the same form undoes the step.
    Raises `ValueError` for forms that cannot be told from others.
    """
    words = with_letters(f"{played or in_words(hypothesis)}.")
    text = f"{UNTESTED if untested else ''}{words}"
    if isinstance(hypothesis, StatedClaim) and not hypothesis.action:
        return PlainClaim(experiments=hypothesis.experiments, text=text, say=words)
    action = _Action(spoken_forms(hypothesis)[0], grammar)
    form, where, answers = action.form, action.where, tuple(refusals.get(action.form, ()))
    if isinstance(hypothesis, StatedClaim):
        experiments = hypothesis.experiments
        return PlainClaim(form=form, answers=answers, experiments=experiments, unless=where, text=text, say=words)
    if isinstance(hypothesis, NeededStep):
        step, terms = action.terms(hypothesis.step)
        done = Condition(kind="latest" if latest else "done", form=step, terms=terms)
        say = "`{action}` does not work yet: you need to `{step}` first."
        if None in terms:
            say = "`{action}` is refused until some `{step}` was done."
        return NeedsFirst(form=form, answers=answers, step=step, terms=terms, unless=(*where, done), text=text, say=say)
    if isinstance(hypothesis, WrongWording):
        right, others = action.terms(hypothesis.right)
        edit = Edit(kind="form", detail=right, terms=tuple(filter(None, others)))
        say = "`{action}` is not understood; write `{step}` instead."
        return SayInstead(form=form, answers=answers, edit=edit, unless=where, text=text, say=say)
    after = _still_so(action, hypothesis)
    say = "`{action}` would change nothing: that is already so."
    return NothingChanged(form=form, answers=answers, unless=(*where, after), text=text, say=say)


def _still_so(action: _Action, hypothesis: NoEffect) -> Condition:
    """Return the condition under which an action without effect may have one after all."""
    form, terms = action.terms(hypothesis.after)
    until = [Effect(form=name, terms=others) for name, others in map(action.terms, filter(None, [hypothesis.until]))]
    if until and until[0].form == form and None in until[0].terms:
        return Condition(kind="latest", form=form, terms=terms, negated=True)
    return Condition(kind="done", form=form, terms=terms, undone_by=tuple(until), negated=True)


def rule_set(
    rules: Sequence[Rule], base: RuleSet, grammar: ActionGrammar, refusals: Mapping[str, Sequence[str]]
) -> RuleSet:
    """Return rules with the forms that they need and these forms' refusals."""
    used = {name for rule in rules for name in _form_names(rule, grammar)}
    return base.model_copy(
        update={
            "forms": tuple(form for name, form in grammar.forms.items() if name in used),
            "refusals": {name: tuple(refusals[name]) for name in sorted(used) if name in refusals},
            "values": {**base.values, **dict(filter(None, map(_constants, rules)))},
            "rules": tuple(rules),
        }
    )


def _constants(rule: Rule) -> tuple[str, tuple[tuple[JsonValue, ...], ...]] | None:
    """Return the form of a rule's step and the constants among its arguments; None without."""
    step = (rule.step, rule.terms) if isinstance(rule, NeedsFirst) else ("", ())
    if isinstance(rule, SayInstead):
        step = rule.edit.detail, rule.edit.terms or ()
    values = tuple((term.value,) if term is not None and term.slot < 0 else () for term in step[1])
    return (step[0], values) if any(values) else None


def _form_names(rule: Rule, grammar: ActionGrammar) -> set[str]:
    names = {getattr(rule, "form", ""), getattr(rule, "step", "")}
    names |= {effect.form for each in getattr(rule, "unless", ()) for effect in (each, *each.undone_by)}
    if isinstance(rule, SayInstead):
        names.add(rule.edit.detail)
    if isinstance(rule, PlainClaim):
        readings = (grammar.read(each.actions[-1]) for each in rule.experiments)
        names |= {reading.tree.form for reading in readings if reading is not None}
    return names


# ---------------------------------------------------------------- back to hypotheses


def is_own(rule: Rule) -> bool:
    """Whether a rule was a hypothesis: rules of the probe have the messages of their kinds, or are no hypotheses."""
    if getattr(rule, "at_times", False) or (isinstance(rule, SayInstead) and rule.edit.kind != "form"):
        return False
    return bool(rule.say != type(rule).model_fields["say"].default)


def as_hypothesis(rule: Rule, grammar: ActionGrammar) -> Hypothesis | None:
    """Return a rule as the hypothesis that it was; None for a rule that was none."""
    try:
        return _as_hypothesis(rule, grammar) if is_own(rule) else None
    except (KeyError, IndexError, ValueError):
        return None


def _as_hypothesis(rule: Rule, grammar: ActionGrammar) -> Hypothesis | None:
    if isinstance(rule, PlainClaim):
        action = _written(rule.form, _own_values(rule, grammar), grammar) if rule.form else ""
        words = rule.text.removeprefix(UNTESTED)
        return StatedClaim.model_construct(text=words, experiments=rule.experiments, action=action)
    if not isinstance(rule, NeedsFirst | SayInstead | NothingChanged):
        return None
    own = _own_values(rule, grammar)
    action = _written(rule.form, own, grammar)
    if isinstance(rule, NeedsFirst):
        return NeededStep(action=action, step=_other(rule.step, rule.terms, own, grammar))
    if isinstance(rule, SayInstead):
        return WrongWording(wrong=action, right=_other(rule.edit.detail, rule.edit.terms or (), own, grammar))
    (after,) = (each for each in rule.unless if each.kind != "reads")
    until = ""
    if after.kind == "latest":
        until = _other(after.form, (None,) * len(after.terms), own, grammar)
    elif after.undone_by:
        until = _other(after.undone_by[0].form, after.undone_by[0].terms, own, grammar)
    return NoEffect(action=action, after=_other(after.form, after.terms, own, grammar), until=until)


def _own_values(rule: Rule, grammar: ActionGrammar) -> list[str]:
    """Return the arguments of a rule's action as texts with slots."""
    conditions = [each for each in getattr(rule, "unless", ()) if each.kind == "reads"]
    texts = {each.terms[0].slot: each.form for each in conditions}
    slots = range(grammar.forms[getattr(rule, "form", "")].slots)
    return [re.sub(r"\{0\}", f"{{{slot}}}", texts.get(slot, "{0}")) for slot in slots]


def _other(form: str, terms: Sequence[Term | None], own: Sequence[str], grammar: ActionGrammar) -> str:
    values: list[JsonValue] = []
    for term in terms:
        if term is None:
            values.append(f"{{{len(own) + len(values)}}}")
        elif term.slot < 0:
            values.append(term.value)
        elif term.text or term.reads:
            values.append(fill(term.text or "{0}", [f"{{{term.slot}}}"]))
        else:
            values.append(own[term.slot])
    return _written(form, values, grammar)


def _written(form: str, values: Sequence[JsonValue], grammar: ActionGrammar) -> str:
    return grammar.write(ActionTree(form, tuple(values)))
