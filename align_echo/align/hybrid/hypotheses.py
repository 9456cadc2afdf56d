"""Testable hypotheses a model may propose, and these as rules of the one rule model (`interface/rules`).

A form is an action with slots {0} to {9} for names: "take {0} from {1}", or {"name": "take", "what": "{0}"} where
actions are JSON objects: there, order and spaces do not count, and an action may have more keys. Four kinds: a step an
action needs first (`NeededStep`), a wording the environment does not understand (`WrongWording`), an action without
effect after another (`NoEffect`), and any statement with experiments (`StatedClaim`).

Not here: reading replies (`reading.py`) and trials (`trials.py`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, TypeAdapter, model_validator

from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.lab import Lab, LabState
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
from align_echo.interface.rules.answers import SAME, AnswerReader, lift
from align_echo.interface.rules.edits import Edit
from align_echo.interface.rules.model import (
    MOST_EXPERIMENTS,
    ClaimTrial,
    Condition,
    Effect,
    NeedsFirst,
    NothingChanged,
    PlainClaim,
    Rule,
    RuleSet,
    SayInstead,
    plain_text,
)
from align_echo.types import Frozen
from align_echo.wrappers.text_env import MAX_TEXT

LETTERS = ("X", "Y", "Z", "P", "Q", "R", "S", "T", "U", "V")
"""Letters for slots in texts for people and agents."""


def slots_of(form: str) -> list[str]:
    """Return the numbers of a form's slots in order."""
    return [str(number) for number in re.findall(r"\{(\d)\}", form)]


def with_letters(text: str) -> str:
    """Replace {0}, {1} and so on with X, Y and so on."""
    return re.sub(r"\{(\d)\}", lambda match: LETTERS[int(match[1])], text)


def tree_of(text: str) -> Any:
    """Return the JSON object that an action or a form is; None for plain text."""
    if not re.match(r"\s*\{\s*[\"}]", text):
        return None
    try:
        tree = json.loads(text)
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def said_as(action: str) -> str:
    """Normalise an action for comparisons: without case, spaces, and a JSON object's order."""
    tree = tree_of(action)
    return " ".join((action if tree is None else json.dumps(tree, sort_keys=True, ensure_ascii=False)).lower().split())


def bound_names(form: str, action: str) -> dict[str, str] | None:
    """Return the names in an action by the numbers of a form's slots; None if the action is not of that form."""
    wanted, given = tree_of(form), tree_of(action)
    names: dict[str, str] = {}
    if wanted is None:
        return names if given is None and _takes_text(form, action, names) else None
    return names if given is not None and _takes_tree(wanted, given, names) else None


def _takes_tree(form: Any, value: Any, names: dict[str, str]) -> bool:
    """Whether a part of a JSON object is of a form's part; adds its names."""
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            key in value and _takes_tree(part, value[key], names) for key, part in form.items()
        )
    if isinstance(form, list):
        return (
            isinstance(value, list)
            and len(form) == len(value)
            and all(_takes_tree(part, each, names) for part, each in zip(form, value, strict=True))
        )
    if not isinstance(form, str):
        return form == value and isinstance(form, bool) == isinstance(value, bool)
    return _takes_text(form, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), names)


def _takes_text(form: str, text: str, names: dict[str, str]) -> bool:
    """Whether a text is of a form; adds its names."""
    pattern = "(.+?)".join(re.escape(part) for part in re.split(r"\{\d\}", form))
    match = re.fullmatch(pattern, " ".join(text.split()), re.IGNORECASE)
    if match is None:
        return False
    for number, name in zip(slots_of(form), match.groups(), strict=False):
        if names.get(number, name).lower() != name.lower():
            return False
        names[number] = name
    return True


def filled_form(form: str, names: dict[str, str]) -> str:
    """Fill the slots of a form or a sentence; slots without a name stay."""
    tree = tree_of(form)
    if tree is not None:
        return json.dumps(_filled_tree(tree, names), ensure_ascii=False)
    return re.sub(r"\{(\d)\}", lambda match: names.get(match.group(1), match.group(0)), form)


