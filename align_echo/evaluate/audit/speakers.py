"""Speakers of an audit: what is said to an interface in each state of a walk."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from align_echo.align.probe.names import skeleton
from align_echo.base.commands import guess_names
from align_echo.interface.rules.actions import ActionGrammar, ActionTree
from align_echo.interface.rules.model import RuleSet, SayInstead
from align_echo.interface.rules.vocabulary import NUMBERED
from align_echo.wrappers.text_env import TextEnv

INVENTED = ("unicorn", "cupboard", "couch", "lamp", "table", "jar", "thing", "everything", "rock", "closet")
VERBS = ("put", "grab", "walk to", "check", "place", "get", "pick", "inspect", "turn on", "leave")

Said = tuple[str, str]
"""Pair (why, action)."""


@dataclass
class AdversarySpeaker:
    """Random speaker of an episode. `foreign_names` holds names of other tasks; `kinds` holds words seen in each form's
    slots in any task; `name` matches names in allowed actions, built from `words` if names have no numbers; `signs` are
    those that rules put around names."""

    rng: random.Random
    foreign_names: tuple[str, ...] = ()
    name: str = NUMBERED
    kinds: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    allowed: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    ever_allowed: dict[str, None] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    utterances: list[str] = field(default_factory=list)

    def learn(self, rules: RuleSet) -> None:
        """Take the forms, names and signs of names that rules know."""
        grammar = ActionGrammar(rules.forms, rules.names)
        for form in rules.forms:
            template = grammar.write(ActionTree(form.name, tuple(f"{{{slot}}}" for slot in range(form.slots))))
            self.templates.add(template)
            for slot, values in enumerate(rules.values.get(form.name, ())):
                self.kinds.setdefault((template, slot), set()).update(strip_number(str(value)) for value in values)
        edits = [rule.edit for rule in rules.rules if isinstance(rule, SayInstead)]
        self.signs = tuple(dict.fromkeys(edit.detail for edit in edits if edit.kind == "sign"))

    def see(self, env: TextEnv, text: str) -> None:
        """Learn forms and names from allowed or offered actions and from a text."""
        offered = env.offered()
        if offered is not None:
            self.templates.update(template for template in offered.templates if "{" in template)
            visible = {name for name in offered.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.lower())}
            self.names |= visible
        self.allowed = sorted(env.state.admissible_actions or ())
        self.ever_allowed.update(dict.fromkeys(self.allowed))
        self._learn_names()
        for action in self.allowed:
            template, names = skeleton(action, self.name)
            if names:
                self.templates.add(template)
                self.names.update(names)
                for index, name in enumerate(names):
                    self.kinds.setdefault((template, index), set()).add(strip_number(name))
        found = re.findall(self.name, text)
        self.names.update(found)
        for before, _, after in (sign.partition("{}") for sign in self.signs):
            self.names.update(f"{before}{name}{after}" for name in found if not name.startswith(before))

    def _learn_names(self) -> None:
        """Treat words in name slots as names if allowed actions have names without numbers."""
        plain = self.name == NUMBERED and not any(re.search(NUMBERED, action) for action in self.allowed)
        if self.words or plain:
            self.words.update(name for action in self.allowed for name in guess_names(action))
        if self.words:
            longest_first = sorted(self.words, key=lambda name: (-len(name), name))
            self.name = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"

    def draws(self, count: int) -> Iterator[Said]:
        """Yield `count` actions to say in the current state."""
        ways = (self.absent, self.plausible, self.plausible, self.known, self.again, self.misspelt, self.reworded)
        for _ in range(count):
            draw = self.rng.choice(ways)()
            if draw[1].strip():
                yield draw

    def absent(self) -> Said:
        """Draw a form with a possibly missing name in one slot."""
        template = self._template()
        names = self._fill(template)
        if not names:
            return "absent", ""
        names[self.rng.randrange(len(names))] = self._absent_name()
        return "absent", written(template, names)

    def known(self) -> Said:
        """Draw a form with known names, fitting or not."""
        template = self._template()
        if self.allowed and self.rng.random() < 0.6:  # near something that is possible: one name of it exchanged
            template, slots = skeleton(self.rng.choice(self.allowed), self.name)
            names = list(slots)
            if names and self.names:
                names[self.rng.randrange(len(names))] = self.rng.choice(sorted(self.names))
            return "known", written(template, names)
        return "known", written(template, self._fill(template))

    def plausible(self) -> Said:
        """Draw a form with names of fitting kinds seen in this task."""
        template = self._template()
        names: list[str] = []
        for index in range(template.count("{")):
            kinds = self.kinds.get((template, index))
            fits = sorted(name for name in self.names if kinds is None or strip_number(name) in kinds)
            if not fits:
                return "plausible", ""
            names.append(self.rng.choice(fits))
        return "plausible", written(template, names)

    def again(self) -> Said:
        """Repeat an earlier utterance."""
        recent = self.utterances[-6:] if self.rng.random() < 0.6 else self.utterances
        return "again", self.rng.choice(recent) if recent else ""

    def misspelt(self) -> Said:
        """Change letter case, drop numbers, or add articles or spaces."""
        action = self.plausible()[1] or self.again()[1]
        if self.allowed and self.rng.random() < 0.4:
            action = self.rng.choice(self.allowed)
        numberless = re.sub(NUMBERED, lambda match: match.group(0).rsplit(" ", 1)[0], action)
        the = re.sub(self.name, lambda match: f"the {match.group(0)}", action)
        variants = (action.title(), action.upper(), numberless, the, action.replace(" ", "  ", 1), f" {action} .")
        return "misspelt", self.rng.choice(variants)

    def reworded(self) -> Said:
        """Replace the verb or reorder the names."""
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
        foreign = self.rng.choice(self.foreign_names) if self.foreign_names else word
        known = self.rng.choice(sorted(self.names)) if self.names else word
        renumbered = re.sub(r"\d+$", str(self.rng.randint(2, 99)), known)
        return self.rng.choice((f"{word} {number}", word, foreign, foreign, renumbered, renumbered))


def strip_number(name: str) -> str:
    """Return a name without its number."""
    return re.sub(r" \d+$", "", name)


def written(template: str, names: Iterable[str]) -> str:
    """Fill a form's slots."""
    text = template
    for number, name in enumerate(names):
        text = text.replace("{" + str(number) + "}", name)
    return text




