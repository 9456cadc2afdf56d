"""Invented subjects of the embedded documents: regions, lakes, rivers, towns, people, companies, novels and bridges,
drawn with seeds, so that no model can have read about them.

They come in provinces of 54. A fact is another subject of the same province (a novel's author, the author's
birthplace), a number or a word. Each fact is in one document only: that of the subject that has it, never that of the
subject it names. Names are built from few parts, so that every name has similar ones. `corpus.py` asks about the
facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from align_echo.base.dice import Dice

VERSION = "1"
"""Version to raise with every change of the generator or its tables: a task id must stay the same task."""

COUNTS = {
    "region": 1,
    "lake": 2,
    "river": 4,
    "town": 8,
    "person": 16,
    "company": 8,
    "novel": 10,
    "bridge": 5,
}
"""Subjects of a province by kind."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONSETS = _words("b br d dr f g gr h k kl l m n p pl r s sk st t tr v w z")
_MIDDLES = _words("l r n m lv rn nd sk mb lt rv gr dr st rm th")
_ENDS = _words("ak el en ik im ol om or und ush eth ar")
_FIRST_ENDS = _words("a ane el ian io is o on us wen")
_STEMS, _FIRST_NAMES, _FAMILIES = 150, 60, 100

_TOWNS = ("Upper {}", "Lower {}", "Old {}", "{} Bay", "{} Cross", "Little {}", "{} Market", "Great {}", "{} Heath")
_RIVERS = ("{} Water", "{} Beck", "{} Brook", "{} Burn", "{} Stream")
_LAKES = ("Lake {}", "{} Mere", "{} Tarn")
_REGIONS = ("{} Vale", "{} March", "{} Uplands", "{} Shire")
_COMPANIES = ("{} Works", "{} Brothers", "{} Mills", "{} Foundry", "{} Trading")
_BRIDGES = ("{} Viaduct", "{} Bridge", "{} Crossing")
_HUES = _words("""
amber borrowed broken burning copper crooked distant drowned empty final forgotten frozen gilded glass hidden hollow
iron lonely midnight narrow painted paper quiet restless salt scarlet seventh silent silver sleeping stolen sunken
velvet wandering winter wooden
""")
_THINGS = _words("""
almanac anchor archive balcony candle carousel cellar compass corridor curtain estuary feather garden harbour hourglass
inheritance kingdom ladder lantern letter lighthouse mirror orchard parade passenger portrait quarry railway sentence
shore staircase summer tide vineyard window witness
""")
_PROFESSIONS = _words("""
baker botanist cartographer chemist clockmaker composer geologist glassblower historian judge linguist mason
mathematician midwife painter philosopher physician potter printer sculptor shipwright surgeon surveyor weaver
""")
_CROPS = ("barley", "flax", "hops", "plums", "rye")
_MATERIALS = ("brass", "copper", "linen", "oak", "porcelain", "silk", "steel", "tin", "walnut", "woollen")
_GOODS = ("bells", "buttons", "chairs", "clocks", "combs", "hinges", "kettles", "ribbons", "trays", "whistles")


class Document(NamedTuple):
    """Title and text, both without line breaks."""

    title: str
    text: str

    @property
    def contents(self) -> str:
        """Title line and text, as an index reads and a retrieval server sends them."""
        return f"{self.title}\n{self.text}"


@dataclass(eq=False)
class Subject:
    """Subject of a document. `facts` holds other subjects, numbers and words by the fact's name."""

    kind: str
    name: str
    facts: dict[str, Subject | int | str] = field(default_factory=dict)

    def document(self, dice: Dice) -> Document:
        """Write the subject's facts in one of several wordings."""
        values = {name: fact.name if isinstance(fact, Subject) else fact for name, fact in self.facts.items()}
        sentences = [dice.pick(wordings).format(name=self.name, **values) for wordings in WORDINGS[self.kind]]
        return Document(self.name, " ".join(sentences))


WORDINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "region": (
        ("{name} is a region of {area} square kilometres.", "The region {name} covers {area} square kilometres."),
        ("{name} is governed from {capital}.", "The capital of {name} is {capital}."),
        ("Its farms grow {crop}.", "Most of its farms live on {crop}."),
    ),
    "lake": (
        ("{name} is a lake in the region {region}.", "{name} is one of the lakes of the region {region}."),
        ("{name} is {depth} metres deep.", "At its deepest point, {name} measures {depth} metres."),
        ("It covers {area} hectares.", "Its shore is {shore} kilometres long."),
    ),
    "river": (
        ("{name} is a river {length} kilometres long.", "The river {name} has a length of {length} kilometres."),
        ("{name} flows into {lake}.", "{name} ends in {lake}."),
        ("It freezes in hard winters.", "Trout are caught in it.", "Barges used it until {closed}."),
    ),
    "town": (
        ("{name} is a town on the river {river}.", "The town of {name} lies on the river {river}."),
        ("{name} belongs to the region {region}.", "It is part of the region {region}."),
        ("{name} was founded in {founded}.", "Settlers founded {name} in {founded}."),
        ("It is known for its {product}.", "{name} is known for making {product}."),
    ),
    "person": (
        ("{name} was a {profession}, born in {birthplace}.", "Born in {birthplace}, {name} was a {profession}."),
        ("The year of birth of {name} is {born}.", "{name} came into the world in {born}."),
        ("{name} studied under {teacher}.", "The teacher of {name} was {teacher}."),
        ("For {years} years {name} worked at {employer}.", "{name} later worked at {employer}."),
    ),
    "company": (
        ("{name} is a company with its seat in {seat}.", "The company {name} has its seat in {seat}."),
        ("{name} was founded by {founder} in {founded}.", "{founder} founded {name} in {founded}."),
        ("{name} makes {product}.", "The products of {name} are {product}."),
    ),
    "novel": (
        ("{name} is a novel by {author}.", "{author} wrote the novel {name}."),
        ("{name} is set in {setting}.", "The story of {name} takes place in {setting}."),
        ("It was printed in {printed}.", "Its first edition is of {printed}."),
    ),
    "bridge": (
        ("{name} spans the river {river}.", "{name} carries a road across the river {river}."),
        ("The engineer {designer} designed {name}.", "{name} was designed by {designer}."),
        ("It was opened in {opened}.", "{name} was opened to traffic in {opened}."),
    ),
}
"""Sentences for a kind of subject in order, each in several wordings."""


