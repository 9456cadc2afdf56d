"""A `StudySummary` as tables, for the terminal and as Markdown, with its faults.

Not here: computing the figures, and a cell's lines (`grid.py`).
"""

from __future__ import annotations

from rich.table import Table

from align_echo.evaluate.comparison import PLACEBO
from align_echo.evaluate.grid import (
    CAPTION,
    HEADINGS,
    OVER_PLACEBO,
    GridCell,
    cell_lines,
    faults_line,
    grid_table,
    refusals_lines,
)
from align_echo.evaluate.study import HALVES, MAIN, StudySummary
from align_echo.evaluate.tables import WORTH
from align_echo.trouble import InterfaceConduct


def build_tables(study: StudySummary) -> list[Table]:
    """Build a table for each part; the caption is below the last."""
    tables = [grid_table(grid) for grid in study.parts.values()]
    for table in tables[:-1]:
        table.caption = None
    return tables


def write_markdown(study: StudySummary) -> str:
    """Write the tables of all parts as Markdown, with a heading each."""
    lines = [f"# Study {study.name}", ""]
    for grid in study.parts.values():
        lines += [f"## Without and with the interface {grid.interface}", ""]
        lines += [_row(HEADINGS), _row(["---"] * 3 + ["---:"] * (len(HEADINGS) - 3))]
        lines += [_row((cell.environment, cell.agent, *line)) for cell in grid.cells for line in cell_lines(cell)]
        lines.append("")
    ends = [*CAPTION.splitlines(), OVER_PLACEBO, WORTH.replace("\n", " "), *study_notes(study)]
    return "\n".join([*lines, *(f"- {line.rstrip(';')}" for line in ends), ""])


def study_notes(study: StudySummary) -> list[str]:
    """Write the lines below the tables: how refusals are known, who played, where nothing was generated, and broken
    episodes by cell and part.
    """
    why = "nothing was learned: it changes nothing"
    unchanged = [f"{folder}: {study.learned[folder]} ({why})" for folder in study.unchanged]
    cells = [cell for grid in study.parts.values() for cell in grid.cells]
    return [*refusals_lines(cells), *study.played_by, *unchanged, *(_faults(study) or ["faults: none"])]


def _faults(study: StudySummary) -> list[str]:
    """Write a line for each cell with broken episodes, in the part they were played for."""
    lines = []
    for part, grid in study.parts.items():
        for cell in grid.cells:
            line = faults_line(cell, _own_sides(part, cell))
            lines += [line if part == MAIN else f"{line} ({part})"] if line else []
    return lines


def study_conducts(study: StudySummary) -> dict[str, InterfaceConduct]:
    """Return the conduct of the interface in each side played for a part."""
    return {
        f"{cell.environment} {cell.agent} {name}" + ("" if part == MAIN else f" ({part})"): cell.sides[name].conduct
        for part, grid in study.parts.items()
        for cell in grid.cells
        for name in _own_sides(part, cell)
    }


def _own_sides(part: str, cell: GridCell) -> list[str]:
    """Return the sides of a cell that belong to this part alone."""
    kind = part.partition(", seed ")[0]
    if kind == MAIN:
        return list(cell.sides)
    if kind in HALVES:
        return ["with"]
    return [name for name in cell.sides if name in (PLACEBO, "with")]


def _row(fields: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(field.replace('|', chr(92) + '|') for field in fields)} |"
