"""Interface code means in the sandbox what it means in Python, and errors point at the author's lines."""

from __future__ import annotations

import ast
import difflib
import re
import string
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.errors import InterfaceError
from align_echo.interface.sandbox.constructs import STOOD_IN
from align_echo.interface.sandbox.session import EngineReply, Sandbox, SandboxSession
from align_echo.interface.sandbox.source import prepare
from tests.play import source
from tests.room_env import CONTRACT


def opened(text: str) -> SandboxSession:
    def answer(action: str) -> EngineReply:
        return EngineReply(f"did {action}", 0.0, False, False, 0.0)

    return Sandbox().open(prepare(text, CONTRACT), CONTRACT, "a kitchen", "find a mug", answer)


# ---------------------------------------------------------------- means the same as in Python

SNIPPETS = {
    "attributes on functions": """
        if not hasattr(WrapStep, "seen"):
            WrapStep.seen = []
        WrapStep.seen.append(agent_action)
        def inner():
            inner.calls = getattr(inner, "calls", 0) + 1
            return inner.calls
        inner()
        return f"{len(WrapStep.seen)} {inner()} {WrapStep.__name__}", False, False
    """,
    "attributes in f-strings": 'WrapStep.n = 3\nreturn f"{WrapStep.n:>4} {helper.total}", False, False',
    "del of items": """
        d, l = {"a": 1, "b": 2}, [1, 2, 3, 4]
        del d["a"], l[0]
        del l[1:]
        return f"{d} {l}", False, False
    """,
    "del of a name": "x = 1\ndel x\nx = 2\nreturn str(x), False, False",
    "del of a missing key": """
        try:
            del {}['a']
        except KeyError as error:
            return f'no {error}', False, False
    """,
    "static and class methods": "return f'{Tool.double(2)} {Tool(1).double(3)} {Tool.make().n}', False, False",
    "class of object": "return str(Plain().n), False, False",
    "next of a generator expression": """
        words = ["look", "go"]
        first = next((word for word in words if word.startswith("g")), None)
        none = next((word for word in words if word == "x"), "nothing")
        lazy = (word for word in words)
        return f"{first} {none} {next(lazy)} {next(lazy)}", False, False
    """,
    "generator expressions elsewhere": """
        words = ["b", "a"]
        pairs = dict((word, len(word)) for word in words)
        return f"{', '.join(w for w in sorted(w for w in words))} {sum(len(w) for w in words)} {pairs}", False, False
    """,
    "imports in any form": """
        import collections.abc, logging as log, re as regex
        from typing import (
            Dict,
            Optional as Maybe,
        )
        Alias = Dict[str, Maybe[int]]
        log.getLogger(__name__).setLevel(log.DEBUG)
        return str(bool(regex.match("a", "ab"))), False, False
    """,
    "typing at run time": """
        from typing import Any, Callable, List, NamedTuple, Tuple, Union, cast
        Result = Tuple[str, Union[bool, None]]
        Handler = Callable[[str], List[Any]]
        Point = NamedTuple("Point", [("x", int), ("y", int)])
        return f"{cast(int, 3)} {Point(1, 2).y}", False, False
    """,
    "re with a function": r"""
        import re
        up = re.sub(r"(\w+) (\d)", lambda m: f"{m.group(2)}-{m.group(1)}", "mug 1 and cup 2", count=1)
        return f"{up} {re.split(r', *', 'a, b,c', maxsplit=1)} {re.sub('A', 'x', 'aAa', flags=re.I)}", False, False
    """,
    "re of every kind": r"""
        import re
        pattern = re.compile(r"(?P<thing>[a-z]+) (?P<number>\d+)", re.IGNORECASE)
        found = [m.groupdict() for m in pattern.finditer("Mug 1, cup 22")]
        same = re.fullmatch(pattern, "mug 1") is not None and re.search("1$", "mug 1") is not None
        return f"{found} {same} {re.findall('[0-9]', 'a1b2')} {re.escape('a.b')}", False, False
    """,
    "collections": """
        from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
        od = OrderedDict()
        od["b"], od["a"] = 1, 2
        dd = defaultdict(list)
        dd["x"].append(1)
        return f"{list(od)} {dict(dd)} {Counter('aab').most_common(1)} {deque([1, 2, 3], maxlen=2)[0]}", False, False
    """,
    "functools": """
        import functools
        @functools.lru_cache(maxsize=None)
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        def loud(function):
            @functools.wraps(function)
            def call(*args):
                return function(*args) + "!"
            return call
        shout = loud(lambda text: text.upper())
        return f"{fib(30)} {shout('a')} {functools.reduce(lambda a, b: a + b, [1, 2])}", False, False
    """,
    "small modules": """
        import ast, copy, difflib, json, math, operator, string, textwrap
        data = copy.deepcopy(ast.literal_eval("{'a': [1, 2]}"))
        text = textwrap.dedent('''
            one
              two
        ''')
        near = difflib.get_close_matches("fridg 1", ["fridge 1", "desk 1", "bridge 12"])
        top = sorted([(1, "b"), (2, "a")], key=operator.itemgetter(1))[0]
        return f"{json.dumps(data)} {text!r} {near} {top} {math.floor(2.5)} {string.digits}", False, False
    """,
    "text buffer": """
        import io
        lines = io.StringIO()
        lines.write("one ")
        lines.write("two")
        before = lines.getvalue()
        lines.seek(0)
        lines.truncate()
        lines.write("three")
        lines.seek(1)
        return f"{before} {lines.getvalue()} {lines.read()}", False, False
    """,
    "callable and sentinels": """
        missing = object()
        value = {}.get("x", missing)
        return f"{value is missing} {callable(len)} {callable(WrapStep)} {callable(3)}", False, False
    """,
    "logging into a buffer": """
        import io, logging
        buffer = io.StringIO()
        log = logging.getLogger("means.the.same")
        log.propagate = False
        log.setLevel("INFO")
        handler = logging.StreamHandler(buffer)
        handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
        for old in log.handlers[:]:
            log.removeHandler(old)
        log.addHandler(handler)
        log.addFilter(lambda record: "secret" not in record.getMessage())
        log.debug("too low")
        log.info("%s is %d", "one", 1)
        log.warning("secret")
        log.log(logging.ERROR, "%(x)s", {"x": 3})
        child = log.getChild("child")
        logging.LoggerAdapter(child, {"n": 1}).critical("deep")
        handler.setFormatter(logging.Formatter("{levelno} {message}", style="{"))
        log.fatal("end")
        said = [log.name, log.level, log.hasHandlers(), len(log.handlers), log.propagate, log.disabled]
        said += [child.parent is log, child.getEffectiveLevel(), logging.getLogger("means.the.same") is log]
        said += [logging.getLevelName(30), logging.getLevelName("ERROR"), logging.getLogger().name]
        said += [handler.level, isinstance(log, logging.Logger), logging.getLogger("means").getChild("the").name]
        return f"{buffer.getvalue()}{said}", False, False
    """,
    "properties": """
        shape = Shape(3)
        shape.inner = Shape(shape.area)
        sizes = [each.area for each in (shape, shape.inner) if each.area > 1]
        text = f"{shape.inner.area} {shape.area:>4} {(shape).area!r}" if shape.area else ""
        more = (shape
            .inner).area + (shape.inner). area
        return f"{sizes} {text} {more} {Other().area} {hasattr(shape, 'area')} {max(shape.area, 1)}", False, False
    """,
    "the name of the module": """
        import logging
        return f"{__name__} {logging.getLogger(__name__).name} {MAIN} {WrapStep.__name__}", False, False
    """,
    "closures and state": """
        counts = {}
        def bump(name):
            nonlocal counts
            counts = {**counts, name: counts.get(name, 0) + 1}
            return counts[name]
        bump("a")
        return f"{bump('a')} {sorted(counts.items())} {[x * 2 for x in range(3)]}", False, False
    """,
    "exceptions": """
        try:
            try:
                int("x")
            except ValueError as error:
                raise RuntimeError(f"bad: {error}") from error
            finally:
                seen = "finally"
        except RuntimeError as error:
            return f"{type(error).__name__} {error} {seen}", False, False
    """,
    "exceptions of several values": """
        said = []
        for number in range(4):
            try:
                if number == 0:
                    raise ValueError("a", number)
                if number == 1:
                    raise RuntimeError(
                        number,
                    )
                if number == 2:
                    raise ValueError(*said, [1])
                raise RuntimeError(ValueError(f"{KeyError}"[:5], 2))
            except (ValueError, RuntimeError) as error:
                said.append(f"{type(error).__name__}: {error}")
        return " ".join(said), False, False
    """,
}
TOP = """
class Plain(object):
    n = 7

class Tool(object):
    def __init__(self, n):
        self.n = n

    @staticmethod
    def double(n):
        return 2 * n

    @classmethod
    def make(cls):
        return cls(5)

class Shape:
    def __init__(self, side):
        self.side = side
        self.inner = None

    @property
    def area(self):
        return self.side * self.side

class Other:
    area = 5

MAIN = "imported"
if __name__ == "__main__":
    MAIN = "a program"

def helper():
    return None
helper.total = 9
"""


