"""A model's chat template: the text of a conversation, as `transformers` writes it.

Templates come with models of others, so they run in a process with limits of time and memory (`foreign_process.py`).
The project's own template needs none, nor do those that cannot cost much (`plain_template.py`). Messages are first put
in the form that the template accepts: a system message may become part of the first user message, and neighbours of one
role may become one message. Not here: token ids.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.base.files import read_text
from align_echo.base.plain_yaml import parse_json
from align_echo.errors import ModelError, UsageError, unreadable
from align_echo.models.local.engine import MEMORY
from align_echo.models.local.foreign_process import render_chat
from align_echo.models.local.plain_template import plain_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The project's own chat template (ChatML)."""

MARK = "Xq{number}qX"
"""Placeholder for a message's content; templates treat it as an ordinary word."""

LONGEST_TEMPLATE = 1_000_000
"""Maximum characters of a template; published models have up to 20,000."""

SECONDS = 4
"""CPU seconds that a template may use for one conversation."""

Chat = list[dict[str, Any]]
"""Messages as templates take them: `role` and `content`, and what belongs to tool calls."""

Tools = Sequence[Mapping[str, Any]]
"""Tools as templates take them: functions of OpenAI's API."""

_SCRIPT = Path(__file__).with_name("foreign_process.py")


OWN_FIELDS = {
    "messages": "they are the conversation", "model": "--model", "temperature": "--temperature",
    "max_tokens": "--max-tokens", "max_completion_tokens": "--max-tokens", "reasoning_effort": "--reasoning-effort",
    "chat_template_kwargs": "--template-args", "stream": "what is streamed is for the endpoint to say",
    "stream_options": "what is streamed is for the endpoint to say", "n": "an agent draws as it needs",
    "logprobs": "verdicts ask for them", "top_logprobs": "verdicts ask for them", "tools": "--tools",
    "tool_choice": "--tools", "functions": "--tools", "api_key": "OPENAI_API_KEY", "api-key": "OPENAI_API_KEY",
    "key": "OPENAI_API_KEY", "token": "OPENAI_API_KEY", "authorization": "OPENAI_API_KEY",
}  # fmt: skip
"""Fields of a request that are not a user's to add, and what decides them."""

_NO_VARIABLES = ("messages", "documents", "add_generation_prompt")

_LEVEL = re.compile(r"[A-Za-z][A-Za-z_-]{0,30}")


@dataclass(frozen=True)
class ChatFormat:
    """How a user wants a model's conversations written and asked for. Empty is the model's own.

    `template` is a file, or the name of one of a local model's templates; `args` are the template's variables as JSON.
    `effort` is the reasoning effort and `body` further fields as JSON of requests to an endpoint. Raises `UsageError`
    for JSON that is no object, and for a field of `OWN_FIELDS`.
    """

    template: str = ""
    args: str = ""
    effort: str = ""
    body: str = ""

    def __post_init__(self) -> None:
        """Check the JSON and the level."""
        taken = next((name for name in self.variables if name in _NO_VARIABLES), None)
        if taken is not None:
            raise UsageError(f"--template-args sets no {taken}: a conversation does")
        own = next((name for name in _json_object(self.body, "--extra-body", '{"top_k": 20}') if _own(name)), None)
        if own is not None:
            raise UsageError(f"--extra-body replaces no {own}: {_own(own)}")
        if self.effort and not _LEVEL.fullmatch(self.effort):
            raise UsageError(f"--reasoning-effort is a word such as low, medium or high, not {self.effort!r}")

    @property
    def variables(self) -> dict[str, Any]:
        """Return the template's variables."""
        return _json_object(self.args, "--template-args", '{"enable_thinking": false}')

    @property
    def fields(self) -> dict[str, Any]:
        """Return what is added to each request to an endpoint."""
        effort = {"reasoning_effort": self.effort} if self.effort else {}
        variables = {"chat_template_kwargs": self.variables} if self.args else {}
        return effort | variables | _json_object(self.body, "--extra-body", "{}")

    @property
    def on_record(self) -> dict[str, str]:
        """Return the options in use, by the names that configs and records give them."""
        names = {"chat_template": self.template, "template_args": self.args, "reasoning_effort": self.effort}
        return {name: value for name, value in {**names, "extra_body": self.body}.items() if value}

    def beside(self, other: ChatFormat) -> ChatFormat:
        """Return these options, and another's for those that are not given here."""
        chosen = (getattr(self, name) or getattr(other, name) for name in ("template", "args", "effort", "body"))
        return ChatFormat(*chosen)

    @property
    def options(self) -> str:
        """Return the options in use as they are written on the command line."""
        return " and ".join(f"--{name.replace('_', '-')}" for name in self.on_record)


