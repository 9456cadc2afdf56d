"""Find what an interface's functions need: modules, module attributes, attributes of `env` and `logger`, and global
names.

Each is a `SourceReference`: a line of code that fails in the sandbox if the target is missing (`loading.py` runs it
after loading the source). Only functions are read; the module level is run. Not here: names that code checks first
(`hasattr`, `try`), names it sets itself, and the types of other values. Pure functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from align_echo.interface import InterfaceContract
from align_echo.sandbox.constructs import STOOD_IN

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

EXPECT, EXPECT_FUNCTION, IMPORT = "_align_expect", "_align_expect_function", "import "
PROVIDED = {"env": "_align_env", "logger": "_align_logger"}
"""Objects passed to interface code: argument of the contract -> name in the sandbox (`prelude.py`)."""

_ANY = frozenset({"", "Exception", "BaseException"})
_NO_IMPORT = _ANY | {"ImportError", "ModuleNotFoundError"}
_NO_ATTRIBUTE = _ANY | {"AttributeError"}
_NO_NAME = _ANY | {"NameError"}
_ASKED_BY = ("hasattr", "getattr", "setattr", "delattr")


class SourceReference(NamedTuple):
    """A need of the author's line, and a line of code that fails if it is missing."""

    line: int
    code: str


def references(tree: ast.Module, nodes: Sequence[ast.AST], contract: InterfaceContract) -> list[SourceReference]:
    """Return the needs of a source's functions, in line order, each once at its first use.

    `nodes` are all nodes of the tree.
    """
    reader = _ReferenceReader(tree, nodes, contract)
    for statement in tree.body:
        reader.visit(statement)
    functions = {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef)}
    wanted = [
        SourceReference(functions[name], f"{EXPECT_FUNCTION}({name}, {name!r})") for name in ("InferRules", "WrapStep")
    ]
    first: dict[str, SourceReference] = {}
    for reference in sorted([*wanted, *reader.collected], key=lambda each: each.line):
        first.setdefault(reference.code, reference)
    return list(first.values())


@dataclass
class _Scope:
    """The names of a function or a class. `meanings` maps a name to the global object it stands for."""

    bound: set[str]
    is_class: bool = False
    shared: set[str] = field(default_factory=set)
    meanings: dict[str, str] = field(default_factory=dict)


