"""The agents by their names on the command line, and what to say about each."""

from __future__ import annotations

from pathlib import Path

from align_echo.agents.novices import make_novice
from align_echo.errors import UsageError
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.catalogue import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

AGENTS = {
    "vanilla": "a chat model that gets the task, the rules and the turns so far",
    "novice": "a scripted stand-in for a small model, NOT a language model",
    "novice-careful": "a scripted novice that goes to places first; NOT a language model",
    "novice-stubborn": "a scripted novice that never takes a hint; NOT a language model",
    "expert": "the environment's own expert, which sees the hidden state: a ceiling, not an agent",
    "random": "draws among the actions that the engine would accept: a floor, not an agent",
}
WORKERS_WITH_MODEL = 8
NO_STEP_LIMIT = 10**9


def check_agent(name: str, model: str | None) -> str:
    """The agent's name, if it is known and has the model it needs. Raises `UsageError`."""
    if name not in AGENTS:
        raise UsageError(f"unknown agent {name!r}; known: {', '.join(AGENTS)}")
    if needs_model(name) and not model:
        raise UsageError(f"the agent {name} needs a chat model: add --model NAME or set ALIGN_ECHO_MODEL")
    return name


def needs_model(name: str) -> bool:
    """Whether the agent asks a chat model."""
    return name == "vanilla"


def workers_for(name: str) -> int:
    """How many episodes to play at once if the user does not say: a model is waited for, a script is not."""
    return WORKERS_WITH_MODEL if needs_model(name) else 1


def build_agent(
    name: str, model: ChatModel | None, *, spec: EnvironmentSpec, split: str, data_root: Path | None, seed: int
) -> Agent:
    """The agent of a name that `check_agent` accepted. Raises `UsageError` if it lacks its model."""

    def raw_env() -> TextEnv:
        return spec.module().make_env(split=split, data_root=data_root, step_limit=NO_STEP_LIMIT)

    if needs_model(name):
        from align_echo.agents.vanilla import Vanilla

        if model is None:
            raise UsageError(f"the agent {name} needs a chat model")
        return Vanilla(model)
    if name in ("expert", "random"):
        from align_echo.agents.privileged import Expert, RandomChoice

        return Expert(raw_env) if name == "expert" else RandomChoice(raw_env, seed=seed)
    return make_novice(spec.name, name, seed=seed)


def about(name: str, model: str | None) -> str:
    """One line for the record: which agent, which model."""
    return f"agent: {name}, model {model}" if needs_model(name) else f"agent: {name} ({AGENTS[name]})"
