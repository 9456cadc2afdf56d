"""`align-echo report`: all plots of some runs as one HTML page, and its pictures as PNG files.

    report = write_report([Path("runs/first")], Path("report.html"))

The page holds each picture twice, for a light and a dark system, and runs no script. Not here: the content of the
plots.
"""

from __future__ import annotations

import base64
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from align_echo.base.files import write_atomically
from align_echo.errors import UsageError, printable, without_secrets
from align_echo.report import action_critics, critiques, drift, refined, trained, variants
from align_echo.report.drawing import picture, require_drawing
from align_echo.report.html_page import check_html_file, fill_page
from align_echo.report.material import ReportData, find_runs
from align_echo.report.plots import DARK, LIGHT, DrawnPlot, PlotKind, PlotPanel

PLOTS: tuple[PlotKind, ...] = (
    *variants.PLOTS,
    *trained.PLOTS,
    *refined.PLOTS,
    *critiques.PLOTS,
    *drift.PLOTS,
    *action_critics.PLOTS,
)
"""All plots, in the order of the page."""

OUT = Path("report.html")


@dataclass(frozen=True)
class WrittenReport:
    """Paths and outcome of a written report: the page, the folder of its pictures, by plot the number of pictures or
    the reason for none, and damaged or missing parts of the runs.
    """

    file: Path
    figures: Path
    drawn: dict[str, int]
    undrawn: dict[str, str]
    damaged: list[str]

    @property
    def lines(self) -> list[str]:
        """Return a line for each plot, for the terminal."""
        lines = []
        for plot in PLOTS:
            if plot.key in self.drawn:
                pictures = self.drawn[plot.key]
                lines.append(f"drawn      {plot.key}: {pictures} {'picture' if pictures == 1 else 'pictures'}")
            else:
                lines.append(f"not drawn  {plot.key}: {self.undrawn[plot.key]}")
        return [printable(line) for line in lines]


def write_report(paths: Sequence[Path], out: Path = OUT) -> WrittenReport:
    """Write the page to `out`, and the pictures into the folder with the same name and `-figures`, which is replaced.

    Raises `UsageError` for paths without runs or data, for an unusable `out`, and for a figures folder with other
    files; `MissingExtraError` without matplotlib.
    """
    figures = out.with_name(f"{out.stem}-figures")
    _check(out, figures)
    require_drawing()
    material = ReportData(find_runs(paths))
    for run in material.runs_with_verb("evaluate"):
        material.check_episodes(run)
    results = {plot.key: plot.draw(material) for plot in PLOTS}
    drawn = {key: result for key, result in results.items() if isinstance(result, DrawnPlot)}
    undrawn = {key: result for key, result in results.items() if isinstance(result, str)}
    problems = material.problems()
    if not drawn:
        why = problems[0] if problems else "these runs hold nothing that is drawn"
        raise UsageError(f"there is nothing to draw in {', '.join(map(str, paths))}: {why}")
    pictures = {key: [_Picture(panel) for panel in result.panels] for key, result in drawn.items()}
    files = {f"{key}-{number}.png": panel.light
             for key, panels in pictures.items() for number, panel in enumerate(panels, start=1)}  # fmt: skip
    _write_figures(figures, files)
    write_atomically(out, _page(material, drawn, undrawn, pictures, figures.name, problems))
    return WrittenReport(out, figures, {key: len(panels) for key, panels in pictures.items()}, undrawn, problems)


class _Picture:
    """A panel, drawn for both themes."""

    def __init__(self, panel: PlotPanel) -> None:
        self.alt = panel.alt
        self.light = picture(panel, LIGHT)
        self.dark = picture(panel, DARK)


def _check(out: Path, figures: Path) -> None:
    check_html_file(out)
    if figures.exists() and not figures.is_dir():
        raise UsageError(f"{figures} is a file, where the pictures' folder would be: name another --out")
    if figures.is_dir() and any(entry.suffix != ".png" or entry.is_dir() for entry in figures.iterdir()):
        raise UsageError(f"{figures} holds other files than pictures: name another --out")


def _write_figures(folder: Path, files: dict[str, bytes]) -> None:
    """Replace the folder by one with these files."""
    new = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        new.mkdir()
        for name, content in files.items():
            (new / name).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


# ---------------------------------------------------------------- the page


def _page(
    material: ReportData,
    drawn: dict[str, DrawnPlot],
    undrawn: dict[str, str],
    pictures: dict[str, list[_Picture]],
    folder: str,
    problems: Sequence[str],
) -> str:
    page = resources.files("align_echo.report").joinpath("page")
    runs = [run for run in material.runs if run.made_by is None]
    sections: list[dict[str, Any]] = [
        {
            "plot": plot,
            "drawn": drawn.get(plot.key),
            "why": undrawn.get(plot.key, ""),
            "pictures": [
                {"alt": drawn_picture.alt, "light": _data(drawn_picture.light), "dark": _data(drawn_picture.dark),
                 "file": f"{folder}/{plot.key}-{number}.png"}
                for number, drawn_picture in enumerate(pictures.get(plot.key, ()), start=1)
            ],
        }
        for plot in PLOTS
    ]
    title = runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more"
    return without_secrets(
        fill_page(page, "report.css", title=title, runs=runs, sections=sections, problems=problems)
    )


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
