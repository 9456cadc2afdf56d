"""Engines on lease: what a forgotten holder had is given back, wherever the garbage collector finds it."""

from __future__ import annotations

import gc
import threading

import pytest

from align_echo.wrappers.pool import EnginePool


class Collecting:
    """An engine during whose every look the garbage collector runs, as it may at any time."""

    @property
    def alive(self) -> bool:
        gc.collect()
        return True

    def close(self) -> None:
        """Nothing to end."""

    def leave_to_parent(self) -> None:
        """Nothing to forget."""


class Holder:
    """What holds a lease, in a cycle: only the collector ends it."""

    def __init__(self, pool: EnginePool[Collecting]) -> None:
        self.myself = self
        self.leased = pool.lease(self)


@pytest.mark.long
def test_a_lease_that_ends_while_another_is_given_does_not_block():
    pool = EnginePool(Collecting)
    holder = Holder(pool)
    forgotten = Holder(pool).leased
    pool.give_back(holder.leased)
    leased: list[Collecting] = []
    thread = threading.Thread(target=lambda: leased.extend((pool.lease(pool), pool.lease(pool))), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert {id(engine) for engine in leased} == {id(holder.leased), id(forgotten)}
