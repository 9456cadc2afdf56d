"""Critics of single actions: success of selection by them compared with pass@N, and the calibration of their
probabilities.

Not here: asking and measuring them (`align_echo.gaia`, `align_echo.critic.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from align_echo.critic import best_of
from align_echo.critic.calibration import CalibrationResult, CriticReport, ReliabilityBin
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.trial import CEILING, SelectionResult, TrialResult
from align_echo.intervals import wilson
from align_echo.report.drawing import number_steps, plain
from align_echo.report.material import RecordedRun, ReportData
from align_echo.report.plots import (
    ColourPalette,
    DrawnPlot,
    PlotKind,
    PlotPanel,
    PlotTable,
    ends,
    figure,
    first_panels,
    list_commands,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE_BY = "align-echo critic flywheel --env alfworld --model pocket --rounds 2 --out runs/wheel"
QUIET = ("random", "placebo")
"""Rules without information about correctness."""

RULE_ORDER = (best_of.RULE_ORDER[0], CEILING, *best_of.RULE_ORDER[1:])
"""Selection rules in the order of the legend; others follow."""


def selection(material: ReportData) -> DrawnPlot | str:
    """Draw plot 11."""
    runs = material.runs_with_verb("critic evaluate")
    trials = {run: trial for run in runs if (trial := material.summary(run, TrialResult))}
    if not trials:
        return "no finished trial of a critic is among these runs"
    panels = [
        PlotPanel(f"{run.name}: {trial.states} states", partial(_curve, trial), _alt_text(trial), height=3.4)
        for run, trial in trials.items()
    ]
    rows = [
        (run.name, point.rule, str(point.candidates), figure(point.success), figure(point.gain, signed=True))
        for run, trial in trials.items()
        for point in sorted(trial.curve, key=_order)
        if point.candidates in (1, max(success.candidates for success in trial.curve))
    ]
    drawn_panels, left_out = first_panels([*_by_round(material, trials), *panels])
    states = sum(trial.states for trial in trials.values())
    tasks = max(trial.curve[0].success.n for trial in trials.values())
    return DrawnPlot(
        n=f"{states:,} states in {len(trials)} {'trial' if len(trials) == 1 else 'trials'}, of up to {tasks} tasks "
        "each; intervals over tasks",
        control="The placebo: one of the distinct candidates at random, a judge who knows nothing. pass is what a "
        "critic that never errs would reach. logprob, where it is there, costs nothing.",
        commands=list_commands(trials),
        panels=drawn_panels,
        table=PlotTable(("trial", "rule", "candidates", "right, %", "over a single draw, points"), tuple(rows)),
        notes=left_out,
    )


def _order(point: SelectionResult) -> tuple[int, int]:
    return point.candidates, RULE_ORDER.index(point.rule) if point.rule in RULE_ORDER else len(RULE_ORDER)


def _alt_text(trial: TrialResult) -> str:
    most = max(point.candidates for point in trial.curve)
    ends = [f"{point.rule} {figure(point.success)}" for point in trial.curve if point.candidates == most]
    return f"percent of states with the right action, by number of candidates; of {most}: {'; '.join(ends)}"


def _curve(trial: TrialResult, axes: Axes, palette: ColourPalette) -> None:
    rules = sorted({point.rule for point in trial.curve}, key=lambda rule: (*RULE_ORDER, rule).index(rule))
    for rule in rules:
        points = sorted((point for point in trial.curve if point.rule == rule), key=lambda point: point.candidates)
        at = [point.candidates for point in points]
        series = palette.colour(rules.index(rule))
        colour = palette.quiet if rule in QUIET else palette.ink if rule == CEILING else series
        style = {"placebo": "--", "random": ":"}.get(rule, "-")
        if rule in ("critic", "placebo"):
            lows, highs = zip(*(ends(point.success) for point in points), strict=True)
            axes.fill_between(at, lows, highs, color=colour, alpha=0.15, linewidth=0)
        label = "pass@N" if rule == CEILING else plain(rule)
        axes.plot(at, [point.success.value for point in points], style, color=colour, marker=".", label=label)
    number_steps(axes, "candidates, N")
    axes.set_ylabel("states with the right action, %")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=4, columnspacing=0.9, handlelength=1.3)


def _by_round(material: ReportData, trials: Mapping[RecordedRun, TrialResult]) -> list[PlotPanel]:
    """Build a panel for each flywheel: its critic, its placebo and pass@N, round by round."""
    panels = []
    for flywheel in material.runs_with_verb("critic flywheel"):
        inside = [(_round_number(run), trial) for run, trial in trials.items() if run.made_by == flywheel]
        rounds = sorted((number, trial) for number, trial in inside if number is not None) if inside else []
        if len(rounds) > 1:
            alt = f"{flywheel.name}: percent right by round of the flywheel, with all candidates"
            panels.append(PlotPanel(f"{flywheel.name}, by round", partial(_rounds, rounds), alt, height=3.4))
    return panels


def _round_number(run: RecordedRun) -> int | None:
    number = run.folder.parent.name.removeprefix("round-")
    return int(number) if number.isdecimal() else None


def _rounds(rounds: Sequence[tuple[int, TrialResult]], axes: Axes, palette: ColourPalette) -> None:
    rules = (("critic", palette.colour(0), "-"), ("placebo", palette.quiet, "--"), (CEILING, palette.ink, "-"))
    for rule, colour, style in rules:
        points = [(number, _at_most_candidates(trial, rule)) for number, trial in rounds]
        known = [(number, point) for number, point in points if point is not None]
        label = "pass@N" if rule == CEILING else rule
        axes.plot([number for number, _ in known], [point.success.value for _, point in known], style, marker="o",
                  color=colour, markersize=4, label=label)  # fmt: skip
        for number, point in known if rule == "critic" else ():
            axes.vlines(number, *ends(point.success), color=colour, linewidth=1.6)
    number_steps(axes, "round")
    axes.margins(x=0.12)
    axes.set_ylabel("states with the right action, %")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3)


def _at_most_candidates(trial: TrialResult, rule: str) -> SelectionResult | None:
    most = max(point.candidates for point in trial.curve)
    return next((point for point in trial.curve if (point.rule, point.candidates) == (rule, most)), None)


# ---------------------------------------------------------------- reliability


@dataclass(frozen=True)
class _CriticMeasurement:
    """A critic's report, from a trial or from the held-out tasks of its training."""

    run: RecordedRun
    where: str
    report: CriticReport
    calibrations: tuple[tuple[str, CalibrationResult], ...]


