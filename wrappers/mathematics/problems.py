"""Problems by task id: generated ones, or the rows of a user's files.

A file is JSON lines with `problem` and `answer`, and optionally `level`, `subject` or `type`, and `unique_id` (the
layout of MATH-500). `question` is accepted for `problem`, and an answer at the end of a solution, as in GSM8K and MATH.
Damaged rows are skipped and reported. A single file is the `test` split; a folder holds `train.jsonl`, `dev.jsonl`,
`test.jsonl` or some of them. `generator.py` generates problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from align_echo.base.plain_yaml import braced
from align_echo.errors import MissingDataError, UsageError
from align_echo.wrappers.mathematics import generator
from align_echo.wrappers.mathematics.generator import MathProblem, latex
from align_echo.wrappers.mathematics.spec import SPLITS
from align_echo.wrappers.vector import read_rows

LONGEST_ANSWER = 2_000
LONGEST_PROBLEM = 50_000
"""Longest problem of a file's row, in characters: observations end at twice as many."""

_DIVIDED_BY_ZERO = re.compile(
    r"\\[dtc]?frac\s*(?:\{[^{}]*\}|\w)\s*(?:\{\s*0+(?:\.0*)?\s*\}|0)|/\s*0+(?:\.0*)?(?![\d.])"
)


class _File(NamedTuple):
    """File of one split with its state when listed: a change causes a new read."""

    split: str
    path: Path
    modified_ns: int
    size: int


def problems(split: str, data_root: Path | None) -> Mapping[str, MathProblem]:
    """Return the problems of a split by task id, in a fixed order; generated ones without a `data_root`.

    Raises `MissingDataError` for a missing file, `UsageError` for a file without a problem.
    """
    if data_root is None:
        return generator.problems(split)
    by_split = _read(_files(data_root)).problems
    if split not in by_split:
        raise MissingDataError(f"{data_root} has no {split} problems: name a folder that holds {split}.jsonl")
    return by_split[split]


def task_ids(split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split in order, without generating any problem.

    Raises as `problems`.
    """
    return generator.task_ids(split) if data_root is None else list(problems(split, data_root))


def label(data_root: Path | None) -> str:
    """Describe the problems in one line. Raises as `problems`."""
    if data_root is None:
        return f"generated problems, generator {generator.VERSION}"
    read = _read(_files(data_root))
    without = [f"{read.repeated} left out that a later split has too"] if read.repeated else []
    return ", ".join([f"problems at {data_root.absolute()}", *without, *read.notes])


def _files(data_root: Path) -> tuple[_File, ...]:
    paths = {"test": data_root} if data_root.is_file() else {name: data_root / f"{name}.jsonl" for name in SPLITS}
    files = []
    for split, path in paths.items():
        if path.is_file():
            status = path.stat()
            files.append(_File(split, path, status.st_mtime_ns, status.st_size))
    if not files:
        names = ", ".join(f"{split}.jsonl" for split in SPLITS)
        raise MissingDataError(f"{data_root} is no file of problems and no folder that holds one of {names}")
    return tuple(files)


class _Splits(NamedTuple):
    """Problems by split and task id, the number of problems repeated in a later split, and notes on damaged rows."""

    problems: dict[str, dict[str, MathProblem]]
    repeated: int
    notes: tuple[str, ...]


@lru_cache(maxsize=4)
def _read(files: tuple[_File, ...]) -> _Splits:
    """Read the files of a data set. Drop problems repeated in a later split, so that no two splits share a text."""
    read = {file.split: _rows(file.path, file.split) for file in files}
    by_split = {split: rows for split, (rows, _) in read.items()}
    later_texts: set[str] = set()
    repeated = 0
    for split in reversed([file.split for file in files]):
        rows = by_split[split]
        texts = {task_id: " ".join(row.text.split()) for task_id, row in rows.items()}
        by_split[split] = {task_id: row for task_id, row in rows.items() if texts[task_id] not in later_texts}
        repeated += len(rows) - len(by_split[split])
        later_texts |= set(texts.values())
        if not by_split[split]:
            raise UsageError(f"{split}.jsonl holds no problem that a later split does not hold too")
    return _Splits(by_split, repeated, tuple(note for _, note in read.values() if note))


def _rows(path: Path, split: str) -> tuple[dict[str, MathProblem], str]:
    """Read the problems of a split's file by task id, in its order, and a note on damaged rows."""
    read = read_rows(path, lambda record, number, _: (number, _row(record, split, number)), "problems")
    rows: dict[str, MathProblem] = {}
    for number, row in read.rows:
        if row.task_id in rows:  # two rows with the same name are two problems
            row = replace(row, task_id=f"{row.task_id}-line-{number}")
        rows[row.task_id] = row
    return rows, read.note


def _row(record: Mapping[str, Any], split: str, number: int) -> MathProblem:
    """Parse a problem from one row. Raises `ValueError` for missing or too long values.

    Its task id is `<split>/<subject>/<level>/<unique_id>`, with defaults for missing parts.
    """
    text = _text(record, "problem" if "problem" in record else "question", LONGEST_PROBLEM)
    answer = _answer(record)
    subject = _slug(record.get("subject") or record.get("type") or "problem", "").lower()
    level = re.search(r"\d+", str(record.get("level", "")))
    name = _slug(record.get("unique_id") or f"line-{number}", "._/-")
    level_text = level[0] if level else "any"
    return MathProblem(f"{split}/{subject}/{level_text}/{name}", text, answer, subject, level_text, worked_out=False)


def _answer(record: Mapping[str, Any]) -> str:
    """Return a row's own answer: from a solution the content of its last box, or the text after GSM8K's `####`.

    Raises `ValueError` if no reply could match it.
    """
    value = record.get("answer")
    if isinstance(value, list) and len(value) == 1:
        record = {**record, "answer": value[0]}
    elif value is None and "solution" in record:
        boxes = braced(_text(record, "solution", LONGEST_PROBLEM), r"\boxed")
        record = {**record, "answer": boxes[-1] if boxes else None}
    longest = LONGEST_PROBLEM if "####" in str(record.get("answer")) else LONGEST_ANSWER
    answer = _text(record, "answer", longest).rpartition("####")[2].strip()
    if not answer or _DIVIDED_BY_ZERO.search(answer):
        raise ValueError(f"its 'answer' has no value: {answer[:40]!r}")
    return answer


def _text(record: Mapping[str, Any], key: str, longest: int) -> str:
    """Return a row's text. An answer may be a number as well."""
    value = record.get(key)
    if key == "answer" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it has no {key!r} that is a text")
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ValueError(f"its {key!r} holds half a character (a lone surrogate)")
    if len(value) > longest:
        raise ValueError(f"its {key!r} has {len(value)} characters, more than {longest}")
    return value.strip()


def _slug(value: object, signs: str) -> str:
    """Turn a name into a part of a task id: runs of signs other than letters, digits and `signs` become a hyphen."""
    slug = re.sub(rf"[^A-Za-z0-9{re.escape(signs)}]+", "-", str(value)).strip("-/")
    if not slug:
        raise ValueError(f"{str(value)[:40]!r} can be no part of a task id")
    return slug


# ---------------------------------------------------------------- solutions worked out

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
