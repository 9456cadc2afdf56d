"""Local models by name: one engine for a model, what is missing is said in one line, torch is imported late."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from align_echo.errors import MissingDataError, UsageError
from align_echo.models import load_model
from align_echo.models.local import close_local
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.loading import content_hash, load_encoder, run_transformers
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.types import Message
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.tiny import CHATML, tiny_backend, tiny_model, tiny_tokenizer

CHAT = [Message(role="system", content="be brief"), Message(role="user", content="what now?")]


def load(name: str, seed: int = 0) -> LocalModel:
    model = load_model(name, seed=seed)
    assert isinstance(model, LocalModel)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model as `save_pretrained` writes it."""
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_is_a_model_by_its_path_and_all_that_name_it_share_one_engine(folder):
    first, second = load(f"transformers:{folder}"), load(str(folder), seed=3)
    assert first.engine is second.engine
    assert first.name == f"transformers:{folder}"
    assert first.weights == content_hash(folder)
    assert first.identity != second.identity
    reply = load_model(str(folder)).complete(CHAT, temperature=1.0, max_tokens=4)
    assert reply.tokens is not None
    assert reply.usage.completion_tokens == 4
    first.engine.close()
    again = run_transformers(str(folder), name=first.name).engine
    assert again is not first.engine, "a closed engine is started anew"
    assert isinstance(again, TransformersEngine)
    again.load_weights(tiny_model(seed=1).state_dict())
    fresh = load(str(folder)).engine
    assert fresh is not again, "an engine with other weights is no longer the files' model"
    again.close()
    fresh.close()


def test_other_files_are_another_model(folder):
    first = load(str(folder))
    tiny_model(seed=1).save_pretrained(folder)
    second = load(str(folder))
    assert first.weights != second.weights
    assert first.engine is not second.engine
    first.engine.close()
    second.engine.close()


def test_end_tokens_of_the_generation_settings_end_replies(folder):
    model = tiny_model()
    generation = model.generation_config
    assert generation is not None
    generation.eos_token_id = [CHATML.index("<|im_end|>"), 7]
    generation.save_pretrained(folder)
    assert load_encoder(str(folder)).stop_ids == (CHATML.index("<|im_end|>"), 7)


def test_options_of_an_engine_make_an_engine_of_its_own(folder):
    usual = run_transformers(str(folder), name="tiny")
    short = run_transformers(str(folder), name="tiny", context=64)
    half = run_transformers(str(folder), name="tiny", dtype="bfloat16")
    assert [model.engine.context for model in (usual, short, half)] == [512, 64, 512]
    assert len({id(model.engine) for model in (usual, short, half)}) == 3
    for model in (usual, short, half):
        model.engine.close()
    with pytest.raises(UsageError, match="unknown dtype 'int3'; known: float32"):
        run_transformers(str(folder), name="tiny", dtype="int3")


def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(MissingDataError, match=f"there is no folder {tmp_path}/nowhere"):
        load(f"transformers:{tmp_path}/nowhere")
    with pytest.raises(UsageError, match="no model can be loaded from") as caught:
        load(f"transformers:{tmp_path}")
    assert "\n" not in str(caught.value)
    monkeypatch.setattr("align_echo.models.local.loading.resources.files", lambda package: tmp_path)
    with pytest.raises(MissingDataError, match="the pocket model is not in this installation"):
        load("pocket")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("cut", "no model can be loaded from"),
        ("lack", r"the files of \S+ lack 1 of the model's weights, such as model.norm.weight"),
        ("no tokenizer", "holds no tokenizer"),
        ("no template", r"there is no chat template; choose one by --chat-template FILE"),
    ],
)
def test_files_that_are_spoilt_are_refused_in_one_line(folder, spoil, message):
    weights = folder / "model.safetensors"
    if spoil == "cut":
        weights.write_bytes(weights.read_bytes()[:4000])
    elif spoil == "lack":
        save_file({name: weight for name, weight in load_file(weights).items() if name != "model.norm.weight"}, weights)
    else:
        for file in folder.glob("*token*"):
            file.unlink()
        (folder / "chat_template.jinja").unlink()
    if spoil == "no template":
        ends = ("<|endoftext|>", "<s>", "</s>")
        make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
        make(tokenizer_object=tiny_backend(ends), eos_token="</s>").save_pretrained(folder)
    with pytest.raises((UsageError, MissingDataError), match=message) as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "list": lambda content: b"[]",
    "null": lambda content: b"null",
}


@pytest.mark.parametrize(
    ("file", "how"),
    [
        *((name, how) for name in ("config.json", "tokenizer.json", "generation_config.json") for how in SPOILT),
        *(("tokenizer_config.json", how) for how in ("list", "null")),
        ("model.safetensors", "half"),
    ],
)
def test_a_file_that_was_cut_short_or_holds_something_else_is_told_in_one_line(folder, file, how):
    (folder / file).write_bytes(SPOILT[how]((folder / file).read_bytes()))
    with pytest.raises(UsageError, match="no model can be loaded from") as caught:
        run_transformers(str(folder), name="spoilt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_beside_a_model_is_neither_run_nor_asked_about(file, folder, tmp_path, monkeypatch):
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    record = json.loads((folder / file).read_text())
    record |= {"model_type": "evil"} if file == "config.json" else {"tokenizer_class": "Evil"}
    kinds = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil"] * 2}
    (folder / file).write_text(json.dumps({**record, "auto_map": kinds}))
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    with contextlib.suppress(UsageError):  # of a tokenizer the file alone will do
        run_transformers(str(folder), name="evil")
    assert not (tmp_path / "ran").exists()


def test_weights_that_are_pickled_are_not_read(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="no model can be loaded from") as caught:
        run_transformers(str(folder), name="pickled")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["transformers:", "vllm:", "vllm-server:"])
def test_a_kind_of_model_without_a_name_is_refused(name):
    with pytest.raises(UsageError, match="names no model"):
        load_model(name)


@pytest.mark.parametrize("path", ["./nowhere", "../nowhere", "nowhere/", "a/b/c"])
def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingDataError, match="there is no folder"):
        load_model(f"transformers:{path}")


def test_closing_ends_the_engines_that_were_named_and_spares_those_that_were_changed(folder, tmp_path):
    plain = load(str(folder))
    short = run_transformers(str(folder), name="tiny", context=64)
    short.engine.publish_weights(str(folder), lambda ids: logprobs_of(tiny_model(), ids, 1.0).tolist())
    close_local()
    assert plain.engine.closed
    assert not short.engine.closed
    short.engine.close()


@pytest.mark.long
def test_without_torch_the_extra_to_install_is_named():
    printed = python(
        "import sys",
        "for name in ('torch', 'transformers', 'tokenizers', 'safetensors', 'peft'): sys.modules[name] = None",
        "from align_echo.errors import MissingExtraError",
        "from align_echo.models import load_model",
        "try: load_model('pocket')",
        "except MissingExtraError as error: print(error)",
    )
    assert printed == "the local model pocket needs an extra: pip install '.[train]' in a checkout of align-echo"


@pytest.mark.long
def test_the_library_and_its_command_line_import_no_torch():
    printed = python(
        "import sys, align_echo.cli.main, align_echo.models.local",
        "print([name for name in ('torch', 'transformers') if name in sys.modules])",
    )
    assert printed == "[]"


def python(*lines: str) -> str:
    """What a fresh interpreter prints."""
    out = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return out.stdout.strip()
