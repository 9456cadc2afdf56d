"""What critiques blame, and whether that changes while a run trains.

A diagnosis is the reason that a readable critique gives. It is embedded by the words and pairs of words in it (TF-IDF),
not by a language model: two diagnoses are near where they share rare words, whatever they mean. The map is t-SNE's
(van der Maaten and Hinton, JMLR 2008), in which distances between groups say nothing. What is measured is on the
embedding itself: of each diagnosis the nearest one of another step, and whether that is of the same third of training.
Its control is the same with the steps in another order. Left out: embeddings by models, and topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from align_echo.errors import MissingExtraError
from align_echo.intervals import Floats
from align_echo.report.finding import RecordedRun
from align_echo.report.material import PHASES, Material
from align_echo.report.palette import Palette
from align_echo.report.plots import DrawnPlot, Panel, Plot, PlotTable, commands_of, first_panels
from align_echo.report.trained import MADE_BY, TrainedGroup, groups_of
from align_echo.sandbox.session import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, LEAST_STEPS = 24, 6
"""Diagnoses, and steps they are of, below which there is nothing to see in a map."""

MOST = 1500
"""Diagnoses of one map: of more, every so-manyth."""

SHUFFLES = 400
LONGEST_QUOTE = 110


@dataclass(frozen=True)
class Diagnosis:
    """The reason of a critique; `moment` tells harvests apart, of several runs too."""

    text: str
    phase: str
    moment: str


@dataclass(frozen=True)
class DriftMap:
    """Diagnoses with places [M, 2], and the share in percent whose nearest of another step is of the same phase; that
    share with shuffled steps: mean, and the ends of its middle 95%.
    """

    diagnoses: Sequence[Diagnosis]
    places: Floats
    same: float
    by_chance: tuple[float, float, float]


def drift(material: Material) -> DrawnPlot | str:
    """Plot 10."""
    maps: dict[TrainedGroup, DriftMap] = {}
    few: list[str] = []
    for group in groups_of(material):
        diagnoses = _diagnoses(material, group)
        steps = len({diagnosis.moment for diagnosis in diagnoses})
        if len({diagnosis.text for diagnosis in diagnoses}) >= LEAST and steps >= LEAST_STEPS:
            try:
                maps[group] = _mapped(diagnoses)
            except MissingExtraError as error:
                return str(error)
        elif diagnoses:
            few.append(f"{group.label}: {len({each.text for each in diagnoses})} different diagnoses of {steps} steps")
    least = f"a map needs {LEAST} different ones of {LEAST_STEPS} steps"
    if not maps:
        return f"too few diagnoses: {'; '.join(few)}; {least}" if few else (
            "no training run among these kept a critique that could be read"
        )
    panels, left = first_panels([
        Panel(f"{group.label}: {len(of.diagnoses)} diagnoses", partial(_map, of), _told(of), height=3.6)
        for group, of in maps.items()
    ])  # fmt: skip
    rows = [
        (group.label, group.setting, phase, str(sum(each.phase == phase for each in of.diagnoses)),
         *(_nearest(of) if phase == PHASES[0] else ("", "")), _quote(of.diagnoses, phase))
        for group, of in maps.items()
        for phase in PHASES
        if any(each.phase == phase for each in of.diagnoses)
    ]  # fmt: skip
    return DrawnPlot(
        n=f"{sum(len(of.diagnoses) for of in maps.values()):,} diagnoses of kept critiques (those of one task a step)",
        control="The same measure with the steps of training in another order: if the nearest diagnosis of another "
        "step is no more often of the same third than that, no drift is shown, whatever the map looks like. Steps "
        "differ in their tasks too.",
        commands=commands_of(run for group in maps for run in group.runs),
        panels=panels,
        table=PlotTable(
            ("method", "where", "phase", "diagnoses", "nearest is of the same third, %", "with steps shuffled, %",
             "one of them"),
            tuple(rows),
        ),
        notes=(
            "Embedded by words (TF-IDF) and drawn by t-SNE: nearness is shared words, not meaning.",
            *([f"Too few for a map: {'; '.join(few)}; {least}."] if few else []),
            *left,
        ),
    )


def _diagnoses(material: Material, group: TrainedGroup) -> list[Diagnosis]:
    diagnoses = [each for run in group.runs for each in _of_run(material, run)]
    return diagnoses[:: max(-(-len(diagnoses) // MOST), 1)]


def _of_run(material: Material, run: RecordedRun) -> list[Diagnosis]:
    return [
        Diagnosis(review.critique.reason, material.phase(run, step), f"{run.name} {step}")
        for step, review in material.critiques(run)
        if review.critique is not None and not review.critique.is_none
    ]


def _mapped(diagnoses: Sequence[Diagnosis]) -> DriftMap:
    """Raises `MissingExtraError` without scikit-learn."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.manifold import TSNE
    except ImportError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise MissingExtraError("the map of diagnoses", "train") from None
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    rows = words.fit_transform([diagnosis.text or "-" for diagnosis in diagnoses]).toarray()
    map_of = TSNE(perplexity=min(30.0, (len(rows) - 1) / 3), init="random", random_state=0, metric="cosine")
    moments = list(dict.fromkeys(diagnosis.moment for diagnosis in diagnoses))
    moment_M = np.asarray([moments.index(diagnosis.moment) for diagnosis in diagnoses])
    phase_of = {diagnosis.moment: PHASES.index(diagnosis.phase) for diagnosis in diagnoses}
    phase_S = np.asarray([phase_of[moment] for moment in moments])
    nearest_M = nearest_of_another_step(rows, moment_M)

    def same(phases: npt.NDArray[np.int64]) -> float:
        return float(100 * np.mean(phases[moment_M] == phases[moment_M[nearest_M]]))

    draw = np.random.default_rng(0)
    shuffled = [same(draw.permutation(phase_S)) for _ in range(SHUFFLES)]
    low, high = np.percentile(shuffled, [2.5, 97.5])
    return DriftMap(
        diagnoses,
        np.asarray(map_of.fit_transform(rows), dtype=np.float64),
        same(phase_S),
        (float(np.mean(shuffled)), float(low), float(high)),
    )


