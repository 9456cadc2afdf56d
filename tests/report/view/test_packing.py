"""The page as a file: all that was read is in it, nothing in it can do anything but the page's own script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from align_echo.errors import UsageError
from align_echo.report.view import packing
from align_echo.report.view.packing import pack, write_page
from align_echo.rollout.episode_files import find_episodes
from tests.report.view.episodes import HALF, HARM, RICH, broken, episode, hostile, lost, write

PAGE = Path(packing.__file__).parent / "page"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[dict[str, str | None], str]] = []
        self.inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style"):
            self.texts.append((self.tags[-1][1], data))


def stored(page: str) -> dict[str, Any]:
    """The data of a page by the names of their elements."""
    found = {}
    for attributes, text in Elements(page).texts:
        if attributes.get("type") == "application/json":
            data = json.loads(text)
            if isinstance(data, dict) and "gzip" in data:
                data = json.loads(gzip.decompress(base64.b64decode(data["gzip"])))
            found[str(attributes["id"])] = data
    return found


def episodes(page: str) -> list[dict[str, Any]]:
    return [each for name, chunk in stored(page).items() if name.startswith("chunk-") for each in chunk]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write(tmp_path / "run/trajectories/none.jsonl", [lost("x/1"), broken("x/2")])
    full = write(tmp_path / "run/trajectories/full.jsonl", [episode("x/1"), episode("x/2", score=0.125)])
    full.write_text(full.read_text().replace("0.125", "NaN"))
    return tmp_path / "run"


def test_every_episode_is_in_the_page_with_what_the_list_needs(run):
    packed = pack(find_episodes([run]))
    index, (first, *_) = stored(packed.html)["index"], episodes(packed.html)
    assert packed.episodes == len(index["rows"]) == len(episodes(packed.html)) == 4
    assert index["parts"] == [["run", "full", 1], ["run", "none", 1]]
    assert [row[:8] for row in index["rows"]] == [
        [0, "x/1", "stow", 0, "won", 1.0, 3, 1234],
        [0, "x/2", "stow", 0, "won", None, 3, 1234],
        [1, "x/1", "stow", 0, "lost", 0.0, 2, 1234],
        [1, "x/2", "stow", 0, "fault", None, 1, 0],
    ]
    assert first["steps"][0]["raw_observation"] == "Denied."
    assert first["steps"][1]["raw_observation"] is None
    assert "raw_observation" not in first["steps"][2]
    assert first["steps"][0]["choice"]["candidates"][1]["p_correct"] == 0.75


def test_the_page_asks_for_nothing_and_runs_one_script_which_it_knows_by_its_hash(run):
    page = Elements(pack(find_episodes([run])).html)
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href", "action")]
    assert addresses == ["data:,"]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "style"]
    runs = [text for attrs, text in page.texts if not attrs.get("type")]
    policy = next(str(attrs["content"]) for _, attrs in page.tags if attrs.get("http-equiv"))
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in runs]
    assert len(runs) == 2, "a style and a script"
    assert policy.split("; ") == [
        "default-src 'none'", f"script-src {hashes[1]}", f"style-src {hashes[0]}", "img-src data:",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip


def test_the_script_makes_no_markup_of_text_and_fits_its_files():
    sinks = r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\b|Function\(|https?:|fetch\(|import\("
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        assert re.findall(sinks, text) == [], file.name
        assert len(text.splitlines()) < 400
    assert {file.name for file in PAGE.glob("*.js")} == {*packing.SCRIPTS}


@pytest.mark.long
@pytest.mark.parametrize("large", [10**9, 0], ids=["plain", "compressed"])
def test_hostile_text_comes_out_as_it_was_and_ends_no_element(tmp_path, monkeypatch, large):
    monkeypatch.setattr(packing, "LARGE", large)
    file = hostile(tmp_path / "run/trajectories/none.jsonl")
    packed = pack(find_episodes([file]))
    assert [each["steps"][0]["action"] for each in episodes(packed.html)] == [*HARM, HALF.replace("\ud800", "\ufffd")]
    tags = [tag for tag, _ in Elements(packed.html).tags]
    assert tags.count("script") == 2 + len([name for name in stored(packed.html) if name.startswith("chunk-")])
    assert "img" not in tags
    assert [str(entry.file) for entry in packed.damaged] == [str(file)]
    assert stored(packed.html)["index"]["damaged"] == [
        f"{file} line 10 is damaged and left out: environment: it is missing"
    ]


def test_many_episodes_are_compressed_and_in_chunks(tmp_path):
    write(tmp_path / "none.jsonl", [episode(f"x/{number}") for number in range(500)])
    packed = pack(find_episodes([tmp_path / "none.jsonl"]))
    chunks = [name for name in stored(packed.html) if name.startswith("chunk-")]
    assert len(chunks) == 8
    rows = stored(packed.html)["index"]["rows"]
    placed = {(row[-2], row[-1]): row[1] for row in rows}
    for number in range(8):
        for at, each in enumerate(stored(packed.html)[f"chunk-{number}"]):
            assert placed[number, at] == each["task_id"]
    assert "x/7" in packed.html
    assert "x/477" not in packed.html


@pytest.mark.parametrize("large", [10**9, 0], ids=["plain", "compressed"])
def test_keys_are_in_no_part_of_the_page(tmp_path, monkeypatch, large):
    monkeypatch.setattr(packing, "LARGE", large)
    secret = 'sk-"very secret" 12345'
    file = write(tmp_path / "a.jsonl", [lost("x/1", RICH.model_copy(update={"observation": f"it is {secret}!"}))])
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    page = pack(find_episodes([file])).html
    assert [step["observation"] for step in episodes(page)[0]["steps"]] == ["it is [redacted]!"]


def test_files_without_a_whole_episode_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("no\n")
    with pytest.raises(UsageError, match=r"no episode can be read in .*a\.jsonl; .* line 1 is damaged"):
        pack(find_episodes([tmp_path / "a.jsonl"]))


def test_where_the_page_is_written(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_page([run])[0] == Path("run.html")
    assert write_page([run], Path("b.html"))[1].episodes == 4
    for out, refused in (
        ("run", "--out names an .html file, not run"),
        ("none.jsonl", "--out names an .html file, not none.jsonl"),
        ("no/where.html", "there is no folder no for where.html"),
    ):
        with pytest.raises(UsageError, match=refused):
            write_page([run], Path(out))
    Path("folder.html").mkdir()
    with pytest.raises(UsageError, match=r"folder\.html is a folder"):
        write_page([run], Path("folder.html"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.html", "folder.html", "run", "run.html"]