def _filled_tree(form: Any, names: dict[str, str]) -> Any:
    if isinstance(form, dict):
        return {key: _filled_tree(part, names) for key, part in form.items()}
    if isinstance(form, list):
        return [_filled_tree(part, names) for part in form]
    return filled_form(form, names) if isinstance(form, str) else form


def is_step(form: str, names: dict[str, str], action: str) -> bool:
    """Whether an action is of a form with these names; slots without a name take any."""
    others = bound_names(form, action)
    if others is None:
        return False
    return all(others[number].lower() == names[number].lower() for number in others if number in names)


LONGEST_FORM = 400
LONGEST_STATEMENT = 400


def write_action(action: Any) -> Any:
    """Write an action that a model gave as a JSON object."""
    return json.dumps(action, ensure_ascii=False) if isinstance(action, dict) else action


def normalise_form(form: str) -> str:
    """Normalise spaces. Raises `ValueError` for a form that matches anything or has ambiguous names."""
    tree = tree_of(form)
    form = " ".join(form.split()) if tree is None else json.dumps(tree, ensure_ascii=False)
    if not form or len(form) > LONGEST_FORM:
        raise ValueError(f"a form has 1 to {LONGEST_FORM} characters")
    if len(slots_of(form)) != len(set(slots_of(form))):
        raise ValueError(f"{form!r} has a name twice")
    if re.search(r"\}\s*\{", form):
        raise ValueError(f"two names of {form!r} stand side by side: some word must part them")
    if not re.search(r"\w", re.sub(r"\{\d\}", "", form)):
        raise ValueError(f"{form!r} has no word of its own")
    if tree is None and re.search(r"[{}]", re.sub(r"\{\d\}", "", form)):
        raise ValueError(f"{form!r} has braces that are no {{0}} to {{9}}")
    return form


def normalise_line(text: str) -> str:
    """Normalise a statement to one line. Raises `ValueError` if empty or too long."""
    text = " ".join(text.split())
    if not text or len(text) > LONGEST_STATEMENT:
        raise ValueError(f"a statement has 1 to {LONGEST_STATEMENT} characters")
    return text


ActionForm = Annotated[str, BeforeValidator(write_action), AfterValidator(normalise_form)]
MaybeForm = Annotated[
    str, BeforeValidator(write_action), AfterValidator(lambda form: normalise_form(form) if form.strip() else "")
]
Statement = Annotated[str, AfterValidator(normalise_line)]


class NeededStep(Frozen):
    """`action` is refused before `step`. Names of `step` missing from `action` are free."""

    kind: Literal["needs"] = "needs"
    action: ActionForm
    step: ActionForm

    @model_validator(mode="after")
    def _differ(self) -> NeededStep:
        if self.action == self.step:
            raise ValueError("an action cannot need itself first")
        return self


class WrongWording(Frozen):
    """`wrong` is never understood; agents mean `right`. All names of `right` occur in `wrong`."""

    kind: Literal["instead"] = "instead"
    wrong: ActionForm
    right: ActionForm

    @model_validator(mode="after")
    def _fits(self) -> WrongWording:
        if self.wrong.lower() == self.right.lower():
            raise ValueError("both forms are the same")
        if not set(slots_of(self.right)) <= set(slots_of(self.wrong)):
            raise ValueError(f"{self.right!r} has a name that {self.wrong!r} does not have")
        return self


class NoEffect(Frozen):
    """After `after`, `action` changes nothing until `until` ("" for ever)."""

    kind: Literal["no_effect"] = "no_effect"
    action: ActionForm
    after: ActionForm
    until: MaybeForm = ""

    @model_validator(mode="after")
    def _fits(self) -> NoEffect:
        if not set(slots_of(self.action)) <= set(slots_of(self.after)):
            raise ValueError(f"{self.action!r} has a name that {self.after!r} does not have")
        return self


