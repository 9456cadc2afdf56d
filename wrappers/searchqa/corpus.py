"""Documents and questions: the embedded ones, or those of a folder in the layout that many such data sets have.

| File of a folder | A line holds |
|---|---|
| `corpus.jsonl` | a document: `contents` (its title, a line break, its text), or `title` and `text` |
| `train.jsonl`, `dev.jsonl`, `test.jsonl` | a question of the split: `question`, `golden_answers` (a list, or one) |

All are read into memory, once a process, and shared by its environments. A question that stands in several splits is
asked in the last of them alone, so that nobody is tested on what was trained on. Left out: corpora that do not fit
there, which are searched at a retrieval server (`client.py`).
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from align_echo.errors import MissingDataError, UsageError, require
from align_echo.wrappers.bm25 import NEEDS, SearchIndex, words
from align_echo.wrappers.rows import Rows, read_rows
from align_echo.wrappers.searchqa.answers import normalised, plain
from align_echo.wrappers.searchqa.questions import PROVINCES, SearchTask, questions
from align_echo.wrappers.searchqa.spec import SPLITS
from align_echo.wrappers.searchqa.subjects import VERSION, Document, documents, provinces

VARIABLE = "SEARCHQA_DATA"
CORPUS = "corpus.jsonl"
ANSWERS = ("golden_answers", "answers", "answer")
"""Keys of a question's right answers, the first that is there: a list, or one answer."""

MOST_DOCUMENTS = 1_000_000
"""Of a file. More belong on a retrieval server."""

EMBEDDED = f"embedded questions, generator {VERSION}"

_opening = threading.RLock()


class Corpus:
    """Documents with their index. Nothing in it changes: threads and environments share it."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._index = SearchIndex.of(plain(document.contents) for document in documents)

    def search(self, query: str, topk: int) -> list[tuple[Document, float]]:
        """(document, score) of the best that share a word with the query, best first; accents do not count."""
        return [(self.documents[row], score) for row, score in self._index.ranked(plain(query), topk)]


def find_folder(data_root: Path | None) -> Path | None:
    """The folder that was given or that `$SEARCHQA_DATA` names; None for the embedded questions.

    Raises `MissingDataError` if there is no such folder.
    """
    folder = data_root or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if folder is not None and not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder} with questions of SearchQA (test.jsonl ...)")
    return folder


def open_corpus(file: Path | None) -> Corpus:
    """The corpus of a file, or the embedded one: the same object in the whole process.

    Raises `MissingDataError` where there is no such file, `UsageError` naming a line that is no document,
    `MissingExtraError` where what searches is not installed.
    """
    require("searching documents in this process", "searchqa", NEEDS)
    with _opening:
        return _corpus_of(file, _stamp(file)) if file is not None else _embedded_corpus()


def open_questions(folder: Path | None, split: str) -> dict[str, SearchTask]:
    """The questions of a split that no later split has too, by their task ids, in order. Raises as `open_corpus`."""
    with _opening:
        if folder is None:
            return _embedded()[1][split]
        file = folder / f"{split}.jsonl"
        if not file.exists():
            raise MissingDataError(f"{folder} has no {file.name}: there is no split {split} in it")
        kept, _ = _parted(_stamped(folder, split))
        if not kept:
            raise UsageError(f"{file} holds no question that a later split does not hold too")
        return kept


def left_out(folder: Path) -> list[str]:
    """What of a folder's questions is not asked: those that a later split has too, and damaged rows. Raises as
    `open_corpus`."""
    with _opening:
        present = [split for split in SPLITS if (folder / f"{split}.jsonl").exists()]
        repeated = sum(_parted(_stamped(folder, split))[1] for split in present)
        notes = [_question_rows(*_stamped(folder, split)[0]).note for split in present]
        return [f"{repeated} left out that a later split has too"] * bool(repeated) + [note for note in notes if note]


# ---------------------------------------------------------------- embedded


@functools.cache
def _embedded() -> tuple[list[Document], dict[str, dict[str, SearchTask]]]:
    """All documents, and the questions of each split."""
    every = provinces(sum(PROVINCES.values()))
    written = documents(every)
    texts = {document.title: document for document in written}
    rest = iter(every)
    by_split = {split: questions(split, [next(rest) for _ in range(PROVINCES[split])], texts) for split in SPLITS}
    return written, {split: {task.task_id: task for task in tasks} for split, tasks in by_split.items()}


@functools.cache
def _embedded_corpus() -> Corpus:
    return Corpus(_embedded()[0])


# ---------------------------------------------------------------- files

Stamp = tuple[int, int]


def _stamped(folder: Path, split: str) -> tuple[tuple[Path, Stamp], ...]:
    """The files of a split and of those after it that are there, with their stamps."""
    files = [folder / f"{name}.jsonl" for name in SPLITS[SPLITS.index(split) :]]
    return tuple((file, _stamp(file)) for file in files if file.exists())


def _stamp(file: Path) -> Stamp:
    """When a file was changed last, and its size: a changed one is read again. Raises `MissingDataError`."""
    try:
        stat = file.stat()
    except OSError as error:
        raise MissingDataError(f"there is no file {file} ({error.strerror})") from None
    return stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=2)
def _corpus_of(file: Path, stamp: Stamp) -> Corpus:
    rows = read_rows(file, _document, "document")
    read = rows.rows
    if rows.note:
        warnings.warn(rows.note, stacklevel=2)
    if len(read) > MOST_DOCUMENTS:
        raise UsageError(f"{file} holds more than {MOST_DOCUMENTS:,} documents: search them at a retrieval server")
    if not any(words(plain(document.contents)) for document in read):
        raise UsageError(f"{file} holds no word that can be searched: documents are read as printable ASCII")
    return Corpus(read)


def _document(record: Mapping[str, Any], number: int, index: int) -> Document:
    """A document from one row. Raises `ValueError`."""
    contents = record.get("contents")
    if not isinstance(contents, str):
        title, text = record.get("title"), record.get("text")
        contents = "\n".join(part for part in (title or "untitled", text) if isinstance(part, str))
        contents = contents if isinstance(text, str) and text.strip() else ""
    if not contents.strip():
        raise ValueError("it is no document: it has no contents, and no text")
    return document_of(contents)


def document_of(contents: str) -> Document:
    """A document from a title's line (which may stand in quotes) and the text after it."""
    title, _, text = contents.strip().partition("\n")
    return Document(title.strip().strip('"') or "untitled", " ".join(text.split()))