@pytest.mark.parametrize("name", SNIPPETS)
def test_interface_code_means_what_it_means_in_python(name: str):
    text = source(SNIPPETS[name], top=TOP)
    python: dict[str, Any] = {"__name__": "interface"}
    exec(text, python)
    with_python = [python["WrapStep"](None, "", "", action, None) for action in ("look", "go")]
    session = opened(text)
    assert [tuple(session.wrap_step(action)) for action in ("look", "go")] == with_python


@pytest.fixture(scope="module")
def close_matches():
    body = "import ast, difflib\nreturn repr(difflib.get_close_matches(*ast.literal_eval(agent_action))), False, False"
    session = opened(source(body))
    yield session
    session.close()


@settings(max_examples=60, deadline=None)
@given(
    word=st.text("abc 1", max_size=8),
    possibilities=st.lists(st.text("abc 1", max_size=8), max_size=5),
    count=st.integers(1, 4),
    cutoff=st.sampled_from([0.0, 0.3, 0.6]),
)
def test_close_matches_are_those_of_difflib(close_matches, word, possibilities, count, cutoff):
    arguments = (word, possibilities, count, cutoff)
    assert close_matches.wrap_step(repr(arguments)).observation == repr(difflib.get_close_matches(*arguments))


@pytest.fixture(scope="module")
def dedent():
    session = opened(
        source("import ast, textwrap\nreturn textwrap.dedent(ast.literal_eval(agent_action)), False, False")
    )
    yield session
    session.close()


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "b c"])), max_size=5))
def test_dedent_is_pythons(dedent, lines):
    text = "\n".join(" " * margin + word for margin, word in lines)
    assert dedent.wrap_step(repr(text)).observation == textwrap.dedent(text)


