"""Interface source from learned rules, rules in words, and rules from source."""

from __future__ import annotations

import ast
import inspect
import pprint
from collections.abc import Callable
from types import ModuleType
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.runtime import ACTION, SAME
from align_echo.interface.contract import InterfaceContract

_LETTERS = ("X", "Y", "Z")
_OTHERS = ("P", "Q", "R")


def rule_in_words(spec: dict[str, Any], template: str, row: dict[str, Any]) -> str:
    """Write a rule as a sentence for people and agents."""
    wanted = runtime.write(template, list(_LETTERS))
    when = " and ".join(_condition(spec, literal, template.count("{")) for literal in row["if"])
    if row["then"] == "already":
        return f"`{wanted}` changes nothing when {when or 'it is repeated'}"
    if row["then"] == "now":
        return f"`{wanted}` is allowed" + (f" when {when}" if when else "")
    return f"Before `{wanted}` you need to {_step(spec, *row['then'])}" + (f", when {when}" if when else "")


def form_in_words(form: str, template: str) -> str:
    """Write a misworded form as a sentence."""
    wrong, meant = runtime.write(form, list(_LETTERS)), runtime.write(template, list(_LETTERS))
    return f"Write `{meant}` instead of `{wrong}`"


def _condition(spec: dict[str, Any], literal: list[Any], places: int) -> str:
    """Write a condition in words; the second wording is its negation."""
    kind, *rest = literal[1] if literal[0] == "not" else literal
    words: dict[str, Callable[[], tuple[str, str]]] = {
        "last": lambda: (f"your latest `{_blank(rest[0])}`", f"named {_name(rest[2], places)}"),
        "did": lambda: (f"a `{_blank(rest[0])}` of yours", f"named {_name(rest[2], places)}"),
        "here": lambda: (f"{_name(rest[0], places)}", f"was named since your latest `{_blank(rest[1])}`"),
        "at": lambda: (
            f"{_name(rest[0], places)}",
            f"was last named after your `{runtime.write(rest[1], [_name(rest[2], places)])}`",
        ),
        "active": lambda: (
            f"your `{_blank(spec['pairs'][rest[0]][0])}`",
            f"of {_name(rest[2], places)} holds still",
        ),
        "any": lambda: (f"a `{_blank(spec['pairs'][rest[0]][0])}` of yours", "holds still"),
        "kind": lambda: (
            f"{_name(rest[0], places)}",
            f"is of a kind that `{runtime.write(rest[1], _places(rest[2]))}` takes",
        ),
        "with": lambda: (f"{_name(rest[0], places)}", f"was last shown with {_name(rest[1], places)}"),
        "combined": lambda: ("such things", f"were seen together in `{_blank(rest[0])}`"),
        "near": lambda: (f"{_name(rest[0], places)}", f"was last named together with {_name(rest[1], places)}"),
        "shape": lambda: (
            f"{_name(rest[0], places)}",
            f'was last spoken of as "{_told(_name(rest[0], places), rest[1])}"',
        ),
        "known": lambda: (f"{_name(rest[0], places)}", "was named before"),
        "shows": lambda: (f"`{rest[0]}`", f"shows {_name(rest[1], places)} now"),
        "blank": lambda: (f"`{rest[0]}`", "shows nothing that has a name"),
        "holds": lambda: (
            f"`{rest[0].replace('{}', _name(rest[1], places))}`",
            f"shows {_name(rest[2], places)} now",
        ),
        "told": lambda: (
            f"`{rest[0].replace('{}', _name(rest[1], places))}`",
            f'says "{_told(_name(rest[1], places), rest[2])}" now',
        ),
    }
    condition = " ".join(words[kind]())
    return f"it is not so that {condition}" if literal[0] == "not" else condition


def _name(slot: int, places: int) -> str:
    """Write an action's name as a letter; a related name in words."""
    return _LETTERS[slot] if slot < places else f"what {_LETTERS[slot - places]} was last shown with"


def _told(name: str, text: str) -> str:
    return text.replace("X", name)


def _step(spec: dict[str, Any], template: str, terms: list[list[Any]], only: bool) -> str:
    """Write a missing step as a command; further names become P or Q, with an explanation."""
    names: list[str] = []
    meant: list[str] = []
    for term in terms:
        if term[0] == "name":
            names.append(_LETTERS[term[1]])
            continue
        names.append(_OTHERS[len(meant)])
        meant.append(f"{names[-1]} is {_meant(spec, term)}")
    meant += ["such things were seen together in it"] if only else []
    return f"`{runtime.write(template, names)}`" + (f" ({', '.join(meant)})" if meant else "")


def _meant(spec: dict[str, Any], term: list[Any]) -> str:
    kind, *rest = term
    if kind == "active":
        return f"what you did `{_blank(spec['pairs'][rest[0]][0])}` with last and did not undo"
    if kind == "last":
        return f"what your latest `{_blank(rest[0])}` named"
    if kind == "with":
        return f"what {_LETTERS[rest[0]]} was last shown with"
    if kind == "near":
        return f"what {_LETTERS[rest[0]]} was last named with"
    return f"what your `{_blank(rest[1])}` named after which you last read of {_LETTERS[rest[0]]}"


def _places(chosen: int) -> list[str]:
    return ["it" if slot == chosen else "_" for slot in range(len(_LETTERS))]


