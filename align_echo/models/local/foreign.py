"""Process third-party files first in a separate process with limited CPU time and memory.

Not here: the process's work (`foreign_process.py`), and checks that run nothing (`model_files.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from align_echo.errors import ModelError

SECONDS = 10
"""CPU seconds a process may use, including its start."""

MEMORY = 2 * 2**30
"""Memory limit in bytes; the required libraries take 200 MB."""

_PATIENCE = 120.0
_SCRIPT = Path(__file__).with_name("foreign_process.py")


class BoundedOutcome(NamedTuple):
    """Answers of a process, in order, and why it stopped early: "" if it gave all."""

    answers: list[dict[str, Any]]
    excess: str


def run_bounded(request: Mapping[str, Any], *, seconds: int = SECONDS, memory: int = MEMORY) -> BoundedOutcome:
    """Run a request in a separate process with limits. Raises `ModelError` if no process can be started."""
    command = [sys.executable, "-I", str(_SCRIPT), str(seconds), str(memory)]
    alone = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=json.dumps(request), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            encoding="utf-8", env=os.environ | alone, timeout=_PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return BoundedOutcome([], f"gave no answer in {_PATIENCE:g} s")
    except OSError as error:
        raise ModelError(f"no process can be started to try the model's files in: {error}") from error
    answers = [json.loads(line) for line in done.stdout.splitlines(keepends=True) if line.endswith("\n")]
    if done.returncode == 0:
        return BoundedOutcome(answers, answers.pop()["spent"] if answers and "spent" in answers[-1] else "")
    late = done.returncode == -getattr(signal, "SIGXCPU", 0)
    return BoundedOutcome(
        answers, f"needs more than {seconds} s of computing" if late else "needs too much memory, or crashes"
    )
