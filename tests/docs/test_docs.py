"""The documentation: links lead somewhere, and every key of what commands write is on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from align_echo.align.run_folder import IterationRecord, RunSummary
from align_echo.critic.ask import CriticCalibration
from align_echo.critic.calibration import CalibrationResult, ConfusionCounts, CriticReport, ReliabilityBin
from align_echo.evaluate.audit.report import AuditReport, AuditRow, SpeakerAudit
from align_echo.evaluate.comparison import VariantComparison, VariantDifference, VariantResult
from align_echo.evaluate.grid import CellChange, CellSide, GridCell, GridSummary
from align_echo.evaluate.refinement import RefinementResult, RoundResult
from align_echo.evaluate.study import StudySummary
from align_echo.gaia.collect import CollectionSummary, LabelCounts
from align_echo.gaia.examples import ActionExample
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.flywheel import FlywheelRound, FlywheelSummary
from align_echo.gaia.gui.fit import ScreenFitResult
from align_echo.gaia.gui.screens import ActionAccuracy, RuleAccuracy, ScreenTrialResult, StepPrediction
from align_echo.gaia.trial import SelectionResult, TrialResult
from align_echo.interface.hints import HintCount
from align_echo.intervals import Estimate
from align_echo.rollout.faults import InterfaceConduct, InterfaceTrouble
from align_echo.types import ChoiceCounts
from align_echo.wrappers.gui.steps import GuiStep

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])


def words_in_code(page: Path) -> set[str]:
    """Every word that stands in backquotes or in an indented block; what is in a fence is an example."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    code = "\n".join([*re.findall(r"`([^`]+)`", text), *re.findall(r"^ {4}.+$", text, flags=re.MULTILINE)])
    return {word.strip("-") for word in re.findall(r"[\w-]+", code)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """What a link can name in a page: its headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_a_section_lead_to_one_that_there_is(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text())
    missing = [name for file, name in targets if name not in anchors(page.parent / file if file else page)]
    assert missing == []


RECORDS = (
    *(RunSummary, IterationRecord, VariantComparison, VariantResult, VariantDifference, Estimate, ChoiceCounts),
    *(
        StudySummary,
        GridSummary,
        GridCell,
        CellSide,
        CellChange,
        Estimate,
        RefinementResult,
        RoundResult,
        InterfaceConduct,
        InterfaceTrouble,
    ),
    *(HintCount, AuditReport, SpeakerAudit, AuditRow),
)


@pytest.mark.parametrize("record", RECORDS)
def test_every_key_of_a_summary_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "cli.md") == set()


OF_CRITICS = (
    *(ActionExample, CollectionSummary, LabelCounts, TrainingSummary, CriticCalibration, TrialResult, SelectionResult),
    *(CriticReport, CalibrationResult, ReliabilityBin, ConfusionCounts, FlywheelSummary, FlywheelRound),
)


@pytest.mark.parametrize("record", OF_CRITICS)
def test_every_key_that_the_critics_verbs_write_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "critic.md") == set()


@pytest.mark.parametrize(
    "record", [GuiStep, StepPrediction, ScreenTrialResult, ActionAccuracy, RuleAccuracy, ScreenFitResult]
)
def test_every_field_and_key_about_screens_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "gui.md") == set()
