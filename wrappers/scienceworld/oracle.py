"""Ground truth about a running episode: the engine's own gold path, as long as the episode follows it.

The gold path is one route to the full score, not a shortest one. Off the path, the oracle can only try (`ways.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from align_echo.wrappers.java import java_pool
from align_echo.wrappers.scienceworld.jvm import JavaSimulator
from align_echo.wrappers.scienceworld.tasks import LabTask
from align_echo.wrappers.scienceworld.ways import costs_at_most


class LabOracle:
    """Oracle for one moment of an episode. The gold path is planned on first use (seconds)."""

    def __init__(
        self, task: LabTask, history: Sequence[str], played: Sequence[str], *, done: bool, won: bool
    ) -> None:
        """Start with a moment. `history` are all actions of the episode, `played` the accepted ones."""
        self._task = task
        self._history = tuple(history)
        self._played = tuple(played)
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """Return the gold path's next action; None once the episode is over or has left the gold path."""
        rest = self._rest()
        return rest[0] if rest else None

    def distance(self) -> int | None:
        """Return the actions left on the gold path, an upper bound; 0 once won, None off the gold path."""
        if self._won:
            return 0
        rest = self._rest()
        return len(rest) if rest else None

    def costs_at_most(self, action: str, allowance: int) -> bool | None:
        """Check if `action` costs at most `allowance` extra turns on the way to the full score, itself included.

        The way is the rest of the gold path. None if it does not lead to the full score from this moment. Raises
        `EngineError`.
        """
        if self._done:
            return None
        return costs_at_most(self._task, gold_path(self._task), self._played, action, allowance)

    def _rest(self) -> tuple[str, ...]:
        if self._done:
            return ()
        gold = gold_path(self._task)
        steps = len(self._history)
        return gold[steps:] if gold[:steps] == self._history else ()


@functools.lru_cache(maxsize=256)
def gold_path(task: LabTask) -> tuple[str, ...]:
    """Plan the gold path of a task in a separate simulator. Raises `EngineError`."""
    with java_pool(JavaSimulator).borrowed() as simulator:
        simulator.load(task.name, task.variation, task.simplifications, gold=True)
        return tuple(simulator.gold_path())
