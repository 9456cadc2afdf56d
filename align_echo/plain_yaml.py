"""YAML whose numbers are what they look like and whose keys are there once; the rest of YAML 1.1 is refused or text.

PyYAML reads 1:2 as 62, 010 as 8 and 2024-01-01 as a date, takes the last of two equal keys, and breaks on 0x_.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

from align_echo.errors import UsageError, first_line

CORE = "tag:yaml.org,2002:"
"""What stands before the name of every tag of YAML's own."""

PLAIN = {
    "int": re.compile(r"[-+]?(0|[1-9][0-9]{0,17})"),
    "float": re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", re.IGNORECASE),
    "bool": re.compile("yes|no|true|false|on|off", re.IGNORECASE),
}
"""How a value of a tag may be written."""

WITHOUT_MEANING = ("timestamp", "value")
"""Tags of what is read as text."""

KNOWN = (*PLAIN, "str", "null", "seq", "map", "merge")

LONGEST_SHOWN = 40
"""Characters of a value in a message."""


def read_plain(text: str, source: str) -> Any:
    """What a YAML text holds. Raises `UsageError` in one line that begins with `source` and names the line."""
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
    """The line of what PyYAML refuses, the cause, and what it was reading, with its line where that is another."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return first_line(error)
    line, begun = error.problem_mark.line, error.context_mark
    since = f" of line {begun.line + 1}" if begun is not None and begun.line != line else ""
    return f"line {line + 1}: {error.problem}" + (f" ({error.context}{since})" if error.context else "")


def _problems(root: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Lines of a document with what is wrong there. What has a tag of no meaning for settings becomes text."""
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
    """What is wrong with a node by itself; "" if nothing is."""
    kind = node.tag.removeprefix(CORE)
    if kind in WITHOUT_MEANING and isinstance(node, yaml.ScalarNode):
        node.tag = f"{CORE}str"
        return ""
    if kind not in KNOWN:
        return f"the tag {node.tag!r} is of no use here: leave it out"
    if kind not in PLAIN or not isinstance(node, yaml.ScalarNode) or PLAIN[kind].fullmatch(node.value):
        return ""
    shown = node.value if len(node.value) <= LONGEST_SHOWN else f"{node.value[:LONGEST_SHOWN]}..."
    ways = "true or false" if kind == "bool" else "a number in plain digits, 18 at most"
    return f"{shown!r} can be misread: write {ways}, or put it in quotes if it is a text"


def _twice(node: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    """The lines of keys that a mapping has already."""
    seen: Counter[str] = Counter()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            seen[key.value] += 1
            if seen[key.value] == 2:
                yield key.start_mark.line + 1, f"the key {key.value!r} is there twice: write it once"
