"""Diagnoses in critiques, and whether they change during a training run.

A diagnosis is the reason of a readable critique. It is embedded by its words and pairs of words (TF-IDF), not by a
language model: diagnoses are close if they share rare words, whatever they mean. The map is t-SNE's (van der Maaten and
Hinton, JMLR 2008); distances between its groups mean nothing. The measure uses the embedding itself: for each diagnosis
the nearest one of another step, and whether it is from the same third of training. The control is the same measure with
shuffled steps. Not here: embeddings by models, and topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from align_echo.errors import MissingExtraError, printable
from align_echo.intervals import Floats
from align_echo.report.material import PHASES, RecordedRun, ReportData
from align_echo.report.plots import (
    ColourPalette,
    DrawnPlot,
    PlotKind,
    PlotPanel,
    PlotTable,
    first_panels,
    list_commands,
)
from align_echo.report.trained import MADE_BY, TrainedGroup, group_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, LEAST_STEPS = 24, 6
"""Fewest diagnoses, and fewest steps, for a map."""

MOST = 1500
"""Most diagnoses of one map; more are subsampled evenly."""

SHUFFLES = 400
LONGEST_QUOTE = 110


@dataclass(frozen=True)
class DiagnosisRecord:
    """The reason of a critique. `moment` identifies its step, across runs."""

    text: str
    phase: str
    moment: str


@dataclass(frozen=True)
class DriftMap:
    """Diagnoses with their positions [M, 2], and the percent with a nearest neighbour (of another step) in the same
    phase. `by_chance` is that percent with shuffled steps: mean, and the ends of its middle 95%.
    """

    diagnoses: Sequence[DiagnosisRecord]
    places: Floats
    same: float
    by_chance: tuple[float, float, float]


def drift(material: ReportData) -> DrawnPlot | str:
    """Draw plot 10."""
    maps: dict[TrainedGroup, DriftMap] = {}
    sparse: list[str] = []
    for group in group_runs(material):
        diagnoses = _diagnoses(material, group)
        steps = len({diagnosis.moment for diagnosis in diagnoses})
        if len({diagnosis.text for diagnosis in diagnoses}) >= LEAST and steps >= LEAST_STEPS:
            try:
                maps[group] = _build_map(diagnoses)
            except MissingExtraError as error:
                return str(error)
        elif diagnoses:
            different = len({diagnosis.text for diagnosis in diagnoses})
            sparse.append(f"{group.label}: {different} different diagnoses of {steps} steps")
    least = f"a map needs {LEAST} different ones of {LEAST_STEPS} steps"
    if not maps:
        return f"too few diagnoses: {'; '.join(sparse)}; {least}" if sparse else (
            "no training run among these kept a critique that could be read"
        )
    panels, left_out = first_panels([
        PlotPanel(f"{group.label}: {len(drift_map.diagnoses)} diagnoses", partial(_draw_map, drift_map),
              _alt_text(drift_map), height=3.6)
        for group, drift_map in maps.items()
    ])  # fmt: skip
    rows = [
        (group.label, group.setting, phase, str(sum(each.phase == phase for each in drift_map.diagnoses)),
         *(_nearest_cells(drift_map) if phase == PHASES[0] else ("", "")), _quote(drift_map.diagnoses, phase))
        for group, drift_map in maps.items()
        for phase in PHASES
        if any(each.phase == phase for each in drift_map.diagnoses)
    ]  # fmt: skip
    count = sum(len(drift_map.diagnoses) for drift_map in maps.values())
    return DrawnPlot(
        n=f"{count:,} diagnoses of kept critiques (those of one task a step)",
        control="The same measure with the steps of training in another order: if the nearest diagnosis of another "
        "step is no more often of the same third than that, no drift is shown, whatever the map looks like. Steps "
        "differ in their tasks too.",
        commands=list_commands(run for group in maps for run in group.runs),
        panels=panels,
        table=PlotTable(
            ("method", "where", "phase", "diagnoses", "nearest is of the same third, %", "with steps shuffled, %",
             "one of them"),
            tuple(rows),
        ),
        notes=(
            "Embedded by words (TF-IDF) and drawn by t-SNE: nearness is shared words, not meaning.",
            *([f"Too few for a map: {'; '.join(sparse)}; {least}."] if sparse else []),
            *left_out,
        ),
    )


def _diagnoses(material: ReportData, group: TrainedGroup) -> list[DiagnosisRecord]:
    diagnoses = [each for run in group.runs for each in _run_diagnoses(material, run)]
    return diagnoses[:: max(-(-len(diagnoses) // MOST), 1)]


def _run_diagnoses(material: ReportData, run: RecordedRun) -> list[DiagnosisRecord]:
    return [
        DiagnosisRecord(review.critique.reason, material.phase(run, step), f"{run.name} {step}")
        for step, review in material.critiques(run)
        if review.critique is not None and not review.critique.is_none
    ]


def _build_map(diagnoses: Sequence[DiagnosisRecord]) -> DriftMap:
    """Compute the map. Raises `MissingExtraError` without scikit-learn."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.manifold import TSNE
    except ImportError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise MissingExtraError("the map of diagnoses", "report") from None
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    rows = words.fit_transform([diagnosis.text or "-" for diagnosis in diagnoses]).toarray()
    tsne = TSNE(perplexity=min(30.0, (len(rows) - 1) / 3), init="random", random_state=0, metric="cosine")
    moments = list(dict.fromkeys(diagnosis.moment for diagnosis in diagnoses))
    moment_M = np.asarray([moments.index(diagnosis.moment) for diagnosis in diagnoses])
    phase_by_moment = {diagnosis.moment: PHASES.index(diagnosis.phase) for diagnosis in diagnoses}
    phase_S = np.asarray([phase_by_moment[moment] for moment in moments])
    nearest_M = nearest_in_other_step(rows, moment_M)

    def same(phases: npt.NDArray[np.int64]) -> float:
        return float(100 * np.mean(phases[moment_M] == phases[moment_M[nearest_M]]))

    draw = np.random.default_rng(0)
    shuffled = [same(draw.permutation(phase_S)) for _ in range(SHUFFLES)]
    low, high = np.percentile(shuffled, [2.5, 97.5])
    return DriftMap(
        diagnoses,
        np.asarray(tsne.fit_transform(rows), dtype=np.float64),
        same(phase_S),
        (float(np.mean(shuffled)), float(low), float(high)),
    )


