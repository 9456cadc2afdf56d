"""Forms of actions and spellings of names: from lists of possible actions, from agents' own actions, and from texts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from align_echo.align.probe.effects.outcomes import distinct_actions, episode_texts
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.names import find_names, is_numbered, learn_names, skeleton, with_neighbours
from align_echo.interface.rules.actions import ActionGrammar, Form, build_name_pattern, parse_call, seen_forms, text_of
from align_echo.interface.rules.vocabulary import NUMBERED, name_pattern
from align_echo.types import Trajectory

LISTED_STATES = 12
"""States of an episode whose lists are read."""

MIN_ACTIONS = 2
"""Different actions that make a form with names."""


class FormVocabulary(NamedTuple):
    """Forms of actions, the regular expression of names in texts ("" where none is known), and names in actions, in
    which a number stands for any."""

    forms: list[Form]
    name: str
    names: tuple[str, ...]


def learn_vocabulary(
    lab: Lab, played: Sequence[Trajectory], declared: Sequence[Form], sign: str = ""
) -> FormVocabulary:
    """Learn forms that `declared` does not read, and names. Declared forms come first. `sign` is as in `seen_forms`."""
    texts = [text for episode in episode_texts(played) for text in episode]
    spoken = [action for action in distinct_actions(played) if parse_call(action.strip()) is None]
    listed = _listed(lab, played)
    if sign:  # every word is an argument
        return FormVocabulary([*declared, *seen_forms(distinct_actions(played), declared, sign)], "", ())
    grammar = ActionGrammar(declared)
    arguments = {text_of(value) for action in listed for value in _arguments(grammar, action)}
    if arguments:
        printed = "\n".join(texts).lower()
        said = {text_of(value) for action in spoken for value in _arguments(grammar, action)}
        name = build_name_pattern(arguments | {each for each in said if each.lower() in printed})
    else:
        name = name_pattern(learn_names(listed, texts)) if listed else _heard_names(spoken, texts)
    unread = [action for action in [*sorted(listed), *spoken] if grammar.read(action) is None]
    forms = _forms_around(name, unread)
    known = [*declared, *forms]
    names = {re.sub(r"\d+", "0", each) for action in unread for each in re.findall(name, action)} if name else set()
    grammar = ActionGrammar(known, names)
    further = seen_forms([action for action in distinct_actions(played) if grammar.read(action) is None], known)
    return FormVocabulary([*known, *further], name, tuple(sorted(names)))


def _arguments(grammar: ActionGrammar, action: str) -> tuple[JsonValue, ...]:
    reading = grammar.read(action)
    return reading.tree.arguments if reading else ()


def _listed(lab: Lab, played: Iterable[Trajectory]) -> set[str]:
    """Return the actions in the lists of the states that the episodes went through."""
    listed: set[str] = set()
    for trajectory in played:
        state = lab.start(trajectory.task_id)
        if not lab.lists:
            return set()
        listed |= state.admissible
        for action in [step.action for step in trajectory.steps if step.action is not None][:LISTED_STATES]:
            if state.over:
                break
            state = lab.after(state, action)
            listed |= state.admissible
    return listed


def _heard_names(spoken: Sequence[str], texts: Sequence[str]) -> str:
    """Return the regular expression of names: those in agents' actions that the environment printed, and their
    neighbours in enumerations."""
    if is_numbered(spoken):
        return NUMBERED
    printed = "\n".join(texts)
    known = {name for name in find_names(spoken, texts) if name in printed}
    return build_name_pattern(with_neighbours(known, texts)) if known else ""


def _forms_around(name: str, actions: Iterable[str]) -> list[Form]:
    """Return the forms of actions: what is left of them without names."""
    if not name:
        return []
    members: dict[str, set[str]] = defaultdict(set)
    for action in actions:
        members[skeleton(action, name)[0]].add(action)
    counts = Counter({text: len(group) for text, group in members.items()})
    return [Form(text=text) for text, count in counts.most_common() if count >= MIN_ACTIONS and "{" in text]
