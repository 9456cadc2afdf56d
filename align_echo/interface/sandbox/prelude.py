"""Runs inside the sandbox before interface code: its `env` and `logger`, and helpers for rewritten source.

Nothing imports this file: its text is sent to the interpreter (`session.py`), followed by that of `stdlib.py`. Both
use only what the interpreter supports: no inheritance, no `del`, no `yield`, no attributes on functions. All names
start with `_align_` to avoid collisions with interface code. Code that changes them on purpose only spoils its own
text: everything that counts (engine calls, reward, the end of the episode) is judged outside.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Reply = tuple[str, float, bool, bool, float]

    def _align_engine(action: str) -> _Reply:
        """Ask the host for one engine call: observation, reward, done, won, score."""
        raise NotImplementedError

    def _align_engine_together(*actions: str) -> list[_Reply | str]:
        """Ask the host for one reply per action; after a refusal, the last entry is its message."""
        raise NotImplementedError

    def _align_explain(action: str, observation: str, shown: str, *rules: Any) -> str:
        """Ask the host for a text with what the rules say of an answer."""
        raise NotImplementedError


_ALIGN_TEXT = 20_000
_ALIGN_LOG_LINE = 2_000


# ---------------------------------------------------------------- env and logger


_align_sent: list[Any] = []


def _align_explained(rules: Any, action: Any, observation: Any, shown: Any) -> str:
    """Return an observation with what rules say of it. The host is sent the rules once.

    `shown` is what the interface shows in its place already; then rules speak where it adds nothing, and of wordings.
    """
    shown = observation if shown is None else shown
    if not (isinstance(action, str) and isinstance(observation, str) and isinstance(shown, str)):
        raise TypeError("env.explain takes rules, an action and an observation: env.explain(RULES, action, text)")
    if _align_sent and _align_sent[0] is rules:
        return _align_explain(action, observation, shown)
    _align_sent.clear()
    _align_sent.append(rules)
    return _align_explain(action, observation, shown, rules)


class _AlignBatchedEnv:
    """`step([action]) -> ([observation], [reward], [done], {"won": [won]})`, and free attributes."""

    def explain(self, rules: Any, action: str, observation: str, shown: Any = None) -> str:
        return _align_explained(rules, action, observation, shown)

    def step(
        self, actions: list[str], _align_reply: _Reply | None = None
    ) -> tuple[list[str], list[float], list[bool], dict[str, list[bool]]]:
        if not isinstance(actions, (list, tuple)) or len(actions) != 1 or not isinstance(actions[0], str):
            raise TypeError("env.step takes a list with one action: env.step([action])")
        observation, reward, done, won, _score = _align_reply or _align_engine(actions[0])
        return [observation], [reward], [done], {"won": [won]}


class _AlignSingleEnv:
    """`step(action) -> (observation, reward, done, {"won": won, "score": 0 to 100})`, and free attributes."""

    def explain(self, rules: Any, action: str, observation: str, shown: Any = None) -> str:
        return _align_explained(rules, action, observation, shown)

    def step(self, action: str, _align_reply: _Reply | None = None) -> tuple[str, float, bool, dict[str, Any]]:
        if not isinstance(action, str):
            raise TypeError("env.step takes one action as text: env.step(action)")
        observation, reward, done, won, score = _align_reply or _align_engine(action)
        return observation, reward, done, {"won": won, "score": round(100 * score)}


class _AlignTripleEnv:
    """`step(action) -> (observation, reward, done)`, and free attributes."""

    def explain(self, rules: Any, action: str, observation: str, shown: Any = None) -> str:
        return _align_explained(rules, action, observation, shown)

    def step(self, action: str, _align_reply: _Reply | None = None) -> tuple[str, float, bool]:
        if not isinstance(action, str):
            raise TypeError("env.step takes one action as text: env.step(action)")
        observation, reward, done, _won, _score = _align_reply or _align_engine(action)
        return observation, reward, done


_align_replies: list[_Reply | str] = []


def _align_asked(env: Any, actions: Any) -> list[Any]:
    """List the actions and ask the engine for all of them in one call; `_align_told` returns the replies."""
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
    """Return the result of `env.step(action)`, using the next reply of a joint request if there is one."""
    if not _align_replies:
        return env.step(action)
    reply = _align_replies.pop(0)
    if isinstance(reply, str):
        raise PermissionError(reply)
    return env.step(action, reply)


def _align_log(level: str, message: Any, args: tuple[Any, ...]) -> str:
    text = str(message)
    if args:
        try:
            text = text % (args[0] if len(args) == 1 and isinstance(args[0], dict) else args)
        except (TypeError, ValueError, KeyError):
            text = text + " " + repr(args)
    print("\x1e" + level + "\x1f" + text[:_ALIGN_LOG_LINE].replace("\x1e", "") + "\x1e", end="")
    return text


_ALIGN_LEVELS: dict[int, str] = {0: "NOTSET", 10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


def _align_level(level: Any) -> Any:
    """Return a level as a number; it may be a name."""
    for number in _ALIGN_LEVELS:
        if level == _ALIGN_LEVELS[number]:
            return number
    if isinstance(level, str):
        raise ValueError("Unknown level: " + repr(level))
    return level


class _AlignRecord:
    """A `logging.LogRecord` with complete text, without source location and time."""

    def __init__(
        self, name: str, level: int, pathname: str, lineno: int, msg: Any, args: Any, exc_info: Any, func: Any = None,
        sinfo: Any = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.levelno = level
        self.levelname = _ALIGN_LEVELS.get(level, "Level " + str(level))
        self.msg = msg
        self.args = args
        self.message = str(msg)
        self.asctime = "2000-01-01 00:00:00,000"
        self.pathname = self.filename = self.module = "interface"
        self.funcName = func
        self.lineno = lineno
        self.created = self.msecs = self.relativeCreated = 0.0
        self.thread = self.process = 0
        self.threadName = "MainThread"
        self.processName = "MainProcess"
        self.exc_info = exc_info
        self.exc_text = None
        self.stack_info = sinfo

    def getMessage(self) -> str:
        text = str(self.msg)
        return text % self.args if self.args else text


class _AlignHandler:
    """A `logging.Handler`. It writes only into a text buffer passed to it."""

    def __init__(self, stream: Any = None, *args: Any, **options: Any) -> None:
        self.stream = stream
        self.terminator = "\n"
        self.name: Any = None
        self.level: Any = stream if isinstance(stream, int) else 0
        self.formatter: Any = None
        self.filters: list[Any] = []
        self.lock: Any = None

    def handle(self, record: Any) -> bool:
        passes = _align_passes(self.filters, record)
        if passes:
            self.emit(record)
        return passes

    def emit(self, record: Any) -> None:
        if type(self.stream).__name__ == "_AlignStringIO":
            self.stream.write(self.format(record) + self.terminator)

    def format(self, record: Any) -> str:
        text: str = record.getMessage() if self.formatter is None else self.formatter.format(record)
        return text

    def setLevel(self, level: Any) -> None:
        self.level = _align_level(level)

    def setFormatter(self, fmt: Any) -> None:
        self.formatter = fmt

    def setStream(self, stream: Any) -> Any:
        before, self.stream = self.stream, stream
        return before

    def addFilter(self, filter: Any) -> None:
        self.filters.append(filter)

    def removeFilter(self, filter: Any) -> None:
        if filter in self.filters:
            self.filters.remove(filter)

    def filter(self, record: Any) -> bool:
        return _align_passes(self.filters, record)

    def get_name(self) -> Any:
        return self.name

    def set_name(self, name: Any) -> None:
        self.name = name

    def createLock(self) -> None:
        """Do nothing: there is one thread."""

    def acquire(self) -> None:
        """Do nothing: there is one thread."""

    def release(self) -> None:
        """Do nothing: there is one thread."""

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def handleError(self, record: Any) -> None:
        """Do nothing: errors belong to the interface."""


class _AlignLogger:
    """A `logging.Logger`. Every line goes to the wrapper's log, regardless of levels, handlers and filters; handlers
    get the same lines as in Python.
    """

    def __init__(self, name: str, level: Any = 0) -> None:
        self.name = name
        self.level = _align_level(level)
        self.parent: Any = None
        self.propagate = True
        self.handlers: list[Any] = []
        self.filters: list[Any] = []
        self.disabled = False
        self.root: Any = None
        self.manager: Any = None

    def debug(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self._hand_on(10, _align_log("debug", msg, args), kwargs)

    def info(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self._hand_on(20, _align_log("info", msg, args), kwargs)

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self._hand_on(30, _align_log("warning", msg, args), kwargs)

    def warn(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.warning(msg, *args, **kwargs)

    def error(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self._hand_on(40, _align_log("error", msg, args), kwargs)

    def exception(self, msg: Any, *args: Any, exc_info: Any = True, **kwargs: Any) -> None:
        self.error(msg, *args, **kwargs)

    def critical(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self._hand_on(50, _align_log("error", msg, args), kwargs)

    def fatal(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.critical(msg, *args, **kwargs)

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        word = "debug" if level < 20 else "info" if level < 30 else "warning" if level < 40 else "error"
        self._hand_on(level, _align_log(word, msg, args), kwargs)

    def _hand_on(self, level: int, text: str, options: dict[str, Any]) -> None:
        """Pass a line to the handlers."""
        if self.hasHandlers() and level >= self.getEffectiveLevel() and not self.disabled:
            record = self.makeRecord(self.name, level, "interface", 0, text, (), None, extra=options.get("extra"))
            self.handle(record)

    def handle(self, record: Any) -> None:
        if self.filter(record):
            self.callHandlers(record)

    def callHandlers(self, record: Any) -> None:
        holder: Any = self
        while holder is not None:
            for handler in holder.handlers:
                if hasattr(handler, "handle") and record.levelno >= getattr(handler, "level", 0):
                    handler.handle(record)
            holder = holder.parent if holder.propagate else None

    def makeRecord(
        self, name: str, level: int, fn: str, lno: int, msg: Any, args: Any, exc_info: Any, func: Any = None,
        extra: Any = None, sinfo: Any = None,
    ) -> Any:  # fmt: skip
        record = _AlignRecord(name, level, fn, lno, msg, args, exc_info, func, sinfo)
        for key in extra or {}:
            setattr(record, key, extra[key])
        return record

    def findCaller(self, stack_info: bool = False, stacklevel: int = 1) -> tuple[str, int, str, Any]:
        return "interface", 0, "(unknown function)", None

    def setLevel(self, level: Any) -> None:
        """Set the value of `level` and the handlers' threshold; the wrapper's log still gets every line."""
        self.level = _align_level(level)

    def getEffectiveLevel(self) -> Any:
        holder: Any = self
        while holder is not None and not holder.level:
            holder = holder.parent
        return 0 if holder is None else holder.level

    def isEnabledFor(self, level: Any) -> bool:
        return True

    def addHandler(self, hdlr: Any) -> None:
        if hdlr not in self.handlers:
            self.handlers.append(hdlr)

    def removeHandler(self, hdlr: Any) -> None:
        if hdlr in self.handlers:
            self.handlers.remove(hdlr)

    def hasHandlers(self) -> bool:
        holder: Any = self
        while holder is not None:
            if holder.handlers:
                return True
            holder = holder.parent if holder.propagate else None
        return False

    def addFilter(self, filter: Any) -> None:
        if filter not in self.filters:
            self.filters.append(filter)

    def removeFilter(self, filter: Any) -> None:
        if filter in self.filters:
            self.filters.remove(filter)

    def filter(self, record: Any) -> bool:
        return _align_passes(self.filters, record)

    def getChild(self, suffix: str) -> Any:
        return _align_logger_named(suffix if self is _align_root else self.name + "." + suffix)

    def getChildren(self) -> set[Any]:
        return {known for known in _align_loggers.values() if known.parent is self}


def _align_passes(filters: list[Any], record: Any) -> bool:
    """Return True if all filters, functions or objects with a method, accept a record."""
    for item in filters:
        test = item.filter if hasattr(item, "filter") else item
        if not test(record):
            return False
    return True


_align_root = _AlignLogger("root", 30)
_align_loggers: dict[str, Any] = {}


def _align_logger_named(name: Any = None) -> Any:
    """Return the logger of a name, creating it on first use, as `logging.getLogger` does."""
    if not name or name == "root":
        return _align_root
    if name not in _align_loggers:
        logger = _AlignLogger(name)
        parent, _, _ = name.rpartition(".")
        logger.parent = _align_logger_named(parent)
        logger.root = _align_root
        logger.manager = _align_manager
        _align_loggers[name] = logger
    return _align_loggers[name]


class _AlignManager:
    """The used parts of Python's `logger.manager`."""

    def __init__(self) -> None:
        self.root = _align_root
        self.disable = 0
        self.loggerDict = _align_loggers

    def getLogger(self, name: str) -> Any:
        return _align_logger_named(name)


