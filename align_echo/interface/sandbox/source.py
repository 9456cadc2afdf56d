"""Rewrite interface source for the sandbox's interpreter, with a map back to the author's line numbers.

The interpreter lacks parts of Python. Small rewrites that preserve the meaning are made: attributes on functions,
`del` of names and items, `@staticmethod` / `@classmethod`, reading of `@property`, `class A(object)`, generator
expressions used as iterators, exceptions not made of a single text, imports of modules replaced by the prelude.
`__name__` is "interface", as in an imported module. Everything else is refused (`constructs.py`). Nothing is executed
here, and edits keep lines in place.
"""

from __future__ import annotations

import ast
import builtins
import copy
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from align_echo.errors import InterfaceError
from align_echo.interface.contract import InterfaceContract, check_source, parse_source
from align_echo.interface.sandbox.constructs import STOOD_IN, is_name, only_defines, refusal, refuse_unsupported

# ---------------------------------------------------------------- find what an interface's functions need

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


# ---------------------------------------------------------------- check and rewrite source

MODULE_NAME = '"interface"'
READ = "_align_read"
"""Called in place of reading an attribute that may be a property (`prelude.py`)."""

_preparing = threading.Lock()

_CONSUMERS = {"all", "any", "dict", "enumerate", "filter", "frozenset", "list", "map", "max", "min", "set", "sorted"}
_CONSUMERS |= {"sum", "tuple", "zip", "join", "extend", "update"}

_EXCEPTIONS = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}


@dataclass(frozen=True)
class PreparedSource:
    """Source for the interpreter. `lines[i]` is the author's line number of line `i + 1`.

    `only_defines`: loading runs only definitions, so the result is the same in every episode. `stood_in` are the
    imported modules of `STOOD_IN`. `needs` are the references of its functions.
    """

    text: str
    lines: tuple[int, ...]
    only_defines: bool
    stood_in: frozenset[str]
    needs: tuple[SourceReference, ...] = ()

    def author_line(self, line: int) -> int:
        """Return the author's line number of a line of `text`."""
        return self.lines[min(max(line, 1), len(self.lines)) - 1]


def prepare(source: str, contract: InterfaceContract) -> PreparedSource:
    """Check source against its contract and make it runnable. Raises `InterfaceError`, one line.

    Every environment with an interface calls this: results are cached, and prepared by one thread at a time.
    """
    with _preparing:
        return _prepared(source, contract)


@lru_cache(maxsize=32)
def _prepared(source: str, contract: InterfaceContract) -> PreparedSource:
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    check_source(source, contract)
    try:
        tree = parse_source(source)
        nodes = list(ast.walk(tree))
        for node in nodes:
            refuse_unsupported(node)
        needs = references(tree, nodes, contract)
        return replace(_Rewriter(source, tree, nodes, contract).result(), needs=tuple(needs))
    except RecursionError as error:
        raise InterfaceError("interface code is too deeply nested: split it into functions") from error


# ---------------------------------------------------------------- rewrites


