"""Choose and build an agent with its model from the user's options.

Names are parsed once, by `choose_agent`; afterwards only the agent's `AgentSpec` and the model's `ModelName` are
passed on. Not here: agents with candidate actions chosen by a critic (`evaluate/plan.py`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from align_echo.agents.catalogue import AGENTS, agent_spec
from align_echo.agents.novice_model import NoviceModel
from align_echo.agents.presets import AgentPreset, agent_preset
from align_echo.agents.reasoning import Vanilla
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import MissingDataError, UsageError
from align_echo.models.choosing import (
    POCKET_ENVIRONMENTS,
    ModelName,
    in_precision,
    load_model,
    read_name,
    what_pocket_lacks,
)
from align_echo.models.local import POCKET
from align_echo.models.local.chat_template import OWN_FORMAT, ChatFormat
from align_echo.registry import OURS
from align_echo.types import Agent, ChatModel, Described
from align_echo.wrappers.environment import EnvironmentSpec

NOVICE = "novice"
MODEL_VARIABLE = "ALIGN_ECHO_MODEL"
"""Environment variable with the model of verbs without --model."""

WORKERS_WITH_ENDPOINT = 8
WORKERS_WITH_LOCAL_MODEL = 32


def default_model() -> str | None:
    """Return the model named by the environment variable; None for none."""
    return os.environ.get(MODEL_VARIABLE) or None


@dataclass(frozen=True)
class AgentChoice:
    """An agent and the name of its model; `model` is None if the agent asks no model."""

    agent: AgentSpec
    model: ModelName | None

    def in_precision(self, dtype: str) -> AgentChoice:
        """Return the same agent with its model in another precision. Raises `UsageError` if it has none that can."""
        if self.model is None:
            raise UsageError(f"the agent {self.agent.name} asks no model: leave --dtype out")
        return replace(self, model=in_precision(self.model, dtype))


def choose_agent(
    agent: str | None,
    model: str | ModelName | None,
    environments: Collection[str] = POCKET_ENVIRONMENTS,
    base_url: str | None = None,
    chat: ChatFormat = OWN_FORMAT,
) -> AgentChoice:
    """Choose the agent and model by name, or the defaults. `base_url` is where a model at an endpoint is asked,
    `chat` how its conversations are written and asked for.

    Raises `UsageError` for an unknown agent, an invalid base URL, and options of `chat` that no model takes.

    Without either, the vanilla agent plays with the pocket model if that can run and was trained for the environments,
    else the scripted novice plays by itself. Other agents without a model get the scripted novice as their model.
    """
    ready = not what_pocket_lacks() and POCKET_ENVIRONMENTS.issuperset(environments)
    chosen = agent_spec(agent or (Vanilla.kind if model or ready else NOVICE))
    if not chosen.asks_model:
        if chat.options:
            raise UsageError(f"the agent {chosen.name} asks no model: leave {chat.options} out")
        return AgentChoice(chosen, None)
    default = POCKET if ready and chosen.name == Vanilla.kind else NOVICE
    return AgentChoice(chosen, read_name(model or default, base_url, chat=chat))


def refuse_idle_model(player: AgentChoice, model: str | None) -> None:
    """Raise `UsageError` if --model names a model for an agent without one. A model of the environment variable is
    ignored.
    """
    if player.model is None and model is not None and model != default_model():
        raise UsageError(
            f"the agent {player.agent.name} asks no model: leave --model out, or name an agent that asks one with "
            f"--agent ({', '.join(chat_agents())})"
        )


def choose_preset(name: str | None, players: Sequence[AgentChoice]) -> AgentPreset | None:
    """Look up the agent preset for all players with a model; None for no name.

    Raises `UsageError` for an unknown preset, for an agent the preset has no settings for, and if no agent asks a
    model.
    """
    if name is None:
        return None
    preset, asking = agent_preset(name), [player for player in players if player.model is not None]
    if not asking:
        named = f"the agent {players[0].agent.name} asks no model" if len(players) == 1 else "no agent asks a model"
        raise UsageError(f"{named}: leave --agent-preset out")
    for player in asking:
        preset.get_options(player.agent.name)
    return preset


def choose_turns(turns: int | None, preset: AgentPreset | None, spec: EnvironmentSpec) -> int | None:
    """Return the requested step limit, else that of the preset; None for the environment's own."""
    return preset.turns.get(spec.name) if turns is None and preset is not None else turns


