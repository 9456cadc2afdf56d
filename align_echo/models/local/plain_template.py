"""Chat templates that cannot cost more than their conversation: they need no process of their own.

A template is plain if it only walks the messages, their tool calls and the tools, and puts texts beside each other. It
writes at most a small multiple of the conversation and reads nothing else, whoever wrote it. Anything else, such as a
macro, a range or a text times a number, is left to `TemplateProcess`. Not here: writing conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeGuard

from jinja2 import nodes
from jinja2.exceptions import TemplateError

from align_echo.models.local.foreign_process import template_environment

LONGEST, NODES, DEPTH = 20_000, 3_000, 40
"""Largest plain template: characters, nodes of its tree, and their depth. Beyond these a template is not examined."""

MOST_GROWTH = 100
"""How often a plain template may write one text, at most, all its places together."""

_JSON_GROWTH = 6  # a control sign becomes \\u0001

_PARTS = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Name, nodes.NSRef,
    nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Compare, nodes.Operand, nodes.And, nodes.Or,
    nodes.Not, nodes.Add, nodes.Sub, nodes.Neg, nodes.Mod, nodes.Concat, nodes.CondExpr, nodes.Filter, nodes.Test,
    nodes.Call, nodes.Keyword, nodes.Break, nodes.Continue,
)  # fmt: skip
_FILTERS = {"trim", "tojson", "length", "count", "first", "last", "string", "default", "upper", "lower"}
_METHODS = {"strip", "lstrip", "rstrip", "startswith", "endswith", "split", "upper", "lower"}
_FUNCTIONS = {"raise_exception", "namespace"}


def plain_template(source: str) -> Callable[..., str] | None:
    """Return the function that renders a template, if it is plain. Variables are its keywords."""
    if len(source) > LONGEST:
        return None
    environment = template_environment(sandboxed=False)
    try:
        tree = environment.parse(source)
        render: Callable[..., str] | None = environment.from_string(source).render if _Plain(tree).holds else None
    except (TemplateError, RecursionError):
        return None  # the process says what is wrong
    return render


class _Plain:
    """Whether a template's tree is plain."""

    def __init__(self, tree: nodes.Template) -> None:
        self._tree = tree
        self._every = list(_below(tree))
        self._values: dict[str, list[nodes.Node]] = {}  # what each name is set to
        self._is_small = len(self._every) <= NODES and all(depth <= DEPTH for _, depth in self._every)
        for each, _ in self._every:
            if isinstance(each, nodes.Assign) and isinstance(each.target, nodes.Name):
                self._values.setdefault(each.target.name, []).append(each.node)
        self._lists, before = {"messages", "tools"}, 0
        while len(self._lists) > before:
            before = len(self._lists)
            self._lists |= {name for name, values in self._values.items() if any(map(self._is_list, values))}

    @property
    def holds(self) -> bool:
        return (
            self._is_small
            and all(self._is_allowed(each) for each, _ in self._every)
            and self._names_lists_in_place(self._tree)
            and self._walks(self._tree, ())
            and self._growth() <= MOST_GROWTH
        )

    def _is_allowed(self, node: nodes.Node) -> bool:
        if not isinstance(node, _PARTS):
            return False
        if isinstance(node, nodes.Assign) and not isinstance(node.target, (nodes.Name, nodes.NSRef)):
            return False
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.NSRef):  # stays from turn to turn
            return isinstance(node.node, nodes.Const) or self._is_number(node.node) or self._is_of_message(node.node)
        if isinstance(node, (nodes.Getattr, nodes.Getitem)):
            return self._is_open(node)
        if isinstance(node, nodes.Mod):
            return self._is_number(node.left) and isinstance(node.right, nodes.Const)
        if isinstance(node, nodes.Filter):
            return node.name in _FILTERS and (not node.args or node.name == "default") and not node.kwargs
        if isinstance(node, nodes.Call):
            return self._is_allowed_call(node)
        return True

    def _is_open(self, node: nodes.Getattr | nodes.Getitem) -> bool:
        """Whether what is looked up is known beforehand, and no inner attribute."""
        if isinstance(node, nodes.Getattr) or isinstance(node.arg, nodes.Const):
            return not _attribute(node).startswith("_")
        return isinstance(node.arg, nodes.Slice) or self._is_number(node.arg)

    def _is_allowed_call(self, node: nodes.Call) -> bool:
        if node.dyn_args or node.dyn_kwargs:
            return False
        if isinstance(node.node, nodes.Name):
            values = [each.value for each in node.kwargs]
            simple = all(isinstance(value, nodes.Const) or self._is_number(value) for value in values)
            return node.node.name in _FUNCTIONS and simple
        return isinstance(node.node, nodes.Getattr) and node.node.attr in _METHODS and not node.kwargs

    def _is_number(self, node: nodes.Node, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a value is a number or a truth value, however often it was set."""
        if isinstance(node, nodes.Const):
            return not isinstance(node.value, str)
        if isinstance(node, nodes.Filter):
            return node.name in ("length", "count")
        if isinstance(node, nodes.Neg):
            return self._is_number(node.node, seen)
        if isinstance(node, (nodes.Add, nodes.Sub)):
            return self._is_number(node.left, seen) and self._is_number(node.right, seen)
        if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
            return node.node.name == "loop" and node.attr in ("index", "index0", "revindex", "revindex0", "length")
        if isinstance(node, nodes.Name) and node.name not in seen:
            values = self._values.get(node.name, [])
            return bool(values) and all(self._is_number(each, seen | {node.name}) for each in values)
        return False

    def _is_of_message(self, node: nodes.Node) -> bool:
        """Whether a value is part of what a loop is at."""
        while isinstance(node, (nodes.Getattr, nodes.Getitem)):
            node = node.node
        turns = {each.target.name for each, _ in self._every if isinstance(each, nodes.For) and _is_name(each.target)}
        return isinstance(node, nodes.Name) and node.name in turns - self._values.keys()

    # ------------------------------------------------------------ walks

    def _names_lists_in_place(self, node: nodes.Node) -> bool:
        """Whether the lists are only walked, looked into, counted, and given another name; never written as a whole."""
        for child in node.iter_child_nodes():
            in_place = (
                isinstance(node, (nodes.Test, nodes.Assign, nodes.If, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr))
                or (isinstance(node, nodes.For) and child is node.iter)
                or (isinstance(node, nodes.Getitem) and child is node.node)
                or (isinstance(node, nodes.Filter) and node.name in ("length", "count", "first", "last"))
            )
            if not in_place and self._is_list(child):
                return False
            if not self._names_lists_in_place(child):
                return False
        return True

    def _is_list(self, node: nodes.Node) -> bool:
        """Whether a value may be a list of messages or tools."""
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return self._is_list(node.node)
        if isinstance(node, nodes.CondExpr):
            return self._is_list(node.expr1) or (node.expr2 is not None and self._is_list(node.expr2))
        if isinstance(node, (nodes.And, nodes.Or)):
            return self._is_list(node.left) or self._is_list(node.right)
        return isinstance(node, nodes.Name) and node.name in self._lists and node.ctx == "load"

    def _walks(self, node: nodes.Node, around: tuple[nodes.For, ...]) -> bool:
        """Whether loops walk the lists, and in a loop only tools or the calls of a message."""
        if isinstance(node, nodes.For):
            if node.recursive or len(around) > 1 or not self._is_walked(node.iter, inner=bool(around)):
                return False
            around = (*around, node)
        return all(self._walks(child, around) for child in node.iter_child_nodes())

    def _is_walked(self, node: nodes.Node, *, inner: bool) -> bool:
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return self._is_walked(node.node, inner=inner)
        if isinstance(node, nodes.Name):
            return node.name in self._lists and (not inner or node.name == "tools")
        return _attribute(node) == "tool_calls"

    # ------------------------------------------------------------ growth

    def _growth(self) -> int:
        """Return how often a text may come in all that is written or compared in a turn of a loop, at most."""
        growth, places = 1, 1
        for each, _ in self._every:
            if isinstance(each, nodes.Assign):
                growth *= max(1, self._times(each.node))
            elif isinstance(each, (nodes.If, nodes.For)):
                places += self._times(each.test) if each.test else 0
            elif isinstance(each, (nodes.Output, nodes.Compare, nodes.Test, nodes.Call)):
                places += sum(map(self._times, each.iter_child_nodes()))
        return growth * places

    def _times(self, node: nodes.Node) -> int:
        """Return how often an expression holds a text, at most."""
        if isinstance(node, (nodes.Const, nodes.TemplateData, nodes.Compare, nodes.Test)) or self._is_number(node):
            return 0
        if isinstance(node, (nodes.Add, nodes.Sub, nodes.Concat, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr)):
            return sum(map(self._times, node.iter_child_nodes()))
        if isinstance(node, nodes.Filter) and node.node is not None:
            inner = sum(map(self._times, (node.node, *node.args)))
            return inner * _JSON_GROWTH if node.name in ("tojson", "string") else inner
        if isinstance(node, nodes.Call):
            inside = node.node.node if isinstance(node.node, nodes.Getattr) else None
            return self._times(inside) if inside is not None else 0
        if isinstance(node, (nodes.Getattr, nodes.Getitem)):
            return self._times(node.node)
        return 1


def _below(node: nodes.Node, depth: int = 0) -> Iterator[tuple[nodes.Node, int]]:
    """Yield each node of a tree with its depth, down to one below `DEPTH`."""
    yield node, depth
    if depth <= DEPTH:
        for child in node.iter_child_nodes():
            yield from _below(child, depth + 1)


def _is_name(node: nodes.Node) -> TypeGuard[nodes.Name]:
    return isinstance(node, nodes.Name)


def _attribute(node: nodes.Node) -> str:
    """Return the name that is looked up in a value; "" if it is none."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return ""
