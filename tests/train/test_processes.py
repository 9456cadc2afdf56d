"""Runs on two processes beside runs on one, as a launcher starts them: the same losses and weights, and one folder."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from align_echo.base import halting
from align_echo.errors import TrainingError
from align_echo.run_dir import newest_checkpoint
from align_echo.train import processes
from align_echo.train.config import checked_config, merged, method
from align_echo.train.run import TrainingRun
from tests.models.local.tiny import tiny_model, tiny_tokenizer

ROOT = Path(__file__).parents[2]
GRADED = "studies.graded"

SMALL: dict[str, Any] = {
    "env": f"{GRADED}:Hall",
    "steps": 3,
    "save_every": 1,
    "threads": 1,
    "optimising": {"lr": 1e-3},
    "step": {"tokens_per_batch": 512},
    "collecting": {
        **{"tasks": 2, "samples": 3, "turns": 2, "reply_tokens": 4, "critique_tokens": 6},
        "workers": 1,  # a draw may depend on the rounding of how many are drawn at once
    },
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def values_of(name: str, model: str, **changes: Any) -> dict[str, Any]:
    recipe = {"method": f"{GRADED}:{name.upper()}"}
    values = merged(merged(merged(method(name), SMALL), recipe), {"model": model, **changes})
    return merged(values, {"optimising": {"critic_lr": 1e-3 if name == "echo" else None}})


def launched(values: dict[str, Any], folder: Path, *more: str) -> subprocess.Popen[str]:
    """A run on two processes."""
    config = folder.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    command += ["align_echo_command", "train", "--config", str(config), "--out", str(folder), *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def on_two(values: dict[str, Any], folder: Path, *more: str) -> str:
    """What a run on two processes prints."""
    process = launched(values, folder, *more)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def on_one(values: dict[str, Any], folder: Path, *, resume: bool = False) -> None:
    TrainingRun(checked_config(values, "test"), folder, resume=resume).train(lambda step, signals: None)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*/*model.safetensors"))
    assert files
    return {f"{file.parent.name} {name}": tensor for file in files for name, tensor in load_file(file).items()}


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "signals.jsonl").read_text().splitlines()]
    return [line.get("loss", sum(line.get(f"{role}/loss", 0) for role in ("policy", "critic"))) for line in lines]


def check_same(folder: Path, other: Path, *, within: float) -> None:
    first, second = weights(folder), weights(other)
    assert first.keys() == second.keys()
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < within
    assert losses(folder) == pytest.approx(losses(other), abs=1e-6)
    assert any(signal > 0 for signal in norms(folder)), "nothing was learned, which is the same everywhere"


def norms(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "signals.jsonl").read_text().splitlines()]
    return [value for line in lines for name, value in line.items() if name.split("/")[-1] == "grad_norm"]


@pytest.mark.long
def test_two_processes_go_on_with_a_run_of_one_and_learn_what_it_does(model, tmp_path):
    values = values_of("icrl", model)
    on_one(values, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "summary.json").unlink()
    (tmp_path / "two" / "checkpoints" / "checkpoint-3" / "trainer_state.json").unlink()
    (tmp_path / "two" / "checkpoints" / "checkpoint-2" / "trainer_state.json").unlink()
    said = on_two(values, tmp_path / "two", "--resume")
    assert said.count("step 2/3") == said.count("written:") == said.count("2 processes") == 1
    assert len(losses(tmp_path / "two")) == 3
    check_same(tmp_path / "one", tmp_path / "two", within=2e-5)


@pytest.mark.long
def test_a_lost_process_ends_the_others_with_one_line_and_one_process_can_go_on(model, tmp_path):
    values = values_of("echo", model, steps=8)
    process = launched(values, tmp_path / "two")
    assert process.stdout is not None
    assert any("step 2/8" in line for line in process.stdout)
    os.kill(second_of(process.pid), signal.SIGKILL)
    said = process.stdout.read()
    assert process.wait(timeout=120) != 0
    assert said.count("repeat the command with --resume") == 1, said
    on_one(values, tmp_path / "two", resume=True)
    on_one(values, tmp_path / "one")
    check_same(tmp_path / "one", tmp_path / "two", within=2e-5)


def tell_launcher(process: subprocess.Popen[str]) -> None:
    """Stop a run as a scheduler of jobs does: the launcher passes the signal on."""
    process.send_signal(signal.SIGTERM)


def tell_all(process: subprocess.Popen[str]) -> None:
    """Stop a run as Ctrl-C in a terminal does: every process hears of it, and of what the launcher passes on."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.long
