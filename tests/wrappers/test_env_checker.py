"""Gymnasium's own checker on the raw environment."""

from __future__ import annotations

import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import align_echo
from align_echo.errors import UsageError
from align_echo.wrappers.alfworld import make_env


def test_alfworld_passes_gymnasiums_checker(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    env = make_env(split="valid_unseen", data_root=None, step_limit=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)


def test_what_gymnasium_makes_by_id_passes_its_checker():
    env = gymnasium.make("align_echo/ALFWorld-v0", render_mode="ansi", split="valid_unseen")
    check_env(env.unwrapped)
    env.reset(seed=0)
    assert str(env.render()).startswith("You are in the middle of a room.")


def test_the_wrapped_environment_passes_too():
    check_env(align_echo.make("alfworld", split="valid_unseen", interface="alfworld/probe"), skip_render_check=True)


def test_another_render_mode_is_refused():
    with pytest.raises(UsageError, match="ansi"):
        gymnasium.make("align_echo/ALFWorld-v0", render_mode="human")
