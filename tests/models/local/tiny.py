"""A tiny random Qwen3 and byte-level BPE tokenizers, for tests of local models."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from align_echo.models.local.encoding import ChatEncoder, chatml_tokenizer

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN = (*CHATML, "<|object_ref_start|>", "<|vision_start|>", "<|image_pad|>", "<|fim_prefix|>", "<|repo_name|>")
"""Special tokens of Qwen's published tokenizers (some of them), which none of the messages may ever become."""

TEXTS = ("go to cabinet 1", "take the mug from the shelf", "You see nothing. Nothing happens.", "system user assistant")


def tiny_tokenizer(special: tuple[str, ...] = CHATML) -> PreTrainedTokenizerBase:
    """About 300 entries, ChatML."""
    return chatml_tokenizer(tiny_backend(special))


def tiny_backend(special: tuple[str, ...] = CHATML) -> Tokenizer:
    """Byte-level BPE with these special tokens, the first ids."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    return backend


def tiny_encoder() -> ChatEncoder:
    return ChatEncoder(tiny_tokenizer())


def tiny_config(*, context: int = 512, kv_heads: int = 1) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tiny_tokenizer()),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=kv_heads,
        head_dim=16,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=CHATML.index("<|im_end|>"),
        pad_token_id=0,
        initializer_range=0.4,
    )


def tiny_model(*, seed: int = 0, context: int = 512, kv_heads: int = 1) -> Qwen3ForCausalLM:
    """Random weights, large enough that its replies vary; float32."""
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(tiny_config(context=context, kv_heads=kv_heads))
    model.train(False)
    return model
