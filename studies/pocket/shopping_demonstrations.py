"""Chats of the shopper as the vanilla agent holds them: alone, and after a critique of an earlier attempt.

All on training goals of the embedded catalogue. What critics are taught of the same attempts comes with them.
"""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym

from align_echo.agents.conversation import assistant_message
from align_echo.agents.reasoning import Vanilla
from align_echo.base.dice import Dice
from align_echo.critic.language import Form, parse_critique
from align_echo.errors import UsageError
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_episode, view_before
from align_echo.rollout.session import Episode
from align_echo.train.sft import Demonstration
from align_echo.types import Agent, Trajectory
from align_echo.wrappers.catalogue import make, tasks
from align_echo.wrappers.webshop import SPEC
from studies.pocket.critiques import critique_demonstration
from studies.pocket.shopping import HABITS, Careless, Shopper, Slipping

SPLIT = "train"
MISTAKES = 0.14
"""Share of the episodes in which a mistake is planted and put right; the mistake is not imitated."""

DETAILS = (0, 0, 2, 4)
"""How many words of the details a search holds: one of these."""

_FORMS: tuple[Form, ...] = ("echo", "icrl")
_PATIENCE = 12
"""Turns of an attempt that is criticised."""

_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


def shopping_demonstrations(seed: int) -> Iterator[Demonstration]:
    """Episodes without end, every training goal once a lap; the same for the same seed. Kind "webshop.expert".

    Raises `UsageError` if WEBSHOP_DATA names official files: the teacher reads the embedded catalogue's goals.
    """
    env = _shop(SPEC.step_limit)
    for number, task in enumerate(_laps(seed)):
        dice = Dice(f"shopping {seed} {number}")
        details = dice.pick(DETAILS)
        if not dice.chance(MISTAKES):
            yield demonstration("webshop.expert", play(env, Shopper(details=details), task))
            continue
        shopper = Slipping(dice.pick(("search", "results", "results", "item")), dice, details=details)
        yield demonstration("webshop.expert", play(env, shopper, task), wrong=shopper.slipped)


def refined_shopping(seed: int) -> Iterator[Demonstration]:
    """Without end: a critique of an attempt ("webshop.critique"), then the next attempt, told of it, if it did better.

    The kind of the latter is "webshop.refined". Now and then the attempt has a full score and the critique is "none".
    Raises `UsageError` as `shopping_demonstrations` does.
    """
    env, brief = _shop(SPEC.step_limit), _shop(_PATIENCE)
    for number, task in enumerate(_laps(seed)):
        dice = Dice(f"refined shopping {seed} {number}")
        details = dice.pick(DETAILS)
        attempt = play(brief, _beginner(dice, details), task)
        if attempt.won and dice.chance(0.8):
            continue
        form = dice.pick(_FORMS)
        chat, _ = critique_demonstration(attempt, dice, form)
        yield chat
        advice = parse_critique(chat.messages[-1].content, form).advice
        refined = play(env, Shopper(details=details), task, critique=advice)
        if refined.score > attempt.score:
            yield demonstration("webshop.refined", refined)


def _beginner(dice: Dice, details: int) -> Agent:
    return Shopper(details=details) if dice.chance(0.25) else Careless(dice.pick(HABITS), dice, details=details)


def play(env: gym.Env[str, str], agent: Agent, task: str, *, critique: str = "") -> Trajectory:
    """An episode of a training goal."""
    episode = Episode(task, critique=critique)
    return run_episode(env, agent, episode, split=SPLIT, action_format=SPEC.action_format)


def demonstration(kind: str, trajectory: Trajectory, *, wrong: int | None = None) -> Demonstration:
    """The whole episode as the vanilla agent's chat; the reply of the turn that was wrong is not imitated."""
    last = len(trajectory.steps) - 1
    chat = _VANILLA.conversation(view_before(trajectory, last, SPEC.action_format))
    weights = tuple(float(turn != wrong) for turn in range(len(trajectory.steps)))
    return Demonstration(kind=kind, messages=(*chat, assistant_message(trajectory.steps[last].reply)), weights=weights)


def _shop(step_limit: int) -> gym.Env[str, str]:
    """The training split of the embedded catalogue. Raises `UsageError` if another catalogue is configured."""
    from align_echo.wrappers.webshop import data_source
    from align_echo.wrappers.webshop.generator import EmbeddedProducts

    if data_source(data_root=None) != EmbeddedProducts().label:
        raise UsageError("the pocket model learns shopping on the embedded catalogue: unset WEBSHOP_DATA")
    return make("webshop", split=SPLIT, step_limit=step_limit)


def _laps(seed: int) -> Iterator[str]:
    ids = tasks("webshop", split=SPLIT)
    lap = 0
    while True:
        yield from Dice(f"shopping lap {seed} {lap}").shuffled(ids)
        lap += 1
