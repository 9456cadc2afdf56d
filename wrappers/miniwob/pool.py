"""Browsers of this process: an environment leases a browser, plays many tasks in it and gives it back."""

from __future__ import annotations

import functools

from align_echo.wrappers.miniwob.chromium import BrowserProcess
from align_echo.wrappers.miniwob.page import start_browser
from align_echo.wrappers.pool import EnginePool, make_process_pool


@functools.cache
def pool() -> EnginePool[BrowserProcess]:
    """Return this process's pool."""
    return make_process_pool(start_browser, pool.cache_clear)
