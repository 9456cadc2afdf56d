"""The documentation: examples run, links lead somewhere, every option and key of a summary is on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from align_echo.align.audit.report import Audit, AuditRow, SpeakerAudit
from align_echo.align.run_folder import IterationRecord, RunSummary
from align_echo.cli.main import main
from align_echo.critic.calibration import Bin, Calibration, Confusion, CriticReport
from align_echo.critic.scoring import Calibrated
from align_echo.evaluate.comparison import Comparison, Difference, VariantResult
from align_echo.evaluate.grid import Cell, Change, Grid, Side
from align_echo.evaluate.refinement import Refinement, Round
from align_echo.evaluate.study import Study
from align_echo.evaluate.study_file import StudyFile
from align_echo.gaia.collection import Collected, Shares
from align_echo.gaia.examples import Example
from align_echo.gaia.figures import Success, Trial
from align_echo.gaia.fit.intuitive import Fitted
from align_echo.gaia.flywheel import Flywheel, Turned
from align_echo.gui.fit import FittedOnScreens
from align_echo.gui.screens import Matched, Prediction, ScreenTrial, Taken
from align_echo.hints import HintCount
from align_echo.intervals import Estimate
from align_echo.trouble import Conduct, Trouble
from align_echo.types import ChoiceCounts
from align_echo.wrappers.gui.steps import GuiStep

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def words_in_code(page: Path) -> set[str]:
    """Every word that stands in backquotes or in an indented block."""
    text = page.read_text()
    code = "\n".join([*re.findall(r"`([^`]+)`", text), *re.findall(r"^ {4}.+$", text, flags=re.MULTILINE)])
    return {word.strip("-") for word in re.findall(r"[\w-]+", code)}


def test_the_example_of_an_agent_of_ones_own_runs(capsys):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "agents.md").read_text(), flags=re.DOTALL)[-1]
    exec(compile(code, "agents.md", "exec"), {"__name__": "agents"})
    assert re.fullmatch(r"\d+ won; \d+\.\d+ % in invalid runs\n", capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """What a link can name in a page: its headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_a_section_lead_to_one_that_there_is(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text())
    missing = [name for file, name in targets if name not in anchors(page.parent / file if file else page)]
    assert missing == []


VERBS = [
    *("generate-interface", "evaluate", "grid", "study", "train", "doctor", "envs", "retrieval-server"),
    *("interface show", "interface audit", "show", "view", "report"),
    *("critic collect", "critic train", "critic evaluate", "critic gui-record", "critic gui-steps", "critic flywheel"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_documented(verb, capsys):
    assert main([*verb.split(), "--help"]) == 0
    options = set(re.findall(r"--([a-z][\w-]+)", capsys.readouterr().out)) - {"help", "rules", "feedback"}
    assert options - words_in_code(ROOT / "docs" / "cli.md") == set()


RECORDS = (
    *(RunSummary, IterationRecord, Comparison, VariantResult, Difference, Estimate, ChoiceCounts),
    *(Study, StudyFile, Grid, Cell, Side, Change, Estimate, Refinement, Round, Conduct, Trouble),
    *(HintCount, Audit, SpeakerAudit, AuditRow),
)


@pytest.mark.parametrize("record", RECORDS)
def test_every_key_of_a_summary_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "cli.md") == set()


OF_CRITICS = (
    *(Example, Collected, Shares, Fitted, Calibrated, Trial, Success),
    *(CriticReport, Calibration, Bin, Confusion, Flywheel, Turned),
)


@pytest.mark.parametrize("record", OF_CRITICS)
def test_every_key_that_the_critics_verbs_write_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "critic.md") == set()


@pytest.mark.parametrize("record", [GuiStep, Prediction, ScreenTrial, Matched, Taken, FittedOnScreens])
def test_every_field_and_key_about_screens_is_documented(record: type[BaseModel]):
    assert set(record.model_fields) - words_in_code(ROOT / "docs" / "gui.md") == set()


def test_every_setting_of_a_critics_training_is_documented():
    pytest.importorskip("peft")
    pytest.importorskip("PIL")
    from align_echo.gaia.fit.learning import FitSettings
    from align_echo.gaia.fit.reasoning_steps import ReasoningSettings
    from align_echo.gaia.fit.trainer import LearningSettings
    from align_echo.gui.learning import VisionSettings

    settings = {*FitSettings.model_fields, *ReasoningSettings.model_fields}
    assert settings - words_in_code(ROOT / "docs" / "critic.md") == set()
    own = set(VisionSettings.model_fields) - set(LearningSettings.model_fields)
    assert own - words_in_code(ROOT / "docs" / "gui.md") == set()
