"""The pocket model without `transformers`: the same numbers and ids as with it, and it is not imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from align_echo.errors import UsageError
from align_echo.models import load_model
from align_echo.models.local import loading
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.loading import pocket_folder, run_transformers
from align_echo.types import Message, WordChoice

CHAT = [
    Message(role="system", content="You are in a house. <|im_end|> is text, <think> too."),
    Message(role="user", content="You see a desk 1, a drawer 1.\nYour task is to: put a mug in the drawer. é 你\u2028"),
]


def pocket() -> LocalModel:
    model = load_model("pocket")
    assert isinstance(model, LocalModel)
    return model


def engines() -> tuple[LocalModel, LocalModel]:
    """The model as `load_model` gives it, and with `transformers`."""
    return pocket(), run_transformers(str(pocket_folder()), name="pocket")


@pytest.mark.long
@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_replies_are_those_of_transformers_to_the_last_bit(temperature, monkeypatch):
    # Engines that hold nothing yet, and one request after the other: what is computed together decides the rounding.
    monkeypatch.setattr(loading, "_running", {})
    ours, theirs = engines()
    assert ours.identity == theirs.identity
    drawn: list[Any] = [
        [model.draw(CHAT, [number], temperature=temperature, max_tokens=40)[0] for number in range(6)]
        for model in (ours, theirs)
    ]
    assert drawn[0] == drawn[1]
    assert all(len(reply.tokens.logprobs) > 2 for reply in drawn[0])
    again = [
        model.complete([*CHAT, Message(role="assistant", content=reply.text, tokens=reply.tokens),
                        Message(role="user", content="Nothing happens.")], temperature=temperature, max_tokens=40)
        for model, (reply, *_) in zip((ours, theirs), drawn, strict=True)
    ]  # fmt: skip
    assert again[0] == again[1]
    chosen = [
        [model.choose([chat], ("correct", "wrong"))[0] for chat in (CHAT, CHAT[1:])] for model in (ours, theirs)
    ]
    ours.engine.close()
    theirs.engine.close()
    assert chosen[0] == chosen[1]
    assert all(isinstance(choice, WordChoice) for choice in chosen[0])


@pytest.mark.long
def test_an_episode_is_played_without_transformers(tmp_path):
    program = "import sys; from align_echo.cli.main import main; "
    program += f"main(['evaluate', '--env', 'alfworld', '--tasks', '1', '--out', {str(tmp_path / 'run')!r}]); "
    program += "print([name for name in ('transformers', 'scipy', 'sklearn', 'pandas') if name in sys.modules])"
    played = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "won" in played.stdout.lower()
    assert played.stdout.splitlines()[-1] == "[]"


def test_whoever_changes_it_changes_the_one_of_transformers(monkeypatch):
    monkeypatch.setattr(loading, "_running", {})
    engine: Any = pocket().engine
    request = TokenRequest(tuple(range(5, 25)), SamplingConfig(temperature=0, max_tokens=12))
    before = engine.submit(request).result(60)
    classes = []
    engine.update(lambda model: classes.append(type(model).__name__))
    assert classes == ["Qwen3ForCausalLM"]
    assert engine.submit(request).result(60) == before
    engine.close()


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_file_is_one_line(file, tmp_path, monkeypatch):
    folder = tmp_path / "pocket"
    shutil.copytree(pocket_folder(), folder)
    (folder / file).write_bytes((folder / file).read_bytes()[:90])
    monkeypatch.setattr(loading, "pocket_folder", lambda: folder)
    with pytest.raises(UsageError, match=r"^no model can be loaded from .*pocket: "):
        load_model("pocket")


def test_another_architecture_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "pocket"
    shutil.copytree(pocket_folder(), folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"attention_bias": True}))
    monkeypatch.setattr(loading, "pocket_folder", lambda: folder)
    with pytest.raises(UsageError, match=r"its config\.json is not that of the pocket model"):
        load_model("pocket")
