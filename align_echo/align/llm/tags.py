"""Reading what stands in tags, however it is dressed, and telling an answer from the prompt's own words.

Tags may be in any case, hold spaces, or have the underscores that Markdown escapes. Every error is a
`ReplyFormatError` in words for the model. Left out: what the tags of an answer mean (`replies.py`).
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Literal, get_args

from align_echo.agents.parsing import spans, unquoted
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render

Kind = Literal["bug-of-current", "new-logic"]
KINDS = " or ".join(get_args(Kind))
TAGS = (
    *("misalignments", "misalignment", "task_id", "action_type", "action", "intent", "rule", "sufficient_feedback"),
    *("kind", "support", "refuted", "operation", "argument", "resolved", "unresolved", "refinement", "code", "choice"),
)
_WORDS_AROUND_NUMBERS = frozenset(
    {
        *("experiment", "experiments", "exp", "exps", "misalignment", "misalignments", "finding", "findings"),
        *("no", "nos", "nr", "number", "numbers", "and"),
    }
)
_NOTHING = frozenset({"", "none", "nothing", "no", "n/a", "-", "—", "0"})
_STRING = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
ARGUMENT_NAMES = ("task_id", "task", "agent_action", "action", "observation", "obs", "text", "argument")
"""How models name the one argument of an operation."""


def plain_tags(text: str, tags: tuple[str, ...] = TAGS) -> str:
    """The text with these tags written as the prompts write them."""
    return _tag_pattern(tags).sub(lambda match: f"<{match[1]}{match[2].lower().replace(chr(92), '')}>", text)


def inside(text: str, tag: str) -> list[str]:
    """What stands in each pair of tags and is not the prompt's own example."""
    texts = [text[start:end] for start, end in spans(text, tag)]
    return [span for span in texts if " ".join(span.split()) not in _examples(tag)]


def only(text: str, tag: str) -> str:
    """What stands in the only pair of tags. The same answer given twice is one."""
    answers = {" ".join(part.split()): part for part in inside(text, tag)}
    if len(answers) == 1:
        return answers.popitem()[1]
    if answers:
        raise ReplyFormatError(f"<{tag}> must stand there exactly once")
    if spans(text, tag):
        raise ReplyFormatError(f"<{tag}> holds the example of the instructions; write your own there")
    opening, closing = text.find(f"<{tag}>"), text.find(f"</{tag}>")
    if opening < 0:
        raise ReplyFormatError(f"<{tag}> is missing")
    if closing < 0:
        raise ReplyFormatError(f"<{tag}> is not closed with </{tag}>")
    raise ReplyFormatError(f"</{tag}> stands before <{tag}>")


def words(text: str) -> str:
    """A short answer without the emphasis, quotes or full stop around it."""
    return unquoted(text.strip().strip("*_ \n\t").rstrip(".! ")).strip("*_ ")


def numbers(text: str, tag: str) -> list[int]:
    """The numbers that a tag cites, however they are joined: "2, 5", "#2 and [5]", "Experiments 2, 5 and 7"."""
    if words(text).lower() in _NOTHING:
        return []
    parts = [part for part in re.split(r"[\s,;&#()\[\]{}+]+", text.strip().rstrip(".")) if part]
    parts = [part for part in parts if part.lower().rstrip(".:") not in _WORDS_AROUND_NUMBERS]
    if not parts or not all(re.fullmatch("[0-9]{1,6}", part) for part in parts):
        raise ReplyFormatError(f"<{tag}> must hold experiment numbers with commas between them")
    return sorted(set(map(int, parts)))


def call(text: str) -> tuple[str, str]:
    """Name and argument of what an operation's tag holds: a name alone, `name(argument)` with the argument's name or
    quotes around it or without, `name: argument`, or a JSON object with both. The argument is "" where there is none.
    """
    text = unquoted(text.strip().strip("*"))
    if text.startswith("{"):
        return _json_call(text)
    match = re.fullmatch(r"([A-Za-z][A-Za-z_ -]{2,60}?)\s*(?:\((.*)\)\s*[;.]?|:\s+(.+))?", text, re.DOTALL)
    if match is None:
        return text, ""
    name = re.sub(r"[\s-]+", "_", match[1].strip()).lower()
    return name, argument(match[2] or match[3] or "", named="\\S")


def argument(text: str, named: str = "[\"']") -> str:
    """An operation's argument without its own name and without quotes that surround it. A name counts where what
    begins like `named` follows it: elsewhere "x = 1" may be an action.
    """
    text = text.strip()
    name = re.match(rf"(?:{'|'.join(ARGUMENT_NAMES)})\s*=\s*(?={named})", text)
    value = text[name.end() :] if name else text
    string = _STRING.match(value)
    if string and value[string.end() :].lstrip().startswith(",") and (name or "=" in value[string.end() :]):
        raise ReplyFormatError("an operation takes one argument; put that one alone in <argument>")
    if string and string.end() == len(value):
        return _unescaped(value).strip()
    return unquoted(value)


# ---------------------------------------------------------------- inside


def _json_call(text: str) -> tuple[str, str]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    if not isinstance(record, dict):
        return text, ""
    name = next((record[key] for key in ("operation", "name", "function", "tool") if key in record), None)
    given = next((record[key] for key in ("argument", "arguments", "args", "parameters") if key in record), "")
    if isinstance(given, dict) and len(given) <= 1:
        given = next(iter(given.values()), "")
    return (name, given.strip()) if isinstance(name, str) and isinstance(given, str) else (text, "")


def _unescaped(literal: str) -> str:
    """What a quoted string says, with the escapes that both JSON and Python have."""
    escapes = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), literal[1:-1], flags=re.DOTALL)


@cache
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(tag.replace("_", r"\\?_") for tag in sorted(tags, key=len, reverse=True))
    return re.compile(rf"<[ \t]{{0,3}}(/?)[ \t]{{0,3}}({names})[ \t]{{0,3}}>", re.IGNORECASE)


@cache
def _examples(tag: str) -> frozenset[str]:
    """What the prompts write in a tag where they show the form of an answer."""
    shown = [
        *(render("shared/misalignment", {"kinds": KINDS, "cite": cite}) for cite in (True, False)),
        render("shared/tools", {}),
        render("analyzer/rerank", {"candidates": []}),
        render("optimizer/check", {"new": "", "turns": 0}),
        render("optimizer/write", {"covered": "", "new": "", "samples": ""}),
    ]
    return frozenset(" ".join(text[start:end].split()) for text in shown for start, end in spans(text, tag)) - {""}