@pytest.mark.parametrize(
    ("stop", "name", "backend"), [(tell_launcher, "echo", "own"), (tell_all, "echo", "own"), (tell_all, "grpo", "trl")]
)
def test_a_launched_run_that_is_stopped_keeps_its_last_whole_step_and_goes_on_to_the_same_end(
    stop, name, backend, model, tmp_path
):
    """`updates` let one process hold what another computed; TRL's has no step amid them that one process can write."""
    updates = 2 if backend == "own" else 1
    values = values_of(name, model, steps=8, save_every=8, backend=backend, step={"updates": updates})
    process = launched(values, tmp_path / "two")
    assert process.stdout is not None
    assert any("step 3/8" in line for line in process.stdout)
    stop(process)
    said = process.stdout.read()
    assert process.wait(timeout=120) != 0
    assert "stopped; step" in said, said
    (step,) = {int(line.split()[2]) for line in said.splitlines() if line.startswith("stopped; step")}
    assert 2 <= step < 8  # the line of a step comes just before its weights
    assert said.count("repeat the command with: --resume") == 1, said
    assert newest_checkpoint(tmp_path / "two" / "checkpoints").endswith(f"checkpoint-{step}")
    said = on_two(values, tmp_path / "two", "--resume")
    assert said.count(f"going on after step {step}\n") == 1, said
    assert f"step {step + 1}/8" in said
    assert f"step {step}/8" not in said
    on_one(values, tmp_path / "one")
    check_same(tmp_path / "one", tmp_path / "two", within=2e-5)


def second_of(launcher: int) -> int:
    """The process of rank 1."""
    for children in Path(f"/proc/{launcher}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            if b"\0RANK=1\0" in Path(f"/proc/{child}/environ").read_bytes():
                return child
    raise AssertionError("there is no process of rank 1")


CASES = [(name, kind) for name in ("grpo", "echo", "icrl") for kind in ("shared", "adapters")]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["own", "trl"])
@pytest.mark.parametrize(("name", "kind"), [*CASES, ("echo", "models")])
def test_every_backend_learns_the_same_on_one_process_and_on_two(name, kind, backend, model, tmp_path):
    if (kind, backend) == ("models", "trl"):
        pytest.skip("refused")
    values = values_of(name, model, weights=kind)
    on_one(values, tmp_path / "own")
    on_two({**values, "backend": backend}, tmp_path / "two")
    check_same(tmp_path / "own", tmp_path / "two", within=1e-4)


# ---------------------------------------------------------------- the pieces


def test_costs_are_shared_out_fairly_and_alike():
    costs = [5.0, 1.0, 4.0, 2.0, 3.0, 3.0]
    takers = processes.fair_shares(costs, 2)
    sums = [sum(cost for cost, taker in zip(costs, takers, strict=True) if taker == part) for part in (0, 1)]
    assert sums == [9.0, 9.0]
    assert processes.fair_shares(costs, 1) == [0] * 6
    assert processes.fair_shares([], 3) == []


class Two:
    """Another process that always answers the same, in place of a process group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
        self.answer = answer
        monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
        monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
        monkeypatch.setattr("torch.distributed.get_rank", lambda: 0)
        monkeypatch.setattr("torch.distributed.all_gather_object", self.gather)

    def gather(self, everything: list[object], mine: object, group: object = None) -> None:
        everything[:] = [mine, self.answer]


def failing() -> Sequence[int]:
    raise TrainingError("no number")


def test_what_one_process_raises_ends_all_and_is_said_once(monkeypatch):
    two = Two(monkeypatch, (False, 7))
    assert processes.gathered(lambda: 3) == [3, 7]
    with pytest.raises(TrainingError, match="no number"):
        processes.gathered(failing)
    two.answer = (True, None)
    with pytest.raises(SystemExit):
        processes.gathered(lambda: 3)


def test_a_process_that_was_told_to_stop_says_so_where_another_is_gone_before_its_step_ends():
    def step() -> None:
        halting.hold()
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("gloo: Connection closed by peer")

    with (
        pytest.raises(KeyboardInterrupt) as stop,
        processes.others_reached(),
        halting.keeping(lambda: "step 3 is kept"),
    ):
        step()
    assert stop.value.__notes__ == ["step 3 is kept"]


def test_processes_that_ask_for_different_things_are_told(monkeypatch):
    Two(monkeypatch, (False, ("another digest", [1])))
    with pytest.raises(TrainingError, match="do not ask for the same"):
        processes._shared(lambda asked: [len(each) for each in asked], ["a", "b"])


def test_without_other_processes_gradients_stay_as_they_are():
    parameter = nn.Parameter(torch.ones(2))
    processes.sum_gradients([parameter])
    assert parameter.grad is None
    assert math.isclose(processes.count(), 1)
