"""How endpoints refuse requests: one table of their wordings, and the form of request that each wording asks for.

Servers that speak OpenAI's protocol differ in the fields, values, roles and lengths that they take, and each says so
in words of its own, under almost any status. `WORDINGS` has one row per known wording, with the servers that use it. A
new wording is a new row. `adapt` turns a refusal into the next form of request. Pure functions only. Not here: sending
(`client.py`), reading answers (`answers.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from align_echo.types import Frozen, Message

# ---------------------------------------------------------------- refusals and their wordings

Meaning = Literal[
    "overflow", "busy", "no credit", "system role", "alternating roles", "temperature", "listed", "stream",
    "stream usage", "several", "length field", "length", "effort", "tools", "route",
]  # fmt: skip
"""What a refusal is about.

"overflow": the context is too long. "busy": a limit of requests or tokens per time. "listed": `top_logprobs`.
"several": `n`. "length field": the name of the reply's limit. "length": its value. "effort": `reasoning_effort`.
"tools": tool calls. "route": nothing is asked for at this address.
"""

LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class Refusal:
    """An endpoint's error: HTTP status (or the number that stands for it in a body), message, field and code."""

    status: int
    message: str
    param: str = ""
    code: str = ""

    @property
    def line(self) -> str:
        """Message as one short line."""
        return " ".join(self.message.split())[:LONGEST_MESSAGE]

    @property
    def text(self) -> str:
        """Code, field and message, to be matched with the wordings."""
        return " ".join(f"{self.code} {self.param} {self.message}".split())


@dataclass(frozen=True)
class Wording:
    """A regular expression for a refusal's text, ignoring case, and the servers that word it so."""

    meaning: Meaning
    pattern: str
    servers: str


