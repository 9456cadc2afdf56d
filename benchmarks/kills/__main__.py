"""Kill commands at random moments and go on with them: `python -m benchmarks.kills [--of JOB] [--times N]`.

Every job is first run undisturbed, twice: the second run is the control, which must be equal to the first. Then it is
started again and again. Each process of it is killed (SIGKILL) at a moment drawn uniformly from the time that the
undisturbed run took, every other time with its whole process group and else alone, and gone on with by `--resume` until
it ends by itself. Its folder must then hold what the undisturbed one holds: the same files with the same bytes, but for
what a clock said (`comparing.py` lists it). What is left over is counted too: files that the undisturbed run does not
leave in its folder, anything in the temporary folder, and processes that still run 20 s after a kill.

`--command` kills any other command: `{out}` in it is the folder that it writes, and it must take `--resume`.

Prints a row for each job and what was wrong, then one JSON line: `value` is the number of runs that were not equal or
left something over, of `n`. Leaves with 1 if it is not 0.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kills.comparing import contents, differing, left_over
from benchmarks.kills.jobs import JOBS, Job
from benchmarks.kills.lives import Place

MOST_KILLS = 8
"""Of one run; the process after them may end."""


@dataclass
class Tally:
    """What became of all runs of a job. `wrong` counts what was wrong with them, in words."""

    job: str
    seconds: float
    control: bool
    runs: int = 0
    kills: int = 0
    lives: int = 0
    equal: int = 0
    clean: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> str:
        control = "equal" if self.control else "**differs**"
        equal, clean = (f"{count} of {self.runs}" for count in (self.equal, self.clean))
        return f"| {self.job} | {self.seconds:.1f} | {control} | {self.kills} | {self.lives} | {equal} | {clean} |"


def undisturbed(job: Job, folder: Path) -> tuple[dict[str, str], int, float]:
    """What the folder holds after a run without a kill, its exit status, and seconds."""
    place = Place(job, folder)
    life = place.live(kill_after=None, group=True)
    if life.status is None or life.status > 1:
        raise SystemExit(f"{job.name} does not run at all: {life.said}")
    return contents(place.out), life.status, life.seconds


def kill(job: Job, times: int, seed: int) -> Tally:
    """All runs of a job until it was killed so often."""
    dice = random.Random(f"{job.name} {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected, status, seconds = undisturbed(job, folder / "first")
        again, _, _ = undisturbed(job, folder / "second")
        tally = Tally(job.name, seconds, control=expected == again)
        tally.wrong.update(f"control: {path}" for path in differing(expected, again) + left_over(expected, again))
        while tally.kills < times:
            tally.runs += 1
            place = Place(job, folder / f"run-{tally.runs}")
            _one_run(place, (expected, status, seconds), dice, tally)
            shutil.rmtree(place.folder)
            print(f"{job.name}: {tally.kills} kills, {tally.equal} of {tally.runs} runs equal", file=sys.stderr)
    return tally


def _one_run(place: Place, undisturbed_run: tuple[dict[str, str], int, float], dice: random.Random, tally: Tally) -> None:
    expected, status, seconds = undisturbed_run
    orphans: list[str] = []
    kills = 0
    while True:
        tally.lives += 1
        after = dice.uniform(0, seconds) if kills < MOST_KILLS else None
        life = place.live(kill_after=after, group=tally.lives % 2 == 0)
        orphans += life.orphans
        if life.status is not None:
            break
        kills += 1
    tally.kills += kills
    held = contents(place.out) if place.out.is_dir() else {}
    different = differing(expected, held)
    wrong = [f"holds something else: {path}" for path in different]
    if life.status != status:
        wrong.append(f"ended with status {life.status}: {life.said}")
    remains = [f"file left over: {path}" for path in left_over(expected, held)]
    remains += [f"temporary file: {entry.name}" for entry in place.temporary.iterdir()]
    remains += [f"process left over: {command}" for command in orphans]
    tally.equal += not wrong
    tally.clean += not remains
    tally.wrong.update(wrong + remains)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", action="append", choices=[*JOBS], help="this job alone; may be repeated")
    parser.add_argument("--command", help="kill this instead: a command with {out} in it that takes --resume")
    parser.add_argument("--times", type=int, default=50, help="kills of each job (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    given = parser.parse_args()
    jobs = [JOBS[name] for name in given.of or JOBS]
    if given.command:
        jobs = [Job("command", tuple(shlex.split(given.command)))]
    tallies = []
    for job in jobs:
        tallies.append(kill(job, given.times, given.seed))
    print("| job | undisturbed, s | again | kills | lives | equal | nothing left over |\n|---|---|---|---|---|---|---|")
    print("\n".join(tally.row for tally in tallies))
    for tally in tallies:
        for what, count in tally.wrong.most_common():
            print(f"- {tally.job}: {what} ({count} times)")
    runs = sum(tally.runs for tally in tallies)
    bad = sum(max(tally.runs - tally.equal, tally.runs - tally.clean) for tally in tallies)
    kills = {tally.job: tally.kills for tally in tallies}
    print(json.dumps({"benchmark": "kills", "value": bad, "n": runs, "kills": kills, "seed": given.seed}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
