"""Language critic: its prompt about an attempt, and the strict parsing of its reply, by form.

Two forms are built in; others are `CritiqueForm` objects, registered by name (`FORMS`). "echo" is ECHO's critic
(another model, or another role, reviews the agent), "icrl" is ICRL's (the model criticises its own failed attempt).
Both use one user message and expect a reason and at most two suggestions, or "none".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from align_echo.agents.parsing import after_label, reply_lines, uncut_text, visible_text
from align_echo.critic.verdict import BUDGET, clipped, plain, transcript
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError, UsageError
from align_echo.models.drawing import model_for_sample
from align_echo.prompts import render
from align_echo.registry import Registry, with_article
from align_echo.types import ChatModel, Fault, Frozen, Message, Tokens, Trajectory, Usage

Form = Literal["echo", "icrl"]

CRITERIA = "The environment's score is between 0 and 1. 1 is full: the task was done."
MOST_SUGGESTIONS = 2
NONE = "none"

_OPENING, _CLOSING = "<reason>", "</suggestions>"
_BETWEEN = re.compile(r"</reason>\s*<suggestions>")
_BULLET = re.compile(r"^(?:[-*•]|\d[.)])\s+")


class Critique(Frozen):
    """A critic's reason and suggestions about an attempt. No suggestions means nothing to improve (a full score)."""

    reason: str
    suggestions: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """Return whether there is nothing to improve."""
        return not self.suggestions

    @property
    def advice(self) -> str:
        """Return the text for the agent before its next attempt (`AgentView.critique`); "" without suggestions."""
        return "\n".join(self.suggestions)


@dataclass(frozen=True)
class CritiqueForm:
    """A critic's prompt about an attempt, and the parser of its reply.

    `ask(trajectory)` raises `UsageError` for an attempt without a score. `read(reply)` raises `ReplyFormatError` with
    the problem. `prompts` are the names of its templates; a run records their hashes.
    """

    name: str
    ask: Callable[[Trajectory], list[Message]]
    read: Callable[[str], Critique]
    prompts: tuple[str, ...] = ()


def _read_form(name: str, form: object) -> CritiqueForm:
    if not isinstance(form, CritiqueForm):
        kind = with_article(type(form).__name__)
        raise UsageError(f"{name} is {kind}: a critic's form is an align_echo.CritiqueForm")
    return replace(form, name=name)


FORMS: Registry[CritiqueForm] = Registry("critic form", "align_echo.critic_forms", _read_form)


