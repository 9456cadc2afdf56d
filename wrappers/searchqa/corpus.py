"""Documents and questions: the embedded ones, or those of a folder in a common layout of such data sets.

| File of a folder | A line holds |
|---|---|
| `corpus.jsonl` | a document: `contents` (its title, a line break, its text), or `title` and `text` |
| `train.jsonl`, `dev.jsonl`, `test.jsonl` | a question of the split: `question`, `golden_answers` (a list, or one) |

All are read into memory once per process and shared by its environments. A question in several splits is asked only in
the last of them, so that no training question is in a test. Larger corpora are searched at a retrieval server
(`client.py`).
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align_echo.base.dice import Dice
from align_echo.errors import MissingDataError, UsageError, require
from align_echo.wrappers.cache import NEEDS, SearchIndex, words
from align_echo.wrappers.searchqa.answers import normalise, plain
from align_echo.wrappers.searchqa.spec import SPLITS
from align_echo.wrappers.searchqa.subjects import VERSION, Document, Subject, documents, provinces
from align_echo.wrappers.vector import RowsResult, read_rows

# ---------------------------------------------------------------- questions about the invented subjects

PROVINCES = {"train": 34, "dev": 8, "test": 14}
"""Provinces of each split, in the order in which they are drawn."""

KINDS = ("bridge-2", "bridge-3", "comparison-2", "comparison-3")

EACH = {"train": 300, "dev": 50, "test": 100}
"""Number of questions of each kind."""


@dataclass(frozen=True)
class SearchTask:
    """Question and all its right answers. `chain` holds the titles of the documents on the way to it, in order; empty
    if unknown."""

    task_id: str
    question: str
    answers: tuple[str, ...]
    chain: tuple[str, ...] = ()


NOUNS = {"novel": "the novel {}", "company": "the company {}", "bridge": "the bridge {}", "river": "the river {}"}
"""Form of a subject in a question, by kind; kinds not listed use the name alone."""

DESCRIBED = {
    ("novel", "author"): "the author of {}",
    ("novel", "setting"): "the town in which {} is set",
    ("company", "founder"): "the founder of {}",
    ("company", "seat"): "the town in which {} has its seat",
    ("bridge", "designer"): "the engineer who designed {}",
    ("bridge", "river"): "the river that {} spans",
    ("person", "birthplace"): "the birthplace of {}",
    ("person", "teacher"): "the teacher of {}",
    ("person", "employer"): "the company at which {} worked",
    ("town", "river"): "the river on which {} lies",
    ("town", "region"): "the region to which {} belongs",
    ("region", "capital"): "the capital of {}",
    ("river", "lake"): "the lake into which {} flows",
}
"""Description of a subject by another subject with this fact."""

ASKED = {
    ("person", "birthplace"): "In which town was {} born?",
    ("person", "born"): "In which year was {} born?",
    ("person", "profession"): "What was the profession of {}?",
    ("person", "teacher"): "Under whom did {} study?",
    ("person", "employer"): "At which company did {} work?",
    ("town", "river"): "What is the name of the river on which {} lies?",
    ("town", "founded"): "In which year was {} founded?",
    ("town", "product"): "What is {} known for making?",
    ("company", "founder"): "Who founded {}?",
    ("company", "founded"): "In which year was {} founded?",
    ("company", "product"): "What does {} make?",
    ("region", "capital"): "What is the capital of {}?",
    ("river", "lake"): "What is the name of the lake into which {} flows?",
    ("river", "length"): "How many kilometres long is {}?",
    ("lake", "depth"): "How many metres deep is {}?",
}
"""Question for a fact."""

COMPARED = {
    ("person", "born"): ("Who was born first, {} or {}? Give the name.", -1),
    ("town", "founded"): ("Which town was founded first, {} or {}? Give its name.", -1),
    ("company", "founded"): ("Which company was founded first, {} or {}? Give its name.", -1),
    ("river", "length"): ("Which river is longer, {} or {}? Give its name.", 1),
    ("lake", "depth"): ("Which lake is deeper, {} or {}? Give its name.", 1),
}
"""Question for comparing two subjects by a number; the answer is the lower (-1) or the higher one (1)."""

UNITS = {"length": (" kilometres", " kilometers", " km", "km"), "depth": (" metres", " meters", " m", "m")}


def questions(split: str, own: Sequence[Sequence[Subject]], texts: dict[str, Document]) -> list[SearchTask]:
    """Generate the questions of a split over its own provinces, kind by kind. `texts` holds every document by its
    title."""
    tasks = []
    for kind in KINDS:
        dice = Dice(f"searchqa {VERSION} {split} {kind}")
        drawn = _bridges(dice, own, texts, int(kind[-1])) if kind.startswith("bridge") else _pairs(dice, own, kind)
        answered: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        while len(answered) < EACH[split]:
            question, answers, chain = next(drawn)
            answered.setdefault(question, (answers, chain))
        tasks += [
            SearchTask(f"{split}/{kind}/{number:04}", question, answers, chain)
            for number, (question, (answers, chain)) in enumerate(answered.items())
        ]
    return tasks


def _bridges(
    dice: Dice, own: Sequence[Sequence[Subject]], texts: dict[str, Document], hops: int
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield (question, answers, titles) over `hops` documents, without end; some are drawn again."""
    while True:
        chain, phrase = _described(dice, dice.pick(dice.pick(own)), hops - 1)
        last = chain[-1]
        facts = [name for name in last.facts if (last.kind, name) in ASKED]
        if len(chain) < hops or len({*chain}) < hops or not facts:
            continue
        name = dice.pick(facts)
        fact = last.facts[name]
        answers = _named(fact) if isinstance(fact, Subject) else (str(fact), *_with_units(name, fact))
        question = ASKED[last.kind, name].format(phrase)
        before = [question, *(texts[subject.name].contents for subject in chain[:-1])]
        if not any(answers[0] in text for text in before) and not (name == "teacher" and isinstance(fact, str)):
            yield question, answers, tuple(subject.name for subject in chain)


