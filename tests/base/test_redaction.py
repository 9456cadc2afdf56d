"""What is taken out of text, and what is left as it is."""

from __future__ import annotations

import json

import pytest

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import MissingDataError, ModelError, conceal, redacted
from align_echo.types import Message

KEY = "sk-planted-0c5e7d11"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://me:hunter22@host:1/v1", "http://[redacted]@host:1/v1"),
        ("https://a-token@host and more", "https://[redacted]@host and more"),
        ("http://h/v1?api-version=1&api-key=abcd&x=2", "http://h/v1?api-version=1&api-key=[redacted]&x=2"),
        ("Authorization: Bearer abc.def\nHost: a", "Authorization: Bearer [redacted]\nHost: a"),
        ('{"authorization": "Basic dXNl", "x": 1}', '{"authorization": "Basic [redacted]", "x": 1}'),
        ("[('Authorization', 'Bearer abcd')]", "[('Authorization', 'Bearer [redacted]')]"),
        ("x-api-key: abcd", "x-api-key: [redacted]"),
        (f"one {KEY}, two {KEY}", "one [redacted], two [redacted]"),
    ],
)
def test_secrets_are_taken_out(text, kept):
    conceal(f"{KEY}\n")
    assert redacted(text) == kept
    assert json.loads(redacted(json.dumps({"text": text})))["text"] == kept


@pytest.mark.parametrize(
    "text",
    [
        "the Authorization header is missing",
        "authorization of the user, please",
        "write to me@host or see https://host/a@b",
        "a key = value and a token; the api-key is missing",
        "a basic understanding of the bearer responsibilities",
    ],
)
def test_honest_text_is_left_as_it_is(text):
    assert redacted(text) == text


@pytest.mark.parametrize("key", ["x", "EMPTY", "alfworld", "lm-studio"])
def test_a_key_that_is_too_like_a_word_stays_in_the_text(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    text = f"x alfworld lm-studio EMPTY {key}"
    assert redacted(text) == text
    assert redacted(f"Authorization: Bearer {key.ljust(4, '-')}") == "Authorization: Bearer [redacted]"


@pytest.mark.parametrize("kind", [ModelError, MissingDataError])
def test_no_error_holds_a_key_from_the_environment(kind, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_API_KEY", "sk-other-5d2f90aa")
    assert str(kind("see sk-other-5d2f90aa")) == "see [redacted]"


@pytest.mark.parametrize(
    "text", ["Authorization:\nform signed", "Authorization:\tform", 'authorization = ""\nfoo', "?key=42abc"]
)
def test_a_record_that_only_speaks_of_keys_is_kept_word_for_word(text, tmp_path):
    file = JsonlFile(tmp_path / "records.jsonl")
    file.append(Message(role="user", content=text))
    assert [message.content for message in file.read(Message)] == [text]
