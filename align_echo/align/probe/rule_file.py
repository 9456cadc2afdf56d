"""Interface file of learned rules: the rules as data, and two short functions."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from pydantic import JsonValue

from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import InterfaceContract
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.model import RuleSet, dump, load_rules

HEADING = "Learned by experiment in this environment:"

OLD_KEYS = frozenset(["breaks"])
"""Keys of a `SPEC` by older releases."""

WIDTH = 118
"""Characters of a line of data."""

Values = tuple[tuple[JsonValue, ...], ...]
"""Values of each argument of a form."""


def merge_rules(old: RuleSet | None, new: RuleSet) -> RuleSet:
    """Add rules, and what they need, to a rule set."""
    if old is None:
        return new
    forms = {form.name: form for form in (*new.forms, *old.forms)}
    refusals = {
        form: tuple(sorted({*old.refusals.get(form, ()), *new.refusals.get(form, ())}))
        for form in sorted({*old.refusals, *new.refusals})
    }
    values = {form: _joined(old.values.get(form, ()), new.values.get(form, ())) for form in (*old.values, *new.values)}
    return RuleSet(
        forms=tuple(forms.values()),
        names=tuple(sorted({*old.names, *new.names})),
        reader=old.reader if new.reader == AnswerReader() else new.reader,
        refusals=refusals,
        unknown=new.unknown or old.unknown,
        values=values,
        kinds={**old.kinds, **new.kinds},
        pages=new.pages or old.pages,
        rules=(*old.rules, *(rule for rule in new.rules if rule not in old.rules)),
    )


def _joined(old: Values, new: Values) -> Values:
    """Join the values of each argument."""
    return tuple(tuple(dict.fromkeys((*first, *second))) for first, second in zip_longest(old, new, fillvalue=()))


def source(rules: RuleSet, contract: InterfaceContract) -> str:
    """Write the interface. Rules about pages are told on the page alone: small models copy `press X` literally."""
    layout = contract.layout
    told = f"{HEADING!r} + '\\n- ' + '\\n- '.join(texts) if texts else ''"
    infer = f"    texts = list(dict.fromkeys(rule['text'] for rule in RULES['rules']))\n    return {told}"
    head = f'"""Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence."""'
    return f"""{head}

RULES = {write_data(dump(rules))}


def InferRules({", ".join(contract.infer_rules_args)}):
{"    return ''" if rules.pages else infer}


def WrapStep({", ".join(contract.wrap_step_args)}):
    {layout.call}
    seen, *rest = {layout.returned}
    return env.explain(RULES, agent_action, seen), *rest
"""


def write_data(data: Any, indent: int = 0) -> str:
    """Write data as Python does, in lines of `WIDTH` characters where strings are short."""
    flat = repr(data)
    if not data or not isinstance(data, dict | list) or indent + len(flat) < WIDTH:
        return flat
    margin = " " * (indent + 4)
    items = [*_items(data, indent + 4)]
    if isinstance(data, dict) or any(isinstance(each, dict | list) for each in data):
        lines = [f"{margin}{item}," for item in items]
    else:
        lines = [margin + items[0]]
        for item in items[1:]:
            fits = len(lines[-1]) + len(item) + 2 < WIDTH
            lines[-1:] = [f"{lines[-1]}, {item}"] if fits else [f"{lines[-1]},", margin + item]
    first, last = "{}" if isinstance(data, dict) else "[]"
    return "\n".join([first, *lines, " " * indent + last])


def _items(data: dict[str, Any] | list[Any], indent: int) -> Iterator[str]:
    if isinstance(data, dict):
        yield from (f"{key!r}: {write_data(value, indent)}" for key, value in data.items())
    else:
        yield from (write_data(value, indent) for value in data)


def read_rule_set(code: str) -> RuleSet | None:
    """Read the rules of an interface's source; None if it has none."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["RULES"]:
            try:
                return load_rules(ast.literal_eval(node.value))
            except (ValueError, InterfaceError):
                return None
    return None


def check_format(spec: Mapping[str, Any] | None) -> None:
    """Raise `UsageError` for the `SPEC` of an interface by an older release, which is played but not learned from."""
    if spec is not None and not spec.keys().isdisjoint(OLD_KEYS):
        raise UsageError("its interface has rules as an older release wrote them: it can be played, not learned from")


def rules_in(detail: str) -> RuleSet | None:
    """Return the rules in a misalignment's detail; None if it has none."""
    data = json.loads(detail).get("ruleset")
    return None if data is None else load_rules(data)
