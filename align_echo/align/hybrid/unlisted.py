"""What can be said where the engine lists nothing: forms and names, tried in a state, with what was taken.

Forms are those of the hypotheses and what the engine offers. Names are those that agents used and the task's texts
hold, and words of these texts that a form with one name took. Nothing is known of how names look.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from itertools import product

from align_echo.align.hybrid.answers import Judge
from align_echo.align.hybrid.runtime import filled_form, slots_of
from align_echo.align.probe.lab import LabState

LONGEST_NAME = 3
"""Words of a name that is read off a text."""

NAMINGS = 400
"""Tries in a task of which words are names."""

SAYINGS = 60
"""Tries in a state of what can be said there."""

FEW = 6
"""Names that are put together with others."""


class UnlistedSpeech:
    """Tries what can be said in the states of a laboratory. `names` are those that agents used."""

    def __init__(self, judge: Judge, names: Collection[str], rng: random.Random) -> None:
        self._judge = judge
        self._used = sorted(set(names))
        self._rng = rng
        self._taken: dict[LabState, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        self._words: dict[str, set[str]] = {}
        self._namings: dict[str, int] = {}

    def taken(self, state: LabState) -> list[str]:
        """Actions that the engine takes in a state, of those that were tried there; each state is tried once."""
        if state not in self._taken:
            sayings = [] if state.over else self._sayings(state)
            self._taken[state] = [action for action in sayings if self._judge.taken(state, action)]
        return self._taken[state]

    def _sayings(self, state: LabState) -> list[str]:
        """Forms with names, those of the last text first, each form in its turn."""
        self._judge.lab.visit(state)
        offered = self._judge.lab.env.offered()
        forms = list(dict.fromkeys([*self._judge.forms, *(offered.templates if offered else ())]))
        words = words_of(state.observation)
        self._learn_names(state, forms, words)
        low = state.observation.lower()
        names = [*self._names[state.task_id], *(offered.names if offered else ())]
        near = [name for name in dict.fromkeys(names) if name.lower() in low]
        self._rng.shuffle(names)
        ordered = list(dict.fromkeys([*near, *names]))
        queues = [self._filled(form, ordered, words) for form in forms]
        share = max(SAYINGS // max(len(queues), 1), 1)
        return list(dict.fromkeys(action for queue in queues for action in queue[: 2 * share]))

    def _filled(self, form: str, names: Sequence[str], words: Sequence[str]) -> list[str]:
        """A form with names; where it has two, also a name and words of the last text that may be one."""
        slots = list(dict.fromkeys(slots_of(form)))
        if len(slots) < 2:
            return [filled_form(form, dict.fromkeys(slots, name)) for name in (names if slots else [""])]
        few = list(names[:FEW])
        both = [(first, second) for first, second in product(few, [*few, *words]) if first != second]
        both += [(second, first) for first, second in both]
        self._rng.shuffle(both)
        both.sort(key=lambda pair: not {*pair} <= {*names})
        rest = dict.fromkeys(slots[2:], names[0] if names else "")
        return [
            filled_form(form, {slots[0]: first, slots[1]: second, **rest}) for first, second in both[: 2 * SAYINGS]
        ]

    def _learn_names(self, state: LabState, forms: Sequence[str], words: Sequence[str]) -> None:
        """Add the words of a text that a form with one name takes, and the names that agents used."""
        task_id, low = state.task_id, state.observation.lower()
        names = self._names.setdefault(task_id, [])
        names += [name for name in self._used if name.lower() in low and name not in names]
        tried = self._words.setdefault(task_id, set())
        single = [form for form in forms if len(set(slots_of(form))) == 1]
        fresh = [text for text in words if text not in tried and text not in names]
        self._rng.shuffle(fresh)
        for text in fresh:
            if self._namings.get(task_id, 0) >= NAMINGS:
                return
            tried.add(text)
            for form in single:
                self._namings[task_id] = self._namings.get(task_id, 0) + 1
                if self._judge.taken(state, filled_form(form, dict.fromkeys(slots_of(form), text))):
                    names.append(text)
                    break


def words_of(text: str) -> list[str]:
    """Every one to three words that stand together in a text, without marks between them."""
    groups: list[str] = []
    for part in re.split(r"[^\w\s'-]+|\n", text):
        words = part.split()
        for size in range(1, LONGEST_NAME + 1):
            groups += [" ".join(words[start : start + size]) for start in range(len(words) - size + 1)]
    return list(dict.fromkeys(groups))
