"""Actions as trees: a form and typed arguments, read from plain text, brackets or JSON tool calls.

A form is a text with slots ("take {0} from {1}", "[{0} {1}]") or a tool with named arguments. An action in another
wording (an article too many, upper case, quotes around it) is read as the same tree, and `Reading.exact` is False.

Not here: which actions an environment accepts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue, field_validator

from align_echo.base.commands import SMALL_WORDS
from align_echo.types import Frozen

Say = Annotated[str, Field(max_length=2_000)]
"""Template of a message."""

MOST_FORMS = 400
"""Maximum forms of a grammar."""

LONGEST_ACTION = 4_000
"""Maximum characters of an action that is read."""

LONGEST_NAME = 200
"""Maximum characters of a name in a pattern."""

DEEPEST = 20
"""Maximum nesting of a tool call's JSON."""

LONGEST_ALTERNATIVE = 8
"""Maximum words of a form in an action format; longer ones are prose."""

MOST_NAMED = 8
"""Maximum values that a schema names for an argument."""

_QUOTED = re.compile(r"(?<!\w)'([^']{1,60})'(?!\w)")
_EXAMPLE = re.compile(r"\b(?:such as|for example|for instance|like|e\.g\.)[^.]*", re.IGNORECASE)
_SLOT = re.compile(r"\{[^{}]*\}")
_NUMBERED = re.compile(r"\{\d+\}")
_BETWEEN_FORMS = re.compile(r"\|(?![^{}]*\})")
_ARTICLE = re.compile(r"(?<!\w)(?:a|an|the)(?!\w)\s*", re.IGNORECASE)
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_DIGITS = re.compile(r"\d+")
_SPACE = r"\s+"
_BESIDE = re.compile(r"\{\d+\}\s+\{\d+\}")
_CAPITALS = re.compile(r"\b[A-Z]{1,12}\b")
_BRACKETED_NUMBERS = re.compile(r"\[\d+(?: \d+)*\]")
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_CALL_NAMES, _CALL_ARGUMENTS = ("name", "tool", "function"), ("arguments", "args", "parameters", "input")


class Form(Frozen):
    """Form of actions: `text` with slots {0}, {1} ..., or `tool` with the names of its `arguments`.

    `types` holds the declared JSON type of each argument, "" if unknown; `keys` those of the tool and of the arguments
    in a call.
    """

    text: str = ""
    tool: str = ""
    arguments: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    keys: tuple[str, str] = ("name", "arguments")

    @field_validator("text")
    @classmethod
    def _slots_in_order(cls, text: str) -> str:
        numbers = [int(slot[1:-1]) for slot in _NUMBERED.findall(text)]
        if numbers != [*range(len(numbers))]:
            raise ValueError("slots must be numbered in order: {0}, {1} ...")
        return text

    @property
    def name(self) -> str:
        """Name of the form in rules: its text, or its tool."""
        return self.text or self.tool

    @property
    def slots(self) -> int:
        """Number of arguments."""
        return len(self.arguments) if self.tool else len(_NUMBERED.findall(self.text))


class ActionTree(NamedTuple):
    """Action of a form. A missing argument of a tool is None; `extra` holds arguments that the tool does not have."""

    form: str
    arguments: tuple[JsonValue, ...]
    extra: tuple[tuple[str, JsonValue], ...] = ()

    @property
    def key(self) -> str:
        """Text that is equal for equal actions."""
        return json.dumps([self.form, self.arguments, self.extra], sort_keys=True, default=str)

    @property
    def call_names(self) -> tuple[str, ...]:
        """Tool, and the names of arguments that it does not have."""
        return (self.form, *(name for name, _ in self.extra))


class Term(Frozen):
    """Argument of a step: an argument of the action (`slot`), else a constant (`value`).

    With `reads`, the part of the argument that stands for {0} in it; with `text`, that part put into it.

    With `by`, it is a name that belongs to the action's argument. "seen": the latest step of the same form whose answer
    named the argument had it. "beside": it stands nearest to the argument in the latest sentence with both.
    """

    slot: int = -1
    value: JsonValue = None
    reads: str = ""
    text: str = ""
    by: Literal["", "seen", "beside"] = ""

    def of(self, tree: ActionTree) -> JsonValue:
        """Return the value for an action; None if the action has no such argument."""
        value = self.value if self.slot < 0 else tree.arguments[self.slot] if self.slot < len(tree.arguments) else None
        if value is None or not (self.reads or self.text):
            return value
        part = match_text(self.reads or "{0}", text_of(value))
        return None if part is None else fill(self.text or "{0}", part)


