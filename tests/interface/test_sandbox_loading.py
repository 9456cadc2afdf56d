"""What an interface lacks is found when it is loaded: in the sandbox, in one line with its own line number."""

from __future__ import annotations

import ast
import inspect
import io
import logging
from pathlib import Path

import pytest

import align_echo
from align_echo.errors import InterfaceError
from align_echo.interface.sandbox import loading
from align_echo.interface.sandbox.session import Sandbox
from align_echo.wrappers.catalogue import environment
from tests.interface.test_sandbox import opened
from tests.play import source
from tests.room_env import CONTRACT

RENAMED = CONTRACT.model_copy(update={"wrap_step_args": ("agent_action", "logger", "env")})


def problem(text: str, contract=CONTRACT) -> str:
    """Why source does not load; "" if it does."""
    try:
        Sandbox().check(text, contract)
    except InterfaceError as error:
        return str(error)
    return ""


def step(*lines: str, top: str = "") -> str:
    """Source with these lines at the beginning of `WrapStep`, which stands on line 5 without `top`."""
    return source("\n".join([*lines, "return env.step([agent_action])[0][0], False, False"]), top=top)


# ---------------------------------------------------------------- what is not there

ABSENT = {
    "a module": (step(top="import numpy"), "line 1: ModuleNotFoundError: No module named 'numpy'"),
    "a module in a function": (step("import numpy as np"), "line 6: ModuleNotFoundError: No module named 'numpy'"),
    "a name of a module": (step("from math import foo"), "line 6: ImportError: cannot import name 'foo' from 'math'"),
    "a name of a stand-in": (step("from string import Words"), "line 6: ImportError: cannot import name 'Words'"),
    "an attribute of the logger": (step("logger.shout()"), "line 6: AttributeError: logger has no attribute 'shout'"),
    "an attribute of a logger of its own": (
        step("LOG.shout('x')", top="import logging\nLOG = logging.getLogger('a').getChild('b')"),
        "line 7: AttributeError: LOG has no attribute 'shout'",
    ),
    "an attribute of a module": (step("r.foo", top="import re as r"), "line 6: AttributeError: r has no attribute"),
    "one of a module that a function imports": (
        step("import math", "math.foo(1)"),
        "line 7: AttributeError: math has no attribute 'foo'",
    ),
    "a method of the environment": (step("env.reset()"), "line 6: AttributeError: env has no attribute 'reset'"),
    "one in a helper": (
        step("helper(logger)", top="def helper(logger):\n    logger.shout()"),
        "line 2: AttributeError: logger has no attribute 'shout'",
    ),
    "a global name": (step("helper()"), "line 6: NameError: name 'helper' is not defined"),
    "a name in a function in a function": (
        step("def inner():", "    return [n + nowhere for n in (1, 2)]", "inner()"),
        "line 7: NameError: name 'nowhere' is not defined",
    ),
    "a name in a method": (
        step(top="class Tool:\n    def work(self):\n        return nowhere"),
        "line 3: NameError: name 'nowhere' is not defined",
    ),
    "a builtin that the interpreter lacks": (step("vars(env)"), "line 6: NameError: name 'vars' is not defined"),
    "a name that is only a method's neighbour": (
        step(top="class Tool:\n    size = 1\n    def work(self):\n        return size"),
        "line 4: NameError: name 'size' is not defined",
    ),
    "an argument's default": (step(top="def f(x=1 / 0):\n    pass"), "line 1: ZeroDivisionError: division by zero"),
    "a decorator": (step(top="@nowhere\ndef f():\n    pass"), "line 1: NameError: name 'nowhere' is not defined"),
    "a pattern": (step(top="import re\nP = re.compile('(')"), "line 2: re.PatternError"),
    "a function of the contract": (step() + "\nWrapStep = None\n", "TypeError: WrapStep is no function but NoneType"),
    "what it raises": (step(top="raise ValueError('a', 2)"), "line 1: ValueError: ('a', 2)"),
    "a file": (step(top="\nopen('/etc/passwd')"), "line 2: PermissionError"),
    "recursion": (step(top="def f():\n    return f()\nf()"), "line 2: RecursionError"),
    "memory": (step(top="x = [0] * 10 ** 9"), "line 1: the interface used too much memory"),
}


@pytest.mark.parametrize("case", ABSENT)
def test_what_is_not_there_is_named_with_its_line(case: str):
    text, expected = ABSENT[case]
    assert expected in problem(text)
    assert "\n" not in problem(text)
    if expected.startswith("line "):
        line, _, rest = expected.removeprefix("line ").partition(": ")
        assert problem("\n\n" + text).startswith(f"line {int(line) + 2}: {rest}")


