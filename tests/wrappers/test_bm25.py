"""The search engine: what is found, in which order, and that every process agrees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.wrappers.cache import LISTED, SearchIndex, words

DOCUMENTS = ("brass lamp", "oak table", "brass table", "", "women's running shoes", *["same words"] * 60)


@pytest.fixture(scope="module", params=["in memory", "on disk"])
def index(request, tmp_path_factory):
    made = SearchIndex.build(DOCUMENTS)
    if request.param == "in memory":
        return made
    folder = tmp_path_factory.mktemp("index")
    made.save(folder)
    return SearchIndex.load(folder)


def test_words_are_read_as_lucenes_english_analyzer_reads_them():
    assert words("The Women's RUNNING shoes, and 6.5-inch lamps!") == ["women", "run", "shoe", "6.5", "inch", "lamp"]


def test_documents_that_share_more_with_the_query_come_first(index):
    assert index.find("brass lamp") == (0, 2)
    assert index.find("tables") == (1, 2)
    assert index.find("shoe for a woman running") == (4,)


def test_equal_documents_come_in_their_order_and_at_most_fifty(index):
    assert index.find("words") == tuple(range(5, 5 + LISTED))


@pytest.mark.parametrize("query", ["", " ", "the of", "xylophone", "?!", "\x00"])
def test_nothing_in_common_finds_nothing(index, query):
    assert index.find(query) == ()


def test_a_very_long_query_counts_its_first_words_only(index):
    assert index.find("lamp " * 1024 + "oak " * 9) == index.find("lamp " * 1024)


def test_scores_fall_and_ranks_agree_with_what_is_found(index):
    ranked = index.ranked("brass lamp table", 2)
    assert [row for row, _ in ranked] == list(index.find("brass lamp table")[:2])
    assert ranked[0][1] >= ranked[1][1] > 0


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abelmprst o'.\x00é", max_size=60))
def test_any_query_is_answered_and_always_alike(index, query):
    rows = index.find(query)
    assert len(rows) <= LISTED
    assert len(set(rows)) == len(rows)
    assert index.find(query) == rows
