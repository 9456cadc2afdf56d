"""An environment as an OpenEnv server, and a client for it. Needs the extra `openenv`.

    app = make_app(TaskPanel.build("alfworld", split="valid_unseen"), sessions=16)     # serving.py runs it

    with EpisodeClient(base_url="http://127.0.0.1:8000").sync() as client:
        result = client.reset(task=task)
        while not result.done:
            result = client.step(TextAction(action=my_policy(result.observation)))
        if result.observation.truncated: ...

Each connection has its own environment and episodes. It is closed when the client disconnects or sends nothing for
`IDLE` seconds. `reset` takes `task`, or `index` in the split, or draws a task with `seed`. OpenEnv has one end flag,
`done`; here `terminated` and `truncated` are fields of the observation, beside `score` and `won`. If the environment
breaks, the client gets an error, not a reward of 0. Not here: tokens, which stay with the client, and access control.
Anyone who reaches the port may connect, so the server listens on this machine only by default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, WithJsonSchema

from align_echo.base.dice import Dice
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import AlignEchoError, MissingExtraError, UsageError
from align_echo.loops.driving import ClientSession, TaskPanel, describe_json_type
from align_echo.types import AgentView, Step
from align_echo.version import __version__

try:
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse
    from openenv.core import EnvClient
    from openenv.core.client_types import StepResult
    from openenv.core.env_server import Environment, create_app
    from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
except ImportError as error:
    raise MissingExtraError("a server or a client of OpenEnv", "openenv") from error

IDLE = 3600.0
"""Seconds of silence after which a connection loses its environment."""

MOST_BYTES = 2_000_000
"""Maximum size of a message: the longest action with every character as a JSON escape."""

LOCAL = ("127.0.0.1", "localhost", "::1")


class TextAction(Action):  # type: ignore[misc]
    """One action. Its value is validated when it is played, so that the client gets a readable error."""

    action: Annotated[Any, WithJsonSchema({"type": "string"})] = Field(description="As the action format says.")


class TextObservation(Observation):  # type: ignore[misc]
    """An observation and the state of the episode. `rules`, `goal` and `action_format` come with a reset."""

    text: str
    task_id: str = ""
    goal: str = ""
    rules: str = ""
    action_format: str = ""
    score: float = 0.0
    won: bool = False
    terminated: bool = False
    truncated: bool = False


class TextState(State):  # type: ignore[misc]
    """State of a connection."""

    environment: str
    split: str
    interface: str = "none"
    task_id: str = ""
    score: float = 0.0


class EpisodeEnvironment(Environment[TextAction, TextObservation, TextState]):  # type: ignore[misc]
    """Episodes of one connection. Loads nothing before the first reset, because OpenEnv makes an instance for each
    query.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, panel: TaskPanel, record: JsonlFile | None) -> None:
        super().__init__()
        self._panel = panel
        self._guest = ClientSession(panel, "openenv", record)
        label = panel.interface.label if panel.interface else "none"
        self._state = TextState(environment=panel.spec.name, split=panel.split, interface=label)

    def reset(
        self,
        seed: object = None,
        episode_id: str | None = None,
        *,
        task: object = None,
        index: object = None,
        split: object = None,
        **unknown: object,
    ) -> TextObservation:
        """Begin a task: `task` by its id, number `index` of the split (counted from 0), or one drawn with `seed`.

        Raises `UsageError`, `EngineError`, or the error from making the environment.
        """
        if unknown:
            raise UsageError(f"reset takes seed, episode_id, task, index and split, not {sorted(unknown)[0][:100]}")
        self._check_split(split)
        view = self._guest.reset(self._chosen(task, index, seed))
        self._state = self._state.model_copy(
            update={"episode_id": episode_id, "step_count": 0, "task_id": view.task_id, "score": 0.0}
        )
        return _beginning(view)

    def step(self, action: TextAction, timeout_s: float | None = None) -> TextObservation:
        """Take one turn. Raises `UsageError` and `EngineError`."""
        if not self._state.task_id:
            raise UsageError("no episode was begun: call reset first, over the same WebSocket (/ws)")
        step = self._guest.act(action.action)
        done = step.terminated or step.truncated
        count = self._state.step_count + 1
        self._state = self._state.model_copy(update={"step_count": count, "score": step.score})
        return _answer(step, self._state.task_id, won=done and self._guest.won)

    @property
    def state(self) -> TextState:
        """State of the connection."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the name, summary and version of the environment."""
        spec = self._panel.spec
        return EnvironmentMetadata(name=spec.name, description=spec.summary, version=__version__)

    def close(self) -> None:
        """Close the episodes of a client that has left."""
        self._guest.close()

    # ------------------------------------------------------------ OpenEnv's task queries

    def list_splits(self) -> list[str]:
        """List the one served split."""
        return [self._panel.split]

    def num_tasks(self, split: str) -> int:
        """Count the tasks. Raises `UsageError` for another split."""
        self._check_split(split)
        return len(self._panel.tasks)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """List all tasks. Raises `UsageError` for another split."""
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task. Raises `UsageError` for another split, `IndexError` for an unknown index."""
        self._check_split(split)
        if index < 0:
            raise IndexError(index)
        return self._task(index, self._panel.tasks[index])

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return the tasks from `start` up to, but not including, `stop`. Raises `UsageError` for another split."""
        self._check_split(split)
        return [self._task(index, task) for index, task in [*enumerate(self._panel.tasks)][start:stop]]

    def _task(self, index: int, task: str) -> dict[str, Any]:
        return {"id": task, "index": index, "task_type": self._panel.spec.task_type(task)}

    # ------------------------------------------------------------ a client's request

    def _check_split(self, split: object) -> None:
        if split is not None and split != self._panel.split:
            raise UsageError(f"this server has the split {self._panel.split} of {self._panel.spec.name} and no other")

    def _chosen(self, task: object, index: object, seed: object) -> object:
        tasks = self._panel.tasks
        if task is not None:
            return task
        if index is not None:
            if type(index) is not int or not 0 <= index < len(tasks):
                raise UsageError(f"index is a whole number from 0 to {len(tasks) - 1}, the number of a task")
            return tasks[index]
        if seed is None:
            return random.SystemRandom().choice(tasks)
        if type(seed) is not int:
            raise UsageError(f"a seed is a whole number, not {describe_json_type(seed)}")
        return Dice(f"task {seed}").pick(tasks)


