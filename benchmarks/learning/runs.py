"""One training run and one measurement after the other, each a command of its own in a folder of its own.

What is finished is not done again, and what was cut goes on: a study of hours can be stopped at any time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.learning.studies import Study

START = "start"
COMMAND = "from align_echo.cli.main import main; main()"


@dataclass(frozen=True)
class Job:
    """A method under a seed; `START` is the model before training, which is measured alone."""

    study: Study
    arm: str
    seed: int
    folder: Path

    @property
    def training(self) -> list[str]:
        """The arguments of `align-echo` that train it; none for the start."""
        if self.arm == START:
            return []
        config = str(self.study.arms[self.arm])
        return ["train", "--config", config, "--seed", str(self.seed), "--out", str(self.folder)]

    @property
    def measuring(self) -> list[str]:
        """The arguments of `align-echo` that measure it."""
        model = self.study.start if self.arm == START else str(self.folder / "policy")
        return [
            *("evaluate", "--env", self.study.env, "--agent", "vanilla", "--model", model),
            *("--split", self.study.split, "--tasks", str(self.study.tasks), "--seed", str(self.seed)),
            *("--temperature", "1", "--episodes-per-task", str(self.study.samples)),
            *("--out", str(self.folder / "test")),
        ]

    @property
    def test(self) -> Path:
        """The measured episodes, a `Trajectory` a line."""
        return self.folder / "test" / "trajectories" / "none.jsonl"


def jobs(study: Study, arms: Sequence[str], seeds: int, out: Path) -> list[Job]:
    """Every arm under every seed, seeds outermost: what is done first is already a comparison."""
    return [
        Job(study, arm, seed, out / arm / f"seed-{seed}") for seed in range(1, seeds + 1) for arm in (START, *arms)
    ]


def finish(todo: Sequence[Job], *, processes: int, say: Callable[[str], None]) -> None:
    """Do what is not done yet. Raises `RuntimeError` for a command that fails."""
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda job: _finish(job, say), todo))


def _finish(job: Job, say: Callable[[str], None]) -> None:
    for arguments, folder in ((job.training, job.folder), (job.measuring, job.folder / "test")):
        if arguments and not (folder / "summary.json").is_file():
            say(f"{job.arm}, seed {job.seed}: {arguments[0]}")
            _run(arguments, folder)


def _run(arguments: Sequence[str], folder: Path) -> None:
    begun = (folder / "config.json").is_file()
    log = folder.parent / f"{folder.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as out:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments, *(["--resume"] if begun else [])],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    if done.returncode:
        last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
        raise RuntimeError(f"align-echo {' '.join(arguments)} failed: {' '.join(last)} (see {log})")