def _pairs(
    dice: Dice, own: Sequence[Sequence[Subject]], kind: str
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield (question, answers, titles) that compare two subjects, without end; some are drawn again."""
    while True:
        compared, fact = dice.pick(list(COMPARED))
        first = dice.pick(dice.pick(own))
        chain, phrase = [first], _noun(first)
        if kind == "comparison-3":
            chain, phrase = _described(dice, first, 1)
        left, right = chain[-1], dice.pick([subject for subject in dice.pick(own) if subject.kind == compared])
        if left.kind != compared or len({*chain, right}) != int(kind[-1]) or left.facts[fact] == right.facts[fact]:
            continue
        wording, sign = COMPARED[compared, fact]
        two = [phrase, _noun(right)]
        best = max((left, right), key=lambda subject: sign * int(str(subject.facts[fact])))
        question = wording.format(*(two if dice.chance(0.5) else reversed(two)))
        yield question, _named(best), tuple(subject.name for subject in [*chain, right])


def _described(dice: Dice, start: Subject, steps: int) -> tuple[list[Subject], str]:
    """Walk along `steps` facts from a subject (fewer if the walk ends), and describe the last subject in words."""
    chain, phrase = [start], _noun(start)
    for _ in range(steps):
        current = chain[-1]
        ways = [(name, fact) for name, fact in current.facts.items() if isinstance(fact, Subject)]
        ways = [(name, fact) for name, fact in ways if (current.kind, name) in DESCRIBED]
        if not ways:
            break
        name, fact = dice.pick(ways)
        chain.append(fact)
        phrase = DESCRIBED[current.kind, name].format(phrase)
    return chain, phrase


def _named(subject: Subject) -> tuple[str, ...]:
    """Return a subject's name, alone and with its kind ("river Tundel Burn", "town of Upper Kothund")."""
    name, kind = subject.name, subject.kind
    return (name,) if kind == "person" else (name, f"{kind} {name}", f"{kind} of {name}")


def _with_units(fact: str, value: int | str) -> Iterator[str]:
    return (f"{value}{unit}" for unit in UNITS.get(fact, ()))


def _noun(subject: Subject) -> str:
    return NOUNS.get(subject.kind, "{}").format(subject.name)


# ---------------------------------------------------------------- documents and questions

VARIABLE = "SEARCHQA_DATA"
CORPUS = "corpus.jsonl"
ANSWERS = ("golden_answers", "answers", "answer")
"""Keys of a question's right answers; the first present one is used: a list, or a single answer."""

MOST_DOCUMENTS = 1_000_000
"""Largest number of documents of a file. More belong on a retrieval server."""

EMBEDDED = f"embedded questions, generator {VERSION}"

_opening = threading.RLock()


class SearchCorpus:
    """Documents with their index. Immutable, so threads and environments share it."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._index = SearchIndex.build(plain(document.contents) for document in documents)

    def search(self, query: str, topk: int) -> list[tuple[Document, float]]:
        """Return (document, score) of the best documents that share a word with the query, best first; accents do not
        count."""
        return [(self.documents[row], score) for row, score in self._index.ranked(plain(query), topk)]


def find_folder(data_root: Path | None) -> Path | None:
    """Return `data_root` or the folder in `$SEARCHQA_DATA`; None for the embedded questions.

    Raises `MissingDataError` if the folder does not exist.
    """
    folder = data_root or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if folder is not None and not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder} with questions of SearchQA (test.jsonl ...)")
    return folder


def open_corpus(file: Path | None) -> SearchCorpus:
    """Open the corpus of a file, or the embedded one: the same object throughout the process.

    Raises `MissingDataError` for a missing file, `UsageError` naming an invalid line, `MissingExtraError` if the search
    packages are not installed.
    """
    require("searching documents in this process", "searchqa", NEEDS)
    with _opening:
        return _read_corpus(file, _stamp(file)) if file is not None else _embedded_corpus()


def open_questions(folder: Path | None, split: str) -> dict[str, SearchTask]:
    """Return the questions of a split, except repeats in a later split, by task id, in order. Raises as `open_corpus`.
    """
    with _opening:
        if folder is None:
            return _embedded()[1][split]
        file = folder / f"{split}.jsonl"
        if not file.exists():
            raise MissingDataError(f"{folder} has no {file.name}: there is no split {split} in it")
        unique, _ = _drop_repeats(_stamped_files(folder, split))
        if not unique:
            raise UsageError(f"{file} holds no question that a later split does not hold too")
        return unique


def describe_skipped(folder: Path) -> list[str]:
    """Describe the skipped questions of a folder: repeats in a later split, and damaged rows. Raises as `open_corpus`.
    """
    with _opening:
        present = [split for split in SPLITS if (folder / f"{split}.jsonl").exists()]
        repeated = sum(_drop_repeats(_stamped_files(folder, split))[1] for split in present)
        notes = [_question_rows(*_stamped_files(folder, split)[0]).note for split in present]
        return [f"{repeated} left out that a later split has too"] * bool(repeated) + [note for note in notes if note]


# ---------------------------------------------------------------- the embedded corpus


@functools.cache
def _embedded() -> tuple[list[Document], dict[str, dict[str, SearchTask]]]:
    """Generate all documents, and the questions of each split."""
    all_provinces = provinces(sum(PROVINCES.values()))
    all_documents = documents(all_provinces)
    texts = {document.title: document for document in all_documents}
    rest = iter(all_provinces)
    by_split = {split: questions(split, [next(rest) for _ in range(PROVINCES[split])], texts) for split in SPLITS}
    return all_documents, {split: {task.task_id: task for task in tasks} for split, tasks in by_split.items()}


@functools.cache
def _embedded_corpus() -> SearchCorpus:
    return SearchCorpus(_embedded()[0])


# ---------------------------------------------------------------- corpora in files

Stamp = tuple[int, int]


def _stamped_files(folder: Path, split: str) -> tuple[tuple[Path, Stamp], ...]:
    """List the existing files of a split and of those after it, with their stamps."""
    files = [folder / f"{name}.jsonl" for name in SPLITS[SPLITS.index(split) :]]
    return tuple((file, _stamp(file)) for file in files if file.exists())


def _stamp(file: Path) -> Stamp:
    """Return the time of the last change and the size of a file, to detect changes. Raises `MissingDataError`."""
    try:
        stat = file.stat()
    except OSError as error:
        raise MissingDataError(f"there is no file {file} ({error.strerror})") from None
    return stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=2)
def _read_corpus(file: Path, stamp: Stamp) -> SearchCorpus:
    rows = read_rows(file, _document, "document")
    read = rows.rows
    if rows.note:
        warnings.warn(rows.note, stacklevel=2)
    if len(read) > MOST_DOCUMENTS:
        raise UsageError(f"{file} holds more than {MOST_DOCUMENTS:,} documents: search them at a retrieval server")
    if not any(words(plain(document.contents)) for document in read):
        raise UsageError(f"{file} holds no word that can be searched: documents are read as printable ASCII")
    return SearchCorpus(read)


def _document(record: Mapping[str, Any], number: int, index: int) -> Document:
    """Parse a document from a row. Raises `ValueError`."""
    contents = record.get("contents")
    if not isinstance(contents, str):
        title, text = record.get("title"), record.get("text")
        contents = "\n".join(part for part in (title or "untitled", text) if isinstance(part, str))
        contents = contents if isinstance(text, str) and text.strip() else ""
    if not contents.strip():
        raise ValueError("it is no document: it has no contents, and no text")
    return make_document(contents)


def make_document(contents: str) -> Document:
    """Make a document from a title's line (optionally in quotes) and the text after it."""
    title, _, text = contents.strip().partition("\n")
    return Document(title.strip().strip('"') or "untitled", " ".join(text.split()))


@functools.lru_cache(maxsize=6)
def _drop_repeats(files: tuple[tuple[Path, Stamp], ...]) -> tuple[dict[str, SearchTask], int]:
    """Return the questions of the first file without repeats in the others, and the number of repeats."""
    own, *later = (_read_questions(*file) for file in files)
    later_texts = {text for questions_ in later for text, _ in questions_.values()}
    unique = {task_id: task for task_id, (text, task) in own.items() if text not in later_texts}
    return unique, len(own) - len(unique)


@functools.lru_cache(maxsize=6)
def _read_questions(file: Path, stamp: Stamp) -> dict[str, tuple[str, SearchTask]]:
    """Return (text compared between splits, question) by task id."""
    return {task.task_id: (normalise(text) or text, task) for text, task in _question_rows(file, stamp).rows}


@functools.lru_cache(maxsize=6)
def _question_rows(file: Path, stamp: Stamp) -> RowsResult[tuple[str, SearchTask]]:
    def read(record: Mapping[str, Any], number: int, index: int) -> tuple[str, SearchTask]:
        question, answers = _question(record)
        return question, SearchTask(f"{file.stem}/question/{index:05}", plain(question), answers)

    return read_rows(file, read, "question")


def _question(record: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Parse the question of a row and its right answers. Raises `ValueError`."""
    question = record.get("question")
    value = next((record[key] for key in ANSWERS if record.get(key) is not None), None)
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(answer, str | int | float) and not isinstance(answer, bool) for answer in listed):
        listed = []
    answers = tuple(str(answer) for answer in listed if str(answer).strip())
    if not (isinstance(question, str) and question.strip() and answers):
        raise ValueError("it is no question: it needs a question and golden_answers (a list)")
    return question, answers