def test_the_string_constants_are_pythons():
    names = ["ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "octdigits"]
    names += ["punctuation", "whitespace", "printable"]
    text = source(f"import string\nreturn repr([getattr(string, n) for n in {names}]), False, False")
    assert opened(text).wrap_step("look").observation == repr([getattr(string, name) for name in names])


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("code", "line", "what"),
    [
        ("def f():\n    yield 1", 2, "yield"),
        ("def f():\n    x = yield from []", 2, "yield from"),
        ("async def f():\n    async for x in y:\n        pass", 2, "async for"),
        ("async def f():\n    async with y:\n        pass", 2, "async with"),
        ("try:\n    pass\nexcept* ValueError:\n    pass", 1, "except*"),
        ("\nfrom math import *", 2, "from math import *"),
        ("x = [1]\ndel x.y", 2, "del"),
        ("class A(Exception):\n    pass", 1, "class A with a base class"),
        ("class A(metaclass=B):\n    pass", 1, "class A with a base class"),
        ("class A:\n    @f.setter\n    def f(self, value):\n        pass", 2, "@f.setter"),
        ("class A:\n    @cached_property\n    def f(self):\n        return 1", 2, "@cached_property"),
        ("class A:\n    class B:\n        pass", 2, "ClassDef"),
        ("class A:\n    if True:\n        x = 1", 2, "If"),
        ("class A:\n    a, b = 1, 2", 2, "several targets"),
    ],
)
def test_what_cannot_run_is_refused_with_line_construct_and_advice(code: str, line: int, what: str):
    with pytest.raises(InterfaceError) as caught:
        prepare(f"{code}\n{source().lstrip()}", CONTRACT)
    message = str(caught.value)
    assert message.startswith(f"line {line}: the sandbox cannot run ")
    assert what in message
    assert "; " in message


