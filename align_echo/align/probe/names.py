"""What is a name in the actions that an engine lists, and what belongs to the form: induced from the lists.

An action begins with a word of its form. What follows is a name, or two around a word that joins many to many ("stow X
with Y"), or a name behind words that stand in front of many names ("hop onto X"). A name is known by that: it takes
part in several actions. Nothing is known of how names look, except that a number in one may be another number.

Lists do not tell "VERB lamp chest" from "VERB red lamp" where no action has any of the words alone: that is read off
what the engine prints, which speaks of a lamp without a chest, but not of red without a lamp.

Left out: forms whose first word is a name, forms of three names, and engines that list nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from align_echo.align.probe import runtime

NUMBERED = r"\b[a-z]+ \d+\b"
"""A name that is a word and a number: "word 1"."""

FEW_FORMS = 40
"""Forms of action that an engine of numbered names has at most."""

LEFTS, RIGHTS = 3, 2
"""A word joins two names if so many different ones stand before it, and after it."""

BEHIND = 3
"""Words belong to a form if so many different names stand behind them."""

ALL_ROWS = 0.9
"""So much of what follows a first word is two names in a row, if it follows other first words too."""

DENSE = 0.8
"""Two names in a row of which nothing is known: so many of all rows that could be made of their parts are there."""

MOST_FRONTS = 4
"""More different words than these in front of the same names are names themselves."""

LONGEST = 200
"""A name, or an action that is looked for in texts, has at most so many letters: agents say anything."""

Words = tuple[str, ...]


@lru_cache(maxsize=200_000)
def skeleton(action: str, name: str = NUMBERED) -> tuple[str, tuple[str, ...]]:
    """("grab {0} off {1}", names) of an action as the engine lists it; `name` finds the names (`names.py`)."""
    names = tuple(re.findall(name, action))
    numbers = iter(range(len(names)))
    return re.sub(name, lambda _: "{" + str(next(numbers)) + "}", action), names


def is_numbered(actions: Collection[str]) -> bool:
    """Whether names are words with numbers here: most actions hold such a name behind their first word, and few forms
    are left without them."""
    forms = {re.sub(NUMBERED, "{}", action) for action in actions}
    matches = [re.search(NUMBERED, action) for action in actions]
    named = sum(match is not None and match.start() > 0 for match in matches)
    return 2 * named >= len(actions) and len(forms) <= FEW_FORMS and 2 * len(forms) <= len(actions)


def name_pattern(actions: Collection[str], texts: Iterable[str] = ()) -> str:
    """A regular expression, without groups, of the names in the actions that an engine lists. `texts` are what it
    prints."""
    return NUMBERED if is_numbered(actions) else pattern_of(names_of(actions, texts))


def names_of(actions: Iterable[str], texts: Iterable[str] = ()) -> set[str]:
    """The names in actions; those of a form are looked for once more when those of the others are known. `texts` are
    what the engine prints: it tells two names from one where the actions do not."""
    groups: dict[str, set[Words]] = defaultdict(set)
    for action in actions:
        words = tuple(action.split())
        if len(words) > 1:
            groups[words[0]].add(words[1:])
    printed = _printed(groups, texts)
    joined = {first: _joining_word(rests, printed) for first, rests in groups.items()}
    order = sorted(groups, key=lambda first: (-joined[first][1], first))
    by_first: dict[str, set[Words]] = {first: set() for first in order}
    for _ in range(2):
        for first in order:
            known = {name for other in order if other != first for name in by_first[other]}
            by_first[first] = _names_in(groups[first], joined[first][0], known, _others(groups, first), printed)
    homes: dict[Words, set[str]] = defaultdict(set)
    for first, names in by_first.items():
        for name in names:
            homes[name].add(first)
    return {" ".join(name) for name in _single(homes)}


def _single(names: Mapping[Words, Collection[str]]) -> set[Words]:
    """The names, given with the first words of their actions, without those that are two names in a row, or one with
    words before it that belong to a form, since no other form has them there."""
    fronts: Counter[Words] = Counter()
    for name in names:
        fronts.update(name[:size] for size in range(1, len(name)) if name[size:] in names and name[:size] not in names)

    def is_made_up(name: Words) -> bool:
        parts = [(name[:size], name[size:]) for size in range(1, len(name))]
        lone = len(names[name]) == 1
        return any(back in names and (front in names or (lone and fronts[front] >= BEHIND)) for front, back in parts)

    return {name for name in names if not is_made_up(name)}


def pattern_of(names: Iterable[str]) -> str:
    """A regular expression, without groups, that finds the longest of these names at a word's beginning, endless ones
    left out."""
    letters: dict[str, Any] = {}
    for name in (name for name in names if len(name) <= LONGEST):
        node = letters
        for part in re.findall(r"\d+|\D", name):
            node = node.setdefault(r"\d+" if part.isdigit() else re.escape(part), {})
        node[""] = {}
    return rf"(?<!\w)(?:{_written(letters)})(?!\w)" if letters else r"(?!)"


def _written(letters: dict[str, Any]) -> str:
    """A tree of letters as a regular expression, the longest way first."""
    ways = [part + _written(after) for part, after in sorted(letters.items()) if part]
    if "" in letters and not ways:
        return ""
    inner = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
    return f"(?:{inner}(?!\\w)|)" if "" in letters else inner


def _joining_word(rests: Collection[Words], printed: Collection[Words]) -> tuple[str, int]:
    """The word that joins two names in most ways, with the smaller number of different ones on a side; ("", 0). One
    that joins names that are printed goes before all that do not.

    The last word of many names has as many ways as the word between two names where few names stand behind: of these
    the word between has more in all.
    """
    before: dict[str, set[Words]] = defaultdict(set)
    after: dict[str, set[Words]] = defaultdict(set)
    for rest in rests:
        for index in range(1, len(rest) - 1):
            before[rest[index]].add(rest[:index])
            after[rest[index]].add(rest[index + 1 :])
    ways = {word: min(len(before[word]), len(after[word])) for word in before}
    fit = [
        word
        for word in ways
        if len(before[word]) >= LEFTS
        and len(after[word]) >= RIGHTS
        and not _ends_names(word, rests, before[word], after[word])
    ]

    def merit(word: str) -> tuple[bool, int, int]:
        joins_names = _are_printed(_joined(rests, word).values(), printed)
        return joins_names, ways[word], len(before[word]) + len(after[word])

    best = max(sorted(fit), key=merit, default="")
    return best, ways.get(best, 0)


def _joined(rests: Iterable[Words], word: str) -> dict[Words, tuple[Words, Words]]:
    """The rests that a word parts, in what stands before it and what behind."""
    places = {rest: rest.index(word, 1) for rest in rests if word in rest[1:-1]}
    return {rest: (rest[:index], rest[index + 1 :]) for rest, index in places.items()}


def _ends_names(word: str, rests: Collection[Words], before: set[Words], after: set[Words]) -> bool:
    """Whether a word is the last one of some names, and joins none: the same names stand behind others that lack it,
    and never is a name in front of it in front of another word there."""
    others = {
        rest[:-size]
        for rest in rests
        if word not in rest[1:-1]
        for size in range(1, len(rest) - 1)
        if rest[-size:] in after
    }
    return len(others) >= LEFTS and not any(other[:-1] in before for other in others)


def _names_in(
    rests: set[Words], word: str, known: set[Words], others: set[Words], printed: Collection[Words]
) -> set[Words]:
    """The names of the actions that begin with one word. `known` are the names of other forms so far, `others` all that
    stands behind the first words of other actions, `printed` what of all that the engine prints."""
    whole = set(rests)
    joined = _joined(rests, word)
    apart = {} if _are_printed(joined.values(), printed) else _apart(rests, printed)
    if apart or 2 * sum(rest in known for rest in joined) >= len(joined):
        joined = {}
    names = {name for pair in joined.values() for name in pair}
    whole -= set(joined)
    beside = apart or _beside(whole, known | others | names) or _crossed(whole - known - names, printed)
    names |= {name for pair in beside.values() for name in pair}
    whole -= set(beside)
    behind = _behind(whole, known | others | names)
    names |= set(behind.values())
    whole -= set(behind)
    if len(whole) > 1:
        return names | whole
    return names | {rest for rest in whole if rest in known or rest in others or names}


def _behind(rests: set[Words], elsewhere: set[Words]) -> dict[Words, Words]:
    """Of what follows a first word, by itself, the name behind words that stand before several names."""
    counts: Counter[Words] = Counter()
    for rest in rests:
        for size in range(1, len(rest)):
            counts[rest[:size]] += 1
    parts: dict[Words, Words] = {}
    for rest in rests:
        for size in range(len(rest) - 1, 0, -1):
            front, name = rest[:size], rest[size:]
            before_all = counts[front] == len(rests)
            if counts[front] >= BEHIND and rest not in elsewhere and (name in elsewhere or before_all):
                parts[rest] = name
                break
    fronts = {rest[: len(rest) - len(name)] for rest, name in parts.items()}
    return parts if len(fronts) <= MOST_FRONTS else {}


def _beside(rests: set[Words], elsewhere: set[Words]) -> dict[Words, tuple[Words, Words]]:
    """Of what follows a first word, two names in a row: many different ones before, or behind, names that are known.

    Where the same follows other first words too, as if it were one name, it is two only if nearly all that follows this
    one is made of the same parts, each of them in several rows.
    """
    for shared in (False, True):
        ways = []
        for known_first in (False, True):
            splits: dict[Words, tuple[Words, Words]] = {}
            for rest in rests:
                sizes = [
                    size for size in range(1, len(rest)) if (rest[:size] if known_first else rest[size:]) in elsewhere
                ]
                if sizes and (shared or rest not in elsewhere):
                    size = sizes[-1] if known_first else sizes[0]
                    splits[rest] = (rest[:size], rest[size:])
            others, names = ({pair[side] for pair in splits.values()} for side in (known_first, not known_first))
            whole = not shared or (len(names) >= BEHIND and len(splits) >= ALL_ROWS * len(rests))
            if len(others) > MOST_FRONTS and 2 * len(others) <= len(splits) and whole:
                ways.append(splits)
        if ways:
            return max(ways, key=len)
    return {}


def _printed(groups: Mapping[str, set[Words]], texts: Iterable[str]) -> set[Words]:
    """What the engine prints of that which follows first words, and of its beginnings and ends, in small letters: the
    longest of them wherever one stands. An action that is printed whole tells nothing, nor does one of many letters."""
    lines = {line.lower() for text in texts for line in text.splitlines()}
    if not lines:
        return set()
    actions = {(first, *rest) for first, rests in groups.items() for rest in rests}
    actions = {action for action in actions if len(" ".join(action)) <= LONGEST}
    rows = {action[1:] for action in actions if len(action) > 2}
    parts = {part for rest in rows for size in range(1, len(rest)) for part in (rest[:size], rest[size:])}
    pattern = re.compile(pattern_of(" ".join(words).lower() for words in rows | parts | actions))
    return {tuple(part.split()) for line in lines for part in pattern.findall(line)}


def _apart(rests: set[Words], printed: Collection[Words]) -> dict[Words, tuple[Words, Words]]:
    """Of what follows a first word, two names in a row: both are printed apart, and hardly any row is printed."""
    splits = _evenly(rests, lambda rest, pair: rest not in printed and all(part in printed for part in pair))
    return splits if len(splits) >= ALL_ROWS * len(rests) else {}


def _crossed(rests: set[Words], printed: Collection[Words]) -> dict[Words, tuple[Words, Words]]:
    """Of what follows a first word and of which nothing is known or printed, two names in a row: nearly each of the
    first is in a row with each of the second. If these are the words of one name after all, what is said of both
    together is said of that name."""
    splits = _evenly(rests, lambda rest, pair: not any(part in printed for part in (rest, *pair)))
    sides = [{pair[side] for pair in splits.values()} for side in (0, 1)]
    return splits if splits and len(splits) >= max(ALL_ROWS * len(rests), DENSE * len(sides[0]) * len(sides[1])) else {}


def _evenly(rests: set[Words], fits: Callable[[Words, tuple[Words, Words]], bool]) -> dict[Words, tuple[Words, Words]]:
    """Rests in two parts, cut where most different ones stand before and behind, of the ways that fit (given in small
    letters); none unless there are many parts on both sides, each in several rows."""
    after: dict[Words, set[Words]] = defaultdict(set)
    before: dict[Words, set[Words]] = defaultdict(set)
    pairs = {rest: [(rest[:size], rest[size:]) for size in range(1, len(rest))] for rest in rests}
    for front, back in (pair for ways in pairs.values() for pair in ways):
        after[front].add(back)
        before[back].add(front)
    splits: dict[Words, tuple[Words, Words]] = {}
    for rest, ways in pairs.items():
        fit = [pair for pair in ways if fits(_small(rest), (_small(pair[0]), _small(pair[1])))]
        if fit:
            splits[rest] = max(fit, key=lambda pair: min(len(after[pair[0]]), len(before[pair[1]])))
    sides = [len({pair[side] for pair in splits.values()}) for side in (0, 1)]
    return splits if min(sides) > MOST_FRONTS and 2 * max(sides) <= len(splits) else {}


def _are_printed(pairs: Collection[tuple[Words, Words]], printed: Collection[Words]) -> bool:
    """Whether there are pairs of names, nearly all of them names that are printed."""
    return 0 < ALL_ROWS * len(pairs) <= sum(all(_small(name) in printed for name in pair) for pair in pairs)


def _small(words: Words) -> Words:
    return tuple(word.lower() for word in words)


def _others(groups: dict[str, set[Words]], first: str) -> set[Words]:
    return {rest for other, rests in groups.items() if other != first for rest in rests}


# ---------------------------------------------------------------- what can be said to an engine that lists nothing

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