PRESENT = {
    "what is asked for first": step("if hasattr(logger, 'shout'):", "    logger.shout()"),
    "what is set": step("env.seen = 1", "logger.seen = env.seen", "logger.seen"),
    "what is set by name": step("setattr(env, 'seen', 1)", "env.seen"),
    "what is tried": step("try:", "    import numpy", "    numpy.foo", "except Exception:", "    pass"),
    "a name that is tried": step("try:", "    nowhere", "except NameError:", "    pass"),
    "an attribute that is tried": step("try:", "    logger.shout()", "except (AttributeError, KeyError):", "    pass"),
    "a global that is set later": step("global count", "count = 1", "count"),
    "names of every kind": step(
        "(first, *rest), text = (1, 2), [word for word in 'ab']",
        "if (found := text):",
        "    pass",
        "match agent_action:",
        "    case {'x': value, **others}:",
        "        return value, others",
        "    case [one, *more] | (one, more):",
        "        return one, more",
        "    case other:",
        "        other",
        "try:",
        "    1 / 0",
        "except ZeroDivisionError as error:",
        "    str(error)",
        "size = lambda thing, *more, key=None, **options: (thing, more, key, options)",
        "def outer():",
        "    count = 0",
        "    def inner():",
        "        nonlocal count",
        "        count += 1",
        "        return count",
        "    return inner",
        "[first, rest, found, size, outer, len, sorted, ValueError]",
    ),
    "annotations": step("def f(x: Foo) -> Bar:", "    y: Baz = x", "    return y"),
    "a class of its own under the logger's name": step(
        "helper(Mine())",
        top="class Mine:\n    def shout(self):\n        pass\ndef helper(logger):\n    logger.shout()",
    ),
    "a program of its own": step(top="if __name__ == '__main__':\n    import unittest\n    unittest.main()"),
    "a module that may be absent": step(
        "np.array", top="try:\n    import numpy as np\nexcept ImportError:\n    np = None"
    ),
    "system calls that are tried": step(top="try:\n    X = open('/x')\nexcept Exception:\n    X = None"),
    "sleep": step(top="import time\ntime.sleep(1000)"),
    "a dataclass": step(
        "Seen().count", top="from dataclasses import dataclass\n@dataclass\nclass Seen:\n    count: int = 0"
    ),
}


@pytest.mark.parametrize("case", PRESENT)
def test_what_runs_is_not_refused(case: str):
    assert problem(PRESENT[case]) == ""


def test_arguments_are_known_by_their_place():
    text = "def InferRules(init_obs, task):\n    return ''\n"
    text += "def WrapStep(action, log, world):\n    {}\n    return '', 0, 0\n"
    assert problem(text.format("log.info(action)\n    world.step([action])"), RENAMED) == ""
    assert "world has no attribute 'info'" in problem(text.format("world.info(action)"), RENAMED)
    assert "log has no attribute 'step'" in problem(text.format("log.step(action)"), RENAMED)


def test_loading_takes_no_longer_and_no_more_than_it_may():
    with pytest.raises(InterfaceError, match="the interface took too long"):
        Sandbox(seconds=0.1).check(step(top="while True:\n    pass"), CONTRACT)
    assert "too much memory" in problem(step(top="x = []\nwhile True:\n    x.append('a' * 10_000)"))


def test_nothing_is_run_outside_of_the_sandbox(tmp_path):
    target = tmp_path / "written"
    reached = [
        f"open({str(target)!r}, 'w').write('x')",
        f"from pathlib import Path\nPath({str(target)!r}).write_text('x')",
        f"import os\nos.system('touch {target}')",
        f"import subprocess\nsubprocess.run(['touch', {str(target)!r}])",
    ]
    assert all(problem(step(top=top)) for top in reached)
    assert not target.exists()


def test_what_was_loaded_is_not_loaded_again(monkeypatch):
    runs: list[str] = []
    run = loading._run

    def counting(program: str, seconds: float, memory: int) -> tuple[int, str]:
        runs.append(program)
        return run(program, seconds, memory)

    monkeypatch.setattr(loading, "_run", counting)
    text = step("logger.info('a text of this test alone')")
    assert [problem(text) for _ in range(3)] == ["", "", ""]
    assert len(runs) == 1


# ---------------------------------------------------------------- where it is found


@pytest.fixture
def broken(tmp_path) -> Path:
    """An interface for ALFWorld that asks its logger for what it does not have."""
    file: Path = tmp_path / "mine.py"
    file.write_text(step("logger.shout('x')"))
    return file


