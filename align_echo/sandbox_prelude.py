"""Runs inside the sandbox before interface code: its `env` and `logger`, and stand-ins for modules not there.

Nothing imports this file: its text is sent to the interpreter (`sandbox.py`), and imports of the modules in
`_ALIGN_MODULES` are turned into look-ups here (`sandbox_source.py`). It keeps to what that interpreter runs: no
inheritance, no `del`, no `yield`, no attributes on functions. All names start with `_align_` so that interface code
does not meet them by chance; if it meddles with them on purpose it only spoils its own text: what counts (engine
calls, reward, the end of the episode) is judged outside.
"""

import collections as _align_collections
import functools as _align_functools
import re as _align_re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def _align_engine(action: str) -> tuple[str, float, bool, bool, float]:
        """Served by the host: observation, reward, done, won, score."""
        raise NotImplementedError


_ALIGN_TEXT = 20_000
_ALIGN_LOG_LINE = 2_000


# ---------------------------------------------------------------- env and logger


class _AlignBatchedEnv:
    """`step([action]) -> ([observation], [reward], [done], {"won": [won]})`, and free attributes."""

    def step(self, actions: list[str]) -> tuple[list[str], list[float], list[bool], dict[str, list[bool]]]:
        if not isinstance(actions, (list, tuple)) or len(actions) != 1 or not isinstance(actions[0], str):
            raise TypeError("env.step takes a list with one action: env.step([action])")
        observation, reward, done, won, _score = _align_engine(actions[0])
        return [observation], [reward], [done], {"won": [won]}


class _AlignSingleEnv:
    """`step(action) -> (observation, reward, done, {"won": won, "score": score})`, and free attributes."""

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        if not isinstance(action, str):
            raise TypeError("env.step takes one action as text: env.step(action)")
        observation, reward, done, won, score = _align_engine(action)
        return observation, reward, done, {"won": won, "score": score}


def _align_log(level: str, message: Any, args: tuple[Any, ...]) -> None:
    text = str(message)
    if args:
        try:
            text = text % args
        except (TypeError, ValueError):
            text = text + " " + repr(args)
    print("\x1e" + level + "\x1f" + text[:_ALIGN_LOG_LINE], end="")


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


def _align_returned(value: Any) -> tuple[str, bool, bool]:
    """Check and cut what `WrapStep` returned, so that little crosses to the host."""
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError("WrapStep must return (observation, reward, done), not " + type(value).__name__)
    observation, reward, done = value
    if not isinstance(observation, str):
        raise TypeError("WrapStep must return its observation as str, not " + type(observation).__name__)
    return observation[:_ALIGN_TEXT], bool(reward), bool(done)


def _align_rules(value: Any) -> str:
    """Check and cut what `InferRules` returned."""
    if not isinstance(value, str):
        raise TypeError("InferRules must return str, not " + type(value).__name__)
    return value[:_ALIGN_TEXT]


# ---------------------------------------------------------------- modules


class _AlignModule:
    """A module object."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        for key in members:
            setattr(self, key, members[key])
        self.__name__ = name


class _AlignType:
    """Any name of `typing`: can be subscripted, called and combined with `|`; annotations are never evaluated."""

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self


class _AlignHandler:
    """A logging handler or formatter that does nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.level = 0

    def setLevel(self, level: Any) -> None:
        """Ignored."""

    def setFormatter(self, formatter: Any) -> None:
        """Ignored."""


def _align_ignore(*args: Any, **options: Any) -> None:
    """Accepts anything, does nothing."""


def _align_same(value: Any) -> Any:
    return value


def _align_cast(kind: Any, value: Any) -> Any:
    return value


def _align_named_tuple(name: str, fields: list[tuple[str, Any]]) -> Any:
    return _align_collections.namedtuple(name, [field[0] for field in fields])


def _align_wraps(wrapped: Any) -> Any:
    return _align_same


