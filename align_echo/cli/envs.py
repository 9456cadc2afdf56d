"""`align-echo envs`: list the environments and connectors, check your own, and begin a new one.

Not here: the work (`evaluate/environment_check.py`, `evaluate/environment_scaffold.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from align_echo.cli.console import say, stdout
from align_echo.cli.options import takes
from align_echo.errors import AlignEchoError
from align_echo.evaluate.environment_check import CheckConfig, check_environment
from align_echo.evaluate.environment_scaffold import write_scaffold
from align_echo.evaluate.tables import plain_table
from align_echo.interface.contract import shipped_interfaces
from align_echo.wrappers.catalogue import CONNECTORS, ENVIRONMENTS, environment, summary_of

envs = typer.Typer(help="List the environments, check your own, begin a new one.")


@envs.callback(invoke_without_command=True)
def list_all(context: typer.Context) -> None:
    """List the environments and connectors, built-in ones and those of installed packages.

    A connector's NAME is a name in another package. Use your own environment with --env module:Name.
    """
    if context.invoked_subcommand is not None:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "what it is", "splits", "step limit", "shipped interfaces", "from"):
        table.add_column(heading)
    shipped = shipped_interfaces()
    for name, entry in ENVIRONMENTS.entries().items():
        try:
            spec = environment(name)
        except AlignEchoError as error:
            table.add_row(name, f"cannot be used: {error}", "-", "-", "-", entry.origin)
            continue
        interfaces = [interface.partition("/")[2] for interface in shipped if interface.startswith(f"{name}/")]
        splits, interface_names = ", ".join(spec.splits), ", ".join(interfaces) or "-"
        table.add_row(name, spec.summary, splits, str(spec.step_limit), interface_names, entry.origin)
    for name, entry in CONNECTORS.entries().items():
        try:
            summary = summary_of(CONNECTORS.get(name))
        except AlignEchoError as error:
            summary = f"cannot be used: {error}"
        table.add_row(f"{name}:NAME", summary, "-", "-", "-", entry.origin)
    stdout().print(table)


@envs.command("check")
@takes(CheckConfig)
def check(config: CheckConfig) -> None:
    """Play some tasks and report whether the environment repeats itself, which refusals are recognised, what it costs.
    """
    report = check_environment(config)
    table = plain_table(f"{report.environment}, split {report.split}: {report.tasks} tasks, {report.turns} turns")
    for head in ("", "property", "finding"):
        table.add_column(head, overflow="fold")
    for finding in report.findings:
        table.add_row("" if finding.state == "good" else finding.state, finding.name, Text(finding.message))
    stdout().print(table)
    if report.troubles:
        raise typer.Exit(1)


@envs.command("new")
def new(name: Annotated[str, typer.Argument(help="Name of the module to write, such as lockers.")]) -> None:
    """Write NAME.py with a small environment that plays, to be changed into your own."""
    path = write_scaffold(name, Path())
    say(f"written: {path}; next: align-echo envs check --env {path.stem}:ENV")
    say(f"then: align-echo evaluate --env {path.stem}:ENV --agent expert --tasks 5")
