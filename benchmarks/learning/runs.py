"""One training run and one measurement after the other, each a command of its own in a folder of its own.

What is finished is not done again, and what was cut goes on: a study of hours can be stopped at any time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.learning.studies import Study

START = "start"
TEST, TEST_LAST = "test", "test-last"
LAST_STEP = ", last step"
COMMAND = "import sys; from align_echo.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Job:
    """An arm under a seed: the arguments of `align-echo` that train it (none: nothing is trained) and measure it.

    `name` is the folder of the measurement within that of the run.
    """

    arm: str
    seed: int
    folder: Path
    training: tuple[str, ...]
    measuring: tuple[str, ...]
    name: str = TEST

    @property
    def measured(self) -> Path:
        """Where the measurement is."""
        return self.folder / self.name

    @property
    def episodes(self) -> Path:
        """The measured episodes, a `Trajectory` a line."""
        return next((self.measured / "trajectories").glob("*.jsonl"))

    @property
    def finished(self) -> bool:
        """Whether it was measured."""
        return (self.measured / "summary.json").is_file()


def measuring(study: Study, model: str, seed: int, out: Path, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Arguments of `align-echo` that measure a model as a study does, with `more` of them, into the folder `out`."""
    return (
        *("evaluate", "--env", study.env, "--agent", "vanilla", "--model", model),
        *("--split", study.split, "--tasks", str(study.tasks), "--seed", str(seed)),
        *("--temperature", "1", "--episodes-per-task", str(study.samples)),
        *(*more, "--out", str(out)),
    )


def jobs(study: Study, arms: Sequence[str], seeds: int, out: Path) -> list[Job]:
    """Every arm under every seed and, as `START`, the model before training; seeds outermost: what is done first is
    already a comparison.
    """
    return [
        _job(study, arm, seed, out / arm / f"seed-{seed}") for seed in range(1, seeds + 1) for arm in (START, *arms)
    ]


def _job(study: Study, arm: str, seed: int, folder: Path) -> Job:
    if arm == START:
        return Job(arm, seed, folder, (), measuring(study, study.start, seed, folder / TEST))
    training = ("train", "--config", str(study.arms[arm]), "--seed", str(seed), "--out", str(folder))
    return Job(arm, seed, folder, training, measuring(study, str(folder / "policy"), seed, folder / TEST))


def at_last_step(study: Study, job: Job) -> Job:
    """The same training, measured with the weights of its last step in place of the best ones."""
    model = str(job.folder / "last" / "policy")
    again = measuring(study, model, job.seed, job.folder / TEST_LAST)
    return replace(job, arm=job.arm + LAST_STEP, measuring=again, name=TEST_LAST)


def trained_seeds(*arms: Path) -> list[int]:
    """The seeds under which every one of these arms of a study has a trained policy."""
    found = [{int(one.parent.name.removeprefix("seed-")) for one in arm.glob("seed-*/policy")} for arm in arms]
    return sorted(set.intersection(*found))


def finish(todo: Sequence[Job], *, processes: int, say: Callable[[str], None]) -> None:
    """Do what is not done yet. Raises `RuntimeError` for a command that fails."""
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda job: _finish(job, say), todo))


def _finish(job: Job, say: Callable[[str], None]) -> None:
    for arguments, folder in ((job.training, job.folder), (job.measuring, job.measured)):
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
