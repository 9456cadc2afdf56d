"""Effect of critiques: scores before and after, refining against sampling again, and the weights of revisions.

In the saturation square both scores are at least `SATURATED`: there ECHO's gain (`train/rewards.py`, equations 3 to 6)
rises at least 1 / (1 - 0.75 + 0.1) = 2.9 times as fast as the plain difference. Not here: the content of critiques.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from align_echo.evaluate.refinement import RefinementResult
from align_echo.intervals import Estimate, ratio
from align_echo.report.drawing import number_steps, plain
from align_echo.report.material import PHASES, RecordedRun, ReportData
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
from align_echo.report.trained import MADE_BY, TrainedGroup, by_setting, group_runs, training_settings
from align_echo.train.presets import implementation_for
from align_echo.train.rewards import ETA, saturation_gain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SATURATED = 0.75
BINS = 20
LEVELS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Contours of ECHO's gain, bounded by -2.4 and 2.4 = ln((1 + eta) / eta), at (1, 0) and (0, 1)."""

CONTROL_METHOD = "regenerate"
"""The method without a critique: the control of all refining ones."""

CONTROL_MADE_BY = "align-echo train --method echo-no-critic"
QUANTILES = ("p05", "p25", "p50", "p75", "p95")
Pairs = list[tuple[float, float]]


def refined_groups(material: ReportData) -> dict[TrainedGroup, dict[str, list[Pairs]]]:
    """Collect the pairs (before, after) of each step by group and phase of training, for groups with any pair."""
    by_group: dict[TrainedGroup, dict[str, list[Pairs]]] = {}
    for group in group_runs(material):
        phases: dict[str, list[Pairs]] = defaultdict(list)
        for run in group.runs:
            for line in material.refinements(run):
                pairs = [pair for pair in line.scores if min(pair) >= 0 and max(pair) <= 1]
                phases[material.phase(run, line.step)] += [pairs] if pairs else []
        if any(phases.values()):
            by_group[group] = phases
    return by_group


def is_control(group: TrainedGroup) -> bool:
    """Return whether a group plays again without a critique."""
    return implementation_for(str(training_settings(group.runs[0]).get("method"))) == CONTROL_METHOD


def _missing_controls(groups: Mapping[TrainedGroup, object], command: str = CONTROL_MADE_BY) -> tuple[str, ...]:
    lacking = [setting for setting, together in by_setting(list(groups)).items() if not any(map(is_control, together))]
    return (f"The control was not trained for {'; '.join(lacking)}: {command}, all else the same.",) if lacking else ()


# ---------------------------------------------------------------- density


def density(material: ReportData) -> DrawnPlot | str:
    """Draw plot 6."""
    groups = refined_groups(material)
    pairs = {group: [pair for group_pairs in phases.values() for batch in group_pairs for pair in batch]
             for group, phases in groups.items()}  # fmt: skip
    if not pairs:
        return "no training run among these refined an attempt or played it again"
    panels = [
        PlotPanel(f"{group.label}: {len(group_pairs):,} pairs", partial(_density, group_pairs),
              f"{group.label}: {_alt_text(group_pairs)}", height=4.0)
        for group, group_pairs in pairs.items()
    ]  # fmt: skip
    rows = tuple((group.label, group.setting, *_change_cells(group_pairs)) for group, group_pairs in pairs.items())
    drawn_panels, left_out = first_panels(panels)
    headings = ("method", "where", "pairs", "better, %", "as before, %", "worse, %", "mean change", "in the square, %")
    return DrawnPlot(
        n=f"{sum(map(len, pairs.values())):,} pairs of attempts, of {sum(len(group.runs) for group in pairs)} runs; "
        "those of one task share their first attempt",
        control="Fresh attempts in place of refined ones (echo-no-critic): what lies above the diagonal there is what "
        "playing again is worth.",
        commands=list_commands(run for group in pairs for run in group.runs),
        panels=drawn_panels,
        table=PlotTable(headings, rows),
        notes=(*_missing_controls(pairs), *left_out),
    )


