"""Runs inside the sandbox after `prelude.py`: stand-ins for modules that interface code imports.

The interpreter lacks these modules, or names of theirs that interface code uses; imports of them become look-ups here
(`source.py`, whose `STOOD_IN` lists them). Nothing imports this file. Only what interface code was seen to use
is here.
"""

import collections as _align_collections
import functools as _align_functools
import re as _align_re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from align_echo.sandbox.prelude import _AlignLogger


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


class _AlignStringIO:
    """`io.StringIO`, as a place to collect text."""

    def __init__(self, text: str = "", newline: Any = None) -> None:
        self._text = text
        self._place = 0

    def write(self, text: str) -> int:
        self._text = self._text[: self._place] + text + self._text[self._place + len(text) :]
        self._place += len(text)
        return len(text)

    def read(self) -> str:
        rest = self._text[self._place :]
        self._place = len(self._text)
        return rest

    def getvalue(self) -> str:
        return self._text

    def seek(self, place: int) -> int:
        self._place = place
        return place

    def truncate(self, size: Any = None) -> int:
        self._text = self._text[: self._place if size is None else size]
        return len(self._text)

    def close(self) -> None:
        """There is nothing to give back."""


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


_ALIGN_PATTERNS: dict[tuple[str, int], Any] = {}


def _align_re_compile(pattern: Any, flags: int = 0) -> Any:
    """`re.compile` with the cache that Python has and the interpreter lacks (compiling costs 0.1 ms)."""
    if not isinstance(pattern, str):
        return pattern
    compiled = _ALIGN_PATTERNS.get((pattern, flags))
    if compiled is None:
        if len(_ALIGN_PATTERNS) >= 256:
            _ALIGN_PATTERNS.clear()
        compiled = _align_re.compile(pattern, flags)
        _ALIGN_PATTERNS[(pattern, flags)] = compiled
    return compiled


def _align_re_match(pattern: Any, text: str, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).match(text)


def _align_re_fullmatch(pattern: Any, text: str, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).fullmatch(text)


def _align_re_search(pattern: Any, text: str, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).search(text)


def _align_re_findall(pattern: Any, text: str, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).findall(text)


def _align_re_finditer(pattern: Any, text: str, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).finditer(text)


def _align_re_split(pattern: Any, text: str, maxsplit: int = 0, flags: int = 0) -> Any:
    return _align_re_compile(pattern, flags).split(text, maxsplit)


def _align_re_sub(pattern: Any, repl: Any, text: str, count: int = 0, flags: int = 0) -> Any:
    compiled = _align_re_compile(pattern, flags)
    if isinstance(repl, str):
        return compiled.sub(repl, text, count)
    parts: list[str] = []
    end = 0
    for number, match in enumerate(compiled.finditer(text)):
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

    re_members: dict[str, Any] = {
        "compile": _align_re_compile, "match": _align_re_match, "fullmatch": _align_re_fullmatch,
        "search": _align_re_search, "findall": _align_re_findall, "finditer": _align_re_finditer,
        "split": _align_re_split, "sub": _align_re_sub,
    }  # fmt: skip
    for name in [
        "escape",
        "error",
        "Pattern",
        "Match",
        "I",
        "IGNORECASE",
        "M",
        "MULTILINE",
        "S",
        "DOTALL",
        "A",
        "ASCII",
    ]:
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
        "io": _AlignModule("io", {"StringIO": _AlignStringIO}),
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
