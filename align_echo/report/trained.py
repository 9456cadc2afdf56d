"""Training runs, grouped over seeds: learning curves, and the time of a step's stages.

Not here: the effect of critiques (`refined.py`), and their content (`critiques.py`, `drift.py`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from align_echo.report.drawing import name_rows, number_steps, plain
from align_echo.report.material import HeldOutFigures, RecordedRun, ReportData, find_method
from align_echo.report.plots import (
    ColourPalette,
    DrawnPlot,
    PlotKind,
    PlotPanel,
    PlotTable,
    ends,
    first_panels,
    list_commands,
)
from align_echo.run_dir import flat
from align_echo.train.presets import with_new_keys
from align_echo.types import source_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE_BY = "align-echo train --method echo --env webshop --model pocket --seed 1 --out runs/echo-1"
IGNORED_SETTINGS = {"seed", "threads", "report_to", "rollouts.episodes", "rollouts.mebibytes", "save_every", "steps"}
"""Settings that may differ within a group."""

REWARDS = {"policy": "policy/reward", "critic": "critic/reward"}
STAGES = ("play", "critic", "oracle", "rest of the batch", "learn")
Points = dict[int, list[float]]
"""Values by step, one per run."""


@dataclass(frozen=True)
class TrainedGroup:
    """Runs of one config with different seeds. `setting` says where they trained: groups of one setting are compared.
    """

    label: str
    setting: str
    runs: tuple[RecordedRun, ...]

    @property
    def seeds(self) -> str:
        """Return the number of seeds in words."""
        return "1 seed" if self.different == 1 else f"{self.different} seeds"

    @property
    def different(self) -> int:
        """Return the number of different seeds."""
        return len({str(training_settings(run).get("seed")) for run in self.runs})


def group_runs(material: ReportData) -> list[TrainedGroup]:
    """Group the training runs by config, in order. Labels include the run's name if two groups have the same method."""
    by_config: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in material.runs_with_verb("train"):
        by_config[_identity(run)].append(run)
    settings = _unique_settings([runs[0] for runs in by_config.values()])
    described = [(find_method(training_settings(runs[0])), settings[runs[0]], runs) for runs in by_config.values()]
    names = [(method, setting) for method, setting, _ in described]
    return [
        TrainedGroup(
            f"{method} ({runs[0].name})" if names.count((method, setting)) > 1 else method, setting, tuple(runs)
        )
        for method, setting, runs in described
    ]


def training_settings(run: RecordedRun) -> Mapping[str, Any]:
    """Return the training config of a run."""
    config = run.config.get("config")
    return with_new_keys(config) if isinstance(config, Mapping) else {}


def _identity(run: RecordedRun) -> str:
    named = {"interface", *(("model", "critic") if all(_weights(run).values()) else ())}
    settings = {
        key: value for key, value in flat(training_settings(run)).items() if key not in IGNORED_SETTINGS | named
    }
    rest = {key: run.config.get(key) for key in ("split", "held_out", "prompts")}
    return json.dumps([settings, rest, *_start(run)], sort_keys=True)


def _weights(run: RecordedRun) -> Mapping[str, Any]:
    """Return the hashes of the initial weights, by role."""
    weights = run.config.get("weights")
    return weights if isinstance(weights, Mapping) else {}


def _start(run: RecordedRun) -> list[Any]:
    """Return the initial weights and interface of a run, independent of their names; the names for older runs."""
    settings, weights = training_settings(run), _weights(run)
    models = weights if weights and all(weights.values()) else [settings.get("model"), settings.get("critic"), weights]
    label = str(run.config.get("interface", "none"))
    return [models, run.config.get("interface_contents") or source_in(label) or label]


def _unique_settings(runs: Sequence[RecordedRun]) -> dict[RecordedRun, str]:
    """Describe where runs trained, with a different text for different weights or interfaces."""
    text_by_start: dict[str, str] = {}
    by_run: dict[RecordedRun, str] = {}
    for run in runs:
        start_key = json.dumps([training_settings(run).get("env"), *_start(run)])
        is_used = _setting(run) in text_by_start.values()
        by_run[run] = text_by_start.setdefault(start_key, f"{_setting(run)} ({run.name})" if is_used else _setting(run))
    return by_run


def _setting(run: RecordedRun) -> str:
    settings = training_settings(run)
    return f"{settings.get('env', '?')}, {settings.get('model', '?')}, interface {run.config.get('interface', 'none')}"


def by_setting(groups: Sequence[TrainedGroup]) -> dict[str, list[TrainedGroup]]:
    """Group the groups that may be compared with each other."""
    by_text: dict[str, list[TrainedGroup]] = defaultdict(list)
    for group in groups:
        by_text[group.setting].append(group)
    return by_text


# ---------------------------------------------------------------- learning curves


