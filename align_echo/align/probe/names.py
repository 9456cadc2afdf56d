"""Induce from an engine's lists which parts of actions are names and which belong to the form.

An action begins with a word of its form. A name follows; or two names around a joining word ("stow X with Y"); or a
name after words common to many names ("hop onto X"). A name occurs in several actions. Nothing is assumed about its
spelling, except that a number in a name may vary.

Lists cannot distinguish "VERB lamp chest" from "VERB red lamp" if no action uses a word alone. Printed texts can: they
mention a lamp without a chest, but never red without a lamp.

Not supported: forms that begin with a name, forms of three names, and engines without lists.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product

from align_echo.interface.rules.actions import build_name_pattern, fill
from align_echo.interface.rules.vocabulary import NUMBERED, distinct_names, kind_of, name_pattern

FEW_FORMS = 40
"""Maximum forms of an engine with numbered names."""

LEFTS, RIGHTS = 3, 2
"""A word joins two names if so many different ones stand before it, and after it."""

BEHIND = 3
"""Minimum names after words that belong to a form."""

ALL_ROWS = 0.9
"""Minimum share of two names in a row among the rests after a first word, if they also follow other first words."""

DENSE = 0.8
"""Minimum share of existing pairs among all combinations of unknown parts."""

MOST_FRONTS = 4
"""Maximum different words before the same names; more of them are names themselves."""

LONGEST = 200
"""Maximum letters of an action searched in texts, since agents say anything."""

Words = tuple[str, ...]


@lru_cache(maxsize=200_000)
def skeleton(action: str, name: str = NUMBERED) -> tuple[str, tuple[str, ...]]:
    """Split a listed action into its form and names, as in ("grab {0} off {1}", names); `name` matches names
    (`names.py`)."""
    names = tuple(re.findall(name, action))
    numbers = iter(range(len(names)))
    return re.sub(name, lambda _: "{" + str(next(numbers)) + "}", action), names


def is_numbered(actions: Collection[str]) -> bool:
    """Check if names end in numbers: most actions then have one after the first word, and few forms remain."""
    forms = {re.sub(NUMBERED, "{}", action) for action in actions}
    matches = [re.search(NUMBERED, action) for action in actions]
    named = sum(match is not None and match.start() > 0 for match in matches)
    return 2 * named >= len(actions) and len(forms) <= FEW_FORMS and 2 * len(forms) <= len(actions)


def learn_names(actions: Collection[str], texts: Iterable[str] = ()) -> tuple[str, ...] | None:
    """Return the names in an engine's actions; None for numbered words. `texts` are printed texts."""
    return None if is_numbered(actions) else distinct_names(find_names(actions, texts))


def find_names(actions: Iterable[str], texts: Iterable[str] = ()) -> set[str]:
    """Find the names in actions; revisit each form when the names of others are known.

    Printed `texts` separate two names from a single one where actions cannot.
    """
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
            known = {name for word in order if word != first for name in by_first[word]}
            others = {rest for word in order if word != first for rest in groups[word]}
            by_first[first] = _names_in(groups[first], joined[first][0], known, others, printed)
    homes: dict[Words, set[str]] = defaultdict(set)
    for first, names in by_first.items():
        for name in names:
            homes[name].add(first)
    return {" ".join(name) for name in _single(homes)}


def _single(names: Mapping[Words, Collection[str]]) -> set[Words]:
    """Remove double names, and names with leading words of a form, unless another form has them too.

    `names` maps each name to first words of its actions.
    """
    fronts: Counter[Words] = Counter()
    for name in names:
        fronts.update(name[:size] for size in range(1, len(name)) if name[size:] in names and name[:size] not in names)

    def is_made_up(name: Words) -> bool:
        parts = [(name[:size], name[size:]) for size in range(1, len(name))]
        lone = len(names[name]) == 1
        return any(back in names and (front in names or (lone and fronts[front] >= BEHIND)) for front, back in parts)

    return {name for name in names if not is_made_up(name)}