class Reading(NamedTuple):
    """Tree of an action; `exact` if the action is the tree's own wording."""

    tree: ActionTree
    exact: bool


class ActionGrammar:
    """Forms of an environment's actions. `read` and `write` are inverse on exact actions.

    `names` part two arguments that stand side by side; a number in a name stands for any.
    """

    def __init__(self, forms: Iterable[Form], names: Iterable[str] = ()) -> None:
        self.forms: dict[str, Form] = {form.name: form for form in [*forms][:MOST_FORMS]}
        beside = any(_BESIDE.search(form.text) for form in self.forms.values())
        self.names = tuple(names) if beside else ()
        name = _cached_pattern(self.names) if self.names else ".+?"
        texts = sorted((form for form in self.forms.values() if form.text), key=_rank)
        self._exact = [(form.name, form_pattern(form.text, name)) for form in texts]
        self._loose = [(form.name, form_pattern(_plain(form.text), name)) for form in texts]
        self._bracketed = bool(texts) and all(_BRACKETS.fullmatch(form.text) for form in texts)
        blank = [form.text for form in texts if _is_blank(form)]
        self._signs = [*dict.fromkeys(f"{text[0]}{{}}{text[-1]}" for text in blank)]
        self._tools = {name.lower(): name for name, form in self.forms.items() if form.tool}

    def read(self, action: str) -> Reading | None:
        """Return the tree of an action; None if it is of no form."""
        text = action.strip()
        if not text or len(text) > LONGEST_ACTION:
            return None
        call = parse_call(text)
        if call is not None:
            return self._read_call(*call)
        for part in dict.fromkeys([text, *self._parts(text)]):
            for name, pattern in self._exact:
                if match := pattern.fullmatch(part):
                    tree = ActionTree(name, tuple(_trimmed(match)))
                    return Reading(tree, self.write(tree) == text)
        for sign in self._signs:
            for name, pattern in self._exact:
                if text[0] != sign[0] and (match := pattern.fullmatch(sign.replace("{}", text))):
                    return Reading(ActionTree(name, tuple(_trimmed(match))), False)
        for part in self._parts(text):
            for name, pattern in self._loose:
                if match := pattern.fullmatch(_plain(part)):
                    return Reading(ActionTree(name, tuple(_original(part, each) for each in _trimmed(match))), False)
        return None

    def write(self, tree: ActionTree) -> str:
        """Return an action's text."""
        form = self.forms[tree.form]
        if form.tool:
            pairs = zip(form.arguments, tree.arguments, strict=True)
            arguments = {name: value for name, value in pairs if value is not None} | dict(tree.extra)
            return json.dumps(dict(zip(form.keys, (form.tool, arguments), strict=True)), ensure_ascii=False)
        return fill(form.text, [text_of(value) for value in tree.arguments])

    def rename(self, tree: ActionTree, form: str) -> ActionTree | None:
        """Return the action with another form for the same arguments; None if their number differs."""
        known = self.forms.get(form)
        if known is None or known.slots != len(tree.arguments):
            return None
        return ActionTree(form, tree.arguments)

    def _parts(self, text: str) -> list[str]:
        if boxed := _BOXED.findall(text):
            return [boxed[-1]]
        if self._bracketed and (groups := _BRACKETS.findall(text)):
            return [groups[-1]]
        return [text]

    def _read_call(self, tool: str, arguments: Mapping[str, JsonValue]) -> Reading | None:
        name = self._tools.get(tool.lower())
        if name is None:
            return None
        form = self.forms[name]
        values = tuple(arguments.get(argument) for argument in form.arguments)
        extra = tuple(sorted((key, value) for key, value in arguments.items() if key not in form.arguments))
        return Reading(ActionTree(name, values, extra), tool == form.tool)


