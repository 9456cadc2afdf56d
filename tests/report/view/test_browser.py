"""The page in a real browser: click through it, press its keys, and look at what a hostile text becomes.

Skipped where there is no Chromium; `docs/miniwob.md` says what installs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from align_echo.interface.contract import Provenance, RuleRecord
from align_echo.report.view.packing import write_page
from align_echo.types import Evidence, Usage
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from tests.report.view.browsing import AT_START, DESKTOP, PHONE, Page, missing
from tests.report.view.episodes import HARM, LAST, RECORD, RICH, broken, episode, hostile, lost, write

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

LABEL = "mine@0123456789abcdef"
LOW_CONTRAST = """
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => linear(part / 255))
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const back = (element) => {
        const own = getComputedStyle(element).backgroundColor;
        return own === "rgba(0, 0, 0, 0)" ? back(element.parentElement) : own;
    };
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return [...document.querySelectorAll("main *")]
        .filter((each) => each.innerText && each.checkVisibility())
        .filter((each) => ratio(light(getComputedStyle(each).color), light(back(each))) < 4.5)
        .map((each) => each.className || each.tagName);
"""
"""Names the elements whose text can hardly be read before what is behind it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserProcess]:
    made = BrowserProcess(DESKTOP, at_start=AT_START)
    yield made
    made.close()


@pytest.fixture
def page(browser, tmp_path) -> Iterator[Page]:
    """Two parts of a run, with the rules of its interface beside them."""
    same = LAST.model_copy(update={"terminated": False, "reward": 0.0, "score": 0.0})
    none = [lost("x/1", same, LAST, goal="unbroken" * 60), lost("x/2"), broken("x/3", task_type="look")]
    none += [lost("x/4", goal="find the comet")]
    full = [episode("x/1", same, RICH, LAST, interface=LABEL), episode("x/2", LAST, interface=LABEL)]
    write(tmp_path / "run/trajectories/none.jsonl", none)
    write(tmp_path / "run/trajectories/full.jsonl", full)
    rule = RuleRecord(text=RECORD, evidence=Evidence(support=40, refuted=1, tasks=7, counterexample="on x/9"))
    made = Provenance(environment="station", backend="probe", content_hash=LABEL[5:], rules=(rule,))
    (tmp_path / "run/interface.json").write_text(json.dumps({"provenance": made.model_dump(mode="json")}))
    yield Page(browser, write_page([tmp_path / "run"], tmp_path / "run.html")[0])
    assert browser.run("return window.wrong") == []


def test_what_is_not_known_is_no_nought(browser, tmp_path):
    silent = LAST.model_copy(update={"usage": Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)})
    none = [lost("x/1"), broken("x/2"), episode("x/3", RICH, silent)]
    write(tmp_path / "run/trajectories/none.jsonl", none)
    page = Page(browser, write_page([tmp_path / "run"], tmp_path / "run.html")[0])
    page.choose("ask-sort", "score, low first")
    assert page.listed == ["x/1", "x/3", "x/2"], "what has no score comes last"
    page.choose("ask-sort", "score, high first")
    assert page.listed == ["x/3", "x/1", "x/2"]
    assert "0.500" in page.texts(".figure"), "the mean of two scores, not of three"
    page.press("n")
    page.shows(".chip", "tokens not told")
    assert browser.run("return window.wrong") == []


def test_the_list_is_filtered_sorted_and_searched(page):
    assert page.listed == ["x/1", "x/2", "x/1", "x/2", "x/3", "x/4"]
    page.choose("ask-result", "lost")
    assert page.listed == ["x/1", "x/2", "x/4"]
    page.choose("ask-part", "full")
    assert page.listed == []
    page.choose("ask-result", "any")
    assert page.listed == ["x/1", "x/2"]
    page.choose("ask-hint", "before `stow")
    assert page.listed == ["x/1"]
    page.choose("ask-hint", "any")
    page.choose("ask-part", "any")
    page.choose("ask-type", "look")
    assert page.listed == ["x/3"]
    page.choose("ask-type", "any")
    page.choose("ask-trouble", "interface error")
    assert page.listed == ["x/1", "x/2", "x/4"]
    page.choose("ask-trouble", "all")
    page.choose("ask-sort", "turns, many first")
    assert (page.listed[0], page.listed[-1]) == ("x/1", "x/3")
    assert page.texts("#count") == ["6 episodes"]


