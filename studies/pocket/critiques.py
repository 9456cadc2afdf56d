"""Critiques and verdicts for the pocket model to imitate.

Scripted critics read the attempt's text alone; the intuitive critic's labels come from `critic.labels`.
"""

from __future__ import annotations

from align_echo.agents.conversation import assistant_message
from align_echo.agents.reasoning import Vanilla
from align_echo.base.dice import Dice
from align_echo.critic.ask import Label, verdict_messages
from align_echo.critic.language import Critique, Form, critic_messages, one_line, write_critique
from align_echo.errors import UsageError
from align_echo.models.drawing import ScriptedModel
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView, Trajectory
from studies.pocket.household_review import review_household
from studies.pocket.shopping_review import review_shopping
from studies.pocket.wordings import Advice, Review, wordings

REVIEWS = {"alfworld": review_household, "webshop": review_shopping}

(DONE,) = wordings("critiques")


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


_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


def verdict_demonstration(
    view: AgentView, action: str, verdict: Label, *, kind: str = "alfworld.verdict"
) -> Demonstration:
    """The agent's chat with the question about the action and the one-word answer, which alone is imitated."""
    messages = verdict_messages(_VANILLA.conversation(view), action)
    spoken = sum(message.role == "assistant" for message in messages)
    weights = (*(0.0,) * spoken, 1.0)
    return Demonstration(kind=kind, messages=(*messages, assistant_message(verdict)), weights=weights)