class StatedClaim(Frozen):
    """Statement in words with deciding experiments. `action` is the form with the explained refusal, if any. A text
    must be seen in one experiment and missing in another of the same task, so that a false statement would be noticed.
    """

    kind: Literal["claim"] = "claim"
    text: Statement
    experiments: Annotated[tuple[ClaimTrial, ...], Field(min_length=2, max_length=MOST_EXPERIMENTS)]
    action: MaybeForm = ""

    @model_validator(mode="after")
    def _can_fail(self) -> StatedClaim:
        seen = {(trial.task, plain_text(trial.sees)) for trial in self.experiments if trial.sees.strip()}
        if not seen & {
            (trial.task, plain_text(trial.sees_not)) for trial in self.experiments if trial.sees_not.strip()
        }:
            raise ValueError(
                "no experiment would come out otherwise if the claim were false: have a text seen in one experiment, "
                "and not seen in another of the same task with other actions"
            )
        actions = [self.action, *(action for trial in self.experiments for action in trial.actions)]
        played = {said_as(action) for action in actions}
        played |= {call[0].lower() for action in actions if (call := parse_call(action.strip()))}
        strange = [command for command in re.findall(r"`([^`]*)`", self.text) if said_as(command) not in played]
        if strange:
            raise ValueError(f"the text names `{strange[0]}`, which no experiment plays")
        return self


Hypothesis = NeededStep | WrongWording | NoEffect | StatedClaim
KINDS = ("needs", "instead", "no_effect", "claim")
HYPOTHESIS: TypeAdapter[Hypothesis] = TypeAdapter(Annotated[Hypothesis, Field(discriminator="kind")])
"""Adapter to read and write a hypothesis."""


def list_forms(hypothesis: Hypothesis) -> tuple[str, ...]:
    """List a hypothesis's forms, its subject first, with the actions of a claim's experiments."""
    trials = hypothesis.experiments if isinstance(hypothesis, StatedClaim) else ()
    played = [action for trial in trials for action in trial.actions if action]
    return tuple(dict.fromkeys((*spoken_forms(hypothesis), *played)))


def spoken_forms(hypothesis: Hypothesis) -> tuple[str, ...]:
    """List the forms a hypothesis speaks about; the interface must distinguish their answers."""
    if isinstance(hypothesis, NeededStep):
        return hypothesis.action, hypothesis.step
    if isinstance(hypothesis, WrongWording):
        return hypothesis.wrong, hypothesis.right
    if isinstance(hypothesis, NoEffect):
        return tuple(filter(None, (hypothesis.action, hypothesis.after, hypothesis.until)))
    return (hypothesis.action,) if hypothesis.action else ()


def list_trials(hypothesis: Hypothesis) -> list[str]:
    """Describe a claim's own experiments, one a line."""
    trials = hypothesis.experiments if isinstance(hypothesis, StatedClaim) else ()
    return [f"{trial.task}: {' | '.join(trial.actions)}" for trial in trials]


def in_words(hypothesis: Hypothesis) -> str:
    """Write a hypothesis as a plain sentence without a full stop."""
    return with_letters(_sentence(hypothesis))


def _sentence(hypothesis: Hypothesis) -> str:
    if isinstance(hypothesis, NeededStep):
        return f"Before `{hypothesis.action}` you need to `{hypothesis.step}`"
    if isinstance(hypothesis, WrongWording):
        return f"Write `{hypothesis.right}` instead of `{hypothesis.wrong}`"
    if isinstance(hypothesis, NoEffect):
        until = f", until `{hypothesis.until}`" if hypothesis.until else ""
        return f"`{hypothesis.action}` changes nothing after `{hypothesis.after}`{until}"
    return hypothesis.text.rstrip(".")


# ---------------------------------------------------------------- read the model's answers

NONSENSE = ("qzxv", "wvub", "qzxv wvub", "wvub qzxv", "wvub qzxv 7 kjdq", "kjdq 7", "vvjx qzxv kjdq", "xqj")
"""Actions no environment understands, to collect all wordings of refusals."""

MOST_ANSWERS = 20
"""Maximum refusals per form; beyond this they have no recognisable wording."""


