r"""Marks of an answer that math-verify leaves out, although they change what the answer says.

It reads `16_7` as 16, `5 m` as 5, `f'(x)` as f(x), `on` as the product n o, `2X` as 2x, and `1, 3, \ldots` without its
dots. A reward must not be had by them, so an answer whose marks are not those of the task's own answer is wrong,
whatever its value. A unit may be left out, and so may words around a value. Left out: the value (`checking.py`).
"""

from __future__ import annotations

import re
from collections import Counter

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
"""Short and odd names of units. Other names lose their plural's s, and `meter` is read as `metre`."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SIGNS = {r"\$": " dollar ", "€": " euro ", "£": " pound ", "¢": " cent ", r"\degree": " degree ", "°": " degree "}
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
"""Words that change a value: an answer has those of the task's own answer, and no others."""

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
"""Letters of which two stand for a product, so that their order does not matter."""


def same_text(gold: str, answer: str) -> bool:
    """Return whether two answers in LaTeX differ by their blanks, braces and fonts alone."""
    return _written(gold) == _written(answer)


def contradicts(gold: str, answer: str) -> bool:
    """Return whether the marks of an answer say something else than those of the task's own answer, both in LaTeX."""
    return (
        _marks(gold) != _marks(answer)
        or _DOTS.search(gold) is not None
        or _other_case(gold, answer)
        or _other_words(gold, answer)
        or (_ANGLE.search(gold) is not None and bool(_DEGREES.search(gold)) != bool(_DEGREES.search(answer)))
    )


def units(text: str) -> frozenset[str]:
    """Return the units of length, time and the like that a text names, by their whole names."""
    return frozenset(_words(text)) & _KNOWN


def other_unit(answer: str, problem: str) -> bool:
    """Return whether an answer is in a unit that its problem does not name, though it names others of that kind."""
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


def _written(text: str) -> str:
    """A text without blanks and braces, and without the words that only set its size or font."""
    plain = re.sub(rf"{_FONT}|\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]", "", text)
    return re.sub(r"[\s{}$~]", "", _DOTS.sub("...", plain))


def _marks(text: str) -> Counter[str]:
    """How often each mark stands in a text, and the base of each number that has one."""
    marks = Counter({name: len(pattern.findall(text)) for name, pattern in _MARKS.items()})
    marks.update(f"{digits} to base {base or short}" for digits, base, short in _SUBSCRIPT.findall(text))
    marks.update(word for word in _words(text) if word in _CHANGING)
    return +marks


def _other_case(gold: str, answer: str) -> bool:
    """Whether a letter that stands for a number is small in one text and a capital in the other."""
    left, right = (set(_LETTER.findall(_WORDS_IN_FONT.sub(" ", _LAYOUT.sub(" ", text)))) for text in (gold, answer))
    if len(_written(gold)) == 1:  # the name of a choice
        return False
    return bool({letter.swapcase() for letter in right - left} & (left - right))


def _other_words(gold: str, answer: str) -> bool:
    """Whether both texts have words, and not the same."""
    letters = _written(gold)
    if letters.isalpha() and len(letters) > 1:  # a word, of which the verifier would make a product
        given = _written(answer)
        product = len(letters) == 2 and set(letters) <= _NAMES and sorted(letters) == sorted(given)
        return not product and given.isalpha() and letters.casefold() != given.casefold()
    left, right = (Counter(word for word in _words(text) if word not in _JOINING) for text in (gold, answer))
    return bool(left and right) and left != right


def _words(text: str) -> list[str]:
    """The words of a text in small letters and in the singular; units by their whole names."""
    for sign, name in _SIGNS.items():
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
