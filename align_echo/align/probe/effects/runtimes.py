"""Runtimes of rules at states of the lab, each led on from one before."""

from __future__ import annotations

from align_echo.align.probe.lab import LabState
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.runtime import RuleRuntime

MOST_RUNTIMES = 400
"""Latest states whose runtime is remembered."""

LAST_STATES = 3
"""States at the end of a way whose runtime is remembered."""


class RuntimeCache:
    """Runtimes at the latest states that were asked about, and at those just before, for the latest rules."""

    def __init__(self) -> None:
        self._rules = RuleSet()
        self._at: dict[LabState, RuleRuntime] = {}

    def at(self, state: LabState, rules: RuleSet) -> RuleRuntime:
        """Return a runtime at a state, led on from the latest known one on the way."""
        if rules is not self._rules and rules != self._rules:
            self._rules, self._at = rules, {}
        way = [state]
        while way[-1] not in self._at and way[-1].parent is not None:
            way.append(way[-1].parent)
        start = way.pop()
        if start not in self._at:
            runtime = RuleRuntime(self._rules, start.opening or start.observation)
            runtime.begin(start.observation)
            self._at[start] = runtime
        runtime = self._at[start].branch()
        for left, each in reversed([*enumerate(way)]):
            runtime.hear(each.actions[-1], each.observation)
            if left < LAST_STATES:
                self._at[each] = runtime.branch()
        while len(self._at) > MOST_RUNTIMES:
            del self._at[next(iter(self._at))]
        return runtime
