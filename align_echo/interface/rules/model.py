"""Rules of an interface as data. Each rule is one kind of misalignment; `runtime.py` says when it speaks.

A rule's `say` is the template of its message and `text` its sentence in the rules told up front. Both may be edited by
hand. {action} is the agent's action, {step} the action to send, {0}, {1} ... the action's arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, TypeAdapter, ValidationError, model_validator

from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import InterfaceError
from align_echo.interface.rules.actions import MOST_FORMS, Form, Say, Term, fill, is_shallow
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.edits import Edit
from align_echo.interface.rules.pages import MOST_PARTS, PageOffers
from align_echo.interface.rules.places import PlaceForm, Surroundings
from align_echo.interface.rules.situations import (
    OTHER_LETTERS,
    NameTerm,
    OwnName,
    Situation,
    StateCondition,
    highest_slot,
)
from align_echo.interface.rules.vocabulary import LETTERS, MOST_SLOTS, SlottedForm, Vocabulary
from align_echo.types import Frozen

MOST_RULES = 500
"""Maximum rules of an interface."""

MOST_DATA = 300_000
"""Maximum characters and values in an interface's rules."""

MOST_EXPERIMENTS, MOST_ACTIONS = 12, 40
"""Maximum experiments of a claim, and actions of an experiment."""


def write_actions(actions: Any) -> Any:
    """Write a list of actions, or a single one; a JSON object becomes its text."""
    several = actions if isinstance(actions, list | tuple) else [actions]
    return [json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else each for each in several]


def plain_text(text: str) -> str:
    """Return a text in small letters with single spaces."""
    return " ".join(text.lower().split())


def fill_words(say: str, words: Mapping[str, str]) -> str:
    """Fill a message's template."""
    return re.sub(r"\{\w+\}", lambda slot: words.get(slot[0], slot[0]), say)


SAY_FORM = "`{action}` is not understood; write `{step}` instead."
"""Message about an action in words that the environment does not know."""


class Effect(Frozen):
    """Action that took effect, in terms of the action at hand; None in place of a term admits any value."""

    form: str
    terms: tuple[Term | None, ...] = ()


class Condition(Effect):
    """Condition on the actions that took effect, or on the action at hand.

    "done": one of form `form` had these arguments, and none of `undone_by` came later. "latest": the latest of that
    form had them. "reads": the argument of the only term reads like `form`. `negated`: it is not so.
    """

    kind: Literal["done", "latest", "reads"]
    undone_by: tuple[Effect, ...] = ()
    negated: bool = False


class SayInstead(Frozen):
    """The action is worded in a way that the environment does not understand; an edit is understood."""

    kind: Literal["say_instead"] = "say_instead"
    form: str
    answers: tuple[str, ...]
    edit: Edit
    unless: tuple[Condition, ...] = ()
    text: str
    say: Say = "Write `{step}` instead."


class NeedsFirst(Frozen):
    """The action works only after another one, which the environment does not say: `step` with `terms`.

    The rule is silent where a condition of `unless` holds. None in place of a term admits any value; then the message
    has no action to send. `at_times`: only some states need the step; it is said of names alone that were read.
    """

    kind: Literal["needs_first"] = "needs_first"
    form: str
    answers: tuple[str, ...]
    step: str
    terms: tuple[Term | None, ...]
    unless: tuple[Condition, ...]
    at_times: bool = False
    text: str
    say: Say = "You need to `{step}` first."


class NothingChanged(Frozen):
    """The answers mean that the action changed nothing, which they do not say."""

    kind: Literal["no_effect"] = "no_effect"
    form: str
    answers: tuple[str, ...]
    unless: tuple[Condition, ...] = ()
    text: str
    say: Say = "Nothing changed: `{action}` has no effect here."


class WorksWhere(Frozen):
    """The action, which has no arguments, changes nothing unless the page shows one of `phrases`.

    A phrase is part of the page as `bounded_page` writes it. The message names all actions without effect on a page;
    it comes with every page but one that stays.
    """

    kind: Literal["works_where"] = "works_where"
    form: str
    phrases: tuple[str, ...]
    text: str
    say: Say = "No effect here: {forms}."


class LockedAfter(Frozen):
    """The action is refused for the rest of the episode once another one took effect: `cause` with `terms`."""

    kind: Literal["locked_after"] = "locked_after"
    form: str
    answers: tuple[str, ...]
    cause: str
    terms: tuple[Term | None, ...]
    unless: tuple[Condition, ...] = ()
    text: str
    say: Say = "This is no longer possible: it had to come before."


