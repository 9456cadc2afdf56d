"""Runs inside the sandbox after `prelude.py`: replacements for modules imported by interface code.

The interpreter lacks these modules, or names that interface code uses; imports of them become look-ups here
(`source.py`; listed in its `STOOD_IN`). Nothing imports this file. Only names seen in interface code are covered. The
beginning always runs; a part under a line of dashes runs only for source that imports one of the modules named in that
line (`loading.py`).
"""

import collections as _align_collections
import functools as _align_functools
import re as _align_re
from typing import Any


class _AlignModule:
    """A module object."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        for key in members:
            setattr(self, key, members[key])
        self.__name__ = name


_ALIGN_MODULES: dict[str, Any] = {}


def _align_import(name: str) -> Any:
    return _ALIGN_MODULES[name]


def _align_import_from(module: str, name: str) -> Any:
    try:
        return getattr(_ALIGN_MODULES[module], name)
    except AttributeError as error:
        raise ImportError("cannot import name '" + name + "' from '" + module + "' in the sandbox") from error


def _align_ignore(*args: Any, **options: Any) -> None:
    """Accept any arguments and do nothing."""


def _align_same(value: Any) -> Any:
    return value


# ------------------------------------------------ typing, typing_extensions, collections.abc, collections


class _AlignType:
    """Any name of `typing`: can be subscripted, called and combined with `|`; annotations are never evaluated."""

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, right: Any) -> Any:
        return self

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self


def _align_cast(kind: Any, value: Any) -> Any:
    return value


def _align_named_tuple(name: str, fields: list[tuple[str, Any]]) -> Any:
    return _align_collections.namedtuple(name, [field[0] for field in fields])


def _align_typing() -> Any:
    any_type = _AlignType()
    names = (
        "Any AnyStr Annotated Callable ClassVar Collection Container Counter DefaultDict Deque Dict Final FrozenSet "
        "Generator Generic Hashable Iterable Iterator List Literal Mapping Match MutableMapping NoReturn Optional "
        "OrderedDict ParamSpec Pattern Protocol Reversible Self Sequence Set Sized SupportsFloat SupportsInt Text "
        "Tuple Type TypeAlias TypeVar TypedDict Union MutableSequence MutableSet AbstractSet"
    )
    members: dict[str, Any] = dict.fromkeys(names.split(), any_type)
    members["TYPE_CHECKING"] = False
    members["NamedTuple"] = _align_named_tuple
    members["cast"] = _align_cast
    for name in ["overload", "final", "runtime_checkable", "no_type_check"]:
        members[name] = _align_same
    return _AlignModule("typing", members)


for _align_name in ["typing", "typing_extensions", "collections.abc"]:
    _ALIGN_MODULES[_align_name] = _ALIGN_MODULES.get("typing") or _align_typing()


# ---------------------------------------------------------------- string


def _align_capwords(text: str) -> str:
    return " ".join([word.capitalize() for word in text.split()])


_align_lower = "abcdefghijklmnopqrstuvwxyz"
_align_punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ALIGN_MODULES["string"] = _AlignModule("string", {
    "ascii_lowercase": _align_lower, "ascii_uppercase": _align_lower.upper(),
    "ascii_letters": _align_lower + _align_lower.upper(),
    "digits": "0123456789", "hexdigits": "0123456789abcdefABCDEF", "octdigits": "01234567",
    "punctuation": _align_punctuation, "whitespace": " \t\n\r\x0b\x0c", "capwords": _align_capwords,
    "printable": "0123456789" + _align_lower + _align_lower.upper() + _align_punctuation + " \t\n\r\x0b\x0c",
})  # fmt: skip


# ---------------------------------------------------------------- re


_ALIGN_PATTERNS: dict[tuple[str, int], Any] = {}


def _align_re_compile(pattern: Any, flags: int = 0) -> Any:
    """Compile as `re.compile` does, with Python's cache, which the interpreter lacks (compiling costs 0.1 ms)."""
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
    for match in compiled.finditer(text) if count >= 0 else []:
        start, stop = match.span()
        parts.append(text[end:start])
        parts.append(repl(match))
        end = stop
        count -= 1
        if not count:
            break
    parts.append(text[end:])
    return "".join(parts)


