"""The verifier's process: what hangs, dies or raises is a fault, threads share one, forks and exits leave none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from align_echo.errors import EngineError
from align_echo.wrappers.mathematics import verifier
from align_echo.wrappers.mathematics.verifier import VerifierProcess, is_right

READY = "import sys; print('{}', flush=True); "


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("sys.stdin.read()", "gave no answer within 0.2 s"),
        ("sys.stdin.readline(); print('{\"rig', end='', flush=True); sys.stdin.read()", "gave no answer within 0.2 s"),
        ("sys.stdin.readline()\nwhile True: print('.', end='', flush=True)", "gave no answer within 0.2 s"),
        ("sys.stdin.readline()", "gave no answer: its process has ended"),
        ('sys.stdin.readline(); print(\'{"error": "RecursionError: deep"}\')', "math-verify failed: RecursionError"),
    ],
)
def test_one_that_hangs_dies_or_raises_is_a_fault(program, message):
    within = 0.2 if "within" in message else 60
    broken = VerifierProcess(answer_within=within, program=(sys.executable, "-c", READY + program))
    with pytest.raises(EngineError, match=message):
        broken.is_right("5", "5")
    broken.close()
    assert not broken.alive


def test_an_answer_that_keeps_it_from_ending_is_given_up():
    real = VerifierProcess(answer_within=0.5)
    assert real.is_right("5", "5")
    with pytest.raises(EngineError, match="within"):
        real.is_right("5", "9^{9^9}")
    assert not real.alive


def test_one_that_does_not_start_is_a_fault():
    with pytest.raises(EngineError, match="did not start"):
        VerifierProcess(program=(sys.executable, "-c", "raise SystemExit(1)"))


def processes() -> set[int]:
    """The verifiers that run below this process."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    running = {int(pid) for file in children for pid in file.read_text().split()}
    return {pid for pid in running if b"checking.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_threads_share_one_and_it_is_started_anew_when_it_is_gone():
    cases = [("5", str(number), number == 5) for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        verdicts = list(threads.map(lambda case: is_right(case[0], case[1]), cases))
    assert verdicts == [right for *_, right in cases]
    (pid,) = processes()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert is_right("5", "5")
    assert len(processes() - {pid}) == 1


def test_a_fork_has_its_own_and_leaves_the_parents_alone():
    assert is_right("5", "5")
    before = processes()
    turn = verifier._shared()[1]
    turn.acquire()  # as while another thread asks
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            right = is_right("5", "5") and not is_right("5", "6")
            apart = not processes() & before
            verifier._shared()[0].close()
        except BaseException:
            os._exit(2)
        os._exit(0 if right and apart else 1)
    turn.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert processes() == before
    assert is_right("5", "5")


@pytest.mark.long
def test_it_ends_with_its_process():
    code = (
        "from align_echo.wrappers.mathematics import verifier as v\n"
        "assert v.is_right('5', '5')\n"
        "pool, _ = v._shared()\n"
        "with pool.borrowed() as verifier: print(verifier.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert not Path(f"/proc/{int(done.stdout)}").exists()
