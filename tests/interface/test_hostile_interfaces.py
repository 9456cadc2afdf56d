"""Interface code that attacks, cheats or breaks: contained, named, and without effect on the episode.

Every case plays one episode behind hostile `WrapStep` code. Reward, score and end must be those of the raw environment
under the same actions, and the log or `info` must name what happened.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.sandbox.session import Sandbox
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.play import FORWARD, QUICK, SMALL, TASK, WINNING, outcome, play, source, wrapped
from tests.room_env import RoomEnv


class Case(NamedTuple):
    """`expected` is looked for in `info["interface_error"]` or the log; code that `hangs` gets a short limit."""

    name: str
    body: str
    expected: str
    top: str = ""
    hangs: bool = False


ESCAPES = [
    Case("read a file", "return open('/etc/passwd').read(), 0, 0", "PermissionError"),
    Case("write a file", "open('/tmp/align_echo_hostile', 'w').write('x')", "PermissionError"),
    Case("read by pathlib", "from pathlib import Path\nreturn Path('/etc/hosts').read_text(), 0, 0", "PermissionError"),
    Case("list a folder", "import os\nreturn str(os.listdir('/')), 0, 0", "PermissionError"),
    Case("environment variables", "import os\nreturn str(dict(os.environ)), 0, 0", "os.environ"),
    Case("shell", "import os\nos.system('true')", "AttributeError"),
    Case("subprocess", "import subprocess\nsubprocess.run(['true'])", "No module named 'subprocess'"),
    Case("network", "import socket\nsocket.create_connection(('localhost', 80))", "No module named 'socket'"),
    Case("http", "import urllib.request", "No module named 'urllib"),
    Case("ctypes", "import ctypes", "No module named 'ctypes'"),
    Case("threads", "import threading", "No module named 'threading'"),
    Case("processes", "import multiprocessing", "No module named 'multiprocessing'"),
    Case("pickle", "import pickle\npickle.loads(b'x')", "No module named 'pickle'"),
    Case("signals", "import signal", "No module named 'signal'"),
    Case("the library itself", "import align_echo", "No module named 'align_echo'"),
    Case("subclasses", "return str(().__class__.__base__.__subclasses__()), 0, 0", "AttributeError"),
    Case("globals of a function", "return str(WrapStep.__globals__), 0, 0", "AttributeError"),
    Case("globals of a method", "return str(env.step.__func__.__globals__), 0, 0", "AttributeError"),
    Case("builtins", "return str(__builtins__), 0, 0", "NameError"),
    Case("getattr trick", "return str(getattr(getattr(env, '__class__'), '__mro__')), 0, 0", "AttributeError"),
    Case("eval", "return str(eval('__import__(\"os\").getcwd()')), 0, 0", "NameError"),
    Case("exec", "exec('import socket')", "No module named 'socket'"),
    Case("compile", "compile('1', 'x', 'eval').co_code", "Error"),
    Case("__import__", "__import__('os').system('true')", "NameError"),
    Case("literal_eval", "import ast\nast.literal_eval('open(\"/etc/passwd\").read()')", "ValueError"),
    Case("input", "input('password? ')", "NameError"),
    Case("breakpoint", "breakpoint()", "NameError"),
    Case("the real environment", "return str(env.unwrapped), 0, 0", "AttributeError"),
    Case("the expert plan", "return env.oracle().expert_action(), 0, 0", "AttributeError"),
    Case("the plan in info", "return str(env.step([agent_action])[3]['extra.expert_plan']), 0, 0", "KeyError"),
    Case("the game file", "return str(env.step([agent_action])[3]['extra.gamefile']), 0, 0", "KeyError"),
    Case("reset the episode", "env.reset()", "AttributeError"),
    Case("a frame", "import sys\nsys._getframe().f_back", "AttributeError"),
    Case("format string", "return '{0.__class__.__init__.__globals__}'.format(env), 0, 0", "AttributeError"),
    Case("not text to the engine", "_align_engine(['look'])", "takes one action"),
    Case("two actions to the engine", "env.step([agent_action, 'look'])", "list with one action"),
    Case("another engine", "_align_engine_2('look')", "NameError"),
]

EXHAUSTION = [
    Case("endless loop", "while True:\n    pass", "took too long", hangs=True),
    Case(
        "endless loop that catches all",
        "while True:\n    try:\n        1 / 0\n    except BaseException:\n        pass",
        "took too long",
        hangs=True,
    ),
    Case("memory by lists", "x = []\nwhile True:\n    x.append('a' * 1000)", "too much memory"),
    Case("memory by one string", "x = 'a' * (1 << 40)", "too much memory"),
    Case("memory by a number", "x = 2 ** (10 ** 9)", "too much memory"),
    Case("memory by doubling", "x = 'a'\nwhile True:\n    x += x", "too much memory"),
    Case("memory by width", "x = f'{1:>999999999}'", "memory"),
    Case("memory by percent width", "x = '%999999999d' % 1", "memory"),
    Case("sorting", "sorted(range(10 ** 8))", "too much memory"),
    Case("recursion", "def f():\n    return f()\nf()", "RecursionError"),
    Case(
        "recursion by repr",
        "return repr(Loop()), 0, 0",
        "RecursionError",
        "class Loop:\n    def __repr__(self):\n        return repr(self)",
    ),
    Case("digits", "return str(10 ** 100000), 0, 0", "ValueError"),
    Case("regex", "import re\nre.match('((a+)+)+\\\\1$', 'a' * 40 + 'b')", "Error"),
    Case("nested JSON", "import json\njson.loads('[' * 100000)", "Error"),
    Case("probe flood", "for _ in range(1000):\n    env.step(['look'])", "more than 20 calls of env.step"),
    Case(
        "refused calls for ever",
        "while True:\n    try:\n        env.step(['drop book 1'])\n    except Exception:\n        pass",
        "more than 20 calls of env.step",
    ),
    Case(
        "names for ever",
        "while True:\n    try:\n        nowhere\n    except NameError:\n        pass",
        "asked for what does not exist too often",
    ),
    Case(
        "files for ever",
        "while True:\n    try:\n        open('/x')\n    except Exception:\n        pass",
        "asked for what does not exist too often",
    ),
    Case("sleep in a loop", "import time\nwhile True:\n    time.sleep(1000)", "too", hangs=True),
    Case(
        "asyncio for ever",
        "import asyncio\nasync def f():\n    while True:\n        await asyncio.sleep(9)\nasyncio.run(f())",
        "too",
        hangs=True,
    ),
]

TRY = """
for _ in range(19):
    try:
        {}
    except (PermissionError, TypeError, NameError):
        pass
