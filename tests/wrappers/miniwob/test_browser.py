"""Browsers: found and never downloaded, leased, replaced when they die or hang, ended with their process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.errors import EngineError, MissingDataError, MissingExtraError
from align_echo.wrappers.miniwob import chromium
from align_echo.wrappers.miniwob.env import MiniWoBEnv, pool
from align_echo.wrappers.miniwob.page import start_browser
from tests.wrappers.miniwob.conftest import begin, eventually, family, needs_browser, program, users

TASK = "click-checkboxes/4"


def pid_of(env: MiniWoBEnv) -> int:
    assert env._leased is not None
    return env._leased.pid


# ---------------------------------------------------------------- found


def test_the_named_browser_and_driver_come_before_those_on_the_path(tmp_path, monkeypatch):
    programs = {name: program(tmp_path, name) for name in ("chromium", "chromedriver", "mine", "my-driver")}
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MINIWOB_CHROME_BINARY", raising=False)
    monkeypatch.delenv("MINIWOB_CHROMEDRIVER", raising=False)
    assert chromium.find_chromium() == (programs["chromium"], programs["chromedriver"])
    monkeypatch.setenv("MINIWOB_CHROME_BINARY", programs["mine"])
    monkeypatch.setenv("MINIWOB_CHROMEDRIVER", programs["my-driver"])
    assert chromium.find_chromium() == (programs["mine"], programs["my-driver"])


@pytest.mark.parametrize("missing", ["MINIWOB_CHROME_BINARY", "MINIWOB_CHROMEDRIVER"])
def test_a_missing_browser_or_driver_is_one_line_that_says_what_to_install(missing, tmp_path, monkeypatch):
    for name in ("MINIWOB_CHROME_BINARY", "MINIWOB_CHROMEDRIVER"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere") if name == missing else program(tmp_path, "any"))
    with pytest.raises(MissingDataError, match=r"apt-get install .*chromium chromium-driver") as failure:
        chromium.find_chromium()
    assert "\n" not in str(failure.value)
    assert "nowhere" in str(failure.value)


def test_missing_fonts_are_one_line_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "FONTS", (str(tmp_path),))
    with pytest.raises(MissingDataError, match=r"apt-get install .*fonts-liberation"):
        chromium.find_fonts()


def test_without_the_extra_the_error_is_its_install_line(monkeypatch):
    monkeypatch.setattr(chromium, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[miniwob\]'"):
        start_browser()


# ---------------------------------------------------------------- started, leased, replaced


@pytest.mark.long
@needs_browser
def test_no_driver_is_looked_for_on_the_net(monkeypatch):
    from selenium.webdriver.common import driver_finder, selenium_manager

    def refuse(*_: object) -> None:
        raise AssertionError("Selenium Manager was asked")

    monkeypatch.setattr(selenium_manager.SeleniumManager, "binary_paths", refuse)
    monkeypatch.setattr(driver_finder.DriverFinder, "_binary_paths", refuse)
    browser = start_browser()
    assert browser.run("return 6 * 7;") == 42
    browser.close()


@pytest.mark.long
@needs_browser
def test_a_browser_that_is_given_back_plays_the_next_task():
    first = MiniWoBEnv("test")
    begin(first, TASK)
    pid = pid_of(first)
    begin(first, "click-test/0")
    assert pid_of(first) == pid
    first.close()
    with pytest.raises(EngineError, match="over"):
        first.step("click(80, 100)")
    two = MiniWoBEnv("test")
    begin(two, TASK)
    assert pid_of(two) == pid
    del two  # forgotten without being closed
    three = MiniWoBEnv("test")
    begin(three, TASK)
    assert pid_of(three) == pid
    three.close()


@pytest.mark.long
@needs_browser
def test_a_browser_that_dies_is_a_fault_and_reset_starts_another():
    env = MiniWoBEnv("test")
    before = begin(env, TASK)
    pid = pid_of(env)
    os.killpg(pid, signal.SIGKILL)
    with pytest.raises(EngineError, match="browser") as failure:
        env.step("click(80, 100)")
    assert "\n" not in str(failure.value)
    assert begin(env, TASK) == before
    assert pid_of(env) != pid
    assert family(pid) == set()
    env.close()


@pytest.mark.long
@needs_browser
def test_a_browser_that_hangs_is_a_fault_and_reset_starts_another():
    env = MiniWoBEnv("test")
    before = begin(env, TASK)
    pid = pid_of(env)
    assert env._leased is not None
    env._leased._driver.command_executor.client_config.timeout = 2
    os.killpg(pid, signal.SIGSTOP)
    with pytest.raises(EngineError, match="browser"):
        env.step("click(80, 100)")
    assert family(pid) == set()
    assert begin(env, TASK) == before
    env.close()


@pytest.mark.long
@needs_browser
def test_a_script_that_never_comes_to_an_end_is_a_fault():
    browser = start_browser()
    browser._driver.command_executor.client_config.timeout = 2
    with pytest.raises(EngineError, match="failed at a script"):
        browser.run("while (true) {}")
    assert not browser.alive


@pytest.mark.long
@needs_browser
def test_a_moment_can_be_restored_after_the_browser_died():
    env = MiniWoBEnv("test")
    begin(env, TASK)
    own = env.oracle().expert_action()
    assert own is not None
    seen = env.step(own)[0]
    moment = env.snapshot()
    os.killpg(pid_of(env), signal.SIGKILL)
    with pytest.raises(EngineError):
        env.step("click(80, 100)")
    env.restore(moment)
    assert env.step("nothing")[0].partition("\n")[2] == seen
    env.close()


@pytest.mark.long
@needs_browser
def test_a_process_that_was_forked_off_leaves_its_parents_browser_alone():
    env = MiniWoBEnv("test")
    begin(env, TASK)
    pid = pid_of(env)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            with pytest.raises(EngineError):
                env.step("click(80, 100)")
            env.close()
            pool().close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert pid_of(env) == pid
    assert env.step("click(80, 200)")[0].startswith("Screen")
    env.close()


SCRIPT = """
from align_echo.wrappers.miniwob.env import MiniWoBEnv
env = MiniWoBEnv("test")
env.reset(options={"task": "click-test/0"})
print(env._leased.pid, env._leased._folder, flush=True)
"""


@pytest.mark.long
@needs_browser
def test_the_browser_ends_with_its_process_and_leaves_no_file_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    pid, folder = done.stdout.split()
    assert done.stderr == ""
    assert not Path(folder).exists()
    assert family(int(pid)) == users(folder) == set()
    assert list(tmp_path.iterdir()) == []


STAYS = """
import os, signal
child = os.fork()
if child:
    print(child, flush=True)
signal.pause()
"""


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_browser_ends_with_a_process_that_is_killed_though_one_that_it_forked_off_goes_on(number):
    command = [sys.executable, "-c", SCRIPT + STAYS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        child = int(process.stdout.readline())
        try:
            assert len(family(int(pid))) > 1
            assert Path(folder).exists()
            process.send_signal(number)
            assert process.wait() == -number
            eventually(lambda: not family(int(pid)) and not users(folder) and not Path(folder).exists())
            os.kill(child, 0)  # it is still there
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)
