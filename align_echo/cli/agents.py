"""The agents by their names on the command line, and what to say about each."""

from __future__ import annotations

from pathlib import Path

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.novice_model import SCRIPTED_MODELS, NoviceModel, scripted_name
from align_echo.agents.novices import make_novice
from align_echo.agents.planning import Planning
from align_echo.agents.react import ReAct
from align_echo.agents.self_consistency import SelfConsistency
from align_echo.agents.self_refine import SelfRefine
from align_echo.agents.vanilla import Vanilla
from align_echo.errors import UsageError
from align_echo.models.endpoint import resolve_base_url
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.catalogue import EnvironmentSpec
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
WORKERS_WITH_MODEL = 8
NO_STEP_LIMIT = 10**9


def check_agent(name: str, model: str | None) -> str:
    """The agent's name, if it is known and has the model it needs. Raises `UsageError`."""
    if name not in AGENTS:
        raise UsageError(f"unknown agent {name!r}; known: {', '.join(AGENTS)}")
    if needs_model(name) and not model:
        raise UsageError(
            f"the agent {name} needs a chat model: add --model NAME or set ALIGN_ECHO_MODEL "
            "(--model novice is a script that needs no endpoint)"
        )
    return name


def needs_model(name: str) -> bool:
    """Whether the agent asks a chat model."""
    return name in CHAT_AGENTS


def is_scripted(model: str | None) -> bool:
    """Whether a model's name stands for a scripted novice, which is no language model and has no endpoint."""
    return model in SCRIPTED_MODELS


def workers_for(name: str, model: str | None) -> int:
    """How many episodes to play at once if the user does not say: a model is waited for, a script is not."""
    return WORKERS_WITH_MODEL if needs_model(name) and not is_scripted(model) else 1


def chat_model(name: str, *, spec: EnvironmentSpec, base_url: str | None, seed: int) -> ChatModel:
    """The agent's chat model: at an endpoint, or a scripted novice of the environment for one of its names.

    Raises `UsageError` when the endpoint needs a key and none is set, or there is no such novice.
    """
    if not is_scripted(name):
        from align_echo.models import load_model

        return load_model(name, base_url=base_url)
    if base_url:
        raise UsageError(f"--model {name} is a script and is asked at no endpoint: leave --base-url out")
    return NoviceModel(spec.name, name, seed=seed)


def model_on_record(name: str | None) -> str | None:
    """How a run's files name a model."""
    return scripted_name(name) if name is not None and is_scripted(name) else name


def endpoint_on_record(name: str | None, base_url: str | None) -> str | None:
    """Where a model is asked; None for a script, or without a model."""
    return None if name is None or is_scripted(name) else resolve_base_url(base_url)


def build_agent(
    name: str, model: ChatModel | None, *, spec: EnvironmentSpec, split: str, data_root: Path | None, seed: int
) -> Agent:
    """The agent of a name that `check_agent` accepted. Raises `UsageError` if it lacks its model."""

    def raw_env() -> TextEnv:
        return spec.module().make_env(split=split, data_root=data_root, step_limit=NO_STEP_LIMIT)

    if needs_model(name):
        if model is None:
            raise UsageError(f"the agent {name} needs a chat model")
        return CHAT_AGENTS[name](model)
    if name in ("expert", "random"):
        from align_echo.agents.privileged import Expert, RandomChoice

        return Expert(raw_env) if name == "expert" else RandomChoice(raw_env, seed=seed)
    return make_novice(spec.name, name, seed=seed)


def about(name: str, model: str | None) -> str:
    """One line for the record: which agent, which model."""
    return f"agent: {name}, model {model_on_record(model)}" if needs_model(name) else f"agent: {name} ({AGENTS[name]})"
