"""`align-echo envs`: the environments, their splits and the interfaces that come with the package."""

from __future__ import annotations

from rich.table import Table

from align_echo.cli.console import stdout
from align_echo.interface import shipped_interfaces
from align_echo.wrappers.catalogue import environments


def envs() -> None:
    """List the environments."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "what it is", "splits", "step limit", "shipped interfaces"):
        table.add_column(heading)
    shipped = shipped_interfaces()
    for spec in environments().values():
        names = [name.partition("/")[2] for name in shipped if name.startswith(f"{spec.name}/")]
        splits = ", ".join(spec.splits)
        table.add_row(spec.name, spec.summary, splits, str(spec.step_limit), ", ".join(names) or "-")
    stdout().print(table)