def _own(name: str) -> str:
    """Return what decides a field that no user adds; "" for other fields."""
    return OWN_FIELDS.get(name.strip().lower().replace("-", "_"), OWN_FIELDS.get(name.strip().lower(), ""))


def _json_object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        value = parse_json(text or "{}")
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{option} takes a JSON object, such as {example}, not {text}")
    return value


OWN_FORMAT = ChatFormat()
"""The model's own."""


class UnboundedTemplateError(UsageError):
    """A chat template that loops, grows, or crashes its renderer."""


class ChatTemplate:
    """A template with the variables it reads beside the messages. Thread-safe.

    Raises `UsageError` if the template refuses a conversation of user and assistant, or leaves messages out.
    """

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        if len(source) > LONGEST_TEMPLATE:
            raise UnboundedTemplateError(f"its chat template has more than {LONGEST_TEMPLATE:,} characters")
        self.source = source
        self._write: Callable[..., str] = _write_chatml
        if source.rstrip("\n") != CHATML_TEMPLATE:
            render = plain_template(source)
            self._write = PlainTemplate(render, variables).write if render else TemplateProcess(source, variables).write
            self._check_content()

    def text(self, chat: Chat, tools: Tools = ()) -> str:
        """Write the conversation up to the header of the next reply, with tools that the model may call.

        Raises `UsageError` if the template refuses it.
        """
        return self._write(self._accepted(chat), True, tools) if tools else self._write(self._accepted(chat), True)

    def _accepted(self, chat: Chat) -> Chat:
        """Put messages in a form that the template accepts."""
        if self._write is _write_chatml:
            return chat
        if not self._takes_system:
            chat = [{**message, "role": "user"} if message["role"] == "system" else message for message in chat]
        if not self._takes_system or not self._takes_neighbours:
            runs = [list(run) for _, run in groupby(enumerate(chat), key=_run)]
            chat = [
                {**run[0][1], "content": "\n\n".join(message["content"] for _, message in run)} for run in runs
            ]
        return chat

    @cached_property
    def _takes_system(self) -> bool:
        return self._writes_all(("system", "user"))

    @cached_property
    def _takes_neighbours(self) -> bool:
        return self._writes_all(("user", "user"))

    def _writes_all(self, roles: Sequence[str]) -> bool:
        """Return whether the template writes messages of these roles, each of them once."""
        try:
            text = self._write(marked_chat(roles), True)
        except UnboundedTemplateError:
            raise
        except UsageError:
            return False
        return all(text.count(MARK.format(number=number)) == 1 for number in range(len(roles)))

    def _check_content(self) -> None:
        roles = ("user", "assistant", "user")
        text = self._write(marked_chat(roles), True)
        for number, role in enumerate(roles):
            if text.count(MARK.format(number=number)) != 1 and role == "user":
                raise UsageError("the chat template does not write every message once")


def _run(numbered: tuple[int, Mapping[str, Any]]) -> str | int:
    """Return what a message has in common with those that it is joined with; calls and their answers stand alone."""
    number, message = numbered
    return number if message["role"] == "tool" or "tool_calls" in message else str(message["role"])


