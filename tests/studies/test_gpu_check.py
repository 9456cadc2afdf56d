"""The check of a GPU goes through all its parts on a CPU with tiny shapes, and says in a line that there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from studies.gpu_check import __main__ as door
from studies.gpu_check import check as gpu_check
from studies.gpu_check.training import ARMS


@pytest.mark.long
def test_the_rehearsal_has_a_row_for_every_part_and_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert gpu_check.main(["--rehearse", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    rows = found["rows"]
    assert not [row for row in rows if "fault" in row]
    assert {row["part"] for row in rows} == {
        *("memory", "model", "replies", "decoding", "scorer", "training step", "mismatch"),
    }
    assert {row["arm"] for row in rows if row["part"] == "training step"} == set(ARMS)
    assert all(row["log_odds_apart"] < 1e-2 for row in rows if row["part"] == "scorer")
    assert found["machine"]["torch"] == torch.__version__
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["ratio"] == pytest.approx(last["value"] / last["baseline"], rel=1e-2)


@pytest.mark.long
def test_what_breaks_is_a_row_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no kernel for it")

    monkeypatch.setattr(gpu_check, "judged", broken)
    out = tmp_path / "found.json"
    assert gpu_check.main(["--rehearse", "--out", str(out), "--part", "scorer", "--part", "decoding"]) == 1
    rows = json.loads(out.read_text())["rows"]
    assert {row["fault"] for row in rows if row["part"] == "scorer"} == {"RuntimeError: no kernel for it"}
    assert all("milliseconds" in row for row in rows if row["part"] == "decoding")


def test_without_a_gpu_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "--rehearse" in told.err


def test_a_python_that_lacks_what_it_needs_is_told_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(door, "NEEDED", ("torch", "no_such_package"))
    assert door.main() == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "gpu-check lacks no_such_package in" in told.err
    assert "make gpu-check PYTHON=" in told.err
