"""States to try hypotheses in: walks through a task that say what the hypotheses speak of, and try everything else too.

Where the engine lists nothing, what is said on a walk is what it offers, and the forms of the hypotheses, with names
that agents used and that stand in the texts of the task; of these the walk takes what is taken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import NamedTuple

from align_echo.align.hybrid.answers import Judge
from align_echo.align.hybrid.runtime import bound_names, filled_form, slots_of
from align_echo.align.probe.lab import LabState

WALK = 60
"""Actions of a walk."""

ASIDE = 0.5
"""Share of a walk's actions that are of the hypotheses' forms, where any is possible."""

UNLISTED = 12
"""Actions tried in a state of which the engine lists none, for the next one of a walk."""

MOST_NAMES = 12


class Walked(NamedTuple):
    """A state of a walk with the actions that led to it, all of which the engine took."""

    state: LabState
    accepted: tuple[str, ...]


class Guide:
    """Says what could be tried in a state. `names` are names that agents used, from the forms of hypotheses."""

    def __init__(self, judge: Judge, names: Collection[str], rng: random.Random) -> None:
        self.judge = judge
        self.names = sorted(set(names))
        self.rng = rng

    def options(self, walked: Walked, texts: str) -> list[str]:
        """Actions that the engine takes in a state: all that it lists, or those that were tried and taken."""
        if self.judge.lab.lists:
            return sorted(walked.state.admissible)
        tried = self.sayings(walked.state, texts)
        self.rng.shuffle(tried)
        return [action for action in tried[:UNLISTED] if self.judge.taken(walked.state, action)]

    def sayings(self, state: LabState, texts: str) -> list[str]:
        """Forms with names that the texts of the task hold, of an engine that lists nothing."""
        self.judge.lab.visit(state)
        offered = None if state.over else self.judge.lab.env.offered()
        forms = [*self.judge.forms, *(offered.templates if offered else ())]
        low = texts.lower()
        known = [name for name in self.names if name.lower() in low]
        names = list(dict.fromkeys([*(offered.names if offered else ()), *known]))
        self.rng.shuffle(names)
        sayings: list[str] = []
        for form in dict.fromkeys(forms):
            slots = list(dict.fromkeys(slots_of(form)))
            for chosen in product(names[:MOST_NAMES], repeat=len(slots)):
                sayings.append(filled_form(form, dict(zip(slots, chosen, strict=True))))
        return sayings

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
        states, texts = [walked], walked.state.observation
        said: Counter[str] = Counter()
        openers: Counter[str] = Counter()
        while len(states) <= length:
            options = [action for action in self.options(walked, texts) if not avoid(action)]
            step = self._step(walked.state, options, wanted or self._spoken_of, said, openers)
            if step is None:
                break
            action, state = step
            said[action] += 1
            openers[action.split()[0]] += 1
            walked = Walked(state, (*walked.accepted, action))
            states.append(walked)
            texts += "\n" + state.observation
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
