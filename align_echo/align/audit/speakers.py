"""Who speaks to an interface that is audited: the adversary, chance, an agent, or the expert with slips.

A speaker is given a state and names things to say there; `audit.py` says them, and tries what comes back. Left out: the
walk from state to state, and how an agent is made (`agents/players.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from align_echo.align.audit.adversary import Adversary, Said, written
from align_echo.align.probe.names import skeleton
from align_echo.errors import ContextOverflowError
from align_echo.types import Agent, AgentView
from align_echo.wrappers.text_env import TextEnv


class Scene(NamedTuple):
    """A state in which something is to be said: `memory` knows the forms and names that were met so far."""

    env: TextEnv
    memory: Adversary
    view: AgentView
    rng: random.Random


Speaker = Callable[[Scene, int], Iterator[Said]]
"""Names so many things to say, each with why; fewer where it has no more."""


def adversary_speaks(scene: Scene, count: int) -> Iterator[Said]:
    """Things that most agents never say."""
    return scene.memory.draws(count)


def chance_speaks(scene: Scene, count: int) -> Iterator[Said]:
    """What was allowed at some time in this episode, whether it is so now or not; without lists, forms with names."""
    ever = list(scene.memory.ever_allowed)
    for _ in range(count):
        draw = ("random", scene.rng.choice(ever)) if ever else scene.memory.plausible()
        if draw[1].strip():
            yield draw


def expert_slips(scene: Scene, count: int) -> Iterator[Said]:
    """The expert's next action with a slip: a step left out, a name exchanged, words lost, something done again."""
    action = scene.env.oracle().expert_action()
    if action is None:
        return
    for _ in range(count):
        slip = scene.rng.choice((_step_left_out, _name_exchanged, _name_exchanged, _words_lost, _done_again))
        said = slip(scene, action)
        if said.strip() and said != action:
            yield slip.__name__.strip("_").replace("_", " "), said


def agent_speaks(agent: Agent) -> Speaker:
    """What an agent says when it is asked so many times. Where its context is full it says nothing more."""

    def speak(scene: Scene, count: int) -> Iterator[Said]:
        seen: set[str] = set()
        for _ in range(count):
            try:
                action = agent.act(scene.view).action
            except ContextOverflowError:
                return
            if action is not None and action not in seen:
                seen.add(action)
                yield agent.name, action

    return speak


def _step_left_out(scene: Scene, action: str) -> str:
    env = scene.env
    snapshot = env.snapshot()
    env.step(action)
    after = None if env.over else env.oracle().expert_action()
    env.restore(snapshot)
    return after or ""


def _name_exchanged(scene: Scene, action: str) -> str:
    form, given = skeleton(action, scene.memory.name)
    names, known = list(given), sorted(scene.memory.names)
    if not names or not known:
        return ""
    names[scene.rng.randrange(len(names))] = scene.rng.choice(known)
    return written(form, names)


def _words_lost(scene: Scene, action: str) -> str:
    words = action.split()
    return " ".join(words[: scene.rng.randint(1, max(1, len(words) - 1))])


def _done_again(scene: Scene, action: str) -> str:
    return scene.rng.choice(scene.memory.said[-6:]) if scene.memory.said else ""
