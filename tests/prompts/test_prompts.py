"""The prompt templates: strict about values, blind to what the values hold."""

from __future__ import annotations

import pytest

from align_echo.errors import UsageError
from align_echo.prompts import prompt_hash, prompt_names, render


def test_a_missing_value_is_an_error_that_names_it() -> None:
    with pytest.raises(UsageError, match="rules"):
        render("vanilla/system", {"action_format": "look"})


def test_an_unknown_prompt_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="vanilla/system"):
        render("vanilla/nope", {})


def test_text_from_outside_is_never_read_as_a_template() -> None:
    text = render("shared/start", {"initial_observation": "{{ 7 * 7 }} <b> & {% if %}", "goal": "win", "critique": ""})
    assert "{{ 7 * 7 }} <b> & {% if %}" in text


def test_every_prompt_has_a_hash_of_its_own() -> None:
    names = prompt_names()
    assert "vanilla/system" in names
    assert len({prompt_hash(name) for name in names}) == len(names)
