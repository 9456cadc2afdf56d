"""A command that is killed at random moments and gone on with ends with the folder of one that was not disturbed."""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from align_echo.run_dir import RunDir
from tests.kills.comparing import contents, differing, where_differing
from tests.kills.jobs import JOBS, Job
from tests.kills.killing import Tally, kill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are found by /proc")

SMALL = Job(
    "small",
    (
        *(sys.executable, "-m", "align_echo_command", "evaluate", "--env", "archive_task:ARCHIVE"),
        *("--agent", "clerk:Clerk", "--tasks", "20", "--out", "{out}"),
    ),
)


def killed(job: Job, times: int, *, seed: int) -> Tally:
    """In a process of its own: what kills adopts orphans, and must take no other test's processes for them."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        return apart.submit(kill, job, times, seed=seed).result()


def hold(tally: Tally) -> None:
    assert tally.control, "two runs that nobody disturbed are equal"
    assert (tally.equal, tally.clean) == (tally.runs, tally.runs), tally.wrong


@pytest.mark.long
def test_an_evaluation_that_is_killed_again_and_again_ends_as_one_that_was_not() -> None:
    hold(killed(SMALL, 2, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_every_job_that_is_killed_ends_as_one_that_was_not(name: str) -> None:
    hold(killed(JOBS[name], 5, seed=1))


@pytest.mark.long
def test_a_command_that_breaks_something_when_it_is_killed_is_told_of() -> None:
    """The control of these tests: a command that keeps count of its lives."""
    counts = "import pathlib, sys, time; out = pathlib.Path(sys.argv[1]); out.mkdir(exist_ok=True)\n"
    counts += "file = out / 'lives'; file.write_text(file.read_text() + '1' if file.exists() else '1')\n"
    counts += "end = 10 * time.process_time()\nwhile time.process_time() < end: pass"  # whatever its start takes
    tally = killed(Job("counts", (sys.executable, "-c", counts, "{out}")), 1, seed=0)
    assert tally.control
    assert tally.equal < tally.runs
    assert tally.wrong["holds something else: lives"]


def test_a_difference_is_told_by_its_name_and_the_rounding_of_an_engine_is_none(tmp_path: Path) -> None:
    def signals(name: str, loss: float, mismatch: float) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        line = {"step": 1, "critic/loss": loss, "critic/mismatch/from_turn_0": mismatch}
        (folder / "signals.jsonl").write_text(json.dumps(line) + "\n")
        return folder

    first, rounded = signals("first", 0.5, 2.1e-7), signals("rounded", 0.5, 2.6e-7)
    learned, apart = signals("learned", 0.25, 2.1e-7), signals("apart", 0.5, 0.3)
    assert differing(contents(first), contents(rounded)) == []
    for other, told in ((learned, "line 1.critic/loss: 0.5 and 0.25"), (apart, "line 1.critic/mismatch/from_turn_0")):
        (path,) = differing(contents(first), contents(other))
        (line,) = where_differing(first / path, other / path)
        assert line.startswith(told)


def test_a_run_killed_while_it_wrote_its_very_first_file_is_begun_anew_by_the_same_command(tmp_path: Path) -> None:
    half = tmp_path / f".config.json.{'0' * 16}"
    half.write_text('{"comm')
    RunDir(tmp_path, {}).check()
    RunDir(tmp_path, {"command": "evaluate"}).begin().close()
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]
