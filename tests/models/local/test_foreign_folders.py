"""A model's folder that a stranger made: each fault is one line within bounds, and an honest one is read as before."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, NemotronConfig, StableLmConfig

from align_echo.errors import UsageError
from align_echo.models.local import chat_template, foreign_process
from align_echo.models.local.chat_template import (
    CHATML_TEMPLATE,
    ChatTemplate,
    TemplateProcess,
    UnboundedTemplateError,
    marked_chat,
)
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.loading import check_tokenizer, load_encoder, run_transformers
from align_echo.types import Message
from tests.models.local.tiny import tiny_model, tiny_tokenizer

Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    return Path(shutil.copytree(honest, tmp_path / "model"))


def refusal(folder: Path) -> str:
    """Return the line that is said when this model is loaded."""
    with pytest.raises(UsageError) as said:
        run_transformers(str(folder), name="stranger", device="cpu", slots=2, context=64)
    line = str(said.value)
    assert "\n" not in line
    assert len(line) < 600
    return line


def edited(name: str, **values: Any) -> Change:
    def edit(folder: Path) -> None:
        file = folder / name
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return edit


# ---------------------------------------------------------------- chat templates

PLAIN_CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
UNBOUNDED = {
    "loops": LOOP + PLAIN_CHAT,
    "loops in a long chat": "{% if messages | length > 5 %}" + LOOP + "{% endif %}" + PLAIN_CHAT,
    "grows": "{% set text = 'ab' * 10 ** 10 %}{{ text }}" + PLAIN_CHAT,
    "grows by steps": "{{ (('ab' * 9000) * 9000) * 9000 }}" + PLAIN_CHAT,
    "grows by a filter": "{{ 'ab' | center(7 * 10 ** 9) }}" + PLAIN_CHAT,
    "writes much": "{{ 'ab' * 10 ** 6 }}" + PLAIN_CHAT,
    "has a large number": "{{ 7 ** (7 ** (7 ** 7)) }}" + PLAIN_CHAT,
    "calls itself": "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}" + PLAIN_CHAT,
    "nests": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}" + PLAIN_CHAT,
    "is too long": "x" * 1_000_001 + PLAIN_CHAT,
}


@pytest.mark.parametrize("how", UNBOUNDED)
def test_a_template_without_bounds_is_refused(how, folder, monkeypatch):
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    (folder / "chat_template.jinja").write_text(UNBOUNDED[how])
    with pytest.raises(UsageError, match="chat template"):
        load_encoder(str(folder))


def test_a_template_that_is_refused_says_what_it_does(monkeypatch):
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    for how, words in (("loops", "needs more than 1 s of computing"), ("writes much", "writes 2,000,0.. characters")):
        with pytest.raises(UnboundedTemplateError, match=words):
            ChatTemplate(UNBOUNDED[how], {})


def test_a_template_that_loops_late_ends_the_conversation_and_no_other(monkeypatch):
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    template = ChatTemplate(UNBOUNDED["loops in a long chat"], {})
    short, long = (marked_chat(("user", "assistant") * turns) for turns in (1, 3))
    with pytest.raises(UnboundedTemplateError, match="to write 6 messages, its chat template needs more than 1 s"):
        template.text(long)
    assert template.text(short) == "<user>Xq0qX</user><assistant>Xq1qX</assistant>"


HONEST = {
    "own": CHATML_TEMPLATE,
    "plain": PLAIN_CHAT,
    "tokens and blanks": (
        "{{ bos_token }}\n{%- for m in messages %}\n    {%- if m['role'] == 'system' %}\n[S]{{ m['content'] | trim }}\n"
        "    {%- else %}\n[{{ loop.index0 }}] {{ m.content }}{{ eos_token }}\n    {% endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}> {% endif %}"
    ),
    "blocks and controls": (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if loop.index > 4 %}{% break %}{% endif %}"
        "{% set ns.n = ns.n + 1 %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}{{ m | tojson }} {{ m.items() | list }}{% endif %}{% endfor %}{{ ns.n }} {{ tools is none }}"
    ),
    "a mapping": "{{ dict(a=1, **{'b': 2}) | tojson(indent=2) }} {{ 'é<' | tojson }}" + PLAIN_CHAT,
    "a refusal": "{% if messages[0].role == 'system' %}{{ raise_exception('no system, please') }}{% endif %}x",
    "no text": "{{ messages[9].content }}",
    "an unsafe name": "{{ messages.__class__.__mro__ }}{{ ''.__class__ }}",
    "a change": "{{ messages.append(1) }}",
    "no template": "{% for %}",
}


@pytest.mark.parametrize("form", HONEST)
def test_a_template_within_bounds_writes_what_transformers_writes(form):
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<|endoftext|>"})
    process = TemplateProcess(HONEST[form], tokenizer.special_tokens_map)
    for roles in (("user",), ("system", "user"), ("system", "user", *("assistant", "user") * 3), ("tool",)):
        chat = marked_chat(roles)
        why = ""
        try:
            text = tokenizer.apply_chat_template(
                chat, chat_template=HONEST[form], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            why = " ".join(str(error).split())
        if why:
            with pytest.raises(UsageError, match=re.escape(why)):
                process.write(chat, True)
        else:
            assert process.write(chat, True) == text


def test_conversations_are_written_in_one_process_which_ends_with_the_template(monkeypatch):
    started = []

    class Counted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHATML_TEMPLATE + "{{ '' * 2 }}"  # no plain one
    chat = [Message(role="system", content="be brief"), Message(role="user", content="what now?")]
    encoder = ChatEncoder(tokenizer)
    for turn in range(12):
        chat += [Message(role="assistant", content="look"), Message(role="user", content=f"You see {turn} mugs.")]
        assert encoder.opening(chat) == ChatEncoder(tiny_tokenizer()).opening(chat)
    (process,) = started
    assert process.poll() is None
    del encoder
    gc.collect()
    assert process.returncode is not None


# ---------------------------------------------------------------- configurations

CONFIGS: dict[str, dict[str, Any]] = {
    "no layer": {"num_hidden_layers": -1},
    "a billion layers": {"num_hidden_layers": 10**9},
    "a huge width": {"hidden_size": 2**40},
    "a width beyond the weights": {"hidden_size": 2**14, "head_dim": 2**13, "intermediate_size": 2**15},
    "no width": {"hidden_size": 0},
    "a width in words": {"hidden_size": "wide"},
    "a row of widths": {"hidden_size": [32]},
    "no heads": {"num_attention_heads": None},
    "half a layer": {"num_hidden_layers": 2.5},
    "a negative vocabulary": {"vocab_size": -300},
    "a huge vocabulary": {"vocab_size": 2**33},
    "negative heads": {"num_key_value_heads": -3},
    "an endless context": {"max_position_embeddings": 10**12},
    "no number": {"rms_norm_eps": float("nan")},
    "another kind": {"model_type": "stranger"},
    "an unknown activation": {"hidden_act": "stranger"},
    "code of a hub": {"attn_implementation": "somebody/kernels"},
}


@pytest.mark.parametrize("what", CONFIGS)
def test_a_configuration_of_no_model_is_one_line(what, folder):
    edited("config.json", **CONFIGS[what])(folder)
    line = refusal(folder)
    assert line.startswith(f"no model can be loaded from {folder}: ")
    assert not line.endswith(":")


def test_a_line_names_the_number_and_what_is_wrong(folder):
    edited("config.json", num_hidden_layers=-1)(folder)
    assert refusal(folder).endswith("config.json is of no model: num_hidden_layers = -1 has to be above 0")
    edited("config.json", num_hidden_layers=2.5)(folder)
    assert "num_hidden_layers" in refusal(folder)
    assert "2.5" in refusal(folder)


# ---------------------------------------------------------------- files


class _Poison:
    """Makes a folder when it is read by `pickle`."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("write", [torch.save, lambda poison, file: file.write_bytes(pickle.dumps(poison))])