_align_re_members: dict[str, Any] = {
    "compile": _align_re_compile, "match": _align_re_match, "fullmatch": _align_re_fullmatch,
    "search": _align_re_search, "findall": _align_re_findall, "finditer": _align_re_finditer,
    "split": _align_re_split, "sub": _align_re_sub,
}  # fmt: skip
for _align_name in [
    *["escape", "error", "Pattern", "Match"],
    *["I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "A", "ASCII"],
]:
    _align_re_members[_align_name] = getattr(_align_re, _align_name)
_ALIGN_MODULES["re"] = _AlignModule("re", _align_re_members)


# ---------------------------------------------------------------- collections


_ALIGN_MODULES["collections"] = _AlignModule("collections", {
    "deque": _align_collections.deque, "Counter": _align_collections.Counter, "OrderedDict": dict,
    "defaultdict": _align_collections.defaultdict, "namedtuple": _align_collections.namedtuple,
    "abc": _ALIGN_MODULES["collections.abc"],
})  # fmt: skip


# ---------------------------------------------------------------- functools


def _align_wraps(wrapped: Any) -> Any:
    return _align_same


_ALIGN_MODULES["functools"] = _AlignModule("functools", {
    "partial": _align_functools.partial, "reduce": _align_functools.reduce, "wraps": _align_wraps,
    "lru_cache": _align_functools.lru_cache, "cache": _align_functools.cache,
})  # fmt: skip


# ---------------------------------------------------------------- ast


def _align_literal_eval(text: str) -> Any:
    try:
        return eval(text.strip(), {})
    except Exception as error:
        raise ValueError("malformed node or string: " + text[:80]) from error


_ALIGN_MODULES["ast"] = _AlignModule("ast", {"literal_eval": _align_literal_eval})


# ---------------------------------------------------------------- operator


def _align_item_getter(*keys: Any) -> Any:
    return lambda value: value[keys[0]] if len(keys) == 1 else tuple([value[key] for key in keys])


def _align_attribute_getter(name: str) -> Any:
    return lambda value: getattr(value, name)


_ALIGN_MODULES["operator"] = _AlignModule(
    "operator", {"itemgetter": _align_item_getter, "attrgetter": _align_attribute_getter}
)


# ---------------------------------------------------------------- textwrap


def _align_dedent(text: str) -> str:
    lines = text.split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins) if margins else 0
    return "\n".join([line[margin:] if line.strip() else "" for line in lines])


def _align_indent(text: str, prefix: str) -> str:
    return "\n".join([prefix + line if line.strip() else line for line in text.split("\n")])


_ALIGN_MODULES["textwrap"] = _AlignModule("textwrap", {"dedent": _align_dedent, "indent": _align_indent})


# ---------------------------------------------------------------- io


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

    def seek(self, position: int) -> int:
        self._place = position
        return position

    def truncate(self, size: Any = None) -> int:
        self._text = self._text[: self._place if size is None else size]
        return len(self._text)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


_ALIGN_MODULES["io"] = _AlignModule("io", {"StringIO": _AlignStringIO})


# ---------------------------------------------------------------- traceback


def _align_format_exc() -> str:
    return "(no traceback in the sandbox)"


_ALIGN_MODULES["traceback"] = _AlignModule(
    "traceback", {"format_exc": _align_format_exc, "print_exc": _align_ignore}
)


# ---------------------------------------------------------------- difflib


def _align_matching(a: str, b: str) -> int:
    """Count characters in the longest common block, then in those to its left and right (Ratcliff and Obershelp)."""
    best, best_i, best_j = 0, 0, 0
    previous: dict[int, int] = {}
    for i, letter in enumerate(a):
        current: dict[int, int] = {}
        for j, letter_b in enumerate(b):
            if letter == letter_b:
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
    """`difflib.SequenceMatcher` over text, limited to `ratio()`; no junk heuristics."""

    def __init__(self, isjunk: Any = None, a: str = "", b: str = "") -> None:
        self.a = a
        self.b = b

    def ratio(self) -> float:
        total = len(self.a) + len(self.b)
        return 2.0 * _align_matching(self.a, self.b) / total if total else 1.0


def _align_close_matches(word: str, possibilities: Any, n: int = 3, cutoff: float = 0.6) -> list[str]:
    scored = [(_AlignSequenceMatcher(None, candidate, word).ratio(), candidate) for candidate in possibilities]
    return [candidate for score, candidate in sorted(scored, reverse=True) if score >= cutoff][:n]


_ALIGN_MODULES["difflib"] = _AlignModule(
    "difflib", {"get_close_matches": _align_close_matches, "SequenceMatcher": _AlignSequenceMatcher}
)
