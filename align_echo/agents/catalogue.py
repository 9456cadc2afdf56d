"""The agents by name. Ours are registered as everybody's are (`registry.py`).

Somebody's own agent is a class with a `name` and a method `act(view)`, made without arguments; a subclass of
`ChatAgent`, made with a chat model; a function that makes an agent; or an `AgentSpec`, which is told what it is made
for.
"""

from __future__ import annotations

from dataclasses import replace

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.faults import check_agent
from align_echo.grammar import with_article
from align_echo.registry import Registry
from align_echo.types import Agent


def _read(name: str, thing: object) -> AgentSpec:
    if isinstance(thing, AgentSpec):
        return replace(thing, name=name)
    if isinstance(thing, type) and issubclass(thing, ChatAgent):
        return _of_chat(name, thing)
    if not callable(thing):
        kind = with_article(type(thing).__name__)
        raise UsageError(f"{name} is {kind}: an agent is a class, or a function that makes one")

    def build(setting: AgentSetting) -> Agent:
        try:
            made: Agent = thing()
        except TypeError as error:
            raise UsageError(
                f"the agent {name} is made without arguments: {error}; one that needs some is an AgentSpec"
            ) from error
        check_agent(made)
        return made

    return AgentSpec(name, _first_line(thing), False, build)


def _of_chat(name: str, kind: type[ChatAgent]) -> AgentSpec:
    def build(setting: AgentSetting) -> Agent:
        preset = setting.preset
        options = preset.get_options(name) if preset is not None else {}
        if setting.temperature is not None:
            options["temperature"] = setting.temperature
        if setting.max_tokens is not None:
            options["max_tokens"] = setting.max_tokens
        made = kind(setting.chat_model(name), **options)
        return made if preset is None else made.under(preset.get_episode_rules(setting.spec.name))

    return AgentSpec(name, _first_line(kind), True, build)


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0].rstrip(".")


AGENTS: Registry[AgentSpec] = Registry("agent", "align_echo.agents", _read)


def agent_spec(name: str) -> AgentSpec:
    """The agent of a name, or of "module:Name". Raises `UsageError` naming those that are nearest."""
    return AGENTS.get(name)
