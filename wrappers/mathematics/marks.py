r"""Marks of an answer that math-verify ignores, although they change its meaning.

math-verify reads `16_7` as 16, `5 m` as 5, `f'(x)` as f(x), `on` as the product n o, `2X` as 2x, and `1, 3, \ldots`
without its dots. None of these may earn a reward, so an answer is wrong if its marks differ from the gold answer's,
whatever its value. A unit may be left out, and so may words around a value. The value itself is checked in
`checking.py`.
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
"""Short and irregular names of units. Other names lose their plural's s, and `meter` is read as `metre`."""


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