def provinces(count: int) -> list[list[Subject]]:
    """Generate the subjects of `count` provinces without links between them; no name occurs twice."""
    dice = Dice(f"searchqa names {VERSION}")
    stems = _invented(dice, _STEMS + _FAMILIES, _ENDS)
    names = _Names(stems[:_STEMS], _invented(dice, _FIRST_NAMES, _FIRST_ENDS), stems[_STEMS:])
    return [_province(Dice(f"searchqa province {VERSION} {number}"), names) for number in range(count)]


def documents(provinces_: Iterable[Sequence[Subject]]) -> list[Document]:
    """Write the documents of all subjects, in random order."""
    dice = Dice(f"searchqa documents {VERSION}")
    written = [subject.document(dice) for province in provinces_ for subject in province]
    return dice.shuffled(written)


def _invented(dice: Dice, count: int, ends: Sequence[str]) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < count:
        words[(dice.pick(_ONSETS) + dice.pick("aeiou") + dice.pick(_MIDDLES) + dice.pick(ends)).capitalize()] = None
    return list(words)


class _Names:
    """Generator of names without repeats."""

    def __init__(self, stems: Sequence[str], first: Sequence[str], families: Sequence[str]) -> None:
        self._stems, self._first, self._families = stems, first, families
        self._used: set[str] = set()

    def draw(self, kind: str, dice: Dice) -> str:
        """Draw a new name for a subject of a kind."""
        while (name := self._draw(kind, dice)) in self._used:
            pass
        self._used.add(name)
        return name

    def _draw(self, kind: str, dice: Dice) -> str:
        if kind == "person":
            return f"{dice.pick(self._first)} {dice.pick(self._families)}"
        if kind == "novel":
            return f"The {dice.pick(_HUES).capitalize()} {dice.pick(_THINGS).capitalize()}"
        patterns = {"town": _TOWNS, "river": _RIVERS, "lake": _LAKES, "region": _REGIONS, "bridge": _BRIDGES}
        return dice.pick(patterns.get(kind, _COMPANIES)).format(dice.pick(self._stems))


def _province(dice: Dice, names: _Names) -> list[Subject]:
    """Generate the subjects of one province."""
    by_kind = {
        kind: [Subject(kind, names.draw(kind, dice)) for _ in range(count)] for kind, count in COUNTS.items()
    }
    for kind, subjects in by_kind.items():
        for number, subject in enumerate(subjects):
            subject.facts.update(_facts(kind, number, dice, by_kind))
    return [subject for subjects in by_kind.values() for subject in subjects]


def _facts(
    kind: str, number: int, dice: Dice, by_kind: dict[str, list[Subject]]
) -> dict[str, Subject | int | str]:
    """Draw the facts of the subject of a kind with this number in its province."""

    def among(kind: str) -> Subject:
        return dice.pick(by_kind[kind])

    def count(low: int, high: int) -> int:
        return low + dice.below(high - low)

    def product() -> str:
        return f"{dice.pick(_MATERIALS)} {dice.pick(_GOODS)}"

    match kind:
        case "region":
            return {"capital": among("town"), "area": count(800, 9000), "crop": dice.pick(_CROPS)}
        case "lake":
            size = {"depth": count(12, 310), "area": count(90, 4000), "shore": count(9, 80)}
            return {"region": among("region"), **size}
        case "river":
            return {"lake": among("lake"), "length": count(31, 640), "closed": count(1860, 1930)}
        case "town":
            lies = {"river": among("river"), "region": among("region")}
            return {**lies, "founded": count(1040, 1690), "product": product()}
        case "person":
            older = by_kind["person"][:number]
            return {
                "profession": dice.pick(_PROFESSIONS),
                "birthplace": among("town"),
                "born": 1690 + 9 * number + dice.below(60),
                "teacher": dice.pick(older) if older else "a travelling monk",
                "years": count(3, 30),
                "employer": among("company"),
            }
        case "company":
            year = count(1760, 1890)
            return {"seat": among("town"), "founder": among("person"), "founded": year, "product": product()}
        case "novel":
            return {"author": among("person"), "setting": among("town"), "printed": count(1790, 1940)}
        case _:
            return {"river": among("river"), "designer": among("person"), "opened": count(1800, 1935)}
