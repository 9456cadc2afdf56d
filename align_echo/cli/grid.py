"""`align-echo grid`: environments x agents, each without an interface, with its placebo and with it, as one table.

Not here: the work (`evaluate/grid.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from align_echo.cli.console import cost, leave, print_whole, run_display, run_folder, say
from align_echo.cli.options import DryRun, Out, Resume, takes
from align_echo.evaluate.forecast import forecast_grid
from align_echo.evaluate.grid import (
    GridConfig,
    GridSummary,
    faults_line,
    grid_table,
    plan_grid,
    play_grid,
    refusals_lines,
)
from align_echo.rollout.faults import InterfaceConduct, overstepped, tell, verdict


@takes(GridConfig)
def grid(config: GridConfig, out: Out = None, resume: Resume = False, dry_run: DryRun = False) -> None:
    """Play environments x agents, without and with an interface, and print one table."""
    axes = plan_grid(config)
    if dry_run:
        print(*forecast_grid(axes).lines, sep="\n")
        return
    path = run_folder(out, resume, "grid", "-".join(axes.interfaces))
    with run_display(path, resume=resume) as display:
        summary, played_by = play_grid(axes, path, resume=resume, progress=display)
    conducts = _show(summary, played_by, path, display.spent)
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


def _show(summary: GridSummary, played_by: Sequence[str], path: Path, spent: str = "") -> dict[str, InterfaceConduct]:
    """Print the table and any trouble, and return the conduct of the interface in each side of each cell."""
    print_whole(grid_table(summary))
    print()
    print(*refusals_lines(summary.cells), *played_by, sep="\n")
    for cell in summary.cells:
        if line := faults_line(cell):
            print(line)
    if not summary.faults:
        print("faults: none")
    conducts = {
        f"{cell.environment} {cell.agent} {name}": side.conduct
        for cell in summary.cells
        for name, side in cell.sides.items()
    }
    for line in tell(conducts):
        print(line)
    cost(summary.usage, spent)
    say(f"written: {path / 'summary.json'} and a folder for each cell beside it")
    return conducts