def _blank(template: str) -> str:
    return runtime.write(template, ["_", "_", "_"])


def rules_text(spec: dict[str, Any]) -> str:
    """Write the rules text of `InferRules`: short sentences valid in any state, hence with "may".

    Conditions concern refused actions; only `WrapStep` uses them.
    """
    lines = ["Learned by experiment in this environment:"]
    if spec["templates"]:
        lines.append("- Only these forms are understood: " + ", ".join(f"`{form}`" for form in runtime.forms(spec)))
    if spec["spelling"]["number"]:
        lines.append("- Names are written in full, with their number")
    lines += [f"- {refusal_in_words(text)}" for text in spec["uninformative"]]
    lines += [f"- {form_in_words(form, template)}" for form, template in sorted(spec["forms"].items())]
    for template, rows in sorted(spec["templates"].items()):
        wanted = runtime.write(template, list(_LETTERS))
        steps = dict.fromkeys(step for row in rows if (step := _step_up_front(spec, row)))
        steps.update(dict.fromkeys(need_step(*need) for need in spec["needs"].get(template, [])))
        if steps:
            lines.append(f"- Before `{wanted}` you may need to " + " or ".join(steps))
        if any(row["then"] == "already" for row in rows):
            lines.append(f"- `{wanted}` may also be refused because it is already so")
    return "\n".join(lines)


def need_step(template: str, places: list[int]) -> str:
    """Write a step an action may need, with the action's letters for shared names (-1: another name)."""
    letters = iter(_OTHERS)
    return f"`{runtime.write(template, [_LETTERS[slot] if slot >= 0 else next(letters) for slot in places])}`"


def refusal_in_words(shape: str) -> str:
    """Explain a shape of refusal (`rules.py`)."""
    if shape == SAME:
        return "An answer that only repeats the one before may mean that the action was refused; it does not say why"
    text = shape.replace(ACTION, "...")
    return f'"{text}" means that the action was refused; it does not say why'


def _step_up_front(spec: dict[str, Any], row: dict[str, Any]) -> str:
    """Write a missing step without its conditions; "" if the state decides.

    Covers steps with the action's own names, and undoing what is in effect (such as laying down an object).
    """
    if row["then"] == "already":
        return ""
    template, terms, _ = row["then"]
    for slot, (kind, *rest) in enumerate(terms):
        pair = spec["pairs"][rest[0]] if kind == "active" else ["", "", []]
        undoes = pair[1] == template and pair[2][rest[1]] == slot
        if kind != "name" and not (kind == "at" and rest[1] == template) and kind != "with" and not undoes:
            return ""
    if [kind for kind, *_ in terms] == ["at"]:
        return f"repeat the `{_blank(template)}` after which you last read of {_LETTERS[terms[0][1]]}"
    return _step(spec, template, terms, False)


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """Build the interface source under a contract."""
    return assemble_source(spec, contract, runtime, _functions(spec, contract))


def assemble_source(spec: dict[str, Any], contract: InterfaceContract, code: ModuleType, functions: str) -> str:
    """Combine a learned spec, its run-time module and both functions into a single file."""
    head = f'"""Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence."""'
    table = "SPEC = " + pprint.pformat(spec, width=116, compact=True)
    return "\n\n".join([head, "import re", table, extract_code(code), functions]) + "\n"


def extract_code(code: ModuleType) -> str:
    """Return a module's functions and classes, without docstring, imports, constants, annotations and decorators."""
    tree = ast.parse(inspect.getsource(code))
    parts = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    for node in ast.walk(ast.Module(body=list(parts), type_ignores=[])):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = []
            for argument in node.args.args:
                argument.annotation = None
        _drop_annotations(node)
    return "\n\n\n".join(ast.unparse(ast.fix_missing_locations(part)) for part in parts)


def _drop_annotations(node: ast.AST) -> None:
    """Replace annotated assignments with plain ones in all blocks."""
    for part in ("body", "orelse"):
        block = getattr(node, part, None)
        if isinstance(block, list):
            block[:] = [_assignment(statement) for statement in block]


def _assignment(statement: ast.stmt) -> ast.stmt:
    if not isinstance(statement, ast.AnnAssign):
        return statement
    return ast.Assign(targets=[statement.target], value=statement.value) if statement.value else ast.Pass()


def _functions(spec: dict[str, Any], contract: InterfaceContract) -> str:
    first, task = contract.wrap_step_args[1:3]
    layout = contract.layout
    return f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return {rules_text(spec)!r}


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, {first} + '\\n' + {task}, {first})
    {layout.call}
    seen, *rest = {layout.returned}
    refused = record(SPEC, env.history, agent_action, seen)
    if not refused:
        return seen, *rest
    look_at(env.history, {{view: {layout.view} for view in views_for(SPEC, env.history, agent_action)}})
    return (seen + ' ' + advise(SPEC, env.history, agent_action, refused)).strip(), *rest"""


def read_spec(code: str) -> dict[str, Any] | None:
    """Read the `SPEC` of an interface by this backend; None for any other."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SPEC"]:
            try:
                spec = ast.literal_eval(node.value)
            except ValueError:
                return None
            return spec if isinstance(spec, dict) and "uninformative" in spec else None
    return None