def test_an_environment_is_not_made_with_an_interface_that_does_not_load(broken):
    expected = rf"{broken} does not load: line 6: AttributeError: logger has no attribute 'shout'"
    with pytest.raises(InterfaceError, match=expected):
        align_echo.make("alfworld", interface=str(broken))
    spec = environment("alfworld")
    read = spec.read_interface(broken)
    assert read is not None
    for make in (lambda: spec.make("train", interface=read), lambda: spec.interface(read)):
        with pytest.raises(InterfaceError, match="the interface mine does not load"):
            make()


# ---------------------------------------------------------------- the logger


def names_in_sandbox(expression: str, names: list[str]) -> list[str]:
    """Which of the names the value of an expression lacks in the sandbox."""
    body = f"import logging\nvalue = {expression}\n"
    body += f"return ' '.join([name for name in {names} if not hasattr(value, name)]), False, False"
    session = opened(source(body))
    lacking = session.wrap_step("look").observation
    session.close()
    return lacking.split()


def public(value: object) -> list[str]:
    """Its public names, without methods that other packages gave it: transformers adds some to every logger."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return [name for name in names if getattr(getattr(value, name), "__module__", None) in (None, "logging")]


@pytest.mark.parametrize("expression", ["logger", "logging.getLogger('a.b')", "logging.root", "logger.getChild('x')"])
def test_a_logger_has_all_that_pythons_has(expression: str):
    assert names_in_sandbox(expression, public(logging.getLogger("a.b"))) == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("logging.StreamHandler()", logging.StreamHandler(io.StringIO())),
        ("logging.NullHandler()", logging.NullHandler()),
        ("logging.Formatter('%(message)s')", logging.Formatter("%(message)s")),
        ("logging.LoggerAdapter(logger, {})", logging.LoggerAdapter(logging.getLogger("a"), {})),
        ("logging.Filter()", logging.Filter()),
        ("logging.makeLogRecord({})", logging.makeLogRecord({})),
    ],
)
def test_handlers_and_their_like_have_what_pythons_have(expression: str, value: object):
    known = [name for name in public(value) if name not in ("converter", "taskName")]
    assert names_in_sandbox(expression, known) == []


def test_the_module_has_all_names_that_python_exports():
    assert names_in_sandbox("logging", [*logging.__all__, "root"]) == []


def test_a_loggers_methods_take_the_arguments_that_pythons_take():
    tree = ast.parse((Path(loading.__file__).parent / "prelude.py").read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for ours, theirs in (("_AlignLogger", logging.Logger), ("_AlignHandler", logging.StreamHandler)):
        methods = {node.name: node.args for node in classes[ours].body if isinstance(node, ast.FunctionDef)}
        for name, arguments in methods.items():
            if hasattr(theirs, name) and not name.startswith("_"):
                every = (*arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
                given = [each.arg for each in every if each is not None]
                assert given == [*inspect.signature(getattr(theirs, name)).parameters], (ours, name)


ASKING = """
import logging
logger = logging.getLogger(__name__)
if not logger.hasHandlers():
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(message)s")
if logger.handlers or not logger.propagate or logger.disabled or logger.parent is not logging.root:
    raise RuntimeError("a fresh logger is not as it should be")
"""
SAYING = [
    "logger.debug('%s and %d', 'a', 1)", "logger.info(msg='b')", "logger.warning('c', extra={'n': 1})",
    "logger.error('d', exc_info=True, stack_info=True, stacklevel=2)", "logger.critical('e')", "logger.fatal('f')",
    "logger.log(logging.INFO, 'g %(x)s', {'x': 1})", "logger.exception('h')", "logger.warn('i')",
    "logging.getLogger('x').getChild('y').info('j')", "logging.LoggerAdapter(logger, {'n': 1}).info('k %s', 2)",
    "logger.log(logging.ERROR, 'l')", "logging.info('m')",
]  # fmt: skip


def test_an_interface_that_asks_its_logger_first_plays_and_its_lines_are_kept():
    text = source("\n".join([*SAYING, "return str(logger.isEnabledFor(10)), False, False"]), top=ASKING)
    assert problem(text) == ""
    session = opened(text)
    assert session.wrap_step("look").observation == "True"
    logged = [(line.level, line.message) for line in session.take_log(1)]
    assert [message[0] for _, message in logged] == list("abcdefghijklm")
    assert [level for level, _ in logged][:7] == ["debug", "info", "warning", "error", "error", "error", "info"]
    assert ("debug", "a and 1") in logged
    assert ("info", "g 1") in logged
    assert ("info", "k 2") in logged
    assert ("error", "l") in logged
