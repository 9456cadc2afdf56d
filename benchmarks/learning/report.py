"""What a study found: each method's held-out score, and what it gained over the baseline, with 95% intervals.

Intervals resample seeds and tasks, both at once: they hold for other seeds and other tasks. Three seeds are few for the
first. Left out: curves of training (`signals.jsonl` of each run).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from align_echo.errors import UsageError
from align_echo.files import write_atomically
from align_echo.intervals import RESAMPLES
from align_echo.types import Trajectory
from benchmarks.learning.runs import LAST_STEP, START, Job

Table = npt.NDArray[np.float64]


class Finding(BaseModel):
    """Mean over seeds and tasks of an arm; `value` and both ends of `ci95` are scores or shares of tasks, 0 to 1.

    `environment_steps` are turns, `steps` updates of the weights, `tokens` those that the models wrote: means of the
    seeds.
    """

    arm: str
    measure: str
    value: float
    ci95: tuple[float, float]
    n: int
    seeds: int
    gain: float | None = None
    gain_ci95: tuple[float, float] | None = None
    environment_steps: float | None = None
    steps: float | None = None
    tokens: float | None = None


def findings(done: Sequence[Job], *, baseline: str, seed: int = 0) -> list[Finding]:
    """Success and score of every arm; gains are over `baseline`, on what both have of seeds and tasks.

    Raises `UsageError` for an arm of which every episode broke.
    """
    by_arm: dict[str, list[Job]] = defaultdict(list)
    for job in done:
        by_arm[job.arm].append(job)
    results = []
    for measure in ("success", "score"):
        against = _means(by_arm[baseline], measure) if baseline in by_arm else {}
        for arm, runs in by_arm.items():
            means = _means(runs, measure)
            if not means:
                raise UsageError(f"every episode of {arm} broke: look into {runs[0].measured}")
            table = _table(means)
            gains = {key: means[key] - against[key] for key in means.keys() & against.keys()}
            gained = _table(gains) if gains and arm != baseline else None
            results.append(
                Finding(
                    arm=arm,
                    measure=measure,
                    value=float(np.nanmean(table)),
                    ci95=interval(table, seed),
                    n=int(np.isfinite(table).sum()),
                    seeds=len(runs),
                    gain=None if gained is None else float(np.nanmean(gained)),
                    gain_ci95=None if gained is None else interval(gained, seed),
                    environment_steps=_mean_of(runs, "environment_steps"),
                    steps=_mean_of(runs, "steps"),
                    tokens=_tokens(runs),
                )
            )
    return results


def compared(done: Sequence[Job], baseline: str) -> list[Finding]:
    """Best checkpoints beside the baseline's best one, last ones beside its last one."""
    last = [job for job in done if job.arm.endswith(LAST_STEP)]
    untrained = [job for job in done if job.arm == START]
    best = [job for job in done if job not in last]
    of_last = findings([*untrained, *last], baseline=baseline if baseline == START else baseline + LAST_STEP)
    return findings(best, baseline=baseline) + [finding for finding in of_last if finding.arm != START]


def _means(runs: Sequence[Job], measure: str) -> dict[tuple[int, str], float]:
    """By seed and task, the mean over the task's episodes; those that broke count for nothing."""
    by_task: dict[tuple[int, str], list[float]] = defaultdict(list)
    for job in runs:
        for line in job.episodes.read_text(encoding="utf-8").splitlines():
            trajectory = Trajectory.model_validate_json(line)
            if not trajectory.fault:
                by_task[job.seed, trajectory.task_id].append(
                    float(trajectory.won) if measure == "success" else trajectory.score
                )
    return {key: float(np.mean(scores)) for key, scores in by_task.items()}


def _table(means: Mapping[tuple[int, str], float]) -> Table:
    """[seeds, tasks], in order; NaN where there is none."""
    seeds, tasks = sorted({seed for seed, _ in means}), sorted({task for _, task in means})
    return np.asarray([[means.get((seed, task), np.nan) for task in tasks] for seed in seeds])


def interval(table: Table, seed: int = 0) -> tuple[float, float]:
    """Of the mean of a table [seeds, tasks], by resampling both; NaN cells count for nothing."""
    draw = np.random.default_rng(seed)
    seeds, tasks = table.shape
    means = [
        np.nanmean(table[draw.integers(seeds, size=seeds)][:, draw.integers(tasks, size=tasks)])
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def _mean_of(runs: Sequence[Job], key: str) -> float | None:
    if not runs[0].training:
        return None
    return float(np.mean([_summary(job.folder)[key] for job in runs]))


def _tokens(runs: Sequence[Job]) -> float | None:
    """What both roles wrote while an arm was trained."""
    if not runs[0].training:
        return None
    names = ("policy/tokens", "critic/tokens")
    lines = [line for job in runs for line in lines_of(job.folder / "signals.jsonl")]
    return float(sum(line.get(name, 0.0) for line in lines for name in names)) / len(runs)


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of lines; none where there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def _summary(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def show(results: Sequence[Finding], out: Path) -> None:
    """Print the findings as a Markdown table, and write them to `summary.json`."""
    print(markdown(results))
    write_atomically(out / "summary.json", json.dumps([finding.model_dump() for finding in results], indent=2) + "\n")


def markdown(results: Sequence[Finding]) -> str:
    lines = ["| measure | method | seeds | n | value, % | over the baseline | turns played | updates | tokens |"]
    lines.append("|---" * 9 + "|")
    for finding in results:
        value = f"{100 * finding.value:.1f} [{100 * finding.ci95[0]:.1f}, {100 * finding.ci95[1]:.1f}]"
        gain = ""
        if finding.gain is not None and finding.gain_ci95 is not None:
            gain = f"{100 * finding.gain:+.1f} [{100 * finding.gain_ci95[0]:+.1f}, {100 * finding.gain_ci95[1]:+.1f}]"
        played = "" if finding.environment_steps is None else f"{finding.environment_steps:,.0f}"
        steps = "" if finding.steps is None else f"{finding.steps:.0f}"
        tokens = "" if finding.tokens is None else f"{finding.tokens:,.0f}"
        cells = (finding.measure, finding.arm, finding.seeds, finding.n, value, gain, played, steps, tokens)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
