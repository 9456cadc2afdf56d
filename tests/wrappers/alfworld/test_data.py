"""Where games come from: the official layout, the embedded cache, and clear words when something is missing."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from align_echo.errors import EngineError, MissingDataError, UsageError
from align_echo.wrappers.alfworld import data, data_source, make_env, task_ids
from align_echo.wrappers.alfworld import data as manifest
from align_echo.wrappers.alfworld.data import OfficialGames
from align_echo.wrappers.alfworld.spec import GAME, TRAJECTORY


@pytest.fixture(scope="module")
def some_ids():
    return manifest.load_embedded().ids("valid_seen")[::20]


@pytest.fixture
def official(tmp_path, some_ids):
    """A data folder as ALFWorld's download makes it."""
    for task_id in some_ids:
        folder = manifest.load_embedded().folder(task_id)
        shutil.copytree(folder, tmp_path / "json_2.1.1" / task_id)
    return tmp_path


def edit(path: Path, **changes: object) -> None:
    record = json.loads(path.read_text())
    record.update(changes)
    path.write_text(json.dumps(record))


def test_an_official_folder_is_listed_and_played(official, some_ids):
    assert task_ids(split="valid_seen", data_root=official) == sorted(some_ids)
    env = make_env(split="valid_seen", data_root=official, step_limit=None)
    ours = make_env(split="valid_seen", data_root=None, step_limit=None)
    observation, info = env.reset(options={"task": some_ids[0]})
    assert info["task_id"] == some_ids[0]
    assert observation == ours.reset(options={"task": some_ids[0]})[0]


def test_alfworld_data_is_used_when_it_holds_games(official, some_ids, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(official))
    assert task_ids(split="valid_seen", data_root=None) == sorted(some_ids)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_an_alfworld_data_without_games_is_not_passed_over(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / name))
    with pytest.raises(MissingDataError, match=r"ALFWORLD_DATA .*expected .*json_2\.1\.1.* unset it to play"):
        task_ids(split="valid_unseen", data_root=None)


def test_the_folder_that_alfworld_itself_exports_means_embedded_games(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / ".cache" / "alfworld"))
    assert len(task_ids(split="valid_unseen", data_root=None)) == 134


def test_it_says_which_games_are_played(official, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    assert data_source(data_root=None) == "embedded games, generator 1"
    assert data_source(data_root=official) == f"official games at {official}"
    monkeypatch.setenv("ALFWORLD_DATA", str(official))
    assert data_source(data_root=None) == f"official games at {official}"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: edit(folder / "game.tw-pddl", solvable=False),
        lambda folder: edit(folder / "traj_data.json", task_type="pick_and_place_with_movable_recep"),
        lambda folder: (folder / "game.tw-pddl").write_text("{"),
        lambda folder: (folder / "game.tw-pddl").unlink(),
        lambda folder: folder.parent.rename(folder.parent.with_name("pick_and_place_simple-AppleSliced-None-Pan-1")),
        lambda folder: folder.parent.rename(folder.parent.with_name("pick_and_place_with_movable_recep-A-B-C-1")),
    ],
)
def test_games_that_alfworld_leaves_out_are_left_out(official, some_ids, spoil):
    assert len(task_ids(split="valid_seen", data_root=official)) == len(some_ids)
    spoil(official / "json_2.1.1" / some_ids[0])
    assert task_ids(split="valid_seen", data_root=official) == sorted(some_ids[1:])


def test_a_listing_is_remembered_but_follows_changes(official, some_ids, monkeypatch):
    first = task_ids(split="valid_seen", data_root=official)
    with monkeypatch.context() as patch:
        patch.setattr(data, "_is_playable", lambda folder: pytest.fail("a known listing was read again"))
        assert task_ids(split="valid_seen", data_root=official) == first
    shutil.rmtree(official / "json_2.1.1" / some_ids[1])
    assert task_ids(split="valid_seen", data_root=official) == sorted({*some_ids} - {some_ids[1]})


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_a_missing_split_is_named(official, split):
    with pytest.raises(MissingDataError, match=split) as caught:
        task_ids(split=split, data_root=official)
    assert "\n" not in str(caught.value)


def test_a_folder_without_games_says_what_was_expected(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        make_env(split="train", data_root=tmp_path, step_limit=None)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path / "json_2.1.1") in message
    assert "game.tw-pddl" in message
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("bad", ["", "valid_seen", "../../../etc/passwd", "valid_seen/../valid_seen", "a/b/c"])
def test_an_unknown_id_is_refused(official, bad):
    for source in (manifest.load_embedded(), OfficialGames(official / "json_2.1.1")):
        with pytest.raises(UsageError, match=r"no .*ALFWorld task"):
            source.folder(bad)


def test_an_id_cannot_lead_out_of_the_data(official, some_ids):
    shutil.copytree(official / "json_2.1.1" / some_ids[0], official / "elsewhere" / "trial")
    with pytest.raises(UsageError, match=r"no .*ALFWorld task"):
        OfficialGames(official / "json_2.1.1").folder("../elsewhere/trial")


# ---------------------------------------------------------------- the cache of embedded games


def test_a_damaged_cache_entry_is_made_again(some_ids):
    folder = manifest.load_embedded().folder(some_ids[0])
    whole = (folder / GAME).read_bytes()
    for damage in (whole[:1000], b"", b"\xff\xfe", whole.replace(b"mug", b"jug", 1) + b" "):
        (folder / GAME).write_bytes(damage)
        assert (manifest.load_embedded().folder(some_ids[0]) / GAME).read_bytes() == whole
    (folder / TRAJECTORY).unlink()
    assert (manifest.load_embedded().folder(some_ids[0]) / TRAJECTORY).is_file()


def test_a_game_that_differs_from_the_list_is_refused(some_ids, monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    wrong = manifest.ListedGame(some_ids[0], "0" * 16, 5)
    listed = manifest.EmbeddedGames(manifest.load_embedded().versions, {some_ids[0]: wrong})
    with pytest.raises(EngineError) as caught:
        listed.folder(some_ids[0])
    message = str(caught.value)
    assert some_ids[0] in message
    assert "alfworld 0.4.2" in message
    assert "\n" not in message


def _make(arguments):
    cache, task_id = arguments
    os.environ["ALIGN_ECHO_CACHE"] = cache
    folder = manifest.load_embedded().folder(task_id)
    return manifest.digest({name: (folder / name).read_text() for name in (GAME, TRAJECTORY)})


def test_many_processes_make_the_same_game_at_once(tmp_path, some_ids):
    with ProcessPoolExecutor(4) as pool:
        digests = set(pool.map(_make, [(str(tmp_path), some_ids[0])] * 8))
    assert digests == {manifest.load_embedded().entries[some_ids[0]].digest}
    assert not list(tmp_path.rglob(".*"))
