"""Figures of docs/results/index.md are those of the pages that it links to, and pages are short."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

RESULTS = ROOT / "docs" / "results"
INDEX = (RESULTS / "index.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"[-+]?\d[\d.,]*(?: points)? \[[^\]]+\]|\d[\d,]*\.\d+|\d{1,3},\d{3}")
"""A figure with its interval, or one with a decimal point or a comma."""


def rows() -> list[list[str]]:
    lines = [line for line in INDEX.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def plain(text: str) -> str:
    """Remove line breaks, marks of emphasis and the signs that a table leaves out."""
    return re.sub(r"[*+]|(?<=\d) points(?= \[)", "", " ".join(text.split()))


def test_every_figure_of_the_table_is_on_its_page():
    checked = 0
    for _, answer, page in rows():
        (name,) = re.findall(r"\]\(([\w-]+\.md)", page)
        text = plain((RESULTS / name).read_text(encoding="utf-8"))
        for part in FIGURE.findall(answer):
            assert plain(part) in text, (part, name)
            checked += 1
    assert checked > 30


def test_every_study_has_a_row():
    names = {name for row in rows() for name in re.findall(r"\]\(([\w-]+\.md)", row[-1])}
    assert names | {"index.md"} == {page.name for page in RESULTS.glob("*.md")}


def test_every_page_is_short():
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in RESULTS.glob("*.md")}
    assert {name: count for name, count in words.items() if count > 400} == {}


def test_the_markers_of_figures_come_in_pairs():
    for page in [*RESULTS.glob("*.md"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<!-- (/?figures) -->", text) == ["figures", "/figures"] * text.count("<!-- figures -->")
