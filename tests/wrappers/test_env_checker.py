"""Gymnasium's own checker on the raw environment."""

from __future__ import annotations

import warnings

from gymnasium.utils.env_checker import check_env

from align_echo.wrappers.alfworld import make_env


def test_alfworld_passes_gymnasiums_checker(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    env = make_env(split="valid_unseen", data_root=None, step_limit=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
