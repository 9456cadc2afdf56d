"""Strict YAML: numbers mean what they look like and keys are unique; the rest of YAML 1.1 is refused or read as text.

PyYAML reads 1:2 as 62, 010 as 8 and 2024-01-01 as a date, takes the last of two equal keys, and fails on 0x_.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from align_echo.base.files import read_bytes, read_lines
from align_echo.errors import UsageError, first_line

CORE = "tag:yaml.org,2002:"
"""Prefix of YAML's own tags."""

PLAIN = {
    "int": re.compile(r"[-+]?(0|[1-9][0-9]{0,17})"),
    "float": re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", re.IGNORECASE),
    "bool": re.compile("yes|no|true|false|on|off", re.IGNORECASE),
}
"""Accepted spellings of values, by tag."""

WITHOUT_MEANING = ("timestamp", "value")
"""Tags read as text."""

KNOWN = (*PLAIN, "str", "null", "seq", "map", "merge")

LONGEST_SHOWN = 40
"""Maximum characters of a value in a message."""


def read_plain(text: str, source: str) -> Any:
    """Parse a YAML text. Raises `UsageError` in one line that begins with `source` and names the line."""
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        for line, problem in _problems(root):
            raise UsageError(f"{source}: line {line}: {problem}")
        return None if root is None else loader.construct_document(root)
    except yaml.constructor.ConstructorError as error:
        raise UsageError(f"{source}: {_where_and_why(error)}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is no YAML: {_where_and_why(error)}") from None
    except RecursionError:
        raise UsageError(f"{source} is nested too deeply") from None
    finally:
        loader.dispose()


def _where_and_why(error: yaml.YAMLError) -> str:
    """Describe PyYAML's error: line, cause, and context, with the context's line if different."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return first_line(error)
    line, start = error.problem_mark.line, error.context_mark
    since = f" of line {start.line + 1}" if start is not None and start.line != line else ""
    return f"line {line + 1}: {error.problem}" + (f" ({error.context}{since})" if error.context else "")


def _problems(root: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Yield lines of a document with their problems. Values with meaningless tags become text."""
    ahead, seen = [root] if root is not None else [], set()
    while ahead:
        node = ahead.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        problem = _problem(node)
        if problem:
            yield node.start_mark.line + 1, problem
        if isinstance(node, yaml.MappingNode):
            yield from _twice(node)
            ahead += [part for pair in reversed(node.value) for part in reversed(pair)]
        elif isinstance(node, yaml.SequenceNode):
            ahead += reversed(node.value)


def _problem(node: yaml.Node) -> str:
    """Describe the problem of a node itself; "" if there is none."""
    kind = node.tag.removeprefix(CORE)
    if kind in WITHOUT_MEANING and isinstance(node, yaml.ScalarNode):
        node.tag = f"{CORE}str"
        return ""
    if kind not in KNOWN:
        return f"the tag {node.tag!r} is of no use here: leave it out"
    if kind not in PLAIN or not isinstance(node, yaml.ScalarNode) or PLAIN[kind].fullmatch(node.value):
        return ""
    quoted_value = node.value if len(node.value) <= LONGEST_SHOWN else f"{node.value[:LONGEST_SHOWN]}..."
    ways = "true or false" if kind == "bool" else "a number in plain digits, 18 at most"
    return f"{quoted_value!r} can be misread: write {ways}, or put it in quotes if it is a text"


