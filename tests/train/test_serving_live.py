"""Two roles learn from what real vLLM servers play: `make vllm-check` installs one that needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from align_echo.models.local.loading import pocket_folder
from tests.models.local.test_vllm_live import running_server
from tests.train.test_run import trained
from tests.train.test_serving import SAME, served

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make vllm-check")


@pytest.fixture(scope="module")
def urls(tmp_path_factory) -> Iterator[list[str]]:
    logs: Path = tmp_path_factory.mktemp("logs")
    options = {"--max-model-len": "2048", "--max-loras": "4"}
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_server(pocket_folder(), logs / f"{number}.log", **options))
            for number in range(2)
        ]


def test_log_probabilities_of_one_server_and_of_two_are_the_trainers_step_after_step(urls, tmp_path):
    for count in (1, 2):
        config = served("pocket", urls[:count])
        steps = [signals for _, signals in trained(config, tmp_path / str(count))]
        shown = [{name: value for name, value in step.items() if "/mismatch/" in name} for step in steps]
        print(f"{count} server(s), mean |log-probability of the server - of the trainer|: {shown}")
        assert {name.split("/")[0] for step in shown for name in step} == {"policy", "critic"}
        assert max(value for step in shown for value in step.values()) < SAME


def test_adapters_one_step_old_would_be_seen(urls, tmp_path):
    config = served("pocket", urls, steps=3, step={"ahead": True})
    steps = [signals for _, signals in trained(config, tmp_path / "run")]
    away = [step["policy/stale/log_ratio"] for step in steps if "policy/stale/log_ratio" in step]
    print(f"ahead: mean |log ratio| by step: {away}")
    assert [step["staleness"] for step in steps] == [0, 1, 1]
    assert away[0] < SAME < away[-1]
