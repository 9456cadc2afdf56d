"""`align-echo grid`: environments x agents, each without an interface, with its placebo and with it, as one table.

Not here: the work (`evaluate/grid.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from align_echo.agents.catalogue import AGENTS
from align_echo.cli import options
from align_echo.cli.console import cost, leave, print_whole, run_display, run_folder, say
from align_echo.evaluate.grid import GridSummary, faults_line, grid_table, play_grid, read_axes, refusals_lines
from align_echo.rollout.faults import InterfaceConduct, overstepped, tell, verdict

DEFAULT_TASKS = 20


def grid(
    env: Annotated[list[str], typer.Option("--env", help="An environment; repeat it for more.")],
    agent: Annotated[
        list[str], typer.Option("--agent", help=f"An agent; repeat it for more: {', '.join(AGENTS.entries())}.")
    ],
    interface: Annotated[str, typer.Option("--interface", help="A shipped name, looked up in each environment.")],
    tasks: Annotated[int, typer.Option("--tasks", help="Tasks of each environment's test split.")] = DEFAULT_TASKS,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    placebo: options.Placebo = True,
    retract: options.Retract = True,
    max_tokens: options.MaxTokens = None,
    agent_preset: options.AgentPreset = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> None:
    """Play environments x agents, without and with an interface, and print one table."""
    axes = read_axes(
        env, agent, interface, tasks=tasks, model=model, base_url=base_url, seed=seed, temperature=temperature,
        placebo=placebo, retract=retract, max_tokens=max_tokens, agent_preset=agent_preset, workers=workers,
    )  # fmt: skip
    path = run_folder(out, resume, "grid", "-".join(axes.interfaces))
    with run_display(path, resume=resume) as display:
        summary, played_by = play_grid(axes, path, resume=resume, progress=display)
    conducts = _show(summary, played_by, path)
    leave(agent_broke=display.agent_broke, trouble=verdict(conducts), warning=overstepped(conducts))


def _show(summary: GridSummary, played_by: Sequence[str], path: Path) -> dict[str, InterfaceConduct]:
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
    cost(summary.usage)
    say(f"written: {path / 'summary.json'} and a folder for each cell beside it")
    return conducts
