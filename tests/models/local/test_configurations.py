"""Public architectures with tiny random weights: two turns and two steps of learning, equal to transformers' own.

Every model type of `transformers` in the list either does both exactly or is refused in one line.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from align_echo.errors import UsageError
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.models.local.weights import without_dropout
from align_echo.train.forward import CHECKED_IDS, check_parts, token_logprobs, why_not_shared
from align_echo.train.tree_attention import trees
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.tiny import tiny_encoder

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

EXACT = 5e-6
SMALL: dict[str, Any] = {
    **{"vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
EXPERTS = {
    **{"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1},
    **{"moe_intermediate_size": 16, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1},
}
LATENT = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")

EXACT_TYPES = [
    "afmoe", "apertus", "arcee", "aria_text", "biogpt", "bitnet", "cohere", "cohere2", "cohere2_moe", "ctrl", "cwm",
    "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4", "exaone_moe", "flex_olmo", "gemma",
    "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "gpt2", "gpt_bigcode", "gpt_neox", "gpt_oss",
    "granite", "granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared", "hyperclovax", "internlm3", "jais2",
    "jetmoe", "lfm2", "llama", "minicpm3", "minimax_m2", "ministral3", "mistral", "mixtral", "nanochat", "olmo",
    "olmo2", "olmo3", "olmoe", "opt", "persimmon", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
    "seed_oss", "smollm3", "solar_open", "starcoder2", "vaultgemma", "youtu",
]  # fmt: skip
REFUSED = [
    "bart", "bert", "bert-generation", "big_bird", "blenderbot", "bloom", "camembert", "codegen", "cpmant",
    "deepseek_v4", "diffllama", "doge", "electra", "falcon", "falcon_h1", "falcon_mamba", "gptj", "hrm_text", "jamba",
    "kimi_linear", "llama4_text", "mamba", "marian", "mbart", "megatron-bert", "minimax", "mpt", "mvp", "nemotron",
    "nemotron_h", "olmo_hybrid", "openai-gpt", "pegasus", "qwen3_5_text", "qwen3_next", "recurrent_gemma", "rembert",
    "roberta", "roformer", "rwkv", "stablelm", "trocr", "xglm", "xlm", "xlm-roberta", "xlstm",
]  # fmt: skip
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama, one key head": ("llama", {"num_key_value_heads": 1}),
    "llama, as many key heads": ("llama", {"num_key_value_heads": 4}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, wide heads": ("llama", {"head_dim": 24}),
    "llama, one layer": ("llama", {"num_hidden_layers": 1}),
    "llama, Llama 3's positions": (
        "llama",
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
    ),
    "llama, linear positions": (
        "llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
    ),
    "qwen2, yarn": (
        "qwen2",
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                             "original_max_position_embeddings": 32}},
    ),
    "qwen2, tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3, wide heads": ("qwen3", {"head_dim": 24}),
    "qwen3, tied, one key head": ("qwen3", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "mistral, a window": ("mistral", {"sliding_window": 8}),
    "mistral, no window": ("mistral", {"sliding_window": None}),
    "gemma2, no caps": ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    "gemma2, close caps": ("gemma2", {"attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0}),
    "granite, scaled": ("granite", {"logits_scaling": 8.0, "residual_multiplier": 0.3, "embedding_multiplier": 4.0}),
    "cohere, scaled": ("cohere", {"logit_scale": 0.5}),
    "phi3, part of a head turned": ("phi3", {"partial_rotary_factor": 0.5}),
    "gpt_neox, layers in turn": ("gpt_neox", {"use_parallel_residual": False}),
}  # fmt: skip


def config_of(name: str) -> Any:
    """A tiny configuration of a model type, or of a variant."""
    kind, changes = VARIANTS.get(name, (name, {}))
    known = CONFIG_MAPPING[kind]().to_dict()
    values = SMALL | {key: value for key, value in EXPERTS.items() if key in known}
    if known.get("head_dim") is not None:
        values["head_dim"] = 16
    if known.get("rotary_dim"):
        values["rotary_dim"] = 4
    if known.get("sliding_window"):
        values["sliding_window"] = 8
    if "dim_model_base" in known:
        values["dim_model_base"] = 16
    if "kv_lora_rank" in known:
        values |= dict.fromkeys(LATENT, 16) | {"num_key_value_heads": 4, "head_dim": 16}
    if known.get("layer_types"):
        values["layer_types"] = [known["layer_types"][0], known["layer_types"][-1]]
    try:
        return CONFIG_MAPPING[kind](**(values | changes))
    except (TypeError, ValueError) as error:
        pytest.skip(f"this version of transformers makes no tiny {kind}: {str(error).splitlines()[0]}")


@contextmanager
def pair(name: str) -> Iterator[tuple[Any, Any]]:
    """Two models of equal weights, none of them 0 or 1: one for us, one for transformers' own code."""
    config, make = config_of(name), cast("Any", AutoModelForCausalLM)
    torch.manual_seed(0)
    ours, theirs = (make.from_config(copy.deepcopy(config), dtype=torch.float32).eval() for _ in range(2))
    with torch.no_grad():
        for weights in ours.parameters():
            weights.add_(torch.randn_like(weights) * 0.02)
    theirs.load_state_dict(ours.state_dict())
    yield ours, theirs


