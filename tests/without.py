"""Commands in a process that lacks packages, as do those that it starts: `python -m tests.without < COMMANDS` (JSON).

Prints for each command its exit status, what it says, how many episodes it played, and whether it left its folder.
`LACKING` is for a `sitecustomize.py` on the path, and reads the packages from the variable `LACKING`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

LACKING = """
import importlib.abc, importlib.util, os, sys

lacking, find = os.environ["LACKING"].split(","), importlib.util.find_spec

class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in lacking:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in lacking else find(name, package)
"""


def main() -> None:
    from align_echo.cli.main import main as run
    from align_echo.rollout import batches

    attempt, played = batches._attempt, [0]

    def counted(*given: Any) -> Any:
        played[0] += 1
        return attempt(*given)

    for number, command in enumerate(json.load(sys.stdin)):
        out, said, played[0] = Path(f"out-{number}"), io.StringIO(), 0
        with (
            patch.object(batches, "_attempt", counted),
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            status = run([*command, "--out", str(out)])
        told = {"status": status, "said": said.getvalue(), "episodes": played[0], "left": out.exists()}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