def marked_chat(roles: Sequence[str]) -> Chat:
    """Return a conversation of marks in these roles."""
    return [{"role": role, "content": MARK.format(number=number)} for number, role in enumerate(roles)]


def find_template(tokenizer: PreTrainedTokenizerBase, choice: str = "") -> str:
    """Return a tokenizer's template: its only one, its default, or the one that `choice` names; or that of a file.

    Raises `UsageError` if there is none.
    """
    templates = tokenizer.chat_template
    named = dict(templates) if isinstance(templates, Mapping) else {"default": templates} if templates else {}
    if choice and choice not in named:
        try:
            return read_text(Path(choice))
        except (OSError, UnicodeDecodeError) as error:
            names = f", nor is it one of the model's own ({', '.join(map(str, named))})" if named else ""
            raise UsageError(f"--chat-template {choice}: {unreadable(choice, error)}{names}") from None
    template = named.get(choice or "default")
    if not isinstance(template, str):
        names = f"only chat templates named {', '.join(map(str, named))}" if named else "no chat template"
        raise UsageError(f"there is {names}; choose one by --chat-template FILE{' or NAME' if named else ''}")
    return template


def _write_chatml(chat: Chat, header: bool, tools: Tools = ()) -> str:
    text = "".join([f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in chat])
    return text + "<|im_start|>assistant\n" if header else text


def _text_of(answer: Mapping[str, str], chat: Chat) -> str:
    """Return a chat's text, or raise what stood in its way."""
    if "text" in answer:
        return answer["text"]
    if "spent" in answer:
        raise UnboundedTemplateError(f"to write {len(chat)} messages, its chat template {answer['spent']}")
    roles = ", ".join(message["role"] for message in chat) or "no role"
    raise UsageError(f"the chat template refuses messages of {roles}: {answer['error']}")


class PlainTemplate:
    """A template that is rendered in this process."""

    def __init__(self, render: Callable[..., str], variables: Mapping[str, Any]) -> None:
        self._render = render
        self._variables = json.loads(json.dumps(dict(variables), default=str))

    def write(self, chat: Chat, header: bool, tools: Tools = ()) -> str:
        """Render a conversation. Raises as `TemplateProcess.write`."""
        request = {"chat": chat, "header": header, "tools": list(tools) or None}
        return _text_of(render_chat(self._render, self._variables, request), chat)


class TemplateProcess:
    """A process that renders one template, a conversation at a time. It ends with this process, or when unused."""

    def __init__(self, template: str, variables: Mapping[str, Any]) -> None:
        self._setup = json.dumps({"template": template, "variables": dict(variables)}, default=str)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def write(self, chat: Chat, header: bool, tools: Tools = ()) -> str:
        """Render a conversation. Raises `UsageError` if the template refuses it, `UnboundedTemplateError`."""
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._start()
            line = self._ask(json.dumps({"chat": chat, "header": header, "tools": list(tools) or None}))
        answer = json.loads(line) if line else {"spent": f"needs more than {SECONDS} s of computing, or crashes"}
        return _text_of(answer, chat)

    def _start(self) -> None:
        command = [sys.executable, "-I", str(_SCRIPT), str(SECONDS), str(MEMORY), "render"]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
            )
        except OSError as error:
            raise ModelError(f"no process can be started to run the chat template in: {error}") from error
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _end, self._process, self._owner)
        self._ask(self._setup, answered=False)

    def _ask(self, request: str, *, answered: bool = True) -> str:
        """Send a line and return the answer's line; "" if the process has ended."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ""
        try:
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
            line = process.stdout.readline() if answered else ""
        except OSError:
            line = ""
        if answered and not line:
            self._end()
            self._process = None
        return line


def _end(process: subprocess.Popen[str], owner: int) -> None:
    """End a process, unless this one was forked from its owner."""
    if owner == os.getpid():
        process.kill()
        process.communicate()
