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
from align_echo.align.probe import emit as listed
from align_echo.align.probe import runtime
from align_echo.align.probe.offered import learner as offered
from align_echo.align.probe.rule_file import write_data
from align_echo.align.probe.spec import remove_rule, upgrade_spec
from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import Interface, check_source, parse_source

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
            return RuleTable(name, content, tuple(_rule_switches(content)), lambda _: "")
        if "always" in content:
            return RuleTable(name, content, tuple(_offered_switches(content)), offered.rules_text)
        return RuleTable(name, content, tuple(_listed_switches(upgrade_spec(content))), _listed_rules_text)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def _rule_switches(content: dict[str, Any]) -> Iterator[RuleSwitch]:
    """Yield the rules of a typed rule set (`interface/rules`)."""
    for rule in content["rules"]:
        told = rule["text"].removeprefix(UNTESTED).removesuffix(".")
        yield RuleSwitch(told, rule.get("form", "any"), partial(_without_rule, text=rule["text"]))


def _without_rule(content: dict[str, Any], text: str) -> dict[str, Any]:
    return {**content, "rules": [rule for rule in content["rules"] if rule["text"] != text]}


def _listed_rules_text(spec: Spec) -> str:
    """Build the rules text of a probe interface."""
    return listed.rules_text(upgrade_spec(spec))


def _listed_switches(spec: Spec) -> Iterator[RuleSwitch]:
    """Yield the rules of a probe table."""
    for part in ("templates", "now"):
        for template, rows in spec[part].items():
            for row in rows:
                drop = partial(remove_rule, template=template, row=row)
                yield RuleSwitch(listed.rule_in_words(spec, template, row), template, drop)
    for form, template in spec["forms"].items():
        yield RuleSwitch(listed.form_in_words(form, template), template, partial(_without_path, path=("forms", form)))
    for template, needs in spec["needs"].items():
        for need in needs:
            wanted = runtime.write(template, list("XYZ"))
            rule = f"Before `{wanted}` you may need to {listed.need_step(*need)}"
            yield RuleSwitch(rule, template, partial(_without_need, template=template, need=need))


def _without_need(spec: Spec, template: str, need: list[Any]) -> Spec:
    left = [row for row in spec["needs"][template] if row != need]
    return {**spec, "needs": {**spec["needs"], template: left}}


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
            return _replace_expression(source, node, repr(after))
    raise InterfaceError("what the interface tells up front is not what its rules say: it was changed by hand")


def _replace_expression(source: str, node: ast.expr, text: str) -> str:
    """Replace an expression in the source. `ast` column offsets are UTF-8 bytes."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = b"".join(lines[:first]) + lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    return (head + text.encode() + tail).decode()
