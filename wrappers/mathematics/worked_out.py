r"""Extract a worked-out number from an answer to a generated problem. It is all that math-verify gets.

math-verify takes 2+3 for 5, so copying the question would be right, and it never finishes some powers. Text before a
last equals sign is ignored, unless it is an equation of the problem itself or makes several claims. Units, fonts and
rounded values behind \approx are ignored. `checking.py` decides which number is right.
"""

from __future__ import annotations

import re
from fractions import Fraction

from align_echo.wrappers.mathematics.generator import latex

_FONT = (
    r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|math(?:bf|it|rm|sf|tt|normal)|boldsymbol|bm|bf|rm|it|emph|operatorname|"
    r"underline|[mfh]box|displaystyle|left|right|(?:text)?color\s*\{[a-z]*\}|therefore|q?quad)(?![A-Za-z])"
)
_WORDS = re.compile(rf"{_FONT}\s*\{{([^{{}}\\\d%]*[A-Za-z][^{{}}\\\d%]*)\}}")
_RELATION = re.compile(r"=|≈|\\(?:implies|(?:R|r|Longr)ightarrow|to)(?![A-Za-z])")
_SEVERAL = re.compile(
    r"[,;<>±]|(?<![\d)}\s])\s*!\s*$|\\(?:neq?|not|[lg]eq?|lt|gt|pm|mp|lor|vee|land|wedge)(?![A-Za-z])|\b(?:or|and)\b"
)

_WHOLE = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
_PART = rf"[-+]?\s*(?:{_WHOLE})"
_OVER = rf"(?:\{{\s*({_PART})\s*\}}|(\d))\s*"
_FRACTION = re.compile(rf"({_WHOLE})?\s*\\(?:[dtc]|nice|s)?frac\s*{_OVER}{_OVER}")
_QUOTIENT = re.compile(rf"[({{]?\s*({_PART})\s*[)}}]?\s*(?:[/:]|\\over)\s*[({{]?\s*({_PART})\s*[)}}]?")
_DECIMAL = re.compile(rf"(?:{_WHOLE})(?:\.\d*)?|\.\d+")

_PERCENT = re.compile(r"[\s{(]*(?:\\?%|per ?cent(?:age)?\b|pct\b)")
_VALUE_WORDS = re.compile(
    r"\b(?:hundred|thousand|[mb]illion|dozen|hal(?:f|ves)|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|"
    r"hundredth|thousandth|squared|cubed|factorial|percent|percentage|pct|plus|minus|or|and|not|[abcpqrxyz]{3})s?\b",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"(?:(?<![A-Za-z\\])(?:[cdkm]?m[23]?|hr?|s|sq|m?l|L|k?g|[A-Za-z]{3,})(?![A-Za-z\d])|€|£|\\(?:text)?euro|\\degree|°|"
    r"\^\s*\{?\s*\\circ\s*\}?)(?:\s*\}?\^\s*(?:\d|\{\s*-?\d\s*\}))?"
)
_BETWEEN_UNITS = re.compile(r"(?:[\s/.(){}\[\]$]|\\cdot|\\[dt]?frac)*")
_CURRENCY = r"(?:\\?\$|€|£|EUR\b|\\(?:text)?euro\b|[{}\s])+(?=[-+\d.(\\])"


def extract_number(answer: str, problem: str) -> str | None:
    """Return the number of an answer, in LaTeX. None if no number stands alone, or if the answer is an equation from
    the problem's text."""
    plain = _plain(answer)
    if _is_problem_equation(plain, problem):
        return None
    before, rounds, _ = plain.partition("≈")
    if rounds and (exact := extract_number(before, problem)):
        return exact
    *left, right = _RELATION.split(plain)
    if any(_SEVERAL.search(_outside_brackets(side)) for side in left):
        return None
    return _number(right)


def _plain(answer: str) -> str:
    """Strip LaTeX fonts and blanks from an answer; words within a font are no value and count as a unit."""
    plain = answer.replace(r"\approx", "≈").replace("{,}", ",")
    plain = re.sub(r"\\!|['\"]", "", plain)
    plain = re.sub(r"\\[,;: ]|~", " ", plain)
    plain = _WORDS.sub(lambda words: f" {words[1]} " if _VALUE_WORDS.search(words[1]) else " unit ", plain)
    plain = re.sub(_FONT, " ", plain)
    while (shorter := re.sub(r"\{\s*\{([^{}]*)\}\s*\}", r"{\1}", plain)) != plain:
        plain = shorter
    return plain


def _is_problem_equation(plain: str, problem: str) -> bool:
    """Check if this is an equation of the problem, other than the value of a single name."""
    blankless = "".join(plain.split()).strip("$")
    stated = {"".join(formula.split()) for formula in re.findall(r"\$([^$]*)\$", problem)}
    return blankless in stated and re.match(r"[A-Za-z](?:_\w|_\{\w+\})?=", blankless) is None


def _outside_brackets(text: str) -> str:
    """Remove the content of brackets and the commas of large numbers from a text."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    while (shorter := re.sub(r"[(\[{][^()\[\]{}]*[)\]}]", "()", text.replace("()", ""))) != text:
        text = shorter
    return text


def _number(text: str) -> str | None:
    """Return the number that makes up a text, apart from its sign, its unit and brackets around it."""
    sign = ""
    while text := re.sub(rf"^{_CURRENCY}", "", text.strip()):
        for form in (_fraction, _decimal):
            if (number := form(text)) is not None:
                return f"{sign}{number}".replace("--", "")
        if text[0] in "+-":
            sign = sign if text[0] == "+" else "" if sign else "-"
            text = text[1:]
        elif text[0] in "({[" and text[-1] in ")}]":
            text = text[1:-1]
        else:
            return None
    return None


def _fraction(text: str) -> str | None:
    """Parse a fraction or mixed number that is not a whole number, in lowest terms."""
    if match := _FRACTION.match(text):
        integer = int((match[1] or "0").replace(",", ""))
        above, below = (_whole(part) for part in (match[2] or match[3], match[4] or match[5]))
        if match[1] and min(above, below) < 0:
            return None
    elif match := _QUOTIENT.match(text):
        integer, above, below = 0, _whole(match[1]), _whole(match[2])
    else:
        return None
    value = integer + Fraction(above, below) if below else Fraction(1)
    return None if value.denominator == 1 else _with_percent(latex(value), text[match.end() :])


def _decimal(text: str) -> str | None:
    """Parse a whole number, or a number with a decimal point."""
    match = _DECIMAL.match(text)
    if match is None:
        return None
    digits = match[0].replace(",", "").removesuffix(".")
    return _with_percent(f"0{digits}" if digits[0] == "." else digits, text[match.end() :])


def _whole(text: str) -> int:
    return int(re.sub(r"[\s,]", "", text))


def _with_percent(number: str, rest: str) -> str | None:
    """Return the number, in percent if the rest of its text says so; None if the rest is more than a unit."""
    percent = _PERCENT.match(rest)
    rest = rest[percent.end() :] if percent else rest
    if _VALUE_WORDS.search(rest) or not _BETWEEN_UNITS.fullmatch(_UNIT.sub("", rest)):
        return None
    return rf"{number}\%" if percent else number