def _twice(node: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    """Yield the lines of repeated keys of a mapping."""
    seen: Counter[str] = Counter()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            seen[key.value] += 1
            if seen[key.value] == 2:
                yield key.start_mark.line + 1, f"the key {key.value!r} is there twice: write it once"


# ---------------------------------------------------------------- reading


def parse_json(text: str) -> Any:
    """Parse JSON. Raises `ValueError`, also for excessive nesting."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def json_object(file: Path, *, folder: Path | None = None) -> dict[str, Any] | None:
    """Read the object in a file; None if it is unreadable or holds something else.

    With `folder`, raises `UsageError` and `OSError` as `read_bytes` does.
    """
    try:
        parsed = parse_json(read_bytes(file, folder=folder).decode())
    except (OSError, UsageError):
        if folder is None:
            return None
        raise
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSONL file; an unfinished last line is ignored, and a missing file is empty.

    Raises `UsageError` naming a damaged line.
    """
    if not file.is_file():
        return []
    objects = []
    for number, line in enumerate(read_lines(file), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            record = parse_json(line.decode())
        except ValueError as error:
            raise UsageError(f"{file} line {number} is damaged: {error}") from error
        if not isinstance(record, dict):
            raise UsageError(f"{file} line {number} is damaged: it holds no names and values")
        objects.append(record)
    return objects


def yaml_mapping(text: str, source: str) -> dict[str, Any]:
    """Parse a YAML mapping. Raises `UsageError` in one line that begins with `source`."""

    settings = read_plain(text, source)
    if not isinstance(settings, dict):
        raise UsageError(f"{source} must hold names and values")
    return {str(name): value for name, value in settings.items()}


def in_yaml(value: object) -> str:
    """Write a value in YAML, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {in_yaml(part)}' for key, part in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_yaml, value))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = str(value)
    return text if text.isprintable() and text else repr(text)


REASONS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such setting",
    "too_short": "the list is empty: name at least one",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must hold names and values",
    "mapping_type": "must hold names and values",
    "model_type": "must hold names and values",
    "model_attributes_type": "must hold names and values",
    "none_required": "must be left out",
}
"""Reasons of pydantic in our words, by its type of error; the values in braces are of the error's context."""


def first_wrong(error: ValidationError, *, unnamed: Collection[object] = (), of_settings: bool = False) -> str:
    """Describe the first value that pydantic refused.

    Parts of a value's place that are `unnamed` are left out. With a missing setting, name an unknown setting too: it
    may be a misspelling.
    """
    errors = error.errors(include_url=False)
    unknown = [wrong for wrong in errors[1:] if wrong["type"] == "extra_forbidden"]
    is_misspelt = of_settings and errors[0]["type"] == "missing"
    reported = errors[:1] + (unknown[:1] if is_misspelt else [])
    paths = [".".join(str(part) for part in wrong["loc"] if part not in unnamed) for wrong in reported]
    return "; ".join(
        ": ".join(filter(None, (path, _reason(wrong)))) for path, wrong in zip(paths, reported, strict=True)
    )


def _reason(wrong: ErrorDetails) -> str:
    """Return why a value was refused, and the value if it is a short one."""
    context, value = wrong.get("ctx", {}), wrong["input"]
    reason = wrong["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").partition("\n")[0]
    if wrong["type"] in REASONS:
        reason = REASONS[wrong["type"]].format(**context)
    elif wrong["type"] in ("literal_error", "enum"):
        reason = f"must be {context['expected'].replace(chr(39), '')}"
    elif reason.startswith("Input should "):
        reason = f"must {reason.removeprefix('Input should ')}"
    short = isinstance(value, str | int | float) and len(repr(value)) <= LONGEST_SHOWN
    if short and wrong["type"].startswith(("greater", "less")):
        return f"{reason}, not {value}"
    return f"{reason}, not {value!r}" if short and reason.startswith("must ") else reason


def braced(text: str, command: str) -> list[str]:
    r"""Extract the outermost braced arguments after each `command` (such as `\boxed`) of a text, in order.

    Inner braces are included, escaped ones do not count, and a command whose braces never close is skipped.
    """
    spans: list[tuple[int, int]] = []
    open_braces: list[tuple[int, bool]] = []
    for sign in re.finditer(rf"{re.escape(command)}{{|\\.|[{{}}]", text, re.DOTALL):
        if sign[0].endswith("{") and sign[0] != r"\{":
            open_braces.append((sign.end(), sign[0] != "{"))
        elif sign[0] == "}" and open_braces:
            begin, of_command = open_braces.pop()
            if of_command:
                while spans and spans[-1][0] > begin:
                    spans.pop()
                spans.append((begin, sign.start()))
    return [text[begin:end] for begin, end in spans]
