"""A machine without keys, an empty folder to stand in, and the command line, as the tests of that have them."""

from __future__ import annotations

from tests.cli.conftest import bare_machine, run

__all__ = ["bare_machine", "run"]
