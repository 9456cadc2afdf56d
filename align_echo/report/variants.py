"""Evaluations, grids and studies: success, consecutive invalid actions and hints of each variant, with the placebo.

Not here: their measurement (`align_echo.evaluate`), and refinement in rounds (`refined.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from align_echo.evaluate.comparison import BASELINE, PLACEBO, VARIANTS, VariantComparison
from align_echo.evaluate.grid import WITH, CellSide, GridCell, GridSummary
from align_echo.evaluate.study import StudySummary
from align_echo.evaluate.tables import NAMES, NOT_DEFINED, failed_on, refusals_line
from align_echo.interface.hints import HintCount, count_hints, merged
from align_echo.intervals import Estimate, wilson
from align_echo.report.drawing import name_rows, whisker
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
from align_echo.rollout.refusals import AnswerShares, Known
from align_echo.run_dir import GENERATE
from align_echo.types import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE_BY = "align-echo evaluate --env alfworld --agent novice --interface probe --compare"
CONTROL = (
    "The placebo: the same interface, in which neutral sentences stand for its own. What an interface is worth is what "
    "it adds to its placebo, not what it adds to nothing."
)
NO_CONTROL = "None was played here: add --compare (without --no-placebo), or no effect can be told from a placebo's."
MOST_RULES = 10
"""Most rules of one interface in a picture, the most frequent ones."""


@dataclass(frozen=True)
class ShownVariant:
    """One variant of one evaluation: percent with intervals, None if undefined. `trouble` says that its interface
    failed, so that no figure is its own.
    """

    episodes: int
    success: Estimate | None
    invalid: Estimate | None
    invalid_shown: Estimate | None
    trouble: str = ""
    hints: tuple[HintCount, ...] = ()
    refusals: Known | Literal[""] = ""
    answers: AnswerShares | None = None


@dataclass(frozen=True)
class EvaluationResult:
    """One agent in one environment, variant by variant. `worth` is success over the placebo, paired, in points."""

    run: RecordedRun
    label: str
    arms: dict[str, ShownVariant]
    worth: dict[str, Estimate]
    worth_invalid: dict[str, Estimate | None]


def evaluations(material: ReportData) -> list[EvaluationResult]:
    """Collect all finished comparisons, also from cells of grids and studies whose own folder is missing."""
    results = []
    for run in material.runs_with_verb("evaluate"):
        summary = material.summary_object(run)
        if summary is not None and "variants" in summary:
            comparison = material.summary(run, VariantComparison)
            results += [_from_comparison(run, comparison)] if comparison else []
    known = {result.run.folder for result in results}
    for run in material.runs_with_verb("grid", "study"):
        for part, cell in _cells(material, run):
            if (run.folder / cell.folder).resolve() not in known:
                results.append(_from_cell(run, part, cell))
    return results


def _cells(material: ReportData, run: RecordedRun) -> list[tuple[str, GridCell]]:
    if run.verb == "grid":
        grid = material.summary(run, GridSummary)
        return [("", cell) for cell in grid.cells] if grid else []
    study = material.summary(run, StudySummary)
    return [(f", {part}", cell) for part, grid in study.parts.items() for cell in grid.cells] if study else []


def _from_comparison(run: RecordedRun, comparison: VariantComparison) -> EvaluationResult:
    arms = {
        name: ShownVariant(
            result.episodes,
            result.success_rate,
            result.consecutive_invalid,
            result.consecutive_invalid_shown,
            "" if result.conduct.works else failed_on(result.conduct),
            result.hints,
            result.refusals or comparison.refusals,
            result.answers,
        )
        for name, result in sorted(comparison.variants.items(), key=lambda variant: _order(variant[0]))
    }
    over = comparison.over_placebo if PLACEBO not in arms or not arms[PLACEBO].trouble else {}
    return EvaluationResult(
        run,
        f"{run.name}: {comparison.environment}, {comparison.agent}",
        arms,
        {name: difference.success_points for name, difference in over.items() if not arms[name].trouble},
        {name: difference.invalid_points for name, difference in over.items() if not arms[name].trouble},
    )


def _from_cell(run: RecordedRun, part: str, cell: GridCell) -> EvaluationResult:
    sides = {BASELINE: cell.without, PLACEBO: cell.placebo, WITH: cell.with_interface}
    over = cell.over_placebo
    return EvaluationResult(
        run,
        f"{run.name}{part}: {cell.environment}, {cell.agent}",
        {name: _from_side(side) for name, side in sides.items() if side is not None},
        {WITH: over.success} if over else {},
        {WITH: over.consecutive_invalid} if over else {},
    )


def _from_side(side: CellSide) -> ShownVariant:
    trouble = "" if side.conduct.works else failed_on(side.conduct)
    return ShownVariant(
        side.episodes, side.success, side.consecutive_invalid, side.consecutive_invalid_shown, trouble,
        refusals=side.refusals, answers=side.answers,
    )  # fmt: skip


def _order(name: str) -> int:
    return VARIANTS.index(name) if name in VARIANTS else len(VARIANTS)


# ---------------------------------------------------------------- success, invalid actions


def success(material: ReportData) -> DrawnPlot | str:
    """Draw plot 1."""
    results = evaluations(material)
    if not results:
        return "no finished evaluation, grid or study is among these runs"
    rows = [
        (result.label, NAMES.get(name, name), str(arm.episodes), arm.trouble or figure(arm.success),
         figure(result.worth.get(name), signed=True))
        for result in results
        for name, arm in result.arms.items()
    ]  # fmt: skip
    headings = ("evaluation", "interface", "episodes", "won, %", "over the placebo, points")
    return _build_plot(results, "won, %", lambda arm: (arm.success, None), PlotTable(headings, tuple(rows)), ())


def invalid(material: ReportData) -> DrawnPlot | str:
    """Draw plot 2."""
    results = evaluations(material)
    defined = [result for result in results if any(arm.invalid is not None for arm in result.arms.values())]
    if not defined:
        silent = ", ".join(result.label for result in results)
        return f"nothing tells which actions these environments refused: {silent}" if results else (
            "no finished evaluation, grid or study is among these runs"
        )
    rows = [
        (result.label, NAMES.get(name, name), str(arm.episodes), arm.trouble or _share(arm.invalid),
         "-" if arm.trouble else _share(arm.invalid_shown), figure(result.worth_invalid.get(name), signed=True))
        for result in defined
        for name, arm in result.arms.items()
    ]  # fmt: skip
    headings = ("evaluation", "interface", "episodes", "by replay, %", "as shown, %", "over the placebo, points")
    notes = tuple(dict.fromkeys(note for result in results for note in _known_by(result)))
    table = PlotTable(headings, tuple(rows))
    axis = "actions in invalid runs, %"
    return _build_plot(defined, axis, lambda arm: (arm.invalid, arm.invalid_shown), table, notes)


def _share(share: Estimate | None) -> str:
    return NOT_DEFINED if share is None else figure(share)


def _known_by(result: EvaluationResult) -> list[str]:
    """Describe how refused actions are known, or what is known without that."""
    arms = [arm for arm in result.arms.values() if arm.refusals or arm.invalid is None]
    return [
        *(f"{result.label}: {refusals_line(arm.refusals)}." for arm in arms),
        *(
            f"{result.label}, {NAMES.get(name, name)}: not defined: {arm.answers.in_words}."
            for name, arm in result.arms.items()
            if arm.answers is not None
        ),
    ]


def _build_plot(
    results: Sequence[EvaluationResult],
    axis: str,
    figures: Callable[[ShownVariant], tuple[Estimate | None, Estimate | None]],
    table: PlotTable,
    notes: tuple[str, ...],
) -> DrawnPlot:
    panels, left_out = first_panels([_arms_panel(result, axis, figures) for result in results])
    tasks = sum(max((arm.success.n for arm in result.arms.values() if arm.success), default=0) for result in results)
    controlled = [result for result in results if PLACEBO in result.arms]
    uncontrolled = [result.label for result in results if result not in controlled and len(result.arms) > 1]
    placebo_note = (f"Without a placebo: {', '.join(uncontrolled)}.",) if uncontrolled else ()
    return DrawnPlot(
        n=f"{tasks} tasks in {len(results)} {'evaluation' if len(results) == 1 else 'evaluations'}; "
        "lines are 95% intervals over tasks",
        control=CONTROL if controlled else NO_CONTROL,
        commands=list_commands(result.run for result in results),
        panels=panels,
        table=table,
        notes=(*notes, *placebo_note, *left_out),
    )


def _arms_panel(
    result: EvaluationResult, axis: str, figures: Callable[[ShownVariant], tuple[Estimate | None, Estimate | None]]
) -> PlotPanel:
    figures_by_name = {name: (arm, *figures(arm)) for name, arm in result.arms.items()}

    def draw(axes: Axes, palette: ColourPalette) -> None:
        name_rows(axes, [NAMES.get(name, name) for name in figures_by_name])
        for row, (name, (arm, main, second)) in enumerate(figures_by_name.items()):
            if arm.trouble or main is None:
                axes.text(50, row, "did not work" if arm.trouble else NOT_DEFINED, color=palette.quiet, fontsize=7.5,
                          ha="center", va="center")  # fmt: skip
                continue
            colour = palette.quiet if name in (BASELINE, PLACEBO) else palette.colour(0)
            if second is not None:
                axes.plot(second.value, row, "o", color=palette.back, markeredgecolor=colour, markersize=7)
            if main.n > 1:
                whisker(axes, row, ends(main), colour)
            axes.plot(main.value, row, "D" if name == PLACEBO else "o", color=colour, markersize=5)
            axes.annotate(f"{main.value:.1f}", (main.value, row), (0, 6), textcoords="offset points", ha="center",
                          fontsize=7.5, color=palette.ink)  # fmt: skip
        axes.set_xlim(-4, 104)
        axes.set_xlabel(axis)

    summary = "; ".join(f"{NAMES.get(name, name)} {figure(main)}" for name, (_, main, _) in figures_by_name.items())
    return PlotPanel(result.label, draw, f"{result.label}: {axis}: {summary}", height=1.0 + 0.38 * len(figures_by_name))


# ---------------------------------------------------------------- hints


def hints(material: ReportData) -> DrawnPlot | str:
    """Draw plot 3."""
    hint_rows = _collect_hints(material)
    if not hint_rows:
        return "no hint of an interface is on record in these runs (rules told up front are none)"
    panels: list[PlotPanel] = []
    rows: list[tuple[str, ...]] = []
    for label, counts, placebo, _ in hint_rows:
        chance = {count.rule: count for count in placebo}
        most = counts[:MOST_RULES]
        alt = f"{label}: what became of each rule's hints; in the table"
        panels.append(PlotPanel(label, partial(_draw_outcomes, most), alt, height=1.3 + 0.3 * len(most)))
        panels.append(PlotPanel("followed, % of shown; diamond: placebo", partial(_followed, most, chance),
                            f"{label}: share of hints that were followed; in the table",
                            height=1.3 + 0.3 * len(most)))  # fmt: skip
        for number, count in enumerate(counts, start=1):
            rows.append((f"{label} R{number}", count.rule, *_counts(count), _by_chance(chance.get(count.rule))))
    drawn_panels, left_out = first_panels(panels)
    fired = sum(count.fired for _, counts, _, _ in hint_rows for count in counts)
    return DrawnPlot(
        n=f"{fired:,} hints shown in {len(hint_rows)} {'interface' if len(hint_rows) == 1 else 'interfaces'} as played",
        control="The placebo of the same interface: its hints were not shown, so they were followed by chance alone. "
        "Hints that were never followed show nothing about truth: align-echo interface audit tries those.",
        commands=list_commands(run for *_, run in hint_rows),
        panels=drawn_panels,
        table=PlotTable(
            ("rule", "what it says", "shown", "followed", "came true", "did not", "true, %", "silenced in",
             "placebo: followed of shown"),
            tuple(rows),
        ),
        notes=left_out,
    )


HintRow = tuple[str, tuple[HintCount, ...], tuple[HintCount, ...], RecordedRun]
"""A name, counts of hints, counts of the same hints in the placebo, and the run."""


def _collect_hints(material: ReportData) -> list[HintRow]:
    hint_rows: list[HintRow] = []
    for result in evaluations(material):
        name = next((name for name in ("full", "feedback") if name in result.arms and result.arms[name].hints), "")
        if name and not result.arms[name].trouble:
            placebo = result.arms[PLACEBO].hints if PLACEBO in result.arms else ()
            hint_rows.append((result.label, result.arms[name].hints, placebo, result.run))
    for run in material.runs_with_verb(GENERATE):
        files = sorted(run.folder.glob("iterations/*/trajectories.jsonl"))
        counts = [count_hints(material.lines(run, file, Trajectory)) for file in files]
        total = merged(*counts)
        if total:
            hint_rows.append((f"{run.name}: while learning", total, (), run))
    return hint_rows


def _draw_outcomes(counts: Sequence[HintCount], axes: Axes, palette: ColourPalette) -> None:
    """Draw the outcomes of each rule's hints as bars."""
    name_rows(axes, [f"R{number}" for number in range(1, len(counts) + 1)])
    kinds = (
        ("came true", palette.good, [count.came_true for count in counts]),
        ("did not", palette.bad, [count.failed for count in counts]),
        ("followed, not settled", palette.colour(0), [_open(count) for count in counts]),
        ("not followed", palette.line, [max(count.fired - count.followed, 0) for count in counts]),
    )
    left = [0] * len(counts)
    for name, colour, widths in kinds:
        axes.barh(range(len(counts)), widths, left=left, color=colour, height=0.62, label=name)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_xlabel("hints")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=4, columnspacing=0.9, handlelength=0.9)


