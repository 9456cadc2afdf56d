"""Reading the hypotheses in a model's reply: JSON, however it is dressed, each object by itself.

What can mean only one thing is taken: tags or fences around it or none, one object or a list, trailing commas, usual
other names for the keys, {object} for {0}. An object that cannot be read is reported and costs no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from align_echo.agents.parsing import spans, unquoted, visible_code
from align_echo.align.experiments import clip
from align_echo.align.hybrid.hypotheses import HYPOTHESIS, KINDS, Hypothesis, StatedClaim
from align_echo.errors import ReplyFormatError
from align_echo.types import Frozen

MOST_HYPOTHESES = 40
"""So many of one reply are tried; of the others it is only reported how many there are."""

MOST_UNREADABLE = 1000
"""After so many brackets of a reply that begin nothing, no more are looked at."""

LONGEST_NOTHING = 200
"""Characters in which a reply says that there are none."""

LONGEST_PROBLEM = 200
"""Characters of what is wrong with one hypothesis."""

_KINDS = {
    "needs": ("need", "requires", "precondition", "first"),
    "instead": ("wording", "reworded", "form", "write_instead"),
    "no_effect": ("noeffect", "already", "no_op", "changes_nothing"),
    "claim": ("statement", "free", "other", "fact"),
}
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "needs": {
        "action": ("form", "command", "wanted"),
        "step": ("first", "needs", "requires", "before", "precondition", "prerequisite"),
    },
    "instead": {
        "wrong": ("form", "action", "not", "misworded", "said"),
        "right": ("instead", "write", "use", "step", "correct"),
    },
    "no_effect": {
        "action": ("form", "command"),
        "after": ("once", "when", "step"),
        "until": ("unless", "ended_by"),
    },
    "claim": {
        "text": ("claim", "statement", "rule", "sentence"),
        "experiments": ("trials", "tests"),
        "action": ("form", "about"),
    },
}
_TRIAL_KEYS = {
    "task": ("task_id", "id"),
    "actions": ("play", "steps", "action"),
    "sees": ("must_see", "see", "contains", "seen"),
    "sees_not": ("must_not_see", "not_sees", "lacks", "not_seen", "sees_no"),
}
_FORMS = ("action", "step", "wrong", "right", "after", "until")


_OPENING = re.compile(r"[\[{]")
_NOTHING = re.compile(r"\W*(?:json)?\W*(none|\[\s*\]|\{\s*\W*hypotheses\W*\[\s*\]\s*\})\W*", re.IGNORECASE)
_BROKEN = re.compile(r"\{\s*[\"']?(kind|type)\b")


class Proposals(Frozen):
    """The hypotheses of a reply, without repetition, and of each object that was none what is wrong with it."""

    hypotheses: tuple[Hypothesis, ...] = ()
    unread: tuple[str, ...] = ()


def parse_hypotheses(reply: str, task_ids: Collection[str], shown: str = "") -> Proposals:
    """The hypotheses in a reply; none for an empty list or the word none. `shown` is the prompt, whose own examples are
    no answer. Raises `ReplyFormatError` if nothing can be read.
    """
    text = _body(visible_code(reply))
    examples = [*_objects(shown)]
    objects = [written for written in _objects(text) if written not in examples]
    if not objects:
        if len(text.strip()) <= LONGEST_NOTHING and _NOTHING.fullmatch(text.strip()):
            return Proposals()
        raise ReplyFormatError("it holds no hypotheses: write a JSON list of them in <hypotheses>, or [] for none")
    hypotheses: list[Hypothesis] = []
    unread: list[str] = []
    for number, written in enumerate(objects[:MOST_HYPOTHESES], start=1):
        try:
            hypothesis = _hypothesis(written, task_ids)
            hypotheses += [hypothesis] if hypothesis not in hypotheses else []
        except ReplyFormatError as error:
            unread.append(f"hypothesis {number}: {_short(str(error))}")
    if len(objects) > MOST_HYPOTHESES:
        unread.append(f"{len(objects) - MOST_HYPOTHESES} more: at most {MOST_HYPOTHESES} are read at once")
    if not hypotheses:
        raise ReplyFormatError(". ".join(unread))
    return Proposals(hypotheses=tuple(hypotheses), unread=tuple(unread))


def json_values(text: str) -> list[Any]:
    """The JSON objects of a text, those of lists too; what begins like a hypothesis and breaks is a string."""
    values: list[Any] = []
    repaired = re.sub(r",(\s*[\]}])", r" \1", text)
    start = unreadable = 0
    while unreadable < MOST_UNREADABLE and (match := _OPENING.search(text, start)) is not None:
        start = match.start()
        value, end = _decoded((text, repaired), start)
        unreadable += value is None
        if value is not None:
            values += _flat(value)
        elif _BROKEN.match(text, start):
            end = _end_of(text, start)
            values.append(text[start:end])
        start = max(end, start + 1)
    return values


# ---------------------------------------------------------------- inside


def _short(problem: str) -> str:
    return problem if len(problem) <= LONGEST_PROBLEM else f"{problem[:LONGEST_PROBLEM]} ..."


def _body(text: str) -> str:
    """What stands in the last tags of the reply, or all of it."""
    tagged = [text[start:end] for start, end in spans(text, "hypotheses")]
    return next((part for part in tagged[::-1] if part.strip()), text)


def _objects(text: str) -> list[Any]:
    """The values of a text that are meant as hypotheses, whole or broken."""
    values = json_values(text)
    return [value for value in values if isinstance(value, str) or {"kind", "type"} & {_key(key) for key in value}]


def _decoded(spellings: Sequence[str], start: int) -> tuple[Any, int]:
    """A JSON value and where it ends, in the first spelling of a text that has one there; (None, 0) without one."""
    for written in spellings:
        try:
            return json.JSONDecoder().raw_decode(written, start)
        except (ValueError, RecursionError):
            continue
    return None, 0


def _end_of(text: str, start: int) -> int:
    """Where an object that cannot be read ends: before the next one."""
    following = _BROKEN.search(text, start + 1)
    return following.start() if following else len(text)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for part in value:
            if isinstance(part, dict | list):
                yield from _flat(part)
    elif isinstance(value, dict):
        inner = [part for key, part in value.items() if str(key).lower() in ("hypotheses", "rules")]
        if inner and isinstance(inner[0], list):
            yield from _flat(inner[0])
        else:
            yield value


def _hypothesis(written: Any, task_ids: Collection[str]) -> Hypothesis:
    if not isinstance(written, dict):
        raise ReplyFormatError(f"{clip(' '.join(str(written).split()), 80)} is no JSON object")
    given = {_key(key): value for key, value in written.items()}
    kind = _kind(str(given.get("kind", given.get("type", ""))))
    values: dict[str, Any] = {"kind": kind, **_named(given, _KEYS[kind])}
    for name in _FORMS:
        if isinstance(values.get(name), str):
            values[name] = unquoted(values[name].strip().strip("`"))
    values = _numbered(values)
    if isinstance(values.get("experiments"), list):
        values["experiments"] = [_trial(trial, task_ids) for trial in values["experiments"]]
    try:
        return HYPOTHESIS.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in KINDS)
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise ReplyFormatError(f"{where}: {reason}" if where else reason) from error


def _key(key: object) -> str:
    return re.sub(r"[\s-]+", "_", str(key).strip().lower())


def _kind(written: str) -> str:
    word = _key(written)
    for kind, others in _KINDS.items():
        if word == kind or word in others:
            return kind
    raise ReplyFormatError(f"kind must be one of {', '.join(KINDS)}, not {clip(written, 40)!r}")


def _named(given: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The values by their own names; what has another name, and what is null, is left out."""
    values: dict[str, Any] = {}
    for name, others in names.items():
        known = [given[key] for key in (name, *others) if given.get(key) is not None]
        if known:
            values[name] = known[0]
    return values