class EndsEpisode(Frozen):
    """The `count`-th action with one of these answers ends the episode: in a row, or in all."""

    kind: Literal["ends_episode"] = "ends_episode"
    answers: tuple[str, ...]
    count: int = Field(ge=1, le=1_000)
    in_a_row: bool
    text: str
    say: Say = "One more refused action ends the episode."


class TurnLimit(Frozen):
    """The episode ends after `turns` actions, which nothing says. The message comes with `left` actions to go."""

    kind: Literal["turn_limit"] = "turn_limit"
    turns: int = Field(ge=1, le=100_000)
    left: int = Field(ge=1, le=100_000)
    text: str
    say: Say = "{left} more actions are possible in this episode."


class ClaimTrial(Frozen):
    """Actions from the beginning of a task: if a claim is true, the last answer contains `sees` and lacks `sees_not`.
    Letter case and spacing do not count."""

    task: str
    actions: Annotated[tuple[str, ...], BeforeValidator(write_actions), Field(min_length=1, max_length=MOST_ACTIONS)]
    sees: str = ""
    sees_not: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> ClaimTrial:
        if not (self.sees.strip() or self.sees_not.strip()):
            raise ValueError("an experiment needs sees or sees_not")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that decide it."""
        return tuple(plain_text(text) for text in (self.sees, self.sees_not) if text.strip())

    def objection(self, answer: str) -> str:
        """Say how an answer contradicts the claim; "" if it agrees."""
        sees, lacks = plain_text(self.sees), plain_text(self.sees_not)
        if sees and sees not in plain_text(answer):
            return f"{self.sees!r} is not seen in {answer!r}"
        return f"{self.sees_not!r} is seen in {answer!r}" if lacks and lacks in plain_text(answer) else ""


class PlainClaim(Frozen):
    """Statement in plain words, with the experiments that it stood.

    It is told up front; once in an episode where the last action of an experiment is answered as there; and where the
    action of `form` is refused by one of `answers` and no other rule knows why.
    """

    kind: Literal["claim"] = "claim"
    form: str = ""
    answers: tuple[str, ...] = ()
    experiments: Annotated[tuple[ClaimTrial, ...], Field(max_length=MOST_EXPERIMENTS)] = ()
    unless: tuple[Condition, ...] = ()
    text: str
    say: Say


class NamedBeside(Frozen):
    """A part of a page that `form` does not take is named by the part `shift` further on, in these `regions`."""

    kind: Literal["named_beside"] = "named_beside"
    form: str
    shift: int = Field(ge=-MOST_PARTS, le=MOST_PARTS)
    regions: tuple[str, ...]
    text: str
    say: Say = SAY_FORM


class InSight(Frozen):
    """Any name in sight can be named in one of `forms`."""

    kind: Literal["in_sight"] = "in_sight"
    forms: tuple[PlaceForm, ...]
    text: str
    say: Say = SAY_FORM


class Elsewhere(Frozen):
    """An action is refused where a name in it is not in sight; `form` leads to any place, whatever it is said of.

    `say_far` is the message about a form that leads to near places alone.
    """

    kind: Literal["elsewhere"] = "elsewhere"
    form: PlaceForm
    text: str
    say: Say = "`{action}` does not work yet: you need to `{step}` first."
    say_far: Say = "`{action}` is not possible from here; write `{step}` instead."


class BareNames(Frozen):
    """A name is understood only without further words around it."""

    kind: Literal["bare_names"] = "bare_names"
    text: str
    say: Say = "Words around a name are not understood: here {names} must stand alone."


class NeedsPage(Frozen):
    """On pages of a frame, `form` takes `name` only after it took `step`, which leads to another page."""

    kind: Literal["needs_page"] = "needs_page"
    form: str
    page: str
    name: str
    step: str
    text: str
    say: Say = "`{action}` does not work yet: you need to `{step}` first."


class MissingStep(NamedTuple):
    """Step of a form, with names by terms; with `together`, only where names of these kinds were seen together in it.
    """

    form: SlottedForm
    terms: tuple[NameTerm, ...]
    together: bool = False


class SituationRule(Frozen):
    """Rule on an action of a form, in situations where all conditions of `when` hold.

    A `sure` rule spoke of no action that was possible: it is also heeded for an action in other words, or one that
    silence answers. In `say`, {action} is the action in the environment's words and {step} the step.
    """

    form: SlottedForm
    when: tuple[StateCondition, ...] = ()
    sure: bool = True

    @model_validator(mode="after")
    def _names_exist(self) -> SituationRule:
        slots, step = self.form.count("{"), self.conclusion
        terms = step.terms if isinstance(step, MissingStep) else ()
        used = max(map(highest_slot, self.when), default=-1) // 2, max(map(highest_slot, terms), default=-1)
        if max(used) >= slots:
            raise ValueError(f"{self.form[:100]!r} has {slots} names, not {max(used) + 1}")
        if isinstance(step, MissingStep) and len(terms) != step.form.count("{"):
            raise ValueError(f"no {len(terms)} names go with {step.form[:100]!r}")
        return self

    def applies(self, situation: Situation, names: Sequence[str]) -> bool:
        """Check that all conditions hold for an action about these names (`Situation.about`)."""
        return all(condition.holds(situation, names) for condition in self.when)

    @property
    def words(self) -> str:
        """Words of the conditions; "" without any."""
        return " and ".join(condition.words(self.form.count("{")) for condition in self.when)

    @property
    def _wanted(self) -> str:
        return fill(self.form, LETTERS)

    @cached_property
    def key(self) -> str:
        """Name of a rule: form, conditions and conclusion, as JSON."""
        return json.dumps([self.form, self.when, self.conclusion])

    @property
    def conclusion(self) -> MissingStep | str:
        """The missing step, "already" or "now"."""
        raise NotImplementedError


class NeedsStep(SituationRule):
    """The action works only after the step."""

    kind: Literal["needs_step"] = "needs_step"
    step: Annotated[MissingStep, PlainSerializer(lambda step: step if step.together else step[:2])]
    say: Say = "`{action}` does not work yet: you need to `{step}` first."

    @property
    def text(self) -> str:
        """Sentence of the rule."""
        return f"Before `{self._wanted}` you need to {write_step(self.step)}{', when ' * bool(self.when)}{self.words}"

    @property
    def conclusion(self) -> MissingStep | str:
        """The missing step."""
        return self.step


class AlwaysNeeds(NeedsStep):
    """The step brings about what held whenever the action was possible. More may be missing."""

    kind: Literal["always_needs"] = "always_needs"  # type: ignore[assignment]
    say: Say = "`{action}` is possible only after `{step}`."


class AlreadySo(SituationRule):
    """The action would change nothing."""

    kind: Literal["already_so"] = "already_so"
    say: Say = "`{action}` would change nothing: that is already so."

    @property
    def text(self) -> str:
        """Sentence of the rule."""
        return f"`{self._wanted}` changes nothing when {self.words or 'it is repeated'}"

    @property
    def conclusion(self) -> MissingStep | str:
        """The word for it."""
        return "already"


class AllowedWhere(SituationRule):
    """The action is possible. It is said of an action in other words: {action}, where {step} is the right wording."""

    kind: Literal["allowed_where"] = "allowed_where"
    say: Say = "`{action}` is not understood; write `{step}` instead."

    @property
    def text(self) -> str:
        """Sentence of the rule."""
        return f"`{self._wanted}` is allowed{' when ' * bool(self.when)}{self.words}"

    @property
    def conclusion(self) -> MissingStep | str:
        """The word for it."""
        return "now"


class MayNeed(Frozen):
    """A step made the action possible in several tasks; when, is not known. It is told up front alone.

    `places` holds the action's slot for each name of the step, -1 for another name.
    """

    kind: Literal["may_need"] = "may_need"
    form: SlottedForm
    step: SlottedForm
    places: tuple[Annotated[int, Field(ge=-1, lt=MOST_SLOTS)], ...]
    say: Say = ""

    @property
    def command(self) -> str:
        """The step with the action's letters."""
        others = iter(OTHER_LETTERS)
        return f"`{fill(self.step, [LETTERS[slot] if slot >= 0 else next(others) for slot in self.places])}`"

    @property
    def text(self) -> str:
        """Sentence of the rule."""
        return f"Before `{fill(self.form, LETTERS)}` you may need to {self.command}"


