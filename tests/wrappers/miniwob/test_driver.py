"""Drivers that are small scripts: refused when they say nothing, ended with this process, let talk as they like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.errors import EngineError
from align_echo.wrappers.miniwob import chromium
from align_echo.wrappers.miniwob.chromium import DriverProcess
from align_echo.wrappers.miniwob.page import SIZE
from tests.wrappers.miniwob.conftest import eventually, family, program, users

LISTENS = 'echo "ChromeDriver was started successfully on port 4321."'
GOES_ON = "sleep 1000 & exec sleep 1000"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of a browser, which has no real Chromium."""
    pytest.importorskip("selenium")
    pytest.importorskip("miniwob")
    folder = tmp_path / "own"

    def made(prefix: str) -> str:
        folder.mkdir()
        return str(folder)

    monkeypatch.setattr(chromium, "find_fonts", lambda: tmp_path)
    monkeypatch.setattr(chromium, "mkdtemp", made)
    return folder


def start(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find_chromium", lambda: (driver, driver))
    chromium.BrowserProcess(SIZE)


def folder_of(tmp_path: Path) -> str:
    folder = tmp_path / "own"
    folder.mkdir()
    return str(folder)


def test_a_driver_that_ends_at_once_is_a_fault_and_leaves_nothing_behind(tmp_path, own, monkeypatch):
    with pytest.raises(EngineError, match=r"does not start with .*: it ended before it listened$"):
        start(program(tmp_path, "driver", "(sleep 1000) &"), monkeypatch)
    assert not own.exists()
    assert users(str(own)) == set()


def test_a_driver_that_finds_its_port_taken_is_started_again(tmp_path):
    """Chromium's driver takes a port that is free for IPv6, and ends where another program has it for IPv4."""
    folder, starts = folder_of(tmp_path), tmp_path / "starts"
    taken = '[ $(wc -l < "$STARTS") -ge 3 ] || { echo "IPv4 port not available. Exiting..."; exit 1; }'
    driver = program(tmp_path, "driver", f'echo started >> "$STARTS"\n{taken}\n{LISTENS}\n{GOES_ON}')
    process = DriverProcess(driver, {**os.environ, "STARTS": str(starts)}, folder, within=60)
    assert (process.port, starts.read_text().count("started")) == (4321, 3)
    assert process.running
    process.end()
    assert not Path(folder).exists()


def test_a_driver_that_is_no_program_is_a_fault_that_says_so(tmp_path, own, monkeypatch):
    text = tmp_path / "driver"
    text.write_text("nothing that can be run")
    text.chmod(0o755)
    with pytest.raises(EngineError, match=r"does not start with .*Exec format error"):
        start(str(text), monkeypatch)
    assert not own.exists()


@pytest.mark.parametrize("says", ["", "yes no", "yes no &", "exec >&-", "trap '' TERM INT HUP"])
def test_a_driver_that_does_not_tell_its_port_is_given_up_and_leaves_nothing_behind(says, tmp_path, own, monkeypatch):
    monkeypatch.setattr(chromium, "ANSWER_WITHIN", 0.5)
    with pytest.raises(EngineError, match=r"it did not say within 0.5 s where it listens$") as failure:
        start(program(tmp_path, "driver", f"{says}\n{GOES_ON}"), monkeypatch)
    assert "\n" not in str(failure.value)
    assert not own.exists()
    assert users(str(own)) == set()


def test_an_interrupt_while_the_driver_starts_leaves_nothing_behind(tmp_path, own, monkeypatch):
    monkeypatch.setenv("OF_TEST", str(os.getpid()))
    with pytest.raises(KeyboardInterrupt):
        start(program(tmp_path, "driver", f"kill -INT $OF_TEST\n{GOES_ON}"), monkeypatch)
    assert not own.exists()
    assert users(str(own)) == set()


def test_what_a_driver_says_later_does_not_stop_it(tmp_path):
    folder = folder_of(tmp_path)
    much = "head -c 1000000 /dev/zero"
    driver = program(tmp_path, "driver", f'{LISTENS}\n{much}; {much} >&2; touch "$MARK"\n{GOES_ON}')
    mark = tmp_path / "mark"
    process = DriverProcess(driver, {**os.environ, "MARK": str(mark)}, folder, within=60)
    assert process.port == 4321
    eventually(mark.exists)
    process.end()


def test_ending_returns_when_all_is_gone_even_what_left_the_group_or_stands_still(tmp_path):
    folder = folder_of(tmp_path)
    script = f"setsid sleep 1000 &\n(setsid sleep 1000 &)\n{LISTENS}\n{GOES_ON}"
    process = DriverProcess(program(tmp_path, "driver", script), {**os.environ, "HOME": folder}, folder, within=60)
    eventually(lambda: len(users(folder)) == 5)  # the keeper and four that sleep
    assert process.running
    os.killpg(process.pid, signal.SIGSTOP)
    process.end()
    assert users(folder) == set()
    assert not Path(folder).exists()
    assert not process.running
    process.end()  # which changes nothing


def test_a_driver_that_ends_takes_along_what_it_started(tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"sleep 1000 &\n{LISTENS}\nexec sleep 1000")
    process = DriverProcess(driver, {**os.environ, "HOME": folder}, folder, within=60)
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not process.running)
    assert users(folder) == set()
    assert not Path(folder).exists()
    process.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_keeper_that_is_told_to_end_ends_the_driver(number, tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"{LISTENS}\n{GOES_ON}")
    process = DriverProcess(driver, {**os.environ, "HOME": folder}, folder, within=60)
    process._keeper.send_signal(number)
    eventually(lambda: not process.running)
    assert users(folder) == set()
    assert not Path(folder).exists()
    process.end()


