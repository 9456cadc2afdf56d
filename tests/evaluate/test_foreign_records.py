"""A resumed run takes no record that is not of it, and no folder of a run is read past its regular files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from align_echo.base.files import LONGEST_LINE
from align_echo.cli.main import main

PLAY = ("evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "2", "--workers", "1", "--out", "run")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Path:
    """A finished run of two episodes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    assert main(PLAY) == 0
    capsys.readouterr()
    return Path("run")


def part(run: Path) -> Path:
    (file,) = (run / "trajectories").glob("*.jsonl")
    return file


def rewrite(run: Path, **changes: object) -> None:
    """Change the first record of a run, as somebody else might."""
    first, *rest = part(run).read_text().splitlines()
    part(run).write_text("\n".join([json.dumps({**json.loads(first), **changes}), *rest]) + "\n")


CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "score": ({"score": 50.0}, "outside of [0, 1]"),
    "no number": ({"score": float("nan")}, "its score is nan"),
    "not that of its last turn": ({"score": 0.25}, "that of its last turn"),
    "won without a turn": ({"score": 0.0, "won": True, "steps": []}, "won without a turn"),
    "a text for a truth": ({"won": "yes"}, "damaged"),
    "a text for a number": ({"score": "1"}, "damaged"),
    "seed": ({"seed": 7}, "its seed is 7, not 0"),
    "split": ({"split": "train"}, "its split is 'train'"),
    "agent": ({"agent": "expert"}, "its agent is 'expert'"),
    "environment": ({"environment": "webshop"}, "its environment is 'webshop'"),
    "interface": (
        {"interface": "mine@0123456789abcdef", "played_under": {"source": "0123456789abcdef", "fingerprint": "f"}},
        "another interface",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_record_that_is_not_of_the_run_is_refused(run, capsys, name):
    changes, reason = CHANGES[name]
    rewrite(run, **changes)
    (run / "summary.json").unlink()
    before = part(run).read_bytes()
    assert main([*PLAY, "--resume"]) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert reason in err
    assert f"{part(run)} line 1" in err
    assert part(run).read_bytes() == before


def test_an_episode_that_is_there_twice_is_refused(run, capsys):
    part(run).write_text(part(run).read_text() * 2)
    assert main([*PLAY, "--resume"]) == 2
    assert "line 3 is no episode of this run: it is there twice" in capsys.readouterr().err


def test_an_impossible_record_is_shown_as_damaged(run, capsys):
    rewrite(run, score=50.0)
    assert main(["view", "run", "--out", "page.html"]) == 0
    assert "line 1 is damaged and left out: its score is 50, outside of [0, 1]" in capsys.readouterr().err


def fifo(file: Path) -> None:
    os.mkfifo(file)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def link(file: Path) -> None:
    outside = Path("outside.jsonl").resolve()
    outside.write_text("{}\n")
    file.symlink_to(outside)


def endless(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(LONGEST_LINE + 2)


ODD = (fifo, device, link, endless)
VERBS = {
    "evaluate --resume": [*PLAY, "--resume"],
    "view": ["view", "run", "--out", "page.html"],
    "show": ["show", "run"],
}


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_file_of_the_folder_is_refused_in_one_line(run, capsys, verb, odd):
    file = part(run)
    file.unlink()
    odd(file)
    assert main(VERBS[verb]) == 2
    err = capsys.readouterr().err.strip()
    assert file.name in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize("odd", [fifo, device, endless], ids=lambda odd: odd.__name__)
@pytest.mark.parametrize("name", ["config.json", "summary.json"])
@pytest.mark.parametrize("verb", [*VERBS, "report"])
def test_odd_files_beside_the_episodes_are_not_waited_for(run, verb, name, odd):
    (run / name).unlink()
    odd(run / name)
    assert main(VERBS.get(verb, ["report", "run", "--out", "page.html"])) in (0, 2)


def test_a_folder_that_is_a_link_out_of_the_run_is_not_resumed(run, capsys):
    (run / "trajectories").rename("elsewhere")
    (run / "trajectories").symlink_to(Path("elsewhere").resolve())
    assert main([*PLAY, "--resume"]) == 2
    assert "leads out of" in capsys.readouterr().err