def critic_messages(
    trajectory: Trajectory, form: Form = "echo", *, criteria: str = CRITERIA, budget: int = BUDGET
) -> list[Message]:
    """Build the critic's prompt about an attempt; `budget` bounds the characters of its turns (see `transcript`).

    Raises `UsageError` for a trajectory with a fault, since it has no score.
    """
    if trajectory.fault is not None:
        raise UsageError(f"{trajectory.task_id} was broken by a fault and has no score: there is nothing to criticise")
    values = {
        "goal": plain(trajectory.goal),
        "rules": plain(trajectory.rules),
        "advice": plain(trajectory.critique),
        "start": plain(clipped(trajectory.initial_observation.strip(), budget // 2)),
        "turns": transcript(trajectory.steps, budget),
        "criteria": criteria,
        "score": written_score(trajectory.score),
    }
    return [Message(role="user", content=render(f"critic/{form}", values))]


def written_score(score: float) -> str:
    """Format the score with at most two decimals; only a full score is written as 1."""
    return f"{score if score >= 1 else min(round(score, 2), 0.99):g}"


def parse_critique(reply: str, form: Form = "echo") -> Critique:
    """Parse a critique in exactly its form; white space around lines and bullets is ignored.

    Raises `ReplyFormatError` with the problem.
    """
    reason, lines = _echo_parts(reply) if form == "echo" else _icrl_parts(reply)
    if not reason:
        raise ReplyFormatError("the reply gives no reason")
    if not lines:
        raise ReplyFormatError('the reply suggests nothing; say "none" if nothing is to be improved')
    none = [line.rstrip(".").lower() == NONE for line in lines]
    if all(none) and len(lines) == 1:
        return Critique(reason=reason)
    if any(none):
        raise ReplyFormatError('the reply says "none" beside other suggestions')
    if len(lines) > MOST_SUGGESTIONS:
        raise ReplyFormatError(f"the reply has {len(lines)} suggestions; at most {MOST_SUGGESTIONS} are read")
    return Critique(reason=reason, suggestions=tuple(lines))


def write_critique(critique: Critique, form: Form = "echo") -> str:
    """Write a critique as a reply for `parse_critique`: the training target of a critic."""
    lines = critique.suggestions or (NONE,)
    if form == "icrl":
        return "\n".join([f"Mistake: {critique.reason}", *(f"Next time: {line}" for line in lines)])
    return "\n".join([f"<reason>{critique.reason}</reason>", "<suggestions>", *lines, "</suggestions>"])


def _echo_parts(reply: str) -> tuple[str, list[str]]:
    text = visible_text(reply)
    between = _BETWEEN.search(text)
    if between is None or not (text.startswith(_OPENING) and text.endswith(_CLOSING)):
        raise ReplyFormatError("the reply must be <reason>...</reason> and <suggestions>...</suggestions>, no more")
    reason, suggestions = text[len(_OPENING) : between.start()], text[between.end() : -len(_CLOSING)]
    if any(plain(part) != part for part in (reason, suggestions)):
        raise ReplyFormatError("the reply has tags inside its blocks, or blocks twice")
    lines = [_BULLET.sub("", line.strip(), count=1) for line in suggestions.splitlines()]
    return " ".join(reason.split()), [line for line in lines if line]


def _icrl_parts(reply: str) -> tuple[str, list[str]]:
    first, *rest = reply_lines(reply)
    reason = after_label(first, "Mistake")
    lines = [after_label(line, "Next time") for line in rest]
    if reason is None or any(line is None for line in lines):
        raise ReplyFormatError('the reply must be one line "Mistake: ..." and then lines "Next time: ...", no more')
    return reason.strip(), [line.strip() for line in lines if line and line.strip()]


ECHO = CritiqueForm(
    name="echo",
    ask=partial(critic_messages, form="echo"),
    read=partial(parse_critique, form="echo"),
    prompts=("critic/echo", "critic/attempt"),
)
ICRL = CritiqueForm(
    name="icrl",
    ask=partial(critic_messages, form="icrl"),
    read=partial(parse_critique, form="icrl"),
    prompts=("critic/icrl", "critic/attempt"),
)


# ---------------------------------------------------------------- review

MAX_TOKENS = 256


class CriticReview(Frozen):
    """A critic's review of an attempt. `critique` is None without a readable critique, and `problem` says why. `cut` is
    set if the reply reached its token limit.

    `fault` is set if the critic's model failed; there is then no reply to train on.
    """

    form: str
    sample: int = 0
    reply: str = ""
    critique: Critique | None = None
    problem: str = ""
    cut: bool = False
    fault: Fault | None = None
    usage: Usage = Usage()
    tokens: Tokens | None = None

    @property
    def advice(self) -> str:
        """Return the text for the agent before its next attempt; "" without a critique."""
        return self.critique.advice if self.critique else ""


def review(
    model: ChatModel,
    attempt: Trajectory,
    form: CritiqueForm = ECHO,
    *,
    sample: int = 0,
    temperature: float = 1.0,
    max_tokens: int = MAX_TOKENS,
) -> CriticReview:
    """Ask once about an attempt. `sample` seeds repeated critiques of it.

    Raises `UsageError` for an attempt without a score (see `CritiqueForm`).
    """
    question = form.ask(attempt)
    try:
        completion = model_for_sample(model, sample).complete(question, temperature=temperature, max_tokens=max_tokens)
    except ContextOverflowError as error:
        return CriticReview(form=form.name, sample=sample, problem=str(error))
    except ModelError as error:
        fault = Fault(source="model", error=type(error).__name__, message=str(error))
        return CriticReview(form=form.name, sample=sample, problem=str(error), fault=fault)
    critique, problem = None, ""
    try:
        critique = form.read(uncut_text(completion, max_tokens))
    except ReplyFormatError as error:
        problem = str(error)
    return CriticReview(
        form=form.name,
        sample=sample,
        reply=completion.text,
        critique=critique,
        problem=problem,
        cut=completion.finish_reason == "length",
        usage=completion.usage,
        tokens=completion.tokens,
    )