class ActionJudge:
    """Judge of actions in a lab. `grammar` and `reader` read actions and answers as an interface does; `is_invalid` is
    the environment's test of an answer for a refusal, if it has one. `forms` are those of the hypotheses."""

    def __init__(
        self,
        lab: Lab,
        forms: Sequence[str],
        grammar: ActionGrammar,
        reader: AnswerReader,
        is_invalid: Callable[[str], bool] | None = None,
    ) -> None:
        self.lab = lab
        self.grammar = grammar
        self._observer = Observer(lab, grammar, reader)
        self._is_invalid = is_invalid
        self.forms = list(dict.fromkeys(forms))
        self._nonsense: dict[str, frozenset[str]] = {}
        self._refusing: defaultdict[str, set[str]] = defaultdict(set)
        self._accepting: defaultdict[str, set[str]] = defaultdict(set)
        self._refused: set[LabState] = set()
        self._read: dict[str, ActionTree | None] = {}

    def possible(self, state: LabState, action: str) -> bool:
        """Check if the engine accepts an action in a state, by its list or by trying."""
        if self.lab.lists:
            return action in state.admissible and not state.over
        return self.taken(state, action)

    def taken(self, state: LabState, action: str) -> bool:
        """Check by trying if an action does something in a state; record its answer."""
        if state.over or not action.strip() or len(action) > MAX_TEXT:
            return False
        child = self.lab.after(state, action)
        accepted = self._accepted(state, action, child)
        if not accepted:
            self._refused.add(child)
        self._note(state, action, child, accepted)
        return accepted

    def changes(self, state: LabState, action: str) -> bool:
        """Check if an action changes possible actions or views; without both, if it is accepted."""
        if state.over:
            return False
        child = self.lab.after(state, action)
        if not self.lab.lists and not self._views():
            return self.taken(state, action)
        return child.over or self._differ(state, child)

    def refusals(self) -> dict[str, list[str]]:
        """Map forms to recognisable refusals.

        Excludes answers also given to accepted actions; a form with too many refusals has none.
        """
        texts = {form: sorted(self._refusing[form] - self._accepting[form]) for form in self._refusing}
        return {form: known for form, known in texts.items() if 0 < len(known) <= MOST_ANSWERS}

    def went(self, state: LabState, action: str) -> LabState:
        """Return the state after an accepted action and record its answer."""
        child = self.lab.after(state, action)
        self._note(state, action, child, accepted=True)
        return child

    # ------------------------------------------------------------ inside

    def _accepted(self, state: LabState, action: str, child: LabState) -> bool:
        if action in state.admissible or child.over or self._differ(state, child):
            return True
        if self.lab.lists:
            return False
        if self._is_invalid is not None:
            return not self._is_invalid(child.observation)
        plain = " ".join(child.observation.split())
        refused = plain == " ".join(state.observation.split())
        return not refused and lift(plain, action) not in self._nonsense_in(state.task_id)

    def _note(self, state: LabState, action: str, child: LabState, accepted: bool) -> None:
        """Record the answer as an interface would see it. A repeated refusal is not silence."""
        if action not in self._read:
            reading = self.grammar.read(action)
            self._read[action] = reading.tree if reading else None
        tree = self._read[action]
        if tree is None:
            return
        page, news = self._observer.read(child)
        silent = page == self._observer.page(state) and (accepted or state not in self._refused)
        texts = {SAME} if silent else set()
        if accepted or not silent:
            texts.add(self._observer.reader.lift(news, action, tree.arguments, tree.call_names))
        (self._accepting if accepted else self._refusing)[tree.form].update(texts)

    def _differ(self, state: LabState, child: LabState) -> bool:
        if state.admissible != child.admissible:
            return True
        return any(self.lab.look(state, view) != self.lab.look(child, view) for view in self._views())

    def _views(self) -> list[str]:
        return [view for view in self.lab.env.contract.read_only_actions if "{}" not in view]

    def _nonsense_in(self, task_id: str) -> frozenset[str]:
        if task_id not in self._nonsense:
            start = self.lab.start(task_id)
            children = [(action, self.lab.after(start, action)) for action in NONSENSE]
            answers = (lift(" ".join(child.observation.split()), action) for action, child in children)
            self._nonsense[task_id] = frozenset(answers)
        return self._nonsense[task_id]


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