def _beginning(view: AgentView) -> TextObservation:
    return TextObservation(
        text=view.initial_observation,
        task_id=view.task_id,
        goal=view.goal,
        rules=view.rules,
        action_format=view.action_format,
    )


def _answer(step: Step, task_id: str, *, won: bool) -> TextObservation:
    return TextObservation(
        text=step.observation,
        task_id=task_id,
        reward=step.reward,
        done=step.terminated or step.truncated,
        score=step.score,
        won=won,
        terminated=step.terminated,
        truncated=step.truncated,
    )


# ---------------------------------------------------------------- client


class EpisodeClient(EnvClient[TextAction, TextObservation, TextState]):  # type: ignore[misc]
    """Connection to such a server: `reset(task=...)`, `step(TextAction(action=...))`, `state()`; `.sync()` blocks.

    Clients without align-echo can use OpenEnv's `GenericEnvClient`, which works with dicts.
    """

    def _step_payload(self, action: TextAction) -> dict[str, Any]:
        return {"action": action.action}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextObservation]:
        ending = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = TextObservation.model_validate({**payload["observation"], **ending})
        return StepResult(observation=observation, **ending)

    def _parse_state(self, payload: dict[str, Any]) -> TextState:
        return TextState(**payload)


# ---------------------------------------------------------------- server

MODE_VARIABLE, MODES = "OPENENV_MODE", ("simulation", "production")

Scope = MutableMapping[str, Any]
Exchange = Callable[..., Awaitable[Any]]


def make_app(
    panel: TaskPanel, *, sessions: int, hosts: Sequence[str] = (), record: JsonlFile | None = None
) -> FastAPI:
    """Make OpenEnv's application over these tasks, with at most `sessions` connections at once.

    `hosts`: accepted host names, as protection from browsers sent here by other pages; () accepts all. Raises
    `UsageError` for an unknown `$OPENENV_MODE`.
    """
    mode = os.environ.get(MODE_VARIABLE, MODES[0])
    if mode.lower() not in MODES:
        raise UsageError(f"${MODE_VARIABLE} must be {' or '.join(MODES)}, not {mode!r}")
    app = create_app(
        partial(EpisodeEnvironment, panel, record),
        TextAction,
        TextObservation,
        env_name=panel.spec.name,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=IDLE),
        state_cls=TextState,
    )
    app.add_exception_handler(AlignEchoError, _refused)
    app.add_middleware(_Doorkeeper, hosts=tuple(hosts))
    return app


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=400)


class _Doorkeeper:
    """Middleware that rejects requests from other servers' web pages, and bodies that are too long or have no length.
    """

    def __init__(self, app: Exchange, hosts: tuple[str, ...]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Exchange, send: Exchange) -> None:
        problem = self._problem(scope) if scope["type"] in ("http", "websocket") else ""
        if not problem:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await JSONResponse({"detail": problem}, status_code=403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": problem})

    def _problem(self, scope: Scope) -> str:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        try:
            called, origin = urlsplit(f"//{host}").hostname, urlsplit(headers.get("origin", f"//{host}")).netloc
        except ValueError:  # brackets without an address
            return "its host or origin cannot be read"
        if self._hosts and called not in self._hosts:
            return f"this server is called {self._hosts[0]}"
        if origin != host:
            return "pages of other servers are not answered"
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal() or len(length) > 12 or int(length) > MOST_BYTES:
            return f"a body says how long it is and has at most {MOST_BYTES:,} bytes"
        return ""
