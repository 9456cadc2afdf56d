"""Read JSON and YAML, possibly damaged by a user, a killed process or another program, without a traceback.

Also extracts braced arguments of commands in a text, which a model may have cut off. Not here: records of known fields
(`jsonl.py`, and pydantic's own parser, which limits nesting).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from align_echo.errors import UsageError
from align_echo.regular_files import read_bytes, read_lines


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
    from align_echo.plain_yaml import read_plain

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


def first_wrong(error: ValidationError) -> str:
    """Describe the first setting refused by pydantic, in clearer words if necessary."""
    wrong = error.errors()[0]
    ours = {"extra_forbidden": "there is no such setting", "too_short": "the list is empty: name at least one"}
    reason = ours.get(wrong["type"], wrong["msg"].removeprefix("Value error, "))
    if wrong["type"].endswith("_parsing"):
        reason = f"{reason.partition(',')[0]}, not {wrong['input']!r:.60}"
    return ": ".join(filter(None, (".".join(map(str, wrong["loc"])), reason)))


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
