"""Merge an adapter into the model that it is for, and write both as a plain folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from align_echo.base.files import write_folder_atomically
from align_echo.errors import UsageError, require
from align_echo.models.local import ADAPTER
from align_echo.models.packages import folder_by_name


def merge_adapter_folder(adapter: Path, out: Path) -> Path:
    """Write a model with an adapter merged into it: weights, config, tokenizer. Return `out`.
    The adapter is a folder, or the name of one that comes along.

    Raises `UsageError` in one line for a folder without an adapter, for one that cannot be read or merged, and for an
    `out` with files in it.
    """
    adapter = folder_by_name(str(adapter)) or adapter
    require("merging an adapter", "train", ("torch", "transformers", "peft"))
    if not (adapter / ADAPTER).is_file():
        raise UsageError(f"{adapter} is no adapter: it has no {ADAPTER}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already: name another --out")
    from align_echo.models.local.loading import load_tokenizer, read_checked_files, tokenizer_source

    tokenizer = load_tokenizer(tokenizer_source(str(adapter)))
    model = read_checked_files(str(adapter), lambda: _read_merged(adapter))

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    return write_folder_atomically(out, write)


def _read_merged(adapter: Path) -> Any:
    """Load the base model and merge the adapter. Raises errors of `transformers` and PEFT."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from align_echo.models.local.model_files import adapter_base, check_adapter_fits
    from align_echo.models.local.weights import read_strange_model, without_bars

    without_bars()
    source = adapter_base(adapter)
    base = read_strange_model(AutoModelForCausalLM, source, "auto")
    check_adapter_fits(adapter, base, source)
    merging: Any = PeftModel.from_pretrained(base, str(adapter))
    return merging.merge_and_unload(safe_merge=True)
