"""Kill commands at random moments, go on with them, and compare what they leave with an undisturbed run.

Every job is first run undisturbed, twice: the second run is the control, which must be equal to the first. Then it is
started again and again. Each process of it is killed (SIGKILL) at a moment drawn uniformly from the CPU time that the
undisturbed run took (so that other work on the machine moves no kill), half of the time with its whole process group
and else alone, and gone on with by `--resume` until it ends by itself. Its folder must then hold the same files with
the same bytes, but for what a clock said (`comparing.py` lists it). What is left over is counted too: other files in
its folder, anything in the temporary folder, and processes that still run 20 s after a kill.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kills.comparing import contents, differing, left_over, where_differing
from tests.kills.jobs import Job
from tests.kills.lives import Workspace

MOST_KILLS = 8
"""Of one run; the process after them may end."""

TORCHS_OWN = ("torchinductor_", "torchelastic_")
"""How temporary folders begin that are torch's: a user's cache, which importing it makes and all processes share, and
what its launcher keeps of its processes' output, which nobody removes once the launcher was killed."""


@dataclass(frozen=True)
class Undisturbed:
    """What the folder holds after a run without a kill, its exit status, its CPU seconds, and a copy of the folder."""

    contents: dict[str, str]
    status: int
    cpu: float
    copy: Path


@dataclass
class Tally:
    """What became of all runs of a job. `wrong` counts what was wrong with them, in words.

    `kills` are all, `late` those of processes that had begun to write.
    """

    job: str
    cpu: float
    control: bool
    runs: int = 0
    kills: int = 0
    late: int = 0
    lives: int = 0
    equal: int = 0
    clean: int = 0
    wrong: Counter[str] = field(default_factory=Counter)



def undisturbed(job: Job, folder: Path, copy: Path) -> Undisturbed:
    """A run without a kill, of whose folder a copy is kept."""
    workspace = Workspace(job, folder)
    life = workspace.live(kill_after=None, group=True)
    if life.status not in (0, 1):
        raise SystemExit(f"{job.name} does not run at all: {life.said}")
    held = contents(workspace.out)
    shutil.move(workspace.out, copy)
    shutil.rmtree(folder)
    return Undisturbed(held, life.status, life.cpu, copy)


def kill(job: Job, times: int, seed: int) -> Tally:
    """All runs of a job until it was killed so often."""
    dice = random.Random(f"{job.name} {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"  # the same for all: some files hold their own path
        first, again = (undisturbed(job, folder, Path(name) / copy) for copy in ("first", "again"))
        tally = Tally(job.name, first.cpu, control=first.contents == again.contents)
        different = differing(first.contents, again.contents) + left_over(first.contents, again.contents)
        tally.wrong.update(f"control: {path}" for path in different)
        _tell(differing(first.contents, again.contents), first.copy, again.copy)
        while tally.kills < times:
            _one_run(Workspace(job, folder), first, dice, tally)
            shutil.rmtree(folder)
            print(f"{job.name}: {tally.kills} kills, {tally.equal} of {tally.runs} runs equal", file=sys.stderr)
    return tally


def _one_run(workspace: Workspace, first: Undisturbed, dice: random.Random, tally: Tally) -> None:
    orphans: list[str] = []
    kills = 0
    while True:
        tally.lives += 1
        after = dice.uniform(0, first.cpu) if kills < MOST_KILLS else None
        life = workspace.live(kill_after=after, group=dice.random() < 0.5)
        orphans += life.orphans
        if life.status is not None:
            break
        kills += 1
        tally.late += life.begun
    held = contents(workspace.out) if workspace.out.is_dir() else {}
    other = differing(first.contents, held)
    wrong = [f"holds something else: {path}" for path in other]
    _tell(other, first.copy, workspace.out)
    if life.status != first.status:
        wrong.append(f"ended with status {life.status}: {life.said}")
        print((workspace.folder / "said").read_text(errors="replace"), file=sys.stderr)
    remains = [f"file left over: {path}" for path in left_over(first.contents, held)]
    temporary = (entry.name for entry in workspace.temporary.iterdir())
    remains += [f"temporary file: {name}" for name in temporary if not name.startswith(TORCHS_OWN)]
    remains += [f"process left over: {program}" for program in orphans]
    tally.runs += 1
    tally.kills += kills
    tally.equal += not wrong
    tally.clean += not remains
    tally.wrong.update(wrong + remains)
    print("".join(f"{line}\n" for line in wrong + remains), end="", file=sys.stderr, flush=True)


def _tell(paths: Sequence[str], undisturbed: Path, killed: Path) -> None:
    """Print where files differ."""
    for path in paths:
        for line in where_differing(undisturbed / path, killed / path):
            print(f"{path}: {line}", file=sys.stderr)
