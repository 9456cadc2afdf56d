"""The simulators of this process: an environment leases one and gives it back, so that Java starts seldom."""

from __future__ import annotations

import functools

from align_echo.wrappers.pool import Pool, pool_of_process
from align_echo.wrappers.scienceworld.jvm import JavaSimulator


@functools.cache
def pool() -> Pool[JavaSimulator]:
    """This process's pool."""
    return pool_of_process(JavaSimulator, pool.cache_clear)
