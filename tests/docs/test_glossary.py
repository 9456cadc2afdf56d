"""The glossary is short, each word has one line, and the map for language models leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (?!Word )([a-z ]+) \| (.+) \|$", re.MULTILINE)


def test_at_most_sixty_words_have_one_sentence_each():
    rows = ROW.findall((DOCS / "glossary.md").read_text())
    words = [word for word, _ in rows]
    assert 40 <= len(words) <= 60
    assert len(set(words)) == len(words)
    for word, meaning in rows:
        assert meaning.endswith("."), word
        assert len(meaning) <= 110, word


def test_the_map_of_pages_names_pages_that_are_there():
    pages = re.findall(r"\]\(([^)]+)\)", (DOCS / "llms.txt").read_text())
    assert len(pages) > 10
    assert [page for page in pages if not (DOCS / page).is_file()] == []
