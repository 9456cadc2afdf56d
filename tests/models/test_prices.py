"""Which model name has which price."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.errors import UsageError
from align_echo.models import Price, find_price


@pytest.fixture
def listed() -> None:
    pytest.importorskip("genai_prices", reason="no prices: pip install 'align-echo[prices]'")


@pytest.mark.usefixtures("listed")
def test_a_dated_name_costs_what_its_model_costs() -> None:
    assert find_price("gpt-4.1-2025-04-14") == find_price("gpt-4.1")
    assert find_price("google/gemini-2.5-pro-preview-05-06") == find_price("gemini-2.5-pro")


@pytest.mark.usefixtures("listed")
def test_a_provider_has_its_own_prices_and_open_models_cost_nothing_known_elsewhere() -> None:
    model = "qwen/qwen3-32b"
    assert find_price(model, base_url="https://openrouter.ai/api/v1") is not None
    for name in (model, "deepseek-r1", "gpt-oss-20b"):
        assert find_price(name, base_url="http://127.0.0.1:8000/v1") is None
    assert find_price("gpt-4.1", base_url="http://127.0.0.1:4000/v1") == find_price("gpt-4.1")


@pytest.mark.usefixtures("listed")
def test_another_model_of_the_family_has_its_own_price() -> None:
    assert find_price("gpt-4.1") == Price(prompt=2, completion=8)
    assert find_price("gpt-4.1-mini") == Price(prompt=0.4, completion=1.6)
    assert find_price("gpt-4.1-giant") is None


def test_an_unknown_model_has_no_price() -> None:
    assert find_price("qwen2.5-7b-instruct") is None


def test_the_users_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"qwen": {"prompt": 1, "completion": 2}, "gpt-4o": {"prompt": 7, "completion": 7}}')
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(file))
    assert find_price("qwen") == Price(prompt=1, completion=2)
    assert find_price("gpt-4o") == Price(prompt=7, completion=7)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"qwen": 3}', "qwen: must hold"),
        (b'{"qwen": {\n', "Expecting property name"),
        (b"", "Expecting value"),
        (b'["qwen"]', "must hold names and values"),
        (b'{"qwen": {"prompt": "2", "completion": 8}}', "qwen.prompt: must be a number"),
        (b'{"qwen": {"prompt": 2}}', "qwen.completion: it is missing"),
        (b"\xff\xfe", "can't decode"),
        (None, "No such file or directory$"),
    ],
)
def test_an_unreadable_file_is_one_line(
    content: bytes | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(file))
    with pytest.raises(UsageError, match=rf"ALIGN_ECHO_PRICES names {file}, .*\"completion\": 8.*: .*{why}") as caught:
        find_price("qwen")
    assert "\n" not in str(caught.value)


def test_prices_in_place_of_their_file_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIGN_ECHO_PRICES", '{"m": {"prompt": 2.0, "completion": 8.0}}')
    with pytest.raises(UsageError, match=r"^\$ALIGN_ECHO_PRICES is the name of a file, and holds JSON itself"):
        find_price("m")
