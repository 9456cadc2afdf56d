"""A model's name is read once: what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.errors import UsageError
from align_echo.models.choosing import load_model, read_name


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for folder, file in (("model", "config.json"), ("adapter", "adapter_config.json"), ("run/critic", "config.json")):
        Path(folder).mkdir(parents=True)
        (Path(folder) / file).touch()


@pytest.mark.parametrize(
    ("text", "kind", "source", "folder"),
    [
        ("pocket", "pocket", "pocket", None),
        ("novice-careful", "scripted", "novice-careful", None),
        ("model", "transformers", "model", "model"),
        ("adapter", "transformers", "adapter", "adapter"),
        ("run/critic", "transformers", "run/critic", "run/critic"),
        ("transformers:model", "transformers", "model", "model"),
        ("transformers:some/model", "transformers", "some/model", None),
        ("vllm:model", "vllm", "model", "model"),
        ("vllm-server:model", "vllm-server", "model", None),
        ("run", "endpoint", "run", "run"),
        ("run/nothing", "path", "run/nothing", None),
        ("./run", "path", "./run", "./run"),
        ("some/model", "endpoint", "some/model", None),
        ("gpt-4.1", "endpoint", "gpt-4.1", None),
    ],
)
def test_what_a_name_says(text, kind, source, folder):
    name = read_name(text)
    assert (str(name), name.kind, name.source, name.folder) == (text, kind, source, folder and Path(folder))
    assert read_name(name) is name


@pytest.mark.parametrize(
    ("text", "local", "endpoint", "on_record"),
    [
        ("pocket", True, None, "pocket"),
        ("novice", False, None, "novice (scripted, not a language model)"),
        ("transformers:some/model", True, None, "transformers:some/model"),
        ("vllm-server:some/model", True, "http://here/v1", "vllm-server:some/model"),
        ("gpt-4.1", False, "http://here/v1", "gpt-4.1"),
        ("./nowhere", False, "http://here/v1", "./nowhere"),
    ],
)
def test_where_a_model_is_asked_and_how_it_is_called(text, local, endpoint, on_record):
    name = read_name(text, "http://here/v1")
    assert (name.is_local, name.base_url, name.on_record) == (local, endpoint, on_record)


@pytest.mark.parametrize("text", ["novice", "novice-careful", "novice-stubborn"])
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"])
def test_a_scripted_novice_is_no_model_at_an_endpoint(text, base_url, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with pytest.raises(UsageError, match=f"{text} is a script of an environment's actions, not a language") as caught:
        load_model(text, base_url)
    assert str(caught.value).count("\n") == 0
