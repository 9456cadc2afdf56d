"""Forms of actions and spellings of names: from lists of possible actions, from agents' own actions, and from texts.

Also signs around every action, which agents are not told: `10` is refused and `[10]` is not. An action with and without
the signs is played in the same states.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from align_echo.align.probe.effects.outcomes import Observer, distinct_actions, episode_texts
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import heard_names, learn_names, skeleton
from align_echo.interface.rules.actions import (
    ActionGrammar,
    Form,
    build_name_pattern,
    build_shape_pattern,
    parse_call,
    seen_forms,
    text_of,
)
from align_echo.interface.rules.vocabulary import name_pattern
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
        name = name_pattern(learn_names(listed, texts) if listed else heard_names((), spoken, texts))
    unread = [action for action in [*sorted(listed), *spoken] if grammar.read(action) is None]
    forms = _forms_around(name, unread)
    known = [*declared, *forms]
    names = {re.sub(r"\d+", "0", each) for action in unread for each in re.findall(name, action)} if name else set()
    grammar = ActionGrammar(known, names)
    if spoken or listed:
        shapes = build_shape_pattern(each for action in spoken for each in action.split())
    else:  # tool calls alone
        name, shapes = _names_in_calls(played, texts)
    name = "|".join(filter(None, (shapes, name)))
    further = seen_forms([action for action in distinct_actions(played) if grammar.read(action) is None], known)
    return FormVocabulary([*known, *further], name, tuple(sorted(names)))


def _names_in_calls(played: Sequence[Trajectory], texts: Sequence[str]) -> tuple[str, str]:
    """Return the regular expressions of the arguments in agents' calls that texts name, and of their shapes."""
    printed = "\n".join(texts).lower()
    calls = filter(None, (parse_call(action.strip()) for action in distinct_actions(played)))
    values = {each for _, given in calls for each in given.values() if isinstance(each, str) and each}
    names = {each for each in values if each.lower() in printed}
    return build_name_pattern(names) if names else "", build_shape_pattern(names)


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


def _forms_around(name: str, actions: Iterable[str]) -> list[Form]:
    """Return the forms of actions: what is left of them without names."""
    if not name:
        return []
    members: dict[str, set[str]] = defaultdict(set)
    for action in actions:
        members[skeleton(action, name)[0]].add(action)
    counts = Counter({text: len(group) for text, group in members.items()})
    return [Form(text=text) for text, count in counts.most_common() if count >= MIN_ACTIONS and "{" in text]


SIGNS = ("[{}]", "({})", "<{}>", '"{}"')
"""Signs that are tried."""

MOST_EPISODES, MOST_PAIRS = 12, 3
"""Maximum episodes that are compared, and actions of each."""

MIN_PAIRS, MIN_TASKS = 4, 2
"""Actions, and tasks, in which the signs must help."""

MIN_HELPED = 0.5
"""Share of the actions that must work with the signs; the others may be impossible."""


def find_sign(observer: Observer, played: Sequence[Trajectory]) -> str:
    """Return the signs that all actions need; "" if none help. Raises `BudgetSpentError`."""
    lab = observer.lab
    helped = {sign: [0, 0] for sign in SIGNS}
    tasks: dict[str, set[str]] = {sign: set() for sign in SIGNS}
    texts: dict[str, set[str]] = {sign: set() for sign in ("{}", *SIGNS)}
    for trajectory in played[:MOST_EPISODES]:
        bare = [*_bare(lab, trajectory)]
        others = {sign: [sign.replace("{}", action) for _, action in bare] for sign in texts}
        for state, action in bare:
            said = {sign: sign.replace("{}", action) for sign in texts}
            if _changed(observer, state, action, others["{}"]):
                return ""
            answers = {sign: _answer(observer, state, each) for sign, each in said.items()}
            for sign, answer in answers.items():
                texts[sign] |= set[str]() if lab.after(state, said[sign]).over else {answer}
            for sign in SIGNS:
                differs = answers[sign] != answers["{}"]
                tasks[sign] |= {trajectory.task_id} if differs else set()
                helped[sign][0] += differs and _changed(observer, state, said[sign], others[sign])
                helped[sign][1] += 1
    for sign, (count, pairs) in helped.items():
        tells_more = len(texts[sign]) > 1 and len(texts["{}"]) == 1 and not texts[sign] & texts["{}"]
        enough = pairs >= MIN_PAIRS and len(tasks[sign]) >= MIN_TASKS
        if enough and (tells_more or count >= MIN_HELPED * pairs):
            return sign
    return ""


def _bare(lab: Lab, trajectory: Trajectory) -> Iterator[tuple[LabState, str]]:
    """Yield an episode's first different actions without signs, each in its state."""
    state, known = lab.start(trajectory.task_id), set[str]()
    for step in trajectory.steps:
        action = (step.action or "").strip()
        if state.over or len(known) == MOST_PAIRS:
            return
        if action and action not in known and action[0].isalnum() and action[-1].isalnum():
            known.add(action)
            yield state, action
        state = lab.after(state, step.action or "")


def _answer(observer: Observer, state: LabState, action: str) -> str:
    return observer.reader.lift(observer.read(observer.lab.after(state, action))[1], action)


def _changed(observer: Observer, state: LabState, action: str, others: Sequence[str]) -> bool:
    """Whether actions are answered in another way after this one. An end says nothing."""
    lab = observer.lab
    child = lab.after(state, action)
    if child.over:
        return False
    for other in others:
        ends = lab.after(state, other).over or lab.after(child, other).over
        if not ends and _answer(observer, state, other) != _answer(observer, child, other):
            return True
    return False
