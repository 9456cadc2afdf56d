"""Convert TextWorld's parsed templates and queries to plain data (`compiled.Symbols`); unknown parts are refused by
name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textworld.envs.pddl import textgen

from align_echo.errors import EngineError
from align_echo.wrappers.alfworld.fast.compiled import Symbols
from align_echo.wrappers.alfworld.grammar import GameGrammar, parse_query, parse_symbols

Expand = Callable[[str, Sequence[str]], list[str]]
"""Function from a predicate and the types of its arguments to the signatures of matching facts, in TextWorld's order.
"""


def plain(text: str, expand: Expand) -> Symbols:
    """Convert a template. Raises `EngineError` naming an unsupported symbol."""
    return [_symbol(symbol, expand) for symbol in parse_symbols(text)]


def plain_rules(grammar: GameGrammar, expand: Expand) -> dict[str, list[list[Any]]]:
    """Convert all rules: by name, (condition or None, symbols) in order."""
    return {
        name: [[_query(rule.condition, expand), [_symbol(symbol, expand) for symbol in rule.symbols]] for rule in rules]
        for name, rules in grammar.rules.items()
    }


def _symbol(symbol: Any, expand: Expand) -> Any:
    if isinstance(symbol, textgen.TerminalSymbol):
        return str(symbol.symbol)
    if isinstance(symbol, textgen.NonterminalSymbol):
        return ["rule", str(symbol.symbol)]
    if isinstance(symbol, textgen.EvalSymbol):
        return ["value", str(symbol.expression)]
    if isinstance(symbol, textgen.ConditionalSymbol):
        return ["each", _query(symbol.given, expand), _symbol(symbol.expression, expand)]
    if isinstance(symbol, textgen.ListSymbol) and isinstance(symbol.symbol, textgen.ConditionalSymbol):
        inner = symbol.symbol
        return ["list", _query(inner.given, expand), _symbol(inner.expression, expand)]
    raise EngineError(f"the game's grammar holds a symbol that is not understood: {symbol!r}")


def _query(text: str | None, expand: Expand) -> list[Any] | None:
    if not text:
        return None
    return [
        [
            expand(proposition.name, [placeholder.type for placeholder in proposition.parameters]),
            [[placeholder.name, placeholder.type] for placeholder in proposition.parameters],
        ]
        for proposition in parse_query(text).preconditions
    ]
