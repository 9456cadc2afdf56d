"""A compiled game as plain data: what `compiler.py` makes, `store.py` keeps on disk and `program.py` plays.

Large tables are kept as text and read when they are first used, so that a game in memory is small and quick to load.
A bit is a position in the state, an integer. A literal is `2 * bit`, plus 1 where the fact must be false.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

Symbols = list[Any]
"""A template: text as itself; ["rule", name], ["value", expression], ["each", query, symbol], ["list", query, symbol].

`query` is a list of [signatures, placeholders]: the facts looked for ("predicate type ...") and what their arguments
are called ([name, type] each); None where nothing is asked.
"""


@dataclass(frozen=True)
class Schema:
    """An action before its parameters ([name, type] each) are filled in, and the template of its answer."""

    name: str
    parameters: list[list[str]]
    feedback: Symbols


@dataclass(frozen=True)
class Compiled:
    """One game.

    `variables`: [id, type, display name] of everything that facts and operators speak of ("" where it has no name);
    `facts`: by signature, "argument,argument:bit ..." in TextWorld's order, bit -1 for what is always true;
    `initial`: the initial state in hexadecimal; `goal`: literals;
    `operators`: "schema;arguments;preconditions;effects" in the library's order, an effect being its literal or
    "conditions>literal"; `commands`: what each is typed as; `watched`: operators by the bit that must be set before
    they are looked at ("-1": always); `read`: the mask of the bits in preconditions, in hexadecimal;
    `told` and `denied`: by a fact's bit, the bit that is set where the text takes the fact for true, or for false;
    `axioms`: [layer, conditions, literal]; `rules`: by name, [query or None, symbols] in order.
    """

    variables: list[list[str]]
    facts: dict[str, str]
    initial: str
    goal: list[int]
    schemas: list[Schema]
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
        """What the large tables take in memory."""
        tables = (self.operators, self.commands, self.facts.values(), self.watched.values())
        return sum(sum(map(sys.getsizeof, table)) for table in tables)
