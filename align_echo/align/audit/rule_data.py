"""Rules of an interface's data, tried in the states of an audit: what each says of an action is done in a fork."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from align_echo.align.audit.rules import RuleKind, RuleTrials, Taken
from align_echo.interface.rules.actions import ActionGrammar, ActionTree, Reading
from align_echo.interface.rules.edits import apply_edit
from align_echo.interface.rules.model import (
    EndsEpisode,
    LockedAfter,
    NeedsFirst,
    NothingChanged,
    Rule,
    RuleSet,
    SayInstead,
)
from align_echo.interface.rules.runtime import RuleRuntime, count_refusals

TOLD: dict[str, RuleKind] = {
    "say_instead": "instead",
    "needs_first": "needs",
    "no_effect": "nothing",
    "locked_after": "locked",
    "ends_episode": "ends",
}
"""What a rule of each kind is called in the report."""


class AuditTurn(NamedTuple):
    """Turn of an audited episode: `accepted` and `changed` are None where that is unclear."""

    action: str
    answer: str
    accepted: bool | None
    changed: bool | None
    over: bool


class RuleDataTrials:
    """Trials of an episode. `told` counts them; `take` does actions in turn in a fork of the state."""

    def __init__(
        self, rules: RuleSet, told: RuleTrials, opening: str, take: Callable[[list[str]], list[Taken]]
    ) -> None:
        self._told, self._take = told, take
        self._runtime = RuleRuntime(rules, opening)
        self._grammar = ActionGrammar(rules.forms, rules.names)
        texts = {rule.text for rule in told.rules if rule.kind in TOLD.values() and not rule.action}
        self._rules = [rule for rule in rules.rules if rule.text in texts]
        self._taken: list[ActionTree] = []

    def words(self, action: str, text: str) -> list[str]:
        """Return an action in the words of the rule with this text, without its own words."""
        reading = self._grammar.read(action)
        rules = (rule for rule in self._rules if isinstance(rule, SayInstead) and rule.text == text)
        return [each for rule in rules for each in self._worded(rule, reading) if each != action.strip()]

    def before(self, action: str) -> None:
        """Try, in the state before an action, whether the words that a rule wants help where the action's do not."""
        reading = self._grammar.read(action)
        for rule in self._rules:
            if not isinstance(rule, SayInstead) or reading is None or reading.tree.form != rule.form:
                continue
            ways = [each for each in self._worded(rule, reading) if each != action.strip()]
            if not ways or not self._told.may_fork(rule.text):
                continue
            (said,) = self._take([action])
            meant = [self._take([each])[0] for each in ways]
            if said.accepted is False and any(each.accepted for each in meant):
                self._count(rule, True, "")
            elif said.accepted and said.changed is not False and all(each.accepted is False for each in meant):
                self._count(rule, False, f"`{ways[0]}` is refused where `{action}` is understood")

    def after(self, turn: AuditTurn) -> None:
        """Try the rules with the outcome of an action."""
        reading, runtime = self._grammar.read(turn.action), self._runtime
        silent = {
            rule.text: any(runtime.holds(condition, reading.tree) for condition in getattr(rule, "unless", ()))
            for rule in self._rules
            if reading is not None and getattr(rule, "form", "") == reading.tree.form
        }
        speaks = [rule for rule in self._rules if silent.get(rule.text) is False]
        if reading is not None:
            self._said(speaks, reading.tree, turn)
        runtime.hear(turn.action, turn.answer)
        for rule in self._rules:
            if not isinstance(rule, EndsEpisode) or runtime.answers[-1] not in rule.answers:
                continue
            if count_refusals(runtime.answers, rule) == rule.count:
                self._count(rule, turn.over, f"the episode goes on after `{turn.action}`")
        if reading is not None and turn.accepted:
            self._taken.append(reading.tree)

    def _said(self, rules: list[Rule], tree: ActionTree, turn: AuditTurn) -> None:
        for rule in rules:
            if isinstance(rule, NeedsFirst):
                self._needs(rule, tree, turn)
            elif isinstance(rule, NothingChanged) and turn.changed is not None and self._repeats(turn):
                self._count(rule, not turn.changed, f"`{turn.action}` changed something")
            elif isinstance(rule, LockedAfter) and turn.accepted is not None:
                cause = self._runtime.step(rule.cause, rule.terms, tree)
                if cause is not None and any(_is_like(cause, each) for each in self._taken):
                    self._count(rule, not turn.accepted, f"`{turn.action}` is possible after that")

    def _needs(self, rule: NeedsFirst, tree: ActionTree, turn: AuditTurn) -> None:
        step = self._runtime.step(rule.step, rule.terms, tree)
        if step is None or None in step.arguments or any(_is_like(step, each) for each in self._taken):
            return
        written = self._grammar.write(step)
        if turn.accepted:
            self._count(rule, False, f"`{turn.action}` is possible without `{written}`")
        elif not turn.over and self._told.may_fork(rule.text):
            first, then = self._take([written, turn.action])
            self._told.obeyed += first.accepted is not None
            if first.accepted and then.accepted:
                self._count(rule, True, "")

    def _repeats(self, turn: AuditTurn) -> bool:
        page = self._runtime.rules.reader.page(turn.answer, self._runtime.raw, turn.action)
        return page == self._runtime.page

    def _worded(self, rule: SayInstead, reading: Reading | None) -> Iterator[str]:
        for detail in (rule.edit.detail, *rule.edit.others):
            edit = rule.edit.model_copy(update={"detail": detail, "others": ()})
            tree = apply_edit(edit, reading, self._grammar, self._runtime.texts) if reading is not None else None
            if tree is not None:
                yield self._grammar.write(tree)

    def _count(self, rule: Rule, holds: bool, why: str) -> None:
        told = next(each for each in self._told.rules if each.text == rule.text)
        self._told.count(told, holds, why)


def _is_like(step: ActionTree, taken: ActionTree) -> bool:
    """Whether an action is a step, whose free arguments are None."""
    pairs = zip(step.arguments, taken.arguments, strict=False)
    return step.form == taken.form and all(wanted in (None, value) for wanted, value in pairs)
