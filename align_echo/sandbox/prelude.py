"""Runs inside the sandbox before interface code: its `env` and `logger`, and what rewritten source calls.

Nothing imports this file: its text is sent to the interpreter (`sandbox.py`), followed by that of `stdlib.py`.
Both keep to what the interpreter runs: no inheritance, no `del`, no `yield`, no attributes on functions. All names
start with `_align_` so that interface code does not meet them by chance; if it meddles with them on purpose it only
spoils its own text: what counts (engine calls, reward, the end of the episode) is judged outside.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    _Reply = tuple[str, float, bool, bool, float]

    def _align_engine(action: str) -> _Reply:
        """Served by the host: observation, reward, done, won, score."""
        raise NotImplementedError

    def _align_engine_together(*actions: str) -> list[_Reply | str]:
        """Served by the host: a reply to each action; if one is refused, the last is what the refusal says."""
        raise NotImplementedError


_ALIGN_TEXT = 20_000
_ALIGN_LOG_LINE = 2_000


# ---------------------------------------------------------------- env and logger


class _AlignBatchedEnv:
    """`step([action]) -> ([observation], [reward], [done], {"won": [won]})`, and free attributes."""

    def step(
        self, actions: list[str], _align_reply: _Reply | None = None
    ) -> tuple[list[str], list[float], list[bool], dict[str, list[bool]]]:
        if not isinstance(actions, (list, tuple)) or len(actions) != 1 or not isinstance(actions[0], str):
            raise TypeError("env.step takes a list with one action: env.step([action])")
        observation, reward, done, won, _score = _align_reply or _align_engine(actions[0])
        return [observation], [reward], [done], {"won": [won]}


class _AlignSingleEnv:
    """`step(action) -> (observation, reward, done, {"won": won, "score": 0 to 100})`, and free attributes."""

    def step(self, action: str, _align_reply: _Reply | None = None) -> tuple[str, float, bool, dict[str, Any]]:
        if not isinstance(action, str):
            raise TypeError("env.step takes one action as text: env.step(action)")
        observation, reward, done, won, score = _align_reply or _align_engine(action)
        return observation, reward, done, {"won": won, "score": round(100 * score)}


class _AlignTripleEnv:
    """`step(action) -> (observation, reward, done)`, and free attributes."""

    def step(self, action: str, _align_reply: _Reply | None = None) -> tuple[str, float, bool]:
        if not isinstance(action, str):
            raise TypeError("env.step takes one action as text: env.step(action)")
        observation, reward, done, _won, _score = _align_reply or _align_engine(action)
        return observation, reward, done


_align_replies: list[_Reply | str] = []


def _align_asked(env: Any, actions: Any) -> list[Any]:
    """The actions as a list, after the engine was asked for them in one call: `_align_told` has the replies."""
    listed: list[Any] = list(actions)
    asked: list[str] = []
    for action in listed:
        if not isinstance(action, str):
            break
        asked.append(action)
    ours = isinstance(env, (_AlignBatchedEnv, _AlignSingleEnv, _AlignTripleEnv))
    _align_replies.clear()
    if ours and len(asked) > 1:
        _align_replies.extend(_align_engine_together(*asked))
    return listed


def _align_told(env: Any, action: Any) -> Any:
    """What `env.step(action)` returns, from the reply to the next of the actions that were asked for together."""
    if not _align_replies:
        return env.step(action)
    reply = _align_replies.pop(0)
    if isinstance(reply, str):
        raise PermissionError(reply)
    return env.step(action, reply)


def _align_log(level: str, message: Any, args: tuple[Any, ...]) -> None:
    text = str(message)
    if args:
        try:
            text = text % args
        except (TypeError, ValueError):
            text = text + " " + repr(args)
    print("\x1e" + level + "\x1f" + text[:_ALIGN_LOG_LINE].replace("\x1e", "") + "\x1e", end="")


class _AlignLogger:
    """The methods of `logging.Logger` that interface code calls; every line goes to the wrapper's log."""

    def __init__(self, name: str = "interface", level: int = 0) -> None:
        self.name = name
        self.level = level

    def debug(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("debug", message, args)

    def info(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("info", message, args)

    def warning(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("warning", message, args)

    def warn(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("warning", message, args)

    def error(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("error", message, args)

    def exception(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("error", message, args)

    def critical(self, message: Any, *args: Any, **options: Any) -> None:
        _align_log("error", message, args)

    def log(self, level: int, message: Any, *args: Any, **options: Any) -> None:
        _align_log("debug" if level < 20 else "info" if level < 30 else "warning", message, args)

    def isEnabledFor(self, level: int) -> bool:
        return True

    def setLevel(self, level: Any) -> None:
        """Accepted and ignored: the wrapper keeps every line."""

    def addHandler(self, handler: Any) -> None:
        """Accepted and ignored: lines go to the wrapper's log only."""


# ---------------------------------------------------------------- what the source preparation calls


class _AlignFunction:
    """A function that can carry attributes."""

    def __init__(self, function: Any, name: str) -> None:
        self._align_call = function
        self.__name__ = name
        self.__doc__ = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._align_call(*args, **options)


def _align_function(name: str) -> Any:
    def decorate(function: Any) -> Any:
        return _AlignFunction(function, name)

    return decorate


def _align_classmethod(function: Any, owner: Any) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        return function(owner, *args, **options)

    return _AlignFunction(call, "classmethod")


class _AlignDeleted:
    """What a name holds after `del`: any use of it fails."""


_align_deleted = _AlignDeleted()


def _align_delete_item(container: Any, key: Any) -> None:
    if isinstance(key, slice):
        container[key] = []
    else:
        container.pop(key)


def _align_exception_text(*values: Any) -> str:
    """What an exception made of these values says, as the one text that the interpreter's exceptions take."""
    return str(values[0] if len(values) == 1 else values)


def _align_returned(value: Any, layout: str) -> tuple[str, bool, bool]:
    """Check and cut what `WrapStep` returned, so that little crosses to the host: (observation, claims a win, done)."""
    order = "(observation, done, score)" if layout == "scored" else "(observation, reward, done)"
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        number = " of " + str(len(value)) if isinstance(value, (tuple, list)) else ""
        raise TypeError("WrapStep must return " + order + ", not " + type(value).__name__ + number)
    observation, reward, done = value
    if layout == "scored":
        if type(done).__name__ not in ("int", "float"):
            raise TypeError("WrapStep must return " + order + ": the score is a number, not " + type(done).__name__)
        reward, done = done >= 100, reward
    if not isinstance(observation, str):
        raise TypeError("WrapStep must return its observation as str, not " + type(observation).__name__)
    return observation[:_ALIGN_TEXT], _align_claims(reward), _align_claims(done)


def _align_claims(value: Any) -> bool:
    """What a flag says; the batched call gives it in a list of one, and a reward below 0 claims nothing."""
    if isinstance(value, bool):
        return value
    value = value[0] if type(value).__name__ in ("list", "tuple") and len(value) == 1 else value
    return value > 0 if type(value).__name__ in ("int", "float") else bool(value)


def _align_rules(value: Any) -> str:
    """Check and cut what `InferRules` returned."""
    if not isinstance(value, str):
        raise TypeError("InferRules must return str, not " + type(value).__name__)
    return value[:_ALIGN_TEXT]


# ---------------------------------------------------------------- builtins that the interpreter lacks


def _align_callable(value: Any) -> bool:
    return type(value).__name__ in ("function", "builtin_function_or_method", "type") or hasattr(value, "__call__")  # noqa: B004


class _AlignObject:
    """`object()` as a sentinel."""


callable = _align_callable
object = _AlignObject
IOError = OSError
EnvironmentError = OSError
