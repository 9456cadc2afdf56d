"""Forms as models and interfaces write them: texts with {0} to {9} for names, or JSON objects with these in strings.

In a JSON form, order and spaces do not count, and an action may have more keys.
"""

from __future__ import annotations

import json
import re
from typing import Any

LETTERS = ("X", "Y", "Z", "P", "Q", "R", "S", "T", "U", "V")
"""Letters for slots in texts for people and agents."""


def slots_of(form: str) -> list[str]:
    """Return the numbers of a form's slots in order."""
    return [str(number) for number in re.findall(r"\{(\d)\}", form)]


def with_letters(text: str) -> str:
    """Replace {0}, {1} and so on with X, Y and so on."""
    return re.sub(r"\{(\d)\}", lambda match: LETTERS[int(match[1])], text)


def tree_of(text: str) -> Any:
    """Return the JSON object that an action or a form is; None for plain text."""
    if not re.match(r"\s*\{\s*[\"}]", text):
        return None
    try:
        tree = json.loads(text)
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def said_as(action: str) -> str:
    """Normalise an action for comparisons: without case, spaces, and a JSON object's order."""
    tree = tree_of(action)
    return " ".join((action if tree is None else json.dumps(tree, sort_keys=True, ensure_ascii=False)).lower().split())


def bound_names(form: str, action: str) -> dict[str, str] | None:
    """Return the names in an action by the numbers of a form's slots; None if the action is not of that form."""
    wanted, given = tree_of(form), tree_of(action)
    names: dict[str, str] = {}
    if wanted is None:
        return names if given is None and _takes_text(form, action, names) else None
    return names if given is not None and _takes_tree(wanted, given, names) else None


def _takes_tree(form: Any, value: Any, names: dict[str, str]) -> bool:
    """Whether a part of a JSON object is of a form's part; adds its names."""
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            key in value and _takes_tree(part, value[key], names) for key, part in form.items()
        )
    if isinstance(form, list):
        return (
            isinstance(value, list)
            and len(form) == len(value)
            and all(_takes_tree(part, each, names) for part, each in zip(form, value, strict=True))
        )
    if not isinstance(form, str):
        return form == value and isinstance(form, bool) == isinstance(value, bool)
    return _takes_text(form, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), names)


def _takes_text(form: str, text: str, names: dict[str, str]) -> bool:
    """Whether a text is of a form; adds its names."""
    pattern = "(.+?)".join(re.escape(part) for part in re.split(r"\{\d\}", form))
    match = re.fullmatch(pattern, " ".join(text.split()), re.IGNORECASE)
    if match is None:
        return False
    for number, name in zip(slots_of(form), match.groups(), strict=False):
        if names.get(number, name).lower() != name.lower():
            return False
        names[number] = name
    return True


def filled_form(form: str, names: dict[str, str]) -> str:
    """Fill the slots of a form or a sentence; slots without a name stay."""
    tree = tree_of(form)
    if tree is not None:
        return json.dumps(_filled_tree(tree, names), ensure_ascii=False)
    return re.sub(r"\{(\d)\}", lambda match: names.get(match.group(1), match.group(0)), form)


def _filled_tree(form: Any, names: dict[str, str]) -> Any:
    if isinstance(form, dict):
        return {key: _filled_tree(part, names) for key, part in form.items()}
    if isinstance(form, list):
        return [_filled_tree(part, names) for part in form]
    return filled_form(form, names) if isinstance(form, str) else form


def is_step(form: str, names: dict[str, str], action: str) -> bool:
    """Whether an action is of a form with these names; slots without a name take any."""
    others = bound_names(form, action)
    if others is None:
        return False
    return all(others[number].lower() == names[number].lower() for number in others if number in names)
