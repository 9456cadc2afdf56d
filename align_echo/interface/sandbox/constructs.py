"""Refuse interface source with constructs unsupported by the sandbox, and detect source that only defines. Pure
functions.

A refusal names the line, the construct, and an alternative. Not here: supported rewrites (`source.py`), and missing
names and modules (`source.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from align_echo.errors import InterfaceError

STOOD_IN = (
    "typing", "typing_extensions", "collections.abc", "logging", "string", "re", "collections", "functools", "ast",
    "operator", "textwrap", "traceback", "difflib", "io",
)  # fmt: skip
"""Modules replaced by the prelude: the interpreter lacks them, or some of their names."""

METHOD_DECORATORS = ("staticmethod", "classmethod", "property")
"""Method decorators that can be rewritten."""


# ---------------------------------------------------------------- refusals

_UNSUPPORTED: dict[str, tuple[str, str]] = {
    "Yield": ("a generator function (`yield`)", "build a list and return it"),
    "YieldFrom": ("a generator function (`yield from`)", "build a list and return it"),
    "AsyncFor": ("`async for`", "write a plain loop"),
    "AsyncWith": ("`async with`", "write plain code"),
    "TryStar": ("`except*`", "use `except`"),
    "TypeAlias": ("a `type` statement", "leave the alias out"),
}


def refuse_unsupported(node: ast.AST) -> None:
    """Refuse an unsupported node. Raises `InterfaceError`."""
    refused = _UNSUPPORTED.get(type(node).__name__)
    if refused is not None:
        raise refusal(node, *refused)
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        raise refusal(node, f"`from {node.module} import *`", "import the names you use")
    if isinstance(node, ast.Delete):
        for target in node.targets:
            if not isinstance(target, ast.Name | ast.Subscript):
                raise refusal(node, "`del` of an attribute or a tuple", "assign None to it")
    if isinstance(node, ast.ClassDef):
        _refuse_class(node)


def _refuse_class(node: ast.ClassDef) -> None:
    if node.keywords or any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases):
        raise refusal(
            node, f"class {node.name} with a base class", "write a plain class, or raise a built-in exception"
        )
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in statement.decorator_list:
                if not is_name(decorator, *METHOD_DECORATORS):
                    raise refusal(decorator, f"`@{ast.unparse(decorator)}` on a method", "write a plain method")
        elif isinstance(statement, ast.Assign):
            if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
                raise refusal(statement, "several targets in one class-level assignment", "assign one name a line")
        elif isinstance(statement, ast.AnnAssign | ast.Pass):
            continue
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            kind = type(statement).__name__
            raise refusal(statement, f"{kind} in the body of class {node.name}", "keep to methods and assignments")


def refusal(node: ast.AST, construct: str, alternative: str) -> InterfaceError:
    """Build the error for an unsupported node."""
    line = getattr(node, "lineno", 0)
    return InterfaceError(f"line {line}: the sandbox cannot run {construct}; {alternative}")


# ---------------------------------------------------------------- source that only defines


def only_defines(tree: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Return True if all code outside of functions only binds names, so that loading it runs nothing else."""
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return "re" not in bound and all(_defines(statement) for statement in tree.body)


def _defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(decorator_list=[], args=args):
            return all(default is None or _is_plain(default) for default in (*args.defaults, *args.kw_defaults))
        case ast.ClassDef(decorator_list=[], body=body):
            return all(_defines(each) for each in body)
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(target, ast.Name) for target in targets) and _is_plain(value)
        case ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or _is_plain(value)
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
    return False


def _is_plain(value: ast.expr) -> bool:
    """Return True for a literal value: a constant, a container of constants, or a pattern."""
    match value:
        case ast.Constant() | ast.Attribute(value=ast.Name(id="re")):
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(_is_plain(part) for part in parts)
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_plain(key) for key in keys) and all(_is_plain(each) for each in values)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile"), args=parts, keywords=[]):
            return all(_is_plain(part) for part in parts)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
    return False



def is_name(node: ast.expr, *names: str) -> bool:
    """Return True if an expression is one of these names."""
    return isinstance(node, ast.Name) and node.id in names
