"""Base class of the agents that ask a chat model: conversation, model call, strict parsing, run records.

An agent keeps no state: its next reply is a function of the view. Rules given up front (InferRules) go into the system
message, as in the paper's prompts (ALIGN, appendix C.4); the initial observation and the task are the first user
message; then replies and observations in turn. Each agent's own file holds its prompts and its parsing.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from align_echo.agents.parsing import plain_reply, split_thoughts, uncut_text
from align_echo.agents.presets import EpisodeRules
from align_echo.errors import ReplyFormatError
from align_echo.models.call_forms import read_calls
from align_echo.models.drawing import draw, model_for_sample
from align_echo.models.recording import describe_model
from align_echo.models.tool_calls import ToolSet, numbered, written_calls
from align_echo.prompts import prompt_hash, render
from align_echo.registry import quantity
from align_echo.types import (
    NO_REPLY,
    AgentReply,
    AgentView,
    ChatModel,
    Completion,
    Message,
    Tokens,
    ToolCall,
    Turn,
    join_thinking,
)

SHARED_PROMPTS = ("shared/agent", "shared/start")
CALL_PROMPT = "shared/call"
MAX_TOKENS = 512

BYTES_PER_TOKEN = 3
"""Bytes of text counted as a token by `HistoryBounds`: few, so that the estimate is rather too large."""


@dataclass(frozen=True)
class HistoryBounds:
    """Bounds of the history that an agent shows to its model: the opening and the last turns, at most `turns` of them
    and at most `tokens` in all, estimated by `BYTES_PER_TOKEN` (None: no bound). The last turn is always shown.
    """

    turns: int | None = None
    tokens: int | None = None

    @property
    def sees_all(self) -> bool:
        """Return whether nothing is left out."""
        return self.turns is None and self.tokens is None

    def first_shown(self, opening: int, turns: Sequence[int]) -> int:
        """Return the index of the first turn to show, from the sizes of the opening and of all turns in bytes."""
        least = 0 if self.turns is None else max(0, len(turns) - self.turns)
        if self.tokens is None or not turns:
            return least
        first, room = len(turns) - 1, self.tokens * BYTES_PER_TOKEN - opening - turns[-1]
        while first > least and turns[first - 1] <= room:
            first -= 1
            room -= turns[first]
        return first

    def describe(self) -> dict[str, str]:
        """Return the entries for run records; empty without bounds."""
        bounds = {"history_turns": self.turns, "history_tokens": self.tokens}
        return {name: str(bound) for name, bound in bounds.items() if bound is not None}


WHOLE_HISTORY = HistoryBounds()


class ChatAgent(abc.ABC):
    """A chat model as an agent. `max_tokens` bounds one reply of the model.

    With `raw_replies` a reply is not parsed: its text is the action (`raw_action`), as in ALIGN's public code, and
    there are no error messages about its form.
    """

    kind: ClassVar[str]
    prompts: tuple[str, ...]
    """Its templates beside `SHARED_PROMPTS`; the first is the system message."""

    def __init__(
        self, model: ChatModel, *, temperature: float = 0.0, max_tokens: int = MAX_TOKENS, raw_replies: bool = False
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._raw_replies = raw_replies
        self._sample = 0
        self._episode_rules = EpisodeRules()
        self._history = WHOLE_HISTORY
        self._tools: ToolSet | None = None

    def with_sample(self, sample: int) -> Self:
        """Copy the agent with another sampling seed, for repeated episodes of one task at a temperature above 0."""
        copied = copy.copy(self)
        copied._sample, copied._model = sample, model_for_sample(self._model, sample)
        return copied

    def with_episode_rules(self, episode_rules: EpisodeRules) -> Self:
        """Copy the agent with these episode rules."""
        copied = copy.copy(self)
        copied._episode_rules = episode_rules
        return copied

    def with_history(self, bounds: HistoryBounds) -> Self:
        """Copy the agent with bounds of the history that its model sees."""
        copied = copy.copy(self)
        copied._history = bounds
        return copied

    def with_tools(self, tools: ToolSet) -> Self:
        """Copy the agent with tools that its model calls in place of writing actions."""
        copied = copy.copy(self)
        copied._tools = tools
        return copied

    @property
    def episode_rules(self) -> EpisodeRules:
        """Return the episode rules of the agent's preset."""
        return self._episode_rules

    @property
    def name(self) -> str:
        """Return `<kind>(<model>)`."""
        return f"{self.kind}({self._model.name})"

    @property
    def model(self) -> ChatModel:
        """Return the chat model."""
        return self._model

    @property
    def temperature(self) -> float:
        """Return the sampling temperature of every call; 0 is greedy."""
        return self._temperature

    @property
    def sees_all(self) -> bool:
        """Return whether the model sees every turn of an episode."""
        return self._history.sees_all

    @property
    def asks_once(self) -> bool:
        """Return whether each turn is exactly one model call, so that its reply and tokens are the turn's."""
        return type(self).act is ChatAgent.act

    def describe(self) -> dict[str, str]:
        """Return model, endpoint or weights, temperature and prompt hashes for run records."""
        names = (*SHARED_PROMPTS, *self.prompts, *((CALL_PROMPT,) if self._tools else ()))
        prompts = {f"prompt.{name}": prompt_hash(name) for name in names}
        return {
            **describe_model("agent", self._model),
            "temperature": str(self._temperature),
            "max_tokens": str(self._max_tokens),
            **({"replies": "raw"} if self._raw_replies else {}),
            **({"tools": self._tools.text} if self._tools else {}),
            **self._episode_rules.describe(),
            **self._history.describe(),
            **prompts,
        }

    def act(self, view: AgentView) -> AgentReply:
        """Return the next action, or None with a `problem` if the reply does not hold exactly one. Raises `ModelError`.
        """
        return self.ask(self.conversation(view), view)

    def act_all(self, view: AgentView, samples: Sequence[int]) -> list[AgentReply]:
        """Return `with_sample(sample).act(view)` for each sample, drawn in one batch if a turn is one call.

        Raises `ModelError` if a draw fails.
        """
        if not self.asks_once:
            return [self.with_sample(sample).act(view) for sample in samples]
        messages = self.conversation(view)
        drawn = draw(self._model, messages, samples, temperature=self._temperature, max_tokens=self._max_tokens)
        return [self.parse_completion(reply, view) for reply in drawn]

    @abc.abstractmethod
    def read(self, reply: str, view: AgentView) -> str:
        """Parse the single action of a reply to `view`. Raises `ReplyFormatError`."""

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return the action of a reply when replies are not parsed: the full text."""
        return reply

    def history_text(self, turn: Turn) -> str:
        """Return the agent's reply of a turn as the history shows it; may be empty."""
        return turn.reply

    def conversation(self, view: AgentView) -> list[Message]:
        """Build the chat so far, within the bounds of the history. It always ends with a user message.

        A reply's token ids are passed on only if the call behind it saw the same opening and the same turns.
        """
        system = render(self.prompts[0], {"action_format": view.action_format, "rules": view.rules})
        system += f"\n\n{render(CALL_PROMPT, {})}" if self._tools else ""
        opening = {"initial_observation": view.initial_observation, "goal": view.goal, "critique": view.critique}
        start = render("shared/start", opening)
        texts = [self.history_text(turn) for turn in view.turns]
        firsts = self._firsts_shown(system + start, texts, view)
        first = firsts[-1]
        start += f"\n\n{gap_line(first)}" if first else ""
        tools = self._tools.text if self._tools else ""
        messages = [Message(role="system", content=system, tools=tools), Message(role="user", content=start)]
        for number, (text, turn) in enumerate(zip(texts, view.turns, strict=True)):
            if number < first:
                continue
            if turn.call and not self._tools:
                text = f"{text}\n{turn.action}".strip()
            tokens = turn.tokens if text == turn.reply and firsts[number] == first else None
            call = numbered(turn.call, number) if turn.call and self._tools else None
            messages.append(assistant_message(join_thinking(turn.thinking, text) if tokens else text, tokens, call))
            messages.append(Message(role="tool" if call else "user", content=turn.observation, call=call))
        return messages

    def _firsts_shown(self, opening: str, texts: Sequence[str], view: AgentView) -> list[int]:
        """Return the index of the first turn shown in each call of the episode, the next one included."""
        if self.sees_all:
            return [0] * (len(texts) + 1)
        shown = zip(texts, view.turns, strict=True)
        sizes = [len((text + turn.observation).encode("utf-8", "replace")) for text, turn in shown]
        opening_size = len(opening.encode("utf-8", "replace"))
        return [self._history.first_shown(opening_size, sizes[:number]) for number in range(len(sizes) + 1)]

    def complete(self, messages: Sequence[Message], *, model: ChatModel | None = None) -> Completion:
        """Ask the model at the agent's temperature. Raises `ModelError`."""
        return (model or self._model).complete(messages, temperature=self._temperature, max_tokens=self._max_tokens)

    def ask(self, messages: Sequence[Message], view: AgentView, *, model: ChatModel | None = None) -> AgentReply:
        """Ask the model and parse its reply as an action. Raises `ModelError`."""
        return self.parse_completion(self.complete(messages, model=model), view)

    def parse_completion(self, completion: Completion, view: AgentView) -> AgentReply:
        """Parse a completion as a reply to `view`: its tool call, else its text, which raw replies send as it is."""
        if self._tools:
            beside, calls = read_calls(completion.text) if not completion.calls else (completion.beside, [])
            if calls:
                completion = completion.model_copy(update={"calls": tuple(calls), "beside": beside})
            if completion.calls:
                return self._read_calls(completion, self._tools)
        if self._raw_replies:
            return AgentReply(
                text=completion.text,
                action=self.raw_action(completion.text, view),
                thinking=completion.thinking,
                verbatim=True,
                cut_off=completion.finish_reason == "length",
                usage=completion.usage,
                tokens=completion.tokens,
            )
        thinking, said = _split_thinking(completion, completion.text)
        action, problem = None, ""
        residue: tuple[str, ...] = ()
        try:
            text, residue = plain_reply(self.full_text(completion))
            action = self.read(text, view)
        except ReplyFormatError as error:
            problem = str(error)
        return AgentReply(
            text=said,
            action=action,
            thinking=thinking,
            problem=problem,
            cut_off=completion.finish_reason == "length",
            residue=residue,
            usage=completion.usage,
            tokens=completion.tokens,
        )

    def _read_calls(self, completion: Completion, tools: ToolSet) -> AgentReply:
        """Parse the tool calls of a completion. If they are no action, the reply is all of its text and they."""
        cut_off = completion.finish_reason == "length"
        facts: dict[str, Any] = {"cut_off": cut_off, "usage": completion.usage, "tokens": completion.tokens}
        try:
            self.full_text(completion)
            action = tools.read(completion.calls)
        except ReplyFormatError as error:
            apart = completion.beside is None  # the calls stand in no text
            texts = (completion.text, written_calls(completion.calls) if apart else "")
            thinking, said = _split_thinking(completion, "\n".join(filter(None, texts)))
            return AgentReply(text=said, action=None, thinking=thinking, problem=str(error), **facts)
        beside = completion.text if completion.beside is None else completion.beside
        thinking, said = _split_thinking(completion, beside)
        return AgentReply(text=said.strip(), action=action, thinking=thinking, call=completion.calls[0], **facts)

    def full_text(self, completion: Completion) -> str:
        """Return the text of a completion. Raises `ReplyFormatError` if it was cut off (see `uncut_text`)."""
        return uncut_text(completion, self._max_tokens)


