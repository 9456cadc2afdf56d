"""The learned spec as data: joining vocabularies, adding and taking back rules, naming a rule. See `runtime.py`."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]
"""{"if": [literals], "then": ..., "sure": bool}: one rule of a template's decision list."""


def merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """The old spec with what is new in the vocabulary; old pairs keep their numbers."""
    if before is None:
        return now
    return {
        **before,
        "templates": {**now["templates"], **before["templates"]},
        "kinds": joined(before["kinds"], now["kinds"]),
        "movers": sorted({*before["movers"], *now["movers"]}),
        "pairs": before["pairs"] + [pair for pair in now["pairs"] if pair not in before["pairs"]],
        "uninformative": sorted({*before["uninformative"], *now["uninformative"]}),
    }


def joined(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Kinds by place, from two vocabularies."""
    joined = {**now, **before}
    for template in set(before) & set(now):
        places = zip(before[template], now[template], strict=True)
        joined[template] = [sorted({*one, *other}) for one, other in places]
    return joined


def extended(spec: dict[str, Any], rows: dict[str, list[Any]], forms: dict[str, str]) -> dict[str, Any]:
    """A spec with further rules at the end of its lists, and further forms."""
    templates = {template: [*old, *rows.get(template, [])] for template, old in spec["templates"].items()}
    return {**spec, "templates": templates, "forms": {**spec["forms"], **forms}}


def resolved(spec: dict[str, Any] | None, detail: dict[str, Any]) -> dict[str, Any]:
    """A spec with one misalignment's detail worked in."""
    if "vocabulary" in detail:
        return merged(spec, detail["vocabulary"])
    assert spec is not None, "the vocabulary comes first"
    if "drop" in detail:
        rows = [row for row in spec["templates"][detail["template"]] if row != detail["drop"]]
        return {**spec, "templates": {**spec["templates"], detail["template"]: rows}}
    if "form" in detail:
        return extended(spec, {}, {detail["form"]: detail["template"]})
    return extended(spec, {detail["template"]: [detail["row"]]}, {})


def alone(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    """A spec with one rule only."""
    return {**spec, "templates": {template: [row]}}


def identity(template: str, row: Row) -> str:
    """What tells rules apart, whatever else is noted on them."""
    return json.dumps([template, row["if"], row["then"]])
