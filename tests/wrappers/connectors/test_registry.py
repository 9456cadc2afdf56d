"""Connectors are found by name, also a package's own, wherever the name of an environment is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

import align_echo
from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.registry import Registry
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.catalogue import CONNECTORS, environment, is_trusted, recorded_environment
from align_echo.wrappers.plain import TextEnvironment
from tests.doors import Doors

TOOLS: tuple[dict[str, JsonValue], ...] = ({"type": "function", "function": {"name": "open"}},)
asked: list[str] = []


def connect(name: str) -> TextEnvironment:
    """House of doors by its number of doors."""
    asked.append(name)
    if name == "none":
        raise KeyError(name)
    return TextEnvironment(Doors, return_range=(-4.0, 2.0), summary=f"a house of {name}", tools=TOOLS)


class Opener:
    """Opens the door that the first text names."""

    name = "opener"

    def act(self, view: AgentView) -> AgentReply:
        action = f"open {view.initial_observation.rpartition('The ')[2].split()[0]}"
        return AgentReply(text=action, action=action)


def stray(name: str) -> object:
    """Return no declaration."""
    return Doors


if "houses" not in CONNECTORS.entries():
    CONNECTORS.register("houses", connect)
    CONNECTORS.register("strays", stray)


def test_a_name_behind_a_colon_is_the_connectors():
    spec = environment("houses:two")
    assert (spec.name, spec.summary, spec.tools) == ("houses:two", "a house of two", TOOLS)
    assert environment("houses:two") is spec
    assert asked.count("two") == 1
    env = align_echo.make("houses:two")
    observation, _ = env.reset(options={"task": align_echo.tasks("houses:two")[0]})
    assert "door" in observation


def test_a_name_behind_two_colons_reaches_the_connector_whole():
    assert environment("houses:a:b").summary == "a house of a:b"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("houses", "houses is a connector, followed by a colon and a name: House of doors by its number"),
        ("houses:", "followed by a colon and a name"),
        ("houses:none", "houses:none cannot be used: KeyError: 'none'"),
        ("strays:one", "the connector strays returned a type for 'one', not a TextEnvironment"),
    ],
)
def test_what_a_connector_lacks_is_one_line(name, message):
    with pytest.raises(UsageError, match=message) as error:
        environment(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "one of another package is gymnasium:NAME, minigrid:NAME, .*textworld:NAME"),
        ("minigird:Anything-v0", r"No module named 'minigird'; did you mean minigrid\?$"),
    ],
)
def test_an_unknown_name_names_the_connectors(name, message):
    with pytest.raises(UsageError, match=message):
        environment(name)


def test_a_connector_is_a_function():
    with pytest.raises(UsageError, match="is no connector"):
        CONNECTORS.register("classes", Doors)


def test_a_name_in_a_file_is_trusted_for_an_installed_connector():
    """A connector imports installed packages alone; `module:Name` imports what a file says."""
    assert is_trusted("houses:three")
    assert not is_trusted("unheard_of:House")
    assert recorded_environment("houses:three", "a file", "name it").name == "houses:three"
    with pytest.raises(UsageError, match="imports no module"):
        recorded_environment("unheard_of:House", "a file", "name it")


def test_envs_lists_connectors(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    assert main(["envs"]) == 0
    shown = capsys.readouterr().out
    assert "houses:NAME" in shown
    assert "House of doors by its number of doors" in shown
    assert "gymnasium:NAME" in shown


def test_evaluate_plays_a_connectors_environment(tmp_path: Path):
    out = tmp_path / "out"
    agent = f"{__name__}:Opener"
    assert main(["evaluate", "--env", "houses:two", "--agent", agent, "--tasks", "2", "--out", str(out)]) == 0
    assert "houses:two" in "".join(file.read_text() for file in out.rglob("*.json*"))


def test_ours_are_entry_points_that_import_no_package():
    ours = {name: entry.target for name, entry in CONNECTORS.entries().items() if entry.target}
    assert ours.keys() >= {"gymnasium", "minigrid", "tau2", "textarena", "textworld"}
    assert isinstance(CONNECTORS, Registry)
    assert all(callable(CONNECTORS.get(name)) for name in ours)