def fill(text: str, values: Sequence[str]) -> str:
    """Fill the slots of a text in order."""
    return re.sub(r"\{(\d+)\}", lambda slot: values[int(slot[1])] if int(slot[1]) < len(values) else slot[0], text)


def match_text(text: str, value: str) -> list[str] | None:
    """Return the parts of a value that stand for a text's slots, in any letter case; None if it reads otherwise."""
    pattern = "(.+)".join(map(re.escape, _NUMBERED.split(text)))
    match = re.fullmatch(pattern, value.strip(), re.IGNORECASE | re.DOTALL)
    return [*match.groups()] if match else None


def text_of(value: JsonValue) -> str:
    """Return an argument as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kind_name(value: JsonValue) -> str:
    """Return the kind of a name: in small letters, any number as 0; "" for what is no text."""
    return _DIGITS.sub("0", value.lower()) if isinstance(value, str) else ""


def shape_name(value: str) -> str:
    """Return the shape of a name: any letters as a, any number as 0, its signs as they are."""
    return re.sub(r"[^\W\d_]+", "a", _DIGITS.sub("0", value))


def parse_call(text: str) -> tuple[str, dict[str, JsonValue]] | None:
    """Return the tool and the arguments of a JSON tool call; None for other text."""
    call = _loaded(text) if text.startswith("{") else None
    if not isinstance(call, dict):
        return None
    inner = call.get("function")
    call = inner if isinstance(inner, dict) else call
    name = next((call[key] for key in _CALL_NAMES if isinstance(call.get(key), str)), None)
    arguments: Any = next((call[key] for key in _CALL_ARGUMENTS if key in call), {})
    if isinstance(arguments, str):
        arguments = _loaded(arguments or "{}")
    return (name, arguments) if name is not None and isinstance(arguments, dict) else None


def call_keys(text: str) -> tuple[str, str]:
    """Return the keys of the tool and of the arguments in a JSON tool call."""
    call = _loaded(text.strip())
    call = {} if not isinstance(call, dict) or isinstance(call.get("function"), dict) else call
    name = next((key for key in _CALL_NAMES if key in call), _CALL_NAMES[0])
    return name, next((key for key in _CALL_ARGUMENTS if key in call), _CALL_ARGUMENTS[0])


def _loaded(text: str) -> Any:
    """Return the value of a JSON text; None for other text, and for a value that cannot be written again."""
    try:
        value = json.loads(text)
        if not is_shallow(value):
            return None
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def is_shallow(value: Any) -> bool:
    """Return True if a value is nested at most `DEEPEST` deep."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        groups = [[*each.values()] if isinstance(each, dict) else each for each in level]
        level = [child for group in groups if isinstance(group, (list, tuple)) for child in group]
        depth += 1
    return not level


# ---------------------------------------------------------------- where forms come from


def declared_forms(action_format: str, tools: Sequence[Mapping[str, Any]] = ()) -> list[Form]:
    """Return the forms in an environment's action format ("go {place} | look") and in its tools' JSON schemas.

    A form ends at "|" or with its line. Prose holds no forms.
    """
    forms = [form for tool in tools if (form := _tool_form(tool)) is not None]
    text, calls = _cut_calls(action_format)
    forms += [
        Form(tool=name.strip(), arguments=tuple(arguments), types=("",) * len(arguments), keys=keys)
        for (names, arguments), keys in calls
        for name in names.split("|")
        if name.strip()
    ]
    several = "|" in text or "{" in text or _BRACKETS.fullmatch(text.strip())
    lines = text.split("\n") if several else []
    for words in (part.strip().strip("`").strip() for line in lines for part in _BETWEEN_FORMS.split(line)):
        blank = _numbered(_placed(_BRACKETED_NUMBERS.sub(lambda shown: re.sub(r"\d+", "{number}", shown[0]), words)))
        if blank and _CUT not in words and len(blank.split()) <= LONGEST_ALTERNATIVE and not blank.endswith((".", ":")):
            forms.append(Form(text=blank))
    return [*{form.name: form for form in reversed(forms)}.values()][::-1]


