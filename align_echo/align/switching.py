"""Switching off single rules of an interface that holds them as data, as those of the probe and of `hybrid` do.

A rule is taken out of the table in the source from which the interface speaks, and out of what it tells up front; the
code stays as it is, whichever version wrote it. So another rule may speak where the one that is gone spoke. Nothing is
executed here. Left out: interfaces whose rules are code (written by hand or by a model alone), and the first rule of
the probe, which says what a refusal looks like and what forms there are: all others rest on it.
"""

from __future__ import annotations

import ast
import pprint
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

from align_echo.align.hybrid import findings as hybrid
from align_echo.align.probe import emit as listed
from align_echo.align.probe import runtime
from align_echo.align.probe.offered import learner as offered
from align_echo.align.probe.offered.pages import learner as pages
from align_echo.align.probe.spec import current, without
from align_echo.errors import InterfaceError, UsageError
from align_echo.interface import Interface, check_source, parse_source

Spec = dict[str, Any]
RULES_TABLE, HYPOTHESES_TABLE = "SPEC", "HYPOTHESES"


class Switch(NamedTuple):
    """A rule of a table: its words as in the interface's record, the form of action that it speaks of, and what the
    table is without it."""

    rule: str
    action: str
    drop: Callable[[Any], Any]


class RuleTable(NamedTuple):
    """A table in an interface's source: its name, its content, its rules, and the text that it tells up front."""

    name: str
    content: Any
    switches: tuple[Switch, ...]
    told: Callable[[Any], str]


def switches_of(interface: Interface) -> dict[str, str]:
    """The rules of an interface that can be switched off one by one, in the order of its record: their words, and the
    form of action that each speaks of. Empty where it holds none as data."""
    switched = {switch.rule: switch.action for table in _tables(interface.source) for switch in table.switches}
    recorded = [rule.text for rule in interface.provenance.rules if rule.text in switched]
    return {rule: switched[rule] for rule in dict.fromkeys((*recorded, *switched))}


def without_rules(interface: Interface, rules: Collection[str], name: str) -> Interface:
    """The interface without some of its rules: neither told up front nor spoken of in feedback. It has a `name` of its
    own. Raises `UsageError` for rules that cannot be switched off."""
    unknown = set(rules) - switches_of(interface).keys()
    if unknown:
        raise UsageError(f"the interface {interface.name} has no rule that can be switched off: {min(unknown)}")
    source = interface.source
    for table in _tables(source):
        content = table.content
        for switch in table.switches:
            content = switch.drop(content) if switch.rule in rules else content
        if content != table.content:
            source = _retold(source, table.told(table.content), table.told(content))
            source = _with_table(source, table.name, content)
    check_source(source, interface.contract)
    left = tuple(rule for rule in interface.provenance.rules if rule.text not in rules)
    provenance = interface.provenance.model_copy(update={"rules": left})
    return interface.model_copy(update={"name": name, "source": source, "provenance": provenance})


# ---------------------------------------------------------------- the tables


@lru_cache(maxsize=8)
def _tables(source: str) -> list[RuleTable]:
    contents = {name: content for name, content in _literals(source) if name in (RULES_TABLE, HYPOTHESES_TABLE)}
    return [table for name, content in contents.items() if (table := _table(name, content)) is not None]


def _table(name: str, content: Any) -> RuleTable | None:
    """The table, if it is one of ours; None for any other value of that name."""
    try:
        if name == HYPOTHESES_TABLE:
            return RuleTable(name, content, tuple(_of_hypotheses(content)), hybrid.up_front)
        if "always" in content:
            return RuleTable(name, content, tuple(_of_offered(content)), offered.rules_text)
        if "closed" in content:
            return RuleTable(name, content, tuple(_of_pages(content)), lambda _: "")
        return RuleTable(name, content, tuple(_of_listed(current(content))), _told_of_listed)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def _told_of_listed(spec: Spec) -> str:
    return listed.rules_text(current(spec))


def _of_listed(spec: Spec) -> Iterator[Switch]:
    for part in ("templates", "now"):
        for template, rows in spec[part].items():
            for row in rows:
                drop = partial(without, template=template, row=row)
                yield Switch(listed.rule_in_words(spec, template, row), template, drop)
    for form, template in spec["forms"].items():
        yield Switch(listed.form_in_words(form, template), template, partial(_less, path=("forms", form)))
    for template, needs in spec["needs"].items():
        for need in needs:
            wanted = runtime.write(template, list("XYZ"))
            rule = f"Before `{wanted}` you may need to {listed.need_step(*need)}"
            yield Switch(rule, template, partial(_without_need, template=template, need=need))


def _without_need(spec: Spec, template: str, need: list[Any]) -> Spec:
    left = [other for other in spec["needs"][template] if other != need]
    return {**spec, "needs": {**spec["needs"], template: left}}


def _of_offered(spec: Spec) -> Iterator[Switch]:
    for form, template in spec["forms"].items():
        yield Switch(offered.form_in_words(form, template), template, partial(_less, path=("forms", form)))
    if spec["travel"]:
        yield Switch(offered.reach_in_words(spec["travel"]), spec["travel"], lambda spec: {**spec, "travel": ""})
    if spec["sure"]:
        yield Switch(offered.sure_in_words(spec["sure"]), "any", lambda spec: {**spec, "sure": []})
    if spec["bare"]:
        yield Switch(offered.BARE_IN_WORDS, "any", lambda spec: {**spec, "bare": False})


def _of_pages(spec: Spec) -> Iterator[Switch]:
    for form, rule in spec["beside"].items():
        yield Switch(pages.beside_in_words(form, rule["shift"]), form, partial(_less, path=("beside", form)))
    for frame, forms in spec["steps"].items():
        for form, ways in forms.items():
            for wanted, step in ways.items():
                drop = partial(_less, path=("steps", frame, form, wanted))
                yield Switch(pages.step_in_words(form, wanted, step, frame), form, drop)


def _of_hypotheses(rules: list[dict[str, Any]]) -> Iterator[Switch]:
    for rule in rules:
        drop = partial(_without_hypothesis, up_front=rule["up_front"])
        yield Switch(rule["up_front"].removesuffix("."), rule["action"], drop)


def _without_hypothesis(rules: list[dict[str, Any]], up_front: str) -> list[dict[str, Any]]:
    return [other for other in rules if other["up_front"] != up_front]


def _less(spec: Spec, path: tuple[str, ...]) -> Spec:
    """A nested dict without what stands at the end of a path of keys."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in spec.items() if name != key}
    return {**spec, key: _less(spec[key], tuple(rest))}


# ---------------------------------------------------------------- the source


def _literals(source: str) -> Iterator[tuple[str, Any]]:
    """The values that a source assigns to single names at its top level, where they are written out."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                yield node.targets[0].id, ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue


def _with_table(source: str, name: str, content: Any) -> str:
    """The source with another content of a table."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return _exchanged(source, node.value, pprint.pformat(content, width=116, compact=True, sort_dicts=False))
    raise InterfaceError(f"the source has no table {name}")


def _retold(source: str, before: str, now: str) -> str:
    """The source with another text told up front. Raises `InterfaceError` if it does not tell the text `before`."""
    if before == now:
        return source
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Constant) and node.value == before:
            return _exchanged(source, node, repr(now))
    raise InterfaceError("what the interface tells up front is not what its rules say: it was changed by hand")


def _exchanged(source: str, node: ast.expr, text: str) -> str:
    """The source with other text in place of an expression. `ast` counts columns in bytes of UTF-8."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = b"".join(lines[:first]) + lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    return (head + text.encode() + tail).decode()
