"""A turn has its seconds, whatever keeps a worker from answering: a stop signal, a death, a start that never ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.sandbox import pool
from align_echo.interface.sandbox import session as spending
from align_echo.interface.sandbox.pool import DeadlineRunner, WorkerDeadline
from align_echo.interface.sandbox.session import EngineReply, Sandbox, SandboxSession
from align_echo.interface.sandbox.source import prepare
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.play import FORWARD, QUICK, TASK, source, wrapped
from tests.room_env import CONTRACT

LOOKING = "for _ in range(20):\n    env.step(['look'])\nreturn 'done', False, False"
ENDED = "its worker gave no answer, and was ended"


def process_of(opened: SandboxSession | None) -> int:
    assert opened is not None
    assert opened._worker.session is not None
    process = opened._worker.session.worker_pid
    assert process is not None
    return process


def stop(process: int) -> None:
    """Stop a worker, which takes no memory and no time from then on and never answers, and wait until it stands."""
    os.kill(process, signal.SIGSTOP)
    os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)


def started(sandbox: Sandbox = QUICK, body: str = FORWARD, step_limit: int = 6) -> AlignWrapper:
    env = wrapped(source(body), sandbox=sandbox, step_limit=step_limit)
    env.reset(options={"task": TASK})
    return env


class TickingClock:
    """A clock that goes on by a tenth of a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


class NotedWatch(DeadlineRunner):
    """A watch that notes how many seconds were given each time, and ends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[float] = []

    def set(self, deadline: WorkerDeadline, seconds: float) -> None:
        self.given.append(seconds)


@pytest.fixture
def noted(monkeypatch) -> NotedWatch:
    watch = NotedWatch()
    monkeypatch.setattr(pool, "_watch", watch)
    return watch


# ---------------------------------------------------------------- stopped workers


def test_a_worker_that_stands_still_costs_one_turn():
    env = started()
    stop(process_of(env._session))
    shown, *_, info = env.step("look")
    assert info["interface_error"].endswith(ENDED)
    assert shown == info["raw_observation"]
    assert env.step("look")[4]["interface_error"] == ""
    env.close()


def test_a_worker_that_stands_still_in_the_middle_of_a_turn_is_ended():
    def engine(action: str) -> EngineReply:
        stop(process_of_opened[0])
        return EngineReply("", 0.0, False, False, 0.0)

    opened = QUICK.open(prepare(source(LOOKING), CONTRACT), CONTRACT, "", "", engine)
    process_of_opened = [process_of(opened)]
    with pytest.raises(InterfaceError, match=ENDED):
        opened.wrap_step("look")
    assert not opened.alive


def test_a_worker_that_stands_still_after_the_last_turn_is_ended_too(monkeypatch):
    env = started(step_limit=1)
    process = process_of(env._session)
    moments = monkeypatch_lifted(monkeypatch, lambda: stop(process))
    assert env.step("look")[3]
    assert moments[-1].missed


def monkeypatch_lifted(monkeypatch, work: Callable[[], None]) -> list[WorkerDeadline]:
    """Do some work when a turn has its answer; the deadlines that are lifted from then on."""
    lifted: list[WorkerDeadline] = []
    lift = DeadlineRunner.lift

    def noting(watch: DeadlineRunner, deadline: WorkerDeadline) -> None:
        lift(watch, deadline)
        lifted.append(deadline)

    close = SandboxSession.close

    def closing(opened: SandboxSession) -> None:
        if not lifted:
            monkeypatch.setattr(DeadlineRunner, "lift", noting)
            work()
        close(opened)

    monkeypatch.setattr(SandboxSession, "close", closing)
    return lifted


def test_an_idle_worker_that_stands_still_is_passed_over(monkeypatch):
    monkeypatch.setattr(pool, "_NEXT_TRY", 0.1)
    env = started()
    process = process_of(env._session)
    env.close()
    stop(process)
    again = started()
    assert again.step("look")[4]["interface_error"] == ""
    assert process_of(again._session) != process
    again.close()
    os.kill(process, signal.SIGKILL)


# ---------------------------------------------------------------- seconds of a turn


def test_all_calls_of_a_turn_share_its_seconds(noted: NotedWatch, monkeypatch):
    clock = TickingClock()
    monkeypatch.setattr(spending, "monotonic", clock)

    def engine(action: str) -> EngineReply:
        clock.now += 1_000  # the environment's time is its own
        return EngineReply("", 0.0, False, False, 0.0)

    opened = Sandbox(seconds=2.0).open(prepare(source(LOOKING), CONTRACT), CONTRACT, "", "", engine)
    with pytest.raises(InterfaceError, match=r"took too long \(a turn has 2 s, its calls included\)"):
        opened.wrap_step("look")
    turn = noted.given[:-1]
    assert 2 < len(turn) < 20
    assert turn == sorted(turn, reverse=True)
    assert 0 < turn[-2] < turn[0] < 2.0
    assert noted.given[-1] <= 0, "what is left to close the session with"


def test_loading_and_the_first_call_are_one_turn(noted: NotedWatch, monkeypatch):
    monkeypatch.setattr(spending, "monotonic", TickingClock())
    opened = Sandbox(seconds=2.0).open(prepare(source(), CONTRACT), CONTRACT, "", "", pytest.fail)
    (loading,) = noted.given
    opened.infer_rules()
    opened.infer_rules()
    _, first, second = noted.given
    assert first < loading == second
    opened.close()


def test_a_session_that_ends_waits_for_half_a_second_at_most(noted: NotedWatch):
    opened = Sandbox().open(prepare(source(), CONTRACT), CONTRACT, "", "", pytest.fail)
    opened.close()
    assert noted.given[-1] == 0.5


NEVER_STARTED = """
import os, signal, sys
from pathlib import Path
from align_echo.errors import EngineError
from tests.play import QUICK, TASK, source, wrapped
from tests.interface.test_sandbox_deadlines import process_of

