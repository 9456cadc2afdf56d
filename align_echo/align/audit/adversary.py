"""An agent that says what learned tables never met: absent names, wrong numbers, other words, wrong places, again.

It knows an environment only through what is allowed or offered and what was shown: its names are those that occur in
observations, names of other tasks, and a few plain words that no environment has to know.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from align_echo.align.probe.names import NUMBERED, skeleton
from align_echo.commands import guess_names
from align_echo.wrappers.text_env import TextEnv

INVENTED = ("unicorn", "cupboard", "couch", "lamp", "table", "jar", "thing", "everything", "rock", "closet")
VERBS = ("put", "grab", "walk to", "check", "place", "get", "pick", "inspect", "turn on", "leave")

Said = tuple[str, str]
"""(why, action)."""


@dataclass
class Adversary:
    """Draws actions for one episode. `elsewhere` are names of other tasks; `kinds` are the words that were seen in each
    place of each form, in any task; `name` finds the names in what is allowed, `words` are those that it was made
    of, where they have no numbers."""

    rng: random.Random
    elsewhere: tuple[str, ...] = ()
    name: str = NUMBERED
    kinds: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    allowed: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    ever_allowed: dict[str, None] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def see(self, env: TextEnv, text: str) -> None:
        """Learn forms and names from what is allowed or offered now, and from a text."""
        offered = env.offered()
        if offered is not None:
            self.templates.update(template for template in offered.templates if "{" in template)
            shown = {name for name in offered.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.lower())}
            self.names |= shown
        self.allowed = sorted(env.state.admissible_actions or ())
        self.ever_allowed.update(dict.fromkeys(self.allowed))
        self._learn_names()
        for action in self.allowed:
            template, names = skeleton(action, self.name)
            if names:
                self.templates.add(template)
                self.names.update(names)
                for index, name in enumerate(names):
                    self.kinds.setdefault((template, index), set()).add(word_of(name))
        self.names.update(re.findall(self.name, text))

    def _learn_names(self) -> None:
        """Where what is allowed has names without numbers, names are the words that stand where names do."""
        plain = self.name == NUMBERED and not any(re.search(NUMBERED, action) for action in self.allowed)
        if self.words or plain:
            self.words.update(name for action in self.allowed for name in guess_names(action))
        if self.words:
            longest_first = sorted(self.words, key=lambda name: (-len(name), name))
            self.name = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"

    def draws(self, count: int) -> Iterator[Said]:
        """So many things to say in one state."""
        ways = (self.absent, self.plausible, self.plausible, self.known, self.again, self.misspelt, self.reworded)
        for _ in range(count):
            draw = self.rng.choice(ways)()
            if draw[1].strip():
                yield draw

    def absent(self) -> Said:
        """A form with a name that may not be there at all, in one of its places."""
        template = self._template()
        names = self._fill(template)
        if not names:
            return "absent", ""
        names[self.rng.randrange(len(names))] = self._absent_name()
        return "absent", written(template, names)

    def known(self) -> Said:
        """A form with names that were seen somewhere, whether they fit or not."""
        template = self._template()
        if self.allowed and self.rng.random() < 0.6:  # near something that is possible: one name of it exchanged
            template, given = skeleton(self.rng.choice(self.allowed), self.name)
            names = list(given)
            if names and self.names:
                names[self.rng.randrange(len(names))] = self.rng.choice(sorted(self.names))
            return "known", written(template, names)
        return "known", written(template, self._fill(template))

    def plausible(self) -> Said:
        """A form with names of the right kinds that were seen in this task: far, held, shut away or elsewhere."""
        template = self._template()
        names: list[str] = []
        for index in range(template.count("{")):
            kinds = self.kinds.get((template, index))
            fits = sorted(name for name in self.names if kinds is None or word_of(name) in kinds)
            if not fits:
                return "plausible", ""
            names.append(self.rng.choice(fits))
        return "plausible", written(template, names)

    def again(self) -> Said:
        """Something that was said before, whatever came of it."""
        recent = self.said[-6:] if self.rng.random() < 0.6 else self.said
        return "again", self.rng.choice(recent) if recent else ""

    def misspelt(self) -> Said:
        """In other letters, without numbers, with articles or blanks."""
        action = self.plausible()[1] or self.again()[1]
        if self.allowed and self.rng.random() < 0.4:
            action = self.rng.choice(self.allowed)
        numberless = re.sub(NUMBERED, lambda match: match.group(0).rsplit(" ", 1)[0], action)
        the = re.sub(self.name, lambda match: f"the {match.group(0)}", action)
        variants = (action.title(), action.upper(), numberless, the, action.replace(" ", "  ", 1), f" {action} .")
        return "misspelt", self.rng.choice(variants)

    def reworded(self) -> Said:
        """Another verb, or another order of the names."""
        template = self._template()
        names = self._fill(template)
        if self.rng.random() < 0.3:
            return "reworded", written(template, names[::-1])
        _, _, rest = written(template, names).partition(" ")
        return "reworded", f"{self.rng.choice(VERBS)} {rest}"

    def _template(self) -> str:
        return self.rng.choice(sorted(self.templates)) if self.templates else ""

    def _fill(self, template: str) -> list[str]:
        names = sorted(self.names)
        return [self.rng.choice(names) for _ in range(template.count("{"))] if names else []

    def _absent_name(self) -> str:
        number = self.rng.choice((0, 7, 12, 99))
        word = self.rng.choice(INVENTED)
        other = self.rng.choice(self.elsewhere) if self.elsewhere else word
        known = self.rng.choice(sorted(self.names)) if self.names else word
        renumbered = re.sub(r"\d+$", str(self.rng.randint(2, 99)), known)
        return self.rng.choice((f"{word} {number}", word, other, other, renumbered, renumbered))


def word_of(name: str) -> str:
    """A name without its number."""
    return re.sub(r" \d+$", "", name)


def written(template: str, names: Iterable[str]) -> str:
    """A form with its places filled."""
    text = template
    for number, name in enumerate(names):
        text = text.replace("{" + str(number) + "}", name)
    return text
