"""The embedded questions: the evidence is there, a search finds it, and no split knows of another."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from align_echo.wrappers.searchqa.corpus import EACH, KINDS, SearchCorpus, SearchTask, open_questions
from align_echo.wrappers.searchqa.spec import SPLITS, task_type

FROZEN = "cdcc51a7ac9ffe91"
MOST_AT_ONCE = 0.03
"""Share of the bridge questions that may find their last document by their own words, by chance."""


@pytest.fixture(scope="module")
def texts(corpus):
    return {document.title: document.text for document in corpus.documents}


def tasks(split: str) -> list[SearchTask]:
    return list(open_questions(None, split).values())


def meaning(task: SearchTask) -> str:
    """What a task id stands for; in which other words its answer may be given is left out."""
    return repr((task.task_id, task.question, task.answers[0], task.chain))


def titles(corpus: SearchCorpus, query: str) -> list[str]:
    return [document.title for document, _ in corpus.search(query, 3)]


def test_there_are_thousands_of_documents_and_as_many_questions_of_each_kind_as_documented(corpus, texts):
    assert len(corpus.documents) == len(texts) == 3024
    for split in SPLITS:
        assert Counter(task_type(task.task_id) for task in tasks(split)) == dict.fromkeys(KINDS, EACH[split])
        assert len({task.question for task in tasks(split)}) == len(tasks(split))


def test_the_questions_and_documents_are_those_of_this_version(corpus):
    """A change of this hash changes what task ids mean: count up VERSION with it."""
    texts = [*map(repr, corpus.documents), *(meaning(task) for split in SPLITS for task in tasks(split))]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == FROZEN


def test_splits_share_no_question_and_no_subject():
    seen: set[str] = set()
    for split in SPLITS:
        own = {title for task in tasks(split) for title in task.chain} | {task.question for task in tasks(split)}
        assert not own & seen
        seen |= own


@pytest.mark.parametrize("split", SPLITS)
def test_every_document_on_the_way_is_found_by_what_the_one_before_says(split, corpus, texts):
    for task in tasks(split):
        known = task.question
        for title in task.chain:
            assert title in known, task
            assert title in titles(corpus, title), task
            known += "\n" + texts[title]


@pytest.mark.parametrize("split", SPLITS)
def test_the_answer_stands_in_the_last_document_of_a_bridge_and_in_none_before(split, texts):
    for task in tasks(split):
        if task_type(task.task_id).startswith("bridge"):
            assert task.answers[0] in texts[task.chain[-1]], task
            assert not any(task.answers[0] in text for text in [task.question, *map(texts.get, task.chain[:-1])]), task


@pytest.mark.parametrize("split", SPLITS)
def test_the_question_alone_does_not_find_the_last_document_of_a_bridge(split, corpus):
    bridges = [task for task in tasks(split) if task_type(task.task_id).startswith("bridge")]
    at_once = sum(task.chain[-1] in titles(corpus, task.question) for task in bridges)
    assert at_once <= MOST_AT_ONCE * len(bridges)


def test_the_answer_of_a_comparison_is_what_the_documents_say(texts):
    words = {"first": min, "longer": max, "deeper": max}
    for task in tasks("test"):
        if task_type(task.task_id).startswith("comparison"):
            compared = task.chain[-2:]
            best = next(take for word, take in words.items() if word in task.question)
            assert task.answers[0] == best(compared, key=lambda title: int(re.findall(r"\d+", texts[title])[0])), task


def test_names_have_neighbours_that_are_alike(corpus):
    parts = Counter(part for document in corpus.documents for part in document.title.split())
    alone = [document.title for document in corpus.documents if max(parts[part] for part in document.title.split()) < 3]
    assert alone == []
