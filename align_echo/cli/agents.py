"""The agents by their names on the command line, and what to say about each."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent
from align_echo.agents.novice_model import SCRIPTED_MODELS, NoviceModel, scripted_name
from align_echo.agents.novices import make_novice
from align_echo.agents.planning import Planning
from align_echo.agents.react import ReAct
from align_echo.agents.self_consistency import SelfConsistency
from align_echo.agents.self_refine import SelfRefine
from align_echo.agents.vanilla import Vanilla
from align_echo.align.backend import Described
from align_echo.errors import UsageError
from align_echo.models.endpoint import resolve_base_url
from align_echo.models.names import POCKET, POCKET_ENVIRONMENTS, has_endpoint, is_local, what_pocket_lacks
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.catalogue import EnvironmentSpec, tasks
from align_echo.wrappers.text_env import TextEnv

CHAT_AGENTS: dict[str, type[ChatAgent]] = {
    agent.kind: agent for agent in (Vanilla, ReAct, SelfConsistency, SelfRefine, Planning)
}
"""The agents that ask a chat model: the five of the paper."""

AGENTS = {
    "vanilla": "a chat model that gets the task, the rules and the turns so far, and answers one action",
    "react": "a chat model that writes a thought and then an action",
    "self-consistency": "a chat model that is asked several times; the action named most often is taken",
    "self-refine": "a chat model that reviews its action and improves it before it acts",
    "planning": "a chat model that plans sub-goals first and then acts on them",
    "novice": "a scripted stand-in for a small model, NOT a language model",
    "novice-careful": "a scripted novice that goes to places first; NOT a language model",
    "novice-stubborn": "a scripted novice that never takes a hint; NOT a language model",
    "expert": "the environment's own expert, which sees the hidden state: a ceiling, not an agent",
    "random": "draws among the actions that the engine accepts or offers: a floor, not an agent",
}
NOVICE = "novice"
MODEL_VARIABLE = "ALIGN_ECHO_MODEL"
"""Names the model of commands that name none."""

WORKERS_WITH_ENDPOINT = 8
WORKERS_WITH_LOCAL_MODEL = 32
NO_STEP_LIMIT = 10**9


@dataclass(frozen=True)
class Player:
    """Who plays: the agent's name, and that of its model; None where it needs none."""

    agent: str
    model: str | None


def choose_player(
    agent: str | None, model: str | None, environments: Collection[str] = POCKET_ENVIRONMENTS
) -> Player:
    """The agent and model asked for, or the defaults. Raises `UsageError` for an agent that is not known.

    Without either, the vanilla agent plays with the pocket model where that can run and learned to act in the
    environments, else the scripted novice by itself. Other agents without a model get the scripted novice as one.
    """
    ready = not what_pocket_lacks() and POCKET_ENVIRONMENTS.issuperset(environments)
    if agent is None:
        agent = Vanilla.kind if model or ready else NOVICE
    if agent not in AGENTS:
        raise UsageError(f"unknown agent {agent!r}; known: {', '.join(AGENTS)}")
    if not needs_model(agent):
        return Player(agent, None)
    return Player(agent, model or (POCKET if ready and agent == Vanilla.kind else NOVICE))


def refuse_idle_model(player: Player, model: str | None) -> None:
    """Raises `UsageError` for a model that the command names and nobody would ask. One that the environment variable
    names is there for other commands."""
    if player.model is None and model is not None and model != os.environ.get(MODEL_VARIABLE):
        raise UsageError(
            f"the agent {player.agent} asks no model: leave --model out, or name an agent that asks one with --agent "
            f"({', '.join(CHAT_AGENTS)})"
        )


def needs_model(name: str) -> bool:
    """Whether the agent asks a chat model."""
    return name in CHAT_AGENTS


def is_scripted(model: str | None) -> bool:
    """Whether a model's name stands for a scripted novice, which is no language model and has no endpoint."""
    return model in SCRIPTED_MODELS


def workers_for(player: Player) -> int:
    """How many episodes to play at once if the user does not say: a model is waited for, a script is not."""
    if player.model is None or is_scripted(player.model):
        return 1
    return WORKERS_WITH_LOCAL_MODEL if is_local(player.model) else WORKERS_WITH_ENDPOINT


