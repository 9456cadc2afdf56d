"""Environments x agents, without and with an interface: the cells of a grid, its summary and its one table.

A cell is a `Comparison` of the two on the same tasks. Leaves out playing the cells (`cli/grid.py`) and their folders
(`folder.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from align_echo.evaluate.comparison import BASELINE, Comparison, Difference, VariantResult, compare
from align_echo.evaluate.tables import cell, plain_table
from align_echo.intervals import Estimate, Rate, scored
from align_echo.types import Frozen, Trajectory, Usage
from align_echo.wrappers.catalogue import EnvironmentSpec
from align_echo.wrappers.data_source import games_of

WITH = "full"
"""The variant that a grid sets against the baseline: both halves of the interface."""

CAPTION = (
    "scores in 0 to 1, all else in %, with 95% intervals; change: with minus without, paired by task;\n"
    "consec. invalid: % of actions in runs of >= 2 refused, by replay; as shown: judged on what the agent saw"
)


class Side(Frozen):
    """A cell without the interface, or with it. None: no episode finished, or the metric is not defined.

    `score` lies in [0, 1]; `success`, `consecutive_invalid` (by replay) and `consecutive_invalid_shown` are percent.
    """

    interface: str
    episodes: int
    faults: int
    score: Rate | None = None
    success: Rate | None = None
    consecutive_invalid: Rate | None = None
    consecutive_invalid_shown: Rate | None = None


class Change(Frozen):
    """With minus without, on the `tasks` that both finished, paired. All but `score` in percentage points."""

    tasks: int
    score: Rate
    success: Rate
    consecutive_invalid: Rate | None


class Cell(Frozen):
    """One environment and one agent. `folder` is an evaluation's, relative to the grid's; `tasks` were asked for."""

    environment: str
    split: str
    games: str
    agent: str
    folder: str
    tasks: int
    without: Side
    with_interface: Side
    change: Change | None
    usage: Usage


class Grid(Frozen):
    """All cells. `model` is None where no agent of the grid asks one; `faults` counts episodes that broke."""

    model: str | None
    interface: str
    seed: int
    tasks: int
    faults: int
    usage: Usage
    cells: tuple[Cell, ...]


def measure(
    spec: EnvironmentSpec, played: Mapping[str, Sequence[Trajectory]], *, seed: int
) -> tuple[Comparison | None, bool]:
    """The comparison of the variants that finished any episode (None: none did), and whether all of them did."""
    known = {name: episodes for name, episodes in played.items() if scored(episodes)}
    return (compare(spec, known, seed=seed) if known else None), len(known) == len(played)


def cell_of(
    spec: EnvironmentSpec,
    comparison: Comparison | None,
    labels: Mapping[str, str],
    *,
    agent: str,
    tasks: int,
    folder: str,
) -> Cell:
    """The cell of a comparison. `labels` names the interface of each variant: one of them may have no figure."""
    results = comparison.variants if comparison else {}
    difference = comparison.differences.get(WITH) if comparison else None
    without, with_interface = (_side(results.get(name), labels[name], tasks) for name in (BASELINE, WITH))
    return Cell(
        environment=spec.name,
        split=spec.test_split,
        games=games_of(spec, None),
        agent=agent,
        folder=folder,
        tasks=tasks,
        without=without,
        with_interface=with_interface,
        change=None if difference is None else _change(difference),
        usage=sum((one.usage for one in results.values()), Usage()),
    )


def grid_of(cells: Sequence[Cell], *, model: str | None, interface: str, seed: int, tasks: int) -> Grid:
    """The summary of all cells."""
    return Grid(
        model=model,
        interface=interface,
        seed=seed,
        tasks=tasks,
        faults=sum(cell.without.faults + cell.with_interface.faults for cell in cells),
        usage=sum((cell.usage for cell in cells), Usage()),
        cells=tuple(cells),
    )


def _side(result: VariantResult | None, label: str, tasks: int) -> Side:
    if result is None:
        return Side(interface=label, episodes=0, faults=tasks)
    return Side(
        interface=label,
        episodes=result.episodes,
        faults=result.faults,
        score=result.mean_score.rate,
        success=result.success_rate.rate,
        consecutive_invalid=_known(result.consecutive_invalid),
        consecutive_invalid_shown=_known(result.consecutive_invalid_shown),
    )


def _change(difference: Difference) -> Change:
    return Change(
        tasks=difference.tasks,
        score=difference.score.rate,
        success=difference.success_points.rate,
        consecutive_invalid=_known(difference.invalid_points),
    )


def _known(estimate: Estimate | None) -> Rate | None:
    return None if estimate is None else estimate.rate


# ---------------------------------------------------------------- the table


def table_of(grid: Grid) -> Table:
    """One row a cell, of three lines: without the interface, with it, and what it changed."""
    table = plain_table(f"Without and with the interface {grid.interface}")
    table.caption, table.caption_justify = CAPTION, "left"
    for heading in ("environment", "agent", "interface"):
        table.add_column(heading, no_wrap=True)
    for heading in ("n", "score", "success", "consec. invalid", "as shown"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in grid.cells:
        table.add_row(one.environment, one.agent, "without\nwith\nchange", *_figures(one))
    return table


def _figures(one: Cell) -> tuple[str, ...]:
    before, after, change = one.without, one.with_interface, one.change
    return (
        f"{before.episodes}\n{after.episodes}\n{change.tasks if change else 0}",
        _lines(before.score, after.score, change.score if change else None, digits=3),
        _lines(before.success, after.success, change.success if change else None),
        _lines(before.consecutive_invalid, after.consecutive_invalid, change.consecutive_invalid if change else None),
        f"{cell(before.consecutive_invalid_shown)}\n{cell(after.consecutive_invalid_shown)}",
    )


def _lines(before: Rate | None, after: Rate | None, change: Rate | None, *, digits: int = 1) -> str:
    return f"{cell(before, digits=digits)}\n{cell(after, digits=digits)}\n{cell(change, digits=digits, signed=True)}"
