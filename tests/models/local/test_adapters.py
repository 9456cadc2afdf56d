"""Several LoRA adapters on one engine: each request is answered with its own, in turn, from caches of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, PromptTuningConfig, TaskType, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, Qwen3ForCausalLM

from align_echo.errors import MissingDataError, UsageError
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.types import Message
from tests.models.local.plain_loop import plain_reply
from tests.models.local.tiny import tiny_config, tiny_encoder, tiny_model

ENCODER = tiny_encoder()
WAIT = 60.0


def adapted(seed: int, rank: int = 4) -> PeftModel:
    """The tiny model with a LoRA adapter of random weights."""
    model = get_peft_model(tiny_model(), LoraConfig(r=rank, target_modules="all-linear"))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.5)
    model.train(False)
    return model


def plain(model: PeftModel | PreTrainedModel) -> PreTrainedModel:
    inner = model.get_base_model() if isinstance(model, PeftModel) else model
    assert isinstance(inner, PreTrainedModel)
    return inner


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[PreTrainedModel, Path]]:
    """The model as each adapter makes it, and the adapter's folder; "" is the model itself."""
    made: dict[str, tuple[PreTrainedModel, Path]] = {"": (tiny_model(), Path())}
    for seed, name in enumerate(("policy", "critic")):
        folder = tmp_path_factory.mktemp(name)
        model = adapted(seed)
        model.save_pretrained(str(folder))
        made[name] = (plain(model), folder)
    return made


@pytest.fixture
def engine(references) -> Iterator[TransformersEngine]:
    running = TransformersEngine(tiny_model(), name="tiny", decode=ENCODER.text, slots=5)
    for name in ("policy", "critic"):
        running.load_adapter(name, str(references[name][1]))
    yield running
    running.close()


def request(adapter: str, seed: int) -> TokenRequest:
    return TokenRequest(tuple(range(60, 90)), SamplingConfig(max_tokens=6, seed=seed), adapter)


def test_requests_for_several_adapters_are_each_answered_with_their_own(engine, references):
    assert engine.adapters == ("policy", "critic")
    requests = [request(name, seed) for seed in range(4) for name in ("policy", "", "critic")]
    replies = [future.result(WAIT) for future in [engine.submit(request) for request in requests]]
    alone = [plain_reply(references[request.adapter][0], request) for request in requests]
    assert [reply.ids for reply in replies] == alone


def test_weights_of_an_adapter_are_replaced_and_the_others_stay(engine, references):
    before = {name: engine.submit(request(name, 1)).result(WAIT).ids for name in references}
    other = adapted(7)
    engine.load_weights(get_peft_model_state_dict(other), adapter="policy")
    after = {name: engine.submit(request(name, 1)).result(WAIT).ids for name in references}
    assert after["policy"] == plain_reply(plain(other), request("", 1)) != before["policy"]
    assert (after[""], after["critic"]) == (before[""], before["critic"])


def test_weights_of_the_model_below_adapters_are_replaced(engine):
    other = tiny_model(seed=1)
    engine.load_weights(other.state_dict())
    assert engine.submit(request("", 2)).result(WAIT).ids == plain_reply(other, request("", 2))


def test_loading_an_adapter_again_replaces_it_also_by_one_of_another_rank(engine, tmp_path):
    other = adapted(9, rank=2)
    other.save_pretrained(str(tmp_path))
    engine.load_adapter("policy", str(tmp_path))
    assert engine.adapters == ("policy", "critic")
    assert engine.submit(request("policy", 3)).result(WAIT).ids == plain_reply(plain(other), request("", 3))


def test_an_adapter_that_does_not_fit_leaves_the_one_of_its_name_as_it_was(engine, references, tmp_path):
    lora = LoraConfig(r=4, target_modules=["q_proj"])
    config = tiny_config()
    config.hidden_size = 64
    wider = get_peft_model(Qwen3ForCausalLM(config), lora)
    wider.save_pretrained(str(tmp_path / "wider"))
    save_file({"base_model.model.other.lora_A.weight": torch.zeros(4, 32)}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text((tmp_path / "wider" / "adapter_config.json").read_text())
    for folder, message in (("wider", "size mismatch"), (".", "other weights are needed")):
        for name in ("policy", "new"):
            with pytest.raises(UsageError, match=f"does not fit the model: .*{message}"):
                engine.load_adapter(name, str(tmp_path / folder))
    assert engine.adapters == ("policy", "critic")
    for name, (model, _) in references.items():
        assert engine.submit(request(name, 3)).result(WAIT).ids == plain_reply(model, request("", 3))


def test_roles_are_local_models_of_one_engine(engine):
    chat = [Message(role="system", content="s"), Message(role="user", content="u")]
    roles = [LocalModel(engine, ENCODER, adapter=name) for name in ("", "policy", "critic")]
    assert [role.name for role in roles] == ["tiny", "tiny+policy", "tiny+critic"]
    assert len({role.complete(chat, temperature=0.0, max_tokens=8).text for role in roles}) == 3


def test_what_is_no_lora_adapter_is_refused_and_the_engine_goes_on(engine, references, tmp_path):
    prompt = get_peft_model(tiny_model(), PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=2))
    prompt.save_pretrained(str(tmp_path / "prompt"))
    with pytest.raises(UsageError, match="only LoRA is served"):
        engine.load_adapter("other", str(tmp_path / "prompt"))
    with pytest.raises(MissingDataError, match="holds no adapter"):
        engine.load_adapter("other", str(tmp_path))
    pickled = tmp_path / "pickled"
    get_peft_model(tiny_model(), LoraConfig(task_type=TaskType.CAUSAL_LM)).save_pretrained(str(pickled))
    torch.save(load_file(pickled / "adapter_model.safetensors"), pickled / "adapter_model.bin")
    (pickled / "adapter_model.safetensors").unlink()
    with pytest.raises(MissingDataError, match="holds no adapter"):
        engine.load_adapter("other", str(pickled))
    with pytest.raises(UsageError, match="no dot"):
        engine.load_adapter("a.b", str(references["critic"][1]))
    with pytest.raises(UsageError, match="do not fit the adapter 'policy'"):
        engine.load_weights({"x": torch.zeros(1)}, adapter="policy")
    with pytest.raises(UsageError, match="there is no adapter 'nobody'"):
        engine.load_weights({}, adapter="nobody")
    assert engine.submit(request("policy", 3)).result(WAIT).ids == plain_reply(references["policy"][0], request("", 3))
