"""The sandbox: sessions, limits, the log, threads and forks, and that interface code means what it means in Python."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.contract import InterfaceContract, identity_source
from align_echo.interface.sandbox.session import EngineReply, LogLine, RefusedError, Sandbox, SandboxSession
from align_echo.interface.sandbox.source import prepare
from tests.play import source
from tests.room_env import CONTRACT

SHORT = Sandbox(seconds=1.0)
"""For code that hangs: what comes before the hang has time enough on a busy machine."""
STATEFUL = Path(__file__).parents[1] / "data" / "stateful_interface.py"


def answer(action: str) -> EngineReply:
    return EngineReply(f"did {action}", 0.0, False, False, 0.0)


def opened(text: str, sandbox: Sandbox | None = None, contract: InterfaceContract = CONTRACT) -> SandboxSession:
    return (sandbox or Sandbox()).open(prepare(text, contract), contract, "a kitchen", "find a mug", answer)


# ---------------------------------------------------------------- sessions


def test_rules_and_feedback_come_back_as_text():
    session = opened(source("return 'at ' + init_obs, True, False", rules="return f'{init_obs}; {task}'"))
    assert session.infer_rules() == "a kitchen; find a mug"
    assert session.wrap_step("look") == ("at a kitchen", True, False)


def test_the_engine_is_reached_in_every_layout():
    body = "return str(env.step([agent_action])), False, False"
    assert opened(source(body)).wrap_step("look").observation == str((["did look"], [0.0], [False], {"won": [False]}))
    single = CONTRACT.model_copy(update={"step_layout": "single"})
    returned = opened(source("return str(env.step(agent_action)), False, False"), contract=single).wrap_step("look")
    assert returned.observation == str(("did look", 0.0, False, {"won": False, "score": 0}))
    triple = CONTRACT.model_copy(update={"step_layout": "triple"})
    returned = opened(source("return str(env.step(agent_action)), False, False"), contract=triple).wrap_step("look")
    assert returned.observation == str(("did look", 0.0, False))


@pytest.mark.parametrize(("returned", "claims"), [("'a', True, 40", (False, True)), ("'a', False, 100", (True, False))])
def test_the_scored_layout_returns_done_before_the_score(returned, claims):
    scored = CONTRACT.model_copy(update={"step_layout": "scored"})
    seen = opened(source(f"return {returned}"), contract=scored).wrap_step("look")
    assert (seen.reward, seen.done) == claims


@pytest.mark.parametrize(
    ("layout", "body", "message"),
    [
        ("scored", "obs, reward, done = env.step(agent_action)\nreturn obs, reward, done", "too many values to unpack"),
        ("scored", "obs, reward, done, _ = env.step(agent_action)\nreturn obs, reward, done", "is a number, not bool"),
        ("scored", "obs, _, done, info = env.step(agent_action)\nreturn obs, done, info", "is a number, not dict"),
        ("scored", "return env.step(agent_action)", "(observation, done, score), not tuple of 4"),
        ("triple", "obs, reward, done, info = env.step(agent_action)\nreturn obs, reward, done", "not enough values"),
        ("triple", "obs, reward, done = env.step([agent_action])\nreturn obs, reward, done", "env.step(action)"),
        ("triple", "return env.step(agent_action)[0]", "(observation, reward, done), not str"),
    ],
)
def test_code_in_the_layout_of_another_environment_is_refused(layout, body, message):
    session = opened(source(body), contract=CONTRACT.model_copy(update={"step_layout": layout}))
    with pytest.raises(InterfaceError) as caught:
        session.wrap_step("look")
    assert message in str(caught.value)


def test_text_is_cut_at_the_limit():
    session = opened(source("return 'a' * 50_000, False, False", rules="return 'b' * 50_000"), Sandbox(text=100))
    assert (session.infer_rules(), session.wrap_step("look").observation) == ("b" * 100, "a" * 100)


def test_logged_lines_keep_their_level_and_order():
    body = """
        logger.debug("one")
        print("two\\nthree")
        logger.warning("%s: %d", "four", 4)
        env.step([agent_action])
        logger.error("five\\nsix")
        return "", False, False
    """
    session = opened(source(body))
    session.wrap_step("look")
    lines = [("debug", "one"), ("print", "two"), ("print", "three"), ("warning", "four: 4"), ("error", "five\nsix")]
    assert [(line.level, line.message) for line in session.take_log(1)] == lines
    assert session.take_log(1) == []


def test_what_was_logged_before_a_hang_is_kept():
    session = opened(source("logger.info('before')\nwhile True:\n    pass"), SHORT)
    with pytest.raises(InterfaceError, match="took too long"):
        session.wrap_step("look")
    assert session.take_log(1) == [LogLine(1, "info", "before")]


def test_an_ordinary_error_leaves_the_session_alive_with_its_state():
    session = opened(source("env.n = getattr(env, 'n', 0) + 1\nreturn 1 / (env.n - 2) and str(env.n), False, False"))
    assert session.wrap_step("look").observation == "1"
    with pytest.raises(InterfaceError, match="ZeroDivisionError"):
        session.wrap_step("look")
    assert session.alive
    assert session.wrap_step("look").observation == "3"


@pytest.mark.parametrize(
    "body", ["while True:\n    pass", "x = 'a' * (1 << 40)", "while True:\n    env.step(['look'])"]
)
def test_a_spent_limit_ends_the_session(body: str):
    session = opened(source(body), SHORT)
    with pytest.raises(InterfaceError):
        session.wrap_step("look")
    assert not session.alive
    with pytest.raises(InterfaceError, match="is gone"):
        session.wrap_step("look")


def test_a_refusal_can_be_caught_inside():
    def refuse(action: str) -> EngineReply:
        raise RefusedError(f"not {action}")

    body = "try:\n    env.step(['drop it'])\nexcept PermissionError as error:\n    return str(error), False, False"
    session = Sandbox().open(prepare(source(body), CONTRACT), CONTRACT, "", "", refuse)
    assert session.wrap_step("look").observation == "not drop it"


def test_clock_and_chance_are_the_same_in_every_session():
    text = source("import random, time\nreturn f'{random.random()} {time.time()}', False, False")
    assert opened(text).wrap_step("look") == opened(text).wrap_step("look")


def test_closing_twice_is_fine():
    session = opened(identity_source(CONTRACT))
    session.close()
    session.close()
    assert not session.alive


def test_check_says_what_is_wrong_in_one_line():
    Sandbox().check(identity_source(CONTRACT), CONTRACT)
    with pytest.raises(InterfaceError, match=r"^line 3: NameError: name 'nowhere' is not defined$"):
        Sandbox().check("\n\nnowhere()\n" + identity_source(CONTRACT), CONTRACT)


def test_a_contract_with_an_unknown_argument_is_refused():
    contract = CONTRACT.model_copy(update={"infer_rules_args": ("init_obs", "secret")})
    with pytest.raises(InterfaceError, match="secret"):
        opened(identity_source(contract), contract=contract)


# ---------------------------------------------------------------- one pool, many episodes


def test_sessions_of_many_threads_do_not_meet():
    text = source("env.n = getattr(env, 'n', '') + init_obs\nreturn env.n, False, False")
    start = threading.Barrier(4)

    def episode(name: str) -> str:
        session = Sandbox().open(prepare(text, CONTRACT), CONTRACT, name, "", answer)
        start.wait(30)
        for _ in range(20):
            last = session.wrap_step("look").observation
        session.close()
        return last

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(episode, "abcd")) == [letter * 20 for letter in "abcd"]


def test_one_thread_can_hold_more_sessions_than_there_are_cores():
    count = (os.cpu_count() or 1) + 2
    sessions = [opened(source(f"return '{number}', False, False")) for number in range(count)]
    assert [session.wrap_step("look").observation for session in sessions] == [str(number) for number in range(count)]
    for session in sessions:
        session.close()


@pytest.mark.long
def test_sessions_that_nobody_closed_give_their_worker_back():
    text = prepare(identity_source(CONTRACT), CONTRACT)
    workers = set()
    for _ in range(8):
        session = Sandbox().open(text, CONTRACT, "", "", answer)
        assert session._worker.session is not None
        workers.add(session._worker.session.worker_pid)
        del session
        gc.collect()
    assert len(workers) < 5


SCRIPT = """
import os, sys
from align_echo.errors import UsageError
from align_echo.interface.contract import identity
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.room_env import CONTRACT, RoomEnv

