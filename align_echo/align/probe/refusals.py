"""Which answers of an engine say that it refused an action, and nothing of why: learned from what it answers.

Three kinds are known: one text for many different actions, a text that repeats the action (`ACTION` stands for
it), and silence, where the answer is the one before again (`SAME`). Where the engine lists its admissible
actions the lists tell which actions it refused; where it does not, only the answers are compared.

Left out: refusals that say something of the reason (they name a thing, or only one kind of action gets them).
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from align_echo.align.probe import runtime
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.runtime import ACTION, SAME
from align_echo.align.probe.silence import answers
from align_echo.types import Trajectory

MIN_ACTIONS = 5
MIN_KINDS = 2
"""An answer tells nothing if so many different refused actions got it, of so many kinds."""

MOST_TRIED = 12
"""Answers that the agent got for too few actions are tried with others: at most so many, the most frequent."""

FEW = 0.05
"""An answer may have been given to an action that was taken so often, for one that refused one."""

MIN_HEARD = 2
"""Tasks in which a refusal was heard at least, where nothing is listed."""

SHARE_SAME = 0.5
"""Silence refuses if at least this share of the actions that the engine refused left its answer as it was."""


@dataclass
class Heard:
    """What an engine answered. `refused` maps an answer's shape to the different actions that it refused so, `taken`
    counts shapes of answers to actions that it took, `times` all refusals by shape."""

    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    taken: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def take(self, before: str, action: str, answer: str, *, refused: bool) -> None:
        """Count one answer in each of its shapes; `before` is the answer to the action before."""
        for shape in shapes(before, action, answer):
            if refused:
                self.refused[shape].add(action)
                self.times[shape] += 1
            else:
                self.taken[shape] += 1


def shapes(before: str, action: str, answer: str) -> list[str]:
    """The ways in which an answer can be a refusal: by its text, by its text around the action, or as silence."""
    text = answer.strip()
    ways = [text, runtime.without_action(action, text)]
    return list(dict.fromkeys([*ways, *([SAME] if text == before.strip() else [])]))


def listed_refusals(lab: Lab, failed: Sequence[Trajectory], rng: random.Random) -> list[str]:
    """The shapes of refusals where the engine lists its actions. What the agent got for actions of one kind only is
    tried with refused actions of other kinds, which are made of what the lists hold."""
    heard = Heard()
    for trajectory in failed:
        for before, action, answer, refused in _replayed(lab, trajectory):
            heard.take(before, action, answer, refused=refused)
    known = _plain(lab.name, heard)
    doubtful = [shape for shape, _ in heard.times.most_common(MOST_TRIED) if shape not in known]
    if doubtful:
        _try_others(lab, failed[0].task_id, rng, heard)
        known = [shape for shape in _plain(lab.name, heard) if shape in {*known, *doubtful}]
    return known


def unlisted_refusals(failed: Sequence[Trajectory]) -> list[str]:
    """The shapes of refusals where the engine lists nothing: answers that many different actions got, in several tasks.

    A text counts as one if actions of several kinds, or agents in half of the episodes, got it as something new. An
    engine that refuses in words says the same again only where it refuses twice; a silent one repeats whatever it said
    last. So silence is believed where most of what was repeated are no such answers.
    """
    heard, tasks, verbs = Heard(), defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    repeated: list[set[str]] = []
    for trajectory in failed:
        for action, answer, before in answers(trajectory):
            same = bool(answer.strip()) and before.strip().endswith(answer.strip())
            ways = shapes(answer if same else before, action, answer)
            for shape in ways:
                heard.refused[shape].add(action)
                if not same:
                    tasks[shape].add(trajectory.task_id)
                    verbs[shape].add(_verb(action))
            if same:
                repeated.append({*ways})
    texts = [
        text
        for text in _plain(r"(?!)", heard)
        if text != SAME
        and len(tasks[text]) >= MIN_HEARD
        and (len(verbs[text]) >= MIN_KINDS or 2 * len(tasks[text]) >= len(failed))
    ]
    explained = sum(not ways.isdisjoint(texts) for ways in repeated)
    if texts and explained >= SHARE_SAME * len(repeated):
        return texts
    kinds = {_verb(action) for action in heard.refused[SAME]}
    return [SAME] if len(heard.refused[SAME]) >= MIN_ACTIONS and len(kinds) >= MIN_KINDS else []


def further_refusals(lab: Lab, tasks: Sequence[str]) -> list[str]:
    """Shapes that the agent did not meet often enough: answers of an engine that lists nothing to all that can be said
    at the start of some tasks, where they left its saved state as it was. None where states cannot be compared."""
    heard, sayings = Heard(), lab.sayings
    if sayings is None or not lab.comparable:
        return []
    for task_id in tasks:
        state = lab.start(task_id)
        for action in sayings.fill(lab.known_names(state)):
            child = lab.after(state, action)
            if not child.over:
                heard.take("", action, child.observation, refused=lab.key(child) == lab.key(state))
    return [shape for shape in _plain(lab.name, heard) if shape != SAME]


def refused_actions(failed: Iterable[Trajectory], known: list[str]) -> list[tuple[str, str]]:
    """(task id, action) of every step that was refused, by the shapes of refusals that are known."""
    return [(task_id, action) for task_id, action, refused in _judged(failed, known) if refused]


def taken_actions(failed: Iterable[Trajectory], known: list[str]) -> list[tuple[str, str]]:
    """(task id, action) of every step that was not refused."""
    return [(task_id, action) for task_id, action, refused in _judged(failed, known) if not refused]


def _judged(trajectories: Iterable[Trajectory], known: list[str]) -> Iterator[tuple[str, str, bool]]:
    for trajectory in trajectories:
        for action, answer, before in answers(trajectory):
            yield trajectory.task_id, action, bool(runtime.refusal(known, before, action, answer))


def _plain(name: str, heard: Heard) -> list[str]:
    """The shapes that many refused actions of several kinds got and no action that was taken. Silence counts where no
    text does."""
    shapes_met = [
        shape
        for shape, actions in sorted(heard.refused.items())
        if len(actions) >= MIN_ACTIONS and len({_kind(name, action) for action in actions}) >= MIN_KINDS
    ]
    texts = [text for text in shapes_met if text != SAME and heard.taken[text] <= FEW * heard.times[text]]
    texts = [text for text in texts if not re.search(name, text.replace(ACTION, ""))]
    if SAME not in shapes_met:
        return texts
    every = sum(count for shape, count in heard.times.items() if shape in texts or shape == SAME)
    explained = sum(heard.times[text] for text in texts)
    return texts if explained >= SHARE_SAME * max(every, 1) else [*texts, SAME]


def _replayed(lab: Lab, trajectory: Trajectory) -> Iterator[tuple[str, str, str, bool]]:
    """(answer before, action, answer, whether it was refused) for the steps of an episode, played again."""
    state = lab.start(trajectory.task_id)
    for step in trajectory.steps:
        if step.action is None or step.raw_observation is None or state.over:
            continue
        child = lab.after(state, step.action)
        refused = step.action not in state.admissible and child.admissible == state.admissible and not child.over
        yield state.observation, step.action, child.observation, refused
        state = child


def _try_others(lab: Lab, task_id: str, rng: random.Random, heard: Heard) -> None:
    """Say refused actions of every kind in states along a stroll, and take what is allowed in between."""
    state, known = lab.start(task_id), defaultdict[str, set[str]](set)
    for _ in range(40):
        if state.over or not state.admissible:
            return
        for action in state.admissible:
            known[_kind(lab.name, action)].add(action)
        for _, actions in sorted(known.items()):
            refused = sorted(actions - state.admissible)
            if refused:
                action = rng.choice(refused)
                child = lab.after(state, action)
                heard.take(state.observation, action, child.observation, refused=not child.over)
        action = rng.choice(sorted(state.admissible))
        child = lab.after(state, action)
        if not child.over and child.admissible != state.admissible:
            heard.take(state.observation, action, child.observation, refused=False)
        state = child


def _kind(name: str, action: str) -> str:
    """An action with its names left out."""
    return re.sub(name, "{}", action)


def _verb(action: str) -> str:
    return next(iter(action.lower().split()), "")
