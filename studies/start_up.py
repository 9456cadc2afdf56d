"""What a command costs before it does anything: `python -m studies.start_up [--against CHECKOUT] [--rounds N]`.

`align-echo doctor`, and `align-echo evaluate` of one task of ALFWorld by the pocket model, each in a process of its
own, by turns with this checkout and with another: a folder, or a revision of git, which is checked out beside it and
removed again (default: the last one in which every command imported every verb, and the pocket model was run by
`transformers`). One round of each comes first and is not counted: it compiles. Timed is processor time, of all that a
command starts. What both print, and the trajectories that both write, must be the same bytes.

Prints a table, then one JSON line: `value` is the median of `evaluate` here, `baseline` that of the other, `interval`
from the least to the most of the rounds (it holds the median with 95% from 6 rounds on); `doctor` holds the same of
`doctor`, `load` is that of the last minute for each processor. Outside a checkout of git, and where the revision is not
in it, the line says what is `missing`. Leaves with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from studies.rounds import at_least_one

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "80fa3da"
COMMANDS = {
    "evaluate": ("evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--out", "run"),
    "doctor": ("doctor",),
}


@dataclass
class Measured:
    """A command with one checkout: processor seconds of each round, and what it printed and wrote in each."""

    seconds: list[float] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


def run(command: tuple[str, ...], checkout: Path) -> tuple[float, str]:
    """Processor seconds of a command with the library of a checkout, and what it printed and wrote."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "align_echo.cli.main", *command],
            cwd=folder, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        written = "".join(file.read_text() for file in sorted(Path(folder).rglob("trajectories/*.jsonl")))
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout + written


@contextmanager
def checkout_of(against: str) -> Iterator[Path]:
    """The folder, or a checkout of the revision for as long as the block runs. Raises `CalledProcessError` for neither.
    """
    if Path(against, "align_echo").is_dir():
        yield Path(against).resolve()
        return
    with TemporaryDirectory() as folder:
        made = ["git", "-C", str(ROOT), "worktree", "add", "--detach", f"{folder}/other", against]
        subprocess.run(made, check=True, capture_output=True, text=True)
        try:
            yield Path(folder, "other")
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", f"{folder}/other"], check=True)


def measure(other: Path, rounds: int) -> dict[str, tuple[Measured, Measured]]:
    """Every command here and there, by turns; the first round is not counted."""
    measured = {name: (Measured(), Measured()) for name in COMMANDS}
    for number in range(rounds + 1):
        for name, command in COMMANDS.items():
            for arm, checkout in zip(measured[name], (ROOT, other), strict=True):
                seconds, made = run(command, checkout)
                arm.made.add(made)
                arm.seconds += [seconds] if number else []
        last = {name: [arm.seconds[-1:] for arm in arms] for name, arms in measured.items()}
        print(f"round {number} of {rounds}: {last}", file=sys.stderr, flush=True)
    return measured


def figures(here: Measured, there: Measured) -> dict[str, object]:
    """The figures of a command as they stand in the JSON line."""
    value, baseline = statistics.median(here.seconds), statistics.median(there.seconds)
    return {
        "value": round(value, 3),
        "unit": "CPU s",
        "baseline": round(baseline, 3),
        "ratio": round(value / baseline, 3),
        "n": len(here.seconds),
        "interval": [round(min(here.seconds), 3), round(max(here.seconds), 3)],
        "baseline_interval": [round(min(there.seconds), 3), round(max(there.seconds), 3)],
        "same": here.made == there.made and len(here.made) == 1,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=BEFORE, help="the folder of a checkout, or a revision of git")
    parser.add_argument("--rounds", type=at_least_one, default=6)
    given = parser.parse_args()
    try:
        with checkout_of(given.against) as other:
            measured = measure(other, given.rounds)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        reason = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1]
        print(json.dumps({"name": "start_up", "missing": f"{given.against}: {reason}"}))
        return 0
    told = {name: figures(*arms) for name, arms in measured.items()}
    print("| command | here, CPU s | there, CPU s | ratio | same output |")
    print("|---|---|---|---|---|")
    for name, row in told.items():
        same = "yes" if row["same"] else "**no**"
        print(f"| {name} | {row['value']} | {row['baseline']} | {row['ratio']} | {same} |")
    load = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    print(json.dumps({"name": "start_up", **told["evaluate"], "doctor": told["doctor"], "load": load}))
    return 0 if all(row["same"] for row in told.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