env = AlignWrapper(RoomEnv(), identity(CONTRACT))
{body}
"""

FORK_AFTER_USE = """
env.reset(seed=0)
child = os.fork()
if child == 0:
    try:
        env.reset(seed=0)
    except UsageError as error:
        sys.exit(7 if "spawn" in str(error) else 1)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert env.step("look")[4]["interface_error"] == ""
print("done")
"""

LOADED = """
from align_echo.interface.contract import identity_source
from align_echo.interface.sandbox.session import Sandbox
Sandbox().check(identity_source(CONTRACT), CONTRACT)
"""

FORK_BEFORE_USE = """
child = os.fork()
env.reset(seed=0)
assert env.step("look")[4]["interface_error"] == ""
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "body",
    [FORK_AFTER_USE, FORK_BEFORE_USE, LOADED + FORK_BEFORE_USE],
    ids=["after use", "before use", "after an interface was loaded"],
)
def test_a_fork_neither_hangs_nor_disturbs_the_parent(body: str):
    assert run_script(SCRIPT.format(body=body)) == "done\n"


def test_leaving_python_in_the_middle_of_an_episode_is_clean():
    assert run_script(SCRIPT.format(body="env.reset(seed=0)\nenv.step('look')\nprint('done')")) == "done\n"


def run_script(text: str) -> str:
    """Standard output of a fresh Python. It must end by itself, without an error."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout
