"""math-verify in a separate process that can be killed: one process, and one question at a time.

The library's own time limits use signals, which only a main thread may do. Here the caller waits with a deadline and
then ends the process. A hang, an error or a crash becomes an `EngineError`. The process starts with the first question
and is restarted after its end. A fork leaves it to the parent; it ends with this process. Answers are judged in
`checking.py`.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from align_echo.base.plain_yaml import braced
from align_echo.errors import EngineError, ReplyFormatError, require
from align_echo.wrappers.pool import EnginePool, make_process_pool

NEEDS = ("math_verify", "sympy", "antlr4", "latex2sympy2_extended")

ANSWER_WITHIN = 30.0
"""Seconds for a question. Nearly all take a hundredth of a second."""

START_WITHIN = 120.0
"""Seconds for the process to import the library: one or two, on an idle machine."""

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("checking.py")))


class VerifierProcess:
    """Process that checks answers. `program` is its command."""

    def __init__(self, *, answer_within: float = ANSWER_WITHIN, program: Sequence[str] = PROGRAM) -> None:
        """Start the process. Raises `MissingExtraError`, `EngineError`."""
        require_extra()
        self._answer_within = answer_within
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # keep Ctrl-C from the child
        )
        self._receive(START_WITHIN, "did not start")

    @property
    def alive(self) -> bool:
        """Return True while the process runs and belongs to this process."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def is_right(self, gold: str, answer: str) -> bool:
        """Check if `answer` means the same as `gold`, both LaTeX.

        Raises `EngineError` if the verifier hangs, raises an error, dies, or cannot read `gold`.
        """
        question = {"gold": gold, "answer": answer, "seconds": self._answer_within + 5}
        try:
            _pipe(self._process.stdin).write(json.dumps(question).encode() + b"\n")
        except (OSError, ValueError) as error:
            self.close()
            raise EngineError(f"math-verify has ended: {error}") from error
        reply = self._receive(self._answer_within, "gave no answer")
        if "error" in reply:
            raise EngineError(f"math-verify failed: {reply['error']}")
        return bool(reply["right"])

    def close(self) -> None:
        """End the process, if it belongs to this process."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """Close the pipes that keep the verifier running. Call it in a forked child."""
        for stream in (self._process.stdin, self._process.stdout):
            _pipe(stream).close()

    def _receive(self, seconds: float, failure: str) -> dict[str, Any]:
        """Read the next line from the process. Raises `EngineError`.

        Any error ends the process, since a late answer would be taken for the next question's.
        """
        try:
            line = _line(_pipe(self._process.stdout), time.monotonic() + seconds)
            if line is None:
                raise EngineError(f"math-verify {failure} within {seconds:g} s")
            if not line.endswith(b"\n"):
                raise EngineError(f"math-verify {failure}: its process has ended")
            answer: dict[str, Any] = json.loads(line)
        except BaseException:
            self.close()
            raise
        return answer


def require_extra() -> None:
    """Check that math-verify and its parsers are installed. Raises `MissingExtraError`."""
    require("The math environment", "math", NEEDS)


def is_right(gold: str, answer: str) -> bool:
    """Check an answer with the shared verifier; threads take turns. Raises as `VerifierProcess.is_right`, and
    `MissingExtraError`."""
    pool, turn = _shared()
    with turn, pool.borrowed() as verifier:
        return verifier.is_right(gold, answer)


_first = threading.Lock()
_made: list[tuple[EnginePool[VerifierProcess], threading.Lock]] = []


def _shared() -> tuple[EnginePool[VerifierProcess], threading.Lock]:
    """Return this process's pool, which holds one verifier, and the lock for taking turns."""
    with _first:
        if not _made:
            _made.append((make_process_pool(VerifierProcess, _forget), threading.Lock()))
        return _made[0]


def _forget() -> None:
    """Reset the locks in a forked child: another thread of the parent may have held them."""
    global _first
    _first = threading.Lock()
    _made.clear()