def gap_of_two_turns(ours: Any, theirs: Any) -> float:
    """Play four conversations of two turns at once; the largest difference of a log-probability."""
    engine = TransformersEngine(ours, name="tiny", decode=tiny_encoder().text, slots=4, context=0, step_tokens=24)
    firsts = [tuple(range(3, 12 + n)) for n in range(4)]
    worst, requests = 0.0, [TokenRequest(ids, SamplingConfig(max_tokens=6, seed=n)) for n, ids in enumerate(firsts)]
    try:
        for _ in range(2):
            replies = [future.result(120) for future in [engine.submit(request) for request in requests]]
            whole = [(*request.ids, *reply.ids) for request, reply in zip(requests, replies, strict=True)]
            for request, reply, ids in zip(requests, replies, whole, strict=True):
                wanted = logprobs_of(theirs, ids, 1.0)[len(request.ids) - 1 :].tolist()
                worst = max(worst, *(abs(a - b) for a, b in zip(reply.logprobs, wanted, strict=True)))
            requests = [TokenRequest((*ids, 20, 21, 22), SamplingConfig(max_tokens=6, seed=9)) for ids in whole]
    finally:
        engine.close()
    return worst


ROWS = [(5, 6, 7, 8, 9, 10, 11, 12, *range(20, 30 + n)) for n in range(3)]


def gap_of_two_steps(ours: Any, theirs: Any) -> float:
    """Take two steps over rows with a shared beginning; the largest difference of a log-probability."""
    without_dropout(ours)
    check_parts(ours, torch.tensor(CHECKED_IDS))
    tree = None if why_not_shared(ours, torch.tensor(CHECKED_IDS)) else trees(ROWS, most_tokens=1000)[0]
    width, worst = max(map(len, ROWS)), 0.0
    ids = torch.tensor([row + (0,) * (width - len(row)) for row in ROWS])
    mask = torch.tensor([[float(6 <= at < len(row) - 1) for at in range(width - 1)] for row in ROWS])
    steps = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (ours, theirs)]
    for _ in range(2):
        found, _ = token_logprobs(ours, ids, mask, tree=tree)
        wanted = torch.stack([own_logprobs(theirs, row, width) for row in ROWS]) * mask
        worst = max(worst, float((found - wanted).detach().abs().max()))
        for step, logprobs in zip(steps, (found, wanted), strict=True):
            step.zero_grad()
            torch.autograd.backward(-logprobs.sum() / mask.sum())
            torch.nn.utils.clip_grad_norm_(step.param_groups[0]["params"], 0.1)
            step.step()
    return worst


def own_logprobs(model: Any, row: tuple[int, ...], width: int) -> torch.Tensor:
    ids = torch.tensor(row)
    logprobs = model(input_ids=ids[None], use_cache=False).logits[0, :-1].log_softmax(-1)
    own = logprobs.gather(1, ids[1:, None])[:, 0]
    return torch.cat([own, torch.zeros(width - len(row))])


@pytest.mark.parametrize("name", [*EXACT_TYPES, *VARIANTS])
def test_it_plays_and_learns_as_its_own_code_does(name):
    with pair(name) as (ours, theirs):
        assert gap_of_two_turns(ours, theirs) < EXACT
    with pair(name) as (ours, theirs):
        assert gap_of_two_steps(ours, theirs) < EXACT


def test_a_model_that_draws_its_experts_while_it_learns_plays_and_is_not_trained():
    with pair("phimoe") as (ours, theirs):
        assert gap_of_two_turns(ours, theirs) < EXACT
    with pair("phimoe") as (ours, theirs), pytest.raises(UsageError, match="computes otherwise while it learns"):
        gap_of_two_steps(ours, theirs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_played_is_refused_in_one_line_and_learns_exactly_or_not_at_all(name):
    with pair(name) as (ours, theirs), pytest.raises(UsageError) as caught:
        gap_of_two_turns(ours, theirs)
    assert str(caught.value).endswith("serve it with vllm")
    assert "\n" not in str(caught.value)
    with pair(name) as (ours, theirs):
        gap, line = 0.0, "it cannot be trained here"
        try:
            gap = gap_of_two_steps(ours, theirs)
        except UsageError as error:
            line = str(error)
    assert gap < EXACT
    assert line.endswith("it cannot be trained here")
    assert "\n" not in line
