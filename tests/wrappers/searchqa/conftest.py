"""Fixtures: a machine on which no data and no server is named, the embedded corpus, a server, a folder of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.searchqa.corpus import SearchCorpus, open_corpus
from align_echo.wrappers.searchqa.env import SearchQAEnv
from align_echo.wrappers.searchqa.protocol import make_server
from tests.conformance.subjects import raw
from tests.wrappers.searchqa.servers import served


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEARCHQA_DATA", "SEARCHQA_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def corpus() -> SearchCorpus:
    return open_corpus(None)


@pytest.fixture
def env() -> Iterator[SearchQAEnv]:
    made = raw(environment("searchqa"))
    assert isinstance(made, SearchQAEnv)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(corpus: SearchCorpus) -> Iterator[str]:
    """The address of a server of the embedded corpus, in a thread."""
    with make_server(corpus, 0) as made, served(made) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with two documents and a test split of two questions."""
    documents = [
        {"id": "0", "contents": '"José Ortega"\nJosé Ortega painted “The Gate” in Málaga.'},
        {"id": "1", "title": "The Gate", "text": "The Gate hangs\nin the town hall of Ronda."},
    ]
    questions = [
        {"id": "a", "question": "Who painted The Gate?", "golden_answers": ["José Ortega", "Ortega"]},
        {"id": "b", "question": "Where does The Gate hang?", "golden_answers": ["Ronda"]},
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))  # the last line has no end
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n\n")
    return tmp_path