def refuse_tools(player: AgentChoice) -> None:
    """Raise `UsageError` if the agent's model is a script, which calls no tools."""
    if player.model is not None and player.model.is_scripted:
        raise UsageError(f"{player.model} is a script and calls no tools: leave --tools out")


def chat_agents() -> list[str]:
    """List the built-in agents that ask a chat model: the five of the paper."""
    ours = [name for name, entry in AGENTS.entries().items() if entry.origin.startswith(OURS)]
    return [name for name in ours if agent_spec(name).asks_model]


def workers_for(player: AgentChoice) -> int:
    """Return the default number of parallel episodes: more than one only if a model is asked."""
    if player.model is None or player.model.is_scripted:
        return 1
    return WORKERS_WITH_LOCAL_MODEL if player.model.is_local else WORKERS_WITH_ENDPOINT


def chat_model(name: ModelName, *, spec: EnvironmentSpec, seed: int, processes: int = 0) -> ChatModel:
    """Load the agent's chat model, or build the environment's scripted novice if the name is one of its names.

    `processes` are as in `load_model`. Raises as `load_model` does, and `UsageError` if there is no scripted novice.
    """
    if name.is_scripted:
        return NoviceModel(spec.name, name.text, seed=seed)
    return load_model(name, seed=seed, processes=processes)


def model_on_record(name: ModelName | None) -> dict[str, str | None]:
    """Return the `config.json` entries of the agents' model: its name, its endpoint, the options of its chats."""
    if name is None:
        return {"model": None, "base_url": None}
    precision = {"dtype": name.dtype} if name.dtype else {}
    return {"model": name.on_record, "base_url": name.base_url, **name.chat.on_record, **precision}


def build_agent(agent: AgentSpec, setting: AgentSetting) -> Agent:
    """Build the agent for a setting.

    Raises `UsageError` if it lacks its model, if it asks no model but has a setting for one, or if the temperature is
    not finite.
    """
    if setting.temperature is not None and not math.isfinite(setting.temperature):
        raise UsageError(f"--temperature must be a number, not {setting.temperature}")
    model_options = {
        "--temperature": setting.temperature, "--max-tokens": setting.max_tokens, "--agent-preset": setting.preset,
        "--history-turns": setting.history.turns, "--history-tokens": setting.history.tokens,
        "--tools": setting.tools or None,
    }  # fmt: skip
    for option, value in model_options.items():
        if value is not None and not agent.asks_model:
            raise UsageError(f"the agent {agent.name} asks no model: leave {option} out")
    return agent.build(setting)


def require_expert(spec: EnvironmentSpec, split: str, task_ids: Sequence[str], data_root: Path | None) -> None:
    """Raise `UsageError` if tasks of a split have no expert, naming a part of the split in which all have one."""
    lacking = sum(not spec.has_expert(task) for task in task_ids)
    if not lacking:
        return
    all_tasks = set(spec.tasks(split, data_root))
    fit = []
    for name in spec.splits:
        with contextlib.suppress(MissingDataError):  # a custom folder may hold only some splits
            ids = spec.tasks(name, data_root)
            if name != split and all_tasks.issuperset(ids) and all(map(spec.has_expert, ids)):
                fit.append(name)
    hint = f"; all of the split {fit[0]} have one" if fit else ""
    raise UsageError(f"{lacking} of {len(task_ids)} tasks of {spec.name}'s split {split} have no expert{hint}")


def describe_agent(agent: Agent) -> dict[str, str]:
    """Return an agent's own description; empty for an agent without one."""
    return agent.describe() if isinstance(agent, Described) else {}


def about(player: AgentChoice, details: Mapping[str, str]) -> str:
    """Describe agent, model and, if known, weights in one line for the record."""
    name = player.agent.name
    if player.model is None:
        return f"agent: {name} ({player.agent.about})" if player.agent.about else f"agent: {name}"
    line = f"agent: {name}, model {player.model.on_record}"
    line += f", weights {details['weights.agent'][:12]}" if "weights.agent" in details else ""
    line += f", preset {details['preset']}" if "preset" in details else ""
    if "best_of" not in details:
        return line
    judge, rule = details.get("model.judge"), f"the rule {details['pick']!r}"
    by = judge if judge and details["pick"] == "critic" else f"{rule} and {judge}" if judge else rule
    return f"{line}, best of {details['best_of']} at temperature {details['temperature']} by {by}"
