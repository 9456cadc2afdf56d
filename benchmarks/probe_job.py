"""Seconds of learning an interface with the probe: `python -m benchmarks.probe_job [--against CHECKOUT] [--times N]`.

Runs `align-echo generate-interface --env alfworld --backend probe` (defaults: pocket model, 8 iterations at most, the
paper's tasks) in another checkout with one worker and in this one, in turn, and stops with status 1 unless all wrote
the same interface with the same evidence. `--agent` and `--iterations` make the job smaller. The last line is one JSON
object: `value` and `baseline` are median CPU seconds of this checkout and of the other, all processes counted;
`interval` is the least and the largest value; `clock_seconds` are medians by the clock, which need an idle machine:
`load` is the machine's when it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
COMMAND = "import sys; from align_echo.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Job:
    """One run: CPU seconds of all its processes, seconds by the clock, and what it wrote."""

    cpu: float
    clock: float
    interface: tuple[bytes, bytes]


def learned_in(checkout: Path, options: list[str]) -> Job:
    """Run the job with a checkout's code. Raises `CalledProcessError` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "interface"
        asked = ["generate-interface", "--env", "alfworld", "--backend", "probe", "--out", str(out), *options]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(
            [sys.executable, "-c", COMMAND, *asked],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            stdout=sys.stderr,
            check=True,
        )
        clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Job(cpu, clock, ((out / "interface.py").read_bytes(), (out / "interface.json").read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=HERE, help="a checkout to compare with (default: this one)")
    parser.add_argument("--times", type=int, default=1, help="runs of each (default: 1)")
    parser.add_argument("--agent", help="who plays (default: as the command chooses)")
    parser.add_argument("--iterations", type=int, help="at most so many (default: the command's)")
    parser.add_argument("--workers", help="of this checkout's runs alone (default: as the command chooses)")
    given = parser.parse_args()
    if given.times < 1 or not (given.against / "align_echo").is_dir():
        parser.error("--times is at least 1, and --against is a folder that holds align_echo/")
    options = ["--agent", given.agent] if given.agent else []
    options += ["--iterations", str(given.iterations)] if given.iterations else []
    ours, theirs = list[Job](), list[Job]()
    for _ in range(given.times):
        theirs.append(learned_in(given.against.resolve(), [*options, "--workers", "1"]))
        ours.append(learned_in(HERE, [*options, *(["--workers", given.workers] if given.workers else [])]))
    same = len({job.interface for job in (*ours, *theirs)}) == 1
    value, baseline = (statistics.median(job.cpu for job in jobs) for jobs in (ours, theirs))
    clocks = [statistics.median(job.clock for job in jobs) for jobs in (ours, theirs)]
    line = {
        "name": "probe job",
        "value": round(value, 1),
        "unit": "CPU seconds",
        "baseline": round(baseline, 1),
        "ratio": round(value / baseline, 3),
        "n": given.times,
        "interval": [round(min(job.cpu for job in ours), 1), round(max(job.cpu for job in ours), 1)],
        "clock_seconds": round(clocks[0], 1),
        "clock_seconds_baseline": round(clocks[1], 1),
        "load": round(os.getloadavg()[0], 1),
        "same_interface": same,
    }
    print(json.dumps(line))
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
