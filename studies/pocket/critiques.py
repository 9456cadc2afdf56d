"""Critiques for the pocket model to imitate, written by scripted critics that read the attempt's text alone."""

from __future__ import annotations

from align_echo.agents.conversation import assistant_message
from align_echo.critic.language import Critique, Form, critic_messages, write_critique
from align_echo.critic.verdict import one_line
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.train.sft import Demonstration
from align_echo.types import Trajectory
from studies.pocket.household_review import review_household
from studies.pocket.review import Advice, Review
from studies.pocket.shopping_review import review_shopping

REVIEWS = {"alfworld": review_household, "webshop": review_shopping}

DONE = (
    "The score is full.",
    "The task was done.",
    "You did all that the task asks for.",
    "Nothing is missing: the score is full.",
    "The task is done with a full score.",
)


def review(trajectory: Trajectory, dice: Dice) -> Review:
    """What a scripted critic says of an attempt; no suggestions for a full score.

    Raises `UsageError` for an environment that none of them knows.
    """
    if trajectory.score >= 1:
        return Review(dice.pick(DONE))
    if trajectory.environment not in REVIEWS:
        raise UsageError(f"no scripted critic knows {trajectory.environment}; they know {', '.join(REVIEWS)}")
    return REVIEWS[trajectory.environment](trajectory, dice)


def critique_demonstration(trajectory: Trajectory, dice: Dice, form: Form = "echo") -> tuple[Demonstration, Advice]:
    """A chat in which the critic answers an attempt, of the kind "<environment>.critique", and what it advises.

    The text for the agent's next attempt is `parse_critique(last message, form).advice`. Raises `UsageError` for a
    trajectory with a fault and for an environment without a scripted critic.
    """
    messages = critic_messages(trajectory, form)
    critique = review(trajectory, dice)
    suggestions = tuple(map(one_line, critique.suggestions))
    reply = write_critique(Critique(reason=one_line(critique.reason), suggestions=suggestions), form)
    kind = f"{trajectory.environment}.critique"
    return Demonstration(kind=kind, messages=(*messages, assistant_message(reply)), weights=(1.0,)), critique.advice
