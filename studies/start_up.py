"""What a command costs before it does anything: `python -m studies.start_up [--against CHECKOUT] [--rounds N]`.

`align-echo doctor`, and `align-echo evaluate` of one task of ALFWorld by the pocket model, each in a process of its
own, by turns with the same command of another checkout; without `--against`, with a Python that only imports torch and
transformers. A first round is not counted: it compiles. Timed is processor time, of all that a command starts.

Prints a table, then one JSON line: `value` is the median of `evaluate` here, `baseline` that of the other, the rest as
in `rounds.py`; `doctor` holds the same of `doctor`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from studies.rounds import Round, at_least_one, compared, cpu_cost

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "evaluate": ("evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--out", "run"),
    "doctor": ("doctor",),
}
IMPORTS = ("-c", "import torch, transformers")


def run(words: tuple[str, ...], checkout: Path) -> Round:
    """Run Python with the library of a checkout, in a folder of its own."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Round(1, time.perf_counter() - clock, spent)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="the folder of another checkout")
    parser.add_argument("--rounds", type=at_least_one, default=3)
    given = parser.parse_args()
    if given.against and not (given.against / "align_echo").is_dir():
        parser.error(f"{given.against} is no checkout of align-echo")
    lines = {}
    print(f"{'CPU seconds':12} {'here':>8} {'baseline':>9} {'ratio':>6}")
    for name, command in COMMANDS.items():
        words = ("-m", "align_echo_command", *command)
        rounds: tuple[list[Round], list[Round]] = ([], [])
        for _ in range(given.rounds + 1):
            rounds[0].append(run(words, ROOT))
            rounds[1].append(run(words, given.against.resolve()) if given.against else run(IMPORTS, ROOT))
        here, there = (arm[1:] for arm in rounds)
        line = lines[name] = {"unit": "CPU s", **compared(here, there, cpu_cost, cpu_cost), "n": given.rounds}
        print(f"{name:12} {line['value']:8.2f} {line['baseline']:9.2f} {line['ratio']:6.2f}")
    print(json.dumps({"name": "start_up", **lines["evaluate"], "doctor": lines["doctor"]}))


if __name__ == "__main__":
    main()