return 'ok', 0, 0
"""
CROSSING = [
    Case("long refused calls", "x = 'a' * 6_000_000\n" + TRY.format("env.step([x])"), "characters passed"),
    Case("long odd characters", "x = '\u2019' * 6_000_000\n" + TRY.format("env.step([x])"), "characters passed"),
    Case("long looks", "x = 'look' + ' ' * 15_000_000\n" + TRY.format("env.step([x])"), "characters passed"),
    Case("many calls by name", "x = 'a' * 400_000\n" + TRY.format("_align_engine(action=x)"), "characters passed"),
    Case("long names", TRY.format("n" * 180_000), "characters passed"),
    Case("a long answer", FORWARD, "characters passed", "_align_returned = lambda *_: ('a' * 9 ** 7, True, True)"),
    Case(
        "long names of files",
        "x = 'a' * 6_000_000\nwhile True:\n    try:\n        open(x)\n    except Exception:\n        pass",
        "took too long (a turn has 0.2 s, its calls included)",
        hangs=True,
    ),
]
ROOMY = Sandbox()

BREAKAGE = [
    Case("raise", "raise ValueError('on purpose')", "ValueError: on purpose"),
    Case("raise BaseException", "raise BaseException('x')", "BaseException"),
    Case("raise SystemExit", "raise SystemExit", "SystemExit"),
    Case("raise SystemExit with a number", "raise SystemExit(3)", "line 6: SystemExit: 3"),
    Case("raise with two values", "raise ValueError('a', 2)", "line 6: ValueError: ('a', 2)"),
    Case("raise with a number", "x = 1\nraise ValueError(\n    x\n)", "line 7: ValueError: 1"),
    Case("raise out of sight", "kind = ValueError\nraise kind('a', 2)", "of other values than one text"),
    Case("raise KeyboardInterrupt", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    Case("raise TimeoutError", "raise TimeoutError('mine')", "mine"),
    Case("raise MemoryError", "raise MemoryError('mine')", "mine"),
    Case("exit", "exit()", "NameError"),
    Case("return nothing", "env.step([agent_action])", "not NoneType"),
    Case("return a number", "return 42", "not int"),
    Case("return two", "return 'a', False", "not tuple"),
    Case("return four", "return 'a', 0, False, {}", "not tuple"),
    Case("return a list of text", "return ['a'], False, False", "not list"),
    Case("return bytes", "return b'a', False, False", "not bytes"),
    Case("return an object", "return Thing(), False, False", "not Thing", "class Thing:\n    pass"),
    Case("return a function", "return WrapStep", "not function"),
    Case("return deep nesting", "x = []\nfor _ in range(100000):\n    x = [x]\nreturn x", "not list"),
    Case("return itself", "x = []\nx.append(x)\nreturn x, x, x", "not list"),
    Case("a coroutine", "async def f():\n    return 'a', 0, 0\nreturn f()", "not coroutine"),
    Case("a dangling await", "import asyncio\nasync def f():\n    await nowhere()\nasyncio.run(f())", "NameError"),
    Case("break the check", FORWARD, "did not return", "_align_returned = lambda value, layout: 7"),
    Case("smuggle past the check", FORWARD, "did not return", "_align_returned = lambda value, layout: (1, 2, 3)"),
    Case("break the engine call", "global _align_engine\n_align_engine = None\nenv.step([agent_action])", "TypeError"),
]


@pytest.mark.parametrize("case", ESCAPES + EXHAUSTION + BREAKAGE, ids=lambda case: case.name)
def test_hostile_code_is_contained_and_named(case: Case):
    env = wrapped(source(case.body, top=case.top), sandbox=QUICK if case.hangs else SMALL)
    results = play(env)
    assert [outcome(step) for step in results] == [outcome(step) for step in play(RoomEnv(6))]
    for step in results:
        assert step[0] == step[4]["raw_observation"], "each turn falls back to the raw observation"
        assert step[4]["interface_error"]
    assert case.expected in results[0][4]["interface_error"]
    named = [entry.message for entry in env.log if entry.level == "fallback"]
    assert named[0] == results[0][4]["interface_error"]
    assert not Path("/tmp/align_echo_hostile").exists()
    env.close()


@pytest.mark.parametrize("case", CROSSING, ids=lambda case: case.name)
def test_text_that_passes_in_and_out_is_bounded(case: Case):
    sandbox = ROOMY.model_copy(update={"seconds": QUICK.seconds}) if case.hangs else ROOMY
    env = wrapped(source(case.body, top=case.top), sandbox=sandbox)
    env.reset(options={"task": TASK})
    shown, *_, info = env.step("look")
    assert case.expected in info["interface_error"]
    assert shown == info["raw_observation"]
    assert [entry.message for entry in env.log if entry.level == "fallback"] == [info["interface_error"]]
    env.close()


def test_an_action_is_only_as_long_as_the_agents_own():
    looks = "try:\n    env.step(['look' + ' ' * 2_000])\nexcept PermissionError as error:\n    return str(error), 0, 0"
    env = wrapped(source(looks))
    env.reset(options={"task": TASK})
    shown, *_, info = env.step("look")
    assert "more than 1000 characters" in shown
    assert len(info["violations"][0].action) == 200
    forwards = wrapped(source())
    forwards.reset(options={"task": TASK})
    assert forwards.step("look" + " " * 2_000)[4]["violations"] == ()
    env.close()
    forwards.close()


CHEATS = [
    Case("claim the win", "return 'You won.', True, True", "forged"),
    Case("claim by numbers", "return 'You won.', 1.0, 1", "forged"),
    Case("another step", "env.step = lambda a: (['won'], [1.0], [True], {'won': [True]})\n" + FORWARD, "forged"),
    Case(
        "another step in the class",
        "type(env).step = lambda self, a: (['won'], [1.0], [True], {'won': [True]})\n" + FORWARD,
        "forged",
    ),
    Case(
        "another action",
        "try:\n    env.step(['drop mug 1 please'])\nexcept Exception:\n    return 'tried', False, False",
        "violation",
    ),
]


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_cheating_code_gains_nothing(case: Case):
    """The agent's action never reaches the engine here: no reward, no win, and the step limit ends the episode."""
    env = wrapped(source(case.body))
    results = play(env)
    assert [outcome(step) for step in results] == [(0.0, False, turn == 5, 0.0, False) for turn in range(6)]
    assert case.expected in {entry.level for entry in env.log}


