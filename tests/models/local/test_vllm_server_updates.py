"""Adapters and weights published to a vLLM server, against a real tiny model over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import Qwen3ForCausalLM

from align_echo.errors import (
    MissingDataError,
    ModelError,
    UsageError,
)
from align_echo.models.local.engine import Forward, SamplingConfig, TokenReply, TokenRequest
from tests.models.local.tiny import tiny_model
from tests.models.local.vllm_client import IDS, agrees, ask, forward_logprobs, running
from tests.models.local.vllm_stand_in import CONTEXT, StandIn, save_adapter


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# ---------------------------------------------------------------- adapters


def test_a_loaded_adapter_draws_from_its_own_weights(tmp_path: Path):
    folder = save_adapter(tmp_path / "agent", seed=1)
    adapted = PeftModel.from_pretrained(tiny_model(context=CONTEXT), str(folder))
    with running() as (stand_in, engine):
        before = ask(engine)
        engine.load_adapter("agent", str(folder))
        reply = ask(engine, adapter="agent")
        assert agrees(adapted, IDS, reply)
        assert reply.logprobs != before.logprobs
        assert ask(engine) == before
    assert stand_in.adapters == {}, "closing unloads what was loaded"


def test_a_replaced_version_of_an_adapter_goes_once_its_requests_are_answered(tmp_path: Path):
    folders = [save_adapter(tmp_path / f"agent-{seed}", seed) for seed in (1, 2)]
    models = [PeftModel.from_pretrained(tiny_model(context=CONTEXT), str(folder)) for folder in folders]
    with running() as (stand_in, engine):
        engine.load_adapter("agent", str(folders[0]))
        (first,) = stand_in.adapters
        stand_in.hold = first
        under_way: Future[TokenReply] = engine.submit(TokenRequest(IDS, SamplingConfig(max_tokens=8), "agent"))
        assert stand_in.waiting.acquire(timeout=60)
        engine.load_adapter("agent", str(folders[1]))
        assert first in stand_in.adapters
        assert len(stand_in.adapters) == 2
        assert agrees(models[1], IDS, ask(engine, adapter="agent"))
        stand_in.let_go.set()
        assert agrees(models[0], IDS, under_way.result(60))
        assert first not in stand_in.adapters
        assert len(stand_in.adapters) == 1


def test_names_that_the_server_has_in_use_are_not_taken(tmp_path: Path):
    folder = save_adapter(tmp_path / "agent", seed=1)
    with running() as (stand_in, engine):
        stand_in.load({"lora_name": "agent-1", "lora_path": str(folder)})
        engine.load_adapter("agent", str(folder))
        assert sorted(stand_in.adapters) == ["agent-1", "agent-2"]


def test_adapters_that_the_server_was_started_with_can_be_named(tmp_path: Path):
    stand_in = StandIn()
    stand_in.load({"lora_name": "critic", "lora_path": str(save_adapter(tmp_path / "critic", seed=1))})
    with running(stand_in) as (_, engine):
        assert agrees(stand_in.adapters["critic"], IDS, ask(engine, adapter="critic"))
    assert list(stand_in.adapters) == ["critic"], "closing leaves them"


def test_what_cannot_be_loaded_is_told(tmp_path: Path):
    folder = save_adapter(tmp_path / "agent", seed=1)
    with running() as (stand_in, engine):
        with pytest.raises(UsageError, match="no adapter agent is loaded"):
            ask(engine, adapter="agent")
        with pytest.raises(MissingDataError, match="holds no adapter"):
            engine.load_adapter("agent", str(tmp_path))
        engine.load_adapter("agent", str(folder))
        with pytest.raises(UsageError, match="to a folder of its own"):
            engine.load_adapter("agent", str(folder))
        stand_in.loads_adapters = False
        with pytest.raises(UsageError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
            engine.load_adapter("critic", str(save_adapter(tmp_path / "critic", seed=2)))


# ---------------------------------------------------------------- weights


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("other")
    tiny_model(seed=9, context=CONTEXT).save_pretrained(folder)
    return folder


def forward_of(folder: Path) -> Forward:
    model = Qwen3ForCausalLM.from_pretrained(folder)
    return lambda ids: forward_logprobs(model, ids)


def test_published_weights_are_those_drawn_from(other):
    with running() as (stand_in, engine):
        engine.publish_weights(str(other), forward_of(other))
        assert agrees(Qwen3ForCausalLM.from_pretrained(other), IDS, ask(engine))
        assert [path for path in stand_in.paths if not path.startswith("/v1")] == [
            "/pause?mode=wait", "/collective_rpc", "/reset_prefix_cache", "/resume",
        ]  # fmt: skip


def test_a_server_that_keeps_part_of_the_old_weights_is_found_out_and_not_used_until_it_is_right(other):
    with running(StandIn(reload_keeps_head=True)) as (stand_in, engine):
        with pytest.raises(ModelError, match="does not compute with the published weights"):
            engine.publish_weights(str(other), forward_of(other))
        with pytest.raises(ModelError, match="unusable weights"):
            ask(engine)
        stand_in.reload_keeps_head = False
        engine.publish_weights(str(other), forward_of(other))
        assert agrees(Qwen3ForCausalLM.from_pretrained(other), IDS, ask(engine))


def test_replies_made_before_published_weights_are_verified_wait_for_the_verdict(other):
    with running(StandIn(reload_keeps_head=True)) as (stand_in, engine), ThreadPoolExecutor() as threads:
        stand_in.hold = "tiny"
        under_way = engine.submit(TokenRequest(IDS, SamplingConfig(max_tokens=1)))
        assert stand_in.waiting.acquire(timeout=60)
        publication = threads.submit(engine.publish_weights, str(other), forward_of(other))
        assert stand_in.waiting.acquire(timeout=60), "the verification has begun"
        stand_in.let_go.set()
        with pytest.raises(ModelError, match="unusable weights"):
            under_way.result(60)
        with pytest.raises(ModelError, match="unusable weights"):
            publication.result(60)


@pytest.mark.parametrize("fault", ["reload_fails", "keeps_prefixes"])
def test_a_publication_that_fails_leaves_the_server_running_and_unused(other, fault):
    with running() as (stand_in, engine):
        setattr(stand_in, fault, True)
        with pytest.raises(ModelError, match="unusable weights"):
            engine.publish_weights(str(other), forward_of(other))
        assert stand_in.paths[-1] == "/resume"
        with pytest.raises(ModelError, match="unusable weights"):
            ask(engine)


def test_a_server_that_does_not_allow_publication_stays_usable(other):
    with running(StandIn(development=False)) as (_, engine):
        with pytest.raises(UsageError, match="VLLM_SERVER_DEV_MODE"):
            engine.publish_weights(str(other), forward_of(other))
        ask(engine)


def test_a_folder_without_weights_is_refused_before_the_server_hears_of_it(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    with running() as (stand_in, engine):
        with pytest.raises(MissingDataError, match="holds no model"):
            engine.publish_weights(str(tmp_path), lambda ids: [-1.0] * len(ids))
        assert stand_in.paths == []
