"""Conditions on the page: where an action without arguments has an effect, read off the pages before it.

All such actions are played in every state of a walk. What the page shows wherever one took effect, and seldom where it
did not, becomes a rule on trial.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.lab import LabState
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.model import WorksWhere
from align_echo.interface.rules.runtime import bounded_page

MOST_FORMS = 12
"""Maximum forms without arguments that are played in every state."""

MOST_PHRASES = 6
"""Maximum phrases of a rule."""

MIN_SHOWN = 3
"""Pages with an effect on which each phrase must stand."""

MIN_SILENT = 0.3
"""Share of the pages without effect that a rule must tell apart."""

LONGEST_PHRASE = 4
"""Words of a phrase."""

MIN_IDLE, MIN_TASKS = 20, 3
"""Different pages, and tasks, in which an action must change nothing before it is said to change nothing at all."""

NEGATIVES = 0.5
"""Weight of a page without effect beside a page with an effect."""


_WORD = re.compile(r"\w+")


class PageRecord:
    """Pages before the actions without arguments, by form, with and without an effect."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        constant = [form for form, known in observer.grammar.forms.items() if not known.slots and known.text]
        self.forms = constant if len(constant) <= MOST_FORMS and not observer.lists else []
        self.worked: dict[str, Counter[str]] = {form: Counter() for form in self.forms}
        self.idle: dict[str, Counter[str]] = {form: Counter() for form in self.forms}

    def take(self, state: LabState) -> None:
        """Play every action without arguments in a state. A page that stays is no effect, an end says nothing."""
        for form in self.forms:
            instance = self._observer.play(state, form) if form in self._observer.going_on else None
            if instance is not None and not instance.child.over:
                pages = self.idle if instance.same else self.worked
                pages[form][bounded_page(self._observer.page(state))] += 1

    def rules(self) -> Iterator[WorksWhere]:
        """Yield the rules on trial: of forms that change nothing where their page stays."""
        for form in self.forms:
            known = self._observer.classes(form).get(SAME)
            if known is None or not known.refuses:
                continue
            if not self._observer.acts(form):
                if not self.worked[form] and len(self.idle[form]) >= MIN_IDLE and len(known.tasks) >= MIN_TASKS:
                    yield WorksWhere(form=form, phrases=(), text=f"{form} was never seen to change anything")
                continue
            worked, idle = [*self.worked[form]], [page for page in self.idle[form] if page not in self.worked[form]]
            phrases = _cover(worked, idle)
            if phrases:
                shown = " or ".join(f'"{phrase.strip(";")}"' for phrase in phrases)
                text = f"{form} changes nothing unless the page shows {shown}"
                yield WorksWhere(form=form, phrases=phrases, text=text)


def _cover(worked: Sequence[str], idle: Sequence[str]) -> tuple[str, ...]:
    """Return phrases of which every page with an effect shows at least one; () if they tell too little apart."""
    if len(worked) < MIN_SHOWN or not idle:
        return ()
    phrases = {phrase for page in worked for phrase in _phrases(page)}
    misses = {phrase: sum(phrase in page for page in idle) / len(idle) for phrase in phrases}
    left, chosen = set(worked), list[str]()
    while left and len(chosen) < MOST_PHRASES:
        shares = {phrase: sum(phrase in page for page in left) / len(worked) for phrase in phrases}
        merits = {
            phrase: (share - NEGATIVES * misses[phrase], -len(phrase.split()), phrase)
            for phrase, share in shares.items()
        }
        best = max(merits, key=merits.__getitem__)
        shown = {page for page in left if best in page}
        if len(shown) < MIN_SHOWN:
            return ()
        chosen.append(best)
        left -= shown
    silent = sum(not any(phrase in page for phrase in chosen) for page in idle)
    return tuple(chosen) if not left and silent >= MIN_SILENT * len(idle) else ()


def _phrases(page: str) -> Iterator[str]:
    """Yield the beginnings and ends of a page's parts, with the sign that bounds them, and the words in signs."""
    for part in filter(None, page.split(";")):
        words = part.split(" ")
        for size in range(1, min(LONGEST_PHRASE, len(words)) + 1):
            yield f";{' '.join(words[:size])}" + (";" if size == len(words) else " ")
            yield (";" if size == len(words) else " ") + f"{' '.join(words[-size:])};"
        letters = list(_WORD.finditer(part))
        for first, last in zip([*letters, *letters], [*letters, *letters[1:]], strict=False):
            signs = part[max(0, first.start() - 1) : last.end() + 1]
            if signs and not (signs[0].isspace() or signs[0].isalnum()):
                yield signs
