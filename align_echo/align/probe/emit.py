"""Interface source from learned rules, rules in words, and the way back from source to rules."""

from __future__ import annotations

import ast
import inspect
import pprint
from collections.abc import Callable
from types import ModuleType
from typing import Any

from align_echo.align.probe import runtime
from align_echo.interface import InterfaceContract

_LETTERS = ("X", "Y", "Z")


def rule_in_words(spec: dict[str, Any], template: str, row: dict[str, Any]) -> str:
    """One rule as a sentence for people and for agents."""
    wanted = runtime.write(template, list(_LETTERS))
    when = " and ".join(_condition(spec, literal) for literal in row["if"])
    if row["then"] == "already":
        return f"`{wanted}` changes nothing when {when or 'it is repeated'}"
    step = runtime.write(row["then"][0], [_term(spec, term) for term in row["then"][1]])
    return f"Before `{wanted}` you need to `{step}`" + (f", when {when}" if when else "")


def form_in_words(form: str, template: str) -> str:
    """One near miss as a sentence."""
    said, meant = runtime.write(form, list(_LETTERS)), runtime.write(template, list(_LETTERS))
    return f"Write `{meant}` instead of `{said}`"


def _condition(spec: dict[str, Any], literal: list[Any]) -> str:
    """One condition in words; its negation by the second form."""
    kind, *rest = literal[1] if literal[0] == "not" else literal
    words: dict[str, Callable[[], tuple[str, str]]] = {
        "last": lambda: (f"your last `{_blank(rest[0])}` was", f"with {_LETTERS[rest[2]]}"),
        "here": lambda: (f"{_LETTERS[rest[0]]} was", f"seen since your last `{_blank(rest[1])}`"),
        "active": lambda: (f"{_LETTERS[rest[2]]} is", f"under your `{_blank(spec['pairs'][rest[0]][0])}`"),
        "any": lambda: ("anything is", f"under your `{_blank(spec['pairs'][rest[0]][0])}`"),
        "kind": lambda: (f"{_LETTERS[rest[0]]} is", f"a thing for `{runtime.write(rest[1], _places(rest[2]))}`"),
        "near": lambda: (f"{_LETTERS[rest[0]]} was", f"last named with {_LETTERS[rest[1]]}"),
        "shape": lambda: (f"{_LETTERS[rest[0]]} was", f'last told of as "{_told(rest[0], rest[1])}"'),
        "known": lambda: (f"{_LETTERS[rest[0]]} was", "seen"),
    }
    said = words[kind]()
    if literal[0] == "not" and kind == "any":
        return f"nothing is {said[1]}"
    return f"{said[0]} not {said[1]}" if literal[0] == "not" else " ".join(said)


def _told(place: int, text: str) -> str:
    return text.replace("X", _LETTERS[place])


def _term(spec: dict[str, Any], term: list[Any]) -> str:
    kind, *rest = term
    if kind == "name":
        return _LETTERS[rest[0]]
    if kind == "active":
        return f"<what is under your `{_blank(spec['pairs'][rest[0]][0])}`>"
    if kind == "last":
        return f"<where you are by your last `{_blank(rest[0])}`>"
    if kind == "near":
        return f"<what {_LETTERS[rest[0]]} was last seen with>"
    return f"<where `{_blank(rest[1])}` had led when {_LETTERS[rest[0]]} was seen>"


def _places(chosen: int) -> list[str]:
    return ["it" if place == chosen else "_" for place in range(len(_LETTERS))]


def _blank(template: str) -> str:
    return runtime.write(template, ["_", "_", "_"])


def rules_text(spec: dict[str, Any]) -> str:
    """What `InferRules` tells an agent up front: short sentences that hold whatever the state is.

    The conditions of a rule speak of refused actions; they are for `WrapStep`, which knows what was refused.
    """
    lines = ["Learned by experiment in this environment:"]
    if spec["templates"]:
        lines.append("- Only these forms are understood: " + ", ".join(f"`{form}`" for form in runtime.forms(spec)))
        lines.append("- Names are written in full, with their number")
    for text in spec["uninformative"]:
        lines.append(f'- "{text}" means that the action was refused; it does not say why')
    lines += [f"- {form_in_words(form, template)}" for form, template in sorted(spec["forms"].items())]
    for template, rows in sorted(spec["templates"].items()):
        wanted = runtime.write(template, list(_LETTERS))
        steps = dict.fromkeys(step for row in rows if (step := _step_up_front(spec, row)))
        if steps:
            lines.append(f"- Before `{wanted}` you may need to " + " or ".join(steps))
        if any(row["then"] == "already" for row in rows):
            lines.append(f"- `{wanted}` is also refused when it is already so")
    return "\n".join(lines)


def _step_up_front(spec: dict[str, Any], row: dict[str, Any]) -> str:
    """A missing step said without its conditions; "" where it takes the state to say it.

    Said are steps with the action's own names, and undoing what is in effect (laying down what was picked up).
    """
    if row["then"] == "already":
        return ""
    template, terms = row["then"]
    names: list[str] = []
    for place, (kind, *rest) in enumerate(terms):
        if kind == "name":
            names.append(_LETTERS[rest[0]])
        elif kind == "at" and rest[1] == template:
            names.append(f"(the one before {_LETTERS[rest[0]]} was seen)")
        elif kind == "active" and place == rest[1] and spec["pairs"][rest[0]][1] == template:
            names.append(f"(the thing of your `{_blank(spec['pairs'][rest[0]][0])}`)")
        else:
            return ""
    return f"`{runtime.write(template, names)}`"


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """The whole interface as Python source under a contract."""
    return assembled(spec, contract, runtime, _functions(spec, contract))


def assembled(spec: dict[str, Any], contract: InterfaceContract, code: ModuleType, functions: str) -> str:
    """A learned spec, the run-time module that reads it, and the two functions, as one file."""
    head = f'"""Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence."""'
    table = "SPEC = " + pprint.pformat(spec, width=116, compact=True)
    return "\n\n".join([head, "import re", table, _runtime_code(code), functions]) + "\n"


def _runtime_code(code: ModuleType) -> str:
    """A run-time module without its module docstring, imports and annotations."""
    tree = ast.parse(inspect.getsource(code))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(ast.Module(body=list(functions), type_ignores=[])):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
    plain = [_without_annotations(function) for function in functions]
    return "\n\n\n".join(ast.unparse(ast.fix_missing_locations(function)) for function in plain)


class _Plain(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return ast.Assign(targets=[node.target], value=node.value)


def _without_annotations(function: ast.FunctionDef) -> ast.AST:
    return _Plain().visit(function)  # type: ignore[no-any-return]


def _functions(spec: dict[str, Any], contract: InterfaceContract) -> str:
    first = contract.wrap_step_args[1]
    layout = contract.layout
    return f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return {rules_text(spec)!r}


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, {first})
    {layout.call}
    seen, *rest = {layout.returned}
    advice = advise(SPEC, env.history, agent_action) if seen.strip() in SPEC['uninformative'] else ''
    record(SPEC, env.history, agent_action, seen)
    return (seen + ' ' + advice if advice else seen), *rest"""


def read_spec(code: str) -> dict[str, Any] | None:
    """The `SPEC` of an interface that this backend wrote; None for any other interface."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SPEC"]:
            try:
                spec = ast.literal_eval(node.value)
            except ValueError:
                return None
            return spec if isinstance(spec, dict) and "uninformative" in spec else None
    return None
