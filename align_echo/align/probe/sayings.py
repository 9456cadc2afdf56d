"""What can be said to an engine that lists nothing: the forms that are known, filled with the names in sight.

Forms come from what the engine offers, or from what agents said and the engine took. Which of a state's sayings it
takes is found by trying each (`Lab.takes`); what was taken tells which kinds of names a form takes, and later states
are tried with fewer.

Left out: engines of so many names that trying all is out of the question (`Sayings.count`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from align_echo.align.probe import runtime
from align_echo.align.probe.names import NUMBERED, is_numbered, names_of, pattern_of, skeleton

MIN_SAID = 2
"""A form that was only refused so far is tried if it was said of so many different names."""

MOST_TRIED = 12
"""So many such forms are tried, those said of most names: an agent may have any number of wrong ones."""

SETTLED = 12
"""After so many different taken actions of a form, only the kinds of names that it took are tried in it."""


@dataclass
class Sayings:
    """Forms, what finds names, and by form the actions that were taken and the kinds of names in each of its places."""

    forms: tuple[str, ...]
    name: str
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    kinds: dict[str, list[set[str]]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    def learn(self, action: str) -> None:
        """Take in an action that the engine took."""
        template, names = skeleton(action, self.name)
        if template in self.forms and action not in self.taken[template]:
            self.taken[template].add(action)
            places = self.kinds.setdefault(template, [set() for _ in names])
            for place, name in zip(places, names, strict=True):
                place.add(runtime.stem(name))
                self.met.add(runtime.stem(name))

    def fill(self, names: Collection[str], only: Collection[str] | None = None) -> Iterator[str]:
        """All that can be said of these names; of some of them only, where `only` is given."""
        chosen = sorted(names if only is None else {*names}.intersection(only))
        for template in self.forms:
            fits = [self._fitting(template, place, chosen) for place in range(template.count("{"))]
            for filled in product(*fits):
                if len({*filled}) == len(filled):
                    yield runtime.write(template, list(filled))

    def count(self, names: Collection[str]) -> int:
        """How many sayings there are of so many names before anything is known of kinds."""
        return sum(len(names) ** template.count("{") for template in self.forms)

    def _fitting(self, template: str, place: int, names: Iterable[str]) -> list[str]:
        if len(self.taken[template]) < SETTLED:
            return list(names)
        kinds = self.kinds[template][place]
        return [name for name in names if (stem := runtime.stem(name)) in kinds or stem not in self.met]


def heard_sayings(taken: Collection[str], said: Collection[str], texts: Sequence[str]) -> Sayings:
    """Forms and names from what was said; names also from rows in `texts` that hold such. What the engine took counts
    as it is; of what it refused a form counts that was said of several names, and a name that the engine printed."""
    printed = "\n".join(texts)
    known = {name for name in names_of(said, texts) if name in printed} | names_of(taken, texts)
    name = NUMBERED if is_numbered(taken or said) else pattern_of(with_neighbours(known, texts))
    forms = Counter(skeleton(action, name)[0] for action in sorted({*said}))
    sure = {skeleton(action, name)[0] for action in taken}
    tried = [form for form, times in forms.most_common() if form not in sure and "{" in form and times >= MIN_SAID]
    kept = sorted([*(form for form in sure if "{" in form), *tried[:MOST_TRIED]])
    sayings = Sayings(tuple(kept), name)
    for action in sorted(taken):
        sayings.learn(action)
    return sayings


def with_neighbours(names: set[str], texts: Iterable[str]) -> set[str]:
    """Names, and what stands in a row with two of them at least: "a, b and c"."""
    rows = [_row(part) for text in texts for part in re.split(r"[.:;!?\n]", text)]
    known = set(names)
    while more := {item for row in rows if len(known.intersection(row)) >= 2 for item in row} - known:
        known |= more
    return known


def _row(part: str) -> list[str]:
    """The items of a row without articles; the first is left out, since other words may stand before it."""
    items = [re.sub(r"^(?:and |or )?(?:an? |the )?", "", item.strip()) for item in re.split(r",| and ", part)[1:]]
    return [item for item in items if item]