def test_the_search_finds_tasks_at_once_and_texts_behind_them(page):
    page.press("/", *"comet")
    page.shows("#count", "1 of 6 episodes")
    assert page.listed == ["x/4"]
    page.press("Escape")
    page.browser.run("document.getElementById('search').value = 'Denied POD'")
    page.browser.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    page.until("return document.getElementById('count').textContent === '3 of 6 episodes'")
    assert page.listed == ["x/1", "x/2", "x/4"]


def test_an_episode_is_read_turn_by_turn_by_keys(page):
    page.press("n")
    page.shows("h2", "x/1")
    assert page.texts(".turn .action") == ["scan", "stow gem 4 into pod 1", "scan"]
    assert "as the turn before" not in page.texts(".turn .chip")
    page.press("j", "j")
    assert page.texts(".turn.current .number") == ["turn 2"]
    assert page.address == "#part=full&task=x/1&turn=2"
    page.press("k")
    assert page.texts(".turn.current .number") == ["turn 1"]
    page.press("n")
    page.shows("h2", "x/2")
    page.press("p")
    page.shows("h2", "x/1")
    assert page.texts(".row[aria-current] .task") == ["x/1"]
    page.press("?")
    assert page.seen("dialog[open]")
    page.press("Escape")
    assert not page.seen("dialog[open]")
    page.press("Escape")
    page.shows("#main th", "mean score")


def test_what_the_interface_changed_stands_out_with_the_experiments_behind_it(page):
    page.open("#part=full&task=x%2F1&turn=2")
    page.shows(".turn.current .action", "stow gem 4 into pod 1")
    assert page.texts(".turn.current .text ins") == [" Before `stow gem 4 into pod 1` you need to `unseal pod 1`."]
    assert page.texts(".turn.current .text del") == []
    assert page.texts(".turn.current .hint .chip") == ["shown", "followed", "did not come true", "silenced"]
    page.browser.run("document.querySelector('.turn.current .hint summary').click()")
    assert page.seen(".turn.current .evidence")
    tried = ["40 experiments for, 1 against, on 7 tasks", "against it: on x/9"]
    assert page.texts(".turn.current .evidence .quiet") == tried
    assert page.texts(".turn.current .trouble b") == ["interface error", "violation", "forged"]
    taken = ["→", "stow gem 4 into pod 1", "correct", " 0.75", "-1.50"]
    assert page.texts(".turn.current .candidates .taken td") == taken
    assert "tokens 1,200 + 34" in page.texts(".turn.current header .chip")
    page.press("d", "d")
    page.shows("#view", "observations: raw")
    page.shows(".turn.current .text", "Denied.")
    assert page.texts(".turn.current ins") == []


def test_two_parts_of_a_task_are_read_side_by_side(page):
    page.press("n")
    page.shows("h2", "x/1")
    page.choose("compare", "none: lost")
    page.shows(".parting", "the same until turn 1; here they part")
    assert page.texts("[data-turn='2'] .chip").count("as the turn before") == 1
    assert page.texts("h2") == ["x/1", "x/1"]
    assert page.texts(".turn .part") == ["full", "none", "full", "none", "full"]
    left = "return document.querySelectorAll('.turn')[arguments[0]].getBoundingClientRect().left"
    assert page.browser.run(left, 0) < page.browser.run(left, 1)
    page.press("j")
    assert page.texts(".turn.current .part") == ["full", "none"]
    where = page.browser.run("return location.hash")
    assert "with.part=none" in where
    page.open(where)
    page.shows(".turn.current .part", "none")
    page.press("Escape")
    page.until("return document.querySelectorAll('h2').length === 1")


def test_on_a_phone_the_list_and_the_episode_take_turns(page):
    page.size(*PHONE)
    page.open()
    assert (page.seen("#side"), page.seen("#main")) == (True, False)
    page.browser.run("document.querySelector('.row').click()")
    page.shows("h2", "x/1")
    assert (page.seen("#side"), page.seen("#main")) == (False, True)
    page.choose("compare", "none: lost")
    page.shows(".turn .part", "none")
    for element in ("document.documentElement", "document.getElementById('main')"):
        assert page.browser.run(f"return {element}.scrollWidth") <= PHONE[0]
    page.browser.run("document.querySelector('.back').click()")
    page.until("return !document.body.classList.contains('reading')")
    assert page.seen("#side")


