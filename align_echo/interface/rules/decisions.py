"""Decision lists: which rule on situations speaks of an action, and what is told of a refused one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from align_echo.interface.rules.actions import LONGEST_ACTION, fill, form_pattern
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.model import (
    Advice,
    AllowedWhere,
    AlreadySo,
    AlwaysNeeds,
    MayNeed,
    MissingStep,
    NeedsStep,
    Rule,
    RuleSet,
    SayInstead,
    SituationRule,
    fill_words,
    write_step,
)
from align_echo.interface.rules.situations import MOST_VIEWED, ActiveName, NameAt, NameWith, OwnName, Situation
from align_echo.interface.rules.vocabulary import (
    ACTION,
    LETTERS,
    Vocabulary,
    kind_of,
)

DEEPEST = 3
"""Steps that lead back from what an action always needs to the first that is possible."""

HEADING = "Learned by experiment in this environment:"


DecisionRule = NeedsStep | AlreadySo | AllowedWhere
"""Rule of a decision list."""


class Decision(NamedTuple):
    """Rule that speaks of an action, and what it says: a step, "already" or "now"."""

    rule: DecisionRule
    step: str


class DecisionLists:
    """Rules on situations by the form of their action, in order, with the vocabulary they are about."""

    def __init__(self, vocabulary: Vocabulary, rules: Iterable[Rule]) -> None:
        self.vocabulary = vocabulary
        self.rules = tuple(rules)
        self.wordings: dict[str, SayInstead] = {}
        self.needs: list[MayNeed] = []
        self.others: list[Rule] = []
        self.refusing: dict[str, list[NeedsStep | AlreadySo]] = defaultdict(list)
        self.allowing: dict[str, list[AllowedWhere]] = defaultdict(list)
        for rule in self.rules:
            match rule:
                case AllowedWhere():
                    self.allowing[rule.form].append(rule)
                case NeedsStep() | AlreadySo():
                    self.refusing[rule.form].append(rule)
                case SayInstead(answers=(), edit=edit) if edit.kind == "form" and edit.detail in vocabulary.forms:
                    self.wordings[rule.form] = rule
                case MayNeed():
                    self.needs.append(rule)
                case _:
                    self.others.append(rule)

    @property
    def situation_rules(self) -> list[DecisionRule]:
        """Rules on situations, in order."""
        return [rule for rule in self.rules if isinstance(rule, NeedsStep | AlreadySo | AllowedWhere)]

    def by_form(self) -> list[DecisionRule]:
        """Return rules on situations form by form, those on when it is allowed last."""
        place = {form: number for number, form in enumerate(self.vocabulary.forms)}
        return sorted(
            self.situation_rules, key=lambda rule: (place.get(rule.form, -1), isinstance(rule, AllowedWhere))
        )

    def with_rules(self, new: Iterable[Rule]) -> DecisionLists:
        """Add rules, except those that are known by form, conditions and conclusion."""
        rules: dict[str, Rule] = {}
        for rule in (*self.rules, *new):
            rules.setdefault(_key(rule), rule)
        return DecisionLists(self.vocabulary, rules.values())

    def without_rules(self, keys: Iterable[str]) -> DecisionLists:
        """Drop rules on situations by their keys."""
        gone = {*keys}
        return DecisionLists(self.vocabulary, [rule for rule in self.rules if _key(rule) not in gone])

    def with_doubt(self, keys: Iterable[str]) -> DecisionLists:
        """Return the lists with some rules no longer sure."""
        doubted = {*keys}
        rules = (
            rule.model_copy(update={"sure": False}) if isinstance(rule, SituationRule) and rule.key in doubted else rule
            for rule in self.rules
        )
        return DecisionLists(self.vocabulary, rules)

    # ------------------------------------------------------------ what is decided

    def decide(
        self, situation: Situation, form: str, names: Sequence[str], sure: bool = False, deep: int = DEEPEST
    ) -> Decision | None:
        """Return the first rule that applies to an action, and what it says; None if none does.

        What an action always needs comes last; if that is itself not possible yet, what it needs is meant.

        Without `sure` the action was refused in just these words. With it, it was not tried: rules that call it allowed
        come first, and of the others only sure ones count. A step counts only if a rule calls it allowed now, where
        there are such rules for its form.
        """
        if not self.vocabulary.fits(form, names):
            return None
        about = situation.about(names)
        if sure:
            for allowed in self.allowing.get(form, ()):
                if allowed.applies(situation, about):
                    return Decision(allowed, "now")
        rules = self.refusing.get(form, ())
        for must in (False, True) if any(isinstance(rule, AlwaysNeeds) for rule in rules) else (False,):
            for rule in rules:
                if isinstance(rule, AlwaysNeeds) != must or (sure and not rule.sure):
                    continue
                if not rule.applies(situation, about):
                    continue
                step = self.conclude(situation, rule.conclusion, names)
                if step and self._is_doubtful(situation, step):
                    step = self._needed(situation, step, deep) if must else ""
                if step and step != fill(form, names):
                    return Decision(rule, step)
        return None

    def _needed(self, situation: Situation, step: str, deep: int) -> str:
        """Return what a step needs that is not possible yet; "" if no rule tells."""
        form, names, _ = self.vocabulary.parse(step, situation.completions)
        decision = self.decide(situation, form, names, True, deep - 1) if deep else None
        return decision.step if decision is not None and decision.step not in ("already", "now") else ""

    def _is_doubtful(self, situation: Situation, step: str) -> bool:
        """Check if a step is of a form with rules for when it is allowed, and none applies now."""
        form, names, _ = self.vocabulary.parse(step, situation.completions)
        rules = self.allowing.get(form, ())
        about = situation.about(names)
        return len(rules) > 0 and not any(rule.applies(situation, about) for rule in rules)

    def conclude(self, situation: Situation, conclusion: MissingStep | str, names: Sequence[str]) -> str:
        """Return the step that a rule concludes; "" if one of its names is not known or does not fit."""
        if isinstance(conclusion, str):
            return conclusion
        return self.write_step(conclusion, [term.value(situation, names) for term in conclusion.terms])

    def write_step(self, step: MissingStep, values: Sequence[str]) -> str:
        """Write a step with these names; "" if they do not fit."""
        fits = all(values) and self.vocabulary.fits(step.form, values)
        if not fits or (step.together and not self.vocabulary.goes_together(step.form, values)):
            return ""
        return fill(step.form, values)

    # ------------------------------------------------------------ reading actions

    def read(self, situation: Situation, action: str) -> tuple[str, list[str]]:
        """Return the form and the names that an action stands for; ("", []) if its form is unknown.

        Try it as it stands, in lower case, and by the words of a form around names of any shape. A name without its
        number keeps its first meaning when the action is said again.
        """
        if len(action) > LONGEST_ACTION:
            return "", []
        said = " ".join(action.split())
        if said in situation.meant:
            return situation.meant[said]
        form, names = self._read_first(situation, said)
        if form and all(name in situation.mentions for name in names):
            situation.meant[said] = form, names
        return form, names

    def _read_first(self, situation: Situation, said: str) -> tuple[str, list[str]]:
        for text in (said, said.lower()):
            form, names, _ = self.vocabulary.parse(text, situation.completions)
            if form in self.vocabulary.forms:
                return form, names
            if form in self.wordings:
                return self.wordings[form].edit.detail, names
        for form in (*self.vocabulary.forms, *self.wordings):
            match = form_pattern(form, ".+?").fullmatch(said.lower()) if "{" in form else None
            if match is not None:
                meant = self.wordings[form].edit.detail if form in self.wordings else form
                return meant, [self._one_name(situation, text.strip()) for text in match.groups()]
        return "", []

    def _one_name(self, situation: Situation, text: str) -> str:
        """Return the only name in a text, also without its number; the text itself if there is none or more."""
        names = [name for name in self.vocabulary.names_in(text) if name in situation.mentions]
        if not names:
            names = [situation.completions[word] for word in text.split() if word in situation.completions]
        return names[0] if len(names) == 1 else text

    def views(self, situation: Situation, action: str) -> list[str]:
        """Return the read-only actions that tell what there is to know about an action: those without a name, then on
        its names, on what those were shown with, and on what its rules may name."""
        form, names = self.read(situation, action)
        wanted = situation.about(names)
        for rule in self.refusing.get(form, ()):
            if isinstance(rule, NeedsStep):
                wanted += [term.value(situation, names) for term in rule.step.terms]
        plain = [view for view in self.vocabulary.views if "{}" not in view]
        known = [name for name in dict.fromkeys(wanted) if name in situation.mentions][:MOST_VIEWED]
        return plain + [view.replace("{}", name) for view in self.vocabulary.views if "{}" in view for name in known]

    # ------------------------------------------------------------ what is told

    def advise(self, situation: Situation, action: str, refused: str = "") -> Advice:
        """Return what to tell of a refused action; nothing where nothing is certain.

        Silence (`refused` is {same}) may also answer an action that was taken: then only sure rules speak.
        """
        vocabulary = self.vocabulary
        plain = [situation.view(view) for view in vocabulary.views if "{}" not in view]
        if any(text.strip() in vocabulary.refusals for text in plain):
            return Advice("")  # the views do not answer any more: the episode is over
        form, names = self.read(situation, action)
        if not form:
            return Advice(f"The environment knows only these forms: {self._list_forms()}.")
        for name in names:
            if name not in situation.mentions:
                return Advice(_unseen(situation, name))
        wanted = fill(form, names)
        rewritten = wanted != action.strip()
        if rewritten and not vocabulary.case and wanted == " ".join(action.lower().split()):
            rewritten = False
        decision = self.decide(situation, form, names, rewritten or refused == SAME)
        if decision is None:
            return self._without_rule(situation, action, wanted, names, plain)
        rule, step = decision
        if isinstance(rule, AllowedWhere):
            return Advice(_say(rule.say, action, wanted), (rule,), wanted) if rewritten else Advice("")
        if isinstance(rule, AlreadySo):
            return Advice(_say(rule.say, wanted), (rule,))
        then = f" Then write `{wanted}`: `{action}` is not understood." if rewritten else ""
        return Advice(_say(rule.say, wanted, step) + then, (rule,), step)

    def _without_rule(
        self, situation: Situation, action: str, wanted: str, names: list[str], plain: list[str]
    ) -> Advice:
        said = " ".join(self.vocabulary.parse(action, situation.completions).form.split())
        if said in self.wordings:
            rule = self.wordings[said]
            return Advice(_say(rule.say, action, wanted), (rule,))
        shown = {name for text in plain for name in self.vocabulary.names_in(text)}
        return Advice(self._last_seen(situation, [name for name in names if name not in shown]))

    def _last_seen(self, situation: Situation, names: list[str]) -> str:
        """Say where the first name that is not here was seen last, if the way there is certain; else ""."""
        for name in names:
            for mover, place in situation.at.get(name, {}).items():
                if "{1}" in mover or not place or place in (situation.here(mover), name):
                    continue
                decision = self.decide(situation, mover, [place], True)
                if decision is not None and decision.step == "now":
                    return f"`{name}` was last seen after `{fill(mover, [place])}`."
        return ""

    def _list_forms(self) -> str:
        return ", ".join(f"`{fill(form, LETTERS)}`" for form in self.vocabulary.forms)

    def rules_text(self) -> str:
        """Write the text told up front: short sentences valid in any state, hence with "may".

        Conditions concern refused actions; only the answers to these use them.
        """
        lines = [HEADING]
        if self.vocabulary.forms:
            lines.append(f"- Only these forms are understood: {self._list_forms()}")
        if self.vocabulary.number:
            lines.append("- Names are written in full, with their number")
        lines += [f"- {refusal_in_words(shape)}" for shape in self.vocabulary.refusals]
        lines += [f"- {rule.text}" for _, rule in sorted(self.wordings.items())]
        for form in sorted(self.vocabulary.forms):
            wanted, rules = fill(form, LETTERS), self.refusing.get(form, ())
            steps = dict.fromkeys(
                step for rule in rules if isinstance(rule, NeedsStep) and (step := self._step_up_front(rule.step))
            )
            steps.update(dict.fromkeys(need.command for need in self.needs if need.form == form))
            if steps:
                lines.append(f"- Before `{wanted}` you may need to " + " or ".join(steps))
            if any(isinstance(rule, AlreadySo) for rule in rules):
                lines.append(f"- `{wanted}` may also be refused because it is already so")
        return "\n".join(lines)

    def _step_up_front(self, step: MissingStep) -> str:
        """Write a missing step without its conditions; "" if the state decides.

        Covers steps with the action's own names, and undoing what is in effect (such as laying down an object).
        """
        orders = {pair[:2]: pair.order for pair in self.vocabulary.pairs if pair.undo == step.form}
        for slot, term in enumerate(step.terms):
            match term:
                case OwnName() | NameWith():
                    continue
                case NameAt(form=form) if form == step.form:
                    continue
                case ActiveName(place=place) if orders.get((term.do, term.undo), ())[place : place + 1] == (slot,):
                    continue
            return ""
        if len(step.terms) == 1 and isinstance(step.terms[0], NameAt):
            blank = fill(step.form, ["_"] * len(LETTERS))
            return f"repeat the `{blank}` after which you last read of {LETTERS[step.terms[0].slot]}"
        return write_step(step._replace(together=False))


class SituationGuide:
    """Episode under rules on situations: hear an answer, look at the views it asks for, then advise."""

    def __init__(self, lists: DecisionLists, opening: str, task: str) -> None:
        self.lists = lists
        self.situation = Situation.begin(lists.vocabulary, f"{opening}\n{task}", opening)
        self._refused = ""
        self._action = ""

    def hear(self, action: str, raw: str) -> None:
        """Take in an action and its answer."""
        self._action, self._refused = action, self.situation.record(action, raw)

    def views(self) -> list[str]:
        """Return the read-only actions to look by before advice; none after an action that was taken."""
        return self.lists.views(self.situation, self._action) if self._refused else []

    def advise(self, views: dict[str, str]) -> Advice:
        """Return what to tell of the last action, given what the views show."""
        self.situation.views = views
        return self.lists.advise(self.situation, self._action, self._refused) if self._refused else Advice("")


def make_guide(rules: RuleSet, opening: str, task: str) -> SituationGuide | None:
    """Return the guide of rules on situations; None without a vocabulary."""
    lists = None if rules.vocabulary is None else DecisionLists(rules.vocabulary, rules.rules)
    return None if lists is None else SituationGuide(lists, opening, task)


def _key(rule: Rule) -> str:
    return rule.key if isinstance(rule, SituationRule) else rule.model_dump_json()


def _say(say: str, action: str, step: str = "") -> str:
    return fill_words(say, {"{action}": action, "{step}": step})


def _unseen(situation: Situation, name: str) -> str:
    """Say that a name was not seen so far, and which like it were; "" if its words were read somewhere."""
    if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", situation.text) is not None:
        return ""
    like = sorted(other for other in situation.mentions if kind_of(other) == kind_of(name))
    return f"Nothing called `{name}` was seen so far" + (f", only {', '.join(like)}." if like else ".")


def refusal_in_words(shape: str) -> str:
    """Explain a shape of refusal."""
    if shape == SAME:
        return "An answer that only repeats the one before may mean that the action was refused; it does not say why"
    return f'"{shape.replace(ACTION, "...")}" means that the action was refused; it does not say why'
