"""Rules told up front, read line by line and tried in the states of an audit.

Read are the sentences of the backends: a step that an action needs or may need, words instead of others, an action that
changes nothing, and lists of forms. Any other line counts as unread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from align_echo.align.hybrid.hypotheses import LETTERS, bound_names, filled_form, is_step, normalise_form, slots_of

RuleKind = Literal["needs", "may", "instead", "nothing", "locked", "ends", "forms", "unread"]

MOST_FORKS = 5
"""Forks for a rule in an episode."""

_FORM = r"`([^`]{1,400})`"
_PATTERNS: tuple[tuple[RuleKind, str], ...] = (
    ("needs", rf"Before {_FORM} you need to {_FORM}\.?"),
    ("may", rf"Before {_FORM} you may need to {_FORM}\.?"),
    ("instead", rf"Write {_FORM} instead of {_FORM}\.?"),
    ("nothing", rf"{_FORM} changes nothing after {_FORM}(?:, until {_FORM})?\.?"),
)
_FORMS = re.compile(r"(?:Only these forms|These forms|The environment knows (?:only )?these forms)\b")


class ToldRule(NamedTuple):
    """A line of the rules text. `action` is the form that it speaks of, `other` the step, the right words or what was
    done before, and `until` what ends that."""

    kind: RuleKind
    text: str
    action: str = ""
    other: str = ""
    until: str = ""


def read_told(text: str, known: Mapping[str, RuleKind] | None = None) -> list[ToldRule]:
    """Read the rules text; a heading, which ends in a colon, is no rule. `known` are lines of an interface's data."""
    lines = [re.sub(r"^\s*[-*]\s+", "", line).strip() for line in text.splitlines()]
    return [_read(line, known or {}) for line in dict.fromkeys(lines) if line and not line.endswith(":")]


def _read(line: str, known: Mapping[str, RuleKind]) -> ToldRule:
    if line in known:
        return ToldRule(known[line], line)
    words = re.sub(r"^\([^()]*\) ", "", line)
    if _FORMS.match(words):
        return ToldRule("forms", line)
    for kind, pattern in _PATTERNS:
        match = re.fullmatch(pattern, words)
        if match is None:
            continue
        try:
            forms = [_slotted(form) for form in match.groups() if form]
        except ValueError:
            break
        action, other, until = (*forms, "")[:3]
        return ToldRule(kind, line, other, action) if kind == "instead" else ToldRule(kind, line, action, other, until)
    return ToldRule("unread", line)


def _slotted(form: str) -> str:
    """Write {0} and so on for a form's letters."""
    return normalise_form(re.sub(r"\b[A-Z]\b", lambda match: _slot(match[0]), form))


def _slot(letter: str) -> str:
    return "{" + str(LETTERS.index(letter)) + "}" if letter in LETTERS else letter


class Taken(NamedTuple):
    """An action in a fork: whether it was accepted and changed something, None where that is unclear."""

    accepted: bool | None
    changed: bool | None


@dataclass
class RuleTrials:
    """Trials of the rules in an episode. `take` tries actions in turn in a fork of the state."""

    rules: list[ToldRule]
    take: Callable[[list[str]], list[Taken]]
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    obeyed: int = 0
    _accepted: list[str] = field(default_factory=list)
    _forks: Counter[str] = field(default_factory=Counter)

    def before(self, action: str) -> None:
        """Try, in the state before an action, whether the right words help where the wrong ones do not."""
        for rule in self.rules:
            if rule.kind != "instead" or not rule.action:
                continue
            names = bound_names(rule.other, action) or bound_names(rule.action, action)
            if names is None or not self._fork(rule, f"{rule.other} {rule.action}", names):
                continue
            wrong, right = filled_form(rule.action, names), filled_form(rule.other, names)
            (said,), (meant,) = self.take([wrong]), self.take([right])
            if said.accepted is False and meant.accepted:
                self.count(rule, True, "")
            elif said.accepted and said.changed is not False and meant.accepted is False:
                self.count(rule, False, f"`{right}` is refused where `{wrong}` is understood")

    def after(self, action: str, accepted: bool | None, *, over: bool) -> None:
        """Try rules with the outcome of an action; without forks after the end of an episode."""
        for rule in self.rules:
            names = bound_names(rule.action, action) if rule.action and accepted is not None else None
            if names is not None:
                self._said(rule, action, names, accepted is True, over)
        if accepted and not over:
            self._accepted.append(action)
            for rule in self.rules:
                names = bound_names(rule.other, action) if rule.kind == "nothing" and rule.action else None
                if names is not None and self._fork(rule, rule.action, names):
                    again = filled_form(rule.action, names)
                    changed = self.take([again])[0].changed
                    holds = None if changed is None else not changed
                    self.count(rule, holds, f"`{again}` changes something after `{action}`")

    def _said(self, rule: ToldRule, action: str, names: dict[str, str], accepted: bool, over: bool) -> None:
        if rule.kind not in ("needs", "may"):
            return
        held = any(is_step(rule.other, names, earlier) for earlier in self._accepted)
        if accepted and rule.kind == "needs":
            self.count(rule, held, f"`{action}` is possible without `{filled_form(rule.other, names)}`")
        elif not accepted and not held and not over and self._fork(rule, rule.other, names):
            first, *then = self.take([filled_form(rule.other, names), action])
            self.obeyed += first.accepted is not None
            if first.accepted and then[0].accepted:
                self.count(rule, True, "")

    def _fork(self, rule: ToldRule, form: str, names: dict[str, str]) -> bool:
        """Whether a form can be filled and the rule may be tried in one more fork."""
        return set(slots_of(form)) <= set(names) and self.may_fork(rule.text)

    def may_fork(self, text: str) -> bool:
        """Whether the rule with this text may be tried in one more fork, which is counted."""
        self._forks[text] += 1
        return self._forks[text] <= MOST_FORKS

    def count(self, rule: ToldRule, holds: bool | None, why: str) -> None:
        """Count a trial; None if it could not decide."""
        if holds is not None:
            (self.right if holds else self.wrong)[rule.text] += 1
        if holds is False:
            self.examples.append(f"told up front: {rule.text}: {why}")
