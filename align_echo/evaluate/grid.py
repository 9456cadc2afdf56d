"""A grid of environments x agents, without and with an interface: its cells, summary and table.

A cell is a `VariantComparison` of these and the interface's placebo on the same tasks. Not here: playing the cells
(`grid_run.py`) and their folders (`folder.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field, NonNegativeInt
from rich.table import Table

from align_echo.evaluate.comparison import (
    BASELINE,
    PLACEBO,
    VariantComparison,
    VariantDifference,
    VariantResult,
    compare,
)
from align_echo.evaluate.tables import NOT_DEFINED, WORTH, cell, failed_on, plain_table, refusals_line
from align_echo.intervals import Percent, Points, Score, ScoreChange, SharePoints
from align_echo.refusals import AnswerShares, Known
from align_echo.trouble import InterfaceConduct
from align_echo.types import Frozen, Trajectory, Usage
from align_echo.wrappers.environment import EnvironmentSpec

WITH = "full"
"""The variant compared with the baseline: both halves of the interface."""

CAPTION = (
    "scores in 0 to 1, all else in %, with 95% intervals; change: with minus without, paired by task;\n"
    "consec. invalid: % of actions in runs of >= 2 refused, by replay; as shown: judged on what the agent saw"
)
OVER_PLACEBO = "over placebo: with minus placebo, paired by task"
CAPTION_PLACEBO = f"{OVER_PLACEBO}\n{WORTH}"


class CellSide(Frozen):
    """A cell without the interface, with it, or with its placebo. None: no episode finished, or undefined.

    `score` is in [0, 1]; `success`, `consecutive_invalid` (by replay) and `consecutive_invalid_shown` are percent.
    `refusals` says how refused actions are known ("" if they are not), and `answers` gives partial counts if some are
    unknown. `conduct` reports failures of the interface; if it does not work, the figures are the raw environment's.
    """

    interface: str
    episodes: NonNegativeInt
    faults: NonNegativeInt
    faults_by_source: dict[str, NonNegativeInt] = Field(default_factory=dict)
    conduct: InterfaceConduct = InterfaceConduct()
    score: Score | None = None
    success: Percent | None = None
    consecutive_invalid: Percent | None = None
    consecutive_invalid_shown: Percent | None = None
    refusals: Known | Literal[""] = ""
    answers: AnswerShares | None = None


class CellChange(Frozen):
    """With minus without, or minus the placebo, paired on the `tasks` finished by both.

    All but `score` in percentage points.
    """

    tasks: NonNegativeInt
    score: ScoreChange
    success: Points
    consecutive_invalid: SharePoints | None


class GridCell(Frozen):
    """One environment and one agent. `folder` is an evaluation's, relative to the grid's; `tasks` is the requested
    number.

    `change` is over no interface, `over_placebo` over the placebo; that and `placebo` are None without a placebo.
    """

    environment: str
    split: str
    games: str
    agent: str
    folder: str
    tasks: NonNegativeInt
    without: CellSide
    placebo: CellSide | None = None
    with_interface: CellSide
    change: CellChange | None
    over_placebo: CellChange | None = None
    usage: Usage

    @property
    def sides(self) -> dict[str, CellSide]:
        """Return the played sides, by their names in the table."""
        middle = {} if self.placebo is None else {PLACEBO: self.placebo}
        return {"without": self.without, **middle, "with": self.with_interface}


class GridSummary(Frozen):
    """All cells. `model` is None if no agent of the grid asks one; `faults` counts broken episodes."""

    model: str | None
    interface: str
    seed: int
    tasks: NonNegativeInt
    faults: NonNegativeInt
    usage: Usage
    cells: tuple[GridCell, ...]


def measure(
    spec: EnvironmentSpec, played: Mapping[str, Sequence[Trajectory]], *, seed: int
) -> tuple[VariantComparison | None, bool]:
    """Compare the variants with any finished episode (None: there is none), and return whether all variants have one.
    """
    known = {
        name: episodes for name, episodes in played.items() if any(episode.fault is None for episode in episodes)
    }
    return (compare(spec, known, seed=seed) if known else None), len(known) == len(played)


def build_cell(
    spec: EnvironmentSpec,
    comparison: VariantComparison | None,
    labels: Mapping[str, str],
    *,
    agent: str,
    tasks: int,
    folder: str,
    variant: str = WITH,
) -> GridCell:
    """Build the cell of a comparison of `variant` with the baseline.

    `labels` names the interface of each variant, including variants without figures.
    """
    results = comparison.variants if comparison else {}
    known = comparison.refusals if comparison else ""
    sides = {name: _side(results.get(name), label, tasks, known) for name, label in labels.items()}
    return GridCell(
        environment=spec.name,
        split=spec.test_split,
        games=spec.games(None),
        agent=agent,
        folder=folder,
        tasks=tasks,
        without=sides[BASELINE],
        placebo=sides.get(PLACEBO),
        with_interface=sides[variant],
        change=_change(comparison.differences.get(variant)) if comparison else None,
        over_placebo=_change(comparison.over_placebo.get(variant)) if comparison else None,
        usage=sum((result.usage for result in results.values()), Usage()),
    )


def build_grid(cells: Sequence[GridCell], *, model: str | None, interface: str, seed: int, tasks: int) -> GridSummary:
    """Build the summary of all cells."""
    return GridSummary(
        model=model,
        interface=interface,
        seed=seed,
        tasks=tasks,
        faults=sum(side.faults for cell in cells for side in cell.sides.values()),
        usage=sum((cell.usage for cell in cells), Usage()),
        cells=tuple(cells),
    )


def _side(result: VariantResult | None, label: str, tasks: int, known: Known | Literal[""]) -> CellSide:
    if result is None:
        return CellSide(interface=label, episodes=0, faults=tasks)
    return CellSide(
        interface=label,
        episodes=result.episodes,
        faults=result.faults,
        faults_by_source=result.faults_by_source,
        conduct=result.conduct,
        score=result.mean_score,
        success=result.success_rate,
        consecutive_invalid=result.consecutive_invalid,
        consecutive_invalid_shown=result.consecutive_invalid_shown,
        refusals=result.refusals or known,
        answers=result.answers,
    )


def _change(difference: VariantDifference | None) -> CellChange | None:
    if difference is None:
        return None
    return CellChange(
        tasks=difference.tasks,
        score=difference.score,
        success=difference.success_points,
        consecutive_invalid=difference.invalid_points,
    )


# ---------------------------------------------------------------- the table


HEADINGS = ("environment", "agent", "interface", "n", "score", "success", "consec. invalid", "as shown")
"""Columns of a grid's table; the first three are text."""