def _line(stream: IO[bytes], deadline: float) -> bytes | None:
    """Read up to the end of a line, or of the stream; None if the deadline passes first."""
    poller = select.poll()
    poller.register(stream.fileno(), select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            return None
        chunk = os.read(stream.fileno(), 65536)
        if not chunk:
            break
        line += chunk
    return line


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of the process, which is never None."""
    assert stream is not None
    return stream


# ---------------------------------------------------------------- find the boxed answer

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


# ---------------------------------------------------------------- signs and marks in answers

UNITS = {
    "mm": "millimetre",
    "cm": "centimetre",
    "dm": "decimetre",
    "m": "metre",
    "km": "kilometre",
    "in": "inch",
    "ft": "foot",
    "yd": "yard",
    "mi": "mile",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "ml": "millilitre",
    "mL": "millilitre",
    "l": "litre",
    "L": "litre",
    "g": "gram",
    "kg": "kilogram",
    "lb": "pound",
    "oz": "ounce",
    "rad": "radian",
    "deg": "degree",
    "sq": "square",
    "mph": "mile hour",
    "kmh": "kilometre hour",
    "feet": "foot",
    "inches": "inch",
    "EUR": "euro",
    "USD": "dollar",
}
"""Short and irregular names of units. Other names lose their plural's s, and `meter` is read as `metre`."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MARKS_SIGNS = {
    r"\$": " dollar ",
    "€": " euro ",
    "£": " pound ",
    "¢": " cent ",
    r"\degree": " degree ",
    "°": " degree ",
}
_FONT = r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|math(?:bf|it|rm|sf|tt|normal)|operatorname|[mfh]box)"
_LAYOUT = re.compile(r"\\(?:begin|end|(?:text)?color|phantom)\s*\{[^{}]*\}")
_WORDS_IN_FONT = re.compile(rf"{_FONT}\s*\{{([^{{}}]*)\}}")
_WORD = re.compile(r"(?<![\\A-Za-z_])[A-Za-z]{2,}(?![A-Za-z])")
_UNIT_LETTER = re.compile(r"(?<=[\d}])\s*(?:\\[,; ])?\s*([mshlLg])(?![A-Za-z])")
_LETTER = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])")
_JOINING = _set("a an and are at for is of or per such that the then to when where with answer units unit")
_CHANGING = _set(
    "not no never none half third quarter dozen hundred thousand million billion trillion minus negative plus "
    "squared cubed factorial percent mod"
)
"""Words that change a value: an answer must have exactly those of the gold answer."""

_DOTS = re.compile(r"\\(?:[lc]|d|v)?dots[bcimo]?(?![A-Za-z])|\.\.\.|…")
_SUBSCRIPT = re.compile(r"(?<![A-Za-z\d_])([\dA-F]*\d[\dA-F]*)\s*_\s*(?:\{\s*(?:\\text\{)?\s*(\w+)\s*\}?\s*\}|(\w))")
_MARKS = {
    "prime": re.compile(r"'|\\prime(?![A-Za-z])|′"),
    "not": re.compile(r"\\(?:l?neg|not)(?![A-Za-z])|¬"),
    "transposed": re.compile(r"\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?(?![A-Za-z])"),
    "remainder": re.compile(r"\\(?:p?mod|bmod|pod)(?![A-Za-z])"),
    "dots": _DOTS,
}
_ANGLE = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree|°")
_NAMES = frozenset("abckmnpqrstuvwxyz")
"""Letters of which two in a row are a product, so their order does not matter."""


def same_text(gold: str, answer: str) -> bool:
    """Check if two answers in LaTeX differ only by blanks, braces and fonts."""
    return _strip_layout(gold) == _strip_layout(answer)


