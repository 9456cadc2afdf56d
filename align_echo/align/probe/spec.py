"""Learned spec as data: merge vocabularies, add and remove rules, identify rules. See `runtime.py`.

"name": regex of names. "templates": rows of a decision list by template ({"grab {0} off {1}": [rows]}). "now": the same
for "allowed as things stand". "pairs": a template, its undo template, and the slots of the first's names in it (-1:
none). "movers": other templates that change allowed actions. "kinds": words seen in each slot
({"grab {0} off {1}": [[words]]}).
"combined": words seen together, by template. "views": read-only actions, {} for a name. "spelling": spelling that must
be exact ("case", "number"). "uninformative": observations. "forms": misused skeleton -> template. "needs": template ->
[[a template possibly needed before it, the slot of each name, -1 for another name]].

A row is {"if": [literals], "then": [template, [terms], only words seen together] | "already" | "now", "sure": bool,
"must": constant requirement}. Literals number an action's names, then the names first mentioned with them (`about`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

Row = dict[str, Any]
"""Rule of a template's decision list: {"if": [literals], "then": ..., "sure": bool}."""


def merge_specs(before: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Merge a new vocabulary into the old spec; old pairs keep their numbers."""
    if before is None:
        return new
    old_pairs = [pair[:2] for pair in before["pairs"]]
    before = upgrade_spec(before)
    return {
        **before,
        "templates": {**new["templates"], **before["templates"]},
        "now": {**new["now"], **before["now"]},
        "needs": {**new["needs"], **before["needs"]},
        "kinds": merge_kinds(before["kinds"], new["kinds"]),
        "combined": {
            template: sorted({*before["combined"].get(template, ()), *new["combined"].get(template, ())})
            for template in {*before["combined"], *new["combined"]}
        },
        "spelling": {part: before["spelling"][part] and must for part, must in new["spelling"].items()},
        "movers": sorted({*before["movers"], *new["movers"]}),
        "pairs": [*before["pairs"], *(pair for pair in new["pairs"] if pair[:2] not in old_pairs)],
        "uninformative": sorted({*before["uninformative"], *new["uninformative"]}),
    }


def upgrade_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Convert a spec of an older version to the current format."""
    return {**spec, "needs": spec.get("needs", {}), "pairs": [_with_order(pair) for pair in spec["pairs"]]}


def _with_order(pair: list[Any]) -> list[Any]:
    """Add the undo template's slots to a pair; older interfaces use each name's own slot."""
    return pair if len(pair) == 3 else [*pair, list(range(pair[0].count("{")))]


def merge_kinds(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Merge kinds by slot from two vocabularies."""
    merge_kinds = {**after, **before}
    for template in set(before) & set(after):
        places = zip(before[template], after[template], strict=True)
        merge_kinds[template] = [sorted({*old, *new}) for old, new in places]
    return merge_kinds


def extend_spec(spec: dict[str, Any], rows: dict[str, list[Any]], forms: dict[str, str]) -> dict[str, Any]:
    """Append rules and forms to a spec, skipping existing rules."""
    old_ids = {
        identity(template, row)
        for part in ("templates", "now")
        for template, known in spec[part].items()
        for row in known
    }
    fresh = {
        template: list({identity(template, row): row for row in reversed(new)}.values())[::-1]
        for template, new in rows.items()
    }
    rows = {template: [row for row in new if identity(template, row) not in old_ids] for template, new in fresh.items()}
    allowed_rows = {template: [row for row in new if row["then"] == "now"] for template, new in rows.items()}
    refusal_rows = {template: [row for row in new if row["then"] != "now"] for template, new in rows.items()}
    return {
        **spec,
        "templates": {template: [*old, *refusal_rows.get(template, [])] for template, old in spec["templates"].items()},
        "now": {template: [*old, *allowed_rows.get(template, [])] for template, old in spec["now"].items()},
        "forms": {**spec["forms"], **forms},
    }


def remove_rule(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    """Remove a rule from a spec."""
    part = "now" if row["then"] == "now" else "templates"
    left = [rule for rule in spec[part][template] if identity(template, rule) != identity(template, row)]
    return {**spec, part: {**spec[part], template: left}}


def apply_detail(spec: dict[str, Any] | None, detail: dict[str, Any]) -> dict[str, Any]:
    """Apply a misalignment's detail to a spec."""
    if "vocabulary" in detail:
        return merge_specs(spec, detail["vocabulary"])
    assert spec is not None, "the vocabulary comes first"
    if "drop" in detail:
        return remove_rule(spec, detail["template"], detail["drop"])
    if "need" in detail:
        needs = [*spec["needs"].get(detail["template"], []), detail["need"]]
        return {**spec, "needs": {**spec["needs"], detail["template"]: needs}}
    if "form" in detail:
        return extend_spec(spec, {}, {detail["form"]: detail["template"]})
    return extend_spec(spec, {detail["template"]: [detail["row"]]}, {})


def isolate_rule(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    """Reduce a spec to a single rule."""
    bare: dict[str, Any] = {**spec, "templates": {template: []}, "now": {template: []}}
    return extend_spec(bare, {template: [row]}, {})


def identity(template: str, row: Row) -> str:
    """Build a rule's name: template, conditions and conclusion as JSON, ignoring further notes."""
    return json.dumps([template, row["if"], row["then"]])


# ---------------------------------------------------------------- answers of pure functions on texts, remembered

MOST = 100_000
"""Cached answers per function; the least recently used go first."""

Answer = TypeVar("Answer")


def by_name(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """Cache a function of a spec and texts that reads only "name" of the spec.

    Results are shared; callers must not change them.
    """

    @lru_cache(maxsize=MOST)
    def remembered(name: str, *texts: str) -> Answer:
        return function({"name": name}, *texts)

    @wraps(function)
    def asked(spec: dict[str, Any], *texts: str) -> Answer:
        return remembered(spec["name"], *texts)

    return asked


Parsed = tuple[str, list[str], bool]


class _AskedWords(dict[str, str]):
    """Empty dict recording the words it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def __contains__(self, word: object) -> bool:
        self.words.add(str(word))
        return False


def by_unknown_words(
    function: Callable[[dict[str, Any], dict[str, Any], str], Parsed],
) -> Callable[[dict[str, Any], dict[str, Any], str], Parsed]:
    """Cache a function of a spec, a history and a text, for histories without its words.

    The function may read only "name" of the spec and membership of words in "stems" of the history.
    """

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
"""Cache for a function of a text."""