HARMLESS = [
    Case("a huge text", "env.step([agent_action])\nreturn 'a' * 1000000, False, False", ""),
    Case("log flood", "for i in range(10000):\n    logger.debug(f'line {i} ' + 'x' * 50)\n" + FORWARD, "log cut"),
    Case("print flood", "for i in range(10000):\n    print('line', i)\n" + FORWARD, "log cut"),
    Case("one huge print", "print('x' * 1000000)\n" + FORWARD, "log cut"),
    Case("one huge log line", "logger.info('x' * 1000000)\n" + FORWARD, "xxx"),
    Case("no logger", "logger.debug = None\n" + FORWARD, ""),
    Case("log anything", "logger.warning('%s and %s', 1)\nlogger.error(None, 3)\n" + FORWARD, "%s and %s (1,)"),
    Case("forge a log frame", "print('\\x1eerror\\x1fforged\\x1e')\n" + FORWARD, "forged"),
    Case("sleep", "import time\ntime.sleep(10 ** 9)\n" + FORWARD, ""),
    Case("strange text", "env.step([agent_action])\nreturn '\\x00\\x1b[31m\\ud800\\u202e\\r日', 0, 0", ""),
    Case("spoil the builtins", "global len, str, isinstance\nlen = str = isinstance = None\n" + FORWARD, ""),
    Case("spoil env", "env.__class__ = int\nenv.unwrapped = env\n" + FORWARD, ""),
    Case(
        "swallow a refusal",
        "try:\n    env.step(['drop book 1'])\nexcept BaseException:\n    pass\n" + FORWARD,
        "'drop book 1': neither",
    ),
]


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name)
def test_odd_code_does_not_disturb_the_episode(case: Case):
    env = wrapped(source(case.body))
    results = play(env)
    assert [outcome(step) for step in results] == [outcome(step) for step in play(RoomEnv(6))]
    for step in results:
        assert env.observation_space.contains(step[0])
        assert len(step[0]) <= SMALL.text
    assert any(case.expected in entry.message for entry in env.log) or not case.expected
    assert len(env.log) <= len(results) * (SMALL.log_lines + 2)
    assert sum(len(entry.message) for entry in env.log) <= len(results) * 2 * SMALL.log_text


