"""GGUF files: the same model and tokenizer as a plain folder, and files of strangers refused in one line."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.models.choosing import load_model
from align_echo.models.local.gguf_files import convert_once, read_header
from align_echo.models.local.loading import load_tokenizer
from align_echo.types import Message
from tests.models.local.tiny import tiny_tokenizer
from tests.models.local.tiny_gguf import tiny_llama, write_gguf

HELLO = [Message(role="user", content="go to cabinet 1")]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "models"


@pytest.mark.long
def test_a_gguf_file_is_a_model_like_any_other(cache) -> None:
    write_gguf(Path("tiny.gguf"))
    model: Any = load_model("tiny.gguf")
    tokens = model.complete(HELLO, temperature=0, max_tokens=4).tokens
    ids = torch.tensor([[*tokens.context_ids, *tokens.sampled_ids]])
    with torch.no_grad():
        expected = tiny_llama()(ids).logits[0].log_softmax(-1)
    places = range(len(tokens.context_ids) - 1, ids.shape[1] - 1)
    assert tokens.logprobs == pytest.approx([float(expected[at, ids[0, at + 1]]) for at in places], abs=2e-5)
    (folder,) = cache.iterdir()
    assert sorted(file.name for file in folder.iterdir()) == [
        *("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    ]
    tokenizer = load_tokenizer(str(folder))
    text = "go to cabinet 12\n\n3  4"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("go to") == tiny_tokenizer().encode("go to")
    assert tokenizer.model_max_length == 512


def test_a_file_is_converted_once_whatever_its_name(cache) -> None:
    first = convert_once(write_gguf(Path("tiny.gguf")))
    before = (first / "config.json").stat().st_mtime_ns
    os.rename("tiny.gguf", "other.gguf")
    assert convert_once(Path("other.gguf")) == first
    assert (first / "config.json").stat().st_mtime_ns == before


# ---------------------------------------------------------------- refusals

COUNTS = struct.Struct("<4sIQQ")
NAME = struct.pack("<Q", 1) + b"a"
CUT = "its GGUF header is damaged: it is cut off"
DAMAGED = [
    (b"", "it is no GGUF file"),
    (b"PK\3\4" + b"\0" * 99, "it is no GGUF file"),
    (b"GGUF", CUT),
    (COUNTS.pack(b"GGUF", 1, 0, 0), "its GGUF header is damaged: version 1"),
    (COUNTS.pack(b"GGUF", 3, 2**60, 0), CUT),
    (COUNTS.pack(b"GGUF", 3, 0, 1) + struct.pack("<Q", 2**62), CUT),
    (COUNTS.pack(b"GGUF", 3, 0, 1) + NAME + struct.pack("<I", 77), "a value of kind 77"),
    (COUNTS.pack(b"GGUF", 3, 0, 1) + NAME + struct.pack("<IIQ", 9, 0, 2**62), CUT),
    (COUNTS.pack(b"GGUF", 3, 0, 1) + NAME + struct.pack("<IIQ", 9, 8, 2**62), CUT),
    (COUNTS.pack(b"GGUF", 3, 0, 1) + NAME + struct.pack("<IIQ", 9, 9, 2**62), "a value of kind 9"),
    (COUNTS.pack(b"GGUF", 3, 1, 0) + NAME + struct.pack("<I", 2**32 - 1), "4294967295 dimensions"),
]


@pytest.mark.parametrize(("content", "why"), DAMAGED)
def test_a_damaged_file_is_refused_before_any_library_reads_it(content, why) -> None:
    Path("odd.gguf").write_bytes(content)
    with pytest.raises(UsageError, match=why):
        read_header(Path("odd.gguf"))


def test_a_command_says_in_one_line_what_is_wrong(capsys, cache) -> None:
    Path("odd.gguf").write_bytes(b"hello")
    for name, why in (("odd.gguf", "no model can be loaded from odd.gguf: it is no GGUF file"),
                      ("./none.gguf", "there is no file ./none.gguf")):  # fmt: skip
        assert main(["evaluate", "--env", "alfworld", "--model", name, "--tasks", "1"]) == 2
        assert capsys.readouterr().err == f"align-echo: {why}\n"
    assert not cache.exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"architecture": "rwkv7"}, "architecture rwkv7 is not supported"),
        ({"without": "attn_v"}, "it lacks 2 of the model's weights, such as model.layers.0.self_attn.v_proj"),
        ({"layers": 5000}, "num_hidden_layers = 5000 is more than any model of these files has"),
    ],
)
def test_a_file_of_another_model_is_refused_and_leaves_nothing(changes, why, cache) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        convert_once(write_gguf(Path("tiny.gguf"), **changes))
    assert "\n" not in str(caught.value)
    assert not cache.exists()


def test_a_disk_that_fills_up_leaves_no_half_folder(cache, monkeypatch) -> None:
    from transformers import PreTrainedModel

    def fill(model: PreTrainedModel, place: Path) -> None:
        (Path(place) / "config.json").write_text("{}")
        raise OSError(28, "No space left on device", str(place))

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", fill)
    with pytest.raises(OSError, match="No space left"):
        convert_once(write_gguf(Path("tiny.gguf")))
    assert list(cache.iterdir()) == []
