"""Episodes for clients of the Model Context Protocol, such as a coding agent. Needs the extra `mcp`.

    server = make_server(TaskPanel.build("alfworld", split="valid_unseen"))
    server.run("stdio")

Three tools: `list_tasks`, `reset` and `act`. One process serves one client and holds one episode at a time; concurrent
calls run one after the other. A call that cannot be carried out returns an explanation (`ToolError`) and costs no
turn. Not here: tokens, which stay with the client, and any protection of the task files from a client with a shell on
this machine: such results are no benchmark results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import AlignEchoError, MissingExtraError
from align_echo.loops.driving import ClientSession, TaskPanel, ending, opening
from align_echo.version import __version__

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    VERSION = {"version": __version__}
except ImportError:
    try:  # named so in mcp 1, which OpenEnv requires
        from mcp.server.fastmcp import FastMCP as MCPServer
        from mcp.server.fastmcp.exceptions import ToolError
    except ImportError as error:
        raise MissingExtraError("a server for the Model Context Protocol", "mcp") from error

    VERSION = {}

HOW = "List the tasks, reset to one, and act until the answer says that the episode is over."

MOST_TASKS = 100
"""Maximum number of tasks listed by one call."""


def make_server(panel: TaskPanel, record: JsonlFile | None = None) -> MCPServer:
    """Make a server of these tasks. The environment is closed when the server ends."""
    guest = ClientSession(panel, "mcp", record)

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


def _tools(panel: TaskPanel, guest: ClientSession) -> tuple[Callable[..., str], ...]:
    """Return the tools. The client reads their docstrings."""

    def list_tasks(start: int = 0, count: int = 20) -> str:
        """List `count` task ids (at most 100), starting at number `start`, counted from 0."""
        first = max(start, 0)
        ids = panel.tasks[first : first + min(max(count, 1), MOST_TASKS)]
        return "\n".join([f"{len(panel.tasks)} tasks; from number {first} on:", *ids])

    def reset(task: str) -> str:
        """Begin a task and return its rules, its goal and the first observation. An episode in progress is left."""
        with _in_words():
            return opening(guest.reset(task))

    def act(action: str) -> str:
        """Take one action and return its result. The result says when the episode is over."""
        with _in_words():
            step = guest.act(action)
            end = ending(step, guest.won) if step.terminated or step.truncated else ""
            return "\n".join(filter(None, (step.observation, end)))

    return list_tasks, reset, act


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn errors of the library into messages for the client, so it can do better."""
    try:
        yield
    except AlignEchoError as error:
        raise ToolError(str(error)) from error