def reliability(material: ReportData) -> DrawnPlot | str:
    """Draw plot 12."""
    reports = [(run, "trial", trial.critic) for run in material.runs_with_verb("critic evaluate")
               if (trial := material.summary(run, TrialResult))]  # fmt: skip
    for run in material.runs_with_verb("critic train"):
        fitted = _read_training(material, run)
        reports += [(run, "held out", fitted.held_out)] if fitted and fitted.held_out else []
    measurements = [_CriticMeasurement(run, where, report, _calibrations(report)) for run, where, report in reports]
    with_bins = [entry for entry in measurements if any(measured.bins for _, measured in entry.calibrations)]
    if not with_bins:
        old = ", ".join(entry.run.name for entry in measurements if entry.calibrations)
        return f"measured by a version that kept no bins, measure again: {old}" if old else (
            "no finished trial or training among these is of a critic that gives probabilities"
        )
    panels = [
        PlotPanel(f"{entry.run.name} ({entry.where})", partial(_diagram, entry.calibrations), _error_text(entry),
              height=4.0)
        for entry in with_bins
    ]  # fmt: skip
    rows = [
        (entry.run.name, entry.where, str(entry.report.with_logit), figure(entry.report.accuracy),
         f"{entry.report.constant_accuracy:.1f}", figure(entry.report.auroc, 3),
         *(f"{measured.ece:.3f}" for _, measured in entry.calibrations), f"{entry.report.temperature:.2f}")
        for entry in with_bins
    ]  # fmt: skip
    drawn_panels, left_out = first_panels(panels)
    count = sum(entry.report.with_logit for entry in with_bins)
    return DrawnPlot(
        n=f"{count:,} judged actions with probabilities in {len(with_bins)} "
        "reports; intervals over actions, which are too narrow, as those of a task are alike",
        control="The diagonal is an honest critic; the better constant answer is one that reads nothing. Temperatures "
        "were fitted on the held-out tasks of the training: there the diagram after it is no test, in a trial it is.",
        commands=list_commands(entry.run for entry in with_bins),
        panels=drawn_panels,
        table=PlotTable(
            ("run", "on", "actions", "judged right, %", "constant answer, %", "AUROC", "ECE at temperature 1",
             "ECE at the critic's", "temperature"),
            tuple(rows),
        ),
        notes=left_out,
    )


def _read_training(material: ReportData, run: RecordedRun) -> TrainingSummary | None:
    """Read the summary of a critic trained on text; None for a critic of screens, which has another summary."""
    summary = material.summary_object(run)
    return material.summary(run, TrainingSummary) if summary is not None and "learned_from" in summary else None


def _calibrations(report: CriticReport) -> tuple[tuple[str, CalibrationResult], ...]:
    if report.before is None or report.after is None:
        return ()
    return ("temperature 1", report.before), (f"temperature {report.temperature:.2f}", report.after)


def _error_text(entry: _CriticMeasurement) -> str:
    errors = "; ".join(f"{name}: calibration error {measured.ece:.3f}" for name, measured in entry.calibrations)
    return f"share of actions that are correct by the critic's probability of it; {errors}"


def _diagram(calibrations: Sequence[tuple[str, CalibrationResult]], axes: Axes, palette: ColourPalette) -> None:
    axes.plot((0, 1), (0, 1), "--", color=palette.quiet, linewidth=1)
    for number, (name, measured) in enumerate(calibrations):
        colour = palette.colour(1 - number)
        for inside in measured.bins:
            low, high = ends(wilson(inside.correct, inside.actions))
            axes.vlines(inside.p_correct, low / 100, high / 100, color=colour, linewidth=1.3, alpha=0.8)
            axes.plot(inside.p_correct, inside.correct / inside.actions, "os"[number], color=colour,
                      markersize=_size(inside, measured.bins))  # fmt: skip
        axes.plot([], [], "os"[number], color=colour, markersize=5, label=f"{name}: ECE {measured.ece:.3f}")
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    axes.set_xlabel("P(correct) of the critic")
    axes.set_ylabel("share that is correct")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2)


def _size(inside: ReliabilityBin, bins: Sequence[ReliabilityBin]) -> float:
    """Compute the size of a mark: its area grows with its number of actions."""
    return 3 + 6 * math.sqrt(inside.actions / max(other_bin.actions for other_bin in bins))


PLOTS = (
    PlotKind(
        "selection",
        "Best-of-N against pass@N",
        "Percent of states in which the action taken of the first N candidates is right, by the rule that takes it.",
        MADE_BY,
        selection,
    ),
    PlotKind(
        "reliability",
        "How honest a critic's probabilities are",
        "Of the actions to which a critic gave about one probability, the share that is correct; larger marks are more "
        "actions.",
        MADE_BY,
        reliability,
    ),
)