def _change_cells(pairs: Pairs) -> tuple[str, ...]:
    shares = (
        fmean(after > before for before, after in pairs),
        fmean(after == before for before, after in pairs),
        fmean(after < before for before, after in pairs),
    )
    square = fmean(min(pair) >= SATURATED for pair in pairs)
    change = fmean(after - before for before, after in pairs)
    share_cells = [f"{100 * share:.1f}" for share in shares]
    return (f"{len(pairs):,}", *share_cells, f"{change:+.3f}", f"{100 * square:.1f}")


def _alt_text(pairs: Pairs) -> str:
    n, better, same, worse, change, square = _change_cells(pairs)
    moved = f"{better}% better, {same}% as before, {worse}% worse, {change} on average"
    return f"of {n} pairs {moved}; {square}% in the square"


def _density(pairs: Pairs, axes: Axes, palette: ColourPalette) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    before, after = zip(*pairs, strict=True)
    counts, edges, _ = np.histogram2d(before, after, bins=BINS, range=((0, 1), (0, 1)))
    log_counts = np.ma.masked_equal(np.log1p(counts.T), 0)
    colours = LinearSegmentedColormap.from_list("density", [palette.faint, palette.colour(0), palette.ink])
    axes.pcolormesh(edges, edges, log_counts, cmap=colours)
    at = np.linspace(0, 1, 41)
    gain = np.asarray([[saturation_gain(float(low), float(high)) for low in at] for high in at])
    lines = axes.contour(at, at, gain, levels=LEVELS, colors=palette.ink, linewidths=0.6, alpha=0.7)
    axes.clabel(lines, fontsize=6.5, fmt="%g")
    side = 1 - SATURATED
    axes.add_patch(Rectangle((SATURATED, SATURATED), side, side, fill=False, edgecolor=palette.bad, linewidth=1.6))
    axes.set_xlabel("score before, s_o")
    axes.set_ylabel("score after, s_r")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")


# ---------------------------------------------------------------- gain by phase


def gains(material: ReportData) -> DrawnPlot | str:
    """Draw plot 7."""
    groups = {group: _gains(phases) for group, phases in refined_groups(material).items()}
    groups = {group: by_phase for group, by_phase in groups.items() if by_phase}
    rounds = {run: summary for run in material.runs_with_verb("evaluate") if (summary := _rounds(material, run))}
    if not groups and not rounds:
        return "no run among these refined an attempt that was not already full"
    panels = [
        PlotPanel(f"while training: {setting}", partial(_gain_bars, {group: groups[group] for group in together}),
              f"mean change of the score by phase of training, {setting}; in the table")
        for setting, together in by_setting(list(groups)).items()
    ]  # fmt: skip
    if rounds:
        draw = partial(_round_curves, rounds)
        panels.append(PlotPanel("at test time, by round", draw, "percent won by round; in the table"))
    rows = [
        (group.label, group.setting, phase, str(n), figure(change, 3, signed=True))
        for group, by_phase in groups.items()
        for phase, (change, n) in by_phase.items()
    ]
    rows += [
        (f"{run.name}: critic {summary.critic or 'none'}", f"{summary.environment}, {summary.agent}",
         f"round {round_result.number}", str(round_result.episodes), f"won, %: {figure(round_result.success_rate)}")
        for run, summary in rounds.items()
        for round_result in summary.rounds
    ]  # fmt: skip
    drawn_panels, left_out = first_panels(panels)
    pairs = sum(n for by_phase in groups.values() for _, n in by_phase.values())
    return DrawnPlot(
        n=f"{pairs:,} pairs in training whose first score was below 1 (intervals over batches), {len(rounds)} "
        "evaluations in rounds (intervals over tasks)",
        control="As many fresh attempts without a critique: echo-no-critic in training, --critic none at test time. An "
        "attempt that failed does better the next time by chance alone.",
        commands=list_commands([run for group in groups for run in group.runs] + list(rounds)),
        panels=drawn_panels,
        table=PlotTable(("method", "where", "when", "n", "mean change of the score"), tuple(rows)),
        notes=(*_missing_controls(groups), *_missing_round_control(rounds), *left_out),
    )


