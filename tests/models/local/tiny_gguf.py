"""A tiny random Llama as a GGUF file, for tests of the conversion."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from gguf import GGUFWriter
from transformers import LlamaConfig, LlamaForCausalLM

from align_echo.models.local.chat_template import CHATML_TEMPLATE
from tests.models.local.tiny import CHATML, tiny_backend

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.layers": "blk",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
"""Weights' names in transformers and in GGUF."""


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tiny_backend().get_vocab_size(), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=512,
        tie_word_embeddings=True, initializer_range=0.4,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.train(False)
    return model


def write_gguf(file: Path, *, architecture: str = "llama", layers: int = 2, without: str = "no tensor") -> Path:
    """Write `tiny_llama`; `layers` are what the file claims, and tensors named like `without` are left out."""
    model, writer = tiny_llama(), GGUFWriter(str(file), architecture)
    config = model.config
    writer.add_name("tiny")
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer)
    for name, weight in model.state_dict().items():
        stem = name.removesuffix(".weight")
        for ours, theirs in NAMES.items():
            stem = stem.replace(ours, theirs)
        if name != "lm_head.weight" and without not in stem:
            heads = {"attn_q": 2, "attn_k": 1}.get(stem.rpartition(".")[2], 0)
            writer.add_tensor(f"{stem}.weight", (_interleaved(weight, heads) if heads else weight).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add_tokenizer(writer: GGUFWriter) -> None:
    made = json.loads(tiny_backend().to_str())["model"]
    tokens = sorted(made["vocab"], key=made["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in CHATML else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in made["merges"]])
    writer.add_bos_token_id(CHATML.index("<|im_start|>"))
    writer.add_eos_token_id(CHATML.index("<|im_end|>"))
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHATML_TEMPLATE)


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Order the rows of a head's two halves in turns, as llama.cpp has them."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns).contiguous()