def contradicts(gold: str, answer: str) -> bool:
    """Check if the marks of an answer differ in meaning from those of the gold answer, both in LaTeX."""
    return (
        _marks(gold) != _marks(answer)
        or _DOTS.search(gold) is not None
        or _other_case(gold, answer)
        or _other_words(gold, answer)
        or (_ANGLE.search(gold) is not None and bool(_DEGREES.search(gold)) != bool(_DEGREES.search(answer)))
    )


def units(text: str) -> frozenset[str]:
    """Return the units of length, time and the like in a text, by their full names."""
    return frozenset(_words(text)) & _KNOWN


def other_unit(answer: str, problem: str) -> bool:
    """Check if an answer is in a unit missing from its problem, although the problem names others of that kind."""
    named = units(problem)
    return any(unit in kind and named & kind and unit not in named for unit in units(answer) for kind in _KINDS)


_KINDS = (
    frozenset({"millimetre", "centimetre", "decimetre", "metre", "kilometre", "inch", "foot", "yard", "mile"}),
    frozenset({"second", "minute", "hour", "day", "week", "month", "year"}),
    frozenset({"millilitre", "litre"}),
    frozenset({"gram", "kilogram", "pound", "ounce", "ton"}),
    frozenset({"euro", "dollar", "pound", "cent"}),
    frozenset({"degree", "radian"}),
)
_KNOWN = frozenset().union(*_KINDS)


def _strip_layout(text: str) -> str:
    """Strip blanks, braces, and commands for size or font from a text."""
    plain = re.sub(rf"{_FONT}|\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]", "", text)
    return re.sub(r"[\s{}$~]", "", _DOTS.sub("...", plain))


def _marks(text: str) -> Counter[str]:
    """Count each mark in a text, and the base of each number with a base."""
    marks = Counter({name: len(pattern.findall(text)) for name, pattern in _MARKS.items()})
    marks.update(f"{digits} to base {base or short}" for digits, base, short in _SUBSCRIPT.findall(text))
    marks.update(word for word in _words(text) if word in _CHANGING)
    return +marks


def _other_case(gold: str, answer: str) -> bool:
    """Check if a letter that stands for a number is small in one text and a capital in the other."""
    left, right = (set(_LETTER.findall(_WORDS_IN_FONT.sub(" ", _LAYOUT.sub(" ", text)))) for text in (gold, answer))
    if len(_strip_layout(gold)) == 1:  # the name of a choice
        return False
    return bool({letter.swapcase() for letter in right - left} & (left - right))


def _other_words(gold: str, answer: str) -> bool:
    """Check if both texts have words, and different ones."""
    letters = _strip_layout(gold)
    if letters.isalpha() and len(letters) > 1:  # a word; the verifier would read it as a product
        reply_letters = _strip_layout(answer)
        product = len(letters) == 2 and set(letters) <= _NAMES and sorted(letters) == sorted(reply_letters)
        return not product and reply_letters.isalpha() and letters.casefold() != reply_letters.casefold()
    left, right = (Counter(word for word in _words(text) if word not in _JOINING) for text in (gold, answer))
    return bool(left and right) and left != right


def _words(text: str) -> list[str]:
    """Return the words of a text in small letters and in the singular; units by their full names."""
    for sign, name in _MARKS_SIGNS.items():
        text = text.replace(sign, name)
    text = _DEGREES.sub(" degree ", _LAYOUT.sub(" ", text))
    plain = _WORDS_IN_FONT.sub(lambda inner: f" {inner[1]} ", text)
    names = [UNITS.get(word, word) for word in _WORD.findall(plain) + _UNIT_LETTER.findall(plain)]
    return [_singular(word) for name in names for word in name.split()]


def _singular(word: str) -> str:
    small = word.lower()
    small = UNITS.get(small, small)
    if len(small) > 2 and small.endswith("s") and not small.endswith("ss"):
        small = UNITS.get(small[:-1], small[:-1] if len(small) > 3 else small)
    return re.sub(r"(met|lit)er$", r"\1re", small)
