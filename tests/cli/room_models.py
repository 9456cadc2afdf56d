"""Models of every role of ALIGN's in the two-room world, which keep what they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from align_echo.models.choosing import ModelName
from align_echo.types import Completion, Message
from tests.align.room_world import BOOK, CHECKS, EXPERIMENTS, GOOD_CODE, MUG, SPEC, code, findings, naive_agent


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """The mug is left out where the seed is odd."""
    return [BOOK, MUG] if seed % 2 == 0 else [BOOK]


ROOM = replace(SPEC, training_tasks=training_tasks)
ANNEX = replace(ROOM, name="annex")
def role_of(messages: Sequence[Message]) -> str:
    """Who is asked: a role of ALIGN's, or the agent."""
    roles = {
        "You find out why an agent fails.": "analyzer",
        "You find out why an agent fails in": "hypotheses",
        "You check by experiments": "checker",
        "Somebody makes claims": "analyzer",
        "You write the interface": "optimizer",
    }
    return next((role for words, role in roles.items() if messages[0].content.startswith(words)), "agent")


def answer(messages: Sequence[Message]) -> str:
    """What a model of each role says to a conversation."""
    role, turn = role_of(messages), sum(message.role == "assistant" for message in messages)
    if "give the number of the best" in messages[-1].content:
        return "<choice>1</choice>"
    if messages[0].content.startswith("Somebody makes claims"):
        return "[]"
    if role == "agent":
        action = naive_agent({"messages": [message.model_dump() for message in messages]})
        planned = "Sub-goal:" in messages[0].content
        return f"Plan:\n1. Do it.\nSub-goal: 1\nAction: {action}" if planned else action
    analysis = [findings(), *EXPERIMENTS, findings(support="2, 3, 5, 7")]
    replies = {"analyzer": analysis, "checker": CHECKS, "optimizer": [code(GOOD_CODE)], "hypotheses": ["none"]}
    return replies[role][min(turn, len(replies[role]) - 1)]


@dataclass
class Asked:
    """A question to a model of a name."""

    model: str
    role: str
    words: str
    temperature: float
    max_tokens: int


@dataclass
class Heard:
    """What models were asked; `loaded` are the base URLs and seeds that they were loaded with."""

    asked: list[Asked] = field(default_factory=list)
    loaded: set[tuple[str | None, int]] = field(default_factory=set)

    def models(self, *roles: str) -> str:
        """The names of the models that roles were asked of."""
        return " ".join(sorted({asked.model for asked in self.asked if asked.role in roles}))

    @property
    def roles(self) -> str:
        """The roles of ALIGN's that were asked."""
        return " ".join(sorted({asked.role for asked in self.asked} - {"agent"}))

    @property
    def base_urls(self) -> str:
        return " ".join({str(url) for url, _ in self.loaded})

    @property
    def limits(self) -> list[int]:
        """The bounds of replies."""
        return sorted({asked.max_tokens for asked in self.asked})

    def limits_of(self, role: str) -> list[int]:
        """The bounds of a role's replies."""
        return sorted({asked.max_tokens for asked in self.asked if asked.role == role})


@dataclass
class Listening:
    """A model that keeps what it is asked."""

    name: str
    heard: Heard

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        words = " ".join(message.content for message in messages)
        self.heard.asked.append(Asked(self.name, role_of(messages), words, temperature, max_tokens))
        return Completion(text=answer(messages))


def listen(patch: pytest.MonkeyPatch, records: Sequence[Heard]) -> None:
    """Let every model that is loaded be one that answers, and tell the last of the records."""

    def load(name: ModelName, *, seed: int = 0, processes: int = 0) -> Listening:
        records[-1].loaded.add((name.base_url, seed))
        return Listening(name.text, records[-1])

    patch.setattr("align_echo.agents.players.load_model", load)
