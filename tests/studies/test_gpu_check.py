"""The check of a GPU goes through all its parts on a CPU with tiny shapes, and says in a line that there is no GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from studies.gpu_check import __main__ as door
from studies.gpu_check import check as gpu_check
from studies.gpu_check import echo
from studies.gpu_check.shapes import Row
from studies.gpu_check.training import ARMS


@pytest.mark.long
def test_the_rehearsal_has_a_row_for_every_part_and_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert gpu_check.main(["--rehearse", "--out", str(out), "--rounds", "1", "--seconds", "1800"]) == 0
    found = json.loads(out.read_text())
    rows = found["rows"]
    assert not [row for row in rows if "fault" in row]
    assert {row["part"] for row in rows} == {
        *("memory", "model", "replies", "decoding", "scorer", "training step", "mismatch"),
        *("echo", "echo, all rounds"),
    }
    assert {row["arm"] for row in rows if row["part"] == "training step"} == set(ARMS)
    visits = [row for row in rows if row["part"] == "echo"]
    assert [(row["weights"], row["arm"]) for row in visits] == [(arm.weights, arm.name) for arm in echo.ARMS]
    assert all(row["seconds"] > row["playing"] > row["model"] > 0 for row in visits)
    divided = [sum(row[kind] for kind in echo.KINDS) for row in visits]
    assert divided == pytest.approx([row["playing"] for row in visits], rel=1e-2)
    draws = {row["arm"]: row["tokens_sampled"] for row in visits}
    assert draws[echo.WAITING] == draws[echo.OVERLAPPED] > draws[echo.GRPO]
    assert all(row["n"] == 1 and row["by_grpo"] > 0 for row in rows if row["part"] == "echo, all rounds")
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


def test_a_visit_without_time_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(echo.Visits, "fits", lambda *_: False)
    out = tmp_path / "found.json"
    assert gpu_check.main(["--rehearse", "--out", str(out), "--part", "echo", "--rounds", "2"]) == 0
    rows = [row for row in json.loads(out.read_text())["rows"] if row["part"].startswith("echo")]
    assert {row["skipped"] for row in rows} == {"not measured: the seconds were over"}
    assert len(rows) == 3 * len(echo.ARMS)
    assert not any("seconds" in row for row in rows)


def test_seconds_of_playing_are_divided_by_the_first_kind_at_a_moment() -> None:
    watch = echo.EngineWatch()
    watch.spans[echo.BOOKKEEPING] = [(0, 5), (6, 9)]
    watch.spans[echo.MODEL] = [(1, 3), (2, 4), (20, 30)]
    watch.spans[echo.RECORDED] = [(1, 2)]
    watch.spans[echo.DRAWING] = [(3.5, 4.5)]
    kinds = {echo.RECORDED: 1, echo.MODEL: 2, echo.DRAWING: 0.5, echo.BOOKKEEPING: 3.5, echo.IDLE: 2}
    assert watch.seconds([(0, 8), (9, 10)]) == pytest.approx(kinds)
    assert watch.steps([(0, 8)]) == {"engine_steps": 2, "replayed_steps": 0}


def test_replayed_and_recorded_steps_are_watched() -> None:
    class Graphs:
        def fits(self, parts: list[int]) -> bool:
            return len(parts) == 1

        def _record(self, key: str, parts: list[int]) -> bool:
            return True

    class Engine:
        _graphs = Graphs()

        def _logits(self, parts: list[int], places: list[int]) -> torch.Tensor:
            if self._graphs.fits(parts):
                assert self._graphs._record("", parts)
            return torch.zeros(len(parts))

        def _admit(self) -> None: ...

        def _step(self) -> None:
            self._logits([0], [0])
            self._logits([0, 1], [1])

    watch, engine = echo.EngineWatch(), Engine()
    watch.follow(engine)  # type: ignore[arg-type]
    engine._step()
    counts = {kind: len(spans) for kind, spans in watch.spans.items()}
    expected = {echo.RECORDED: 1, echo.MODEL: 2, echo.DRAWING: 0, echo.BOOKKEEPING: 1, echo.IDLE: 0}
    assert (counts, len(watch.replayed)) == (expected, 1)


def test_visits_fit_by_the_last_of_the_arm_and_are_summed_up_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    grpo, waiting = (echo.Arm("models", name) for name in (echo.GRPO, echo.WAITING))

    def row(arm: echo.Arm, number: int, seconds: float) -> Row:
        return Row({"model": "a", **arm.key, "round": number}, {"seconds": seconds, "visit_seconds": 2 * seconds})

    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    visits = echo.Visits(110.0, [row(grpo, 1, 9.0), row(grpo, 2, 4.0), row(waiting, 2, 6.0)])
    assert (visits.fits("a", grpo), visits.fits("a", waiting)) == (True, False)
    assert (visits.fits("a", echo.Arm("adapters", echo.GRPO)), visits.fits("b", grpo)) == (False, True)
    assert visits.summary("a", waiting).figures["by_grpo_each"] == [1.5]
    assert visits.summary("a", grpo).figures["n"] == 2
    assert visits.summary("b", grpo).figures == {"skipped": echo.OVER}


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