def grid_table(grid: GridSummary) -> Table:
    """Build the table: a row per cell, with a line for each of its sides and for the change over each control."""
    table = plain_table(f"Without and with the interface {grid.interface}")
    controlled = any(grid_cell.placebo for grid_cell in grid.cells)
    table.caption, table.caption_justify = f"{CAPTION}\n{CAPTION_PLACEBO}" if controlled else CAPTION, "left"
    for heading in HEADINGS[:3]:
        table.add_column(heading, no_wrap=True)
    for heading in HEADINGS[3:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for grid_cell in grid.cells:
        columns = zip(*cell_lines(grid_cell), strict=True)
        table.add_row(grid_cell.environment, grid_cell.agent, *("\n".join(column) for column in columns))
    return table


def cell_lines(grid_cell: GridCell) -> list[tuple[str, ...]]:
    """Build the lines of a cell in a table: its sides and changes, under `HEADINGS` from the third on."""
    lines = [(name, *_figures(side)) for name, side in grid_cell.sides.items()]
    lines += [("change", *_changes(grid_cell.change, grid_cell.with_interface))]
    if grid_cell.placebo:
        lines += [("over placebo", *_changes(grid_cell.over_placebo, grid_cell.with_interface, grid_cell.placebo))]
    return lines


def faults_line(grid_cell: GridCell, names: Collection[str] = ("without", PLACEBO, "with")) -> str:
    """Report the broken episodes of these sides of a cell; "" without any."""
    sides = {name: side for name, side in grid_cell.sides.items() if name in names}
    if not any(side.faults for side in sides.values()):
        return ""
    broken = ", ".join(f"{side.faults} {name}" for name, side in sides.items())
    return f"faults: {grid_cell.environment} {grid_cell.agent}: {broken}; in no figure above"


def refusals_lines(cells: Iterable[GridCell]) -> list[str]:
    """Describe for each environment how refused actions are known, and for each side the partial counts if some are
    unknown.
    """
    lines: dict[str, None] = {}
    for grid_cell in cells:
        for name, side in grid_cell.sides.items():
            if side.refusals or (side.episodes and side.consecutive_invalid is None):
                lines[refusals_line(side.refusals, grid_cell.environment)] = None
            if side.answers is not None:
                where = f"{grid_cell.environment} {grid_cell.agent} {name}"
                lines[f"consec. invalid of {where} is not defined: {side.answers.in_words}"] = None
    return list(lines)


def _figures(side: CellSide) -> tuple[str, ...]:
    """Format a side's n, score, success and shares."""
    if not side.conduct.works:
        return (str(side.episodes), "-", failed_on(side.conduct), "-", "-")
    missing = NOT_DEFINED if side.episodes else "-"
    shares = (cell(share, missing=missing) for share in (side.consecutive_invalid, side.consecutive_invalid_shown))
    return (str(side.episodes), cell(side.score, digits=3), cell(side.success), *shares)


def _changes(change: CellChange | None, *sides: CellSide) -> tuple[str, ...]:
    """Format the changes in n, score, success and shares; empty if an interface on either side did not work."""
    if change is None or not all(side.conduct.works for side in sides):
        return (str(change.tasks if change else 0), "-", "-", "-", "")
    invalid = cell(change.consecutive_invalid, signed=True, missing=NOT_DEFINED)
    figures = cell(change.success, signed=True), invalid
    return (str(change.tasks), cell(change.score, digits=3, signed=True), *figures, "")
