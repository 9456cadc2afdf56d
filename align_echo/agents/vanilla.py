"""The vanilla agent: a chat model that is told the action format and the rules, and answers one action a turn.

The paper's base agent (appendix C): the rules go into the system message, the initial observation into the first user
message, temperature 0. It keeps no state: the next reply is a function of the view.
"""

from __future__ import annotations

from align_echo.agents.parsing import parse_action
from align_echo.errors import ReplyFormatError
from align_echo.models.endpoint import base_url_of
from align_echo.prompts import prompt_hash, render
from align_echo.types import AgentReply, AgentView, ChatModel, Message

PROMPTS = ("vanilla/system", "vanilla/start")
NO_REPLY = "(no reply)"
"""Stands for an empty reply in the history: endpoints refuse an assistant message without content."""


class Vanilla:
    """A chat model as an agent. `max_tokens` bounds one reply."""

    def __init__(self, model: ChatModel, *, temperature: float = 0.0, max_tokens: int = 512) -> None:
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """`vanilla(<model>)`."""
        return f"vanilla({self._model.name})"

    def describe(self) -> dict[str, str]:
        """Its model and endpoint, temperature and prompt hashes, for run records."""
        prompts = {f"prompt.{name}": prompt_hash(name) for name in PROMPTS}
        made_of = {"model.agent": self._model.name, "base_url.agent": base_url_of(self._model)}
        return {**made_of, "temperature": str(self._temperature), **prompts}

    def act(self, view: AgentView) -> AgentReply:
        """The next action; None with the problem in words if the reply is not exactly one. Raises `ModelError`."""
        completion = self._model.complete(
            conversation(view), temperature=self._temperature, max_tokens=self._max_tokens
        )
        action, problem = None, ""
        if completion.finish_reason == "length":
            problem = f"the reply was cut off at {self._max_tokens} tokens; send one short action"
        else:
            try:
                action = parse_action(completion.text)
            except ReplyFormatError as error:
                problem = str(error)
        return AgentReply(text=completion.text, action=action, problem=problem, usage=completion.usage)


def conversation(view: AgentView) -> list[Message]:
    """The chat so far: system, the task, then reply and observation in turn; always ends with a user message."""
    system = render("vanilla/system", {"action_format": view.action_format, "rules": view.rules})
    start = render("vanilla/start", {"initial_observation": view.initial_observation, "goal": view.goal})
    messages = [Message(role="system", content=system), Message(role="user", content=start)]
    for turn in view.turns:
        messages.append(Message(role="assistant", content=turn.reply.strip() or NO_REPLY))
        messages.append(Message(role="user", content=turn.observation))
    return messages
