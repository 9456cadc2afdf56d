"""A model in processes of its own: the same replies, whatever becomes of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from align_echo.errors import MissingDataError, ModelError, UsageError
from align_echo.models import load_model
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.engine_process import STARTS, EngineGroup, EngineSettings, ProcessEngine
from align_echo.models.local.loading import run_in_processes, run_transformers
from align_echo.types import Message
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.tiny import tiny_model, tiny_tokenizer

WAIT = 120.0
"""Seconds until a reply counts as lost."""

REQUESTS = [TokenRequest((5, 6, 7 + n), SamplingConfig(max_tokens=5 + n, seed=n)) for n in range(6)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as `save_pretrained` writes it."""
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[tuple[int, ...]]:
    """What the model draws in this process."""
    running = run_transformers(str(folder), name="here")
    replies = [running.engine.submit(request).result(WAIT).ids for request in REQUESTS]
    running.engine.close()
    return replies


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[ProcessEngine]:
    """One that tests leave as able as it was; one of them has its process killed, once."""
    running = ProcessEngine(EngineSettings(str(folder), "tiny"))
    yield running.wait_until_ready()
    running.close()


@pytest.fixture
def engine(folder: Path) -> Iterator[ProcessEngine]:
    running = ProcessEngine(EngineSettings(str(folder), "tiny"))
    yield running.wait_until_ready()
    running.close()


def drawn(engine: ProcessEngine) -> list[tuple[int, ...]]:
    futures = [engine.submit(request) for request in REQUESTS]
    return [future.result(WAIT).ids for future in futures]


def killed_and_drawn(engine: ProcessEngine) -> list[tuple[int, ...]]:
    os.kill(engine.pid, signal.SIGKILL)
    return drawn(engine)


def kill_every_start(engine: ProcessEngine) -> None:
    for _ in range(STARTS):
        pid = engine.pid
        os.kill(pid, signal.SIGKILL)
        while engine.pid == pid and not engine.closed:
            time.sleep(0.01)


@pytest.mark.long
def test_replies_are_those_of_this_process_also_after_the_other_was_killed(shared, expected):
    assert drawn(shared) == expected
    first = shared.pid
    with pytest.warns(UserWarning, match="a process of tiny was lost"):
        assert killed_and_drawn(shared) == expected
    assert shared.pid != first
    assert not shared.closed


@pytest.mark.long
def test_a_process_that_goes_on_being_killed_is_the_model_s_fault(folder):
    engine = ProcessEngine(EngineSettings(str(folder), "tiny"))
    with pytest.warns(UserWarning, match="was lost"):
        kill_every_start(engine)
    with pytest.raises(ModelError, match=f"{STARTS} processes of tiny were lost|tiny is closed"):
        engine.submit(REQUESTS[0]).result(WAIT)


@pytest.mark.long
def test_what_the_other_process_raises_is_raised_here(shared):
    with pytest.raises(UsageError, match="needs token ids"):
        shared.submit(TokenRequest((10**6,), SamplingConfig())).result(WAIT)
    with pytest.raises(UsageError, match="has no adapter 'none'"):
        shared.submit(TokenRequest((5,), SamplingConfig(), adapter="none")).result(WAIT)
    with pytest.raises(MissingDataError, match="holds no adapter"):
        shared.load_adapter("a", "/nowhere")


@pytest.mark.long
def test_what_waits_when_it_is_closed_is_told_and_nothing_is_left(engine):
    waiting = engine.submit(TokenRequest((5,), SamplingConfig(max_tokens=10_000)))
    pid = engine.pid
    engine.close()
    with pytest.raises(ModelError, match="was closed"):
        waiting.result(WAIT)
    with pytest.raises(ModelError, match="tiny is closed"):
        engine.submit(REQUESTS[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.long
def test_a_reply_that_nobody_waits_for_is_drawn_no_further(shared, expected):
    futures = [shared.submit(TokenRequest((9, n), SamplingConfig(max_tokens=100_000, seed=n))) for n in range(70)]
    assert all(future.cancel() for future in futures), "as many as there are slots, and more"
    assert drawn(shared) == expected


@pytest.mark.long
def test_published_weights_are_computed_with_and_outlive_a_kill(engine, expected, tmp_path):
    other = tiny_model(seed=1)
    other.save_pretrained(tmp_path)
    engine.publish_weights(str(tmp_path), lambda ids: logprobs_of(other, ids, 1.0).tolist())
    assert engine.changed
    after = drawn(engine)
    assert after != expected
    with pytest.warns(UserWarning, match="was lost"):
        assert killed_and_drawn(engine) == after


@pytest.mark.long
def test_several_processes_are_one_model_whose_identity_is_that_of_one_in_this_process(folder):
    here, there = load_model(str(folder), seed=3), load_model(str(folder), seed=3, processes=2)
    assert isinstance(here, LocalModel)
    assert isinstance(there, LocalModel)
    assert isinstance(there.engine, EngineGroup)
    assert (there.name, there.identity, there.engine.context) == (here.name, here.identity, here.engine.context)
    chat = [Message(role="user", content="what now?")]
    replies = [model.complete(chat, temperature=1.0, max_tokens=9).text for model in (here, there)]
    assert replies[0] == replies[1]
    assert load_model(str(folder), processes=2).engine is there.engine  # type: ignore[attr-defined]
    here.engine.close()
    there.engine.close()


@pytest.mark.long
def test_files_that_are_no_model_are_refused_and_no_process_is_left(tmp_path):
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="no model can be loaded from"):
        run_in_processes(str(tmp_path), name="nothing", processes=2)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    assert not children.exists() or "engine_process" not in "".join(
        Path(f"/proc/{pid}/cmdline").read_text() for pid in children.read_text().split()
    )


ALONE = """
import sys
from align_echo.models.local.engine_process import EngineSettings, ProcessEngine
engine = ProcessEngine(EngineSettings(sys.argv[1], "tiny")).wait_until_ready()
print(engine.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_the_processes_end_with_the_one_that_started_them(folder):
    parent = subprocess.Popen(
        [sys.executable, "-c", ALONE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    process = Path(f"/proc/{pid}")
    deadline = time.monotonic() + WAIT
    while process.exists() and "Z" not in (process / "stat").read_text().rpartition(")")[2].split()[0]:
        assert time.monotonic() < deadline, "it outlived its parent"
        time.sleep(0.05)
