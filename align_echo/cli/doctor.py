"""`align-echo doctor`: what is installed, which data and keys exist, and how to get missing ones.

It never fails: the exit status is 0. Not here: the checks (`align_echo/installation.py`).
"""

from __future__ import annotations

from rich.text import Text

from align_echo.cli.console import stdout
from align_echo.installation import look_around


def doctor() -> None:
    """Say what is installed, which data and keys exist, and how to get missing ones."""
    console = stdout()
    for finding in look_around():
        mark = Text("ok", style="green") if finding.good else Text("--", style="yellow")
        advice = f"\n      {finding.advice}" if finding.advice else ""
        console.print(Text.assemble(mark, f"  {finding.subject}: {finding.state}", advice), soft_wrap=True)
