"""How models of each family write tool calls in the text of a reply: one table. A new family is a new row.

Used for local models, and for endpoints whose server leaves calls in the text. Not here: what a call means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from align_echo.base.plain_yaml import parse_json
from align_echo.types import ToolCall

Reading = tuple[str, list[ToolCall]]
"""The text beside calls, and the calls."""

_NAME = re.compile(r'"name"\s*:\s*"([^"]{1,200})"')


@dataclass(frozen=True)
class CallForm:
    """A form of calls: the families that use it, a text that their chat templates hold, and how a reply is read."""

    families: str
    marker: str
    source: str
    read: Callable[[str], Reading]


def _call(payload: Any, written: str) -> ToolCall:
    """Build a call from its JSON; from unreadable JSON with the text as arguments, which are then refused."""
    if not isinstance(payload, dict):
        name = _NAME.search(written)
        return ToolCall(name=name[1] if name else "", arguments=written)
    arguments = payload.get("arguments", payload.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name=str(payload.get("name") or ""), arguments=text)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)


def _read_tagged(text: str) -> Reading:
    """Read `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""
    calls = [_call(_parsed(payload), payload) for payload in _TAGGED.findall(text)]
    return (_TAGGED.sub("", text), calls) if calls else (text, [])


_LIST = "[TOOL_CALLS]"
_NAMED = re.compile(r"\s*([\w.-]{1,200})\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)


def _read_list(text: str) -> Reading:
    """Read `[TOOL_CALLS] [{"name": ..., "arguments": {...}}]`, or `[TOOL_CALLS]NAME[ARGS]{...}` for each call."""
    beside, *parts = text.split(_LIST)
    calls: list[ToolCall] = []
    for part in parts:
        payload = _parsed(part)
        if isinstance(payload, list):
            calls += [_call(each, part) for each in payload]
        elif named := _NAMED.fullmatch(part):
            calls.append(ToolCall(name=named[1], arguments=named[2].strip()))
        else:
            calls.append(_call(payload, part.strip()))
    return beside, calls


_TAG = "<|python_tag|>"


def _read_object(text: str) -> Reading:
    """Read a reply that is `{"name": ..., "parameters": {...}}` and nothing else, after `<|python_tag|>` or without."""
    beside, tag, rest = text.partition(_TAG)
    written = (rest if tag else text).strip()
    payload = _parsed(written)
    named = isinstance(payload, dict) and "name" in payload and ("parameters" in payload or "arguments" in payload)
    if named or tag or (payload is None and written.startswith("{") and _NAME.search(written)):
        return beside if tag else "", [_call(payload, written)]
    return text, []


FORMS = (
    CallForm(
        "Hermes, Qwen2.5, Qwen3, SmolLM3",
        "<tool_call>",
        "github.com/NousResearch/Hermes-Function-Calling; tokenizer_config.json of Qwen/Qwen2.5-7B-Instruct",
        _read_tagged,
    ),
    CallForm(
        "Mistral v3 to v13",
        _LIST,
        "mistral_common/tokens/tokenizers/instruct.py; tokenizer_config.json of mistralai/Mistral-7B-Instruct-v0.3",
        _read_list,
    ),
    CallForm(
        "Llama-3.1 to 3.3",
        '"parameters": ',
        "github.com/meta-llama/llama-models, models/llama3_1/prompt_format.md",
        _read_object,
    ),
)
"""Known forms. The first whose marker stands in a model's chat template is the model's."""


def find_form(template: str) -> CallForm | None:
    """Return the form of calls of a chat template; None if it is not known."""
    return next((form for form in FORMS if form.marker in template), None)


def read_calls(text: str) -> Reading:
    """Read the calls of a reply in any of the forms."""
    readings = (form.read(text) for form in FORMS)
    return next((reading for reading in readings if reading[1]), (text, []))
