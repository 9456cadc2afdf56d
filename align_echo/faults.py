"""Call an agent, and record faults: an agent's own code may fail like an engine or a model.

Not here: playing episodes, and retries (`rollout.py`).
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
"""Limits of a recorded exception: characters of its text and of the end of its traceback, innermost frames."""

ERRORS: dict[str, type[AlignEchoError]] = {"environment": EngineError, "model": ModelError, "agent": AgentError}
"""Error raised if nothing could be played, by the source of the faults."""

BROKE = {
    "environment": "the environment broke",
    "model": "the model broke",
    "agent": "the agent's own code failed",
}

Result = TypeVar("Result")


def check_agent(agent: Agent) -> None:
    """Raise `UsageError` if the object is no agent."""
    if not isinstance(getattr(agent, "name", None), str) or not callable(getattr(agent, "act", None)):
        kind = type(agent).__name__
        raise UsageError(f"an agent has a `name` (text) and a method `act(view)`: {kind} lacks one of them")


def agent_for_sample(agent: Agent, sample: int) -> Agent:
    """Return the agent for a sample number, using its method `with_sample` if it has one.

    Sample 0 is the agent itself. Raises `AgentError`.
    """
    with_sample: Callable[[int], Agent] | None = getattr(agent, "with_sample", None)
    if not sample or with_sample is None:
        return agent
    return _own(partial(with_sample, sample))


def ask(agent: Agent, view: AgentView) -> AgentReply:
    """Ask the agent for a reply. Raises `AgentError` if its own code fails or returns something else.

    Errors of a model, an engine or the setup propagate, and so does cancellation of the batch.
    """
    reply = _own(lambda: agent.act(view))
    if not isinstance(reply, AgentReply):
        raise AgentError(f"act() returned {type(reply).__name__}, not an AgentReply")
    for name, value in (("text", reply.text), ("action", "" if reply.action is None else reply.action)):
        if not isinstance(value, str):
            raise AgentError(f"the {name} of an AgentReply is text, not {type(value).__name__}")
    action = None if reply.action is None else _encodable(reply.action)
    return reply.model_copy(update={"text": _encodable(reply.text), "action": action})


def build_fault(error: EngineError | ModelError | AgentError) -> Fault:
    """Build the `Fault` for the error that ended a trajectory."""
    cause = error.__cause__
    if isinstance(error, AgentError) and cause is not None:
        frames = traceback.format_exception(type(cause), cause, _outside(cause.__traceback__), limit=-FRAMES)
        traceback_end = redacted(_encodable("".join(frames)))[-LONGEST_TRACEBACK:]
        return Fault(source="agent", error=type(cause).__name__, message=_error_text(cause), traceback=traceback_end)
    source: Literal["environment", "model", "agent"] = "environment"
    if not isinstance(error, EngineError):
        source = "model" if isinstance(error, ModelError) else "agent"
    return Fault(source=source, error=type(error).__name__, message=str(error))


def fault_text(fault: Fault) -> str:
    """Describe a fault in one line: the source and the error."""
    named = fault.source == "agent" and fault.error != AgentError.__name__
    return f"{BROKE[fault.source]}: {f'{fault.error}: ' if named else ''}{fault.message}"


def faults_by_source(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Count the broken episodes by source: environment, model and agent; sources without faults are absent."""
    return dict(Counter(trajectory.fault.source for trajectory in trajectories if trajectory.fault is not None))


def stop_if_hopeless(sources: Sequence[str], fault: Fault) -> None:
    """Raise `ModelError` or `AgentError` if that source broke all of these episodes; `fault` is the last fault."""
    if {*sources} == {"model"}:
        raise ModelError(f"the first {len(sources)} episodes were all broken: {fault.message}")
    if {*sources} == {"agent"}:
        error = AgentError(f"the first {len(sources)} episodes were all broken: {fault_text(fault)}")
        error.add_note(fault.traceback)
        raise error


def _own(call: Callable[[], Result]) -> Result:
    """Run the agent's own code. Convert its exceptions to `AgentError`, with the exception as cause."""
    try:
        return call()
    except (AlignEchoError, CancelledError, MemoryError) as error:
        if not isinstance(error, ReplyFormatError | InterfaceError):
            raise
        raise AgentError(f"{type(error).__name__}: {_error_text(error)}") from error
    except (Exception, asyncio.CancelledError) as error:
        raise AgentError(f"{type(error).__name__}: {_error_text(error)}") from error


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """Strip the outermost frames of a traceback, which belong to the caller."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "align_echo.rollout"):
        trace = trace.tb_next
    return trace


def _error_text(error: BaseException) -> str:
    """Return a third-party exception's text in one line; reading it may fail."""
    try:
        return redacted(_encodable(first_line(error)))[:LONGEST_MESSAGE]
    except Exception:
        return "(its text cannot be read)"


def _encodable(text: str) -> str:
    """Replace halves of characters, which no file can hold, by "?"."""
    return text.encode("utf-8", "replace").decode()
