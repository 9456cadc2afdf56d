"""The page for who does not see it as it is drawn, or uses no mouse: axe-core's rules, and the keyboard alone.

Skipped where there is no Chromium; `docs/miniwob.md` says what installs it. axe-core is the file in `axe-core-python`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from align_echo.interface.contract import Provenance, RuleRecord
from align_echo.report.view.packing import write_page
from align_echo.types import Evidence
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from tests.report.view.browsing import AT_START, DESKTOP, PHONE, Page, missing
from tests.report.view.episodes import LAST, MUTE, RECORD, RICH, broken, episode, lost, write

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

LABEL = "mine@0123456789abcdef"
EPISODE, COMPARED = "#part=full&task=x%2F1&turn=2", "#part=full&task=x%2F1&with.part=round-1"
VIOLATIONS = """
    const tell = arguments[0];
    axe.run(document, { resultTypes: ["violations"] }).then(
        (found) => tell(found.violations.map((each) => [each.id, each.impact, each.nodes.map((node) => node.html)])),
        (error) => tell([String(error)]),
    );
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A page with all that there is to show: rules on record, candidates, a critic, a fault, a damaged line."""
    folder = tmp_path_factory.mktemp("page") / "run"
    same = LAST.model_copy(update={"terminated": False, "reward": 0.0, "score": 0.0})
    long = RICH.model_copy(update={"observation": "word " * 4000, "reward": -1.0, "cut_off": True})
    few = [lost("x/1", same, LAST, rules="Doors are sealed.", critique="Look first."), broken("x/2")]
    write(folder / "trajectories/round-1.jsonl", [*few, *(lost(f"y/{n}", long, MUTE) for n in range(60))])
    full = write(folder / "trajectories/full.jsonl", [episode("x/1", same, RICH, LAST, interface=LABEL)])
    full.write_text(full.read_text() + "no\n")
    (folder / "reviews").mkdir()
    review = {"form": "echo", "reply": "whole", "critique": {"reason": "Too early.", "suggestions": ["Look first."]}}
    record = {"attempt": {"task_id": "x/1", "sample": 0}, "review": review}
    (folder / "reviews/round-1.jsonl").write_text(json.dumps(record) + "\n")
    rule = RuleRecord(text=RECORD, evidence=Evidence(support=40, refuted=1, tasks=7, counterexample="on x/9"))
    made = Provenance(environment="station", backend="probe", content_hash=LABEL[5:], rules=(rule,))
    (folder / "interface.json").write_text(json.dumps({"provenance": made.model_dump(mode="json")}))
    return write_page([folder], folder / "run.html")[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserProcess]:
    made = BrowserProcess(DESKTOP, at_start=AT_START)
    yield made
    made.close()


@pytest.fixture
def page(browser, file) -> Iterator[Page]:
    browser.command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]})
    yield Page(browser, file)
    assert browser.run("return window.wrong") == []


@pytest.mark.long
@pytest.mark.parametrize("address", ["", EPISODE, COMPARED], ids=["list", "episode", "compared"])
def test_axe_finds_nothing_wrong(page, address):
    pytest.importorskip("axe_core_python", reason="axe-core-python is not installed: it is in the extra dev")
    page.open(address)
    page.shows("h2", "x/1" if address else "run")
    page.browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    page.browser.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    for size in (DESKTOP, PHONE):
        page.size(*size)
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            page.browser.command("Emulation.setEmulatedMedia", {"features": features})
            assert page.browser.run_async(VIOLATIONS) == [], (size, scheme)


@pytest.mark.long
def test_axe_would_find_what_is_wrong(page):
    pytest.importorskip("axe_core_python", reason="axe-core-python is not installed: it is in the extra dev")
    page.browser.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    page.browser.run("document.getElementById('ask-result').removeAttribute('aria-label')")
    page.browser.run("document.getElementById('count').style.color = '#bbb'")
    found = [rule for rule, _, _ in page.browser.run_async(VIOLATIONS)]
    assert found == ["color-contrast", "select-name"]


@pytest.mark.long
def test_an_episode_is_found_read_and_left_with_the_keyboard_alone(page):
    page.press("Tab")
    assert page.focused == "search"
    page.reach("ask-sort")
    page.press("Tab", "ArrowDown", "ArrowDown")
    assert page.focused.splitlines()[1] == "x/2"
    for _ in range(20):
        page.press("ArrowDown")
    page.until("return document.activeElement.textContent.includes('y/19')")
    assert page.browser.run("return document.activeElement.getBoundingClientRect().bottom <= innerHeight")
    page.press("End")
    page.until("return document.activeElement.textContent.includes('y/59')")
    page.press("Enter")
    page.shows("h2", "y/59")
    page.until("return document.activeElement.id === 'main'")
    page.reach("next")
    page.reach("view")
    page.press("Enter")
    page.shows("#view", "observations: shown")
    page.until("return document.activeElement.id === 'view'")
    page.reach("... all 20,000 characters")
    page.press("Enter")
    page.until("return document.activeElement.textContent.length > 19000")
    page.press("j", "j")
    page.until("return document.activeElement.dataset.turn === '2'")
    page.press("Escape")
    page.until("return document.activeElement.textContent.includes('y/59')")


@pytest.mark.long
def test_choices_are_made_by_arrow_keys_and_keep_them(page):
    page.reach("ask-result")
    page.press("ArrowDown")
    page.shows("#count", "1 of 63 episodes")
    page.press("ArrowDown")
    page.shows("#count", "61 of 63 episodes")
    assert page.focused == "ask-result"
    page.choose("ask-result", "any")
    page.browser.run("document.activeElement.blur()")
    page.press("n")
    page.shows("h2", "x/1")
    page.reach("compare")
    page.press("ArrowDown")
    page.shows(".parting", "the same until turn 1; here they part")
    page.until("return document.activeElement.id === 'compare'")


def test_on_a_phone_the_keys_go_with_what_is_seen(page):
    page.size(*PHONE)
    page.open()
    page.reach("ask-sort")
    page.press("Tab", "Enter")
    page.shows("h2", "x/1")
    page.until("return document.activeElement.id === 'main'")
    page.press("Tab")
    assert page.focused == "back"
    page.press("Enter")
    page.until("return document.activeElement.textContent.includes('x/1')")
    page.press("?")
    page.reach("close")
    page.press("Enter")
    assert not page.seen("dialog[open]")
