"""`align-echo report` as a user meets it: one page of runs that were really played and trained, pictures, bad input."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

pytest.importorskip("matplotlib")
pytest.importorskip("torch")
pytest.importorskip("PIL")

from PIL import Image

from align_echo.cli.main import main
from align_echo.report.writing import PLOTS, write_report
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.report import folders
from tests.report.folders import evaluated, hint, variant
from tests.report.view.browsing import AT_START, PHONE, missing
from tests.report.view.episodes import episode
from tests.report.view.episodes import write as write_episodes

CONFIG = """\
method: {method}
steps: 1
save_every: 1
threads: 1
evaluating: {{every: 1, tasks: 2}}
collecting: {{tasks: 1, samples: 2, turns: 2, reply_tokens: 4, critique_tokens: 6, workers: 4}}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an evaluation of two games, and a training under two seeds, made by the commands themselves."""
    top = tmp_path_factory.mktemp("runs")
    tiny_model(context=4096).save_pretrained(top / "model")
    tiny_tokenizer().save_pretrained(top / "model")
    (top / "echo.yaml").write_text(CONFIG.format(method="echo"))
    games = ["--env", "alfworld", "--agent", "novice", "--interface", "probe", "--compare", "--tasks", "2"]
    assert main(["evaluate", *games, "--out", str(top / "first")]) == 0
    for seed in (1, 2):
        learn = ["--config", str(top / "echo.yaml"), "--model", str(top / "model"), "--seed", str(seed)]
        assert main(["train", *learn, "--out", str(top / f"echo-{seed}")]) == 0
    return top


@pytest.fixture(scope="module")
def page(played: Path, tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """The page of all of them."""
    out = tmp_path_factory.mktemp("page") / "all.html"
    report = write_report([played], out)
    assert report.damaged == []
    return BeautifulSoup(report.file.read_text(encoding="utf-8"), "html.parser")


def colours(png: bytes) -> int:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert min(image.size) > 150
    return len(image.getcolors(maxcolors=1_000_000) or ())


def table(page: BeautifulSoup, key: str) -> list[list[str]]:
    return [[cell.get_text() for cell in row.find_all("td")] for row in page.select(f"#{key} tbody tr")]


@pytest.mark.long
def test_runs_that_were_played_and_trained_become_a_page(played, page, tmp_path, capsys):
    comparison = json.loads((played / "first" / "summary.json").read_text())
    won = {name: f"{result['success_rate']['value']:.1f}" for name, result in comparison["variants"].items()}
    shown = {row[1]: row[3].partition(" ")[0] for row in table(page, "success")}
    assert list(shown) == ["none", "placebo", "rules", "feedback", "both"]
    assert shown["both"] == won["full"]
    (learned,) = table(page, "learning")
    assert (learned[0], learned[2]) == ("echo", "2")
    starts = [json.loads((played / f"echo-{seed}" / "summary.json").read_text())["before"] for seed in (1, 2)]
    assert learned[4] == f"{sum(start['score']['value'] for start in starts) / 2:.3f}"
    for key in ("success", "invalid", "hints", "learning", "stages", "critiques"):
        section = page.select_one(f"#{key}")
        assert section is not None
        terms = [term.get_text() for term in section.find_all("dt")]
        assert {"n", "control", "made by", "files"} <= set(terms), key
        assert "align-echo " in section.find_all("dl")[0].get_text()


@pytest.mark.long
def test_pictures_are_in_the_page_for_light_and_dark_and_beside_it(played, tmp_path, run):
    status, out, err = run("report", played / "first", "--out", tmp_path / "one.html")
    assert (status, err) == (0, "")
    assert "drawn      success: 1 picture\n" in out
    assert "not drawn  learning: no training run with a step is among these runs\n" in out
    assert out.endswith("one.html: open it in a browser; pictures in " + str(tmp_path / "one-figures") + "\n")
    files = sorted((tmp_path / "one-figures").iterdir())
    assert [file.name for file in files] == ["hints-1.png", "hints-2.png", "invalid-1.png", "success-1.png"]
    assert all(colours(file.read_bytes()) > 20 for file in files)
    page = BeautifulSoup((tmp_path / "one.html").read_text(encoding="utf-8"), "html.parser")
    light = [base64.b64decode(str(image["src"]).partition(",")[2]) for image in page.find_all("img")]
    dark = [base64.b64decode(str(source["srcset"]).partition(",")[2]) for source in page.find_all("source")]
    assert light == [(tmp_path / "one-figures" / name).read_bytes()
                     for name in ("success-1.png", "invalid-1.png", "hints-1.png", "hints-2.png")]  # fmt: skip
    assert all(colours(png) > 20 for png in dark)
    corners = [Image.open(io.BytesIO(png)).convert("L").tobytes()[0] for png in (light[0], dark[0])]
    assert corners[0] > 200 > 50 > corners[1]
    assert all(image["alt"] for image in page.find_all("img"))


@pytest.mark.long
def test_what_is_missing_says_in_a_line_which_command_makes_it(page):
    for plot in PLOTS:
        section = page.select_one(f"#{plot.key}")
        assert section is not None
        missing_line = section.select_one(".missing")
        assert (missing_line is None) == bool(section.find_all("img")), plot.key
        if missing_line is not None:
            assert missing_line.get_text().startswith("Not drawn: ")
            assert plot.command in missing_line.get_text()
    assert page.select_one("#selection .missing") is not None


@pytest.mark.long
def test_the_page_asks_for_nothing_and_runs_nothing(page):
    assert page.find_all("script") == []
    policy = str(page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"])
    style = page.find("style").get_text()
    named = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{named}'", "img-src data:", "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    addresses = [str(tag[name]) for tag in page.find_all(True) for name in ("src", "srcset", "href") if tag.get(name)]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert not [name for tag in page.find_all(True) for name in tag.attrs if name.startswith("on") or name == "style"]


HOSTILE = (
    '"><script>alert(1)</script> $\\frac{1$ __x \u202edlo\u2066 \x1b[2J <img src=x onerror=alert(2)> 漢 {{ 7 * 7 }}'
)


@pytest.mark.long
def test_hostile_texts_are_shown_and_do_nothing(tmp_path):
    arms = {"none": variant(0.0), "full": variant(50.0, hints=[hint(HOSTILE)])}
    evaluated(tmp_path / "runs" / "a<b>&'\"", agent=HOSTILE, environment=HOSTILE, variants=arms, over_placebo={})
    folders.trained(tmp_path / "runs" / "$$__c", scores=[[(0.2, 0.4)]], reasons=[[HOSTILE]])
    report = write_report([tmp_path / "runs"], tmp_path / "page.html")
    text = report.file.read_text(encoding="utf-8")
    page = BeautifulSoup(text, "html.parser")
    assert page.find_all("script") == []
    assert all(str(image["src"]).startswith("data:") for image in page.find_all("img"))
    (rule,) = table(page, "hints")
    assert rule[1].startswith('"><script>alert(1)</script> $\\frac{1$')
    assert "{{ 7 * 7 }}" in rule[1]
    assert not {"\u202e", "\u2066", "\x1b"} & {*text}
    assert not {"\u202e", "\x1b"} & {*"".join(report.lines)}
    assert all(colours(file.read_bytes()) > 20 for file in report.figures.iterdir())


@pytest.mark.long
def test_the_same_runs_give_the_same_bytes(played, tmp_path):
    first, again = (write_report([played / "first"], tmp_path / place / "page.html") for place in _made(tmp_path))
    assert first.file.read_bytes() == again.file.read_bytes()


def _made(folder: Path) -> list[str]:
    for name in ("a", "b"):
        (folder / name).mkdir()
    return ["a", "b"]


@pytest.mark.long
def test_damaged_lines_and_what_is_not_finished_are_named_and_the_rest_is_drawn(played, tmp_path, run):
    for name in ("first", "echo-1"):
        shutil.copytree(played / name, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("checkpoints", "policy"))
    (tmp_path / "runs" / "first" / "summary.json").unlink()
    evaluated(tmp_path / "runs" / "other")
    (tmp_path / "runs" / "third").mkdir()
    shutil.copy(tmp_path / "runs" / "other" / "config.json", tmp_path / "runs" / "third")
    (tmp_path / "runs" / "third" / "summary.json").write_text('{"variants": {}, "agent": 3}')
    with (tmp_path / "runs" / "echo-1" / "signals.jsonl").open("a") as signals:
        signals.write('{"step": 2, "policy/reward": "high"}\nno json\n{"step": 3, "poli')
    status, out, err = run("report", tmp_path / "runs", "--out", tmp_path / "page.html")
    assert status == 0
    assert "drawn      learning" in out
    lines = err.splitlines()
    assert len(lines) == 5
    assert "signals.jsonl line 2 is damaged and left out: policy/reward: " in lines[0]
    assert "signals.jsonl line 3 is damaged and left out: " in lines[1]
    assert lines[2].startswith("the last line of ")
    assert lines[2].endswith("runs/echo-1/signals.jsonl is not whole and is left out")
    assert "runs/first is not finished: it has no summary.json yet" in lines[3]
    assert "third/summary.json is damaged and left out: environment: it is missing" in lines[4]
    page = BeautifulSoup((tmp_path / "page.html").read_text(encoding="utf-8"), "html.parser")
    assert [item.get_text() for item in page.select(".trouble li")] == lines


IMPOSSIBLE: dict[str, tuple[str, object, str]] = {
    "above 100%": ("success_rate.value", 5000, "5000 is no number in [0, 100]"),
    "below 0": ("mean_score.value", -0.5, "-0.5 is no number in [0, 1]"),
    "no number": ("success_rate.value", math.nan, "nan is no number in [0, 100]"),
    "an end without bounds": ("success_rate.ci95", [0, math.inf], "inf is no number in [0, 100]"),
    "ends swapped": ("success_rate.ci95", [90, 60], "its interval [90, 60] ends before it begins"),
    "a value beside its interval": ("success_rate.value", 20, "its interval [55, 95] does not hold its value 20"),
    "no task": ("success_rate.n", 0, "must be above 0"),
    "a count below 0": ("episodes", -3, "must be at least 0"),
    "turns below 0": ("mean_turns", -1.5, "must be at least 0"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_summary_with_impossible_figures_is_named_and_left_out(case, run):
    where, value, problem = IMPOSSIBLE[case]
    evaluated(Path("other"))
    summary = json.loads((evaluated(Path("run")) / "summary.json").read_text())
    *around, last = where.split(".")
    inner = summary["variants"]["full"]
    for name in around:
        inner = inner[name]
    inner[last] = value
    Path("run/summary.json").write_text(json.dumps(summary))
    status, _, err = run("report", "run", "other")
    assert status == 0
    file = Path("run/summary.json").resolve()
    assert f"{file} is damaged and left out: variants.full.{where.removesuffix('.value').removesuffix('.ci95')}" in err
    assert problem in err


def test_intervals_of_older_versions_are_read(run):
    summary = json.loads((evaluated(Path("run")) / "summary.json").read_text())
    summary["variants"]["full"]["success_rate"] = {"value": 75.0, "n": 8, "low": 55.0, "high": 95.0}
    Path("run/summary.json").write_text(json.dumps(summary))
    status, _, err = run("report", "run")
    assert (status, err) == (0, "")


@pytest.mark.long
def test_episodes_that_cannot_be_read_are_named_and_figures_come_from_the_summary(run, tmp_path):
    folder = evaluated(Path("run")).resolve() / "trajectories"
    write_episodes(folder / "none.jsonl", [episode("x/1")])
    assert run("report", "run")[::2] == (0, "")
    with (folder / "none.jsonl").open("a") as stream:
        stream.write('no json\n{"task_id": "x/')
    os.mkfifo(folder / "full.jsonl")
    (tmp_path / "outside.jsonl").write_text("secret\n")
    (folder / "placebo.jsonl").symlink_to(tmp_path / "outside.jsonl")
    status, out, err = run("report", "run")
    assert status == 0
    assert "drawn      success" in out
    damaged, cut, pipe, link, source = err.splitlines()
    assert damaged.startswith(f"{folder / 'none.jsonl'} line 2 is damaged and left out: ")
    assert cut == f"the last line of {folder / 'none.jsonl'} is not whole and is left out"
    assert pipe.startswith(f"{folder / 'full.jsonl'} is not a regular file")
    assert link.startswith(f"{folder / 'placebo.jsonl'} leads out of {folder.parent}")
    assert source == "the figures of run come from its summary.json, not from its trajectories"
    assert source in Path("report.html").read_text()


def test_a_summary_that_is_no_regular_file_is_named(run):
    evaluated(Path("other"))
    os.mkfifo(Path("other").resolve() / "held_out.jsonl")
    (evaluated(Path("run")) / "summary.json").unlink()
    os.mkfifo("run/summary.json")
    err = run("report", "run", "other")[2]
    assert f"{Path('run/summary.json').resolve()} is not a regular file" in err
    assert "not finished" not in err


BAD: dict[str, tuple[list[str], str]] = {
    "no folder": (["nowhere"], "there is no folder nowhere: name the folder of a run"),
    "a file": (["run/config.json"], "run/config.json is a file: name the folder of a run"),
    "a folder without a run": (["run", "bare"], "bare holds no run of evaluate, grid, study"),
    "a run of something else": (["other"], "other holds no run of evaluate, grid, study"),
    "a run that finished nothing": (["begun"], "there is nothing to draw in begun: begun is not finished"),
    "no page": (["run", "--out", "a.pdf"], "--out names an .html file, not a.pdf"),
    "a folder for a page": (["run", "--out", "bare.html"], "bare.html is a folder: name another file with --out"),
    "a page nowhere": (["run", "--out", "no/a.html"], "there is no folder no for a.html"),
    "somebody's folder": (["run", "--out", "mine.html"], "mine-figures holds other files than pictures"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(case, run):
    arguments, message = BAD[case]
    evaluated(Path("run"))
    folders.write_json(Path("other/config.json"), {"command": "dance"})
    folders.write_json(Path("begun/config.json"), {"command": "evaluate"})
    Path("bare.html").mkdir()
    Path("bare").mkdir()
    folders.write_json(Path("mine-figures/notes.txt"), "mine")
    before = sorted(Path().rglob("*"))
    status, out, err = run("report", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"align-echo: {message}")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


def test_without_matplotlib_the_line_says_what_to_install(run, monkeypatch):
    evaluated(Path("run"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run("report", "run")
    assert status == 2
    assert err == "align-echo: a report needs an extra: pip install '.[report]' in a checkout of align-echo\n"


def test_pictures_of_an_earlier_report_make_room(run):
    evaluated(Path("run"))
    Path("report-figures").mkdir()
    Path("report-figures/old-1.png").write_bytes(b"old")
    assert run("report", "run")[0] == 0
    assert "old-1.png" not in {file.name for file in Path("report-figures").iterdir()}


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_in_a_browser_every_picture_loads_and_nothing_is_wider_than_a_phone(played, tmp_path):
    from align_echo.wrappers.miniwob.chromium import BrowserProcess

    file = write_report([played / "first"], tmp_path / "page.html").file
    browser = BrowserProcess(PHONE, at_start=AT_START)
    try:
        metrics: dict[str, Any] = {"width": PHONE[0], "height": PHONE[1], "deviceScaleFactor": 1, "mobile": True}
        browser.command("Emulation.setDeviceMetricsOverride", metrics)
        browser.open(f"file://{file.resolve()}")
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert browser.run("return window.wrong") == []
        assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]
        sizes = browser.run("return [...document.images].map((each) => [each.naturalWidth, each.clientWidth])")
        assert len(sizes) == 4
        assert all(natural > shown > 300 for natural, shown in sizes)
    finally:
        browser.close()
