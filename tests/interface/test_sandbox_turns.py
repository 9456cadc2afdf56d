"""Episodes begin from kept states, and turns go on in one loop: nothing of it may show."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import textwrap

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.sandbox.constructs import STOOD_IN
from align_echo.interface.sandbox.pool import AbsentModule, stop_vain_searches
from align_echo.interface.sandbox.session import EngineReply, LogLine, RefusedError, Sandbox, SandboxSession
from align_echo.interface.sandbox.source import prepare
from tests.play import TASK, outcome, play, source, wrapped
from tests.room_env import CONTRACT, RoomEnv


class AskedEngine:
    """An engine that refuses whatever begins with "drop", and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, action: str) -> EngineReply:
        self.asked.append(action)
        if action.startswith("drop"):
            raise RefusedError(f"not {action}")
        return EngineReply(f"saw {action}", 0.0, False, False, 0.0)


def opened(text: str, sandbox: Sandbox | None = None, engine: AskedEngine | None = None) -> SandboxSession:
    return (sandbox or Sandbox()).open(prepare(text, CONTRACT), CONTRACT, "a kitchen", "", engine or AskedEngine())


# ---------------------------------------------------------------- each episode begins alike

TOP = """
import random
SEEN = []
class Box:
    items = {'a': [1]}
def note(x, into=[]):
    into.append(x)
"""
TOPS = {"only defines": TOP, "does more": TOP.replace("[]\n", "list([])\n")}
BODY = """
SEEN.append(agent_action)
note(1)
Box.items['a'].append(2)
return f"{SEEN} {Box.items} {random.random()} {init_obs}", False, False
"""


@pytest.mark.parametrize("top", TOPS)
def test_what_an_episode_changed_is_not_there_in_the_next(top: str):
    text = source(BODY, top=TOPS[top])
    assert prepare(text, CONTRACT).only_defines is (top == "only defines")
    shown = []
    for _ in range(4):
        session = opened(text)
        shown.append([session.wrap_step(action).observation for action in ("look", "go")])
        session.close()
    assert shown == [shown[0]] * 4
    assert shown[0][0].startswith("['look'] {'a': [1, 2]} 0.8444")
    assert shown[0][1].startswith("['look', 'go'] {'a': [1, 2, 2]}")


@pytest.mark.parametrize(
    "top",
    [
        "X = len('ab')",
        "X = Y = [word for word in 'ab']",
        "print('loaded')",
        "def f(x=print('loaded')):\n    pass",
        "@print\ndef f():\n    pass",
        "class A:\n    x = print('loaded')",
        "class re:\n    def compile(x, y):\n        print('loaded')\nX = re.compile('a', 'b')",
        "X: int = print('loaded')",
        "X = {**{}, 'a': print('loaded')}",
        "if True:\n    pass",
        "X = _align_task",
        "X = 'a' * 10 ** 7",
    ],
)
def test_source_that_runs_while_it_loads_runs_in_every_episode(top: str):
    prepared = prepare(source(top=top), CONTRACT)
    assert not prepared.only_defines


def test_what_is_printed_while_source_loads_is_logged_in_every_episode():
    for _ in range(2):
        session = opened(source(top="print('loaded')"))
        session.infer_rules()
        assert session.take_log(0) == [LogLine(0, "print", "loaded")]
        session.close()


def test_source_that_fails_to_load_fails_in_every_episode():
    for _ in range(2):
        with pytest.raises(InterfaceError, match=r"^line 1: ModuleNotFoundError: No module named 'socket'"):
            opened(source(top="import socket").lstrip())


@pytest.mark.parametrize("module", STOOD_IN)
def test_each_module_is_there_where_it_alone_is_imported(module: str):
    session = opened(source("return str(stand_in.__name__), False, False", top=f"import {module} as stand_in"))
    assert session.wrap_step("look").observation in (module, "typing")
    session.close()


