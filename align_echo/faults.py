"""Asking an agent, and what is kept of what broke: an agent's own code may fail as an engine or a model may.

Left out: who plays what, and what is tried again (`rollout.py`).
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from types import TracebackType
from typing import Literal, TypeVar

from align_echo.errors import (
    AgentError,
    AlignEchoError,
    EngineError,
    InterfaceError,
    ModelError,
    ReplyFormatError,
    UsageError,
    first_line,
)
from align_echo.redaction import redacted
from align_echo.types import Agent, AgentReply, AgentView, Fault, Trajectory

LONGEST_MESSAGE, LONGEST_TRACEBACK, FRAMES = 500, 8_000, 20
"""What is kept of an agent's exception: characters of its text and of the end of its traceback, innermost frames."""

ERRORS: dict[str, type[AlignEchoError]] = {"environment": EngineError, "model": ModelError, "agent": AgentError}
"""What is raised where nothing could be played, by the source of the faults."""

BROKE = {
    "environment": "the environment broke",
    "model": "the model broke",
    "agent": "the agent's own code failed",
}

Given = TypeVar("Given")


def check_agent(agent: Agent) -> None:
    """Raises `UsageError` for what is no agent."""
    if not isinstance(getattr(agent, "name", None), str) or not callable(getattr(agent, "act", None)):
        kind = type(agent).__name__
        raise UsageError(f"an agent has a `name` (text) and a method `act(view)`: {kind} lacks one of them")


def agent_of(agent: Agent, sample: int) -> Agent:
    """The agent that plays a sample: itself for the first one, and where it has no method `with_sample`, with which an
    agent gives itself anew for another sample number. Raises `AgentError`.
    """
    with_sample: Callable[[int], Agent] | None = getattr(agent, "with_sample", None)
    if not sample or with_sample is None:
        return agent
    return _own(partial(with_sample, sample))


def ask(agent: Agent, view: AgentView) -> AgentReply:
    """The agent's reply. Raises `AgentError` if its own code fails or gives something else.

    What says that a model, an engine or the set-up is at fault is passed on, and what gives up the batch.
    """
    reply = _own(lambda: agent.act(view))
    if not isinstance(reply, AgentReply):
        raise AgentError(f"act() returned {type(reply).__name__}, not an AgentReply")
    for name, value in (("text", reply.text), ("action", "" if reply.action is None else reply.action)):
        if not isinstance(value, str):
            raise AgentError(f"the {name} of an AgentReply is text, not {type(value).__name__}")
    action = None if reply.action is None else _encodable(reply.action)
    return reply.model_copy(update={"text": _encodable(reply.text), "action": action})


def fault_of(error: EngineError | ModelError | AgentError) -> Fault:
    """What a trajectory says of the error that ended it."""
    cause = error.__cause__
    if isinstance(error, AgentError) and cause is not None:
        frames = traceback.format_exception(type(cause), cause, _outside(cause.__traceback__), limit=-FRAMES)
        kept = redacted(_encodable("".join(frames)))[-LONGEST_TRACEBACK:]
        return Fault(source="agent", error=type(cause).__name__, message=_said(cause), traceback=kept)
    source: Literal["environment", "model", "agent"] = "environment"
    if not isinstance(error, EngineError):
        source = "model" if isinstance(error, ModelError) else "agent"
    return Fault(source=source, error=type(error).__name__, message=str(error))


def fault_text(fault: Fault) -> str:
    """A fault in one line: what broke and how."""
    named = fault.source == "agent" and fault.error != AgentError.__name__
    return f"{BROKE[fault.source]}: {f'{fault.error}: ' if named else ''}{fault.message}"


def faults_by_source(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How many episodes the environment, the model and the agent's own code broke; nothing for what broke none."""
    return dict(Counter(trajectory.fault.source for trajectory in trajectories if trajectory.fault is not None))


def stop_if_hopeless(sources: Sequence[str], fault: Fault) -> None:
    """Raises `ModelError` or `AgentError` if the one of them broke all of these episodes; `fault` is the last."""
    if {*sources} == {"model"}:
        raise ModelError(f"the first {len(sources)} episodes were all broken: {fault.message}")
    if {*sources} == {"agent"}:
        error = AgentError(f"the first {len(sources)} episodes were all broken: {fault_text(fault)}")
        error.add_note(fault.traceback)
        raise error


def _own(call: Callable[[], Given]) -> Given:
    """What the agent's own code gives. What that raises is an `AgentError`, with the exception as its cause."""
    try:
        return call()
    except (AlignEchoError, CancelledError, MemoryError) as error:
        if not isinstance(error, ReplyFormatError | InterfaceError):
            raise
        raise AgentError(f"{type(error).__name__}: {_said(error)}") from error
    except (Exception, asyncio.CancelledError) as error:
        raise AgentError(f"{type(error).__name__}: {_said(error)}") from error


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without its outermost frames, which are those that ask."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "align_echo.rollout"):
        trace = trace.tb_next
    return trace


def _said(error: BaseException) -> str:
    """What an exception of somebody else's code says, in one line; its own text may break."""
    try:
        return redacted(_encodable(first_line(error)))[:LONGEST_MESSAGE]
    except Exception:
        return "(its text cannot be read)"


def _encodable(text: str) -> str:
    """The text with "?" for halves of characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode()