def test_only_what_the_interpreter_refuses_is_refused():
    """Each refused construct fails in the interpreter itself: a refusal that it outgrows can go."""
    import pydantic_monty

    refused = ["def f():\n    yield 1", "class A(Exception):\n    pass", "x = [1]\ndel x[0]", "from math import *"]
    refused += ["class A:\n    @property\n    def f(self):\n        return 1", "class A:\n    a, b = 1, 2"]
    with pydantic_monty.Monty() as pool, pool.checkout() as session:
        for code in refused:
            with pytest.raises(pydantic_monty.MontyError, match="support"):
                session.feed_run(code)


def test_every_documented_module_can_be_imported():
    page = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
    modules = re.findall(r"`([a-z_.0-9]+)`", page[page.index("Modules: ") : page.index("Refused, with")])
    names = [name for name in modules if name not in ("literal_eval", "get_close_matches", "StringIO")]
    assert set(STOOD_IN) <= set(names)
    opened(source("\n".join(f"import {name}" for name in names) + "\nreturn '', False, False")).wrap_step("look")


def test_every_stood_in_module_is_there():
    imports = "\n".join(f"import {name} as m{number}" for number, name in enumerate(STOOD_IN))
    opened(source(imports + "\nreturn '', False, False")).wrap_step("look")


def test_a_name_that_a_module_lacks_is_an_import_error():
    with pytest.raises(InterfaceError, match="cannot import name 'TemplateX' from 'string'"):
        opened(source("from string import TemplateX")).wrap_step("look")


# ---------------------------------------------------------------- lines

STATEMENTS = [
    "x = 1",
    "import logging",
    "from typing import (\n    List,\n    Dict,\n)",
    "import os, re",
    "values = [\n    1,\n    2,\n]",
    "del values",
    "table = {'a': 1}\ndel table[\n    'a'\n]",
    "text = '''one\ntwo'''",
    "first = next(\n    (n for n in [1]),\n    None,\n)",
    "class A(\n    object\n):\n    @staticmethod\n    def f(): return 1",
    "def helper():\n    helper.n = 1",
    "# a comment with ünïcode",
    "",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(STATEMENTS), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_line_that_was_not_rewritten_keeps_its_number(statements: list[str], newline: str):
    text = "\n".join([*statements, source("marker = 'here'\nreturn '', False, False").lstrip()])
    prepared = prepare(text.replace("\n", newline), CONTRACT)
    ast.parse(prepared.text)
    assert len(prepared.lines) == len(prepared.text.split("\n"))
    author, runs = text.split("\n"), prepared.text.split("\n")
    for number, line in enumerate(runs, start=1):
        if line in ("x = 1", "    marker = 'here'", "two'''", "    helper.n = 1"):
            assert author[prepared.author_line(number) - 1] == line


def test_an_error_names_the_authors_line_whatever_was_rewritten_above_it():
    body = """
        import logging
        from typing import (
            Dict,
            List,
        )
        WrapStep.count = 1
        values = [1, 2]
        del values[0]
        return values[
            7
        ], False, False
    """
    text = source(body, top=TOP)
    line = text[: text.index("values[\n")].count("\n") + 1
    with pytest.raises(InterfaceError, match=f"^line {line}: IndexError"):
        opened(text).wrap_step("look")


PLAIN = ["x = 1", "y = [n for n in (1, 2)]", "# note", "", "import os", "s = 'del x'"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PLAIN), max_size=8))
def test_source_that_needs_no_rewriting_is_left_as_it_is(statements: list[str]):
    text = "\n".join([*statements, source().lstrip()])
    assert prepare(text, CONTRACT).text == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_prepared_or_refused_in_one_line(text: str):
    for candidate in (text, f"{text}\n{source().lstrip()}"):
        assert "\n" not in refusal(candidate)


def refusal(text: str) -> str:
    """Why source cannot be prepared, "" if it can."""
    try:
        prepare(text, CONTRACT)
    except InterfaceError as error:
        return str(error)
    return ""
