"""Critics of single actions: what choosing by them is worth beside pass@N, and how honest their probabilities are.

Left out: how they were asked and measured (`align_echo.gaia`, `align_echo.critic.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from align_echo.critic.calibration import Bin, Calibration, CriticReport
from align_echo.gaia.figures import CEILING, Success, Trial
from align_echo.gaia.fit.intuitive import Fitted
from align_echo.intervals import wilson
from align_echo.report.drawing import number_steps, plain
from align_echo.report.finding import RecordedRun
from align_echo.report.material import Material
from align_echo.report.palette import Palette
from align_echo.report.plots import DrawnPlot, Panel, Plot, PlotTable, commands_of, ends, figure, first_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE_BY = "align-echo critic flywheel --env alfworld --model pocket --rounds 2 --out runs/wheel"
QUIET = ("random", "placebo")
"""Rules that know nothing of what is right."""

SHOWN = ("critic", CEILING, "placebo", "random", "majority", "logprob", "tilted")
"""Rules of selection in the order of a legend."""


def selection(material: Material) -> DrawnPlot | str:
    """Plot 11."""
    trials = {run: trial for run in material.of_verb("critic evaluate") if (trial := material.summary(run, Trial))}
    if not trials:
        return "no finished trial of a critic is among these runs"
    panels = [
        Panel(f"{run.name}: {trial.states} states", partial(_curve, trial), _told(trial), height=3.4)
        for run, trial in trials.items()
    ]
    rows = [
        (run.name, point.rule, str(point.candidates), figure(point.success), figure(point.gain, signed=True))
        for run, trial in trials.items()
        for point in sorted(trial.curve, key=_order)
        if point.candidates in (1, max(each.candidates for each in trial.curve))
    ]
    kept, left = first_panels([*_by_round(material, trials), *panels])
    states = sum(trial.states for trial in trials.values())
    tasks = max(trial.curve[0].success.n for trial in trials.values())
    return DrawnPlot(
        n=f"{states:,} states in {len(trials)} {'trial' if len(trials) == 1 else 'trials'}, of up to {tasks} tasks "
        "each; intervals over tasks",
        control="The placebo: one of the distinct candidates at random, a judge who knows nothing. pass is what a "
        "critic that never errs would reach. logprob, where it is there, costs nothing.",
        commands=commands_of(trials),
        panels=kept,
        table=PlotTable(("trial", "rule", "candidates", "right, %", "over a single draw, points"), tuple(rows)),
        notes=left,
    )


def _order(point: Success) -> tuple[int, int]:
    return point.candidates, SHOWN.index(point.rule) if point.rule in SHOWN else len(SHOWN)


def _told(trial: Trial) -> str:
    most = max(point.candidates for point in trial.curve)
    ends = [f"{point.rule} {figure(point.success)}" for point in trial.curve if point.candidates == most]
    return f"percent of states with the right action, by number of candidates; of {most}: {'; '.join(ends)}"


def _curve(trial: Trial, axes: Axes, palette: Palette) -> None:
    rules = sorted({point.rule for point in trial.curve}, key=lambda rule: (*SHOWN, rule).index(rule))
    for rule in rules:
        points = sorted((point for point in trial.curve if point.rule == rule), key=lambda point: point.candidates)
        at = [point.candidates for point in points]
        colour = palette.quiet if rule in QUIET else palette.ink if rule == CEILING else palette.of(rules.index(rule))
        style = {"placebo": "--", "random": ":"}.get(rule, "-")
        if rule in ("critic", "placebo"):
            lows, highs = zip(*(ends(point.success) for point in points), strict=True)
            axes.fill_between(at, lows, highs, color=colour, alpha=0.15, linewidth=0)
        label = "pass@N" if rule == CEILING else plain(rule)
        axes.plot(at, [point.success.value for point in points], style, color=colour, marker=".", label=label)
    number_steps(axes, "candidates, N")
    axes.set_ylabel("states with the right action, %")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=4, columnspacing=0.9, handlelength=1.3)


def _by_round(material: Material, trials: Mapping[RecordedRun, Trial]) -> list[Panel]:
    """A picture of each flywheel: its critic, its placebo and pass@N, round by round."""
    panels = []
    for wheel in material.of_verb("critic flywheel"):
        inside = [(_round_of(run), trial) for run, trial in trials.items() if run.made_by == wheel]
        rounds = sorted((number, trial) for number, trial in inside if number is not None) if inside else []
        if len(rounds) > 1:
            alt = f"{wheel.name}: percent right by round of the flywheel, with all candidates"
            panels.append(Panel(f"{wheel.name}, by round", partial(_rounds, rounds), alt, height=3.4))
    return panels


def _round_of(run: RecordedRun) -> int | None:
    number = run.folder.parent.name.removeprefix("round-")
    return int(number) if number.isdecimal() else None


def _rounds(rounds: Sequence[tuple[int, Trial]], axes: Axes, palette: Palette) -> None:
    rules = (("critic", palette.of(0), "-"), ("placebo", palette.quiet, "--"), (CEILING, palette.ink, "-"))
    for rule, colour, style in rules:
        points = [(number, _of_all(trial, rule)) for number, trial in rounds]
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


def _of_all(trial: Trial, rule: str) -> Success | None:
    most = max(point.candidates for point in trial.curve)
    return next((point for point in trial.curve if (point.rule, point.candidates) == (rule, most)), None)


# ---------------------------------------------------------------- reliability


@dataclass(frozen=True)
class _Measured:
    """A critic's report, of a trial or of the tasks that its training held out."""

    run: RecordedRun
    where: str
    report: CriticReport
    calibrations: tuple[tuple[str, Calibration], ...]