def test_many_interfaces_can_take_turns():
    texts = [source(f"return '{number}', False, False") for number in range(50)]
    for number in random.Random(0).choices(range(50), k=120):
        session = opened(texts[number])
        assert session.wrap_step("look").observation == str(number)
        session.close()


# ---------------------------------------------------------------- limits are a turn's

class Ticks:
    """A clock that goes on by itself, one second at a reading, and by what a test adds to `now`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def ticks(monkeypatch) -> Ticks:
    """The clock of all spending, in place of the machine's."""
    clock = Ticks()
    monkeypatch.setattr("align_echo.interface.sandbox.session.monotonic", clock)
    return clock


LOOKS = "for _ in range(19):\n    env.step(['look'])\nreturn 'fine', False, False"


def test_seconds_are_counted_over_the_calls_of_a_turn(ticks: Ticks):
    assert opened(source(LOOKS), Sandbox(seconds=100)).wrap_step("look").observation == "fine"
    spent, ticks.now = ticks.now, 0.0
    session = opened(source(LOOKS), Sandbox(seconds=spent / 4))  # more than any stretch between two calls
    with pytest.raises(InterfaceError, match="took too long"):
        session.wrap_step("look")
    assert not session.alive
    assert ticks.now < spent / 2


def test_seconds_are_not_counted_over_turns(ticks: Ticks):
    session = opened(source(LOOKS), Sandbox(seconds=100))
    assert [session.wrap_step("look").observation for _ in range(12)] == ["fine"] * 12
    assert ticks.now > 300


def test_the_seconds_of_the_environment_are_not_counted(ticks: Ticks):
    def slow(action: str) -> EngineReply:
        ticks.now += 1000.0
        return EngineReply("saw it", 0.0, False, False, 0.0)

    session = Sandbox(seconds=100).open(prepare(source(LOOKS), CONTRACT), CONTRACT, "", "", slow)
    assert session.wrap_step("look").observation == "fine"


# ---------------------------------------------------------------- looks of a list are asked for together

VIEWS = {
    "list": "return str([env.step([view])[0][0] for view in VIEWS]), False, False",
    "dict": "return str({v: env.step([v])[0][0] for v in (VIEWS)}), False, False",
    "in an f-string": "return f'{[env.step([view])[0][0] for view in VIEWS]}', False, False",
    "caught": """
        try:
            return str([env.step([view])[0][0] for view in VIEWS]), False, False
        except (PermissionError, TypeError) as error:
            env.step(['after'])
            return f'{type(error).__name__}: {error}', False, False
    """,
    "another env": """
        class Other:
            def step(self, actions):
                return [['other ' + actions[0]]]
        env = Other()
        return str([env.step([view])[0][0] for view in VIEWS]), False, False
    """,
}
LISTS = [[], ["look"], ["look", "inventory", "look"], ["look", "drop it", "inventory"], ["look", 3, "look"], ["a"] * 25]