def _numbered(values: dict[str, Any]) -> dict[str, Any]:
    """Forms whose places have words, {object}, with numbers in the order in which the words first appear."""
    forms = " ".join(str(values[name]) for name in _FORMS if name in values)
    taken = set(re.findall(r"\{(\d)\}", forms))
    free = iter([str(number) for number in range(10) if str(number) not in taken])
    numbers = {word: next(free, "?") for word in dict.fromkeys(re.findall(r"\{([A-Za-z_][\w ]*)\}", forms))}
    return {
        name: re.sub(r"\{([A-Za-z_][\w ]*)\}", lambda match: "{" + numbers.get(match[1], match[1]) + "}", value)
        if isinstance(value, str) and name in (*_FORMS, "text")
        else value
        for name, value in values.items()
    }


def _trial(written: Any, task_ids: Collection[str]) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise ReplyFormatError("an experiment is a JSON object with task, actions, and sees or sees_not")
    values = _named({_key(key): value for key, value in written.items()}, _TRIAL_KEYS)
    actions = values.get("actions")
    values["actions"] = [actions] if isinstance(actions, str) else actions
    if values.get("task") not in task_ids:
        named = clip(str(values.get("task")), 60)
        raise ReplyFormatError(f"an experiment names the task {named!r}, which was not shown")
    return values


def tasks_of(claim: StatedClaim) -> set[str]:
    """The tasks that a claim's experiments play."""
    return {trial.task for trial in claim.experiments}
