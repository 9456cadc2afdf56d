"""The learned spec as data: joining vocabularies, adding and taking back rules, naming a rule. See `runtime.py`.

A spec holds "name" (regex of an object's name), "templates" ({"grab {0} off {1}": [rows]} with the
rows of a decision list), "now" (the same for "is allowed as things stand"), "pairs" (a template, another that
undoes it, and where that has each name of the first, -1 for nowhere),
"movers" (other templates that change what is allowed), "kinds" ({"grab {0} off {1}": [[words seen in each place]]}),
"combined" ({"grab {0} off {1}": ["words seen together", ...]}),
"views" (read-only actions, {} for a name), "spelling" (what has to be written exactly: "case", "number"),
"uninformative" (observations), "forms" (misused skeleton -> template), "needs"
(template -> [[another that may be needed before it, which of its places each name is, -1 for another name]]).
A row is {"if": [literals], "then": [template, [terms], whether only for words seen together] | "already" | "now",
"sure": bool, "must": whether it is what the action always needs}. In literals the names of an action are counted on by
what each was first named with (`about`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

Row = dict[str, Any]
"""{"if": [literals], "then": ..., "sure": bool}: one rule of a template's decision list."""


def merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """The old spec with what is new in the vocabulary; old pairs keep their numbers."""
    if before is None:
        return now
    old_pairs = [pair[:2] for pair in before["pairs"]]
    before = current(before)
    return {
        **before,
        "templates": {**now["templates"], **before["templates"]},
        "now": {**now["now"], **before["now"]},
        "needs": {**now["needs"], **before["needs"]},
        "kinds": joined(before["kinds"], now["kinds"]),
        "combined": {
            template: sorted({*before["combined"].get(template, ()), *now["combined"].get(template, ())})
            for template in {*before["combined"], *now["combined"]}
        },
        "spelling": {part: before["spelling"][part] and must for part, must in now["spelling"].items()},
        "movers": sorted({*before["movers"], *now["movers"]}),
        "pairs": [*before["pairs"], *(pair for pair in now["pairs"] if pair[:2] not in old_pairs)],
        "uninformative": sorted({*before["uninformative"], *now["uninformative"]}),
    }


def current(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec that an older version wrote, as they are written now."""
    return {**spec, "needs": spec.get("needs", {}), "pairs": [_with_order(pair) for pair in spec["pairs"]]}


def _with_order(pair: list[Any]) -> list[Any]:
    """A pair with where the second form has each name of the first: in its own place, as older interfaces have it."""
    return pair if len(pair) == 3 else [*pair, list(range(pair[0].count("{")))]


def joined(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Kinds by place, from two vocabularies."""
    joined = {**now, **before}
    for template in set(before) & set(now):
        places = zip(before[template], now[template], strict=True)
        joined[template] = [sorted({*old, *new}) for old, new in places]
    return joined


def extended(spec: dict[str, Any], rows: dict[str, list[Any]], forms: dict[str, str]) -> dict[str, Any]:
    """A spec with further rules at the end of its lists, and further forms. A rule that is there is not added again."""
    there = {
        identity(template, row)
        for part in ("templates", "now")
        for template, known in spec[part].items()
        for row in known
    }
    fresh = {
        template: list({identity(template, row): row for row in reversed(new)}.values())[::-1]
        for template, new in rows.items()
    }
    rows = {template: [row for row in new if identity(template, row) not in there] for template, new in fresh.items()}
    now = {template: [row for row in new if row["then"] == "now"] for template, new in rows.items()}
    other = {template: [row for row in new if row["then"] != "now"] for template, new in rows.items()}
    return {
        **spec,
        "templates": {template: [*old, *other.get(template, [])] for template, old in spec["templates"].items()},
        "now": {template: [*old, *now.get(template, [])] for template, old in spec["now"].items()},
        "forms": {**spec["forms"], **forms},
    }


def without(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    """A spec with one rule taken out."""
    part = "now" if row["then"] == "now" else "templates"
    left = [other for other in spec[part][template] if identity(template, other) != identity(template, row)]
    return {**spec, part: {**spec[part], template: left}}


def resolved(spec: dict[str, Any] | None, detail: dict[str, Any]) -> dict[str, Any]:
    """A spec with one misalignment's detail worked in."""
    if "vocabulary" in detail:
        return merged(spec, detail["vocabulary"])
    assert spec is not None, "the vocabulary comes first"
    if "drop" in detail:
        return without(spec, detail["template"], detail["drop"])
    if "need" in detail:
        needs = [*spec["needs"].get(detail["template"], []), detail["need"]]
        return {**spec, "needs": {**spec["needs"], detail["template"]: needs}}
    if "form" in detail:
        return extended(spec, {}, {detail["form"]: detail["template"]})
    return extended(spec, {detail["template"]: [detail["row"]]}, {})


def alone(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    """A spec with one rule only."""
    bare: dict[str, Any] = {**spec, "templates": {template: []}, "now": {template: []}}
    return extended(bare, {template: [row]}, {})


def identity(template: str, row: Row) -> str:
    """The name of a rule: its template, conditions and conclusion as JSON, without anything else noted on it."""
    return json.dumps([template, row["if"], row["then"]])


# ---------------------------------------------------------------- answers of pure functions on texts, remembered

MOST = 100_000
"""Answers that are remembered of each function; those that were not asked for longest go first."""

Answer = TypeVar("Answer")


def by_name(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """A function of a spec and texts that reads nothing of the spec but "name", with its answers remembered. They are
    shared: whoever asks leaves them as they are."""

    @lru_cache(maxsize=MOST)
    def remembered(name: str, *texts: str) -> Answer:
        return function({"name": name}, *texts)

    @wraps(function)
    def asked(spec: dict[str, Any], *texts: str) -> Answer:
        return remembered(spec["name"], *texts)

    return asked


Parsed = tuple[str, list[str], bool]


class _AskedWords(dict[str, str]):
    """Knows no word, and keeps which it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def __contains__(self, word: object) -> bool:
        self.words.add(str(word))
        return False


def by_unknown_words(
    function: Callable[[dict[str, Any], dict[str, Any], str], Parsed],
) -> Callable[[dict[str, Any], dict[str, Any], str], Parsed]:
    """A function of a spec, a history and a text that reads nothing but "name" of the one and whether words are among
    the "stems" of the other, with its answers remembered for histories that know none of the words it asks for."""

    @lru_cache(maxsize=MOST)
    def remembered(name: str, text: str) -> tuple[Parsed, frozenset[str]]:
        stems = _AskedWords()
        return function({"name": name}, {"stems": stems}, text), frozenset(stems.words)

    @wraps(function)
    def asked(spec: dict[str, Any], history: dict[str, Any], text: str) -> Parsed:
        (skeleton, names, exact), words = remembered(spec["name"], text)
        if history["stems"].keys().isdisjoint(words):
            return skeleton, [*names], exact
        return function(spec, history, text)

    return asked


by_text = lru_cache(maxsize=MOST)
"""The same of a function of one text."""
