"""`align-echo interface show` and `audit`: what an interface's rules rest on, and whether its messages are true.

Left out: the work (`align_echo/evaluate/hint_record.py`, `align_echo/align/audit`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli import options
from align_echo.cli.console import stdout
from align_echo.errors import UsageError
from align_echo.evaluate.hint_record import keep_record, record_of_run
from align_echo.evaluate.tables import hints_table, rules_table
from align_echo.hints import silenced_by
from align_echo.interface import Interface
from align_echo.sandbox.session import printable
from align_echo.wrappers.catalogue import environment

interface = typer.Typer(name="interface", help="Look at an interface: its rules, and whether what it says is true.")
Name = Annotated[str, typer.Argument(help="A shipped name or a .py file.")]


@interface.command("show")
def show(
    name: Name,
    env: options.Env,
    run: Annotated[
        Path | None, typer.Option("--run", help="A folder of evaluate or generate-interface: what became of its hints.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add --run's counts to the record that later runs of a .py file begin with.")
    ] = False,
) -> None:
    """Show an interface's rules with the experiments behind each, and what became of its hints."""
    if keep and run is None:
        raise UsageError("--keep keeps what a run counted: name its folder with --run DIR")
    shown = _named(name, env)
    print(f"{shown.name}@{shown.content_hash}, made by {printable(shown.provenance.backend)}")
    if shown.provenance.rules:
        stdout().print(rules_table(shown.provenance.rules))
    for unresolved in shown.provenance.unresolved:
        print(f"not resolved: {printable(unresolved)}")
    if run is not None:
        record = record_of_run(shown, run)
        stdout().print(hints_table(record, f"Hints in the episodes of {run}"))
        shown = keep_record(shown, Path(name), record) if keep else shown
    if shown.record:
        stdout().print(hints_table(shown.record, "Record of earlier runs, with which every episode begins"))
    for rule in sorted(silenced_by(shown.record)):
        print(f"silenced from the start: {printable(rule)}")


def _named(name: str, env: str) -> Interface:
    made = environment(env).interface(name)
    if made is None:
        raise UsageError("'none' is the plain environment: name an interface")
    return made