def test_light_and_dark_can_be_read(page):
    page.press("n")
    page.shows("h2", "x/1")
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.browser.command("Emulation.setEmulatedMedia", {"features": features})
        back = page.browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")
        assert page.browser.run(LOW_CONTRAST) == []


def test_a_second_attempt_is_found_from_what_the_critic_said(browser, tmp_path):
    folder = tmp_path / "rounds"
    write(folder / "trajectories/round-0.jsonl", [lost(), lost(sample=1)])
    second = [lost(sample=2, critique="Look first."), episode(sample=3, critique="Look first.")]
    write(folder / "trajectories/round-1.jsonl", second)
    (folder / "config.json").write_text('{"episodes_per_task": 2}')
    (folder / "reviews").mkdir()
    review = {"form": "echo", "reply": "whole", "critique": {"reason": "Too early.", "suggestions": ["Look first."]}}
    records = [{"attempt": {"task_id": "station/0", "sample": n}, "review": review} for n in (0, 1)]
    (folder / "reviews/round-1.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    page = Page(browser, write_page([folder], tmp_path / "rounds.html")[0])
    page.open("#part=round-0&task=station%2F0&sample=1")
    page.shows(".review", "Too early.")
    assert page.texts(".review li") == ["Look first."]
    assert page.texts(".review a") == ["side by side with the attempt after it (won)"]
    page.browser.run("document.querySelector('.review a').click()")
    page.shows(".critique", "Look first.")
    assert "with.sample=3" in page.address
    page.choose("ask-trouble", "critique")
    assert page.texts("#count") == ["4 episodes"]


def test_what_an_oracle_called_the_candidates_stands_beside_them(browser, tmp_path):
    write(tmp_path / "collected/trajectories/played.jsonl", [episode("x/1", RICH, LAST)])
    first = [{"action": "scan", "expert": "wrong"}, {"action": "stow gem 4 into pod 1", "expert": "correct"}]
    labelled = {"task_id": "x/1", "sample": 0, "turns": [first, [{"action": "scan", "continues": "correct"}]]}
    (tmp_path / "collected/labels.jsonl").write_text(json.dumps(labelled) + "\n")
    page = Page(browser, write_page([tmp_path / "collected"], tmp_path / "collected.html")[0])
    page.press("n")
    page.shows("[data-turn='2']", "oracle: continues: correct")
    assert page.texts(".candidates td:last-child") == ["expert: wrong", "expert: correct"]


def test_hostile_text_is_only_text(browser, tmp_path):
    hostile(tmp_path / "run/trajectories/none.jsonl")
    page = Page(browser, write_page([tmp_path / "run"], tmp_path / "run.html")[0])
    page.shows("#main .trouble", "none.jsonl line 10 is damaged and left out")
    for number, text in enumerate(HARM):
        page.press("n")
        page.shows("h2", f"task/{number}")
        page.browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
        assert len(page.texts(".turn")) == 2
        assert page.browser.run("return window.harmed ?? null") is None
        assert page.texts("#main img, #main script") == []
        assert page.browser.run("return document.body.innerText.match(/(?![\\n\\t])[\\p{Cc}\\p{Cf}\\u2028]/gu)") is None
        shown = page.browser.run("return document.getElementById('main').innerText")
        assert len(shown) < 100_000
        assert "<" not in text or text in shown
    assert page.browser.run("return window.wrong") == []
    page.browser.run("document.querySelector('.turn .text button').click()")
    page.until("return document.querySelector('.turn .text').textContent.length > 1000000")


@pytest.mark.long
def test_ten_thousand_episodes_are_a_list_of_a_few_elements_and_open_anywhere(browser, tmp_path):
    write(tmp_path / "run/trajectories/none.jsonl", [lost(f"x/{number}", LAST) for number in range(10_000)])
    page = Page(browser, write_page([tmp_path / "run"], tmp_path / "run.html")[0])
    assert page.texts("#count") == ["10,000 episodes"]
    assert 5 < len(page.listed) < 60
    page.browser.run("document.getElementById('list').scrollTop = 1e9")
    page.until("return [...document.querySelectorAll('.row .task')].pop().textContent === 'x/9999'")
    page.open("#part=none&task=x%2F7777&turn=1")
    page.shows("h2", "x/7777")
    assert page.texts(".row[aria-current] .task") == ["x/7777"]
    page.open("#part=none&task=x%2Fmissing")
    page.shows("#main .trouble", "this page has no such episode")