def chat_model(name: str, *, spec: EnvironmentSpec, base_url: str | None, seed: int) -> ChatModel:
    """The agent's chat model: what `load_model` finds, or a scripted novice of the environment for one of its names.

    Raises what `load_model` does, and `UsageError` when there is no such novice.
    """
    if not is_scripted(name):
        from align_echo.models import load_model

        return load_model(name, base_url=base_url, seed=seed)
    if base_url:
        raise UsageError(f"--model {name} is a script and is asked at no endpoint: leave --base-url out")
    return NoviceModel(spec.name, name, seed=seed)


def model_on_record(name: str | None) -> str | None:
    """How a run's files name a model."""
    return scripted_name(name) if name is not None and is_scripted(name) else name


def endpoint_on_record(name: str | None, base_url: str | None) -> str | None:
    """Where a model is asked; None for a script or a model in this process, or without a model."""
    return None if name is None or is_scripted(name) or not has_endpoint(name) else resolve_base_url(base_url)


def build_agent(
    name: str,
    model: ChatModel | None,
    *,
    spec: EnvironmentSpec,
    split: str,
    data_root: Path | None,
    seed: int,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Agent:
    """The agent of a name that `choose_player` gave; `temperature` and `max_tokens` None are the agent's own.

    Raises `UsageError` if it lacks its model, or has none to set them of, or a temperature that is no number.
    """
    if temperature is not None and not math.isfinite(temperature):
        raise UsageError(f"--temperature must be a number, not {temperature}")

    def raw_env() -> TextEnv:
        return spec.module().make_env(split=split, data_root=data_root, step_limit=NO_STEP_LIMIT)

    if needs_model(name):
        if model is None:
            raise UsageError(f"the agent {name} needs a chat model")
        kind = CHAT_AGENTS[name]
        limit = MAX_TOKENS if max_tokens is None else max_tokens
        given = {} if temperature is None else {"temperature": temperature}
        return kind(model, max_tokens=limit, **given)
    for option, value in (("--temperature", temperature), ("--max-tokens", max_tokens)):
        if value is not None:
            raise UsageError(f"the agent {name} asks no model: leave {option} out")
    if name in ("expert", "random"):
        from align_echo.agents.privileged import Expert, RandomChoice

        return Expert(raw_env) if name == "expert" else RandomChoice(raw_env, seed=seed)
    return make_novice(spec.name, name, seed=seed)


def require_expert(spec: EnvironmentSpec, split: str, task_ids: Sequence[str], data_root: Path | None) -> None:
    """Raises `UsageError` where tasks of a split have no expert, naming a part of it in which all have one."""
    lacking = sum(not spec.has_expert(one) for one in task_ids)
    if not lacking:
        return
    whole = set(tasks(spec.name, split=split, data_root=data_root))
    within = {one: tasks(spec.name, split=one, data_root=data_root) for one in spec.splits if one != split}
    fit = [one for one, ids in within.items() if whole.issuperset(ids) and all(spec.has_expert(task) for task in ids)]
    told = f"; all of the split {fit[0]} have one" if fit else ""
    raise UsageError(f"{lacking} of {len(task_ids)} tasks of {spec.name}'s split {split} have no expert{told}")


def about(player: Player, agent: Agent) -> str:
    """One line for the record: which agent, which model, which weights where they are known."""
    if not needs_model(player.agent):
        return f"agent: {player.agent} ({AGENTS[player.agent]})"
    details = agent.describe() if isinstance(agent, Described) else {}
    line = f"agent: {player.agent}, model {model_on_record(player.model)}"
    line += f", weights {details['weights.agent'][:12]}" if "weights.agent" in details else ""
    if "best_of" not in details:
        return line
    judge, rule = details.get("model.judge"), f"the rule {details['pick']!r}"
    by = judge if judge and details["pick"] == "critic" else f"{rule} and {judge}" if judge else rule
    return f"{line}, best of {details['best_of']} at temperature {details['temperature']} by {by}"
