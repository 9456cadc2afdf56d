"""Questions about the invented subjects: the documents that lead to the answer, in order, and the answer.

| Kind | Asks | Documents |
|---|---|---|
| `bridge-2` | for a fact of a subject that another one describes: "In which town was the author of X born?" | 2 |
| `bridge-3` | the same over two described subjects | 3 |
| `comparison-2` | which of two named subjects is older, longer or deeper | 2 |
| `comparison-3` | the same of a named and a described subject | 3 |

Each split has its own provinces, so that no two splits ask about the same subject; all documents are in one corpus.
The answer of a `bridge` question is neither in the question nor in any document before the last. A test checks that
searches find the documents.
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
