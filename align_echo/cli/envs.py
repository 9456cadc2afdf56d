"""`align-echo envs`: the environments, where each comes from, their splits and their shipped interfaces."""

from __future__ import annotations

from rich.table import Table

from align_echo.cli.console import stdout
from align_echo.errors import AlignEchoError
from align_echo.interface.contract import shipped_interfaces
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment


def envs() -> None:
    """List the environments: built-in ones and those of installed packages. Use your own with --env module:Name."""
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
    stdout().print(table)
