"""The pages of the documentation, their blocks of code, and what stands in backquotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", ROOT / "SECURITY.md"),
        ROOT / "studies" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    ]
)
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
INDENTED = "indented"
"""The language of a block without a fence. Such blocks are commands."""


@dataclass(frozen=True)
class Block:
    """A block of code: its page from the root, the number of its first line, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """The blocks of a page: fenced ones, and indented ones outside of lists."""
    lines = text.split("\n")
    in_list = False
    number = 0
    while number < len(lines):
        line, before = lines[number], lines[number - 1] if number else ""
        first = number
        if line.lstrip().startswith("```"):
            margin = len(line) - len(line.lstrip())
            end = next(index for index in range(first + 1, len(lines)) if lines[index].strip() == "```")
            inside = "\n".join(part[margin:] for part in lines[first + 1 : end])
            yield Block(page, first + 2, line.strip().removeprefix("```"), inside + "\n")
            number = end + 1
            continue
        if ITEM.match(line):
            in_list = True
        elif line and not line.startswith(" ") and (not before or line.startswith("#")):
            in_list = False
        if line.startswith("    ") and not before and not in_list:
            while number < len(lines) and lines[number].startswith("    "):
                number += 1
            yield Block(page, first + 1, INDENTED, "\n".join(part[4:] for part in lines[first:number]) + "\n")
            continue
        number += 1


@cache
def blocks() -> list[Block]:
    """All blocks of all pages."""
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    return [block for page, text in texts.items() for block in blocks_of(text, page)]


def in_backquotes() -> list[tuple[str, str]]:
    """(page, text) of everything in backquotes outside of blocks, on one line each."""
    found = []
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", text)
        found += [(str(page.relative_to(ROOT)), " ".join(span.split())) for span in spans]
    return found


def own_modules() -> set[str]:
    """The modules that blocks of the pages are files of, and those of examples/."""
    files = [re.match(r"# file: (\S+)\n", block.text) for block in blocks()]
    return {Path(file[1]).stem for file in files if file} | {file.stem for file in (ROOT / "examples").glob("*/*.py")}
