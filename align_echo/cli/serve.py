"""`align-echo serve`: the episodes of an environment, for another library's loop (`align_echo/loops`)."""

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli.options import Env, InterfaceName
from align_echo.loops import serving


def serve(
    loop: Annotated[serving.Loop, typer.Argument(help="openenv: a server on a port; mcp: a client that starts this.")],
    env: Env,
    split: Annotated[str | None, typer.Option("--split", help="Default: the environment's training split.")] = None,
    interface: InterfaceName = "none",
    record: Annotated[Path | None, typer.Option("--record", help="A .jsonl to add every episode to.")] = None,
    host: Annotated[str, typer.Option("--host", help="Host of openenv; default: this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of openenv; 0 takes a free one.")] = 8000,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Most clients of openenv at once.")] = 64,
) -> None:
    """Serve the episodes of an environment to OpenEnv's clients, or to a client of the Model Context Protocol."""
    serving.serve(loop, env, split, interface, record, host, port, sessions, typer.echo)
