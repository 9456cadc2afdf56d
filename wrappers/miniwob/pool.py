"""Browsers of this process: an environment leases a browser, plays many tasks in it and gives it back."""

from __future__ import annotations

import functools

from align_echo.wrappers.miniwob.chromium import Browser
from align_echo.wrappers.miniwob.page import start_browser
from align_echo.wrappers.pool import Pool, pool_of_process


@functools.cache
def pool() -> Pool[Browser]:
    """Return this process's pool."""
    return pool_of_process(start_browser, pool.cache_clear)
