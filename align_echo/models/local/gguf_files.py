"""Convert GGUF files into plain model folders, once: everything else reads folders.

A folder in the cache is named after the file's hash. Weights are dequantized to float32, exactly. The header is walked
within the file's length before a library reads it, since the file may come from strangers. Not here: writing GGUF.
"""

from __future__ import annotations

import hashlib
import io
import logging
import mmap
import struct
import threading
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.base.files import cache_folder, check_cache_room, open_file, write_folder_atomically
from align_echo.errors import UsageError, first_line, require
from align_echo.models.local.model_files import TensorHeader, check_config, claimed_numbers

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_LONGEST_TEXT = 2**20
_MOST_SIDES = 4
_BYTES = 4
"""Bytes of a converted weight (float32)."""

_DIGITS_APART = ("smollm",)
"""Values of `tokenizer.ggml.pre` whose digits are tokens of their own, which the conversion of transformers ignores."""

_converting = threading.Lock()


def convert_once(file: Path) -> Path:
    """Return the plain folder of a GGUF file in the cache, converted now if it is not there.

    Raises `UsageError` in one line for a file that cannot be converted, `MissingExtraError` without the packages, and
    `OSError` for a cache that cannot be written.
    """
    with _converting:
        try:
            with open_file(file) as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
        folder = cache_folder() / "models" / f"gguf-{digest[:16]}"
        return folder if folder.is_dir() else convert(file, folder)


def convert(file: Path, folder: Path) -> Path:
    """Write the model in a GGUF file as a plain folder: config, tokenizer, template, safetensors.

    Raises as `convert_once`.
    """
    require(f"reading {file.name}", "train", ("gguf", "torch", "transformers"))
    try:
        header = read_header(file)
        check_cache_room(folder, header.tensors.numbers * _BYTES)
        tokenizer = _read_tokenizer(file, header)
        model = _read_model(file, header)
    except UsageError as error:
        raise UsageError(f"no model can be loaded from {file}: {error}") from None
    except BaseException as error:
        if isinstance(error, ImportError) and error.name:  # an error of this installation, not of the file
            raise
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # raised by Rust libraries
            raise
        raise UsageError(f"no model can be loaded from {file}: {first_line(error)[:300]}") from None

    def write(place: Path) -> None:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    return write_folder_atomically(folder, write)


# ---------------------------------------------------------------- header


@dataclass(frozen=True)
class GgufHeader:
    """Numbers and texts of a GGUF file's header, without its lists; and the shapes of its tensors."""

    values: dict[str, object]
    tensors: TensorHeader


def read_header(file: Path) -> GgufHeader:
    """Read a header within the file's length. Raises `UsageError` for a file that is no GGUF, or is damaged."""
    with open_file(file) as stream:
        if stream.read(4) != b"GGUF":
            raise UsageError("it is no GGUF file")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _HeaderReader(content).read()
            except (struct.error, ValueError) as error:
                why = "it is cut off" if isinstance(error, struct.error) else first_line(error)
                raise UsageError(f"its GGUF header is damaged: {why}") from None


class _HeaderReader:
    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = 4

    def read(self) -> GgufHeader:
        version, tensors, values = self._number("I"), self._number("Q"), self._number("Q")
        if version not in (2, 3):
            raise ValueError(f"version {version}")
        header = GgufHeader({}, TensorHeader({}, {}))
        for _ in range(values):
            name = self._text()
            header.values[name] = self._value(self._number("I"))
        for _ in range(tensors):
            name, sides = self._text(), self._number("I")
            if sides > _MOST_SIDES:
                raise ValueError(f"{sides} dimensions")
            header.tensors.shapes[name] = tuple(self._number("Q") for _ in range(sides))
            self._skip(struct.calcsize("<IQ"))  # kind and place
        return header

    def _number(self, form: str) -> Any:
        (number,) = struct.unpack_from(f"<{form}", self._content, self._at)
        self._at += struct.calcsize(f"<{form}")
        return number

    def _skip(self, size: int) -> None:
        if size > len(self._content) - self._at:
            raise ValueError("it is cut off")
        self._at += size

    def _text(self) -> str:
        length = self._number("Q")
        start = self._at
        self._skip(length)
        if length > _LONGEST_TEXT:
            raise ValueError(f"a text of {length:,} bytes")
        return self._content[start : self._at].decode("utf-8", "replace")

    def _value(self, kind: int) -> object:
        """Read a value; a list is only skipped, and is None."""
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            return self._number(_SCALARS.get(kind) or _refuse_kind(kind))
        inner, count = self._number("I"), self._number("Q")
        if inner == _TEXT:
            for _ in range(count):
                self._skip(self._number("Q"))
        else:
            self._skip(count * struct.calcsize(f"<{_SCALARS.get(inner) or _refuse_kind(inner)}"))
        return None


def _refuse_kind(kind: int) -> str:
    raise ValueError(f"a value of kind {kind}")


# ---------------------------------------------------------------- model and tokenizer


def _read_model(file: Path, header: GgufHeader) -> PreTrainedModel:
    """Load the weights into a fresh model of the same configuration: a model loaded from GGUF refuses to be saved."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    from align_echo.models.local.weights import without_bars

    without_bars()
    before: int = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.CRITICAL)  # errors are reported in one line of our own
    place: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(str(file.parent), **place)
        check_config(config.to_dict(), len(header.tensors.shapes))
        claimed_numbers(AutoModelForCausalLM, config, header.tensors)
        loading: Any = AutoModelForCausalLM
        with redirect_stderr(io.StringIO()):  # a progress bar that has no switch
            model, info = loading.from_pretrained(
                str(file.parent), config=config, dtype=torch.float32, output_loading_info=True, **place
            )
    finally:
        transformers_logging.set_verbosity(before)
    missing = sorted(info["missing_keys"])
    if missing:
        raise UsageError(f"it lacks {len(missing)} of the model's weights, such as {missing[0]}")
    settings = model.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(name, None)
    with torch.device("meta"):
        plain: PreTrainedModel = type(model)(type(model.config)(**settings))
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    return plain


def _read_tokenizer(file: Path, header: GgufHeader) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    loading: Any = AutoTokenizer
    tokenizer: Any = loading.from_pretrained(str(file.parent), gguf_file=file.name, trust_remote_code=False)
    if header.values.get("tokenizer.ggml.pre") in _DIGITS_APART:
        from tokenizers import pre_tokenizers

        backend = tokenizer.backend_tokenizer
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
    length = header.values.get(f"{header.values.get('general.architecture')}.context_length")
    if isinstance(length, int) and length > 0:
        tokenizer.model_max_length = length
    read: PreTrainedTokenizerBase = tokenizer
    return read