_align_manager = _AlignManager()
_align_root.root = _align_root
_align_root.manager = _align_manager
_align_logger = _AlignLogger("interface", 10)
_align_logger.handlers = [_AlignHandler()]
_align_logger.propagate = False
_align_logger.parent = _align_logger.root = _align_root
_align_logger.manager = _align_manager


# ---------------------------------------------------------------- helpers for rewritten source


class _AlignFunction:
    """A function with attributes."""

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


class _AlignProperty:
    """Replacement of a property in a class."""

    def __init__(self, read: Any) -> None:
        self._align_get = read


def _align_read(owner: Any, name: str) -> Any:
    """Return the attribute of an object; call it if it is a property."""
    value = getattr(owner, name)
    return value._align_get(owner) if isinstance(value, _AlignProperty) else value


class _AlignDeleted:
    """Value of a name after `del`: any use of it fails."""


_align_deleted = _AlignDeleted()


def _align_delete_item(container: Any, key: Any) -> None:
    if isinstance(key, slice):
        container[key] = []
    else:
        container.pop(key)


def _align_exception_text(*values: Any) -> str:
    """Return the single text for an exception made of these values, as the interpreter requires."""
    return str(values[0] if len(values) == 1 else values)


def _align_returned(value: Any, layout: str) -> tuple[str, bool, bool]:
    """Validate and trim the result of `WrapStep` to limit data to the host: (observation, claims a win, done)."""
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
    """Convert a flag to bool. The batched layout wraps it in a list; a negative reward claims nothing."""
    if isinstance(value, bool):
        return value
    value = value[0] if type(value).__name__ in ("list", "tuple") and len(value) == 1 else value
    return value > 0 if type(value).__name__ in ("int", "float") else bool(value)


def _align_rules(value: Any) -> str:
    """Validate and trim the result of `InferRules`."""
    if not isinstance(value, str):
        raise TypeError("InferRules must return str, not " + type(value).__name__)
    return value[:_ALIGN_TEXT]


# ---------------------------------------------------------------- missing builtins


def _align_callable(value: Any) -> bool:
    return type(value).__name__ in ("function", "builtin_function_or_method", "type") or hasattr(value, "__call__")  # noqa: B004


class _AlignObject:
    """`object()` as a sentinel."""


callable = _align_callable
object = _AlignObject
IOError = OSError
EnvironmentError = OSError
