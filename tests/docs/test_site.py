"""The site: it builds without a warning, its links lead somewhere, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("material")

ROOT = Path(__file__).parents[2]

UNSEEN = ("<p>- ", "\n- ", "<p>|", "|---|", "\\|")
"""What is in a page whose list had no empty line before it, whose table was none, or with a bar in code in a table."""


@dataclass
class Page(HTMLParser):
    """What a page of HTML links to, what can be linked to in it, and what a browser fetches by itself."""

    links: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names.update(filter(None, [given.get("id"), given.get("name")]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        self.fetched += [str(given[name]) for name in ("src", "srcset", "data") if given.get(name)]
        if tag == "link" and given.get("href"):
            self.fetched.append(str(given["href"]))


@cache
def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; warnings end the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"a page that mkdocs.yml does not name, or a link that leads nowhere:\n{done.stderr}"
    return folder


def pages(site: Path) -> list[Path]:
    return [file for file in sorted(site.rglob("*.html")) if file.name != "404.html"]


def test_there_is_a_page_for_each_of_the_documentation(site: Path):
    written = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    assert {str(page.relative_to(site)) for page in pages(site)} == written


def test_links_and_anchors_lead_somewhere(site: Path):
    nowhere = []
    for file in pages(site):
        for link in read(file).links:
            if link.startswith(("http://", "https://")):
                continue
            path, _, name = unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (name and name not in read(target).names):
                nowhere.append(f"{file.relative_to(site)}: {link}")
    assert nowhere == []


def test_nothing_is_fetched_from_elsewhere(site: Path):
    fetched = {f"{file.relative_to(site)}: {source}" for file in pages(site) for source in read(file).fetched}
    assert [line for line in fetched if "//" in line.partition(": ")[2]] == []
    sheets = [sheet for sheet in site.rglob("*.css") if "url(http" in sheet.read_text(encoding="utf-8")]
    assert sheets == []


def test_the_words_of_pages_can_be_searched(site: Path):
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "calibration_weights" in index or "saturation" in index


def test_markdown_is_rendered_as_on_github(site: Path):
    """A list or a table that the site's Markdown does not see ends up as text."""
    broken = []
    for file in pages(site):
        text = file.read_text(encoding="utf-8")
        broken += [f"{file.relative_to(site)}: {mark!r}" for mark in UNSEEN if mark in text]
    assert broken == []
