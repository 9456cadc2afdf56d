"""A Qwen2.5-VL of a third of a million weights, made from nothing by a seed: to try critics without a download.

Its vocabulary is the pocket model's, with the tokens of pictures; a screen of 160x210 pixels becomes 48 of them. It
knows nothing until it is trained, and what it can learn are coloured shapes, not text. Left out: training
(`align_echo.gui.learning`).
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Shape:
    """Sizes of the tiny model: of what sees, and of what reads."""

    vision_width: int = 32
    vision_depth: int = 2
    width: int = 64
    depth: int = 2
    heads: int = 4


SHAPE = Shape()


def tiny_vision(seed: int = 0, shape: Shape = SHAPE) -> tuple[Any, ScreenEncoder]:
    """The model and its encoder. Weights are drawn by the width that they sum over: 0.02 is for far wider ones.

    Raises `MissingDataError` without the pocket model.
    """
    backend = Tokenizer.from_file(str(pocket_folder() / "tokenizer.json"))
    start, end, image, video = range(backend.get_vocab_size(), backend.get_vocab_size() + len(PICTURE_TOKENS))
    backend.add_special_tokens(list(PICTURE_TOKENS))
    tokenizer = chatml_tokenizer(backend)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": shape.width,
            "intermediate_size": 3 * shape.width,
            "num_hidden_layers": shape.depth,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.heads,
            "max_position_embeddings": CONTEXT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": _sections(shape)},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": shape.vision_depth,
            "hidden_size": shape.vision_width,
            "intermediate_size": 3 * shape.vision_width,
            "num_heads": shape.heads,
            "patch_size": PATCH,
            "out_hidden_size": shape.width,
            "fullatt_block_indexes": [shape.vision_depth - 1],
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


def _sections(shape: Shape) -> list[int]:
    """How many of a head's frequencies tell of time, height and width: a quarter and twice three eighths."""
    half = shape.width // shape.heads // 2
    return [half - 2 * (3 * half // 8), 3 * half // 8, 3 * half // 8]