def _missing_round_control(rounds: Mapping[RecordedRun, RefinementResult]) -> tuple[str, ...]:
    if not rounds or any(summary.critic is None for summary in rounds.values()):
        return ()
    return ("The control of the rounds was not played: the same command with --critic none.",)


def _gains(phases: Mapping[str, Sequence[Pairs]]) -> dict[str, tuple[Estimate, int]]:
    """Compute mean change and number of pairs by phase, for attempts below the full score."""
    by_phase = {}
    for phase in PHASES:
        batches = [[after - before for before, after in pairs if before < 1] for pairs in phases.get(phase, ())]
        batches = [changes for changes in batches if changes]
        if batches:
            change = ratio([sum(changes) for changes in batches], [len(changes) for changes in batches])
            by_phase[phase] = (change, sum(map(len, batches)))
    return by_phase


def _gain_bars(
    groups: Mapping[TrainedGroup, Mapping[str, tuple[Estimate, int]]], axes: Axes, palette: ColourPalette
) -> None:
    width = 0.7 / len(groups)
    for number, (group, by_phase) in enumerate(groups.items()):
        colour = palette.quiet if is_control(group) else palette.colour(number)
        at = [PHASES.index(phase) + (number - (len(groups) - 1) / 2) * width for phase in by_phase]
        values = [change.value for change, _ in by_phase.values()]
        axes.plot(at, values, "D" if is_control(group) else "o", color=colour, label=plain(group.label))
        for x, (change, _) in zip(at, by_phase.values(), strict=True):
            if change.n > 1:
                axes.vlines(x, *ends(change), color=colour, linewidth=1.8)
    _phases(axes, palette)
    axes.set_ylabel("mean change of the score")
    axes.legend(loc="best")


def _phases(axes: Axes, palette: ColourPalette) -> None:
    axes.set_xticks(range(len(PHASES)), [f"{phase} third" for phase in PHASES])
    axes.set_xlim(-0.55, len(PHASES) - 0.45)
    axes.axhline(0, color=palette.quiet, linewidth=1, linestyle="--")


def _rounds(material: ReportData, run: RecordedRun) -> RefinementResult | None:
    summary = material.summary_object(run)
    return material.summary(run, RefinementResult) if summary is not None and "rounds" in summary else None


def _round_curves(rounds: Mapping[RecordedRun, RefinementResult], axes: Axes, palette: ColourPalette) -> None:
    for number, (run, summary) in enumerate(rounds.items()):
        colour = palette.quiet if summary.critic is None else palette.colour(number)
        at = [round_result.number + 0.06 * (number - (len(rounds) - 1) / 2) for round_result in summary.rounds]
        rates = [round_result.success_rate for round_result in summary.rounds]
        label = plain(f"{run.name}: critic {summary.critic or 'none'}")
        axes.plot(at, [rate.value for rate in rates], "-o", color=colour, markersize=4, label=label)
        for x, rate in zip(at, rates, strict=True):
            axes.vlines(x, *ends(rate), color=colour, linewidth=1.4)
    number_steps(axes, "round (0: first attempt)")
    axes.set_ylabel("won, %")
    axes.set_ylim(-3, 103)
    axes.legend(loc="best")


# ---------------------------------------------------------------- log w_t