def write_step(step: MissingStep) -> str:
    """Write a missing step as a command; further names become P or Q, with an explanation."""
    names, meant = list[str](), list[str]()
    for term in step.terms:
        own = isinstance(term, OwnName)
        names.append(term.words() if own else OTHER_LETTERS[len(meant)])
        meant += [] if own else [f"{names[-1]} is {term.words()}"]
    meant += ["such things were seen together in it"] * step.together
    return f"`{fill(step.form, names)}`" + (f" ({', '.join(meant)})" if meant else "")


def misworded(form: str, reading: str, say: Say = SAY_FORM) -> SayInstead:
    """Return the rule that a form is understood in another: its reading, over the form's own slots.

    It has no answers: the wording alone tells its refusal.
    """
    slots = [int(number) for number in re.findall(r"\{(\d)\}", reading)]
    numbered = iter(range(len(slots)))
    detail = re.sub(r"\{\d\}", lambda _: f"{{{next(numbered)}}}", reading)
    edit = Edit(kind="form", detail=detail, terms=tuple(Term(slot=slot) for slot in slots))
    text = f"Write `{fill(reading, LETTERS)}` instead of `{fill(form, LETTERS)}`"
    return SayInstead(form=form, answers=(), edit=edit, text=text, say=say)


Rule = Annotated[
    SayInstead
    | NeedsFirst
    | NothingChanged
    | WorksWhere
    | LockedAfter
    | EndsEpisode
    | TurnLimit
    | PlainClaim
    | NamedBeside
    | NeedsPage
    | NeedsStep
    | AlwaysNeeds
    | AlreadySo
    | AllowedWhere
    | MayNeed
    | InSight
    | Elsewhere
    | BareNames,
    Field(discriminator="kind"),
]


