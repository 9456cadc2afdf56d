"""Search indexes of documents (BM25), kept in files and shared between processes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import bm25s


NEEDS = ("bm25s", "nltk")
"""Packages an index needs. Neither is imported before the first index."""

LISTED = 50
"""Largest number of results of `SearchIndex.find`."""

MOST_WORDS = 1024
"""Words of a query that count, as in Lucene."""

_K1, _B = 0.9, 0.4
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_COMMON = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_STOP_WORDS = frozenset(_COMMON.split())
_LONGEST_CACHED_QUERY = 500
"""Longest query, in characters, with cached results."""


def words(text: str) -> list[str]:
    """Return the words of a text as the index stores them."""
    stripped = (re.sub(r"['’]s$", "", word) for word in _WORD.findall(text.lower()))
    return [_stem(word) for word in stripped if word not in _STOP_WORDS]


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_stemmer().stem(word))


@functools.cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS)


class SearchIndex:
    """Index of documents, with rows counted from 0. Immutable, so threads may share it."""

    def __init__(self, bm25: bm25s.BM25) -> None:
        self._bm25 = bm25
        self._cached_find = functools.lru_cache(maxsize=4096)(self._find)
        _stemmer()  # importing it takes longer than thousands of searches: better now than in the first step

    @classmethod
    def build(cls, documents: Iterable[str]) -> SearchIndex:
        """Build an index of documents in memory."""
        import bm25s

        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(document)] for document in documents]
        bm25 = bm25s.BM25(k1=_K1, b=_B, method="lucene")
        bm25.index((ids, vocabulary), show_progress=False)
        return cls(bm25)

    @classmethod
    def load(cls, folder: Path) -> SearchIndex:
        """Open an index on disk, memory-mapped. Several processes that open the same files share the memory."""
        import bm25s

        return cls(bm25s.BM25.load(str(folder), mmap=True, show_progress=False))

    def save(self, folder: Path) -> None:
        """Write the index to a folder, for `load`."""
        self._bm25.save(str(folder), show_progress=False)

    def find(self, query: str) -> tuple[int, ...]:
        """Return the rows of the best documents that share a word with the query, best first, at most `LISTED`."""
        return self._cached_find(query) if len(query) <= _LONGEST_CACHED_QUERY else self._find(query)

    def _find(self, query: str) -> tuple[int, ...]:
        return tuple(row for row, _ in self.ranked(query, LISTED))

    def ranked(self, query: str, count: int) -> list[tuple[int, float]]:
        """Return (row, score) of the best documents that share a word with the query, best first, at most `count`."""
        token_ids = self._bm25.get_tokens_ids(words(query)[:MOST_WORDS])
        if not token_ids:
            return []
        scores = self._bm25.get_scores_from_ids(token_ids)
        rows = np.flatnonzero(scores > 0)
        if len(rows) > count:
            least = np.partition(scores, -count)[-count]
            rows = np.flatnonzero((scores >= least) & (scores > 0))
        best = rows[np.lexsort((rows, -scores[rows]))][:count]
        return [(int(row), float(scores[row])) for row in best]
