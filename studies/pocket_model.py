"""The shipped pocket model in float32, as several studies take it."""

from __future__ import annotations

from importlib import resources
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase


def pocket_model() -> tuple[Any, PreTrainedTokenizerBase]:
    """Load the model and its tokenizer."""
    with resources.as_file(resources.files("align_echo.models").joinpath("pocket")) as folder:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)
