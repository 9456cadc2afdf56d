"""A Qwen2.5-VL with a third of a million weights, initialised from a seed: to try critics without a download.

Its vocabulary is the pocket model's plus picture tokens; a screen of 160x210 pixels becomes 48 of them. It is
untrained, and can learn coloured shapes, not text. Not here: training (`align_echo.gui.learning`).
"""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from align_echo.gui.vision import ScreenEncoder
from align_echo.models.local.encoding import chatml_tokenizer
from align_echo.models.local.loading import pocket_folder

CONTEXT = 2048
PICTURE_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
PATCH = 14
LEAST_PIXELS, MOST_PIXELS = 56 * 56, 336 * 448


VISION_WIDTH, VISION_DEPTH = 32, 2
WIDTH, DEPTH, HEADS = 64, 2, 4
"""Sizes of the language part; the two above belong to the vision part."""


def tiny_vision(seed: int = 0, *, vision_width: int = VISION_WIDTH) -> tuple[Any, ScreenEncoder]:
    """Build the model and its encoder. Weights are scaled by fan-in, because the usual 0.02 suits far wider models.

    Raises `MissingDataError` without the pocket model.
    """
    backend = Tokenizer.from_file(str(pocket_folder() / "tokenizer.json"))
    start, end, image, video = range(backend.get_vocab_size(), backend.get_vocab_size() + len(PICTURE_TOKENS))
    backend.add_special_tokens(list(PICTURE_TOKENS))
    tokenizer = chatml_tokenizer(backend)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "intermediate_size": 3 * WIDTH,
            "num_hidden_layers": DEPTH,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "max_position_embeddings": CONTEXT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": _sections()},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": VISION_DEPTH,
            "hidden_size": vision_width,
            "intermediate_size": 3 * vision_width,
            "num_heads": HEADS,
            "patch_size": PATCH,
            "out_hidden_size": WIDTH,
            "fullatt_block_indexes": [VISION_DEPTH - 1],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv3d | torch.nn.Embedding):
            width = module.weight.shape[1:].numel()
            torch.nn.init.normal_(module.weight, std=width**-0.5)
    size = {"shortest_edge": LEAST_PIXELS, "longest_edge": MOST_PIXELS}
    return model, ScreenEncoder(tokenizer, Qwen2VLImageProcessorPil(size=size, patch_size=PATCH), config)


def _sections() -> list[int]:
    """Split a head's frequencies between time, height and width: a quarter and twice three eighths."""
    half = WIDTH // HEADS // 2
    return [half - 2 * (3 * half // 8), 3 * half // 8, 3 * half // 8]
