"""Games of a real small model behind real servers: `transformers serve`, and vLLM (`make vllm-check`).

The model plays badly and judges worse: what counts is that each run comes to its end, with what it was asked on record.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.models import CallLog
from align_echo.models.fetching import get_model
from align_echo.types import Trajectory

pytestmark = pytest.mark.long

STARTS_WITHIN = 300.0
SMALL = {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
SMALL |= {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1"}


def transformers_serve(model: str, port: str) -> list[str]:
    command = str(Path(sys.executable).with_name("transformers"))
    return [command, "serve", "--host", "127.0.0.1", "--port", port, "--device", "cpu", model]


def vllm_serve(model: str, port: str) -> list[str]:
    options = ["--model", model, "--host", "127.0.0.1", "--port", port, "--dtype", "float32", "--max-num-seqs", "8"]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager", *options]


SERVERS: dict[str, tuple[tuple[str, ...], Callable[[str, str], list[str]]]] = {
    "transformers": (("fastapi", "uvicorn", "transformers"), transformers_serve),
    "vllm": (("vllm",), vllm_serve),
}


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """Run a server until the block ends. It says when it is up."""
    process = subprocess.Popen(
        command, env=os.environ | SMALL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    started = threading.Event()

    def read(lines: Iterator[str]) -> None:
        with log.open("w") as file:
            for line in lines:
                file.write(line)
                if "startup complete" in line or "Uvicorn running" in line:
                    started.set()
        started.set()

    assert process.stdout is not None
    threading.Thread(target=read, args=(iter(process.stdout),), daemon=True).start()
    try:
        assert started.wait(STARTS_WITHIN), "the server does not start"
        assert process.poll() is None, log.read_text()[-3000:]
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Options that name the model of a running server."""
    packages, command = SERVERS[request.param]
    if missing := [package for package in packages if find_spec(package) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed")
    try:
        folder = str(get_model("smollm2"))
    except UsageError as error:
        if "cannot be had" not in str(error):
            raise
        pytest.skip(str(error))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with running(command(folder, port), tmp_path_factory.mktemp("server") / "server.log"):
        yield ["--model", folder, "--base-url", f"http://127.0.0.1:{port}/v1"]


GAME = ["evaluate", "--env", "alfworld", "--tasks", "1", "--turns", "4", "--max-tokens", "24"]
DRAWN = ["--agent", "vanilla", "--temperature", "1"]
WRITTEN = [*GAME[:-1], "agent=24,judge=24", *DRAWN]
RUNS = {
    "vanilla": [*GAME, "--agent", "vanilla"],
    "react": [*GAME, "--agent", "react"],
    "planning": [*GAME, "--agent", "planning"],
    "self-consistency": [*GAME, "--agent", "self-consistency"],
    "self-refine": [*GAME, "--agent", "self-refine"],
    "a judge": [*GAME, *DRAWN, "--best-of", "2", "--judge", "self"],
    "a judge with reasons": [*WRITTEN, "--best-of", "2", "--reasoning"],
    "refinement": [*WRITTEN, "--refine-rounds", "1", "--critic", "self"],
    "hybrid": [
        "generate-interface", "--env", "tests.align.hybrid.station:SPEC", "--agent", "vanilla", "--backend", "hybrid",
        "--iterations", "1", "--tasks-per-iteration", "1", "--play-tasks", "0",
        "--max-tokens", "agent=96,analyzer=256,optimizer=256",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_run_comes_to_its_end(name, served, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed")
    out = tmp_path / "run"
    status = main([*RUNS[name], *served, "--out", str(out)])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "at endpoints: agent" in said.out
    assert (out / "summary.json").is_file()
    files = [*out.rglob("trajectories/*.jsonl"), *out.rglob("trajectories.jsonl")]
    episodes = [Trajectory.model_validate_json(line) for file in files for line in file.read_text().splitlines()]
    assert episodes
    assert all(episode.fault is None and (episode.steps or episode.context_overflow) for episode in episodes)
    calls = CallLog(out / "calls.jsonl").read()
    assert all(call.reply is not None and call.usage.tokens for call in calls if not call.cached)
    if name == "hybrid":
        assert {"agent", "analyzer"} <= json.loads((out / "summary.json").read_text())["roles"].keys()
