"""Interface source with copied code, and its table of rules."""

from __future__ import annotations

import ast
import inspect
import pprint
from types import ModuleType
from typing import Any

from align_echo.interface.contract import InterfaceContract


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
