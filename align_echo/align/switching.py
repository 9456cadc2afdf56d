"""Remove single rules from interfaces that store them as data, as those of `probe` and `hybrid` do.

Removal deletes a rule from its source table and from the rules text, leaving code unchanged. Another rule may then
apply in its place. Nothing is executed here.

Not supported: interfaces with rules in code, and the probe's first rule (refusals and action forms), since all others
depend on it.
"""

from __future__ import annotations

import ast
import pprint
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

from align_echo.align.hybrid.rules import UNTESTED
from align_echo.align.probe.offered import learner as offered
from align_echo.align.probe.rule_file import situations_text, write_data, write_lines
from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import Interface, check_source, parse_source
from align_echo.interface.rules.model import Rule, dump, load_rules

Spec = dict[str, Any]
SPEC_TABLE, RULES_TABLE = "SPEC", "RULES"


class RuleSwitch(NamedTuple):
    """Removable rule: its text on record, its action form, and a function that drops it from the table."""

    rule: str
    action: str
    drop: Callable[[Any], Any]


class RuleTable(NamedTuple):
    """Rule table in an interface's source, with its rules and a function that builds the rules text."""

    name: str
    content: Any
    switches: tuple[RuleSwitch, ...]
    told: Callable[[Any], str]


def list_switches(interface: Interface) -> dict[str, str]:
    """Map each removable rule's text to its action form, in record order.

    Empty if the interface stores no rules as data.
    """
    switched = {switch.rule: switch.action for table in _tables(interface.source) for switch in table.switches}
    recorded = [rule.text for rule in interface.provenance.rules if rule.text in switched]
    return {rule: switched[rule] for rule in dict.fromkeys((*recorded, *switched))}


def without_rules(interface: Interface, rules: Collection[str], name: str) -> Interface:
    """Copy an interface under a new `name` with some rules removed from the rules text and the feedback.

    Raises `UsageError` for rules that cannot be removed.
    """
    unknown = set(rules) - list_switches(interface).keys()
    if unknown:
        raise UsageError(f"the interface {interface.name} has no rule that can be switched off: {min(unknown)}")
    source = interface.source
    for table in _tables(source):
        content = table.content
        for switch in table.switches:
            content = switch.drop(content) if switch.rule in rules else content
        if content != table.content:
            source = _replace_rules_text(source, table.told(table.content), table.told(content))
            source = _with_table(source, table.name, content)
    check_source(source, interface.contract)
    left = tuple(rule for rule in interface.provenance.rules if rule.text not in rules)
    provenance = interface.provenance.model_copy(update={"rules": left})
    return interface.model_copy(update={"name": name, "source": source, "provenance": provenance})


# ---------------------------------------------------------------- the tables


@lru_cache(maxsize=8)
def _tables(source: str) -> list[RuleTable]:
    contents = {name: content for name, content in _literals(source) if name in (SPEC_TABLE, RULES_TABLE)}
    return [table for name, content in contents.items() if (table := _table(name, content)) is not None]


def _table(name: str, content: Any) -> RuleTable | None:
    """Read a rule table; None if the value has no known layout."""
    try:
        if name == RULES_TABLE:
            return RuleTable(name, content, tuple(_rule_switches(content)), _situations_text)
        if "always" in content:
            return RuleTable(name, content, tuple(_offered_switches(content)), offered.rules_text)
        return None
    except (AttributeError, IndexError, InterfaceError, KeyError, TypeError, ValueError):
        return None


def _rule_switches(content: dict[str, Any]) -> Iterator[RuleSwitch]:
    """Yield the rules of a typed rule set (`interface/rules`)."""
    for rule in load_rules(content).rules:
        yield RuleSwitch(_told(rule), getattr(rule, "form", "any"), partial(_without_rule, told=_told(rule)))


def _told(rule: Rule) -> str:
    return rule.text.removeprefix(UNTESTED).removesuffix(".")


def _without_rule(content: dict[str, Any], told: str) -> dict[str, Any]:
    rules = load_rules(content)
    return dump(rules.model_copy(update={"rules": tuple(rule for rule in rules.rules if _told(rule) != told)}))


def _situations_text(content: dict[str, Any]) -> str:
    return situations_text(load_rules(content))


def _offered_switches(spec: Spec) -> Iterator[RuleSwitch]:
    """Yield the rules of an offered-actions table."""
    for form, template in spec["forms"].items():
        yield RuleSwitch(offered.form_in_words(form, template), template, partial(_without_path, path=("forms", form)))
    if spec["travel"]:
        yield RuleSwitch(offered.reach_in_words(spec["travel"]), spec["travel"], lambda spec: {**spec, "travel": ""})
    if spec["sure"]:
        yield RuleSwitch(offered.sure_in_words(spec["sure"]), "any", lambda spec: {**spec, "sure": []})
    if spec["bare"]:
        yield RuleSwitch(offered.BARE_IN_WORDS, "any", lambda spec: {**spec, "bare": False})


def _without_path(spec: Spec, path: tuple[str, ...]) -> Spec:
    """Copy a nested dict without the entry at a path of keys."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in spec.items() if name != key}
    return {**spec, key: _without_path(spec[key], tuple(rest))}


# ---------------------------------------------------------------- the source


def _literals(source: str) -> Iterator[tuple[str, Any]]:
    """Yield top-level assignments of literal values, by name."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                yield node.targets[0].id, ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue


def _with_table(source: str, name: str, content: Any) -> str:
    """Replace a table's content in the source."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            wide = partial(pprint.pformat, width=116, compact=True, sort_dicts=False)
            return _replace_expression(source, node.value, (wide if name == SPEC_TABLE else write_data)(content))
    raise InterfaceError(f"the source has no table {name}")


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