LOADING = [
    Case("endless loop", "", "took too long", "while True:\n    pass", hangs=True),
    Case("memory", "", "too much memory", "x = 'a' * (1 << 40)"),
    Case("missing module", "", "No module named 'socket'", "import socket"),
    Case("raise", "", "line 1: RuntimeError: no", "raise RuntimeError('no')"),
    Case("use the engine", "", "PermissionError", "_align_engine('look')"),
    Case("constant folding", "", "too much memory", "x = [0] * 10 ** 9"),
]


@pytest.mark.parametrize("case", LOADING, ids=lambda case: case.name)
def test_code_that_fails_while_it_loads_is_bypassed(case: Case):
    env = wrapped(source(FORWARD, top=case.top), sandbox=QUICK if case.hangs else SMALL)
    results = play(env)
    assert [outcome(step) for step in results] == [outcome(step) for step in play(RoomEnv(6))]
    assert all(case.expected in step[4]["interface_error"] for step in results)
    assert env.log[-1].level == "bypassed"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + ")" * 1000,
        "-" * 100_000 + "1",
        "x = " + "[" * 5000 + "]" * 5000,
        "\x00",
        "x" * 300_000,
        source("yield 1"),
        source("return 'a', 0, 0").replace("def WrapStep", "async def WrapStep"),
        source(top="class Mine(Exception):\n    pass"),
        source(top="from os import *"),
    ],
    ids=["parentheses", "signs", "brackets", "NUL", "length", "generator", "coroutine", "subclass", "star import"],
)
def test_source_that_cannot_be_prepared_is_refused_in_one_line(text: str):
    with pytest.raises(InterfaceError) as caught:
        wrapped(text)
    assert "\n" not in str(caught.value)


