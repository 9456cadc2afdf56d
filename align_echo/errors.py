"""Every error that align-echo raises on purpose.

Each is also a standard type, so callers can catch `ValueError`, `FileNotFoundError` ... without knowing this tree.
A message is one line that says what to do. The command line prints it and leaves with status 2. An error while an
episode runs is not raised to the user: it becomes a `Fault` on its trajectory (see `align_echo.types`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

from align_echo.redaction import redacted


def install_line(extra: str) -> str:
    """How an extra is installed. The package is on no index: pip takes it from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of align-echo"


class AlignEchoError(Exception):
    """Base of all errors below. No message holds a key or a password."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redacted(argument) if isinstance(argument, str) else argument for argument in arguments))


class UsageError(AlignEchoError, ValueError):
    """An argument, a name or a file's content is not what is asked for."""


class MissingDataError(AlignEchoError, FileNotFoundError):
    """A data folder or file that the user named is not there or not complete."""


class MissingExtraError(AlignEchoError, ImportError):
    """An optional dependency is not installed; the message holds the exact install line, and what else it takes."""

    def __init__(self, feature: str, extra: str, note: str = "") -> None:
        super().__init__(f"{feature} needs an extra: {install_line(extra)}{f' ({note})' if note else ''}")


class InterfaceError(AlignEchoError, ValueError):
    """Interface code does not load, has the wrong signature, or failed in the sandbox."""


class EngineError(AlignEchoError, RuntimeError):
    """An environment's engine failed. The agent is not to blame: the episode is retried or masked, never scored 0."""


class ModelError(AlignEchoError, RuntimeError):
    """A chat model could not be reached or gave no usable reply after the retries."""


class AgentError(AlignEchoError, RuntimeError):
    """An agent's own code failed, or what it gave is no reply. `__cause__` is what the code raised."""


class RequestRejectedError(ModelError):
    """The endpoint refused this one request (too long, filtered): asking again would not help, others may work."""


class NoAnswerError(ModelError):
    """A model answered, but in no way that could be used, as often as it was asked. Asked anew it may do better."""


class ReplyWithheldError(ModelError):
    """The endpoint answered without a reply: filtered, refused, empty of content, or a tool call that nobody asked for.
    """


class ContextOverflowError(RequestRejectedError):
    """The conversation and the reply do not fit into the model's context. The episode ends there; it is no fault."""


class TokenDriftError(AlignEchoError, AssertionError):
    """Token ids that are about to be used are not those that were sampled: a bug, never to be trained on."""


class TrainingError(AlignEchoError, RuntimeError):
    """A training run cannot go on: its loss is no number, or its settings contradict each other."""


class ReplyFormatError(AlignEchoError, ValueError):
    """A model's reply does not follow the asked format. Holds what was wrong, in words the model can act on."""


def require(feature: str, extra: str, modules: Iterable[str], note: str = "") -> None:
    """Raises `MissingExtraError` for a feature where a module that its extra brings is not installed."""
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(feature, extra, note)


def did_you_mean(name: str, names: Iterable[str], *, most: int = 3) -> str:
    """A question about the names nearest to one that nothing has, with a space behind it; "" where none is near."""
    near = get_close_matches(name, list(names), n=most, cutoff=0.5)
    return f"did you mean {' or '.join(near)}? " if near else ""


def first_line(error: BaseException) -> str:
    """The first line of what an error of another library says, for a message of ours."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def portable(error: BaseException, unknown: type[Exception] = RuntimeError) -> Exception:
    """The error if it can be sent to another process as it is, else one that says the same: a `UsageError` for one of
    ours, `unknown` for any other."""
    try:
        same = pickle.loads(pickle.dumps(error))
    except Exception:
        same = None
    if type(same) is type(error) and isinstance(same, Exception):
        return same
    if isinstance(error, AlignEchoError):
        return UsageError(str(error))
    return unknown(f"{type(error).__name__}: {first_line(error)}")
