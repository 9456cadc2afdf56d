"""Compiled game as plain data: output of `compiler.py`, stored by `store.py`, played by `program.py`.

Large tables are kept as text and parsed on first use, so that a game in memory is small and loads quickly. A bit is a
position in the state, which is an integer. A literal is `2 * bit`, plus 1 for a fact that must be false.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

Symbols = list[Any]
"""Template: text as itself; ["rule", name], ["value", expression], ["each", query, symbol], ["list", query, symbol].

`query` is a list of [signatures, placeholders]: the facts to match ("predicate type ...") and the names of their
arguments ([name, type] each); None for no query.
"""


@dataclass(frozen=True)
class ActionSchema:
    """Action with open parameters ([name, type] each), and the template of its answer."""

    name: str
    parameters: list[list[str]]
    feedback: Symbols


@dataclass(frozen=True)
class CompiledGame:
    """Compiled game.

    `variables`: [id, type, display name] of all arguments of facts and operators ("" without a name); `facts`: by
    signature, "argument,argument:bit ..." in TextWorld's order, bit -1 for an always true fact; `initial`: the initial
    state in hexadecimal; `goal`: literals; `operators`: "schema;arguments;preconditions;effects" in the library's
    order, an effect being its literal or "conditions>literal"; `commands`: the text of each operator; `watched`:
    operators by the bit that must be set before they are checked ("-1": always); `read`: the mask of the bits in
    preconditions, in hexadecimal; `told` and `denied`: by a fact's bit, the bit that is set if the text takes the fact
    for true, or for false; `axioms`: [layer, conditions, literal]; `rules`: by name, [query or None, symbols] in order.
    """

    variables: list[list[str]]
    facts: dict[str, str]
    initial: str
    goal: list[int]
    schemas: list[ActionSchema]
    operators: list[str]
    commands: list[str]
    watched: dict[str, list[int]]
    read: str
    told: dict[str, int]
    denied: dict[str, int]
    axioms: list[list[Any]]
    rules: dict[str, list[list[Any]]]

    @property
    def bytes(self) -> int:
        """Size of the large tables in memory."""
        tables = (self.operators, self.commands, self.facts.values(), self.watched.values())
        return sum(sum(map(sys.getsizeof, table)) for table in tables)