def learning(material: ReportData) -> DrawnPlot | str:
    """Draw plot 4."""
    groups = [group for group in group_runs(material) if any(material.signals(run) for run in group.runs)]
    if not groups:
        return "no training run with a step is among these runs"
    panels: list[PlotPanel] = []
    for setting, comparable in by_setting(groups).items():
        scores = {group: _held_out(material, group) for group in comparable}
        held_out = {group: points for group, points in scores.items() if points}
        if held_out:
            draw = partial(_score_curves, held_out, {group: _ends(material, group) for group in held_out})
            panels.append(
                PlotPanel(f"held-out score: {setting}", draw, _alt_text(held_out, "held-out score"), height=3.1)
            )
        for role, name in REWARDS.items():
            curves = {group: _signal(material, group, name) for group in comparable}
            curves = {group: points for group, points in curves.items() if points}
            if curves:
                title = f"{role}: reward in training"
                draw = partial(_reward_curves, curves)
                panels.append(PlotPanel(f"{title}: {setting}", draw, _alt_text(curves, title), height=3.1))
    drawn_panels, left_out = first_panels(panels)
    runs = [run for group in groups for run in group.runs]
    alone = [group.label for group in groups if len(group.runs) == 1]
    notes = [f"One seed alone, whose band is the interval over held-out tasks: {', '.join(alone)}."] if alone else []
    twice = [group.label for group in groups if group.different < len(group.runs)]
    notes += [f"Trained twice under one seed: {', '.join(twice)}."] if twice else []
    unfinished = [run.name for run in runs if not (run.folder / "summary.json").is_file()]
    notes += [f"Not finished yet: {', '.join(unfinished)}."] if unfinished else []
    return DrawnPlot(
        n=f"{len(runs)} runs of {len(groups)} {'config' if len(groups) == 1 else 'configs'}; lines are means over "
        "seeds at steps that all have reached, bands go from the lowest to the highest seed",
        control="The weights before training (step 0). The best checkpoint (a star) was chosen by these very tasks and "
        "flatters; the last one (a square) was not. A method is compared with another at equal turns, in the table.",
        commands=list_commands(runs),
        panels=drawn_panels,
        table=PlotTable(
            ("method", "where", "seeds", "turns played", "start", "best checkpoint", "last checkpoint"),
            tuple(_row(material, group) for group in groups),
        ),
        notes=(*notes, *left_out),
    )


def _complete(points: Points, runs: int) -> Points:
    return {step: values for step, values in sorted(points.items()) if len(values) == runs}


def _held_out(material: ReportData, group: TrainedGroup) -> dict[int, tuple[float, float, float]]:
    """Compute the score by step: mean and band, over runs; for a single run the interval over tasks."""
    lines_at: dict[int, list[HeldOutFigures]] = defaultdict(list)
    for run in group.runs:
        for line in material.held_out(run):
            lines_at[line.step].append(line)
    complete = {step: lines for step, lines in sorted(lines_at.items()) if len(lines) == len(group.runs)}
    if len(group.runs) == 1:
        return {step: (lines[0].score.value, *ends(lines[0].score)) for step, lines in complete.items()}
    return {step: _band([line.score.value for line in lines]) for step, lines in complete.items()}


def _signal(material: ReportData, group: TrainedGroup, name: str) -> dict[int, tuple[float, float, float]]:
    points: Points = defaultdict(list)
    for run in group.runs:
        for line in material.signals(run):
            if name in line.values:
                points[line.step].append(line.values[name])
    return {step: _band(values) for step, values in _complete(points, len(group.runs)).items()}


def _band(values: Sequence[float]) -> tuple[float, float, float]:
    return fmean(values), min(values), max(values)