def reliability(material: Material) -> DrawnPlot | str:
    """Plot 12."""
    reports = [(run, "trial", trial.critic) for run in material.of_verb("critic evaluate")
               if (trial := material.summary(run, Trial))]  # fmt: skip
    for run in material.of_verb("critic train"):
        fitted = _fitted(material, run)
        reports += [(run, "held out", fitted.held_out)] if fitted and fitted.held_out else []
    measured = [_Measured(run, where, report, _calibrations(report)) for run, where, report in reports]
    shown = [each for each in measured if any(of.bins for _, of in each.calibrations)]
    if not shown:
        old = ", ".join(each.run.name for each in measured if each.calibrations)
        return f"measured by a version that kept no bins, measure again: {old}" if old else (
            "no finished trial or training among these is of a critic that gives probabilities"
        )
    panels = [
        Panel(f"{each.run.name} ({each.where})", partial(_diagram, each.calibrations), _told_errors(each), height=4.0)
        for each in shown
    ]
    rows = [
        (each.run.name, each.where, str(each.report.with_logit), figure(each.report.accuracy),
         f"{each.report.constant_accuracy:.1f}", figure(each.report.auroc, 3),
         *(f"{of.ece:.3f}" for _, of in each.calibrations), f"{each.report.temperature:.2f}")
        for each in shown
    ]  # fmt: skip
    kept, left = first_panels(panels)
    return DrawnPlot(
        n=f"{sum(each.report.with_logit for each in shown):,} judged actions with probabilities in {len(shown)} "
        "reports; intervals over actions, which are too narrow, as those of a task are alike",
        control="The diagonal is an honest critic; the better constant answer is one that reads nothing. Temperatures "
        "were fitted on the held-out tasks of the training: there the diagram after it is no test, in a trial it is.",
        commands=commands_of(each.run for each in shown),
        panels=kept,
        table=PlotTable(
            ("run", "on", "actions", "judged right, %", "constant answer, %", "AUROC", "ECE at temperature 1",
             "ECE at the critic's", "temperature"),
            tuple(rows),
        ),
        notes=left,
    )


def _fitted(material: Material, run: RecordedRun) -> Fitted | None:
    """What came of a critic's training on text; that of one on screens has another summary."""
    summary = material.summary_object(run)
    return material.summary(run, Fitted) if summary is not None and "learned_from" in summary else None


def _calibrations(report: CriticReport) -> tuple[tuple[str, Calibration], ...]:
    if report.before is None or report.after is None:
        return ()
    return ("temperature 1", report.before), (f"temperature {report.temperature:.2f}", report.after)


def _told_errors(each: _Measured) -> str:
    errors = "; ".join(f"{name}: calibration error {of.ece:.3f}" for name, of in each.calibrations)
    return f"share of actions that are correct by the critic's probability of it; {errors}"


def _diagram(calibrations: Sequence[tuple[str, Calibration]], axes: Axes, palette: Palette) -> None:
    axes.plot((0, 1), (0, 1), "--", color=palette.quiet, linewidth=1)
    for number, (name, of) in enumerate(calibrations):
        colour = palette.of(1 - number)
        for inside in of.bins:
            low, high = ends(wilson(inside.correct, inside.actions))
            axes.vlines(inside.p_correct, low / 100, high / 100, color=colour, linewidth=1.3, alpha=0.8)
            axes.plot(inside.p_correct, inside.correct / inside.actions, "os"[number], color=colour,
                      markersize=_size(inside, of.bins))  # fmt: skip
        axes.plot([], [], "os"[number], color=colour, markersize=5, label=f"{name}: ECE {of.ece:.3f}")
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    axes.set_xlabel("P(correct) of the critic")
    axes.set_ylabel("share that is correct")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2)


def _size(inside: Bin, bins: Sequence[Bin]) -> float:
    """Of a mark: its area grows with the actions behind it."""
    return 3 + 6 * math.sqrt(inside.actions / max(each.actions for each in bins))


PLOTS = (
    Plot(
        "selection",
        "Best-of-N against pass@N",
        "Percent of states in which the action taken of the first N candidates is right, by the rule that takes it.",
        MADE_BY,
        selection,
    ),
    Plot(
        "reliability",
        "How honest a critic's probabilities are",
        "Of the actions to which a critic gave about one probability, the share that is correct; larger marks are more "
        "actions.",
        MADE_BY,
        reliability,
    ),
)