WORDINGS = (
    Wording("no credit", r"insufficient[_ ](quota|balance|credits?|funds)", "OpenAI, DeepSeek, OpenRouter"),
    Wording("no credit", r"credit balance is too low|out of credits", "Anthropic, xAI"),
    Wording("busy", r"per[ -](second|minute|hour|day)|\b[tr]p[md]\b", "Groq, OpenAI, Cerebras"),
    Wording("busy", r"rate.?limit|too many requests|resource_exhausted", "most; Gemini"),
    Wording("busy", r"overloaded|please wait before", "Anthropic, DeepSeek; Bedrock"),
    Wording("busy", r"model is (currently )?loading|no (available )?capacity|is (currently )?busy", "TGI, gateways"),
    Wording("route", r"unexpected endpoint or method", "LM Studio"),
    # Tools.
    Wording(
        "tools", r"(not|n't) support(ed)? (for )?(\w+ )?(tools|tool use|tool call|function call)", "Ollama, Bedrock"
    ),
    Wording("tools", r"\b(tools?|tool use|(tool|function) call\w*)\W{0,3} (is|are) not", "Groq, Gemini"),
    Wording("tools", r"support tool use|requires? (--enable-auto-tool-choice|--jinja)", "OpenRouter, vLLM, llama.cpp"),
    Wording(
        "tools", r"(unknown|unsupported|unrecogni[sz]ed|unexpected).{0,60}\btools?\b|\btools: extra", "older servers"
    ),
    # Roles. A template's own exception reaches the client under status 400 or 500.
    Wording("system role", r"system role (is )?not supported", "templates of Gemma in vLLM, SGLang, TGI"),
    Wording("system role", r"\brole\b.{0,60}(not|n't) support.{0,20}(system|developer)", "OpenAI o1"),
    Wording("system role", r"system (role|messages?|prompts?|instructions?) (is|are) not", "gateways"),
    Wording("system role", r"(not|n't) support (the )?(system|developer)", "gateways"),
    Wording("system role", r"developer instruction is not enabled", "Gemini API for Gemma"),
    Wording("system role", r"\bsystem\b.{0,3} is not a(n allowed| valid|n? ?supported) role", "gateways"),
    Wording(
        "system role", r"(invalid|unsupported|unknown|unexpected) (message )?role:? .?system", "LM Studio, Anthropic"
    ),
    Wording("system role", r"only .{0,12}user.{0,40}roles? (is|are)", "templates of Mistral in llama.cpp"),
    Wording(
        "system role", r"'user' or 'assistant'|user['\", ]+assistant.{0,30}got .{0,3}system", "Anthropic; templates"
    ),
    Wording("alternating roles", r"first message must (be|have) .{0,20}user", "gateways"),
    Wording("alternating roles", r"roles? must alternate", "templates of Mistral and Gemma in vLLM, TGI, mistral.rs"),
    Wording("alternating roles", r"alternat\w+.{0,30}user.{0,9}assistant", "LM Studio, Anthropic"),
    Wording("alternating roles", r"(multiple|consecutive|two) .{0,20}(messages|roles?)", "Anthropic, Perplexity"),
    # The context. These rows stand before "length": such messages name `max_tokens` too.
    Wording(
        "overflow",
        r"context[_ ](length|window|size)[_ ](has been |is |was )?exceed",
        "OpenAI, Azure, Groq, Cerebras, llama.cpp",
    ),
    Wording("overflow", r"exceed_context_size|contextwindowexceeded", "llama.cpp, LiteLLM"),
    Wording("overflow", r"max(imum)?[_ ](context|model)[_ ]length", "OpenAI, vLLM, DeepSeek, OpenRouter"),
    Wording("overflow", r"model'?s? context length", "SGLang, vLLM"),
    Wording("overflow", r"available context size|context the overflows", "llama.cpp, LM Studio"),
    Wording("overflow", r"exceed\w* (the |this |model'?s? |maximum )*context", "OpenAI, Anthropic, Ollama, Databricks"),
    Wording("overflow", r"(longer|greater|larger) than (the |model'?s? |maximum )*context", "LM Studio, Ollama"),
    Wording(
        "overflow", r"context (window|length|size) (exceeds|is full)|fit in(to)? the (context|model)", "MiniMax; vLLM"
    ),
    Wording(
        "overflow",
        r"(prompt|inputs?|conversation|messages?|text) (is |are |was )?too (long|large)",
        "Anthropic, Bedrock",
    ),
    Wording("overflow", r"maximum prompt length|prompt exceeds max", "xAI, Z.ai"),
    Wording("overflow", r"(prompt|inputs?|query) length.{0,40}exceed", "TensorRT-LLM, SGLang"),
    Wording("overflow", r"(input|prompt)[ _]token.{0,60}(exceed|limit|only supports|less than)", "Gemini, SiliconFlow"),
    Wording("overflow", r"length is \d+ while limit is|max tokens of \d+ exceeded", "Cerebras, Snowflake"),
    Wording("overflow", r"tokens? .{0,60}cannot exceed|exceeded model token limit", "watsonx, Kimi"),
    Wording("overflow", r"too many (input |prompt )?tokens", "Cohere"),
    Wording("overflow", r"inputs?`?( tokens)?.{0,40}must (be <=|have less)", "TGI, Together"),
    Wording("overflow", r"range of input length|too large for model with \d+", "DashScope, Mistral"),
    Wording(
        "overflow", r"reduce (the length|your (prompt|messages?|input))|shorter or fewer", "Groq, Cerebras, Cohere"
    ),
    Wording("overflow", r"max_tokens'? must be at least 1, got -", "vLLM before 0.6"),
    # Fields and their values.
    Wording("effort", r"reasoning[_. ]?effort", "OpenAI, Azure, Groq, vLLM, xAI, Gemini"),
    Wording("effort", r"(not|n't) support (thinking|reasoning)|reasoning is mandatory", "Ollama, OpenRouter"),
    Wording("effort", r"\b(think|reasoning) value\b|thinking[_ ]level", "Ollama, Gemini"),
    Wording("temperature", r"\btemperature\b", "OpenAI o-series and gpt-5, Kimi, Anthropic, TGI, Z.ai, DashScope"),
    Wording("listed", r"log_?probs", "vLLM, OpenAI, DashScope, Together, Gemini, xAI, DeepSeek"),
    Wording("stream usage", r"stream_options|include_usage", "Mistral, gateways"),
    Wording("stream", r"\bstream(ing|ed)?\b.{0,40}(must|only|requir|need|enable|true)", "Codex backends"),
    Wording("stream", r"(must|only|need\w*|requir\w*).{0,40}\bstream(ing|ed)?\b", "DashScope for QwQ"),
    Wording("several", r"parameter:? .?n\b|['\"`]n['\"`]|\bn (must|is|>|should)", "Groq, llama.cpp, Gemini"),
    Wording("several", r"(only|multiple) (one )?(completion|choice|candidate)|\bn ?[=>] ?1\b", "llama.cpp, Gemini"),
    Wording("length field", r"use .{0,3}max_completion_tokens", "OpenAI o-series and gpt-5, Azure"),
    Wording(
        "length field", r"max_(completion_)?tokens.{0,60}(not (support|permitted|allowed)|extra)", "Azure, pydantic"
    ),
    Wording(
        "length field",
        r"(unsupported|unknown|unrecogni[sz]ed|unexpected|extra|deprecated).{0,60}max_(completion_)?tokens",
        "OpenAI, older servers",
    ),
    Wording("length", r"max_?((completion|output|new)_?)?tokens|(completion|output) tokens", "all"),
    Wording("length", r"maximum tokens you requested", "Bedrock"),
    # Wordings nobody listed: what can be too long, and a word for too long.
    Wording(
        "overflow",
        r"\b(context|prompt|inputs?|conversation|messages?|history|tokens?)\b.{0,80}"
        r"\b(too (long|large|big|many)|exceed\w*|(longer|larger|more) than|beyond|overflow\w*|over the|not fit|n't fit)"
        r"\b.{0,80}\b(tokens?|context|length|window|limit|maximum)\b",
        "unlisted",
    ),
    Wording(
        "overflow",
        r"\b(exceed\w*|overflow\w*|beyond|over|too (long|large|many))\b.{0,60}\b(context|tokens?|window|prompt)\b"
        r".{0,30}\b(length|size|limit|window|budget|capacity)\b",
        "unlisted",
    ),
)
"""Known wordings. The first row that matches decides."""

