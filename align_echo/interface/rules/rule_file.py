"""Interface file of learned rules: the rules as data, and two short functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from pydantic import JsonValue

from align_echo.errors import InterfaceError, UsageError
from align_echo.interface.contract import InterfaceContract, parse_source
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.decisions import HEADING, DecisionLists
from align_echo.interface.rules.model import (
    BareNames,
    Elsewhere,
    InSight,
    Rule,
    RuleSet,
    SituationRule,
    dump,
    load_rules,
)
from align_echo.interface.rules.places import Surroundings, write_forms
from align_echo.interface.rules.vocabulary import Vocabulary

WIDTH = 150
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
        places=new.places or old.places,
        vocabulary=_merged_vocabulary(old.vocabulary, new.vocabulary),
        rules=_joined_rules(old.rules, new.rules),
    )


def drop_rules(rules: RuleSet, keys: Collection[str]) -> RuleSet:
    """Drop rules on situations by their keys, others by their texts."""
    named = ((rule.key if isinstance(rule, SituationRule) else rule.text, rule) for rule in rules.rules)
    left = tuple(rule for key, rule in named if key not in keys)
    return rules.model_copy(update={"rules": left})


def _joined_rules(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[Rule, ...]:
    """Join rules; one about the forms that take any name in sight replaces the one before."""
    replaced = any(isinstance(rule, InSight) for rule in new)
    left = [rule for rule in old if not (replaced and isinstance(rule, InSight))]
    return (*left, *(rule for rule in new if rule not in left))


def _joined(old: Values, new: Values) -> Values:
    """Join the values of each argument."""
    return tuple(tuple(dict.fromkeys((*first, *second))) for first, second in zip_longest(old, new, fillvalue=()))


def _merged_vocabulary(old: Vocabulary | None, new: Vocabulary | None) -> Vocabulary | None:
    return old.merge(new) if old and new else old or new


def told_text(rules: RuleSet) -> str:
    """Write the text told up front where it holds more than the rules' own texts; else ""."""
    if rules.places is not None:
        return _places_text(rules.places, rules.rules)
    if rules.vocabulary is None:
        return ""
    lists = DecisionLists(rules.vocabulary, rules.rules)
    return "\n- ".join(dict.fromkeys([lists.rules_text(), *(rule.text for rule in lists.others)]))


def _places_text(known: Surroundings, rules: Sequence[Rule]) -> str:
    """Write what rules about places tell up front, in an order that reads well."""
    kinds: tuple[type[Rule], ...] = (InSight, Elsewhere, BareNames)
    texts = {kind: [rule.text for rule in rules if isinstance(rule, kind)] for kind in kinds}
    return "\n- ".join(
        [
            HEADING,
            f"These forms are understood: {write_forms(known.always)}",
            *([f"Some tasks understand these too: {write_forms(known.sometimes)}"] if known.sometimes else []),
            *texts[InSight],
            *(f'"{text}" means that the action was refused; it does not say why' for text in known.refusals),
            *(rule.text for rule in rules if not isinstance(rule, InSight | Elsewhere | BareNames)),
            *texts[Elsewhere],
            *([f"Places: {', '.join(known.places)}"] if texts[Elsewhere] else []),
            *texts[BareNames],
            *([f"What is in sight: {write_forms(known.views)}"] if known.views else []),
        ]
    )


def source(rules: RuleSet, contract: InterfaceContract) -> str:
    """Write the interface. Rules about pages are told on the page alone: small models copy `press X` literally."""
    layout = contract.layout
    head = f'"""Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence."""'
    return f"""{head}

RULES = {write_data(dump(rules))}


def InferRules({", ".join(contract.infer_rules_args)}):
{_infer_rules(rules)}


def WrapStep({", ".join(contract.wrap_step_args)}):
    {layout.call}
    seen, *rest = {layout.returned}
    return env.explain(RULES, agent_action, seen), *rest
"""


