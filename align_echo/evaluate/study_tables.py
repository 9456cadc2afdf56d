"""A `Study` as tables, for the terminal and as Markdown, and what was in the way of its figures.

Left out: every figure's making, and a cell's lines (`grid.py`).
"""

from __future__ import annotations

from rich.table import Table

from align_echo.evaluate.comparison import PLACEBO
from align_echo.evaluate.grid import (
    CAPTION,
    HEADINGS,
    OVER_PLACEBO,
    Cell,
    faults_line,
    lines_of,
    refusals_lines,
    table_of,
)
from align_echo.evaluate.study import HALVES, MAIN, Study
from align_echo.evaluate.tables import WORTH
from align_echo.trouble import Conduct


def tables_of(study: Study) -> list[Table]:
    """A table for each part; what the columns mean stands below the last."""
    tables = [table_of(grid) for grid in study.parts.values()]
    for table in tables[:-1]:
        table.caption = None
    return tables


def markdown_of(study: Study) -> str:
    """The tables of all parts, with a heading each."""
    lines = [f"# Study {study.name}", ""]
    for grid in study.parts.values():
        lines += [f"## Without and with the interface {grid.interface}", ""]
        lines += [_row(HEADINGS), _row(["---"] * 3 + ["---:"] * (len(HEADINGS) - 3))]
        lines += [_row((shown.environment, shown.agent, *line)) for shown in grid.cells for line in lines_of(shown)]
        lines.append("")
    ends = [*CAPTION.splitlines(), OVER_PLACEBO, WORTH.replace("\n", " "), *notes_of(study)]
    return "\n".join([*lines, *(f"- {line.rstrip(';')}" for line in ends), ""])


def notes_of(study: Study) -> list[str]:
    """Lines below the tables: how refusals are known, who played, where nothing was learned, and what broke in each
    cell of each part."""
    why = "nothing was learned: it changes nothing"
    unchanged = [f"{folder}: {study.learned[folder]} ({why})" for folder in study.unchanged]
    cells = [shown for grid in study.parts.values() for shown in grid.cells]
    return [*refusals_lines(cells), *study.played_by, *unchanged, *(_faults(study) or ["faults: none"])]


def _faults(study: Study) -> list[str]:
    """A line for each cell in which episodes broke, in the part that they were played for."""
    lines = []
    for part, grid in study.parts.items():
        for shown in grid.cells:
            line = faults_line(shown, _own_sides(part, shown))
            lines += [line if part == MAIN else f"{line} ({part})"] if line else []
    return lines


def conducts_of(study: Study) -> dict[str, Conduct]:
    """How the interface behaved in each side that was played for a part."""
    return {
        f"{shown.environment} {shown.agent} {name}" + ("" if part == MAIN else f" ({part})"): shown.sides[name].conduct
        for part, grid in study.parts.items()
        for shown in grid.cells
        for name in _own_sides(part, shown)
    }


def _own_sides(part: str, shown: Cell) -> list[str]:
    """The sides of a cell that no other part has too."""
    kind = part.partition(", seed ")[0]
    if kind == MAIN:
        return list(shown.sides)
    if kind in HALVES:
        return ["with"]
    return [name for name in shown.sides if name in (PLACEBO, "with")]


def _row(fields: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(field.replace('|', chr(92) + '|') for field in fields)} |"