def _placed(words: str) -> str:
    """Read words in capitals after a first word in small letters as slots: "go to LOC" is "go to {LOC}"."""
    return _CAPITALS.sub(r"{\g<0>}", words) if words[:1].islower() and "{" not in words else words


def _numbered(text: str) -> str:
    """Number the slots of a form."""
    numbers = iter(range(len(text)))
    return _SLOT.sub(lambda _: "{" + str(next(numbers)) + "}", text)


def seen_forms(actions: Iterable[str], known: Iterable[Form] = (), sign: str = "") -> list[Form]:
    """Return the forms of actions that `known` forms do not read: the first word and small words stay, the rest are
    slots.

    Between signs around the action, as in [A C], every word is a slot. `sign` is those that all actions need. A form
    counts if two different actions have it, or if it has no slot; with `sign`, a single action is its own form.
    """
    grammar = ActionGrammar(known)
    tools: dict[str, dict[str, None]] = {}
    keys: dict[str, tuple[str, str]] = {}
    texts: dict[str, set[str]] = {}
    for action in dict.fromkeys(actions):
        if grammar.read(action) is not None or len(action) > LONGEST_ACTION:
            continue
        call = parse_call(action.strip())
        if call is not None:
            tools.setdefault(call[0], {}).update(dict.fromkeys(call[1]))
            keys.setdefault(call[0], call_keys(action))
        elif "{" not in action and len(action.split()) <= 2 * LONGEST_ALTERNATIVE:
            texts.setdefault(_guess_form(action, sign), set()).add(action)
    forms = [
        Form(tool=name, arguments=tuple(names), types=("",) * len(names), keys=keys[name])
        for name, names in tools.items()
    ]
    for text, members in texts.items():
        if len(members) > 1 or "{" not in text:
            forms.append(Form(text=text))
        elif sign:
            forms.append(Form(text=sign.replace("{}", members.pop().strip())))
    return forms


def drop_examples(forms: Iterable[Form]) -> list[Form]:
    """Return forms without the examples in signs, [A C], of a form that has nothing but slots between them."""
    known = [*forms]
    shapes = {(form.text[0], form.text[-1], form.slots) for form in known if _is_blank(form)}
    return [form for form in known if form.slots or not form.text or _shape(form.text) not in shapes]


def _is_blank(form: Form) -> bool:
    """Whether a form has signs around it and nothing but slots between them."""
    signs = _SLOT.sub("", form.text)
    return form.slots > 0 and re.fullmatch(r"\W+", signs) is not None and "{" not in (form.text[0], form.text[-1])


def _shape(example: str) -> tuple[str, str, int]:
    return example[0], example[-1], len(example.split())


def _guess_form(action: str, sign: str = "") -> str:
    words, parts, number = action.split(), list[str](), 0
    if sign or _BRACKETS.fullmatch(action.strip()):
        return (sign or "[{}]").replace("{}", " ".join(f"{{{slot}}}" for slot in range(len(words))))
    for position, word in enumerate(words):
        if position == 0 or word.lower() in SMALL_WORDS:
            parts.append(word)
        elif not parts[-1].startswith("{"):
            parts.append("{" + str(number) + "}")
            number += 1
    return " ".join(parts)


def _tool_form(tool: Mapping[str, Any]) -> Form | None:
    function = tool.get("function", tool)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    properties = _properties(tool)
    kinds = (value.get("type", "") if isinstance(value, Mapping) else "" for value in properties.values())
    return Form(
        tool=function["name"],
        arguments=tuple(properties),
        types=tuple(kind if isinstance(kind, str) else "" for kind in kinds),
    )


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON schemas of a tool's arguments."""
    function = tool.get("function", tool)
    schema = function.get("parameters") or function.get("input_schema") or {}
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    return properties if isinstance(properties, Mapping) else {}


def declared_values(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, tuple[str, ...]]]:
    """Return the values that tools' JSON schemas name for an argument, by tool: an enumeration, or in quotes, but no
    examples."""
    named: dict[str, dict[int, tuple[str, ...]]] = {}
    for tool in tools:
        form, properties = _tool_form(tool), _properties(tool)
        for slot, name in enumerate(form.arguments if form else ()):
            schema = properties[name] if isinstance(properties[name], Mapping) else {}
            described = _EXAMPLE.sub("", str(schema.get("description", "")))
            listed = schema.get("enum") or _QUOTED.findall(described)
            texts = tuple(dict.fromkeys(each for each in listed if isinstance(each, str)))[:MOST_NAMED]
            if form and texts:
                named.setdefault(form.name, {})[slot] = texts
    return named