_COMPILED = tuple((wording.meaning, re.compile(wording.pattern, re.IGNORECASE)) for wording in WORDINGS)

NEVER_ADAPTED = frozenset({401, 402, 403, 404, 407, 408, 409, 429})
"""Statuses that say enough by themselves."""


def meaning(refusal: Refusal) -> Meaning | None:
    """Return what a refusal is about; None for an unknown wording, and for a status that says enough by itself.

    A limit per time is "busy" or "no credit" under any status. Under `NEVER_ADAPTED` only tools and probabilities are
    read beside these.
    """
    named = _named(refusal.param)
    for known, pattern in _COMPILED:
        if refusal.status in NEVER_ADAPTED and known not in ("busy", "no credit", "tools", "listed"):
            continue
        if named is not None and known not in (named, "overflow", "busy", "no credit", "length"):
            continue
        if pattern.search(refusal.text):
            return known
    return None


_FIELDS: Mapping[str, Meaning] = {
    "reasoning_effort": "effort",
    "reasoning.effort": "effort",
    "temperature": "temperature",
    "logprobs": "listed",
    "top_logprobs": "listed",
    "n": "several",
    "tools": "tools",
    "tool_choice": "tools",
    "stream": "stream",
    "stream_options": "stream usage",
}


def _named(param: str) -> Meaning | None:
    """Return the meaning of a refusal that names its field, None if the field decides nothing."""
    return "system role" if param.endswith("role") else _FIELDS.get(param)


# ---------------------------------------------------------------- the form of request that an endpoint takes

LISTED = 20
"""Maximum number of first tokens listed with probabilities."""

LEAST_TEMPERATURE = 0.01
"""Temperature sent in place of 0 where 0 is refused."""

LEAST_REPLY = 128
"""Minimum reply tokens (or half of those asked for, if fewer) that must fit beside the context: a shorter reply would
break off before its action, so the context counts as too long.
"""


GROWTH = 1.25
"""Factor on the tokens of a character where the text is another than the one that was counted."""


class Window(Frozen):
    """A model's context of `tokens`, and how many of them (`prompt`) a conversation of so many `characters` took."""

    tokens: int
    prompt: int
    characters: int

    @property
    def free(self) -> int:
        """Tokens that are free beside the counted conversation."""
        return self.tokens - self.prompt

    def fit(self, messages: Sequence[Message], asked: int) -> int:
        """Return the reply's tokens that fit beside a conversation, by an estimate: at least those of a short reply,
        since the endpoint knows better whether the context is too long.
        """
        length = count_characters(messages)
        each = GROWTH * self.prompt / max(self.characters, 1)
        if length <= self.characters:
            taken = min(self.prompt, round(each * length))
        else:
            taken = self.prompt + round(each * (length - self.characters))
        return min(asked, max(self.tokens - taken, min(LEAST_REPLY, asked)))