def kill_worker(env: AlignWrapper) -> None:
    """End the sandbox worker from outside, as the system's out-of-memory killer does."""
    session = env._session
    assert session is not None
    assert session._worker.session is not None
    worker = session._worker.session.worker_pid
    assert worker is not None
    os.kill(worker, signal.SIGKILL)


def test_a_killed_worker_costs_one_fallback():
    env = wrapped(source("env.n = getattr(env, 'n', 0) + 1\nenv.step([agent_action])\nreturn str(env.n), False, False"))
    env.reset(options={"task": TASK})
    assert env.step(WINNING[0])[0] == "1"
    kill_worker(env)
    shown, _, _, _, info = env.step(WINNING[1])
    assert (shown, info["interface_error"][:34]) == (info["raw_observation"], "the sandbox stopped the interface:")
    last = env.step(WINNING[2])
    assert (last[0], outcome(last)) == ("1", (1.0, True, False, 1.0, True))


OWN_LEVELS = {"fallback", "violation", "forged", "bypassed"}

LOG_FORGERIES = [
    "print('\\x1efallback\\x1fgone\\x1e\\x1eviolation\\x1fno\\x1e')",
    "print('\\x1eforged\\x1fclaimed reward')",
    "logger.info('\\x1ebypassed\\x1fover\\x1e')",
    "logger.info('%s', '\\x1ebypassed\\x1fover\\x1e')",
    "_align_log('violation', 'x', ())",
    "_align_log('info\\x1ffallback\\x1e\\x1efallback', 'x', ())",
]


@pytest.mark.parametrize("line", LOG_FORGERIES)
def test_what_an_interface_prints_cannot_pass_for_the_wrappers_own_entries(line):
    env = wrapped(source(f"{line}\n{FORWARD}"))
    results = play(env)
    assert env.log
    assert {entry.level for entry in env.log} & OWN_LEVELS == set()
    assert all(step[4]["forged"] == () and step[4]["violations"] == () for step in results)


STEERING = "\\x1b[31m\\x00\\x07\\x9b\\u202e\\x1c\\r"


@pytest.mark.parametrize(
    "body",
    [
        f"raise ValueError('a{STEERING}b')",
        f"logger.error('a{STEERING}b')\nprint('a{STEERING}b')\n" + FORWARD,
        f"try:\n    env.step(['a{STEERING}b'])\nexcept PermissionError:\n    pass\n" + FORWARD,
        f"_align_log('error{STEERING}', 'x', ())\n" + FORWARD,
    ],
)
def test_what_is_said_of_an_interface_steers_no_terminal(body):
    env = wrapped(source(body, rules=f"raise KeyError('{STEERING}')"))
    _, reset = env.reset(options={"task": TASK})
    assert reset["interface_error"]
    *_, info = env.step("look")
    texts = [reset["interface_error"], info["interface_error"]]
    texts += [text for entry in env.log for text in (entry.level, entry.message)]
    texts += [text for violation in info["violations"] for text in (violation.action, violation.reason)]
    assert all(character.isprintable() or character in "\n\t" for text in texts for character in text)


def test_a_claim_against_the_environment_is_in_the_info_of_its_turn():
    env = wrapped(source("n = env.n = getattr(env, 'n', 0) + 1\nenv.step([agent_action])\nreturn 'x', n == 2, n == 3"))
    env.reset(options={"task": TASK})
    assert [env.step("look")[4]["forged"] for _ in range(4)] == [(), ("reward",), ("done",), ()]