def _align_literal_eval(text: str) -> Any:
    try:
        return eval(text.strip(), {})
    except Exception as error:
        raise ValueError("malformed node or string: " + text[:80]) from error


def _align_re_sub(pattern: Any, repl: Any, text: str, count: int = 0, flags: int = 0) -> str:
    if isinstance(repl, str):
        return _align_re.sub(pattern, repl, text, count=count, flags=flags)
    parts: list[str] = []
    end = 0
    for number, match in enumerate(_align_re.finditer(pattern, text, flags)):
        if count and number >= count:
            break
        parts.append(text[end : match.start()])
        parts.append(repl(match))
        end = match.end()
    return "".join([*parts, text[end:]])


def _align_item_getter(*keys: Any) -> Any:
    return lambda value: value[keys[0]] if len(keys) == 1 else tuple([value[key] for key in keys])


def _align_attribute_getter(name: str) -> Any:
    return lambda value: getattr(value, name)


def _align_dedent(text: str) -> str:
    lines = text.split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins) if margins else 0
    return "\n".join([line[margin:] if line.strip() else "" for line in lines])


def _align_indent(text: str, prefix: str) -> str:
    return "\n".join([prefix + line if line.strip() else line for line in text.split("\n")])


def _align_capwords(text: str) -> str:
    return " ".join([word.capitalize() for word in text.split()])


def _align_format_exc() -> str:
    return "(no traceback in the sandbox)"


def _align_matching(a: str, b: str) -> int:
    """Characters in the longest common block, and so on to its left and right (Ratcliff and Obershelp)."""
    best, best_i, best_j = 0, 0, 0
    previous: dict[int, int] = {}
    for i, letter in enumerate(a):
        current: dict[int, int] = {}
        for j, other in enumerate(b):
            if letter == other:
                length = previous.get(j - 1, 0) + 1
                current[j] = length
                if length > best:
                    best, best_i, best_j = length, i - length + 1, j - length + 1
        previous = current
    if not best:
        return 0
    left = _align_matching(a[:best_i], b[:best_j])
    return best + left + _align_matching(a[best_i + best :], b[best_j + best :])


class _AlignSequenceMatcher:
    """`difflib.SequenceMatcher` over text, as far as `ratio()`; no junk heuristics."""

    def __init__(self, isjunk: Any = None, a: str = "", b: str = "") -> None:
        self.a = a
        self.b = b

    def ratio(self) -> float:
        total = len(self.a) + len(self.b)
        return 2.0 * _align_matching(self.a, self.b) / total if total else 1.0


def _align_close_matches(word: str, possibilities: Any, n: int = 3, cutoff: float = 0.6) -> list[str]:
    scored = [(_AlignSequenceMatcher(None, other, word).ratio(), other) for other in possibilities]
    return [other for score, other in sorted(scored, reverse=True) if score >= cutoff][:n]