def _followed(
    counts: Sequence[HintCount], chance: dict[str, HintCount], axes: Axes, palette: ColourPalette
) -> None:
    name_rows(axes, [f"R{number}" for number in range(1, len(counts) + 1)])
    for row, count in enumerate(counts):
        both = ((chance.get(count.rule), 0.14, palette.quiet, "D"), (count, -0.14, palette.colour(0), "o"))
        for rule_count, offset, colour, mark in both:
            share = _share_followed(rule_count) if rule_count else None
            if share is not None:
                whisker(axes, row + offset, ends(share), colour)
                axes.plot(share.value, row + offset, mark, color=colour, markersize=5)
    axes.set_xlim(-4, 104)
    axes.set_xlabel("followed, % (95% intervals over hints)")


def _open(count: HintCount) -> int:
    return max(count.followed - count.came_true - count.failed, 0)


def _share_followed(count: HintCount) -> Estimate | None:
    return wilson(min(count.followed, count.fired), count.fired) if count.fired else None


def _counts(count: HintCount) -> tuple[str, ...]:
    settled = count.came_true + count.failed
    true = figure(wilson(count.came_true, settled)) if settled else "-"
    return str(count.fired), str(count.followed), str(count.came_true), str(count.failed), true, str(count.silenced)


def _by_chance(count: HintCount | None) -> str:
    return f"{count.followed} of {count.fired}" if count and count.fired else "-"


PLOTS = (
    PlotKind(
        "success",
        "Success without and with the interface",
        "Percent of episodes won in each variant: no interface, its placebo, its rules alone, its feedback alone, "
        "both.",
        MADE_BY,
        success,
    ),
    PlotKind(
        "invalid",
        "Consecutive invalid actions",
        "Percent of the agent's actions that stand in a row of two or more refused ones: dots by replay in the plain "
        "environment, rings as the agent was shown it.",
        MADE_BY,
        invalid,
    ),
    PlotKind(
        "hints",
        "What became of each rule's hints",
        "By rule of the interface: how often a hint was shown, followed, and did what it had promised.",
        MADE_BY,
        hints,
    ),
)
