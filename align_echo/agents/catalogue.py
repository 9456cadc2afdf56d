"""Registry of agents by name. Built-in agents register in the same way as those of other packages
(`align_echo/registry.py`).

An agent of your own is a class with a `name` and a method `act(view)` and no constructor arguments; a subclass of
`ChatAgent`, built with a chat model; a function that builds an agent; or an `AgentSpec`, whose `build` receives the
`AgentSetting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.spec import AgentSetting, AgentSpec, check_agent
from align_echo.errors import UsageError
from align_echo.models.tool_calls import ToolSet
from align_echo.registry import Registry, attempt, with_article
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.environment import EnvironmentSpec


def _read_entry(name: str, entry: object) -> AgentSpec:
    spec = _make_spec(name, entry)
    return replace(spec, build=lambda setting: attempt(lambda: spec.build(setting), f"the agent {name} cannot be made"))


def _make_spec(name: str, entry: object) -> AgentSpec:
    if isinstance(entry, AgentSpec):
        return replace(entry, name=name)
    if isinstance(entry, type) and issubclass(entry, ChatAgent):
        return _chat_agent_spec(name, entry)
    if not callable(entry):
        kind = with_article(type(entry).__name__)
        raise UsageError(f"{name} is {kind}: an agent is a class, or a function that makes one")

    def build(setting: AgentSetting) -> Agent:
        try:
            agent: Agent = entry()
        except TypeError as error:
            raise UsageError(
                f"the agent {name} is made without arguments: {error}; one that needs some is an AgentSpec"
            ) from error
        check_agent(agent)
        return agent

    return AgentSpec(name, _first_line(entry), False, build)


def _chat_agent_spec(name: str, kind: type[ChatAgent]) -> AgentSpec:
    def build(setting: AgentSetting) -> Agent:
        preset = setting.preset
        options = preset.get_options(name) if preset is not None else {}
        if setting.temperature is not None:
            options["temperature"] = setting.temperature
        if setting.max_tokens is not None:
            options["max_tokens"] = setting.max_tokens
        agent = kind(setting.chat_model(name), **options).with_history(setting.history)
        if setting.tools:
            agent = agent.with_tools(tools_for(setting.spec, agent.model))
        return agent if preset is None else agent.with_episode_rules(preset.get_episode_rules(setting.spec.name))

    return AgentSpec(name, _first_line(kind), True, build)


def tools_for(spec: EnvironmentSpec, model: ChatModel) -> ToolSet:
    """Return the tools of an environment. Raises `UsageError` if a local model's template writes none."""
    tools = ToolSet.of(spec.tools, spec.action_format)
    check_tools: Callable[[str], None] | None = getattr(model, "check_tools", None)
    if check_tools is not None:
        check_tools(tools.text)
    return tools


def _first_line(entry: object) -> str:
    return (entry.__doc__ or "").strip().partition("\n")[0].rstrip(".")


AGENTS: Registry[AgentSpec] = Registry("agent", "align_echo.agents", _read_entry)


def agent_spec(name: str) -> AgentSpec:
    """Look up an agent by its name or by "module:Name". Raises `UsageError`, with the nearest names, for an unknown
    agent.
    """
    return AGENTS.get(name)