def _infer_rules(rules: RuleSet) -> str:
    """Write the body of `InferRules`."""
    if rules.pages:
        return "    return ''"
    if text := told_text(rules):
        return f"    return (\n        {write_lines(text)}\n    )"
    told = f"{HEADING!r} + '\\n- ' + '\\n- '.join(texts) if texts else ''"
    return f"    texts = list(dict.fromkeys(rule['text'] for rule in RULES['rules']))\n    return {told}"


def write_lines(text: str) -> str:
    """Write a text as Python does, a literal for each line."""
    return "\n        ".join(map(repr, text.splitlines(keepends=True)))


def write_data(data: Any, indent: int = 0) -> str:
    """Write data as Python does, each line filled up to `WIDTH` characters where strings are short."""
    flat = repr(data)
    if not data or not isinstance(data, dict | list) or indent + len(flat) < WIDTH:
        return flat
    margin, lines = " " * (indent + 4), list[str]()
    for item in _items(data, indent + 4):
        is_short = "\n" not in item and bool(lines) and "\n" not in lines[-1]
        if is_short and len(margin) + len(lines[-1]) + len(item) + 2 < WIDTH:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    first, last = "{}" if isinstance(data, dict) else "[]"
    if not any("\n" in line for line in lines):
        return first + f"\n{' ' * (indent + 1)}".join(lines).removesuffix(",") + last
    return "\n".join([first, *(margin + line for line in lines), " " * indent + last])


def _items(data: dict[str, Any] | list[Any], indent: int) -> Iterator[str]:
    if isinstance(data, dict):
        yield from (f"{key!r}: {write_data(value, indent)}" for key, value in data.items())
    else:
        yield from (write_data(value, indent) for value in data)


def without_docstring(source: str) -> str:
    """Return source without its docstring."""
    body = parse_source(source).body
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return "\n".join(source.splitlines()[first.end_lineno or 0 :])
    return source


WATCHED = """\
class WatchedEnv:
    def __init__(self, env):
        self.env = env
        self.replies = []

    def step(self, action):
        result = self.env.step(action)
        sent = action[0] if isinstance(action, list) else action
        text = result[0][0] if isinstance(result[0], list) else result[0]
        self.replies.append((sent, text))
        return result

    def answer(self, action, shown):
        texts = [text for sent, text in self.replies if sent == action]
        return texts[-1] if texts else shown"""
"""The environment, with its own answers in a turn, in an interface's source."""


def write_beside(before: str, contract: InterfaceContract, rules: RuleSet) -> str:
    """Return code with rules beside it: they explain the environment's own answer."""
    code = re.sub(r"(?m)^def InferRules\(", "def rules_before(", without_docstring(before))
    code = re.sub(r"(?m)^def WrapStep\(", "def step_before(", code)
    infer, wrap = ", ".join(contract.infer_rules_args), ", ".join(contract.wrap_step_args)
    functions = f"""\
def InferRules({infer}):
    texts = dict.fromkeys(rule['text'] for rule in RULES['rules'])
    return (rules_before({infer}) or {HEADING!r}) + '\\n- ' + '\\n- '.join(texts)


def WrapStep({wrap}):
    if not hasattr(env, 'watched'):
        env.watched = WatchedEnv(env)
    env.watched.replies = []
    seen, *rest = step_before({wrap.replace("env", "env.watched", 1)})
    return env.explain(RULES, agent_action, env.watched.answer(agent_action, seen), seen), *rest"""
    data = f"RULES = {write_data(dump(rules))}"
    return "\n\n".join([code.strip(), data, WATCHED, functions])


def read_rule_set(code: str) -> RuleSet | None:
    """Read the rules of an interface's source; None if it has none."""
    for node in parse_source(code).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["RULES"]:
            try:
                return load_rules(ast.literal_eval(node.value))
            except (ValueError, InterfaceError):
                return None
    return None


def check_format(code: str) -> None:
    """Raise `UsageError` for an interface of an older release, which is played but not learned from."""
    for node in parse_source(code).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SPEC"]:
            raise UsageError(
                "its interface has rules as an older release wrote them: it can be played, not learned from"
            )
