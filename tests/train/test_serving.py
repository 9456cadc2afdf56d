"""Training runs whose episodes are played by servers: stand-ins with a real tiny model over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from align_echo.errors import ModelError, UsageError
from align_echo.rollout.session import Episode
from align_echo.train.config import TrainConfig
from align_echo.train.method import METHODS, CollectingSettings
from align_echo.train.printed_lines import announced
from align_echo.train.rows import RolloutBatch, critic_row, policy_row
from align_echo.train.run import TrainingRun
from align_echo.train.signals import Signals
from align_echo.train.stage import CritiqueRequest, Stage
from align_echo.wrappers.plain import TextEnvironment
from tests.doors import Doors
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.models.local.vllm_stand_in import Refusal, StandIn, serve
from tests.train.test_run import config_of, trained

CONTEXT = 2048
DOORS = TextEnvironment(Doors, return_range=(-4.0, 2.0))
SAME = 1e-3
"""Between the log-probabilities of a server and those of the trainer."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    tiny_model(context=CONTEXT).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def servers(monkeypatch) -> Iterator[list[StandIn]]:
    monkeypatch.setattr("align_echo.train.serving.ATTEMPTS", 1)
    with ExitStack() as stack:
        yield [
            stack.enter_context(serve(StandIn(model=tiny_model(context=CONTEXT), context=CONTEXT))) for _ in range(2)
        ]


def by_number(queries: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    """Attempts and a critique of each, all of which earn something else: a random model wins none and must learn."""
    samples = range(collecting.samples)
    attempts = stage.play([Episode(query, sample=sample) for query in queries for sample in samples])
    attempts = [attempt for attempt in attempts if attempt.fault is None]
    reviews = stage.critique([CritiqueRequest(attempt, number) for number, attempt in enumerate(attempts)])
    rows = [policy_row(attempt, attempt.task_id) for attempt in attempts]
    rows += [critic_row(reply, attempt.task_id, 0.0) for attempt, reply in zip(attempts, reviews, strict=True)]
    earning = tuple(replace(row, reward=sum(row.tokens.ids) % 97 / 97) for row in rows)
    return RolloutBatch(earning, steps=sum(len(attempt.steps) for attempt in attempts))


METHOD = replace(METHODS.get("echo"), name="by number", collect=by_number)


def served(model: str, servers: Sequence[StandIn | str], **changes: Any) -> TrainConfig:
    """Two adapters learn from what the servers play, given as stand-ins or by URL."""
    urls = [server if isinstance(server, str) else server.url for server in servers]
    collecting = {"servers": urls}
    values = {"env": "tests.train.test_serving:DOORS", "weights": "adapters", "collecting": collecting}
    values["method"] = "tests.train.test_serving:METHOD"
    return config_of("echo", model, **{**values, "optimising": {"lr": 1e-2, "critic_lr": 1e-2}, **changes})


@pytest.mark.long
def test_two_roles_learn_from_what_two_servers_play_with_the_adapters_of_now(model, servers, tmp_path):
    published: list[set[str]] = []

    def watch(step: int, signals: Signals) -> None:
        published.append(set(servers[0].adapters) | set(servers[1].adapters))
        shown = {name: value for name, value in signals.items() if "/mismatch/" in name}
        assert {name.split("/")[0] for name in shown} == {"policy", "critic"}
        assert max(shown.values()) < SAME

    run = TrainingRun(served(model, servers), tmp_path / "run")
    assert any(f"played by the vLLM servers at {servers[0].url}, {servers[1].url}" in line for line in announced(run))
    assert run.cost.memory["engines"] == 0
    run.train(watch)
    assert published == [{"policy-1", "critic-2"}, {"policy-3", "critic-4"}]
    asked = [{request["model"] for request in server.requests} for server in servers]
    assert asked[0] | asked[1] == {"tiny", *published[0], *published[1]}
    assert [server.adapters for server in servers] == [{}, {}]
    assert not (tmp_path / "run" / "published").exists()
    assert {"policy", "critic", "summary.json"} <= {file.name for file in (tmp_path / "run").iterdir()}


@pytest.mark.long
def test_a_server_that_goes_is_said_and_the_other_plays_on(model, servers, tmp_path):
    def watch(step: int, signals: Signals) -> None:
        servers[1].faults = [Refusal(0)] * 100_000

    with pytest.warns(UserWarning, match=f"the server at {servers[1].url} is left out"):
        TrainingRun(served(model, servers, steps=3), tmp_path / "run").train(watch)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 3


@pytest.mark.long
def test_without_a_server_left_the_run_ends_in_one_line(model, servers, tmp_path):
    def watch(step: int, signals: Signals) -> None:
        for server in servers:
            server.faults = [Refusal(0)] * 100_000

    with pytest.warns(UserWarning, match="is left out"), pytest.raises(ModelError, match="no server is left"):
        TrainingRun(served(model, servers, steps=3), tmp_path / "run").train(watch)


@pytest.mark.long
def test_whole_weights_are_published_to_servers_too(model, servers, tmp_path):
    values = {"optimising": {"lr": 1e-3, "critic_lr": 1e-3}, "weights": "shared"}
    seen = trained(served(model, servers[:1], **values), tmp_path / "run")
    assert all(signals["policy/mismatch/from_turn_0"] < SAME for _, signals in seen)
    assert servers[0].paths.count("/collective_rpc") == 2


def test_a_server_of_another_model_is_refused(model, servers, tmp_path):
    servers[1].model = tiny_model(seed=5, context=CONTEXT)
    with pytest.raises(UsageError, match=f"the server at {servers[1].url} serves another model"):
        trained(served(model, servers), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collecting": {"servers": ["localhost:8000"]}}, "must start with http"),
        ({"collecting": {"servers": ["http://user:secret@host/v1"]}}, "no user and password"),
        ({"collecting": {"servers": ["http://host", "http://host/v1"]}}, "name each server once"),
        ({"weights": "models", "collecting": {"servers": ["http://host"]}}, "weights: adapters, or shared"),
    ],
)
def test_servers_that_cannot_be_are_refused(changes, message, model):
    with pytest.raises(UsageError, match=message) as caught:
        config_of("echo", model, **{"weights": "adapters", **changes})
    assert "secret" not in str(caught.value)


@pytest.mark.long
def test_a_run_may_go_on_with_servers_elsewhere(model, servers, tmp_path):
    config = served(model, servers[:1], steps=2, save_every=1)

    def stop(step: int, signals: Signals) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(stop)
    moved = served(model, servers[1:], steps=2, save_every=1)
    assert [step for step, _ in trained(moved, tmp_path / "run", resume=True)] == [2]