env = wrapped(source(), sandbox=QUICK)
env.reset(options={"task": TASK})
Path(sys.argv[1]).write_text("from now on no worker starts")
os.kill(process_of(env._session), signal.SIGKILL)
print(env.step("look")[4]["interface_error"][:34])
try:
    env.step("look")
except EngineError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the worker's stand-in is a shell script")
def test_a_worker_that_never_starts_takes_no_more_than_a_turn(tmp_path):
    root, sign, binary = Path(__file__).parents[2], tmp_path / "sign", tmp_path / "monty"
    real = Path(sys.executable).with_name("monty")
    binary.write_text(f"#!/bin/sh\nif [ -e '{sign}' ]; then exec sleep 20 2>/dev/null; fi\nexec '{real}' \"$@\"\n")
    binary.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", NEVER_STARTED, str(sign)], cwd=root, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(root), "MONTY_BIN": str(binary)}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the sandbox stopped the interface:",
        "no sandbox worker can be had: none answered within 0.2 s",
    ]


# ---------------------------------------------------------------- the watch itself


def test_a_watch_ends_what_is_late_and_leaves_the_rest_alone():
    watch = DeadlineRunner()
    late, answered, patient = (subprocess.Popen(["sleep", "60"]) for _ in range(3))
    deadlines = {process: WorkerDeadline(process.pid) for process in (late, answered, patient)}
    watch.set(deadlines[patient], 60)
    watch.set(deadlines[answered], 0.02)
    watch.lift(deadlines[answered])
    watch.set(deadlines[late], 0.04)  # sooner than what the watch sleeps for
    assert late.wait(60) == -signal.SIGKILL
    assert [deadlines[process].missed for process in (late, answered, patient)] == [True, False, False]
    assert answered.poll() is None
    assert patient.poll() is None
    for process in (answered, patient):
        process.kill()
        process.wait()