def count_characters(messages: Sequence[Message]) -> int:
    """Count the characters of a conversation."""
    return sum(len(message.content) for message in messages)


def least_reply(asked: int) -> int:
    """Return the fewest tokens that must fit beside the context, where so many are asked for."""
    return min(LEAST_REPLY, asked // 2)


class RequestForm(Frozen):
    """What requests to this model look like.

    `length_field` is the name of the reply's limit, "" for none; its value lies in `least` to `most` tokens.
    `temperature`: "asked" is sent as asked, raised to `coldest` and lowered to `hottest`; None is left out; a number is
    the only value that the model takes. `system_role`: whether there is a system role. `alternates`: whether user and
    assistant must alternate. `listed` is the maximum number of first tokens with probabilities, 0 for none. `effort`
    takes the place of the reasoning effort asked for: None leaves it out. `window` is the context beside which a reply
    must fit, None as long as all did.
    """

    length_field: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
    least: int = 1
    most: int | None = None
    temperature: Literal["asked"] | float | None = "asked"
    coldest: float = 0.0
    hottest: float | None = None
    system_role: bool = True
    alternates: bool = False
    listed: int = LISTED
    streams: bool = False
    stream_usage: bool = True
    effort: Literal["asked"] | str | None = "asked"
    window: Window | None = None

    def added(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a user adds to each request, with the effort that the model takes."""
        added = dict(fields)
        if self.effort is None:
            added.pop("reasoning_effort", None)
        elif self.effort != "asked" and "reasoning_effort" in added:
            added["reasoning_effort"] = self.effort
        return added

    def body(
        self,
        messages: Sequence[Message],
        *,
        temperature: float,
        max_tokens: int,
        listed: bool = False,
        several: int = 1,
    ) -> dict[str, Any]:
        """Build a request's fields beside the model's name.

        `listed` asks for first tokens with probabilities, `several` for that many replies.
        """
        fields: dict[str, Any] = {"messages": self.written(messages)}
        if offers_tools(messages):
            fields["tools"] = json.loads(messages[0].tools)
        if self.length_field:
            tokens = max(max_tokens if self.window is None else self.window.fit(messages, max_tokens), self.least)
            fields[self.length_field] = tokens if self.most is None else min(tokens, self.most)
        if self.temperature == "asked":
            warm = max(temperature, self.coldest)
            fields["temperature"] = warm if self.hottest is None else min(warm, self.hottest)
        elif self.temperature is not None:
            fields["temperature"] = self.temperature
        if listed and self.listed:
            fields |= {"logprobs": True, "top_logprobs": self.listed}
        if several > 1:
            fields["n"] = several
        if self.streams:
            fields["stream"] = True
            if self.stream_usage:
                fields["stream_options"] = {"include_usage": True}
        return fields

    def written(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write the messages in roles that the model knows: a system text opens the first user message without a system
        role; neighbours of one role are joined where roles must alternate. Texts are joined by an empty line.
        """
        sent = [_as_sent(message) for message in messages]
        if not self.system_role:
            system = [message["content"] for message in sent if message["role"] == "system"]
            others = [message for message in sent if message["role"] != "system"]
            if system and (not others or others[0]["role"] != "user"):
                others.insert(0, {"role": "user", "content": "\n\n".join(system)})
            elif system:
                others[0]["content"] = "\n\n".join([*system, others[0]["content"]])
            sent = others
        return _joined_neighbours(sent) if self.alternates else sent


def offers_tools(messages: Sequence[Message]) -> bool:
    """Return whether the model may call tools in this conversation."""
    return bool(messages and messages[0].tools)


def _as_sent(message: Message) -> dict[str, Any]:
    """Write a message, and its tool call or the id of the one that it answers, as OpenAI's API has them."""
    sent: dict[str, Any] = {"role": str(message.role), "content": message.content}
    if message.call is None:
        return sent
    if message.role == "tool":
        return {**sent, "tool_call_id": message.call.id}
    function = {"name": message.call.name, "arguments": message.call.arguments}
    calls = [{"id": message.call.id, "type": "function", "function": function}]
    return {**sent, "content": message.content or None, "tool_calls": calls}


def _joined_neighbours(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for message in sent:
        is_text = message["role"] != "tool" and "tool_calls" not in message
        if is_text and joined and joined[-1]["role"] == message["role"] and "tool_calls" not in joined[-1]:
            joined[-1] = {"role": message["role"], "content": f"{joined[-1]['content']}\n\n{message['content']}"}
        else:
            joined.append(dict(message))
    return joined


# ---------------------------------------------------------------- the next form after a refusal

Change = tuple[RequestForm, str] | None
"""A form to try and its difference in words; None if there is nothing to try."""


def adapt(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """Return the form of request to try after a refusal of the fields `sent`, and the change in words.

    None if nothing can be changed: then the refusal stands.
    """
    change = _CHANGES.get(meaning(refusal) or "", _nothing)(form, sent, refusal)
    return None if change is None or change[0] == form else change


def _nothing(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    return None


def _without_system(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    if not form.system_role:
        return _alternating(form, sent, refusal)
    changed = form.model_copy(update={"system_role": False})
    return changed, "it takes no system role: the system text opens the first user message"


def _alternating(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """Join neighbours of one role; if that was refused too, write the system text into the first user message."""
    if form.alternates and form.system_role and any(message["role"] == "system" for message in sent["messages"]):
        return _without_system(form, sent, refusal)
    changed = form.model_copy(update={"alternates": True})
    return changed, "its roles must alternate: neighbouring messages of one role are joined"


_ONLY_TEMPERATURE = re.compile(r"(?:only|set to|must be|(?<!or )equal to)\W{1,3}(\d+(?:\.\d+)?)\b", re.IGNORECASE)
_ABOVE_ZERO = re.compile(r"positive|(greater|larger|more) than 0|above 0|> ?0|\(0|not (be )?(0|zero)\b", re.IGNORECASE)


_DECIMAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def _temperature(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """Send the only value that is allowed, or the nearest in the allowed range; without a hint, none."""
    if "temperature" not in sent:
        return None
    asked, text = float(sent["temperature"]), refusal.message
    if asked == 0 and form.coldest == 0 and _ABOVE_ZERO.search(text):
        changed = form.model_copy(update={"coldest": LEAST_TEMPERATURE})
        return changed, f"it takes no temperature 0: {LEAST_TEMPERATURE} is sent"
    only = _ONLY_TEMPERATURE.search(text)
    if only and float(only[1]) != asked:
        return form.model_copy(update={"temperature": float(only[1])}), f"it takes temperature {only[1]} only"
    lower = [float(number) for number in _DECIMAL.findall(text.replace("..", " ")) if 0 < float(number) < asked]
    if lower and form.hottest is None and re.search(r"rang|between|less|most|<|maximum|exceed|\[", text, re.IGNORECASE):
        return form.model_copy(update={"hottest": max(lower)}), f"it takes temperatures up to {max(lower):g} only"
    return form.model_copy(update={"temperature": None}), "it takes no temperature: it plays at its own"


_UNSUPPORTED = re.compile(r"not support|unsupported|not (allow|avail|permit|enabl)|unknown", re.IGNORECASE)


def _fewer_listed(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """List as many first tokens as the message names, else 10, 5, none; none where listing is not supported."""
    asked = sent.get("top_logprobs")
    if asked is None:
        return None
    named = [count for count in _numbers(refusal.message) if 1 < count < asked]
    unsupported = re.search(
        r"not support|unsupported|not (allow|avail|permit|enabl)|unknown", refusal.text, re.IGNORECASE
    )
    steps = [] if unsupported else [count for count in (10, 5) if count < asked]
    most = max(named or steps[:1], default=0)
    change = f"it lists {most} likely tokens" if most else "it lists no likely tokens: verdicts have no probabilities"
    return form.model_copy(update={"listed": most}), change


LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Levels of reasoning effort, from the least."""


def _other_effort(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """Send the nearest of the levels that the message names, once; else none."""
    asked = sent.get("reasoning_effort")
    if asked is None:
        return None
    named = [level for level in LEVELS if level != asked and re.search(rf"\b{level}\b", refusal.message.lower())]
    if form.effort == "asked" and asked in LEVELS and named:
        near = min(named, key=lambda level: abs(LEVELS.index(level) - LEVELS.index(asked)))
        return form.model_copy(update={"effort": near}), f"it takes no reasoning effort {asked}: {near} is sent"
    return form.model_copy(update={"effort": None}), f"it takes no reasoning effort {asked}: it thinks as it does"


def _streamed(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    return form.model_copy(update={"streams": True}), "it only streams its replies"


def _without_stream_usage(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    return form.model_copy(update={"stream_usage": False}), "it counts no tokens of streamed replies"


def _other_length_field(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    if form.length_field == "max_tokens":
        changed = form.model_copy(update={"length_field": "max_completion_tokens"})
        return changed, "it takes max_completion_tokens in place of max_tokens"
    return form.model_copy(update={"length_field": ""}), "it takes no limit of a reply"


_AT_MOST = re.compile(r"at most|too (large|big|many|high)|maximum|up to|exceed", re.IGNORECASE)


def _other_length(form: RequestForm, sent: Mapping[str, Any], refusal: Refusal) -> Change:
    """Send the nearest length that the message allows; without a number in it, use the other field."""
    asked = sent.get(form.length_field)
    if asked is None:
        return None
    numbers = _numbers(refusal.message)
    lower, higher = [n for n in numbers if 1 < n < asked], [n for n in numbers if n > asked]
    if lower:
        most = max(lower) - ("exclusive" in refusal.message)
        return form.model_copy(update={"most": most}), f"a reply may take {most:,} tokens at most"
    if higher:
        if _AT_MOST.search(refusal.message):
            return None  # fewer were asked for: the message is about something else
        least = min(higher)
        return form.model_copy(update={"least": least}), f"a reply must be allowed {least:,} tokens at least"
    return _other_length_field(form, sent, refusal)


_CHANGES: Mapping[str, Callable[[RequestForm, Mapping[str, Any], Refusal], Change]] = {
    "effort": _other_effort,
    "system role": _without_system,
    "alternating roles": _alternating,
    "temperature": _temperature,
    "listed": _fewer_listed,
    "stream": _streamed,
    "stream usage": _without_stream_usage,
    "length field": _other_length_field,
    "length": _other_length,
}

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")


def _numbers(text: str) -> list[int]:
    """Return the whole numbers of a text; commas between thousands are left out."""
    return [int(number) for number in re.findall(r"(?<![\w.])\d{1,12}(?!\w|\.\d)", _THOUSANDS.sub("", text))]


# ---------------------------------------------------------------- a reply that shrinks to what is free

_FITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context length (?:is|of) (?P<window>\d+) tokens.{0,60}?request has (?P<prompt>\d+) input tokens",
        r"\(\d+ > (?P<window>\d+) - (?P<prompt>\d+)\)",
        r"must be <= (?P<window>\d+)\. Given: (?P<prompt>\d+) ",
        r"context limit: (?P<prompt>\d+) \+ \d+ > (?P<window>\d+)",
        r"passed (?P<prompt>\d+) input tokens and requested \d+ output.{0,60}?context length is only (?P<window>\d+)",
    )
)
"""Messages with the window's tokens and the prompt's: vLLM, TGI, Anthropic."""


def find_window(refusal: Refusal, asked: int, messages: Sequence[Message]) -> Window | None:
    """Return the context beside which a reply of `asked` tokens does not fit, if an overflow's message tells it; None
    if it does not tell, or if the conversation alone is too long.

    Beside the listed wordings, three numbers tell: the prompt's, their sum with `asked`, and a window below the sum
    (OpenAI, DeepSeek, OpenRouter, SGLang).
    """
    text = _THOUSANDS.sub("", refusal.message)
    match = next(filter(None, (pattern.search(text) for pattern in _FITS)), None)
    if match:
        window, prompt = int(match["window"]), int(match["prompt"])
    else:
        numbers = set(_numbers(text))
        prompts = [prompt for prompt in numbers if prompt + asked in numbers]
        fits = [
            (window, prompt) for prompt in prompts for window in numbers - {asked} if prompt < window < prompt + asked
        ]
        window, prompt = min(fits, key=lambda fit: fit[0] - fit[1], default=(0, 0))
    known = Window(tokens=window, prompt=prompt, characters=count_characters(messages))
    return known if 0 < known.free < asked else None