@pytest.mark.parametrize("views", LISTS, ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_looks_of_a_list_mean_what_they_mean_one_by_one(name: str, views: list[object]):
    body = f"VIEWS = {views!r}\n" + textwrap.dedent(VIEWS[name]).strip()
    plain = re.sub(r"in \(?VIEWS\)?", "in VIEWS if True", body)  # which is not asked for together
    assert "_align_told" not in prepare(source(plain), CONTRACT).text
    assert "_align_told" in prepare(source(body), CONTRACT).text or name == "in an f-string"

    def ended(text: str) -> tuple[str, list[str]]:
        engine = AskedEngine()
        session = opened(source(text), engine=engine)
        try:
            return session.wrap_step("look").observation, engine.asked
        except InterfaceError as error:
            return str(error), engine.asked

    assert ended(body) == ended(plain)


@pytest.mark.parametrize(
    "body",
    [
        "env.step = lambda actions: [['mine']]\nreturn str([env.step([v])[0][0] for v in ['a', 'b']]), False, False",
        "setattr(env, 'step', lambda a: [['mine']])\nreturn str([env.step([v])[0][0] for v in ['a', 'b']]), 0, 0",
    ],
)
def test_a_step_that_interface_code_replaces_stays_replaced(body: str):
    engine = AskedEngine()
    assert opened(source(body), engine=engine).wrap_step("look").observation == "['mine', 'mine']"
    assert engine.asked == []


# ---------------------------------------------------------------- meddling with the loop

MEDDLING = {
    "end the turn early": "_align_next(('won', True, True))\nreturn 'a', False, False",
    "end the turn with a number": "_align_next(7)\nreturn 'a', False, False",
    "end the turn with much": "_align_next(('a' * 9 ** 7, True, True))",
    "end it by name": "_align_next(value=('a', True, True))",
    "end it twice": "_align_next(('a', True, True), 1)",
    "no loop": "global _align_next\n_align_next = None",
    "endless loop": "global _align_next\n_align_next = lambda value: 'look'",
    "many at once": "_align_engine_together(*['look'] * 30)",
    "many odd ones at once": "_align_engine_together('look', 7)",
    "act at once": "_align_engine_together('look', 'drop book 1', 'drop mug 1')",
}


@pytest.mark.parametrize("name", MEDDLING)
def test_code_that_meddles_with_the_loop_changes_its_own_text_alone(name: str):
    env = wrapped(source(MEDDLING[name]), sandbox=Sandbox(seconds=0.2, memory=16 * 2**20))
    env.reset(options={"task": TASK})
    levels = set()
    for turn in range(4):
        _, reward, terminated, _, info = env.step("look")
        assert (reward, terminated, info["turns"], info["won"]) == (0.0, False, turn + 1, False)
        assert not info["violations"] or [each.action for each in info["violations"]] == ["drop book 1"]
    levels = {entry.level for entry in env.log}
    assert levels & {"fallback", "forged", "violation"}
    env.close()


def test_the_loop_is_not_there_while_source_loads():
    env = wrapped(source(top="_align_next(('a', True, True))"))
    assert [outcome(step) for step in play(env)] == [outcome(step) for step in play(RoomEnv(6))]
    assert "line 1: NameError" in env.log[0].message


# ---------------------------------------------------------------- a module that the interpreter's package looks for


class Searches:
    """A finder that finds nothing and counts how often a module was searched for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.append(name)


ABSENT = pytest.mark.skipif(bool(importlib.util.find_spec("opentelemetry")), reason="opentelemetry is installed here")


@ABSENT
def test_nothing_is_searched_for_in_vain(monkeypatch):
    opened(source()).close()
    searches = Searches()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, searches])
    session = opened(source("logger.info('a')\nenv.step(['look'])\nlogger.info('b')\nreturn '', False, False"))
    session.infer_rules()
    session.wrap_step("look")
    assert "opentelemetry" not in searches.names
    assert [line.message for line in session.take_log(1)] == ["a", "b"]


@ABSENT
def test_a_module_that_is_installed_later_is_found(monkeypatch, tmp_path):
    def found() -> bool:
        return importlib.util.find_spec("opentelemetry") is not None

    def engine(action: str) -> EngineReply:
        return EngineReply(str(found()), 0.0, False, False, 0.0)

    text = source("return env.step([agent_action])[0][0], False, False")
    session = Sandbox().open(prepare(text, CONTRACT), CONTRACT, "", "", engine)
    assert (found(), session.wrap_step("look").observation) == (False, "False")
    (tmp_path / "opentelemetry.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert (found(), session.wrap_step("look").observation) == (True, "True")


@ABSENT
def test_a_module_that_is_there_is_left_to_be_found(monkeypatch, tmp_path):
    (tmp_path / "opentelemetry.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if not isinstance(each, AbsentModule)])
    before = list(sys.meta_path)
    stop_vain_searches()
    assert sys.meta_path == before
