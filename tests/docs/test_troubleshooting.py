"""What docs/troubleshooting.md quotes is what somebody sees: the code, or another program, says it."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.docs.pages import ROOT, blocks

OTHERS = {
    "Compatibility with CMake < 3.5 has been removed from CMake.": "cmake 4",
}
"""What other programs say."""

LEAST = 4
"""Letters of a piece that is looked for."""


@cache
def said() -> str:
    """Every text of the library, the pieces of one f-string apart, and the Makefile."""
    texts = [(ROOT / "Makefile").read_text()]
    for folder in ("align_echo", "wrappers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            texts += [constant for constant in constants if isinstance(constant, str)]
    return "\n".join(" ".join(text.split()) for text in texts)


def pieces(line: str) -> list[str]:
    """What is fixed in a quoted line: what stands between its `...`, without the punctuation between two messages."""
    return [piece for piece in (part.strip(" ;:,") for part in line.split("...")) if len(piece) >= LEAST]


QUOTED = [line for block in blocks() if block.page == "docs/troubleshooting.md" for line in block.text.splitlines()]


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_message_is_one_that_is_said(line: str):
    assert pieces(line), "nothing in it can be looked for"
    assert line in OTHERS or [piece for piece in pieces(line) if piece not in said()] == []


def test_a_message_that_nobody_says_is_seen():
    assert "the environment broke" in said()
    assert "the environment is broken" not in said()
    assert len(QUOTED) > 30