class SpeakerState(NamedTuple):
    """State in which a speaker acts; `memory` holds forms and names met so far."""

    env: TextEnv
    memory: AdversarySpeaker
    rng: random.Random


Speaker = Callable[[SpeakerState, int], Iterator[Said]]
"""Function that returns up to `count` pairs (why, action) for a scene."""


def adversary_speaks(scene: SpeakerState, count: int) -> Iterator[Said]:
    """Yield actions most agents never say."""
    return scene.memory.draws(count)


def chance_speaks(scene: SpeakerState, count: int) -> Iterator[Said]:
    """Yield actions allowed at any time in the episode; without lists, forms with names."""
    ever = list(scene.memory.ever_allowed)
    for _ in range(count):
        draw = ("random", scene.rng.choice(ever)) if ever else scene.memory.plausible()
        if draw[1].strip():
            yield draw


def expert_slips(scene: SpeakerState, count: int) -> Iterator[Said]:
    """Yield the expert's next action with a slip: a skipped step, a wrong name, lost words, a repetition."""
    action = scene.env.oracle().expert_action()
    if action is None:
        return
    for _ in range(count):
        slip = scene.rng.choice((_step_left_out, _name_exchanged, _name_exchanged, _words_lost, _done_again))
        utterance = slip(scene, action)
        if utterance.strip() and utterance != action:
            yield slip.__name__.strip("_").replace("_", " "), utterance


def _step_left_out(scene: SpeakerState, action: str) -> str:
    env = scene.env
    snapshot = env.snapshot()
    env.step(action)
    after = None if env.over else env.oracle().expert_action()
    env.restore(snapshot)
    return after or ""


def _name_exchanged(scene: SpeakerState, action: str) -> str:
    form, slots = skeleton(action, scene.memory.name)
    names, known = list(slots), sorted(scene.memory.names)
    if not names or not known:
        return ""
    names[scene.rng.randrange(len(names))] = scene.rng.choice(known)
    return written(form, names)


def _words_lost(scene: SpeakerState, action: str) -> str:
    words = action.split()
    return " ".join(words[: scene.rng.randint(1, max(1, len(words) - 1))])


def _done_again(scene: SpeakerState, action: str) -> str:
    return scene.rng.choice(scene.memory.utterances[-6:]) if scene.memory.utterances else ""
