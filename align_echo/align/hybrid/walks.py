"""States to try hypotheses in: walks through a task that say what the hypotheses speak of, and try everything else too.

Left out: what can be said where the engine lists nothing (`unlisted.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from align_echo.align.hybrid.answers import Judge
from align_echo.align.hybrid.runtime import bound_names
from align_echo.align.hybrid.unlisted import UnlistedSpeech
from align_echo.align.probe.lab import LabState

WALK = 60
"""Actions of a walk."""

ASIDE = 0.5
"""Share of a walk's actions that are of the hypotheses' forms, where any is possible."""

class Walked(NamedTuple):
    """A state of a walk with the actions that led to it, all of which the engine took."""

    state: LabState
    accepted: tuple[str, ...]


class Guide:
    """Leads walks. `names` are names that agents used, in the places of the hypotheses' forms."""

    def __init__(self, judge: Judge, names: Collection[str], rng: random.Random) -> None:
        self.judge = judge
        self.names = sorted(set(names))
        self.rng = rng
        self._speech = UnlistedSpeech(judge, names, rng)

    def options(self, state: LabState) -> list[str]:
        """Actions that the engine takes in a state: all that it lists, else those that were tried and taken."""
        return sorted(state.admissible) if self.judge.lab.lists else self._speech.taken(state)

    def walk(
        self,
        task_id: str,
        *,
        avoid: Callable[[str], bool] = lambda action: False,
        wanted: Callable[[str], bool] | None = None,
        length: int = WALK,
    ) -> list[Walked]:
        """The states of a walk, the first one first. It says nothing that `avoid` names, and half of the time what is
        `wanted`, or of the hypotheses' forms; it does not end the episode.
        """
        walked = Walked(self.judge.lab.start(task_id), ())
        states = [walked]
        said: Counter[str] = Counter()
        openers: Counter[str] = Counter()
        while len(states) <= length:
            options = [action for action in self.options(walked.state) if not avoid(action)]
            step = self._step(walked.state, options, wanted or self._spoken_of, said, openers)
            if step is None:
                break
            action, state = step
            said[action] += 1
            openers[action.split()[0]] += 1
            walked = Walked(state, (*walked.accepted, action))
            states.append(walked)
        return states

    def _step(
        self,
        state: LabState,
        options: Sequence[str],
        wanted: Callable[[str], bool],
        said: Counter[str],
        openers: Counter[str],
    ) -> tuple[str, LabState] | None:
        """The next action of a walk and the state that it leads to; None where nothing is left that does not end it."""
        left = [action for action in options if action.split()]
        while left:
            liked = [action for action in left if wanted(action)]
            pool = liked if liked and self.rng.random() < ASIDE else left
            rare = min(openers[action.split()[0]] for action in pool)
            rarest = [action for action in pool if openers[action.split()[0]] == rare]
            fewest = min(said[action] for action in rarest)
            action = self.rng.choice([action for action in rarest if said[action] == fewest])
            child = self.judge.went(state, action)
            if not child.over:
                return action, child
            left.remove(action)
        return None

    def _spoken_of(self, action: str) -> bool:
        return any(bound_names(form, action) is not None for form in self.judge.forms)


def names_said(forms: Sequence[str], actions: Sequence[str]) -> set[str]:
    """The names that actions have in the places of forms."""
    names: set[str] = set()
    for action in actions:
        for form in forms:
            names |= set((bound_names(form, action) or {}).values())
    return names
