"""Ctrl-C on the real command: nothing is waited for, however many requests are under way, and whenever it comes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile_endpoint.faults import FAULTS, refusal, said
from tests.hostile_endpoint.server import Answering, Exchange, Server, serving

ROOT = str(Path(__file__).parents[2])
COMMAND = [sys.executable, "-m", "align_echo_command"]
SOON = 120.0
"""Seconds: far more than a stop takes, far less than a deadline or a pause."""

PLAYED = ("--env", "alfworld", "--model", "m", "--out", "run")


def _interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def _interrupt_another_thread(process: subprocess.Popen[str]) -> None:
    """Python hears of it and its main thread sleeps on, as when a signal comes just as that thread goes to sleep."""
    threads = [int(entry.name) for entry in Path(f"/proc/{process.pid}/task").iterdir()]
    other = next(thread for thread in threads if thread != process.pid)
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGINT) == 0


def stopped(
    command: list[str],
    url: str,
    server: Server,
    requests: int,
    folder: Path,
    stop: Callable[[subprocess.Popen[str]], None] = _interrupt,
) -> tuple[int, str]:
    """Exit status and standard error of a command that is stopped once so many requests came."""
    variables = {**os.environ, "PYTHONPATH": ROOT, "OPENAI_BASE_URL": url}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder, env=variables
    ) as process:
        try:
            assert server.wait_for(requests)
            stop(process)
            _, err = process.communicate(timeout=SOON)
        finally:
            process.kill()
    return process.returncode, err


def _later(answering: Answering, first: int) -> Answering:
    """The given answer from the request of this number on, "hm" before."""

    def answer(exchange: Exchange) -> None:
        if exchange.number < first:
            exchange.answer(said("hm"))
        else:
            answering(exchange)

    return answer


def _no_several(exchange: Exchange) -> None:
    if "n" in exchange.request:
        exchange.answer(refusal("n must be 1"), "400 Bad Request")
    else:
        exchange.stall()


STALL, DRIP, BUSY = (FAULTS[name].answering for name in ("silent", "dripping headers", "503"))
ALONE = ("evaluate", *PLAYED, "--agent", "vanilla", "--tasks", "1", "--workers", "1")
GENERATE = ("generate-interface", *PLAYED, "--backend", "llm", "--iterations", "1", "--tasks-per-iteration", "8")
CASES: dict[str, tuple[tuple[str, ...], Answering, int]] = {
    "8 stalled": (("evaluate", *PLAYED, "--agent", "vanilla", "--tasks", "8", "--workers", "8"), STALL, 8),
    "8 dripping": (("evaluate", *PLAYED, "--agent", "react", "--tasks", "8", "--workers", "8"), DRIP, 8),
    "1 stalled": (ALONE, STALL, 1),
    "a pause": (("evaluate", *PLAYED, "--agent", "vanilla", "--tasks", "2", "--workers", "2"), BUSY, 6),
    "5 samples": ((*ALONE, "--temperature", "1", "--best-of", "5"), _no_several, 6),
    "8 in generate-interface": ((*GENERATE, "--workers", "8"), STALL, 8),
    "the analyzer": ((*GENERATE[:-1], "1", "--workers", "1"), _later(STALL, 51), 51),
}
"""A command, what it is answered, and after how many requests it is stopped."""


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_stop_waits_for_no_request(case, tmp_path):
    command, answering, requests = CASES[case]
    with serving(answering) as server:
        status, err = stopped([*COMMAND, *command], server.url, server, requests, tmp_path)
    assert (status, err.splitlines()[-1][:8]) == (130, "stopped;")
    assert "Traceback" not in err


@pytest.mark.long
def test_a_stop_that_the_main_thread_did_not_receive_wakes_it(tmp_path):
    command, answering, requests = CASES["8 stalled"]
    with serving(answering) as server:
        ended = stopped([*COMMAND, *command], server.url, server, requests, tmp_path, _interrupt_another_thread)
    assert (ended[0], ended[1].splitlines()[-1][:8]) == (130, "stopped;")


def test_stopping_again_and_again_has_no_traceback(tmp_path):
    command, answering, requests = CASES["8 stalled"]
    variables = {**os.environ, "PYTHONPATH": ROOT}
    with serving(answering) as server:
        variables["OPENAI_BASE_URL"] = server.url
        with subprocess.Popen(
            [*COMMAND, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path, env=variables
        ) as process:
            try:
                assert server.wait_for(requests)
                for _ in range(round(SOON / 0.05)):
                    process.send_signal(signal.SIGINT)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.05)
                        break
            finally:
                process.kill()
            assert process.stderr is not None
            err = process.stderr.read().decode()
    assert process.returncode in (130, -signal.SIGINT)  # a shell says 130 of both
    assert "Traceback" not in err


WHILE_IMPORTING = """
import builtins, os, signal
importing = builtins.__import__
def stop(name, *rest):
    if name == "gymnasium":
        os.kill(os.getpid(), signal.SIGINT)
    return importing(name, *rest)
builtins.__import__ = stop
import align_echo_command
align_echo_command.run()
"""


def test_a_stop_while_the_command_is_imported_has_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTING],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# ---------------------------------------------------------------- SIGTERM, a second signal, a deaf main thread


def test_sigterm_stops_as_ctrl_c_does_and_says_how_many_episodes_are_kept(tmp_path):
    command, answering, requests = CASES["8 stalled"]
    with serving(answering) as server:
        status, err = stopped(
            [*COMMAND, *command], server.url, server, requests, tmp_path, lambda process: process.terminate()
        )
    assert status == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == (
        "stopped; what is finished is kept; to go on, repeat the command with: --resume --out run"
    )


DEAF = """
import ctypes, pathlib, signal, sys, threading
import align_echo_command
from align_echo.base import halting
import align_echo.cli.main

def write():
    print("writing", flush=True)
    {how}
    pathlib.Path("kept").write_text("all of it")
    return "all of it is kept"

def deaf():  # as a thread that is inside a long call of another library
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT, signal.SIGTERM, signal.SIGURG}})
    try:
        with halting.said_by(lambda words: "stopped; " + words[0]), halting.keeping(write):
            print("deaf", flush=True)
            ctypes.CDLL(None).sleep(600)
    except KeyboardInterrupt as stop:  # it came just before the call
        print("stopped; " + stop.__notes__[0], file=sys.stderr)
        raise

align_echo.cli.main.main = deaf
align_echo_command.run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_done_is_written_though_the_main_thread_hears_nothing(number, tmp_path):
    with deaf(tmp_path, "pass") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=SOON)
    assert (process.returncode, out.split()) == (128 + number, ["writing"])
    assert err == "stopped; all of it is kept\n"
    assert (tmp_path / "kept").read_text() == "all of it"


def test_a_second_signal_ends_a_process_that_is_still_writing(tmp_path):
    with deaf(tmp_path, "threading.Event().wait()") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        err = again_until_it_ends(process, signal.SIGTERM)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "")


def again_until_it_ends(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal until a process ends, as one that comes at once after another counts as that one; its errors."""
    for _ in range(int(SOON)):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=1)[1]
    raise AssertionError(f"{SOON:g} signals did not end it")


@contextlib.contextmanager
def deaf(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process whose main thread hears nothing, and which writes what it has done in some way."""
    with subprocess.Popen(
        [sys.executable, "-c", DEAF.format(how=how)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": ROOT},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "deaf\n"
            yield process
        finally:
            process.kill()
