"""Presets of the chat agents: settings of agents and of their episodes under one name.

`align-paper` follows the public code of ALIGN (github.com/THUNLP-MT/ALIGN, read in November 2026): sampling, calls a
turn, tokens, raw replies, turns, and the end of episodes with repeated actions. Not included: its prompts, which differ
from ours, and its limit of 200 tokens for one agent in ScienceWorld, where the others have 1,024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from align_echo.errors import UsageError, did_you_mean

MANY_TOKENS = 1024


@dataclass(frozen=True)
class EpisodeRules:
    """Rules of a preset for an agent's episodes. `repeat_limit`: how often an action may be repeated in a row before
    the episode ends (None: no limit).
    """

    preset: str = ""
    repeat_limit: int | None = None

    def are_too_many(self, actions: Sequence[str | None]) -> bool:
        """Return whether the last action was repeated to the limit."""
        if self.repeat_limit is None or len(actions) <= self.repeat_limit:
            return False
        return actions[-1] is not None and len({*actions[-self.repeat_limit - 1 :]}) == 1

    def describe(self) -> dict[str, str]:
        """Return the entries for run records; empty without rules."""
        limit = {} if self.repeat_limit is None else {"repeat_limit": str(self.repeat_limit)}
        return {"preset": self.preset, **limit} if self.preset else limit


def get_episode_rules(agent: object) -> EpisodeRules:
    """Return an agent's own episode rules; empty rules for an agent without any."""
    rules = getattr(agent, "episode_rules", None)
    return rules if isinstance(rules, EpisodeRules) else EpisodeRules()


@dataclass(frozen=True)
class AgentPreset:
    """Settings of agents under one name. `options` are constructor arguments by agent name; `turns` are step limits by
    environment, where they differ from the environment's own; `repeat_limit` applies to all environments not in
    `may_repeat`.
    """

    name: str
    options: Mapping[str, Mapping[str, Any]]
    turns: Mapping[str, int] = field(default_factory=dict)
    repeat_limit: int | None = None
    may_repeat: frozenset[str] = frozenset()

    def get_options(self, agent: str) -> dict[str, Any]:
        """Return the constructor arguments of an agent. Raises `UsageError` for an agent unknown to the preset."""
        if agent not in self.options:
            known = ", ".join(self.options)
            raise UsageError(f"the agent preset {self.name} has no settings of the agent {agent}; use one of {known}")
        return dict(self.options[agent])

    def get_episode_rules(self, environment: str) -> EpisodeRules:
        """Return the episode rules for an environment."""
        return EpisodeRules(self.name, None if environment in self.may_repeat else self.repeat_limit)


_GREEDY = MappingProxyType({"temperature": 0.0, "max_tokens": MANY_TOKENS, "raw_replies": True})

ALIGN_PAPER = AgentPreset(
    name="align-paper",
    options={
        "vanilla": _GREEDY,
        "react": _GREEDY,
        "self-consistency": {**_GREEDY, "temperature": 0.3, "samples": 3},
        "self-refine": {**_GREEDY, "review": "final-action"},
        "planning": {**_GREEDY, "plan_call": True},
    },
    turns={"alfworld": 100, "scienceworld": 100, "webshop": 30, "m3tooleval": 10},
    repeat_limit=7,
    may_repeat=frozenset({"webshop", "m3tooleval"}),
)

PRESETS = {preset.name: preset for preset in (ALIGN_PAPER,)}


def agent_preset(name: str) -> AgentPreset:
    """Look up a preset by name. Raises `UsageError`, with the known names, for an unknown preset."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise UsageError(f"unknown agent preset {name!r}; {hint}known: {', '.join(PRESETS)}")
    return PRESETS[name]
