"""Process third-party files within limits and report the outcome; run by `engine.py`.

Renders chat templates and tries tokenizers. A tokenizer file can contain numbers that fill memory, replacements that
grow, and patterns with exponential matching time, in native code that cannot be interrupted. CPU time and memory are
limits of the process itself, so no single operation escapes them. This file is run by its path and imports nothing of
the package.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

LONGEST_TEXT = 1_000_000
"""Maximum characters of a rendered chat of marks, beside its messages' own."""

GROWTH = 100
"""Maximum growth of one character through all replacements of a tokenizer, or of messages through a template."""

IDS_A_TOKEN = 4
IDS_BEYOND = 100_000
LONGEST_TOKEN = 10_000

_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""Part of a pattern: an escaped character, a character set, or a character."""

_ENDLESS = re.compile(r"[*+]|\{\d*,\}")

Answer = dict[str, Any]


def main() -> None:
    """Read limits from the arguments, and answer requests on standard input with lines of JSON.

    With "render" as third argument every line is a conversation for a template, with the time limit for each. Otherwise
    the input is one request to try a tokenizer.
    """
    seconds, memory = int(sys.argv[1]), int(sys.argv[2])
    if sys.argv[3:] == ["render"]:
        answers = render(**json.loads(sys.stdin.readline()), requests=_bounded_lines(seconds, memory))
    else:
        _limit(seconds, memory)
        answers = encode(**json.load(sys.stdin))
    for answer in answers:
        print(json.dumps(answer), flush=True)


def _bounded_lines(seconds: int, memory: int) -> Iterator[Any]:
    """Yield the requests of standard input, with a new limit of CPU time at each."""
    for line in sys.stdin:
        _limit(int(time.process_time()) + seconds, memory)
        yield json.loads(line)


def _limit(seconds: int, memory: int) -> None:
    """Set limits if the system supports them. Beyond the first, the process is ended."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (OSError, ValueError):
        return  # macOS has the limit but refuses to set it


# ---------------------------------------------------------------- chat templates


def render(template: str, variables: Mapping[str, Any], requests: Iterable[Mapping[str, Any]]) -> Iterator[Answer]:
    """Render each chat, with the header of the next reply if asked, or report its error. Stop beyond the limits."""
    compiled = None

    def rendered(**values: Any) -> str:
        nonlocal compiled
        compiled = compiled or template_environment().from_string(template)
        return str(compiled.render(**values))

    for request in requests:
        answer = render_chat(rendered, variables, request)
        yield answer
        if "spent" in answer:
            return


def render_chat(rendered: Callable[..., str], variables: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Render a chat, with the header of the next reply if asked. Return its text, its error, or which limit it met."""
    try:
        text = rendered(
            messages=request["chat"], documents=None, add_generation_prompt=request["header"],
            **{"tools": request.get("tools"), **variables},
        )  # fmt: skip
    except MemoryError:
        return {"spent": "needs too much memory"}
    except RecursionError:
        return {"spent": "nests too deeply"}
    except Exception as error:  # templates may raise anything
        return {"error": " ".join(f"{error or type(error).__name__}".split())[:300]}
    if len(text) > LONGEST_TEXT + GROWTH * sum(len(message["content"]) for message in request["chat"]):
        return {"spent": f"writes {len(text):,} characters"}
    return {"text": text}


def template_environment(*, sandboxed: bool = True) -> Any:
    """Return the environment in which `transformers` renders chat templates; for plain ones it needs no sandbox."""
    from jinja2 import Environment, nodes, pass_eval_context
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class GenerationBlock(Extension):
        """The block `generation`, which marks a reply and writes its content."""

        tags = {"generation"}  # noqa: RUF012 (as the class above it)

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

        @pass_eval_context
        def _written(self, context: Any, caller: Callable[[], str]) -> str:
            return caller()

    class PlainDict:
        """`dict` without class attributes."""

        def __call__(self, *values: Any, **items: Any) -> dict[Any, Any]:
            return dict(*values, **items)

        def fromkeys(self, *values: Any) -> dict[Any, Any]:
            return dict.fromkeys(*values)

    class PlainNamespace(Namespace):
        """`namespace` without names that begin with an underscore."""

        def __init__(*arguments: Any, **items: Any) -> None:
            own, *values = arguments
            names = dict(*values, **items)
            for name in names:
                _check_name(name)
            Namespace.__init__(own, names)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            super().__setitem__(name, value)

    def _check_name(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a namespace takes no name like {name!r}")

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def as_json(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    kind = ImmutableSandboxedEnvironment if sandboxed else Environment
    environment = kind(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": PlainDict(),
        "namespace": PlainNamespace,
    }
    return environment


# ---------------------------------------------------------------- tokenizers


def encode(file: str, texts: Sequence[str]) -> Iterator[Answer]:
    """Count each text's tokens and their decoded characters, or report why the tokenizer is unreadable."""
    from tokenizers import Tokenizer

    try:
        with open(file, encoding="utf-8") as stream:
            content = stream.read()
        _check_tokenizer(json.loads(content))
        tokenizer = Tokenizer.from_str(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except BaseException as error:  # a panic in the library is not an `Exception`
        yield {"error": " ".join(str(error).split())[:300]}
        return
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield {"tokens": len(ids), "characters": len(tokenizer.decode(ids, skip_special_tokens=False))}


def _check_tokenizer(content: Any) -> None:
    """Refuse faults that short texts may not reveal. Raises `ValueError`."""
    parts = list(_objects(content))
    growth = math.prod(
        max(1, len(part["content"]))
        for part in parts
        if part.get("type") == "Replace" and isinstance(part.get("content"), str)
    )
    if growth > GROWTH:
        raise ValueError(f"what it replaces may grow {growth:,} times")
    for part in parts:
        if isinstance(part.get("Regex"), str) and repeats_repetition(part["Regex"]):
            raise ValueError(f"the pattern {part['Regex'][:60]!r} repeats a repetition, which may match for ever")
    vocabulary = content["model"].get("vocab")
    words = vocabulary if isinstance(vocabulary, dict) else {}
    numbers = {**words, **{token["content"]: token["id"] for token in content.get("added_tokens", ())}}
    if any(number > IDS_A_TOKEN * len(numbers) + IDS_BEYOND for number in numbers.values()):
        raise ValueError(f"it numbers {len(numbers):,} tokens up to {max(numbers.values()):,}")
    if any(len(token) > LONGEST_TOKEN for token in numbers):
        raise ValueError(f"it has tokens of more than {LONGEST_TOKEN:,} characters")


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a tokenizer's file, except its vocabulary."""
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += [value for key, value in part.items() if key not in ("vocab", "merges", "added_tokens")]
        elif isinstance(part, list):
            waiting += part


def repeats_repetition(pattern: str) -> bool:
    """Detect a nested unbounded repetition, as in `(a+)+`.

    Matching forty characters against one can take practically forever. No published tokenizer has one.
    """
    open_groups = [False]  # per open group: True if it contains an unbounded repetition
    for part in _PART.finditer(pattern):
        symbol = part[0]
        endless = _ENDLESS.match(pattern, part.end()) is not None
        if symbol == "(":
            open_groups.append(False)
        elif symbol == ")" and len(open_groups) > 1:
            inner = open_groups.pop()
            if inner and endless:
                return True
            open_groups[-1] |= inner or endless
        elif symbol not in "*+?":
            open_groups[-1] |= endless
    return False


if __name__ == "__main__":
    main()
