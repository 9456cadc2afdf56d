"""Modules that a user names in the current folder: found for who may, and no path of Python has the folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import pytest

import align_echo
from align_echo.agents.catalogue import AGENTS, agent_spec
from align_echo.agents.novice_model import NoviceModel
from align_echo.errors import UsageError
from align_echo.registry import NamedModuleFinder, Registry, _entry_points
from align_echo.types import AgentView
from align_echo.workers.shipping import RolloutSpec, pack, unpack
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment, recorded_environment
from tests.report.view.episodes import episode

KIOSK = """
import gymnasium
from kiosk_words import GREETING

class Kiosk(gymnasium.Env):
    def reset(self, *, seed=None, options=None):
        return GREETING, {}

    def step(self, action):
        from kiosk_later import closing
        return closing(), 1.0, True, False, {}

class Clerk:
    name = "clerk"

    def act(self, view):
        import importlib
        from align_echo.types import AgentReply
        action = importlib.import_module("kiosk_reply").ACTION
        return AgentReply(text=action, action=action)

gymnasium.register(id="Kiosk-v0", entry_point="kiosk_hidden:Hidden")
"""
BESIDE = {
    "kiosk": KIOSK,
    "kiosk_words": "GREETING = 'Good day.'",
    "kiosk_later": "def closing():\n    return 'Closed.'",
    "kiosk_reply": "ACTION = 'ask'",
    "kiosk_hidden": "from kiosk import Kiosk\n\nclass Hidden(Kiosk):\n    pass",
}


@pytest.fixture(autouse=True)
def kiosk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's folder with an environment, an agent and modules of their own, in which the program stands."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in BESIDE.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    forget(monkeypatch)
    yield folder
    gymnasium.registry.pop("Kiosk-v0", None)
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave this process as one in which no module was named."""
    for name in BESIDE:
        sys.modules.pop(name, None)
    monkeypatch.setattr("align_echo.registry._finder", NamedModuleFinder())
    others = [finder for finder in sys.meta_path if not isinstance(finder, NamedModuleFinder)]
    monkeypatch.setattr(sys, "meta_path", others)
    for registry in (ENVIRONMENTS, AGENTS):
        known = {name: thing for name, thing in registry._known.items() if not name.startswith("kiosk")}
        monkeypatch.setattr(registry, "_known", known)


def test_a_named_module_is_played_with_what_lies_beside_it_early_and_late(monkeypatch, tmp_path):
    before = list(sys.path)
    env = align_echo.make("kiosk:Kiosk")
    monkeypatch.chdir(tmp_path)  # what is found later is found where the name was said
    assert env.reset()[0] == "Good day."
    assert env.step("ask")[0] == "Closed."
    view = AgentView(task_id="", action_format="", goal="", rules="", initial_observation="")
    clerk = agent_spec("kiosk:Clerk").build(None)  # type: ignore[arg-type]
    assert clerk.act(view).text == "ask"
    assert sys.path == before


def test_nobody_else_finds_what_lies_beside_a_named_module(kiosk):
    (kiosk / "kiosk_decoy.py").write_text("open('RAN', 'w')")
    align_echo.make("kiosk:Kiosk")
    assert find_spec("kiosk_decoy") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("kiosk_decoy")
    assert not Path("RAN").exists()


def test_an_environment_that_gymnasium_imports_later_is_found(kiosk):
    env = align_echo.make("kiosk:Kiosk-v0")
    assert env.reset()[0] == "Good day."


def test_an_installed_package_whose_module_is_gone_gets_none_from_the_current_folder(kiosk, tmp_path, monkeypatch):
    about = tmp_path / "shops-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shops\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[align_echo.no_such_group]\nshop = kiosk:Clerk\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _entry_points.cache_clear()
    try:
        shops: Registry[object] = Registry("shop", "align_echo.no_such_group", lambda name, thing: thing)
        with pytest.raises(UsageError, match="No module named 'kiosk'"):
            shops.get("shop")
        assert isinstance(shops.get("kiosk:Clerk"), type)
    finally:
        monkeypatch.undo()
        _entry_points.cache_clear()


def test_a_module_that_could_not_be_imported_is_found_in_the_next_folder(kiosk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="No module named 'kiosk'"):
        environment("kiosk:Kiosk")
    monkeypatch.chdir(kiosk)
    assert environment("kiosk:Kiosk").name == "kiosk:Kiosk"


def test_another_process_finds_what_is_imported_later(kiosk, monkeypatch, tmp_path):
    spec, agent = environment("kiosk:Kiosk"), agent_spec("kiosk:Clerk").build(None)  # type: ignore[arg-type]
    packed, _ = pack(RolloutSpec(lambda: spec.make("train"), agent, "train", "", 0))
    forget(monkeypatch)
    monkeypatch.chdir(tmp_path)
    work = unpack(packed, lambda facts: NoviceModel("alfworld", "novice"))
    view = AgentView(task_id="", action_format="", goal="", rules="", initial_observation="")
    assert work.agent.act(view).text == "ask"
    env = work.make_env()
    assert env.reset()[0].endswith("Good day.")
    assert env.step("ask")[0] == "Closed."


# ---------------------------------------------------------------- names that files say


@pytest.mark.parametrize("name", ["kiosk:Kiosk", "os:abort", "kiosk:Kiosk-v0", "kiosk:CartPole-v1", "json:loads"])
def test_a_file_that_names_a_module_imports_none(name):
    with pytest.raises(UsageError, match=rf"run/config.json names the environment '{name}'.* add --env {name}"):
        recorded_environment(name, "run/config.json", f"add --env {name}")
    with pytest.raises(UsageError, match=rf"run/config.json names the agent '{name}'"):
        AGENTS.recorded(name, "run/config.json", "")
    assert "kiosk" not in sys.modules


def test_a_file_may_name_what_a_user_named_before():
    assert environment("kiosk:Kiosk") is recorded_environment("kiosk:Kiosk", "run/config.json", "")
    assert environment("kiosk:Kiosk-v0") is recorded_environment("kiosk:Kiosk-v0", "run/config.json", "")
    with pytest.raises(UsageError, match="names the environment 'kiosk:Clerk'"):
        recorded_environment("kiosk:Clerk", "run/config.json", "")


def test_a_metric_over_read_episodes_imports_no_module(tmp_path):
    with pytest.raises(UsageError, match=r"a trajectory names the environment 'kiosk:Kiosk'.*align_echo\.make"):
        align_echo.consecutive_invalid_share([episode(environment="kiosk:Kiosk")])
    assert "kiosk" not in sys.modules


def test_a_declaration_that_is_refused_names_its_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declared = "TextEnvironment(lambda: None, splits={'train': [3, 3], 'test': [4]})"
    Path("twofold.py").write_text(f"import align_echo\nENV = align_echo.{declared}\n")
    with pytest.raises(UsageError, match=r"module twofold .* the split 'train' names the task '3' 2 times"):
        environment("twofold:ENV")
