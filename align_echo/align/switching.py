"""Remove single rules from interfaces that store them as data, as those of `probe` and `hybrid` do.

Removal deletes a rule from the data and from the rules text, leaving code unchanged. Another rule may then apply in its
place. Nothing is executed here.

Not supported: interfaces with rules in code, and the probe's first rule (refusals and action forms), since all others
depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import lru_cache

from align_echo.align.hybrid.rules import UNTESTED
from align_echo.align.probe.rule_file import read_rule_set, told_text, write_data, write_lines
from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import Interface, check_source, parse_source
from align_echo.interface.rules.model import Rule, RuleSet, dump


def list_switches(interface: Interface) -> dict[str, str]:
    """Map each removable rule's text to its action form, in record order.

    Empty if the interface stores no rules as data.
    """
    switched = {_told(rule): getattr(rule, "form", "any") for rule in _read(interface.source).rules}
    recorded = [rule.text for rule in interface.provenance.rules if rule.text in switched]
    return {rule: switched[rule] for rule in dict.fromkeys((*recorded, *switched))}


def without_rules(interface: Interface, rules: Collection[str], name: str) -> Interface:
    """Copy an interface under a new `name` with some rules removed from the rules text and the feedback.

    Raises `UsageError` for rules that cannot be removed.
    """
    unknown = set(rules) - list_switches(interface).keys()
    if unknown:
        raise UsageError(f"the interface {interface.name} has no rule that can be switched off: {min(unknown)}")
    source, before = interface.source, _read(interface.source)
    after = before.model_copy(update={"rules": tuple(rule for rule in before.rules if _told(rule) not in rules)})
    if after != before:
        source = _replace_rules_text(source, told_text(before), told_text(after))
        source = _with_rules(source, after)
    check_source(source, interface.contract)
    left = tuple(rule for rule in interface.provenance.rules if rule.text not in rules)
    provenance = interface.provenance.model_copy(update={"rules": left})
    return interface.model_copy(update={"name": name, "source": source, "provenance": provenance})


@lru_cache(maxsize=8)
def _read(source: str) -> RuleSet:
    return read_rule_set(source) or RuleSet()


def _told(rule: Rule) -> str:
    return rule.text.removeprefix(UNTESTED).removesuffix(".")


# ---------------------------------------------------------------- the source


def _with_rules(source: str, rules: RuleSet) -> str:
    """Replace the rules in the source."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULES":
            return _replace_expression(source, node.value, write_data(dump(rules)))
    raise InterfaceError("the source has no rules as data")


def _replace_rules_text(source: str, before: str, after: str) -> str:
    """Replace the rules text in the source. Raises `InterfaceError` if the source does not contain `before`."""
    if before == after:
        return source
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Constant) and node.value == before:
            text = repr(after) if node.lineno == node.end_lineno else write_lines(after)
            return _replace_expression(source, node, text)
    raise InterfaceError("what the interface tells up front is not what its rules say: it was changed by hand")


def _replace_expression(source: str, node: ast.expr, text: str) -> str:
    """Replace an expression in the source. `ast` column offsets are UTF-8 bytes."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = b"".join(lines[:first]) + lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    return (head + text.encode() + tail).decode()
