r"""Extract the answer in `\boxed{...}` from a reply, spelled so that the verifier reads it as people do.

Several boxes must have the same content. Numbers with more than one spelling get the verifier's: "1 1/2" is a mixed
number and "12 000" is twelve thousand (the verifier would add "1 234" up to 235). Whether the answer is right is not
decided here.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

from align_echo.errors import ReplyFormatError
from align_echo.reading import braced

LONGEST = 300
"""Longest answer, in characters. No problem needs more, and a longer one may keep the verifier busy forever."""

DEEPEST = 12
"""Deepest nesting of brackets in an answer: the verifier's grammar takes seconds for deep ones."""

_SPELLING = {"<super>": "^{{{}}}", "<sub>": "_{{{}}}", "<fraction>": " {} "}
_SMALL_FRACTION = re.compile("([⁰¹²³⁴-⁹]+)[⁄/]([₀-₉]+)")
_SIGNS = str.maketrans({"−": "-", "–": "-", "⁄": "/", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "π": r"\pi "})
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-z]))")
_SCIENTIFIC = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d{1,3})(?![\w.])")
_REPEATING = re.compile(r"(?<![\d.,])(\d+)\.(\d*)\\(?:overline|bar|dot)\{(\d+)\}(?!\d)")
_BUILDER = re.compile(r"\\?\{\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?::|\\mid|\|)\s*(.+?)\s*\\?\}")
_BLANK = r"(?:\s|~|\\[,;:! ])+"
_MIXED = re.compile(rf"(?<![\d.,/])(\d+){_BLANK}(?:(\d+)\s*/\s*(\d+)|\\[dt]?frac\{{(\d+)\}}\{{(\d+)\}})(?![\d.,/])")
_GROUPED = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:{_BLANK}\d{{3}})+(?!\d)")
_APART = re.compile(rf"\d{_BLANK}\d")


MOST_BOXES = 8
"""Largest number of boxes of a reply that are compared."""


def extract_answer(reply: str) -> str:
    """Return the answer of a reply. Raises as `extract_answers`, and `ReplyFormatError` for several answers."""
    answers = extract_answers(reply)
    if len(answers) > 1:
        raise several_answers_error(len(answers))
    return answers[0]


def extract_answers(reply: str) -> list[str]:
    """Return the answers of a reply with different spellings, in order; usually there is one.

    Raises `ReplyFormatError`, with a readable reason, if a box cannot be read, or if there is none or too many.
    """
    answers = list(dict.fromkeys(" ".join(answer.split()) for answer in braced(reply, r"\boxed")))
    if not answers:
        raise ReplyFormatError(r"the reply has no \boxed{answer}")
    if len(answers) > MOST_BOXES:
        raise several_answers_error(len(answers))
    return list(dict.fromkeys(map(tidy_answer, answers)))


def several_answers_error(count: int) -> ReplyFormatError:
    """Build the error for a reply with this many different answers."""
    return ReplyFormatError(rf"the reply has {count} different answers in \boxed{{...}}")


def tidy_answer(answer: str) -> str:
    """Return the content of a box, spelled as the verifier reads it. Raises `ReplyFormatError`."""
    answer = _unwrap(_check_size(_spell_plainly(_check_size(answer)))).strip().removesuffix(".").strip(" $*")
    if not answer:
        raise ReplyFormatError(r"\boxed{} is empty")
    answer = _MIXED.sub(lambda mixed: rf"{mixed[1]}\frac{{{mixed[2] or mixed[4]}}}{{{mixed[3] or mixed[5]}}}", answer)
    answer = _GROUPED.sub(lambda number: re.sub(_BLANK, "", number[0]), answer)
    if _APART.search(answer):
        raise ReplyFormatError("two numbers stand side by side in the answer, with nothing between them")
    return answer


def _check_size(answer: str) -> str:
    """Check the length and depth of an answer for the next reader. Raises `ReplyFormatError`."""
    if len(answer) > LONGEST:
        raise ReplyFormatError(f"the answer has {len(answer)} characters, more than {LONGEST}")
    if _depth(answer) > DEEPEST:
        raise ReplyFormatError(f"the answer has brackets within brackets, more than {DEEPEST} deep")
    return answer


def _spell_plainly(answer: str) -> str:
    """Rewrite an answer in plain signs with the same value: 2⁵ is not 25, and 1½ not 11/2."""
    answer = _SMALL_FRACTION.sub(
        lambda parts: " {}/{} ".format(*map(_compatible, parts.groups())), answer.replace("º", "°")
    )
    answer = _ROOT.sub(lambda root: rf"\sqrt{{{root[1] or root[2]}}}", answer)
    answer = _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", answer.replace(r"\varnothing", r"\emptyset"))
    answer = _REPEATING.sub(_repeating, answer)
    builder = _BUILDER.fullmatch(answer)
    answer = builder[2] if builder and builder[1] in builder[2] else answer
    spelled = (_SPELLING.get(tag, "{}").format(_compatible("".join(signs))) for tag, signs in groupby(answer, _tag))
    return " ".join("".join(spelled).translate(_SIGNS).split())


def _repeating(number: re.Match[str]) -> str:
    """Convert a repeating decimal to a fraction."""
    integer, once, repeated = number.groups()
    below = (10 ** len(repeated) - 1) * 10 ** len(once)
    return rf"\frac{{{int(integer + once + repeated) - int(integer + once)}}}{{{below}}}"


def _tag(sign: str) -> str:
    """Return the kind of a sign that Unicode derives from a plainer one: "<super>", "<sub>", "<fraction>", or else "".
    """
    tag = unicodedata.decomposition(sign).partition(" ")[0]
    return tag if tag in _SPELLING else ""


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _unwrap(answer: str) -> str:
    """Remove boxes around a box."""
    while len(inner := braced(answer, r"\boxed")) == 1 and answer == rf"\boxed{{{inner[0]}}}":
        answer = inner[0].strip()
    return answer


def _depth(answer: str) -> int:
    """Compute the largest number of brackets open at once."""
    depth = deepest = 0
    for sign in answer:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(sign, 0)
        deepest = max(deepest, depth)
    return deepest