def _joining_word(rests: Collection[Words], printed: Collection[Words]) -> tuple[str, int]:
    """Find the word with the most joined pairs, and the smaller number of names on a side; ("", 0) without one.

    Words between printed names take precedence. The last word of many names may tie with a real joining word before few
    names; the latter has more pairs in all.
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
    """Split the rests with this word into the parts before and after it."""
    places = {rest: rest.index(word, 1) for rest in rests if word in rest[1:-1]}
    return {rest: (rest[:index], rest[index + 1 :]) for rest, index in places.items()}


def _ends_names(word: str, rests: Collection[Words], before: set[Words], after: set[Words]) -> bool:
    """Check if a word only ends names and joins none.

    The same names then follow shorter ones without it, and no such name precedes another joining word.
    """
    followers = {
        rest[:-size]
        for rest in rests
        if word not in rest[1:-1]
        for size in range(1, len(rest) - 1)
        if rest[-size:] in after
    }
    return len(followers) >= LEFTS and not any(follower[:-1] in before for follower in followers)


def _names_in(
    rests: set[Words], word: str, known: set[Words], other_rests: set[Words], printed: Collection[Words]
) -> set[Words]:
    """Find the names in actions with the same first word.

    `known` are names of other forms, `other_rests` rests after other first words, and `printed` all printed rests.
    """
    remaining = set(rests)
    joined = _joined(rests, word)
    split = {} if _are_printed(joined.values(), printed) else _apart(rests, printed)
    if split or 2 * sum(rest in known for rest in joined) >= len(joined):
        joined = {}
    names = {name for pair in joined.values() for name in pair}
    remaining -= set(joined)
    beside = split or _beside(remaining, known | other_rests | names) or _crossed(remaining - known - names, printed)
    names |= {name for pair in beside.values() for name in pair}
    remaining -= set(beside)
    behind = _behind(remaining, known | other_rests | names)
    names |= set(behind.values())
    remaining -= set(behind)
    if len(remaining) > 1:
        return names | remaining
    return names | {rest for rest in remaining if rest in known or rest in other_rests or names}


def _behind(rests: set[Words], other_rests: set[Words]) -> dict[Words, Words]:
    """Map rests after a first word to the name after words common to several names."""
    counts: Counter[Words] = Counter()
    for rest in rests:
        for size in range(1, len(rest)):
            counts[rest[:size]] += 1
    parts: dict[Words, Words] = {}
    for rest in rests:
        for size in range(len(rest) - 1, 0, -1):
            front, name = rest[:size], rest[size:]
            before_all = counts[front] == len(rests)
            if counts[front] >= BEHIND and rest not in other_rests and (name in other_rests or before_all):
                parts[rest] = name
                break
    fronts = {rest[: len(rest) - len(name)] for rest, name in parts.items()}
    return parts if len(fronts) <= MOST_FRONTS else {}


def _beside(rests: set[Words], other_rests: set[Words]) -> dict[Words, tuple[Words, Words]]:
    """Find two names in a row among the rests: many different ones beside known names.

    If the same rest also follows other first words, like a single name, nearly all rests must be made of the same
    parts, each in several rows.
    """
    for shared in (False, True):
        ways = []
        for known_first in (False, True):
            splits: dict[Words, tuple[Words, Words]] = {}
            for rest in rests:
                sizes = [
                    size for size in range(1, len(rest)) if (rest[:size] if known_first else rest[size:]) in other_rests
                ]
                if sizes and (shared or rest not in other_rests):
                    size = sizes[-1] if known_first else sizes[0]
                    splits[rest] = (rest[:size], rest[size:])
            known_parts, names = ({pair[side] for pair in splits.values()} for side in (known_first, not known_first))
            may_be_names = not shared or (len(names) >= BEHIND and len(splits) >= ALL_ROWS * len(rests))
            if len(known_parts) > MOST_FRONTS and 2 * len(known_parts) <= len(splits) and may_be_names:
                ways.append(splits)
        if ways:
            return max(ways, key=len)
    return {}


def _printed(groups: Mapping[str, set[Words]], texts: Iterable[str]) -> set[Words]:
    """Find the printed ones, in lower case, among rests and their beginnings and ends; the longest at each position.

    Fully printed actions and very long ones are ignored.
    """
    lines = {line.lower() for text in texts for line in text.splitlines()}
    if not lines:
        return set()
    actions = {(first, *rest) for first, rests in groups.items() for rest in rests}
    actions = {action for action in actions if len(" ".join(action)) <= LONGEST}
    rows = {action[1:] for action in actions if len(action) > 2}
    parts = {part for rest in rows for size in range(1, len(rest)) for part in (rest[:size], rest[size:])}
    pattern = re.compile(build_name_pattern(" ".join(words).lower() for words in rows | parts | actions))
    return {tuple(part.split()) for line in lines for part in pattern.findall(line)}


def _apart(rests: set[Words], printed: Collection[Words]) -> dict[Words, tuple[Words, Words]]:
    """Find two names in a row among the rests, if both are printed separately and hardly any row is printed."""
    splits = _evenly(rests, lambda rest, pair: rest not in printed and all(part in printed for part in pair))
    return splits if len(splits) >= ALL_ROWS * len(rests) else {}


def _crossed(rests: set[Words], printed: Collection[Words]) -> dict[Words, tuple[Words, Words]]:
    """Find two names in a row among unknown, unprinted rests, if nearly all combinations occur.

    If they are a single name after all, statements about both still apply to it.
    """
    splits = _evenly(rests, lambda rest, pair: not any(part in printed for part in (rest, *pair)))
    sides = [{pair[side] for pair in splits.values()} for side in (0, 1)]
    return splits if splits and len(splits) >= max(ALL_ROWS * len(rests), DENSE * len(sides[0]) * len(sides[1])) else {}


def _evenly(rests: set[Words], fits: Callable[[Words, tuple[Words, Words]], bool]) -> dict[Words, tuple[Words, Words]]:
    """Split rests where the most distinct parts stand on both sides, among lower-case splits accepted by `fits`.

    Empty unless both sides have many parts, each in several rows.
    """
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
    """Check if there are pairs, with nearly all names printed."""
    return 0 < ALL_ROWS * len(pairs) <= sum(all(_small(name) in printed for name in pair) for pair in pairs)


def _small(words: Words) -> Words:
    return tuple(word.lower() for word in words)


# ---------------------------------------------------------------- what can be said to an engine that lists nothing

MIN_SAID = 2
"""Names a refused form must be said with before it is tried."""

MOST_TRIED = 12
"""Maximum refused forms to try, those with most names first: an agent may invent many."""

SETTLED = 12
"""Accepted actions of a form after which only accepted kinds of names are tried."""


@dataclass
class ActionForms:
    """Possible actions: forms, names (None for numbered words), and accepted actions and kinds of names by form."""

    forms: tuple[str, ...]
    names: tuple[str, ...] | None
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    kinds: dict[str, list[set[str]]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    @cached_property
    def name(self) -> str:
        """Return the pattern of names."""
        return name_pattern(self.names)

    def learn(self, action: str) -> None:
        """Learn from an accepted action."""
        template, names = skeleton(action, self.name)
        if template in self.forms and action not in self.taken[template]:
            self.taken[template].add(action)
            places = self.kinds.setdefault(template, [set() for _ in names])
            for kinds, name in zip(places, names, strict=True):
                kinds.add(kind_of(name))
                self.met.add(kind_of(name))

    def fill(self, names: Collection[str], only: Collection[str] | None = None) -> Iterator[str]:
        """Yield all combinations of forms and names, or with `only` those containing some names."""
        chosen = sorted(names if only is None else {*names}.intersection(only))
        for template in self.forms:
            fits = [self._fitting(template, slot, chosen) for slot in range(template.count("{"))]
            for filled in product(*fits):
                if len({*filled}) == len(filled):
                    yield fill(template, list(filled))

    def _fitting(self, template: str, slot: int, names: Iterable[str]) -> list[str]:
        if len(self.taken[template]) < SETTLED:
            return list(names)
        kinds = self.kinds[template][slot]
        return [name for name in names if (stem := kind_of(name)) in kinds or stem not in self.met]


def heard_sayings(
    accepted: Collection[str], utterances: Collection[str], texts: Sequence[str], most_tried: int = MOST_TRIED
) -> ActionForms:
    """Learn forms and names from utterances and from enumerations in `texts`.

    Accepted actions count as they are. A refused form counts if said with several names, `most_tried` of them at most.
    """
    names = heard_names(accepted, utterances, texts)
    name = name_pattern(names)
    forms = Counter(skeleton(action, name)[0] for action in sorted({*utterances}))
    sure = {skeleton(action, name)[0] for action in accepted}
    tried = [form for form, times in forms.most_common() if form not in sure and "{" in form and times >= MIN_SAID]
    known_forms = sorted([*(form for form in sure if "{" in form), *tried[:most_tried]])
    sayings = ActionForms(tuple(known_forms), names)
    for action in sorted(accepted):
        sayings.learn(action)
    return sayings


def heard_names(
    accepted: Collection[str], utterances: Collection[str], texts: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the names in utterances that the engine printed, with their neighbours in enumerations; None for numbered
    words.

    Of accepted actions, what holds no printed name may be a name that is never printed.
    """
    if is_numbered(accepted or utterances):
        return None
    printed = "\n".join(texts)
    items = build_name_pattern(item for row in _rows(texts) if len(row) > 1 for item in row)
    said = {item for action in utterances for item in re.findall(items, action.partition(" ")[2])}
    known = said | {name for name in find_names({*accepted, *utterances}, texts) if name in printed}
    names = _with_neighbours(known, texts)
    pattern = build_name_pattern(names)
    return distinct_names(names | {name for name in find_names(accepted, texts) if not re.search(pattern, name)})


def _with_neighbours(names: set[str], texts: Iterable[str]) -> set[str]:
    """Add items of enumerations ("a, b and c") with at least two known names."""
    rows, known = _rows(texts), set(names)
    while more := {item for row in rows if len(known.intersection(row)) >= 2 for item in row} - known:
        known |= more
    return known


def _rows(texts: Iterable[str]) -> list[list[str]]:
    """Return the items of enumerations without articles, except the first: other words may precede it."""
    parts = [re.split(r",| and ", part) for text in texts for part in re.split(r"[.:;!?\n]", text)]
    rows = ([re.sub(r"^(?:and |or )?(?:an? |the )?", "", item.strip()) for item in part[1:]] for part in parts)
    return [[*filter(None, row)] for row in rows]
