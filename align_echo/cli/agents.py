"""The agents by their names on the command line, and what to say about each."""

from __future__ import annotations

from align_echo.errors import UsageError
from align_echo.types import Agent, ChatModel

SCRIPTED = "a scripted stand-in for a small model, NOT a language model"
AGENTS = {
    "novice": f"{SCRIPTED}; offline",
    "novice-careful": "the same, but it goes to places first, so it fails in other ways",
    "novice-stubborn": "the same, but it never takes a hint",
    "vanilla": "a chat model that gets the task, the rules and the turns so far (needs --model)",
}

WORKERS_WITH_MODEL = 8


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


def build_agent(name: str, model: ChatModel | None, seed: int) -> Agent:
    """The agent of a name that `check_agent` accepted. Raises `UsageError` if it lacks its model."""
    if not needs_model(name):
        from align_echo.agents.novice import CAREFUL, STUBBORN, Habits, Novice

        habits = {"novice": Habits(), "novice-careful": CAREFUL, "novice-stubborn": STUBBORN}
        return Novice(habits[name], seed=seed, name=name)
    if model is None:
        raise UsageError(f"the agent {name} needs a chat model")
    from align_echo.agents.vanilla import Vanilla

    return Vanilla(model)


def about(name: str, model: str | None) -> str:
    """One line for the record: which agent, which model."""
    if needs_model(name):
        return f"agent: {name}, model {model}"
    return f"agent: {name} ({SCRIPTED})"
