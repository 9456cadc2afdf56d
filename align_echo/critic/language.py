"""Language critic: an attempt as text for a prompt, and the forms of a critique.

Two forms are built in; others are `CritiqueForm` objects, found by name (`FORMS`). "echo" is ECHO's critic (another
model, or another role, reviews the agent), "icrl" is ICRL's (the model criticises its own failed attempt). Both use one
user message and expect a reason and at most two suggestions, or "none". Not here: asking (`ask.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Literal

from align_echo.agents.parsing import after_label, reply_lines, visible_text
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.prompts import render
from align_echo.registry import Registry, attempt, with_article
from align_echo.types import Frozen, Message, Step, Trajectory

# ---------------------------------------------------------------- an attempt as text

BUDGET = 5000
"""Characters for all turns together: about 1,500 tokens."""

LEAST_BUDGET = 500

TAGS = (
    *("task", "rules", "advice", "start", "response", "feedback", "criteria", "score", "action"),
    *("reason", "suggestions"),
)
"""All tags in the critics' prompts and replies."""

NO_ACTION = "(no action)"
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)}))", re.IGNORECASE)
_NOTE = len("\n(9999 turns left out)\n")

Part = tuple[str, int]
"""A text and the number of turns in it."""


def plain(text: str) -> str:
    """Escape the start of every tag as `&lt;`, so that the text cannot open or close one.

    Longer names with a tag's name as prefix are escaped too, so that shortening the text cannot create a tag.
    """
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """Escape tags as `plain` does, and collapse white space."""
    return plain(" ".join(text.split()))


def clipped(text: str, longest: int) -> str:
    """Shorten a text to `longest` characters: its beginning and end around a note of how many are missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ({len(text) - 2 * half} characters left out) {text[-half:]}"


def transcript(steps: Sequence[Step], budget: int = BUDGET) -> str:
    """Write turns, responses and feedback in tags, in at most `budget` characters.

    Raises `UsageError` for a budget under `LEAST_BUDGET`, too small for a turn.
    """
    if budget < LEAST_BUDGET:
        raise UsageError(f"a transcript needs at least {LEAST_BUDGET} characters, not {budget}")
    return _shortened(list(_blocks(steps, budget)), budget)


def _blocks(steps: Sequence[Step], budget: int) -> Iterator[Part]:
    """Generate consecutive turns with the same feedback as one text."""
    for feedback, block in groupby(steps, key=lambda step: step.observation):
        responses: list[Part] = []
        for action, run in groupby(block, key=lambda step: step.action):
            times = len(list(run))
            response = clipped(one_line(action or NO_ACTION), budget // 8)
            responses.append((f"<response>{response}</response>{f' ({times} times)' if times > 1 else ''}", times))
        answer = clipped(plain(feedback.strip()), budget // 3)
        text = f"{_shortened(responses, budget // 3)}<feedback>{answer}</feedback>"
        yield text, sum(times for _, times in responses)


def _shortened(parts: Sequence[Part], room: int) -> str:
    """Join the parts, one a line: always the last, the others alternately from the end and the beginning while they
    fit.
    """
    room -= _NOTE
    first, last = 0, len(parts)
    from_end = True
    while first < last:
        length = len(parts[last - 1][0] if from_end else parts[first][0]) + 1
        if length > room and last < len(parts):
            break
        room -= length
        first, last = (first, last - 1) if from_end else (first + 1, last)
        from_end = not from_end
    left_out = sum(times for _, times in parts[first:last])
    note = [f"({left_out} turn{'' if left_out == 1 else 's'} left out)"] if left_out else []
    return "\n".join([text for text, _ in parts[:first]] + note + [text for text, _ in parts[last:]])


# ---------------------------------------------------------------- forms of a critique

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

    def prompt(self, trajectory: Trajectory) -> list[Message]:
        """Ask about an attempt. Raises `UsageError` if `ask` breaks, or returns anything else than messages."""
        messages = attempt(lambda: self.ask(trajectory), f"the critic form {self.name} broke on an attempt")
        listed = list(messages) if isinstance(messages, list | tuple) else []
        if not listed or not all(isinstance(message, Message) for message in listed):
            raise UsageError(
                f"the critic form {self.name} asked {str(messages)[:60]!r}, not a list of align_echo.types.Message"
            )
        return listed

    def critique(self, reply: str) -> Critique:
        """Read a reply. Raises `ReplyFormatError` as `read` does, and `UsageError` if `read` breaks, or returns
        anything else than a critique.
        """
        critique = attempt(lambda: self.read(reply), f"the critic form {self.name} broke on a reply")
        if not isinstance(critique, Critique):
            raise UsageError(
                f"the critic form {self.name} read {str(critique)[:60]!r}, not an align_echo.Critique: "
                "of a reply that it cannot read it raises ReplyFormatError"
            )
        return critique


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