def nearest_in_other_step(rows: Floats, moment_M: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Find for each unit row [M, W] the index of the row with the smallest angle among other steps."""
    similarity = rows @ rows.T
    similarity[moment_M[:, None] == moment_M[None, :]] = -1.0
    return np.asarray(similarity.argmax(axis=1), dtype=np.int64)


def _nearest_cells(drift_map: DriftMap) -> tuple[str, str]:
    mean, low, high = drift_map.by_chance
    return f"{drift_map.same:.1f}", f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _alt_text(drift_map: DriftMap) -> str:
    same, chance = _nearest_cells(drift_map)
    return f"diagnoses as points, by third of training; nearest of the same third: {same}%, by chance {chance}"


def _quote(diagnoses: Sequence[DiagnosisRecord], phase: str) -> str:
    """Return the most frequent diagnosis of a phase."""
    texts = [diagnosis.text for diagnosis in diagnoses if diagnosis.phase == phase]
    common = max(dict.fromkeys(texts), key=texts.count)
    text = " ".join(printable(common).split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


def _draw_map(drift_map: DriftMap, axes: Axes, palette: ColourPalette) -> None:
    phases = np.asarray([diagnosis.phase for diagnosis in drift_map.diagnoses])
    for number, phase in enumerate(PHASES):
        inside = drift_map.places[phases == phase]
        if len(inside):
            axes.plot(*inside.T, "os^"[number], color=palette.colour(number), markersize=4, alpha=0.75,
                      label=f"{phase} third", markeredgewidth=0)  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    _, low, high = drift_map.by_chance
    axes.set_xlabel(f"same third: {drift_map.same:.0f}%; shuffled: {low:.0f} to {high:.0f}%")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, columnspacing=1, handletextpad=0.2)


PLOTS = (
    PlotKind(
        "drift",
        "Drift of diagnoses",
        "What critiques blame: each point is the reason of one critique, near those that share its words, by third of "
        "training.",
        MADE_BY,
        drift,
    ),
)
