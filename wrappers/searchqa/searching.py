"""Choose the place of the search: this process, or the retrieval server in `$SEARCHQA_URL`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

from align_echo.errors import MissingDataError
from align_echo.wrappers.searchqa.client import SERVER_VARIABLE, request_url, search_at
from align_echo.wrappers.searchqa.corpus import CORPUS, EMBEDDED, SearchCorpus, describe_skipped, open_corpus
from align_echo.wrappers.searchqa.env import Search
from align_echo.wrappers.searchqa.subjects import Document


def searcher(folder: Path | None) -> Callable[[], Search]:
    """Return a function that opens the search of a data folder (None: of the embedded documents) on first use.

    Raises `UsageError` for an invalid `$SEARCHQA_URL`, `MissingDataError` for a folder without documents.
    """
    server = os.environ.get(SERVER_VARIABLE)
    if server:
        at_server = functools.partial(search_at, request_url(server))
        return lambda: at_server
    file = None if folder is None else folder / CORPUS
    if file is not None and not file.is_file():
        raise MissingDataError(f"{folder} has no {CORPUS}: add it, or name a retrieval server in ${SERVER_VARIABLE}")
    return lambda: functools.partial(_search_in, open_corpus(file))


def label(folder: Path | None) -> str:
    """Describe the questions in use and the place of the search. Raises as `searcher` and `open_questions`."""
    server = os.environ.get(SERVER_VARIABLE)
    source = EMBEDDED if folder is None else f"questions at {folder.absolute()}"
    if folder is not None:
        source = ", ".join([source, *describe_skipped(folder)])
    return f"{source}, searched at {request_url(server)}" if server else source


def _search_in(corpus: SearchCorpus, query: str, topk: int) -> list[Document]:
    return [document for document, _ in corpus.search(query, topk)]
