"""Presets of the chat agents: settings of agents and of their episodes under one name.

`align-paper` has what the public code of ALIGN does (github.com/THUNLP-MT/ALIGN, read in November 2026): sampling,
calls a turn, tokens, replies that are sent as they are, turns, and where an episode of repeats ends. Left out: its
prompts, which are not these; its 200 tokens for one action in ScienceWorld, where the others have 1,024.
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
    """What a preset says of an agent's episodes. `repeat_limit` is how often an action may be sent again in a row: the
    last of these ends the episode. None: as often as it likes.
    """

    preset: str = ""
    repeat_limit: int | None = None

    def are_too_many(self, actions: Sequence[str | None]) -> bool:
        """Return whether the last of an episode's actions was repeated to the limit."""
        if self.repeat_limit is None or len(actions) <= self.repeat_limit:
            return False
        return actions[-1] is not None and len({*actions[-self.repeat_limit - 1 :]}) == 1

    def describe(self) -> dict[str, str]:
        """Return what a run records of them; nothing for none."""
        limit = {} if self.repeat_limit is None else {"repeat_limit": str(self.repeat_limit)}
        return {"preset": self.preset, **limit} if self.preset else limit


def get_episode_rules(agent: object) -> EpisodeRules:
    """Return an agent's own rules of an episode; none for an agent that has none."""
    rules = getattr(agent, "episode_rules", None)
    return rules if isinstance(rules, EpisodeRules) else EpisodeRules()


@dataclass(frozen=True)
class AgentPreset:
    """Settings of agents under one name. `options` are arguments of each agent's class, by the agent's name; `turns` is
    the step limit by environment, where it is not the environment's own; `repeat_limit` holds everywhere but in
    `may_repeat`.
    """

    name: str
    options: Mapping[str, Mapping[str, Any]]
    turns: Mapping[str, int] = field(default_factory=dict)
    repeat_limit: int | None = None
    may_repeat: frozenset[str] = frozenset()

    def get_options(self, agent: str) -> dict[str, Any]:
        """Return the arguments of an agent's class. Raises `UsageError` for an agent that the preset does not know."""
        if agent not in self.options:
            known = ", ".join(self.options)
            raise UsageError(f"the agent preset {self.name} has no settings of the agent {agent}; use one of {known}")
        return dict(self.options[agent])

    def get_episode_rules(self, environment: str) -> EpisodeRules:
        """Return what holds of every episode in an environment."""
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
    """Return the preset of a name. Raises `UsageError` that names the known ones."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise UsageError(f"unknown agent preset {name!r}; {hint}known: {', '.join(PRESETS)}")
    return PRESETS[name]
