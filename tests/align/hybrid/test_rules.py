"""Hypotheses become rules of the one rule model, and such rules are the same hypotheses again."""

from __future__ import annotations

from typing import Any

import pytest

from align_echo.align.hybrid.hypotheses import (
    HYPOTHESIS,
    Hypothesis,
    NeededStep,
    NoEffect,
    WrongWording,
    as_hypothesis,
    as_rule,
    fit_forms,
)
from align_echo.interface.rules.actions import ActionGrammar, Form
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.runtime import RuleRuntime

NO = "No."
TAKE = {"name": "take", "arguments": {"what": "{0}", "from": "{1}"}}
OPEN = {"name": "open", "arguments": {"place": "{1}"}}
BUY = {"name": "buy", "arguments": {"shop": "mall"}}
WRITTEN: list[dict[str, Any]] = [
    {"kind": "needs", "action": "take {0} from {1}", "step": "open {1}"},
    {"kind": "needs", "action": "take {0} from drawer {1}", "step": "open drawer {1}"},
    {"kind": "needs", "action": "take {0} from drawer {1}", "step": "unlock chest {1}"},
    {"kind": "needs", "action": "take {0} from {1}", "step": "go to {2}"},
    {"kind": "needs", "action": TAKE, "step": OPEN},
    {"kind": "needs", "action": {**TAKE, "arguments": {"from": "drawer {0}"}}, "step": BUY},
    {"kind": "instead", "wrong": "put {0} in {1}", "right": "move {0} to {1}"},
    {"kind": "instead", "wrong": "give {0} to {1}", "right": "hand {1} the {0}"},
    {"kind": "instead", "wrong": "peer at {0}", "right": "look"},
    {"kind": "no_effect", "action": "open {0}", "after": "open {0}", "until": "close {0}"},
    {"kind": "no_effect", "action": "go to {0}", "after": "go to {0}", "until": "go to {1}"},
    {"kind": "no_effect", "action": "take {0}", "after": "put {0} in {1}", "until": "empty {1}"},
]


def written(*hypotheses: dict[str, Any]) -> list[Hypothesis]:
    return [HYPOTHESIS.validate_python(each) for each in hypotheses]


def playing(*hypotheses: Hypothesis, known: tuple[Form, ...] = ()) -> RuleRuntime:
    grammar = ActionGrammar(fit_forms(hypotheses, known))
    refusals: dict[str, tuple[str, ...]] = dict.fromkeys(grammar.forms, (NO,))
    rules = tuple(as_rule(each, grammar, refusals) for each in hypotheses)
    forms = tuple(grammar.forms.values())
    return RuleRuntime(RuleSet(forms=forms, refusals=refusals, rules=rules), "Drawer 1, box 2, a pen, Ann, hall.")


def told(runtime: RuleRuntime, action: str, answer: str = NO) -> str:
    return runtime.advise(runtime.hear(action, answer)).text


@pytest.mark.parametrize("number", range(len(WRITTEN)))
def test_a_rule_is_read_as_the_hypothesis_that_it_was(number: int) -> None:
    (hypothesis,) = written(WRITTEN[number])
    grammar = ActionGrammar(fit_forms([hypothesis], [Form(text="open {0}"), Form(text="take {0} from {1}")]))
    rule = as_rule(hypothesis, grammar, {})
    again = as_hypothesis(rule, grammar)
    assert again is not None
    assert as_rule(again, grammar, {}).model_copy(update={"text": ""}) == rule.model_copy(update={"text": ""})


def test_rules_of_a_form_and_of_a_case_of_it_speak_of_the_same_action() -> None:
    go, drawer = written({"kind": "needs", "action": "take {0} from {1}", "step": "go to {1}"}, WRITTEN[1])
    runtime = playing(drawer, go)
    assert list(runtime.grammar.forms) == ["go to {0}", "take {0} from {1}", "open drawer {0}"]
    assert told(runtime, "take pen from box 2").endswith("you need to `go to box 2` first.")
    told(runtime, "go to drawer 1", "There.")
    assert told(runtime, "take pen from drawer 1").endswith("you need to `open drawer 1` first.")
    told(runtime, "go to box 2", "There.")
    assert told(runtime, "take pen from box 2") == ""


def test_what_is_already_so_is_said_until_it_is_undone() -> None:
    runtime = playing(NoEffect(action="take {0}", after="put {0} in {1}", until="empty {1}"))
    assert told(runtime, "take pen") == ""
    told(runtime, "put pen in box 2", "Done.")
    assert told(runtime, "take pen") == "`take pen` would change nothing: that is already so."
    told(runtime, "empty box 2", "Done.")
    assert told(runtime, "take pen") == ""


def test_a_wording_may_change_the_order_of_names_and_drop_some() -> None:
    runtime = playing(
        WrongWording(wrong="give {0} to {1}", right="hand {1} the {0}"), WrongWording(wrong="peer at {0}", right="look")
    )
    assert told(runtime, "give pen to Ann").endswith("write `hand Ann the pen` instead.")
    assert told(runtime, "peer at box 2").endswith("write `look` instead.")


def test_a_form_that_declared_ones_contradict_is_no_rule() -> None:
    declared = Form(tool="open", arguments=("door",), types=("string",))
    hypothesis = NeededStep(action='{"name": "open", "arguments": {"place": "{0}"}}', step="look")
    with pytest.raises(ValueError, match="can be told from others"):
        as_rule(hypothesis, ActionGrammar(fit_forms([hypothesis], [declared])), {})