def _ends(material: ReportData, group: TrainedGroup) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (step, score) of the best and of the last checkpoint, as means over seeds."""
    best = [max(material.held_out(run), key=lambda line: line.score.value) for run in group.runs]
    last = [max(material.held_out(run), key=lambda line: line.step) for run in group.runs]

    def mean(lines: Sequence[HeldOutFigures]) -> tuple[float, float]:
        return fmean(line.step for line in lines), fmean(line.score.value for line in lines)

    return mean(best), mean(last)


def _score_curves(
    curves: Mapping[TrainedGroup, dict[int, tuple[float, float, float]]],
    ends: Mapping[TrainedGroup, tuple[tuple[float, float], tuple[float, float]]],
    axes: Axes,
    palette: ColourPalette,
) -> None:
    _curves(curves, axes, palette)
    for number, (best, last) in enumerate(ends.values()):
        colour = palette.colour(number)
        axes.plot(*last, "s", color=colour, markersize=6)
        axes.plot(*best, "*", color=colour, markersize=11, markeredgecolor=palette.ink, markeredgewidth=0.5)
    start = [points[0][0] for points in curves.values() if 0 in points]
    if start:
        axes.axhline(fmean(start), color=palette.quiet, linewidth=1, linestyle="--")
    axes.set_ylabel("mean score, 0 to 1")


def _reward_curves(
    curves: Mapping[TrainedGroup, dict[int, tuple[float, float, float]]], axes: Axes, palette: ColourPalette
) -> None:
    _curves(curves, axes, palette)
    axes.set_ylabel("mean reward")


def _curves(
    curves: Mapping[TrainedGroup, dict[int, tuple[float, float, float]]], axes: Axes, palette: ColourPalette
) -> None:
    for number, (group, points) in enumerate(curves.items()):
        steps = list(points)
        means, lows, highs = zip(*points.values(), strict=True)
        colour = palette.colour(number)
        axes.fill_between(steps, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(steps, means, "-", marker=".", color=colour, label=plain(f"{group.label}, {group.seeds}"))
    number_steps(axes, "step")
    axes.legend(loc="best")


def _alt_text(curves: Mapping[TrainedGroup, dict[int, tuple[float, float, float]]], quantity: str) -> str:
    ends = [
        f"{group.label}: {points[min(points)][0]:.3f} at step {min(points)}, {points[max(points)][0]:.3f} at step "
        f"{max(points)}"
        for group, points in curves.items()
    ]
    return f"{quantity} by step. {'; '.join(ends)}"


def _row(material: ReportData, group: TrainedGroup) -> tuple[str, ...]:
    turns = fmean(sum(line.values.get("environment_steps", 0) for line in material.signals(run)) for run in group.runs)
    cells: list[str] = []
    if all(material.held_out(run) for run in group.runs):
        (best_step, best), (last_step, last) = _ends(material, group)
        start = [line.score.value for run in group.runs for line in material.held_out(run) if line.step == 0]
        first = f"{fmean(start):.3f}" if start else "-"
        cells = [first, f"{best:.3f} (step {best_step:g})", f"{last:.3f} (step {last_step:g})"]
    return group.label, group.setting, str(group.different), f"{turns:,.0f}", *(cells or ["-", "-", "-"])


# ---------------------------------------------------------------- stages


def stages(material: ReportData) -> DrawnPlot | str:
    """Draw plot 5."""
    timed = {group: _stage_seconds(material, group) for group in group_runs(material)}
    timed = {group: seconds for group, seconds in timed.items() if any(seconds)}
    if not timed:
        return "no training run with a timed step is among these runs"
    rows = tuple(
        (group.label, group.setting, str(_steps(material, group)), *(_with_share(part, seconds) for part in seconds),
         f"{sum(seconds):.1f}")
        for group, seconds in timed.items()
    )  # fmt: skip
    panel = PlotPanel(
        "mean seconds of a step",
        partial(_stage_bars, timed),
        "mean seconds of a training step, by stage; in the table",
        height=1.5 + 0.42 * len(timed),
    )
    return DrawnPlot(
        n=f"{sum(_steps(material, group) for group in timed)} steps of {len(timed)} "
        f"{'config' if len(timed) == 1 else 'configs'}",
        control="None: these are seconds by the clock of the machine that trained. Compare methods that trained on one "
        "machine with nothing else on it; the optimizer's own step and evaluations are not in them.",
        commands=list_commands(run for group in timed for run in group.runs),
        panels=(panel,),
        table=PlotTable(
            ("method", "where", "steps", *(f"{stage}, s (share)" for stage in STAGES), "all, s"), rows
        ),
    )


def _steps(material: ReportData, group: TrainedGroup) -> int:
    return sum(len(material.signals(run)) for run in group.runs)


def _stage_seconds(material: ReportData, group: TrainedGroup) -> list[float]:
    """Compute the mean seconds of a step in each of `STAGES`. A batch shared by several steps counts for the first."""
    lines = [line.values for run in group.runs for line in material.signals(run)]
    if not lines:
        return []
    collecting, learn, *parts = (
        fmean(line.get(f"seconds/{name}", 0.0) for line in lines)
        for name in ("harvest", "learn", "play", "critic", "oracle")
    )
    return [*parts, max(collecting - sum(parts), 0.0), learn]


def _with_share(part: float, seconds: Sequence[float]) -> str:
    return f"{part:.1f} ({100 * part / sum(seconds):.0f}%)"


def _stage_bars(timed: Mapping[TrainedGroup, Sequence[float]], axes: Axes, palette: ColourPalette) -> None:
    name_rows(axes, [group.label for group in timed], longest=18)
    left = [0.0] * len(timed)
    for number, stage in enumerate(STAGES):
        widths = [seconds[number] for seconds in timed.values()]
        if any(widths):
            axes.barh(range(len(timed)), widths, left=left, height=0.6, color=palette.colour(number), label=stage)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_xlabel("seconds")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3, columnspacing=0.9, handlelength=0.9)


PLOTS = (
    PlotKind(
        "learning",
        "Learning curves",
        "Held-out score and the reward of each role, by step of training; runs that differ in their seed alone are one "
        "line.",
        f"{MADE_BY} (again with --seed 2 and 3; evaluating: {{every: 10}} in a --config plays held-out tasks)",
        learning,
    ),
    PlotKind(
        "stages", "Where the time of a step goes", "Mean seconds of a step of training by stage.", MADE_BY, stages
    ),
)

