"""The simulators of this process: an environment leases one and gives it back, so that Java starts seldom."""

from __future__ import annotations

import functools

from align_echo.wrappers.pool import Pool, pool_of_process
from align_echo.wrappers.scienceworld.jvm import Simulator


@functools.cache
def pool() -> Pool[Simulator]:
    """This process's pool."""
    return pool_of_process(Simulator, pool.cache_clear)
