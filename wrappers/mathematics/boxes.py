r"""The answer in a reply: what stands in `\boxed{...}`, written so that the verifier reads it as people do.

Nothing is chosen: several boxes must hold the same. Numbers of more than one spelling get the verifier's: "1 1/2" is a
mixed number and "12 000" is twelve thousand (the verifier would add "1 234" up to 235). Left out: whether it is right.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

from align_echo.errors import ReplyFormatError
from align_echo.reading import braced

LONGEST = 300
"""Characters of an answer. No problem asks for more, and a longer one may keep the verifier busy without end."""

DEEPEST = 12
"""Brackets within brackets of an answer: the verifier's grammar takes seconds for deep ones."""

_SPELLING = {"<super>": "^{{{}}}", "<sub>": "_{{{}}}", "<fraction>": " {} "}
_SMALL_FRACTION = re.compile("([⁰¹²³⁴-⁹]+)[⁄/]([₀-₉]+)")
_SIGNS = str.maketrans({"−": "-", "–": "-", "⁄": "/", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "π": r"\pi "})
_BLANK = r"(?:\s|~|\\[,;:! ])+"
_MIXED = re.compile(rf"(?<![\d.,/])(\d+){_BLANK}(?:(\d+)\s*/\s*(\d+)|\\[dt]?frac\{{(\d+)\}}\{{(\d+)\}})(?![\d.,/])")
_GROUPED = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:{_BLANK}\d{{3}})+(?!\d)")
_APART = re.compile(rf"\d{_BLANK}\d")


def answer_in(reply: str) -> str:
    """The one answer of a reply. Raises `ReplyFormatError`, with the reason in words, if there is not exactly one."""
    answers = {" ".join(answer.split()) for answer in braced(reply, r"\boxed")}
    if not answers:
        raise ReplyFormatError(r"the reply has no \boxed{answer}")
    if len(answers) > 1:
        raise ReplyFormatError(rf"the reply has {len(answers)} different answers in \boxed{{...}}")
    return _tidied(answers.pop())


def _tidied(answer: str) -> str:
    answer = _unwrapped(_checked(_spelled(_checked(answer)))).strip().removesuffix(".").strip(" $*")
    if not answer:
        raise ReplyFormatError(r"\boxed{} is empty")
    answer = _MIXED.sub(lambda mixed: rf"{mixed[1]}\frac{{{mixed[2] or mixed[4]}}}{{{mixed[3] or mixed[5]}}}", answer)
    answer = _GROUPED.sub(lambda number: re.sub(_BLANK, "", number[0]), answer)
    if _APART.search(answer):
        raise ReplyFormatError("two numbers stand side by side in the answer, with nothing between them")
    return answer


def _checked(answer: str) -> str:
    """An answer that is not too long and not too deep for what reads it next. Raises `ReplyFormatError`."""
    if len(answer) > LONGEST:
        raise ReplyFormatError(f"the answer has {len(answer)} characters, more than {LONGEST}")
    if _depth(answer) > DEEPEST:
        raise ReplyFormatError(f"the answer has brackets within brackets, more than {DEEPEST} deep")
    return answer


def _spelled(answer: str) -> str:
    """An answer in plain signs that keep its value: 2⁵ is no 25, and 1½ no 11/2."""
    answer = _SMALL_FRACTION.sub(
        lambda parts: " {}/{} ".format(*map(_compatible, parts.groups())), answer.replace("º", "°")
    )
    spelled = (_SPELLING.get(tag, "{}").format(_compatible("".join(signs))) for tag, signs in groupby(answer, _tag))
    return " ".join("".join(spelled).translate(_SIGNS).split())


def _tag(sign: str) -> str:
    """What Unicode says that a sign is a form of a plainer one by: "<super>", "<sub>", "<fraction>", or else ""."""
    tag = unicodedata.decomposition(sign).partition(" ")[0]
    return tag if tag in _SPELLING else ""


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _unwrapped(answer: str) -> str:
    """What is in the innermost of boxes that hold only a box."""
    while len(inner := braced(answer, r"\boxed")) == 1 and answer == rf"\boxed{{{inner[0]}}}":
        answer = inner[0].strip()
    return answer


def _depth(answer: str) -> int:
    """How many brackets are open at once, at most."""
    depth = deepest = 0
    for sign in answer:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(sign, 0)
        deepest = max(deepest, depth)
    return deepest