def test_a_poisoned_checkpoint_is_refused_and_its_code_not_run(write, folder, tmp_path):
    (folder / "model.safetensors").unlink()
    write(_Poison(tmp_path / "poisoned"), folder / "pytorch_model.bin")
    refusal(folder)
    assert not (tmp_path / "poisoned").exists()


def _half(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _long_header(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(struct.pack("<Q", 2**60) + weights.read_bytes()[8:])


def _index(name: object) -> Change:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))

    return write


def _no_numbers(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][:] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


FILES: dict[str, Change] = {
    "half of the weights": _half,
    "weights with a long header": _long_header,
    "weights of no bytes": _text("model.safetensors", ""),
    "weights of words": _text("model.safetensors", "weights"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "weights elsewhere": _index("../../elsewhere.safetensors"),
    "weights by number": _index(7),
    "weights that are no numbers": _no_numbers,
    "an empty tokenizer": _text("tokenizer.json", "{}"),
    "a tokenizer in a row": _text("tokenizer.json", "[]"),
    "a tokenizer of words": _text("tokenizer.json", "words"),
    "a nested tokenizer": _text("tokenizer.json", "[" * 100_000),
    "a tokenizer's settings in a row": _text("tokenizer_config.json", "[]"),
    "no JSON": _text("config.json", "{"),
    "a configuration in a row": _text("config.json", "[]"),
    "a nested configuration": _text("config.json", "[" * 200_000),
    "end tokens in words": _text("generation_config.json", '{"eos_token_id": "end"}'),
    "end tokens in a row": _text("generation_config.json", "[]"),
}


@pytest.mark.parametrize("what", FILES)
def test_damaged_files_are_one_line(what, folder):
    FILES[what](folder)
    assert refusal(folder).startswith(f"no model can be loaded from {folder}: ")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "large"])
