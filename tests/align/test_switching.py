"""Switching off single rules: what an interface holds as data goes, and nothing else of its source changes."""

from __future__ import annotations

import ast
import difflib

import pytest

from align_echo.align.hybrid.backend import write_source
from align_echo.align.hybrid.hypotheses import NeededStep, WrongWording, as_rule, fit_forms, rule_set
from align_echo.errors import InterfaceError, UsageError
from align_echo.evaluate.ablation import list_switches, without_rules
from align_echo.interface.contract import Interface, identity, load_interface
from align_echo.interface.rules.actions import ActionGrammar
from align_echo.interface.rules.model import RuleSet
from tests.room_env import CONTRACT

GO = "Before `take X from Y` you need to `go to Y`, when `look` shows nothing that has a name"
WRITE = "Write `move X to Y` instead of `put X in/on Y`"


def up_front(interface: Interface) -> str:
    functions = [node for node in ast.parse(interface.source).body if isinstance(node, ast.FunctionDef)]
    returned = next(node.body[-1] for node in functions if node.name == "InferRules")
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    return str(ast.literal_eval(returned.value))


@pytest.mark.parametrize("name", ["alfworld/probe", "scienceworld/probe", "textworldexpress/probe", "webshop/probe"])
def test_every_rule_of_a_shipped_interface_but_the_first_can_be_switched_off(name):
    interface = load_interface(name)
    recorded = [rule.text for rule in interface.provenance.rules]
    assert list(list_switches(interface)) == recorded[1:]
    left = without_rules(interface, [recorded[-1]], "less")
    assert list(list_switches(left)) == recorded[1:-1]
    assert [rule.text for rule in left.provenance.rules] == recorded[:-1]
    old, new = interface.source.split("\n"), left.source.split("\n")
    changed = sum(line[:1] in "+-" for line in difflib.unified_diff(old, new, n=0, lineterm=""))
    assert 0 < changed < 20  # a table, and a line of text: all code stays


def test_a_rule_is_no_longer_told_up_front_unless_another_says_it_too():
    interface = load_interface("alfworld/probe")
    assert "Write `move X to Y`" in up_front(interface)
    assert "Write `move X to Y`" not in up_front(without_rules(interface, [WRITE], "less"))
    go_first = [
        rule for rule in list_switches(interface) if rule.startswith("Before `take X from Y` you need to `go to")
    ]
    assert "Before `take X from Y` you may need to `go to Y`" in up_front(interface)
    told = up_front(without_rules(interface, go_first, "less"))
    assert "Before `take X from Y` you may need to `go to Y`" not in told


def test_rules_that_a_model_proposed_are_switched_off_too():
    hypotheses = NeededStep(action="take {0}", step="go to {0}"), WrongWording(wrong="grab {0}", right="take {0}")
    grammar, refusals = ActionGrammar(fit_forms(hypotheses, [])), {"take {0}": ["No."]}
    needs, instead = (as_rule(hypothesis, grammar, refusals) for hypothesis in hypotheses)
    rules = rule_set([needs, instead], RuleSet(), grammar, refusals)
    plain = identity(CONTRACT)
    interface = plain.model_copy(update={"source": write_source(plain.source, CONTRACT, rules, [])})
    first, second = list_switches(interface)
    assert (first, second) == (needs.text.rstrip("."), instead.text.rstrip("."))
    left = without_rules(interface, [first], "less")
    assert list(list_switches(left)) == [second]
    assert first not in left.source
    assert list_switches(without_rules(interface, [first, second], "less")) == {}


def test_rules_that_are_code_cannot_be_switched_off():
    assert list_switches(identity(CONTRACT)) == {}
    odd = "SPEC = {'templates': 3}\n" + identity(CONTRACT).source
    assert list_switches(identity(CONTRACT).model_copy(update={"source": odd})) == {}
    with pytest.raises(UsageError, match="no rule that can be switched off: nonsense"):
        without_rules(identity(CONTRACT), ["nonsense"], "less")


def test_what_was_changed_by_hand_up_front_is_refused():
    interface = load_interface("alfworld/probe")
    changed = interface.model_copy(update={"source": interface.source.replace("Learned by experiment in", "Seen in")})
    with pytest.raises(InterfaceError, match="it was changed by hand"):
        without_rules(changed, [WRITE], "less")
    assert GO in list_switches(changed)
