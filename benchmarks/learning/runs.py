"""One training run and one measurement after the other, each in a process and a folder of its own.

What is finished is not done again, and what was cut goes on: a study of hours can be stopped at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from align_echo.errors import AlignEchoError
from align_echo.evaluate.plan import plan_evaluation
from benchmarks.learning.studies import Study
from benchmarks.learning.verbs import Work, evaluate, train

START = "start"
TEST, TEST_LAST = "test", "test-last"
LAST_STEP = ", last step"


@dataclass(frozen=True)
class Job:
    """An arm under a seed: what trains it, and what measures it; None for what is not done.

    `name` is the folder of the measurement within that of the run.
    """

    arm: str
    seed: int
    folder: Path
    training: Work | None
    measuring: Work | None
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


def measuring(
    study: Study,
    model: str,
    seed: int,
    *,
    interface: str = "none",
    best_of: int = 1,
    refine_rounds: int | None = None,
    critic: str | None = None,
    critic_form: str | None = None,
) -> Work:
    """Measures a model as a study does, with what is asked for beside it."""
    plan = partial(
        plan_evaluation,
        env=study.env,
        agent="vanilla",
        model=model,
        split=study.split,
        tasks=study.tasks,
        seed=seed,
        temperature=1.0,
        episodes_per_task=study.samples,
        interface=interface,
        best_of=best_of,
        refine_rounds=refine_rounds,
        critic=critic,
        critic_form=critic_form,
    )
    return partial(evaluate, plan)


def jobs(study: Study, arms: Sequence[str], seeds: int, out: Path) -> list[Job]:
    """Every arm under every seed and, as `START`, the model before training; seeds outermost: what is done first is
    already a comparison.
    """
    return [
        _job(study, arm, seed, out / arm / f"seed-{seed}") for seed in range(1, seeds + 1) for arm in (START, *arms)
    ]


def _job(study: Study, arm: str, seed: int, folder: Path) -> Job:
    if arm == START:
        return Job(arm, seed, folder, None, measuring(study, study.start, seed))
    training = partial(train, config=study.arms[arm], seed=seed)
    return Job(arm, seed, folder, training, measuring(study, str(folder / "policy"), seed))


def at_last_step(study: Study, job: Job) -> Job:
    """The same training, measured with the weights of its last step in place of the best ones."""
    model = str(job.folder / "last" / "policy")
    again = measuring(study, model, job.seed)
    return replace(job, arm=job.arm + LAST_STEP, measuring=again, name=TEST_LAST)


def trained_seeds(*arms: Path) -> list[int]:
    """The seeds under which every one of these arms of a study has a trained policy."""
    seeds = [{int(policy.parent.name.removeprefix("seed-")) for policy in arm.glob("seed-*/policy")} for arm in arms]
    return sorted(set.intersection(*seeds))


def finish(todo: Sequence[Job], *, processes: int, say: Callable[[str], None]) -> None:
    """Do what is not done yet, each part in a process of one thread. Raises `RuntimeError` for a part that fails."""
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda job: _finish(job, say), todo))


def _finish(job: Job, say: Callable[[str], None]) -> None:
    for what, work, folder in (
        ("training", job.training, job.folder),
        ("measuring", job.measuring, job.measured),
    ):
        if work is not None and not (folder / "summary.json").is_file():
            title = f"{job.arm}, seed {job.seed}: {what}"
            say(title)
            _do(title, work, folder)


def _do(title: str, work: Work, folder: Path) -> None:
    log = folder.parent / f"{folder.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the process that is started, when it imports torch
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        failure = process.submit(_logged, work, folder, log).result()
    if failure:
        raise RuntimeError(f"{title} failed: {failure} (see {log})")


def _logged(work: Work, folder: Path, log: Path) -> str:
    """Do it in this process; what went wrong, in one line, is empty if nothing did."""
    with log.open("a", encoding="utf-8") as out, redirect_stdout(out), redirect_stderr(out):
        try:
            work(folder, (folder / "config.json").is_file())
        except AlignEchoError as error:
            print(error, flush=True)
            return str(error)
    return ""