def _split_thinking(completion: Completion, text: str) -> tuple[str, str]:
    """Return a completion's thinking, with the thoughts at the beginning of `text`, and the rest of `text`."""
    thoughts, said = split_thoughts(text)
    return "\n".join(filter(None, (completion.thinking, thoughts))), said


def gap_line(turns: int) -> str:
    """Say in the opening how many turns are left out behind it."""
    return f"[{quantity(turns, 'turn')} left out here; the last ones follow.]"


def assistant_message(text: str, tokens: Tokens | None = None, call: ToolCall | None = None) -> Message:
    """Build the assistant message of a reply; `tokens` belong to it only if the text is unchanged."""
    return Message(role="assistant", content=text.strip() or ("" if call else NO_REPLY), tokens=tokens, call=call)


def with_action(reply: AgentReply) -> str:
    """Return a reply with the action of its call as text, for a review of it."""
    return reply.text if reply.call is None else f"{reply.text}\nAction: {reply.action}".strip()


def labelled_reply(turn: Turn) -> str:
    """Return a turn's reply, labelled "Action:" if it was carried out in the agent's place and has no label."""
    if turn.call:
        return turn.reply
    bare = turn.reply.strip() == turn.action and not turn.reply.startswith(("Action:", "Answer:"))
    return f"Action: {turn.action}" if bare else turn.reply


def action_or_reply(turn: Turn) -> str:
    """Return a turn's action in place of its reply; the reply if there was no action, and nothing beside a call."""
    return "" if turn.call else turn.reply if turn.action is None else turn.action
