"""Call an agent, and record faults: an agent's own code may fail like an engine or a model.

Not here: playing episodes, and retries (`batches.py`).
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from types import TracebackType
from typing import Literal, TypeVar

from pydantic import NonNegativeInt

from align_echo.errors import (
    AgentError,
    AlignEchoError,
    EngineError,
    InterfaceError,
    ModelError,
    ReplyFormatError,
    UsageError,
    first_line,
    printable,
    redacted,
)
from align_echo.types import Agent, AgentReply, AgentView, Fault, Frozen, Step, Trajectory
from align_echo.wrappers.align_wrapper import GIVEN_UP, NOT_LOADED

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
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "align_echo.rollout.batches"):
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


# ---------------------------------------------------------------- an agent whose replies hold no action

FIRST_TURNS = 3
FIRST_EPISODES = 3
LONGEST_REPLY = 100
"""First turns of an episode and first episodes of a run that are watched, and characters shown of a reply."""


class FirstReplies:
    """Watches the first replies of a run, until the first that holds an action.

    `say` receives one line as soon as all first replies of an episode held none. With `stop_after`, no line is said:
    such episodes are put off, and the run stops when there are that many.
    """

    def __init__(self, say: Callable[[str], object] = lambda line: None, *, stop_after: int = 0) -> None:
        self._say = say
        self._stop_after = stop_after
        self._acted = False
        self._mute: list[str] = []
        self._lock = threading.Lock()

    def hear(self, task_id: str, steps: Sequence[Step]) -> bool:
        """Note the steps so far of an episode, and return whether to put it off. Raises `UsageError` to stop the run.
        """
        with self._lock:
            self._acted = self._acted or any(step.action is not None for step in steps)
            if self._acted or len(steps) < FIRST_TURNS or task_id in self._mute:
                return False
            self._mute.append(task_id)
            reply = f"{_one_line(steps[0].reply or steps[0].thinking)[:LONGEST_REPLY]!r} ({steps[0].problem})"
            if not self._stop_after and len(self._mute) == 1:
                self._say(f"none of the agent's first {FIRST_TURNS} replies in {task_id} holds an action: {reply}")
            if self._stop_after and len(self._mute) >= self._stop_after:
                raise UsageError(
                    f"the agent does not write actions that can be read: none of its first {FIRST_TURNS} replies in "
                    f"{', '.join(self._mute)}; the last began with {reply}; choose another agent or model"
                )
            return bool(self._stop_after)


# ---------------------------------------------------------------- how an interface behaved

MOST_FAILURES = 0.1
"""Maximum share of failed turns, and of failed resets, for an interface that works."""

MAX_MESSAGE = 300

Kind = Literal["not-loaded", "failed", "given-up", "refused", "forged", "silenced"]

TOLD: dict[Kind, str] = {
    "not-loaded": "did not load in {} of the episodes",
    "failed": "failed on {} of its turns, which showed the raw observation",
    "given-up": "was given up in {} of the episodes",
    "refused": "was refused {} of its engine calls",
    "forged": "claimed what the environment did not give (a reward or an end) on {} of its turns",
    "silenced": "gave hints that were followed and did not come true, and was silenced on them, in {} of the episodes",
}
"""Description of each kind of trouble, in the order of messages; a reset counts as a turn."""


class InterfaceTrouble(Frozen):
    """One kind of trouble: its count (episodes, turns or calls, see `TOLD`), and the first message with its task.

    `first` is one line, beginning with the interface's line number if known. For "silenced" it is the rule.
    """

    kind: Kind
    count: NonNegativeInt
    first: str
    task_id: str


class InterfaceConduct(Frozen):
    """Behaviour of an interface. `turns` are those with an action for it; on `failed_turns` it was bypassed.

    `works` is False if it failed on more than a tenth of its turns or of its resets.
    """

    turns: NonNegativeInt = 0
    failed_turns: NonNegativeInt = 0
    resets: NonNegativeInt = 0
    failed_resets: NonNegativeInt = 0
    works: bool = True
    troubles: tuple[InterfaceTrouble, ...] = ()

    def __add__(self, later: InterfaceConduct) -> InterfaceConduct:
        """Return the conduct in these episodes followed by those."""
        turns, failed = self.turns + later.turns, self.failed_turns + later.failed_turns
        resets, failed_resets = self.resets + later.resets, self.failed_resets + later.failed_resets
        troubles = {trouble.kind: trouble for trouble in later.troubles}
        for first in self.troubles:
            count = first.count + (troubles[first.kind].count if first.kind in troubles else 0)
            troubles[first.kind] = first.model_copy(update={"count": count})
        return InterfaceConduct(
            turns=turns,
            failed_turns=failed,
            resets=resets,
            failed_resets=failed_resets,
            works=few(failed, turns) and few(failed_resets, resets),
            troubles=tuple(troubles[kind] for kind in TOLD if kind in troubles),
        )

    @property
    def failures(self) -> str:
        """Failed share of its work in words: turns, or resets if only those failed too often."""
        if few(self.failed_turns, self.turns) and not few(self.failed_resets, self.resets):
            return f"{self.failed_resets} of {self.resets} resets"
        return f"{self.failed_turns} of {self.turns} turns"


def few(failed: int, tries: int) -> bool:
    """Return True if an interface with these failures still counts as working."""
    return failed <= MOST_FAILURES * tries


def summarize_conduct(trajectories: Iterable[Trajectory]) -> InterfaceConduct:
    """Summarise the behaviour of the interface in these episodes."""
    return sum(map(_in_episode, trajectories), InterfaceConduct())


def tell(conducts: Mapping[str, InterfaceConduct]) -> list[str]:
    """Write a line per kind of trouble, over all conducts by name: counts, and the first message."""
    lines = []
    for kind, words in TOLD.items():
        every = [(name, trouble) for name, conduct in conducts.items() for trouble in conduct.troubles]
        by_name = {name: trouble for name, trouble in every if trouble.kind == kind}
        if by_name:
            first = next(iter(by_name.values()))
            counts = ", ".join(f"{name}: {trouble.count}" for name, trouble in by_name.items())
            description = words.format(sum(trouble.count for trouble in by_name.values()))
            lines.append(f"the interface {description} ({counts}); the first, in {first.task_id}: {first.first}")
    return lines


def verdict(conducts: Mapping[str, InterfaceConduct]) -> str:
    """Write one line about the interfaces that did not work; "" if all did."""
    broken = [f"{name} ({conduct.failures})" for name, conduct in conducts.items() if not conduct.works]
    measured = "what was measured is the environment without it"
    return f"the interface did not work: {', '.join(broken)}; {measured}" if broken else ""


def overstepped(conducts: Mapping[str, InterfaceConduct]) -> str:
    """Write one line about the interfaces that broke their contract; "" if none did."""
    kinds = {name: {trouble.kind for trouble in conduct.troubles} for name, conduct in conducts.items()}
    names = [name for name, kinds_of_trouble in kinds.items() if kinds_of_trouble & {"refused", "forged"}]
    return f"the interface tried what its contract forbids: {', '.join(names)}; see above" if names else ""


# ---------------------------------------------------------------- counting


def _in_episode(trajectory: Trajectory) -> InterfaceConduct:
    steps = [step for step in trajectory.steps if step.action is not None]
    failed, failed_resets = sum(bool(step.interface_error) for step in steps), int(bool(trajectory.reset_error))
    by_kind = {kind: _messages(trajectory, kind) for kind in TOLD}
    return InterfaceConduct(
        turns=len(steps),
        failed_turns=failed,
        resets=1,
        failed_resets=failed_resets,
        works=few(failed, len(steps)) and not failed_resets,
        troubles=tuple(
            InterfaceTrouble(kind=kind, count=len(messages), first=messages[0], task_id=trajectory.task_id)
            for kind, messages in by_kind.items()
            if messages
        ),
    )


def _messages(trajectory: Trajectory, kind: Kind) -> list[str]:
    """Return the message of every trouble of a kind in an episode; a lasting one counts once."""
    errors = [trajectory.reset_error, *(step.interface_error for step in trajectory.steps)]
    messages: Iterable[str]
    if kind == "refused":
        calls = [
            *trajectory.reset_violations,
            *(violation for step in trajectory.steps for violation in step.violations),
        ]
        messages = [f"{call.action!r}: {call.reason}" for call in calls]
    elif kind == "forged":
        messages = [_claim(step) for step in trajectory.steps if step.forged]
    elif kind == "silenced":
        rules = [hint.rule for step in trajectory.steps for hint in step.hints if hint.silenced]
        messages = [] if trajectory.is_placebo else rules[:1]
    elif kind == "failed":
        messages = [error for error in errors if error and not error.startswith((NOT_LOADED, GIVEN_UP))]
    else:
        beginning = f"{NOT_LOADED}: " if kind == "not-loaded" else GIVEN_UP
        messages = [error.removeprefix(f"{NOT_LOADED}: ") for error in errors if error.startswith(beginning)][:1]
    return [_one_line(text) for text in messages]


def _claim(step: Step) -> str:
    return f"claimed {' and '.join(step.forged)} after {step.action!r}"


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())[:MAX_MESSAGE]