_CUT = "\x00"


def _cut_calls(text: str) -> tuple[str, list[tuple[tuple[str, dict[str, JsonValue]], tuple[str, str]]]]:
    """Cut the JSON tool calls out of a text and return both."""
    calls, left, position = [], "", 0
    decoder = json.JSONDecoder()
    while (start := text.find("{", position)) >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            written = json.dumps(value)
            call = parse_call(written)
        except (ValueError, RecursionError):
            call, end = None, start + 1
        left += text[position:start] + (_CUT if call else text[start:end])
        calls += [(call, call_keys(written))] if call else []
        position = end
    return left + text[position:], calls


# ---------------------------------------------------------------- reading texts


@functools.lru_cache(maxsize=16)
def _cached_pattern(names: tuple[str, ...]) -> str:
    return build_name_pattern(names)


def build_name_pattern(names: Iterable[str]) -> str:
    """Build a regular expression, without groups, for the longest of these names at a word's beginning; very long names
    are skipped."""
    letters: dict[str, Any] = {}
    for name in (name for name in names if len(name) <= LONGEST_NAME):
        node = letters
        for part in re.findall(r"\d+|\D", name):
            node = node.setdefault(r"\d+" if part.isdigit() else re.escape(part), {})
        node[""] = {}
    return rf"(?<!\w)(?:{_written(letters)})(?!\w)" if letters else r"(?!)"


def build_shape_pattern(names: Iterable[str]) -> str:
    """Build a regular expression, without groups, for names of the shapes in which names come that differ in letters;
    of one word with a number."""
    kinds: dict[str, set[str]] = {}
    for name in names:
        if " " not in name and len(name) <= LONGEST_NAME:
            kinds.setdefault(shape_name(name), set()).add(kind_name(name))
    shapes = [shape for shape, members in sorted(kinds.items()) if "a" in shape and "0" in shape and len(members) >= 3]
    parts = (re.escape(shape).replace("0", r"\d+").replace("a", r"[^\W\d_]+") for shape in shapes)
    return rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)" if shapes else ""


def _written(letters: dict[str, Any]) -> str:
    """Convert a tree of letters to a regular expression, longest branch first."""
    ways = [part + _written(after) for part, after in sorted(letters.items()) if part]
    if "" in letters and not ways:
        return ""
    inner = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
    return f"(?:{inner}(?!\\w)|)" if "" in letters else inner


def _rank(form: Form) -> tuple[int, int]:
    """Order forms: those with more constant letters first."""
    return -len(_SLOT.sub("", form.text)), form.slots


@functools.lru_cache(maxsize=4 * MOST_FORMS)
def form_pattern(text: str, name: str) -> re.Pattern[str]:
    """Return the pattern of a form. Constant text matches where it comes first, so reading takes linear time.

    An argument with another right behind it has to match `name`.
    """
    first, *parts = (_SPACE.join(map(re.escape, part.split(" "))) for part in _NUMBERED.split(text))
    *middle, last = parts or [""]
    slots = "".join(f"(?>({name if part == _SPACE else '.+?'}){part})" for part in middle)
    return re.compile(first + slots + (f"(.+?){last}" if parts else ""), re.DOTALL)


def _trimmed(match: re.Match[str]) -> Iterator[str]:
    return (group.strip() for group in match.groups())


@functools.lru_cache(maxsize=20_000)
def _plain(text: str) -> str:
    """Return a text in lower case without articles, signs around it, commas and a final stop."""
    bare = text.strip().strip("`'\"[]()<>").strip()
    bare = _ARTICLE.sub("", bare.replace(",", " "))
    return " ".join(bare.lower().rstrip(".!").split())


def _original(text: str, value: str) -> str:
    """Return a value as a text writes it."""
    found = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE)
    return found[0] if found else value
