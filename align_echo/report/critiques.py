"""Critiques of training runs by phase: their length, and the share of readable ones.

Lengths are of the stored critiques (those of one task a step), shares are of all requested ones. Not here: their
content (`drift.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from align_echo.intervals import Estimate, wilson
from align_echo.report.drawing import plain
from align_echo.report.material import PHASES, ReportData
from align_echo.report.plots import (
    ColourPalette,
    DrawnPlot,
    PlotKind,
    PlotPanel,
    PlotTable,
    ends,
    figure,
    list_commands,
)
from align_echo.report.trained import MADE_BY, TrainedGroup, group_runs, training_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTCOMES = ("lost", "won")
QUANTILES = (5, 25, 50, 75, 95)
ByPhase = Mapping[str, Sequence[int]]


def lengths(material: ReportData) -> DrawnPlot | str:
    """Draw plot 9."""
    asked = {group: _count_critiques(material, group) for group in group_runs(material)}
    asked = {group: by_phase for group, by_phase in asked.items() if by_phase}
    if not asked:
        return "no training run among these asked a critic about an attempt"
    words = {group: _words(material, group) for group in asked}
    words = {group: by_phase for group, by_phase in words.items() if by_phase}
    panels = [PlotPanel("critiques that could be read", partial(_readable, asked), "share by phase; in the table")]
    if words:
        panels.insert(
            0, PlotPanel("words of a critique", partial(_length_boxes, words), "words by phase; in the table")
        )
    rows = [
        (group.label, group.setting, phase, str(counts[0]), figure(_share(counts[0] - counts[1], counts[0])),
         figure(_share(counts[2], counts[0])), _middle(words.get(group, {}).get(phase, ())))
        for group, by_phase in asked.items()
        for phase, counts in by_phase.items()
    ]  # fmt: skip
    stored = sum(len(of) for by_phase in words.values() for of in by_phase.values())
    return DrawnPlot(
        n=f"{sum(counts[0] for by_phase in asked.values() for counts in by_phase.values()):,} critiques asked for, "
        f"{stored:,} of them kept; intervals over critiques, which are too narrow, as those of a task are alike",
        control="A critic that stays as it was (echo-frozen-critic), trained with all else the same: what changes "
        "there is the policy's attempts, not the critic."
        + ("" if any(map(has_frozen_critic, asked)) else " It is not among these runs."),
        commands=list_commands(run for group in asked for run in group.runs),
        panels=tuple(panels),
        table=PlotTable(
            ("method", "where", "phase", "asked for", "could be read, %", "cut off, %", "words: median (5% to 95%)"),
            tuple(rows),
        ),
        notes=() if words else ("No critique was kept (rollouts: {episodes: 0}): there are no lengths.",),
    )


def has_frozen_critic(group: TrainedGroup) -> bool:
    """Return whether a group's critic was not trained, whatever its method is called."""
    trained = training_settings(group.runs[0]).get("trained")
    return isinstance(trained, list) and "critic" not in trained


def _count_critiques(material: ReportData, group: TrainedGroup) -> dict[str, tuple[int, int, int]]:
    """Count critiques by phase: requested, unreadable, and cut off."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for run in group.runs:
        for line in material.signals(run):
            phase = material.phase(run, line.step)
            for index, kind in enumerate(("", "unread_", "cut_")):
                names = [f"count/{kind}critiques_of_{outcome}_attempts" for outcome in OUTCOMES]
                sums[phase][index] += sum(line.values.get(name, 0.0) for name in names)
    counts = {phase: tuple(int(count) for count in sums[phase]) for phase in PHASES if phase in sums}
    return {phase: (asked, unread, cut) for phase, (asked, unread, cut) in counts.items() if asked}


def _words(material: ReportData, group: TrainedGroup) -> dict[str, list[int]]:
    by_phase: dict[str, list[int]] = defaultdict(list)
    for run in group.runs:
        for step, review in material.critiques(run):
            if review.fault is None:
                by_phase[material.phase(run, step)].append(len(review.reply.split()))
    return {phase: by_phase[phase] for phase in PHASES if phase in by_phase}


def _share(count: int, total: int) -> Estimate | None:
    return wilson(min(max(count, 0), total), total) if total else None


def _middle(words: Sequence[int]) -> str:
    if not words:
        return "-"
    low, _, middle, _, high = np.percentile(words, QUANTILES)
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def _group_offset(number: int, groups: int) -> float:
    """Compute the offset of one of several groups from the centre of a phase."""
    return (number - (groups - 1) / 2) * 0.7 / groups


def _length_boxes(words: Mapping[TrainedGroup, ByPhase], axes: Axes, palette: ColourPalette) -> None:
    for number, (group, by_phase) in enumerate(words.items()):
        colour = palette.colour(number)
        for phase, word_counts in by_phase.items():
            at = PHASES.index(phase) + _group_offset(number, len(words))
            low, left, middle, right, high = np.percentile(word_counts, QUANTILES)
            axes.vlines(at, low, high, color=colour, linewidth=1.4)
            axes.vlines(at, left, right, color=colour, linewidth=8)
            axes.plot(at, middle, "_", color=palette.back, markersize=10, markeredgewidth=2)
        axes.plot([], [], "s", color=colour, label=plain(group.label))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("words (5, 25, 50, 75, 95%)")
    _label_phases(axes)


def _readable(
    asked: Mapping[TrainedGroup, Mapping[str, tuple[int, int, int]]], axes: Axes, palette: ColourPalette
) -> None:
    for number, (group, by_phase) in enumerate(asked.items()):
        at = [PHASES.index(phase) + _group_offset(number, len(asked)) for phase in by_phase]
        shares = [wilson(count - unread, count) for count, unread, _ in by_phase.values()]
        axes.plot(at, [share.value for share in shares], "-o", color=palette.colour(number), label=plain(group.label))
        for x, share in zip(at, shares, strict=True):
            axes.vlines(x, *ends(share), color=palette.colour(number), linewidth=1.6)
    axes.set_ylim(-3, 103)
    axes.set_ylabel("%")
    _label_phases(axes)


def _label_phases(axes: Axes) -> None:
    axes.set_xticks(range(len(PHASES)), [f"{phase} third" for phase in PHASES])
    axes.set_xlim(-0.55, len(PHASES) - 0.45)
    axes.legend(loc="best")


PLOTS = (
    PlotKind(
        "critiques",
        "Length and readability of critiques",
        "Words of a critique, and percent of the critiques that could be read by the form that was asked for, by third "
        "of training.",
        MADE_BY,
        lengths,
    ),
)