def test_a_driver_whose_keeper_was_killed_can_still_be_ended(tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"{LISTENS}\n{GOES_ON}")
    process = DriverProcess(driver, {**os.environ, "HOME": folder}, folder, within=60)
    process._keeper.kill()
    eventually(lambda: not process.running)
    assert family(process.pid) != set()
    process.end()
    eventually(lambda: not users(folder))


def test_a_process_that_was_forked_off_can_let_go_and_ends_nothing(tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"{LISTENS}\n{GOES_ON}")
    process = DriverProcess(driver, {**os.environ, "HOME": folder}, folder, within=60)
    pipe = process._keeper.stdin
    assert pipe is not None
    number = pipe.fileno()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            process.leave_to_parent()
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(number)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert process.running
    assert family(process.pid) != set()
    process.end()
    assert users(folder) == set()


def test_a_driver_can_be_ended_though_a_process_that_was_forked_off_has_not_let_go(tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"{LISTENS}\n{GOES_ON}")
    process = DriverProcess(driver, {**os.environ, "HOME": folder}, folder, within=60)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.pause()
    try:
        process.end()
        assert users(folder) == set()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


FORKS = """
import os, signal, sys
from align_echo.wrappers.miniwob.chromium import DriverProcess
DriverProcess.kept = DriverProcess(sys.argv[1], {**os.environ, "HOME": sys.argv[2]}, sys.argv[2], within=60)
if child := os.fork():
    print(child, flush=True)
signal.pause()
"""


@pytest.mark.long
def test_a_driver_ends_with_its_process_though_one_that_was_forked_off_has_not_let_go(tmp_path):
    folder = folder_of(tmp_path)
    driver = program(tmp_path, "driver", f"{LISTENS}\n{GOES_ON}")
    with subprocess.Popen([sys.executable, "-c", FORKS, driver, folder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        pids = {process.pid, child}  # which name the folder as well
        try:
            assert users(folder) - pids
            process.kill()
            process.wait()
            eventually(lambda: not users(folder) - pids and not Path(folder).exists())
        finally:
            os.kill(child, signal.SIGKILL)
