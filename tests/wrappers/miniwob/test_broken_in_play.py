"""A browser that is killed, frozen or kept busy in mid-episode: the episode is tried again, the others go on, nothing
of it is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from align_echo.wrappers.miniwob.env import MiniWoBEnv, pool
from tests.wrappers.miniwob.conftest import eventually, family, needs_browser, users

TASKS = ["click-test/0", "click-checkboxes/4", "click-button/1"]
BROKEN = TASKS[1]


def of_kind(browser: BrowserProcess, kind: str) -> int:
    """The process id of one of the browser's processes."""
    for pid in family(browser.pid):
        if kind.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError(f"there is no {kind}")


def keep_busy(browser: BrowserProcess) -> None:
    browser.run("setTimeout(() => { while (true) {} });")


def ask(browser: BrowserProcess) -> None:
    browser.run("setTimeout(() => { alert('Are you there?'); });")


def keeper_of(browser: BrowserProcess) -> int:
    assert browser._process is not None
    return browser._process._keeper.pid


def freeze_all(browser: BrowserProcess) -> None:
    os.kill(keeper_of(browser), signal.SIGSTOP)
    os.killpg(browser.pid, signal.SIGSTOP)


TROUBLES: dict[str, Callable[[BrowserProcess], None]] = {
    "the browser is killed": lambda browser: os.killpg(browser.pid, signal.SIGKILL),
    "the browser is frozen": lambda browser: os.killpg(browser.pid, signal.SIGSTOP),
    "a script of the page never ends": keep_busy,
    "the page asks": ask,
    "the driver is killed": lambda browser: os.kill(browser.pid, signal.SIGKILL),
    "the driver is frozen": lambda browser: os.kill(browser.pid, signal.SIGSTOP),
    "the tab is killed": lambda browser: os.kill(of_kind(browser, "--type=renderer"), signal.SIGKILL),
    "the tab is frozen": lambda browser: os.kill(of_kind(browser, "--type=renderer"), signal.SIGSTOP),
    "the keeper is killed": lambda browser: os.kill(keeper_of(browser), signal.SIGKILL),
    "the keeper and the browser are frozen": freeze_all,
}
QUICK = ("the browser is killed", "a script of the page never ends")


class Saboteur:
    """Plays as the expert does, and makes trouble on the first turn of one task, so many times."""

    name = "saboteur"

    def __init__(self, trouble: Callable[[BrowserProcess], None], times: int) -> None:
        self.env = MiniWoBEnv("test", step_limit=10)
        self.left = times
        self.broken: list[tuple[int, str]] = []
        self._trouble = trouble

    def act(self, view: AgentView) -> AgentReply:
        action = self.env.oracle().expert_action() or "finished()"
        if view.task_id == BROKEN and not view.turns and self.left:
            self.left -= 1
            browser = self.env._leased
            assert browser is not None
            assert browser._driver is not None
            browser._driver.command_executor.client_config.timeout = 3
            self.broken.append((browser.pid, browser._folder))
            self._trouble(browser)
        return AgentReply(text=action, action=action)


def nothing_left(agent: Saboteur) -> bool:
    return all(not family(pid) and not users(folder) and not Path(folder).exists() for pid, folder in agent.broken)


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize(
    "trouble", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in TROUBLES]
)
def test_an_episode_whose_browser_breaks_is_tried_again_and_the_others_go_on(trouble: str) -> None:
    agent = Saboteur(TROUBLES[trouble], times=1)
    played = run_tasks(lambda: agent.env, agent, TASKS, split="test")
    assert len(agent.broken) == 1
    assert [episode.fault for episode in played] == [None] * 3
    assert [episode.won for episode in played] == [True] * 3
    pool().close()
    eventually(lambda: nothing_left(agent))


@needs_browser
@pytest.mark.slow
def test_an_episode_whose_browser_breaks_twice_is_a_fault_of_the_environment_and_the_others_go_on() -> None:
    agent = Saboteur(TROUBLES["the browser is killed"], times=2)
    played = run_tasks(lambda: agent.env, agent, TASKS, split="test")
    assert len(agent.broken) == 2
    assert [episode.fault is None for episode in played] == [True, False, True]
    fault = played[1].fault
    assert fault is not None
    assert (fault.source, fault.error) == ("environment", "EngineError")
    assert "browser" in fault.message
    assert "\n" not in fault.message
    pool().close()
    eventually(lambda: nothing_left(agent))
