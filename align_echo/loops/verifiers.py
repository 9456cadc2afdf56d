"""Episodes as an environment of verifiers (0.4, its v1): its models play, its traces record the conversation.

An environment of verifiers is a module that exports its parts, such as a file games.py:

    from align_echo.loops.verifiers import EpisodesEnv, EpisodesHarness, EpisodesTaskset

    __all__ = ["EpisodesEnv", "EpisodesHarness", "EpisodesTaskset"]

Play it by its name, on this machine and without an upload:

    vf-eval games --env.taskset.env alfworld --env.taskset.interface probe -n 6 --no-push -m MODEL --client.base-url URL

The prompt and the parser of replies are those of an align-echo agent. The reward "score" is the environment's; "won",
"lost" and "truncated" are metrics, and `info` of the trace has the end and the full `Trajectory`. An episode that
broke is an error of its trace and has no reward. The agent's role is called `player`. Its harness calls the model
within this process (verifiers' own start a process per turn, with `uv`), and its runtime is `subprocess`, where
nothing runs.

Not here: token ids, which exist if verifiers' own training client samples, tools, and sandboxes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

from align_echo.base.network import find_route
from align_echo.errors import EngineError, MissingExtraError, ModelError, UsageError
from align_echo.loops.driving import TaskPanel, classify_end
from align_echo.models.endpoint import check_header_variables
from align_echo.rollout.session import Episode, Session

try:
    import verifiers.v1 as vf
    from openai import APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harnesses.utils.compaction import is_context_overflow
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "verifiers":
        raise
    raise MissingExtraError("an environment of verifiers", "verifiers") from None

__all__ = ["EpisodesEnv", "EpisodesHarness", "EpisodesTaskset"]

ENDS = ("won", "lost", "truncated")


# ---------------------------------------------------------------- tasks


class EpisodesConfig(vf.TasksetConfig):
    """The arguments of `TaskPanel.build`, set under `--env.taskset.*`."""

    env: str = ""
    split: str | None = None
    tasks: int | list[str] | None = None
    interface: str | None = None
    agent: str = "vanilla"
    data_root: str | None = None
    step_limit: int | None = None
    seed: int = 0


class EpisodesTask(vf.Task[vf.TaskData]):
    """A task of an environment, identified by its id."""

    @property
    def key(self) -> str:
        """Return the task's id, the same under any prompt."""
        return self.data.id or super().key


class EpisodesTaskset(vf.Taskset[EpisodesTask, EpisodesConfig]):
    """Tasks of one split. Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line."""

    def __init__(self, config: EpisodesConfig) -> None:
        super().__init__(config)
        if not config.env:
            raise UsageError("say which environment is played: --env.taskset.env alfworld")
        names = ("split", "tasks", "interface", "agent", "data_root", "step_limit", "seed")
        self.panel = TaskPanel.build(config.env, **{name: getattr(config, name) for name in names})

    def load(self) -> Iterator[EpisodesTask]:
        """Yield the tasks in order."""
        for task in self.panel.tasks:
            yield EpisodesTask(vf.TaskData(id=task, name=task), self.config.task)


# ---------------------------------------------------------------- the model


class EpisodesHarnessConfig(vf.HarnessConfig):
    """The settings common to all harnesses."""


class EpisodesHarness(vf.Harness[EpisodesHarnessConfig]):
    """Calls the model once per turn, from this process, through verifiers' interception."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation so far in one request. A full context ends the exchange without a reply."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt)
        check_header_variables()
        route = find_route(endpoint)
        http = DefaultAsyncHttpxClient(trust_env=False, proxy=route.proxy, verify=route.certificates())
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=http) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=messages)
            except APIStatusError as error:
                if not is_context_overflow(error):
                    raise
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


# ---------------------------------------------------------------- episodes


class EpisodesEnvConfig(vf.EnvConfig):
    """The single role, `player`, on this machine."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class EpisodesEnv(vf.Env[EpisodesEnvConfig]):
    """An episode on a task. The environment is the user of the exchange."""

    taskset: EpisodesTaskset

    async def run(self, task: EpisodesTask, agents: vf.Agents) -> None:
        """Play the task to its end. Raises `EngineError`, recorded by verifiers."""
        panel = self.taskset.panel
        session = await asyncio.to_thread(partial(panel.open, agent=panel.agent.name))
        try:
            await asyncio.to_thread(session.reset, Episode(task.data.id or ""))
            system, start = panel.messages(session.view)
            prompted = task.with_data(system_prompt=system.content, prompt=start.content)
            async with agents.player.interaction(prompted) as exchange:
                try:
                    await self._exchange(exchange, session)
                except EngineError:
                    record(exchange.trace, session)
                    raise
                record(exchange.trace, session)
        finally:
            await asyncio.to_thread(session.close)

    async def _exchange(self, exchange: vf.Interaction, session: Session) -> None:
        segment = await exchange.turn()
        while not segment.terminated:
            calls = exchange.trace.calls
            cut_off = bool(calls) and calls[-1].finish_reason == "length"
            reply = self.taskset.panel.reply(session.view, segment.last_reply, cut_off=cut_off)
            step = await asyncio.to_thread(session.act, reply)
            if session.over:
                return
            segment = await exchange.turn(step.observation)
        trace = exchange.trace
        if trace.errors:
            session.fail(ModelError(trace.errors[-1].message))
        elif trace.stop_condition is None:
            session.overflow()


def record(trace: vf.Trace, session: Session) -> None:
    """Record the episode and its reward on the trace. A broken episode has no reward."""
    trajectory = session.trajectory()
    end = classify_end(trajectory)
    trace.info.update(end=end, trajectory=trajectory.model_dump(mode="json"))
    if trajectory.fault is None:
        trace.record_reward("score", trajectory.score)
        trace.record_metrics({name: float(end == name) for name in ENDS})