def weights(material: ReportData) -> DrawnPlot | str:
    """Draw plot 8."""
    weights_by_group: dict[TrainedGroup, dict[str, list[Mapping[str, float]]]] = {}
    for group in group_runs(material):
        phases: dict[str, list[Mapping[str, float]]] = defaultdict(list)
        for run in group.runs:
            for line in material.signals(run):
                if "log_w_t" in line.values:
                    phases[material.phase(run, line.step)].append(line.values)
        if phases:
            weights_by_group[group] = phases
    if not weights_by_group:
        return "no training run among these learned from a revision that was won after a critique (icrl does)"
    panels = [
        PlotPanel(f"{group.label}: {group.setting}", partial(_weight_boxes, phases),
              f"log w_t of {group.label} by phase of training; in the table")
        for group, phases in weights_by_group.items()
    ]  # fmt: skip
    rows = [
        (group.label, group.setting, phase, str(len(phases[phase])), *_weight_cells(phases[phase]))
        for group, phases in weights_by_group.items()
        for phase in PHASES
        if phase in phases
    ]
    old = [group.label for group, phases in weights_by_group.items() if not any(map(_quantiles, phases.values()))]
    drawn_panels, left_out = first_panels(panels)
    steps = sum(len(lines) for phases in weights_by_group.values() for lines in phases.values())
    return DrawnPlot(
        n=f"{steps} steps with tokens of revisions that were won; boxes are means of the steps' quantiles over tokens",
        control="0, where a token is as likely without the critique as it was with it: there w_t changes nothing "
        "(icrl-unweighted has w_t = 1 for every token).",
        commands=list_commands(run for group in weights_by_group for run in group.runs),
        panels=drawn_panels,
        table=PlotTable(
            ("method", "where", "phase", "steps", "mean", "5%", "25%", "median", "75%", "95%", "w_t below 0.5, %"),
            tuple(rows),
        ),
        notes=(*((f"Trained by a version that kept means alone: {', '.join(old)}.",) if old else ()), *left_out),
    )


def _has_quantiles(values: Mapping[str, float]) -> bool:
    return all(f"log_w_t/{name}" in values for name in QUANTILES)


def _quantiles(lines: Sequence[Mapping[str, float]]) -> list[float]:
    complete = [values for values in lines if _has_quantiles(values)]
    return [fmean(values[f"log_w_t/{name}"] for values in complete) for name in QUANTILES] if complete else []


def _weight_cells(lines: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    quantiles = [f"{value:.2f}" for value in _quantiles(lines)] or ["-"] * len(QUANTILES)
    mean = fmean(values["log_w_t"] for values in lines)
    below = 100 * fmean(values.get("w_t_below_half", 0.0) for values in lines)
    return f"{mean:.2f}", *quantiles, f"{below:.1f}"


def _weight_boxes(phases: Mapping[str, Sequence[Mapping[str, float]]], axes: Axes, palette: ColourPalette) -> None:
    for at, phase in enumerate(PHASES):
        lines = phases.get(phase, ())
        if not lines:
            continue
        quantiles = _quantiles(lines)
        if quantiles:
            low, left, middle, right, high = quantiles
            axes.vlines(at, low, high, color=palette.colour(0), linewidth=1.4)
            axes.vlines(at, left, right, color=palette.colour(0), linewidth=9)
            axes.plot(at, middle, "_", color=palette.back, markersize=11, markeredgewidth=2)
        axes.plot(at, fmean(values["log_w_t"] for values in lines), "D", color=palette.colour(1), markersize=5)
    _phases(axes, palette)
    axes.set_ylabel("log w_t, nats (diamond: mean)")


PLOTS = (
    PlotKind(
        "density",
        "Scores before and after",
        "Where attempts went: the score of an attempt, s_o, and of the one after it, s_r. Thin lines join pairs to "
        f"which ECHO gives one gain, ln((1 - s_o + {ETA}) / (1 - s_r + {ETA})); the square marks where both are at "
        f"least {SATURATED} and a point counts for {1 / (1 - SATURATED + ETA):.1f} times a point or more.",
        MADE_BY,
        density,
    ),
    PlotKind(
        "gains",
        "Refining against playing again",
        "Mean change of the score from an attempt to the next, by third of training, for attempts that were not full.",
        f"{MADE_BY}, and its control {CONTROL_MADE_BY}",
        gains,
    ),
    PlotKind(
        "weights",
        "Weights of revisions, log w_t",
        "How much likelier a token of a won revision is without its critique than it was with it, by third of "
        "training.",
        "align-echo train --method icrl --env alfworld --model pocket --out runs/icrl",
        weights,
    ),
)
