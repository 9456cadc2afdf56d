"""What ships of ALFWorld: the same as its own packages make, and enough to play without them."""

from __future__ import annotations

import sys
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import align_echo
from align_echo.cli.main import main
from align_echo.errors import EngineError, MissingExtraError
from align_echo.rollout.session import base_env
from align_echo.wrappers import alfworld
from align_echo.wrappers.alfworld import fast, has_expert
from align_echo.wrappers.alfworld.build_data import listed_game, tables_text
from align_echo.wrappers.alfworld.data import load_embedded as listed
from align_echo.wrappers.alfworld.fast import shipped
from align_echo.wrappers.alfworld.fast.compiler import compile_game
from align_echo.wrappers.alfworld.games import FILE
from align_echo.wrappers.alfworld.oracle import GameSpec
from align_echo.wrappers.alfworld.spec import TASK_TYPES, task_type

HINT = r"pip install '\.\[alfworld\]' in a checkout"


@pytest.fixture
def base_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the extra brings cannot be imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("alfworld", "textworld", "tatsu", "fast_downward"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("alfworld", "textworld", "tatsu", "fast_downward"):
        monkeypatch.setitem(sys.modules, name, None)


def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(str(resources.files(fast.__name__).joinpath(shipped.FILE)))


def compiled_as_shipped(task_id: str) -> bool:
    game = listed_game(task_id)
    form = shipped.shipped_form(game)
    return form is not None and shipped.as_json(form) == shipped.as_json(
        compile_game(game.domain, game.grammar, game.problem)
    )


def test_the_tables_are_alfworlds():
    assert resources.files(alfworld.__name__).joinpath(FILE).read_text("utf-8") == tables_text()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_game_ships_as_it_compiles(kind):
    assert compiled_as_shipped(next(id_ for id_ in listed().ids("valid_seen") if task_type(id_) == kind))


@pytest.mark.slow
def test_every_game_ships_as_it_compiles():
    assert [id_ for id_ in listed().entries if not compiled_as_shipped(id_)] == []


def test_all_listed_games_ship_and_no_other():
    with archive() as games:
        assert len(set(games.namelist())) == len(games.namelist()) == len(listed().entries)
        assert {shipped.archive_name(listed_game(id_)) for id_ in list(listed().entries)[::20]} <= set(games.namelist())


@pytest.mark.usefixtures("base_install")
def test_an_embedded_game_is_won_without_the_packages(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    env = align_echo.make("alfworld", split="train")
    _, info = env.reset(options={"task": listed().ids("train")[7]})
    oracle: Any = base_env(env).oracle()
    route = oracle.route()
    assert route
    assert oracle.distance() == len(route)
    for action in route:
        _, _, _, _, info = env.step(action)
    assert info["won"]
    assert "textworld" not in {name for name, module in sys.modules.items() if module}


@pytest.mark.usefixtures("base_install")
def test_without_the_packages_the_error_is_their_install_line(tmp_path):
    env = align_echo.make("alfworld", split="train")
    env.reset(seed=0)
    for call in (base_env(env).oracle().expert_action, lambda: has_expert(listed().ids("train")[0])):
        with pytest.raises(MissingExtraError, match=f"ALFWorld's expert needs an extra: {HINT}"):
            call()
    with pytest.raises(MissingExtraError, match=f"ALFWorld's engine textworld needs an extra: {HINT}"):
        align_echo.make("alfworld", split="train", engine="textworld")
    (tmp_path / "json_2.1.1").mkdir()
    with pytest.raises(MissingExtraError, match=f"leave --data-root out to play the embedded ones.*{HINT}"):
        align_echo.tasks("alfworld", split="train", data_root=tmp_path)


@pytest.mark.usefixtures("base_install")
def test_the_agent_expert_is_refused_before_anything_is_written(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["evaluate", "--env", "alfworld", "--agent", "expert", "--tasks", "2", "--out", str(out)]) == 2
    assert "ALFWorld's expert needs an extra" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_archive_is_one_clear_line(damage, tmp_path, monkeypatch):
    game = listed_game(listed().ids("train")[0])
    whole = (resources.files(fast.__name__) / shipped.FILE).read_bytes()
    with archive() as games:
        start = games.getinfo(shipped.archive_name(game)).header_offset + 200
    (tmp_path / shipped.FILE).write_bytes(
        whole[: len(whole) // 2] if damage == "cut" else whole[:start] + b"spoilt" + whole[start + 6 :]
    )
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    with pytest.raises(EngineError, match=r"compiled ALFWorld games are not readable .*reinstall"):
        shipped.shipped_form(game)


def test_another_game_has_no_form_that_ships():
    game = listed_game(listed().ids("train")[0])
    assert shipped.shipped_form(GameSpec(game.domain, game.grammar + "\n", game.problem)) is None


def test_the_same_games_give_the_same_archive(tmp_path):
    games = [listed_game(id_) for id_ in listed().ids("train")[:2]]
    forms = {shipped.archive_name(game): form for game in games if (form := shipped.shipped_form(game))}
    for name in ("one.zip", "two.zip"):
        shipped.write_archive(dict(reversed(forms.items())) if name == "two.zip" else forms, Path(tmp_path / name))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
