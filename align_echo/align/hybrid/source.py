"""Interface source from the probe's own source and the rules that came of hypotheses, and the way back to the rules."""

from __future__ import annotations

import ast
import pprint
import re
from collections.abc import Sequence
from typing import Any

from align_echo.align.hybrid import runtime
from align_echo.align.hybrid.findings import Rule
from align_echo.align.hybrid.hypotheses import with_letters
from align_echo.align.probe.emit import code_of
from align_echo.interface import InterfaceContract, parse_source

HEADING = "Learned by experiment in this environment:"
UNTESTED = "(not tested) "
"""Stands before what no experiment could try, wherever an agent reads it."""

Answers = dict[str, list[str]]


def read_rules(source: str) -> tuple[list[Rule], Answers]:
    """The rules of hypotheses in a source that this backend wrote, with the answers that refuse; none in any other."""
    values: dict[str, Any] = {}
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("HYPOTHESES", "REFUSALS"):
            try:
                values[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
            except ValueError:
                return [], {}
    rules, answers = values.get("HYPOTHESES", []), values.get("REFUSALS", {})
    return (rules, answers) if isinstance(rules, list) and isinstance(answers, dict) else ([], {})


def extended_source(before: str, contract: InterfaceContract, rules: Sequence[Rule], answers: Answers) -> str:
    """An interface's source (the probe's, or one that changes nothing) with the rules beside what it does itself.

    Where the source before has words for a refused action, these are shown and no others.
    """
    plain = _without_docstring(before)
    plain = re.sub(r"(?m)^def InferRules\(", "def rules_before(", plain)
    plain = re.sub(r"(?m)^def WrapStep\(", "def step_before(", plain)
    plain = plain if re.search(r"(?m)^import re$", plain) else "import re\n\n\n" + plain
    tables = [
        "HYPOTHESES = " + pprint.pformat(list(rules), width=116, compact=True, sort_dicts=False),
        "REFUSALS = " + pprint.pformat(answers, width=116, compact=True),
        f"SAME = {runtime.SAME!r}",
        f"DEPTH = {runtime.DEPTH}\nPATIENCE = {runtime.PATIENCE}",
    ]
    head = _head(contract, rules)
    return "\n\n".join([head, plain.strip(), *tables, code_of(runtime), _functions(contract, rules)]) + "\n"


def _head(contract: InterfaceContract, rules: Sequence[Rule]) -> str:
    lines = [
        f"Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence.",
        "",
        f"{sum(not rule['untested'] for rule in rules)} rules were proposed by a model and stood every trial.",
    ]
    untested = [rule for rule in rules if rule["untested"]]
    if untested:
        lines += ["", "Not tested, since no state was found that could decide them (--allow-untested):"]
        lines += [f"- {rule['up_front']}" for rule in untested]
    return _as_docstring("\n".join(lines))


def _as_docstring(text: str) -> str:
    """A text as a docstring, whatever it holds."""
    return '"""' + with_letters(text).replace("\\", "\\\\").replace('"""', "'''").rstrip('"') + '\n"""'


def _without_docstring(source: str) -> str:
    body = parse_source(source).body
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return "\n".join(source.splitlines()[first.end_lineno or 0 :])
    return source


def up_front(rules: Sequence[Rule]) -> str:
    """What agents are told of the rules before they begin, a line each."""
    return "\n".join(f"- {UNTESTED if rule['untested'] else ''}{with_letters(rule['up_front'])}" for rule in rules)


def _functions(contract: InterfaceContract, rules: Sequence[Rule]) -> str:
    infer, wrap = ", ".join(contract.infer_rules_args), ", ".join(contract.wrap_step_args)
    first = contract.wrap_step_args[1]
    watched = wrap.replace("env", "env.watched", 1)
    return f"""\
def InferRules({infer}):
    before = rules_before({infer})
    return (before or {HEADING!r}) + '\\n' + {up_front(rules)!r}


def WrapStep({wrap}):
    if not hasattr(env, 'watched'):
        env.watched = WatchedEnv(env)
        env.noted = new_record({first})
    env.watched.replies = []
    seen, *rest = step_before({watched})
    answer = answer_of(env.watched, agent_action, seen)
    words = noted_hint(HYPOTHESES, REFUSALS, env.noted, agent_action, answer)
    if words and (seen.strip() == answer.strip() or (env.noted['beside'] and words not in seen)):
        seen = (seen + ' ' + words).strip()
    return seen, *rest"""