def _align_modules() -> dict[str, Any]:
    any_type = _AlignType()
    typing_names = (
        "Any AnyStr Annotated Callable ClassVar Collection Container Counter DefaultDict Deque Dict Final FrozenSet "
        "Generator Generic Hashable Iterable Iterator List Literal Mapping Match MutableMapping NoReturn Optional "
        "OrderedDict ParamSpec Pattern Protocol Reversible Self Sequence Set Sized SupportsFloat SupportsInt Text "
        "Tuple Type TypeAlias TypeVar TypedDict Union MutableSequence MutableSet AbstractSet"
    )
    typing_members: dict[str, Any] = dict.fromkeys(typing_names.split(), any_type)
    typing_members["TYPE_CHECKING"] = False
    typing_members["NamedTuple"] = _align_named_tuple
    typing_members["cast"] = _align_cast
    for name in ["overload", "final", "runtime_checkable", "no_type_check"]:
        typing_members[name] = _align_same
    typing_module = _AlignModule("typing", typing_members)

    logger = _AlignLogger()
    logging_members: dict[str, Any] = {
        "NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "WARN": 30, "ERROR": 40, "CRITICAL": 50,
        "Logger": _AlignLogger, "getLogger": _AlignLogger, "root": logger, "basicConfig": _align_ignore,
        "disable": _align_ignore, "Handler": _AlignHandler, "StreamHandler": _AlignHandler,
        "FileHandler": _AlignHandler, "NullHandler": _AlignHandler, "Formatter": _AlignHandler,
        "debug": logger.debug, "info": logger.info, "warning": logger.warning, "error": logger.error,
        "exception": logger.exception, "critical": logger.critical,
    }  # fmt: skip

    lower = "abcdefghijklmnopqrstuvwxyz"
    punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    string_members: dict[str, Any] = {
        "ascii_lowercase": lower, "ascii_uppercase": lower.upper(), "ascii_letters": lower + lower.upper(),
        "digits": "0123456789", "hexdigits": "0123456789abcdefABCDEF", "octdigits": "01234567",
        "punctuation": punctuation, "whitespace": " \t\n\r\x0b\x0c", "capwords": _align_capwords,
        "printable": "0123456789" + lower + lower.upper() + punctuation + " \t\n\r\x0b\x0c",
    }  # fmt: skip

    re_members: dict[str, Any] = {"sub": _align_re_sub, "error": _align_re.error}
    for name in [
        "compile", "match", "fullmatch", "search", "findall", "finditer", "split", "escape", "Pattern", "Match",
        "I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "A", "ASCII",
    ]:  # fmt: skip
        re_members[name] = getattr(_align_re, name)

    collections_members: dict[str, Any] = {
        "deque": _align_collections.deque, "Counter": _align_collections.Counter, "OrderedDict": dict,
        "defaultdict": _align_collections.defaultdict, "namedtuple": _align_collections.namedtuple,
        "abc": typing_module,
    }  # fmt: skip
    functools_members: dict[str, Any] = {
        "partial": _align_functools.partial, "reduce": _align_functools.reduce, "wraps": _align_wraps,
        "lru_cache": _align_functools.lru_cache, "cache": _align_functools.cache,
    }  # fmt: skip
    return {
        "typing": typing_module,
        "typing_extensions": typing_module,
        "collections.abc": typing_module,
        "logging": _AlignModule("logging", logging_members),
        "string": _AlignModule("string", string_members),
        "re": _AlignModule("re", re_members),
        "collections": _AlignModule("collections", collections_members),
        "functools": _AlignModule("functools", functools_members),
        "ast": _AlignModule("ast", {"literal_eval": _align_literal_eval}),
        "operator": _AlignModule("operator", {"itemgetter": _align_item_getter, "attrgetter": _align_attribute_getter}),
        "textwrap": _AlignModule("textwrap", {"dedent": _align_dedent, "indent": _align_indent}),
        "traceback": _AlignModule("traceback", {"format_exc": _align_format_exc, "print_exc": _align_ignore}),
        "difflib": _AlignModule(
            "difflib", {"get_close_matches": _align_close_matches, "SequenceMatcher": _AlignSequenceMatcher}
        ),
    }


_ALIGN_MODULES = _align_modules()


def _align_import(name: str) -> Any:
    return _ALIGN_MODULES[name]


def _align_import_from(module: str, name: str) -> Any:
    try:
        return getattr(_ALIGN_MODULES[module], name)
    except AttributeError as error:
        raise ImportError("cannot import name '" + name + "' from '" + module + "' in the sandbox") from error


# ---------------------------------------------------------------- builtins that the interpreter lacks


def _align_callable(value: Any) -> bool:
    return type(value).__name__ in ("function", "builtin_function_or_method", "type") or hasattr(value, "__call__")  # noqa: B004


class _AlignObject:
    """`object()` as a sentinel."""


callable = _align_callable
object = _AlignObject
IOError = OSError
EnvironmentError = OSError