@functools.lru_cache(maxsize=6)
def _parted(files: tuple[tuple[Path, Stamp], ...]) -> tuple[dict[str, SearchTask], int]:
    """The questions of the first file that no other one holds, and how many more it has."""
    own, *later = (_questions_of(*file) for file in files)
    taken = {text for questions_ in later for text, _ in questions_.values()}
    kept = {task_id: task for task_id, (text, task) in own.items() if text not in taken}
    return kept, len(own) - len(kept)


@functools.lru_cache(maxsize=6)
def _questions_of(file: Path, stamp: Stamp) -> dict[str, tuple[str, SearchTask]]:
    """(text as it is compared between splits, question) by task id."""
    return {task.task_id: (normalised(text) or text, task) for text, task in _question_rows(file, stamp).rows}


@functools.lru_cache(maxsize=6)
def _question_rows(file: Path, stamp: Stamp) -> Rows[tuple[str, SearchTask]]:
    def read(record: Mapping[str, Any], number: int, index: int) -> tuple[str, SearchTask]:
        question, answers = _question(record)
        return question, SearchTask(f"{file.stem}/question/{index:05}", plain(question), answers)

    return read_rows(file, read, "question")


def _question(record: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The question of a row and its right answers. Raises `ValueError`."""
    question = record.get("question")
    given = next((record[key] for key in ANSWERS if record.get(key) is not None), None)
    listed = given if isinstance(given, list) else [given]
    if not all(isinstance(answer, str | int | float) and not isinstance(answer, bool) for answer in listed):
        listed = []
    answers = tuple(str(answer) for answer in listed if str(answer).strip())
    if not (isinstance(question, str) and question.strip() and answers):
        raise ValueError("it is no question: it needs a question and golden_answers (a list)")
    return question, answers
