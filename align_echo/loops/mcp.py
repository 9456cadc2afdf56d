"""Episodes for whoever speaks the Model Context Protocol, such as a coding agent. Needs the extra `mcp`.

    server = make_server(TaskPanel.of("alfworld", split="valid_unseen"))
    server.run("stdio")

Three tools: `list_tasks`, `reset` and `act`. One process serves one client and holds one episode at a time; calls that
come at once are carried out one after the other. What cannot be done is told in words (`ToolError`), and costs no
turn. Left out: tokens, which stay with the client, and any guard between a client that has a shell on this machine and
the files of the tasks: what such a client reaches is no result of a benchmark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from align_echo import __version__
from align_echo.errors import AlignEchoError, MissingExtraError
from align_echo.jsonl import JsonlFile
from align_echo.loops.driving import TaskPanel
from align_echo.loops.guests import Guest, ending, opening

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    VERSION = {"version": __version__}
except ImportError:
    try:  # mcp 1, which OpenEnv asks for, has another name for it
        from mcp.server.fastmcp import FastMCP as MCPServer
        from mcp.server.fastmcp.exceptions import ToolError
    except ImportError as error:
        raise MissingExtraError("a server for the Model Context Protocol", "mcp") from error

    VERSION = {}

HOW = "List the tasks, reset to one, and act until the answer says that the episode is over."

MOST_TASKS = 100
"""Tasks that one call lists."""


def make_server(panel: TaskPanel, record: JsonlFile | None = None) -> MCPServer:
    """A server of these tasks. What was played is closed when it ends."""
    guest = Guest(panel, "mcp", record)

    @asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[None]:
        try:
            yield
        finally:
            guest.close()

    spec = panel.spec
    server = MCPServer(
        "align-echo",
        instructions=f"{spec.summary}\n{HOW}\n{spec.action_format}",
        log_level="WARNING",
        lifespan=lifespan,
        **VERSION,
    )
    for tool in _tools(panel, guest):
        server.tool(structured_output=False)(tool)
    return server


def _tools(panel: TaskPanel, guest: Guest) -> tuple[Callable[..., str], ...]:
    """The tools; their docstrings are what the client is told of them."""

    def list_tasks(start: int = 0, count: int = 20) -> str:
        """The ids of the tasks, `count` of them (at most 100) from number `start` on, which is counted from 0."""
        first = max(start, 0)
        ids = panel.tasks[first : first + min(max(count, 1), MOST_TASKS)]
        return "\n".join([f"{len(panel.tasks)} tasks; from number {first} on:", *ids])

    def reset(task: str) -> str:
        """Begin a task: its rules, its goal and the first observation. An episode that is under way is left."""
        with _in_words():
            return opening(guest.reset(task))

    def act(action: str) -> str:
        """Take one action and read what comes of it. The episode is over when the answer says so."""
        with _in_words():
            step = guest.act(action)
            end = ending(step, guest.won) if step.terminated or step.truncated else ""
            return "\n".join(filter(None, (step.observation, end)))

    return list_tasks, reset, act


@contextmanager
def _in_words() -> Iterator[None]:
    """What the library raises is told to the client, who may do better."""
    try:
        yield
    except AlignEchoError as error:
        raise ToolError(str(error)) from error