class _ReferenceReader(ast.NodeVisitor):
    """Collects references. A name with more than one meaning is skipped."""

    def __init__(self, tree: ast.Module, nodes: Sequence[ast.AST], contract: InterfaceContract) -> None:
        self.collected: list[SourceReference] = []
        self._contract = contract
        self._scopes: list[_Scope] = []
        self._caught: list[frozenset[str]] = []
        self._set_later = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        self._set_attributes = set(_attributes_set(nodes))
        self._parameters = _provided_parameters(tree, contract)

    # ------------------------------------------------------------ scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read a function; expressions beside its body belong to the enclosing scope."""
        self._read_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Read as a plain function."""
        self._read_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Read as a function of one expression."""
        self._read_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Read a class, whose names are invisible to its methods."""
        for expression in (*node.decorator_list, *node.bases):
            self.visit(expression)
        self._read_body(_Scope(_bound(node.body), is_class=True), node.body)

    def _read_function(self, node: Function) -> None:
        arguments = node.args
        defaults = (*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None))
        for expression in (*defaults, *getattr(node, "decorator_list", ())):
            self.visit(expression)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        names = [argument.arg for argument in _arguments(arguments)]
        scope = _Scope(_bound(body) | set(names))
        scope.shared = {name for each in _own_nodes(body) if isinstance(each, ast.Global) for name in each.names}
        scope.bound -= scope.shared
        if not self._scopes and isinstance(node, ast.FunctionDef):
            stores = _bound(body)
            meanings = self._parameters.get(node.name) or {name: self._parameters[""].get(name, "") for name in names}
            scope.meanings = {name: meaning for name, meaning in meanings.items() if meaning and name not in stores}
        scope.meanings |= _modules(body)
        self._read_body(scope, body)

    def _read_body(self, scope: _Scope, body: Sequence[ast.AST]) -> None:
        caught, self._caught = self._caught, []
        self._scopes.append(scope)
        for node in body:
            self.visit(node)
        self._scopes.pop()
        self._caught = caught

    def _meaning(self, name: str) -> str | None:
        """Return a name's meaning: code for a known object, "" if unknown, None for a global name."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if scope.is_class and depth:
                continue
            if name in scope.shared:
                return None
            if name in scope.meanings:
                return scope.meanings[name]
            if name in scope.bound:
                return ""
        return None

    @property
    def _in_function(self) -> bool:
        return any(not scope.is_class for scope in self._scopes)

    # ------------------------------------------------------------ needs

    def visit_Try(self, node: ast.Try) -> None:
        """Read the `try` body as code whose errors may be caught."""
        names = frozenset(name for handler in node.handlers for name in _exceptions(handler.type))
        self._caught.append(names)
        for statement in node.body:
            self.visit(statement)
        self._caught.pop()
        for rest in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(rest)

    def visit_If(self, node: ast.If) -> None:
        """Skip code that runs only if the file is run as a program."""
        names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        if self._scopes or "__name__" not in names:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Read the value; annotations are never evaluated."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        """Require the modules."""
        for alias in node.names:
            if alias.name not in STOOD_IN:
                self._need(node, f"{IMPORT}{alias.name} as _align_module", _NO_IMPORT)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Require the names of a module."""
        for alias in node.names:
            if node.module in STOOD_IN and not node.level:
                self._need(node, f"_align_import_from({node.module!r}, {alias.name!r})", _NO_IMPORT)
            else:
                module = "." * node.level + (node.module or "")
                self._need(node, f"from {module} import {alias.name} as _align_module", _NO_IMPORT)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Require an attribute of a module or a provided object, unless the source checks or sets it."""
        is_read = isinstance(node.ctx, ast.Load) and node.attr not in self._set_attributes
        if is_read and isinstance(node.value, ast.Name):
            name = node.value.id
            meaning = self._meaning(name)
            if meaning is None and name not in self._set_later:
                self._need(node, f"{EXPECT}({name}, {node.attr!r}, {name!r})", _NO_ATTRIBUTE | _NO_NAME)
            elif meaning:
                module = meaning.startswith(IMPORT)
                code = f"{EXPECT}({'_align_module' if module else meaning}, {node.attr!r}, {name!r})"
                self._need(node, f"{meaning}; {code}" if module else code, _NO_ATTRIBUTE)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        """Require a global name."""
        if isinstance(node.ctx, ast.Load) and self._meaning(node.id) is None and node.id not in self._set_later:
            self._need(node, node.id, _NO_NAME)

    def _need(self, node: ast.stmt | ast.expr, code: str, unless: frozenset[str]) -> None:
        if self._in_function and not any(names & unless for names in self._caught):
            self.collected.append(SourceReference(node.lineno, code))


# ---------------------------------------------------------------- reading names


def _provided_parameters(tree: ast.Module, contract: InterfaceContract) -> dict[str, dict[str, str]]:
    """Map parameters to the provided objects: of the contract's functions by position, under "" by `WrapStep`'s names.
    """
    provided: dict[str, dict[str, str]] = {"": {}}
    for name, wanted in (("InferRules", contract.infer_rules_args), ("WrapStep", contract.wrap_step_args)):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                pairs = zip(names, wanted, strict=False)
                provided[name] = {own: PROVIDED[each] for own, each in pairs if each in PROVIDED}
    provided[""] = provided.get("WrapStep", {})
    return provided


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, except inside its functions and classes."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _bindings(body: Sequence[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield each name bound by a body, and the binding node. Names of comprehensions count as the body's own."""
    for node in _own_nodes(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name, node
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node
            case ast.MatchMapping(rest=str(name)):
                yield name, node
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    yield alias.asname or alias.name.partition(".")[0], node
            case ast.Nonlocal(names=outer):
                for name in outer:
                    yield name, node


def _bound(body: Sequence[ast.AST]) -> set[str]:
    """Return the names bound by a body."""
    return {name for name, _ in _bindings(body)}


def _modules(body: Sequence[ast.AST]) -> dict[str, str]:
    """Return the names bound only to a module in a body, with code to import it."""
    modules: dict[str, str] = {}
    other_names: set[str] = set()
    for name, node in _bindings(body):
        aliases = node.names if isinstance(node, ast.Import) else []
        alias = next((each for each in aliases if name in (each.asname, each.name)), None)
        if alias is None:
            other_names.add(name)
        else:
            stood_in = f'_align_import("{alias.name}")' if alias.name in STOOD_IN else ""
            modules[name] = stood_in or f"{IMPORT}{alias.name} as _align_module"
    return {name: code for name, code in modules.items() if name not in other_names}


def _attributes_set(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the attributes that a source sets, checks first, or defines in its own classes."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]):
                if function in _ASKED_BY:
                    yield name
            case ast.ClassDef(body=body):
                yield from _bound(body)


def _exceptions(caught: ast.expr | None) -> Iterator[str]:
    """Yield the names of the exceptions caught by a handler; "" for all."""
    match caught:
        case None:
            yield ""
        case ast.Tuple(elts=parts):
            for part in parts:
                yield from _exceptions(part)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