class _Rewriter:
    """Collects edits of one source text: (start, end, replacement).

    Offsets are in bytes, like the columns of `ast`.
    """

    def __init__(self, source: str, tree: ast.Module, nodes: Sequence[ast.AST], contract: InterfaceContract) -> None:
        """Prepare the rewrites. `nodes` are all nodes of the tree."""
        self._data = source.encode()
        self._tree = tree
        self._nodes = nodes
        self._looks = None if _replaces_step(nodes) else contract.layout.view
        self._starts = [0]
        for line in self._data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._edits: list[tuple[int, int, str]] = []
        self._stood_in: set[str] = set()
        self._properties = _properties(nodes)

    def result(self) -> PreparedSource:
        attributed = _functions_with_attributes(self._nodes)
        methods = {id(member) for node in self._nodes if isinstance(node, ast.ClassDef) for member in node.body}
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._rewrite_import(node)
            elif isinstance(node, ast.Delete):
                self._replace(node, "; ".join(_deletion(target) for target in node.targets))
            elif isinstance(node, ast.ClassDef):
                self._rewrite_class(node)
            elif isinstance(node, ast.Call) and _makes_exception(node):
                self._rewrite_exception(node)
            elif isinstance(node, ast.Attribute | ast.Name):
                self._rewrite_read(node)
            elif isinstance(node, ast.JoinedStr) and sys.version_info < (3, 12):
                self._rewrite_text(node)
            elif isinstance(node, ast.ListComp | ast.DictComp) and self._looks is not None:
                self._ask_together(node, self._looks)
            elif isinstance(node, ast.FunctionDef) and node.name in attributed and id(node) not in methods:
                start = self._starts[min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1]
                self._edits.append((start, start, f'{self._indent(node)}@_align_function("{node.name}")\n'))
        self._rewrite_generators()
        return self._apply()

    # ------------------------------------------------------------ constructs

    def _rewrite_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            if any(alias.name in STOOD_IN for alias in node.names):
                self._stood_in |= {_bound_module(alias) for alias in node.names if alias.name in STOOD_IN}
                self._replace(node, "; ".join(_import(alias) for alias in node.names))
        elif node.module in STOOD_IN and not node.level:
            self._stood_in.add(node.module)
            names = [(alias.asname or alias.name, alias.name) for alias in node.names]
            self._replace(
                node, "; ".join(f'{bound} = _align_import_from("{node.module}", "{name}")' for bound, name in names)
            )

    def _rewrite_class(self, node: ast.ClassDef) -> None:
        if node.bases:
            start = self._data.index(b"(", self._offset(node.lineno, node.col_offset))
            end = self._data.index(b")", self._end(node.bases[-1])) + 1
            self._edits.append((start, end, ""))
        after: list[str] = []
        for member in node.body:
            if not isinstance(member, ast.FunctionDef):
                continue
            for decorator in member.decorator_list:
                start = self._offset(decorator.lineno, decorator.col_offset)
                self._edits.append((self._data.rindex(b"@", 0, start), self._end(decorator), ""))
                after.append(_decorated(node.name, member.name, decorator))
        if after:
            end = self._end(node)
            self._edits.append((end, end, f"\n{self._indent(node)}" + "; ".join(after)))

    def _rewrite_exception(self, node: ast.Call) -> None:
        """Combine all values of an exception into one, since the interpreter's exceptions take a single text."""
        start, end = self._end(node.func), self._end(node)
        bracket = self._data.find(b"(", start)
        if self._is_at_its_place(node) and not self._data[start:bracket].strip():
            self._edits.append((bracket + 1, bracket + 1, "_align_exception_text("))
            self._edits.append((end - 1, end - 1, ")"))

    def _rewrite_read(self, node: ast.Attribute | ast.Name) -> None:
        """Replace a property read by a call, and `__name__` by the name of an imported module."""
        if not _is_rewritten(node, self._properties) or not self._is_at_its_place(node):
            return
        start, end = self._offset(node.lineno, node.col_offset), self._end(node)
        if isinstance(node, ast.Name):
            self._edits.append((start, end, MODULE_NAME))
        else:
            dot = self._data.rindex(b".", self._end(node.value), end)
            self._edits += [(start, start, f"{READ}("), (dot, end, f', "{node.attr}")')]

    def _rewrite_text(self, node: ast.JoinedStr) -> None:
        """Rewrite as `_rewrite_read` does, within an f-string, whose parts have wrong positions in Python 3.11."""
        if any(_is_rewritten(each, self._properties) for each in ast.walk(node)) and self._is_at_its_place(node):
            try:
                self._replace(node, ast.unparse(_Reads(self._properties).visit(copy.deepcopy(node))))
            except ValueError as error:
                raise refusal(node, "a property in this f-string", "read it on a line of its own") from error

    def _ask_together(self, node: ast.ListComp | ast.DictComp, view: str) -> None:
        """Turn `[env.step(v)[0] for v in views]` into one joint request, as no code of the interface runs in between.

        `view` is the contract's expression for a view.
        """
        loop, value = node.generators[0], node.elt if isinstance(node, ast.ListComp) else node.value
        call = next((each for each in ast.walk(value) if isinstance(each, ast.Call)), None)
        if call is None or len(node.generators) > 1 or loop.ifs or not self._is_at_its_place(node):
            return
        name = ast.unparse(loop.target)
        keyed = isinstance(node, ast.ListComp) or ast.unparse(node.key) == name
        written = ast.unparse(value) == view.replace("(view)", f"({name})").replace("[view]", f"[{name}]")
        if not (keyed and written and name.isidentifier() and name != "env"):
            return
        start = self._offset(call.lineno, call.col_offset)
        first = self._offset(call.args[0].lineno, call.args[0].col_offset)
        if self._data[start:first].count(b"(") == 1:
            self._edits.append((start, first, "_align_told(env, "))
            asked = self._offset(loop.iter.lineno, loop.iter.col_offset)
            self._edits += [(asked, asked, "_align_asked(env, "), (self._end(loop.iter), self._end(loop.iter), ")")]

    def _rewrite_generators(self) -> None:
        """Turn generator expressions into iterators if they may be advanced; the interpreter makes lists of them."""
        for parent in self._nodes:
            consumed = isinstance(parent, ast.Call) and _called_name(parent) in _CONSUMERS
            if consumed or isinstance(parent, ast.For | ast.comprehension):
                continue
            for child in ast.iter_child_nodes(parent):
                if isinstance(child, ast.GeneratorExp) and self._is_at_its_place(child):
                    start, end = self._offset(child.lineno, child.col_offset), self._end(child)
                    sole = isinstance(parent, ast.Call) and len(parent.args) == 1 and not parent.keywords
                    self._edits.append((start, start, "(iter" if sole else "iter"))
                    if sole:
                        self._edits.append((end, end, ")"))

    def _is_at_its_place(self, node: ast.expr) -> bool:
        """Check the node's position: Python 3.11 reports wrong positions inside f-strings, which are left alone."""
        if sys.version_info >= (3, 12):
            return True
        segment = self._data[self._offset(node.lineno, node.col_offset) : self._end(node)]
        try:
            parsed = parse_source(segment.decode()).body
        except (SyntaxError, ValueError):
            return False
        return [ast.dump(statement) for statement in parsed] == [ast.dump(ast.Expr(node))]

    # ------------------------------------------------------------ editing

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _indent(self, node: ast.stmt) -> str:
        start = self._starts[node.lineno - 1]
        return self._data[start : start + node.col_offset].decode()

    def _replace(self, node: ast.stmt | ast.expr, text: str) -> None:
        self._edits.append((self._offset(node.lineno, node.col_offset), self._end(node), text))

    def _apply(self) -> PreparedSource:
        pieces: list[str] = []
        lines = [1]
        line = 1
        position = 0
        for start, end, text in sorted(self._edits):
            if start < position:
                continue  # inside a replaced statement
            unchanged = self._data[position:start].decode()
            pieces.append(unchanged)
            lines.extend(range(line + 1, line + unchanged.count("\n") + 1))
            line += unchanged.count("\n")
            pieces.append(text)
            lines.extend([line] * text.count("\n"))
            line += self._data[start:end].count(b"\n")
            position = end
        rest = self._data[position:].decode()
        lines.extend(range(line + 1, line + rest.count("\n") + 1))
        defines = b"_align" not in self._data and only_defines(self._tree, self._nodes)
        stood_in = frozenset(self._stood_in)
        return PreparedSource("".join([*pieces, rest]), tuple(lines), defines, stood_in)


