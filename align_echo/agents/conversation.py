"""What every agent on a chat model shares: the chat so far, asking, strict reading, and what a run records of it.

An agent keeps no state: its next reply is a function of the view. Rules told up front (InferRules) go into the system
message, as in the paper's prompts (ALIGN, appendix C.4); the initial observation and the task are the first user
message; then replies and observations in turn. An agent's own file says what it asks and how it reads the answer.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import ClassVar, Self

from align_echo.agents.parsing import whole_text
from align_echo.agents.presets import EpisodeRules
from align_echo.agents.signs import plain_reply
from align_echo.errors import ReplyFormatError
from align_echo.models.drawing import draw, sample_of
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import weights_of
from align_echo.prompts import prompt_hash, render
from align_echo.types import NO_REPLY, AgentReply, AgentView, ChatModel, Completion, Message, Tokens, Turn

SHARED_PROMPTS = ("shared/agent", "shared/start")
MAX_TOKENS = 512


class ChatAgent(abc.ABC):
    """A chat model as an agent. `max_tokens` bounds one reply of the model.

    With `raw_replies` a reply is not read: its text is the action (`raw_action`), as in ALIGN's public code, and no
    reply is answered with what is wrong with it.
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

    def with_sample(self, sample: int) -> Self:
        """The same agent whose model draws anew: for several episodes of one task at a temperature above 0."""
        other = copy.copy(self)
        other._sample, other._model = sample, sample_of(self._model, sample)
        return other

    def under(self, episode_rules: EpisodeRules) -> Self:
        """Return the same agent, whose episodes are played by these rules."""
        other = copy.copy(self)
        other._episode_rules = episode_rules
        return other

    @property
    def episode_rules(self) -> EpisodeRules:
        """What the agent's preset says of its episodes."""
        return self._episode_rules

    @property
    def name(self) -> str:
        """`<kind>(<model>)`."""
        return f"{self.kind}({self._model.name})"

    @property
    def model(self) -> ChatModel:
        """Who answers."""
        return self._model

    @property
    def temperature(self) -> float:
        """That of every call; 0 is greedy."""
        return self._temperature

    @property
    def asks_once(self) -> bool:
        """Whether a turn is one call of the model, whose reply and tokens are then the turn's."""
        return type(self).act is ChatAgent.act

    def describe(self) -> dict[str, str]:
        """Its model, endpoint or weights, temperature and prompt hashes, for run records."""
        prompts = {f"prompt.{name}": prompt_hash(name) for name in (*SHARED_PROMPTS, *self.prompts)}
        made_of = {"model.agent": self._model.name, "base_url.agent": base_url_of(self._model)}
        if weights := weights_of(self._model):
            made_of["weights.agent"] = weights
        return {
            **made_of,
            "temperature": str(self._temperature),
            "max_tokens": str(self._max_tokens),
            **({"replies": "raw"} if self._raw_replies else {}),
            **self._episode_rules.describe(),
            **prompts,
        }

    def act(self, view: AgentView) -> AgentReply:
        """The next action; None with the problem in words if the reply does not hold exactly one. Raises `ModelError`.
        """
        return self.ask(self.conversation(view), view)

    def act_all(self, view: AgentView, samples: Sequence[int]) -> list[AgentReply]:
        """What `with_sample(sample).act(view)` gives for each of the samples, drawn at once where one call is a turn.

        Raises `ModelError` if one cannot be drawn.
        """
        if not self.asks_once:
            return [self.with_sample(sample).act(view) for sample in samples]
        messages = self.conversation(view)
        drawn = draw(self._model, messages, samples, temperature=self._temperature, max_tokens=self._max_tokens)
        return [self.understood(reply, view) for reply in drawn]

    @abc.abstractmethod
    def read(self, reply: str, view: AgentView) -> str:
        """The one action of a reply to `view`. Raises `ReplyFormatError`."""

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return what a reply sends where replies are not read: the whole of it."""
        return reply

    def told(self, turn: Turn) -> str:
        """How the history shows the agent its own reply of a turn; may be empty."""
        return turn.reply

    def conversation(self, view: AgentView) -> list[Message]:
        """The chat so far; always ends with a user message."""
        system = render(self.prompts[0], {"action_format": view.action_format, "rules": view.rules})
        opening = {"initial_observation": view.initial_observation, "goal": view.goal, "critique": view.critique}
        start = render("shared/start", opening)
        messages = [Message(role="system", content=system), Message(role="user", content=start)]
        for turn in view.turns:
            shown = self.told(turn)
            messages.append(said(shown, turn.tokens if shown == turn.reply else None))
            messages.append(Message(role="user", content=turn.observation))
        return messages

    def complete(self, messages: Sequence[Message], *, model: ChatModel | None = None) -> Completion:
        """The model's answer at the agent's temperature. Raises `ModelError`."""
        return (model or self._model).complete(messages, temperature=self._temperature, max_tokens=self._max_tokens)

    def ask(self, messages: Sequence[Message], view: AgentView, *, model: ChatModel | None = None) -> AgentReply:
        """The model's answer, read as an action. Raises `ModelError`."""
        return self.understood(self.complete(messages, model=model), view)

    def understood(self, completion: Completion, view: AgentView) -> AgentReply:
        """The model's answer to `view`, read as an action; where replies are not read, taken as one."""
        if self._raw_replies:
            return AgentReply(
                text=completion.text,
                action=self.raw_action(completion.text, view),
                verbatim=True,
                cut_off=completion.finish_reason == "length",
                usage=completion.usage,
                tokens=completion.tokens,
            )
        action, problem = None, ""
        residue: tuple[str, ...] = ()
        try:
            text, residue = plain_reply(self.whole(completion))
            action = self.read(text, view)
        except ReplyFormatError as error:
            problem = str(error)
        return AgentReply(
            text=completion.text,
            action=action,
            problem=problem,
            cut_off=completion.finish_reason == "length",
            residue=residue,
            usage=completion.usage,
            tokens=completion.tokens,
        )

    def whole(self, completion: Completion) -> str:
        """As `whole_text`, of this agent's answers."""
        return whole_text(completion, self._max_tokens)


def said(text: str, tokens: Tokens | None = None) -> Message:
    """A reply of the model in the history; `tokens` is the call that wrote it, if the text is as it was written."""
    return Message(role="assistant", content=text.strip() or NO_REPLY, tokens=tokens)


def labelled(turn: Turn) -> str:
    """A turn's reply for agents that label their actions: an action carried out in the agent's place gets the label,
    unless it has one of its own."""
    bare = turn.reply.strip() == turn.action and not turn.reply.startswith(("Action:", "Answer:"))
    return f"Action: {turn.action}" if bare else turn.reply


def action_alone(turn: Turn) -> str:
    """A turn's reply for agents whose text is a record of several answers: the action that came of them."""
    return turn.reply if turn.action is None else turn.action
