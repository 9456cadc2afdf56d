"""Things by name: where they come from, what is said of a wrong name, and what is imported when."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import align_echo
from align_echo.agents.catalogue import AGENTS, agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.models import ScriptedModel
from align_echo.registry import Registry
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment
from align_echo.wrappers.plain import TextEnvironment
from tests.doors import Doors

HERE = Path(__file__).parent


def read(name: str, thing: object) -> str:
    if not isinstance(thing, str):
        raise UsageError(f"{name} is no text")
    return thing


@pytest.fixture
def words() -> Registry[str]:
    return Registry("word", "align_echo.no_such_group", read)


def test_ours_are_found_through_the_door_that_is_open_to_all():
    entry = ENVIRONMENTS.entries()["alfworld"]
    assert (entry.target, entry.origin) == ("align_echo.wrappers.alfworld:SPEC", f"align-echo {align_echo.__version__}")
    assert environment("alfworld") is environment("align_echo.wrappers.alfworld:SPEC")
    assert {"vanilla", "novice", "expert"} <= set(AGENTS.entries())


def test_a_wrong_name_gets_the_nearest_ones():
    with pytest.raises(UsageError, match=r"unknown environment 'alfwrld'; did you mean alfworld\?"):
        environment("alfwrld")
    with pytest.raises(UsageError, match=r"unknown agent 'vanila'; did you mean vanilla\?"):
        agent_spec("vanila")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module_at_all:X", "cannot be imported: ModuleNotFoundError: No module named"),
        ("tests.doors:Dors", "has no Dors; did you mean Doors?"),
        ("tests.doors:REFUSED", "an environment is a gymnasium.Env class"),
        ("tests.doors:", "has no "),
    ],
)
def test_what_cannot_be_found_in_a_module_is_told_in_one_line(target, message):
    with pytest.raises(UsageError) as refusal:
        environment(target)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("thing", [Doors, TextEnvironment(Doors), 3])
def test_a_thing_in_the_place_of_its_name_is_refused_in_one_line(thing):
    with pytest.raises(UsageError, match=r"an environment is given by its name, not as an? .*align_echo\.register"):
        environment(thing)
    with pytest.raises(UsageError, match="an agent is given by its name"):
        AGENTS.get(thing)


def test_a_registered_name_is_known_in_this_program(words):
    words.register("greeting", "hello")
    assert words.get("greeting") == "hello"
    assert words.entries()["greeting"].origin == "this program"
    with pytest.raises(UsageError, match="already"):
        words.register("greeting", "good day")
    with pytest.raises(UsageError, match="no text"):
        words.register("number", 1)
    assert "number" not in words.entries()


def test_an_environment_of_ones_own_is_made_by_its_registered_name():
    align_echo.register("doors of this test", Doors)
    env = align_echo.make("doors of this test")
    assert env.reset(options={"task": "3"})[1]["task_id"] == "3"
    with pytest.raises(UsageError, match="already"):
        align_echo.register("alfworld", Doors)


class Silent:
    """Says nothing at all."""

    name = "silent"

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text="", action=None)


class Needy(Silent):
    def __init__(self, wish: str) -> None:
        self.wish = wish


def test_an_agent_is_a_class_that_is_made_without_arguments():
    spec = agent_spec("tests.test_registry:Silent")
    assert (spec.about, spec.asks_model) == ("Says nothing at all", False)
    setting = AgentSetting(environment("alfworld"), "train")
    assert spec.build(setting).name == "silent"
    with pytest.raises(UsageError, match="made without arguments"):
        agent_spec("tests.test_registry:Needy").build(setting)


class Raises(Silent):
    def __init__(self) -> None:
        raise RuntimeError("no engine\nof mine")


class Unread(ChatAgent):
    """Lacks `read`, which a chat agent needs."""

    name = "unread"

    def conversation(self, view):
        return []


def need_a_wish(setting: AgentSetting) -> Needy:
    return Needy()  # type: ignore[call-arg]


SPEC = AgentSpec("mine", "Mine", False, need_a_wish)


@pytest.mark.parametrize("name", ["Raises", "Unread", "SPEC"])
def test_an_agent_that_cannot_be_made_is_one_line(name):
    setting = AgentSetting(environment("alfworld"), "train", model=ScriptedModel([]))
    named = f"the agent tests.test_registry:{name} cannot be made"
    with pytest.raises(UsageError, match=rf"^{named}: \w+Error: .+$") as refused:
        agent_spec(f"tests.test_registry:{name}").build(setting)
    assert "\n" not in str(refused.value)


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two environments of an installed package: one that works, and one whose module cannot be imported."""
    about = tmp_path / "strangers-2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 2.0\n")
    (about / "entry_points.txt").write_text("[align_echo.environments]\nlift = strangers:Lift\nbroken = no_such:X\n")
    (tmp_path / "strangers.py").write_text(LIFT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


LIFT = """
import gymnasium
print("imported")

class Lift(gymnasium.Env):
    \"\"\"Go up.\"\"\"
    def reset(self, *, seed=None, options=None):
        return "You are in a lift.", {}
    def step(self, action):
        return "Up.", 1.0, True, False, {}
"""


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_is_listed_without_being_imported(strangers):
    code = "from align_echo.wrappers.catalogue import ENVIRONMENTS; print(ENVIRONMENTS.entries()['lift'])"
    assert python(code, strangers) == "RegistryEntry(name='lift', target='strangers:Lift', origin='strangers 2.0')\n"


def test_an_installed_environment_has_one_name_however_it_is_asked_for(strangers):
    code = "import align_echo; from align_echo.wrappers.catalogue import environment as of; "
    code += "print(of('strangers:Lift').name, of('lift').name, of('lift').contract.environment)"
    assert python(code, strangers).splitlines()[-1] == "lift lift lift"


def test_envs_lists_what_came_from_where_and_what_cannot_be_used(strangers):
    printed = python("from align_echo.cli.main import main; main(['envs'])", strangers)
    lines = {line.split()[0]: line for line in printed.splitlines() if line.strip()}
    assert "Go up" in lines["lift"]
    assert "strangers 2.0" in lines["lift"]
    assert "cannot be imported" in printed
    assert f"align-echo {metadata.version('align-echo')}" in lines["alfworld"]