def _functions_with_attributes(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of functions used with attributes, as in `f.count = 0` or `hasattr(f, "count")`."""
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    holders: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            holders.add(node.value.id)
        elif isinstance(node, ast.Call) and _called_name(node) in ("hasattr", "getattr", "setattr") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Name):
                holders.add(first.id)
    return functions & holders


def _properties(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of the methods decorated as properties."""
    members = [member for node in nodes if isinstance(node, ast.ClassDef) for member in node.body]
    functions = [member for member in members if isinstance(member, ast.FunctionDef)]
    return {each.name for each in functions if any(is_name(deco, "property") for deco in each.decorator_list)}


def _decorated(owner: str, name: str, decorator: ast.expr) -> str:
    """Return the statement after a class that replaces a method's decorator."""
    method = f"{owner}.{name}"
    if is_name(decorator, "property"):
        return f"{method} = _AlignProperty({method})"
    if is_name(decorator, "classmethod"):
        return f"{method} = _align_classmethod({method}, {owner})"
    return f'{method} = _AlignFunction({method}, "{name}")'


def _is_rewritten(node: ast.AST, properties: Collection[str]) -> bool:
    """Return True if a node reads a possible property, or `__name__`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return node.attr in properties
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == "__name__"


class _Reads(ast.NodeTransformer):
    """Rewrites reads of properties and of `__name__`."""

    def __init__(self, properties: Collection[str]) -> None:
        self._properties = properties

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace `__name__` by the name of an imported module."""
        return ast.parse(MODULE_NAME, mode="eval").body if _is_rewritten(node, self._properties) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace a property read by a call."""
        node.value = self.visit(node.value)
        if not _is_rewritten(node, self._properties):
            return node
        return ast.Call(ast.Name(READ, ast.Load()), [node.value, ast.Constant(node.attr)], [])


def _replaces_step(nodes: Sequence[ast.AST]) -> bool:
    """Return True if source may replace `env.step`."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "step" and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Call) and _called_name(node) == "setattr")
        for node in nodes
    )


def _deletion(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript):
        return f"_align_delete_item({ast.unparse(target.value)}, {_key(target.slice)})"
    return f"{ast.unparse(target)} = _align_deleted"


def _key(key: ast.expr) -> str:
    if not isinstance(key, ast.Slice):
        return ast.unparse(key)
    parts = (ast.unparse(part) if part is not None else "None" for part in (key.lower, key.upper, key.step))
    return f"slice({', '.join(parts)})"


def _import(alias: ast.alias) -> str:
    if alias.name not in STOOD_IN:
        return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    return f'{alias.asname or _bound_module(alias)} = _align_import("{_bound_module(alias)}")'


def _bound_module(alias: ast.alias) -> str:
    """Return the module bound by an import."""
    return alias.name if alias.asname else alias.name.split(".")[0]


def _makes_exception(call: ast.Call) -> bool:
    """Return True for a built-in exception called with anything but one literal text."""
    if _called_name(call) not in _EXCEPTIONS or not isinstance(call.func, ast.Name) or call.keywords or not call.args:
        return False
    first = call.args[0]
    plain = isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str))
    return len(call.args) > 1 or not (plain or isinstance(first, ast.GeneratorExp))


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