def test_what_has_no_end_is_not_waited_for(name, kind, folder):
    file = folder / name
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "loop":
        file.symlink_to(name)
    elif kind == "folder":
        file.mkdir()
    else:
        with file.open("wb") as stream:
            stream.truncate(2**33 if name.endswith(".json") else 2**20)
    assert name in refusal(folder)


# ---------------------------------------------------------------- tokenizers


def _with(folder: Path, **parts: Any) -> None:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | parts))


def test_a_tokenizer_out_of_proportion_is_refused(folder):
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20}
    for normalizer, words in (
        ({"type": "Sequence", "normalizers": [grow] * 12}, "may grow"),
        ({"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}, "repeats a repetition"),
    ):
        _with(folder, normalizer=normalizer)
        with pytest.raises(UsageError, match=words):
            check_tokenizer(folder)


def test_repeated_repetitions_are_told_from_usual_patterns():
    usual = r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    assert not foreign_process.repeats_repetition(usual)
    for pattern in (r"(a+)+", r"((ab)*c*)*", r"(x[+]y{2,})+", r"(?:\w+\s?)*"):
        assert foreign_process.repeats_repetition(pattern), pattern


def test_an_honest_folder_is_read_and_answers(honest):
    model = run_transformers(str(honest), name="honest", device="cpu", slots=2, context=64)
    reply = model.complete([Message(role="user", content="what now?")], temperature=1.0, max_tokens=4)
    assert reply.usage.completion_tokens == 4
    model.engine.close()


@pytest.mark.parametrize("kind", [StableLmConfig, NemotronConfig])
def test_a_model_whose_layers_pass_no_keywords_on_is_refused(kind: Any, folder: Path) -> None:
    sizes = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    config = kind(**sizes, num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=512)
    making: Any = AutoModelForCausalLM
    making.from_config(config).save_pretrained(folder)
    why = f"{config.architectures[0]} is not supported here (its layers pass no keywords on to its attention)"
    assert why in refusal(folder)


# ---------------------------------------------------------------- adapters


@pytest.fixture
def adapter(folder: Path, tmp_path: Path) -> Path:
    """An adapter for the model in `folder`."""
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=4, target_modules=["q_proj"]))
    model.peft_config["default"].base_model_name_or_path = str(folder)
    model.save_pretrained(str(tmp_path / "adapter"))
    tiny_tokenizer().save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_an_adapter_is_read_with_its_model(adapter: Path) -> None:
    assert run_transformers(str(adapter), name="adapted", device="cpu", slots=2, context=64).weights


def test_an_adapter_without_a_tokenizer_takes_that_of_its_model(adapter: Path, folder: Path) -> None:
    for file in adapter.glob("*token*"):
        file.unlink()
    (adapter / "chat_template.jinja").unlink()
    chat = [Message(role="user", content="go to cabinet 1")]
    assert load_encoder(str(adapter)).opening(chat) == load_encoder(str(folder)).opening(chat)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"r": 10**9}, r"adapter_config\.json claims ranks of \[1000000000\]"),
        ({"rank_pattern": {"q_proj": 10**9}}, r"adapter_config\.json claims ranks of \[4, 1000000000\]"),
        ({"r": "4"}, r'adapter_config\.json claims ranks of \["4"\]'),
        ({"base_model_name_or_path": None}, "names no model that it is for"),
    ],
)
def test_an_adapter_claims_no_more_than_its_file_holds(values: dict[str, Any], words: str, adapter: Path) -> None:
    edited("adapter_config.json", **values)(adapter)
    assert re.search(words, refusal(adapter))


def test_the_model_of_an_adapter_is_checked_too(adapter: Path, folder: Path) -> None:
    edited("config.json", num_hidden_layers=-1)(folder)
    assert "num_hidden_layers = -1 has to be above 0" in refusal(adapter)
