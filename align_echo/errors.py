"""All errors raised by align-echo on purpose.

Each is also a standard type, so callers can catch `ValueError`, `FileNotFoundError` etc. A message is one line that
says what to do. The command line prints it and exits with status 2. An error during an episode is not raised to the
user: it becomes a `Fault` on its trajectory (see `align_echo.types`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

from align_echo.redaction import redacted


def install_line(extra: str) -> str:
    """Return the command to install an extra. The package is on no index: pip installs it from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of align-echo"


class AlignEchoError(Exception):
    """Base of all errors below. No message contains a key or a password."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redacted(argument) if isinstance(argument, str) else argument for argument in arguments))


class UsageError(AlignEchoError, ValueError):
    """An invalid argument, name or file content."""


class MissingDataError(AlignEchoError, FileNotFoundError):
    """A data folder or file named by the user is missing or incomplete."""


class MissingExtraError(AlignEchoError, ImportError):
    """An optional dependency is not installed. The message holds the exact install line and other requirements."""

    def __init__(self, feature: str, extra: str, note: str = "") -> None:
        super().__init__(f"{feature} needs an extra: {install_line(extra)}{f' ({note})' if note else ''}")


class InterfaceError(AlignEchoError, ValueError):
    """Interface code does not load, has the wrong signature, or failed in the sandbox."""


class EngineError(AlignEchoError, RuntimeError):
    """An environment's engine failed. Not the agent's fault: the episode is retried or masked, never scored 0."""


class ModelError(AlignEchoError, RuntimeError):
    """A chat model could not be reached or gave no usable reply after the retries."""


class AgentError(AlignEchoError, RuntimeError):
    """An agent's own code failed or returned no valid reply. `__cause__` is the code's exception."""


class RequestRejectedError(ModelError):
    """The endpoint rejected this request (too long, filtered): a retry would not help, other requests may work."""


class NoAnswerError(ModelError):
    """A model's answers were unusable in all attempts. Another attempt may do better."""


class ReplyWithheldError(ModelError):
    """The endpoint answered without a reply: filtered, refused, empty, or an unrequested tool call."""


class ContextOverflowError(RequestRejectedError):
    """The conversation and the reply exceed the model's context. The episode ends, and this is no fault."""


class TokenDriftError(AlignEchoError, AssertionError):
    """Token ids about to be used differ from the sampled ones: a bug, never to be trained on."""


class TrainingError(AlignEchoError, RuntimeError):
    """A training run cannot continue: its loss is NaN, or its settings contradict each other."""


class ReplyFormatError(AlignEchoError, ValueError):
    """A model's reply does not have the required format. The message tells the model how to correct it."""


def require(feature: str, extra: str, modules: Iterable[str], note: str = "") -> None:
    """Raise `MissingExtraError` if a module of the feature's extra is not installed."""
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(feature, extra, note)


def did_you_mean(name: str, names: Iterable[str], *, most: int = 3) -> str:
    """Suggest the most similar names as a question with a trailing space; "" if none is similar."""
    near = get_close_matches(name, list(names), n=most, cutoff=0.5)
    return f"did you mean {' or '.join(near)}? " if near else ""


def first_line(error: BaseException) -> str:
    """Return the first line of a third-party error, for use in our messages."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def portable(error: BaseException, unknown: type[Exception] = RuntimeError) -> Exception:
    """Return the error if it can be pickled, else a picklable one with the same text.

    The replacement is a `UsageError` for our own errors, `unknown` for all others.
    """
    try:
        same = pickle.loads(pickle.dumps(error))
    except Exception:
        same = None
    if type(same) is type(error) and isinstance(same, Exception):
        return same
    if isinstance(error, AlignEchoError):
        return UsageError(str(error))
    return unknown(f"{type(error).__name__}: {first_line(error)}")