def nearest_of_another_step(rows: Floats, moment_M: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each row [M, W] of length 1 the number of the one that is nearest by its angle, of other steps than its own.
    """
    alike = rows @ rows.T
    alike[moment_M[:, None] == moment_M[None, :]] = -1.0
    return np.asarray(alike.argmax(axis=1), dtype=np.int64)


def _nearest(of: DriftMap) -> tuple[str, str]:
    mean, low, high = of.by_chance
    return f"{of.same:.1f}", f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _told(of: DriftMap) -> str:
    same, chance = _nearest(of)
    return f"diagnoses as points, by third of training; nearest of the same third: {same}%, by chance {chance}"


def _quote(diagnoses: Sequence[Diagnosis], phase: str) -> str:
    """The diagnosis of a phase that is there most often."""
    texts = [diagnosis.text for diagnosis in diagnoses if diagnosis.phase == phase]
    common = max(dict.fromkeys(texts), key=texts.count)
    said = " ".join(printable(common).split())
    return said if len(said) <= LONGEST_QUOTE else f"{said[: LONGEST_QUOTE - 3]}..."


def _map(of: DriftMap, axes: Axes, palette: Palette) -> None:
    phases = np.asarray([diagnosis.phase for diagnosis in of.diagnoses])
    for number, phase in enumerate(PHASES):
        inside = of.places[phases == phase]
        if len(inside):
            axes.plot(*inside.T, "os^"[number], color=palette.of(number), markersize=4, alpha=0.75,
                      label=f"{phase} third", markeredgewidth=0)  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(f"same third: {of.same:.0f}%; shuffled: {of.by_chance[1]:.0f} to {of.by_chance[2]:.0f}%")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, columnspacing=1, handletextpad=0.2)


PLOTS = (
    Plot(
        "drift",
        "Drift of diagnoses",
        "What critiques blame: each point is the reason of one critique, near those that share its words, by third of "
        "training.",
        MADE_BY,
        drift,
    ),
)
