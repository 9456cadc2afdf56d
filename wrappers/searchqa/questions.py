"""Questions over the invented subjects: which documents lead to the answer, in which order, and what it is.

| Kind | Asks | Documents |
|---|---|---|
| `bridge-2` | for a fact of a subject that is described by another: "In which town was the author of X born?" | 2 |
| `bridge-3` | the same over two that are described | 3 |
| `comparison-2` | which of two named subjects is older, longer or deeper | 2 |
| `comparison-3` | the same of one that is named and one that is described | 3 |

Each split has provinces of its own, so that no subject of a question of one split is in a question of another; the
documents of all lie in one corpus. No document before the last one of a `bridge` question holds its answer, nor does
the question. Left out: whether a search finds the documents, which a test looks after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from align_echo.dice import Dice
from align_echo.wrappers.searchqa.subjects import VERSION, Document, Subject

PROVINCES = {"train": 34, "dev": 8, "test": 14}
"""Provinces of each split, in the order in which they are drawn."""

KINDS = ("bridge-2", "bridge-3", "comparison-2", "comparison-3")

EACH = {"train": 300, "dev": 50, "test": 100}
"""Questions of each kind."""


@dataclass(frozen=True)
class SearchTask:
    """A question and every answer that is right. `chain` holds the titles of the documents that lead to it, in order;
    empty where that is not known."""

    task_id: str
    question: str
    answers: tuple[str, ...]
    chain: tuple[str, ...] = ()


NOUNS = {"novel": "the novel {}", "company": "the company {}", "bridge": "the bridge {}", "river": "the river {}"}
"""How a subject of a kind is named in a question; by its name alone, where nothing stands here."""

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
"""How a subject is described by another one that it is a fact of."""

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
"""How a fact is asked for."""

COMPARED = {
    ("person", "born"): ("Who was born first, {} or {}? Give the name.", -1),
    ("town", "founded"): ("Which town was founded first, {} or {}? Give its name.", -1),
    ("company", "founded"): ("Which company was founded first, {} or {}? Give its name.", -1),
    ("river", "length"): ("Which river is longer, {} or {}? Give its name.", 1),
    ("lake", "depth"): ("Which lake is deeper, {} or {}? Give its name.", 1),
}
"""How two subjects are compared by a number, and whether the lower (-1) or the higher one (1) is the answer."""

UNITS = {"length": (" kilometres", " kilometers", " km", "km"), "depth": (" metres", " meters", " m", "m")}


def questions(split: str, own: Sequence[Sequence[Subject]], texts: dict[str, Document]) -> list[SearchTask]:
    """The questions of a split over its own provinces, kind by kind. `texts` holds every document by its title."""
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
    """(question, answers, titles) over so many documents, without end; some are drawn again."""
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
    """(question, answers, titles) that compare two subjects, without end; some are drawn again."""
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
    """A walk of so many facts from a subject (fewer where it ends), and the last one in words."""
    chain, phrase = [start], _noun(start)
    for _ in range(steps):
        here = chain[-1]
        ways = [(name, fact) for name, fact in here.facts.items() if isinstance(fact, Subject)]
        ways = [(name, fact) for name, fact in ways if (here.kind, name) in DESCRIBED]
        if not ways:
            break
        name, fact = dice.pick(ways)
        chain.append(fact)
        phrase = DESCRIBED[here.kind, name].format(phrase)
    return chain, phrase


def _named(subject: Subject) -> tuple[str, ...]:
    """Its name, alone and with what it is ("river Tundel Burn", "town of Upper Kothund")."""
    name, kind = subject.name, subject.kind
    return (name,) if kind == "person" else (name, f"{kind} {name}", f"{kind} of {name}")


def _with_units(fact: str, value: int | str) -> Iterator[str]:
    return (f"{value}{unit}" for unit in UNITS.get(fact, ()))


def _noun(subject: Subject) -> str:
    return NOUNS.get(subject.kind, "{}").format(subject.name)