class RuleSet(Frozen):
    """All that an interface knows: forms of actions, reading of answers, outcomes by form, and rules.

    `refusals` maps a form to the canonical answers that refuse it, `unknown` to those of which no effect was seen;
    by any other answer the action took effect. `values` maps a form to values of each argument that worked in several
    tasks, `kinds` to the kinds of names (`kind_name`) with which it took effect, where the same came again. `names`
    part arguments that stand side by side; a number in a name stands for any. `pages`: what pages offer that
    stay as they are when an action is refused. `places`: what can be said and seen where forms and names are offered.
    `vocabulary` is what rules on situations (`SituationRule`) and their messages are about.
    """

    forms: tuple[Form, ...] = ()
    names: tuple[str, ...] = ()
    reader: AnswerReader = AnswerReader()
    refusals: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unknown: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    values: dict[str, tuple[tuple[JsonValue, ...], ...]] = Field(default_factory=dict)
    kinds: dict[str, tuple[tuple[str, ...], ...]] = Field(default_factory=dict)
    pages: PageOffers | None = None
    vocabulary: Vocabulary | None = None
    places: Surroundings | None = None
    rules: Annotated[tuple[Rule, ...], Field(max_length=MOST_RULES)] = ()

    @model_validator(mode="after")
    def _steps_can_be_written(self) -> RuleSet:
        slots = {form.name: form.slots for form in self.forms[:MOST_FORMS]}
        for rule in self.rules:
            if isinstance(rule, NeedsFirst) and slots.get(rule.step) != len(rule.terms):
                raise ValueError(f"no form {rule.step[:100]!r} with {len(rule.terms)} arguments, which a step has")
        return self


class Advice(NamedTuple):
    """Message about an action, the rules behind it, and the action that it tells the agent to send ("" for none)."""

    text: str
    rules: tuple[Rule, ...] = ()
    step: str = ""


_RULE_SET = TypeAdapter(RuleSet)


def load_rules(data: Any) -> RuleSet:
    """Return the rules in an interface's data. Raises `InterfaceError`, one line that names what is wrong."""
    if not _is_small(data):
        raise InterfaceError(f"RULES: more than {MOST_DATA} characters and values, or too deeply nested")
    try:
        return _RULE_SET.validate_python(data)
    except ValidationError as error:
        raise InterfaceError(f"RULES: {first_wrong(error)}") from error


def _is_small(data: Any) -> bool:
    """Return True for data of at most `MOST_DATA` characters and values, nested at most `DEEPEST` deep."""
    if not is_shallow(data):
        return False
    left, size = [data], 0
    while left and size <= MOST_DATA:
        value = left.pop()
        size += 1 + (len(value) if isinstance(value, (str, bytes)) else 0)
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            left += value
    return size <= MOST_DATA


def dump(rules: RuleSet) -> dict[str, Any]:
    """Return a rule set as plain data without defaults, for an interface file."""
    data: dict[str, Any] = json.loads(rules.model_dump_json(exclude_defaults=True))
    pairs = zip(rules.rules, data.pop("rules", ()), strict=True)
    return data | {"rules": [{"kind": rule.kind, **written} for rule, written in pairs]}
