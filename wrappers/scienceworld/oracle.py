"""Ground truth about a running episode: the engine's own gold path, while the episode has followed it.

The gold path is one way to the full score, not a shortest one. Beside it, the oracle can only try (`ways.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.jvm import JavaSimulator
from align_echo.wrappers.scienceworld.tasks import LabTask
from align_echo.wrappers.scienceworld.ways import costs_at_most


class LabOracle:
    """One moment of an episode. The gold path is planned when it is first asked for (seconds)."""

    def __init__(
        self, task: LabTask, history: Sequence[str], played: Sequence[str], *, done: bool, won: bool
    ) -> None:
        """`history` are all actions of the episode, `played` those that the engine did not refuse."""
        self._task = task
        self._history = tuple(history)
        self._played = tuple(played)
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """The gold path's next action; None once the episode is over or has left the gold path."""
        rest = self._rest()
        return rest[0] if rest else None

    def distance(self) -> int | None:
        """Actions left on the gold path, an upper bound; 0 once won, None where the gold path was left."""
        if self._won:
            return 0
        rest = self._rest()
        return len(rest) if rest else None

    def costs_at_most(self, action: str, allowance: int) -> bool | None:
        """Whether what is left of the gold path leads to the full score from after `action`, that one counted, with at
        most `allowance` turns more than without it. None if it does not from here. Raises `EngineError`."""
        if self._done:
            return None
        return costs_at_most(self._task, gold_path(self._task), self._played, action, allowance)

    def _rest(self) -> tuple[str, ...]:
        if self._done:
            return ()
        gold = gold_path(self._task)
        passed = len(self._history)
        return gold[passed:] if gold[:passed] == self._history else ()


@functools.lru_cache(maxsize=256)
def gold_path(task: LabTask) -> tuple[str, ...]:
    """The gold path of a task, planned by the engine in a simulator of its own. Raises `EngineError`."""
    with java_pool(JavaSimulator).borrowed() as simulator:
        simulator.load(task.name, task.variation, task.simplifications, gold=True)
        return tuple(simulator.gold_path())
