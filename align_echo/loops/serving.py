"""`align-echo serve`: an environment for loops in other processes. A loop's library is imported only when it is used.

Not here: the protocols (`openenv.py`, `mcp.py`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import UsageError
from align_echo.loops.driving import TaskPanel
from align_echo.rollout.session import try_reset
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.serving import check_address

Loop = Literal["openenv", "mcp"]


def serve(
    loop: Loop,
    env: str,
    split: str | None,
    interface: str | Path | None,
    record: Path | None,
    host: str,
    port: int,
    sessions: int,
    say: Callable[[str], None],
) -> None:
    """Serve the tasks of a split until stopped, or until the client of `mcp` disconnects.

    `split` None is the training split. `host`, `port` and `sessions` apply to OpenEnv; `say` receives its address.
    Raises `MissingExtraError`, and the errors of `TaskPanel.build` and of a first reset, before it serves anything.
    """
    record_file = None if record is None else JsonlFile(record)
    if loop == "mcp":
        from align_echo.loops.mcp import make_server

        make_server(_panel(env, split, interface), record_file).run("stdio")
        return
    from align_echo.loops.openenv import LOCAL, MOST_BYTES, make_app

    panel = _panel(env, split, interface)
    with _listening(host, port) as listener:
        import uvicorn

        app = make_app(panel, sessions=sessions, hosts=LOCAL if host in LOCAL else (), record=record_file)
        address = f"[{host}]" if ":" in host else host
        under_interface = f" under {panel.interface.label}" if panel.interface else ""
        url = f"http://{address}:{listener.getsockname()[1]}"
        say(f"{len(panel.tasks):,} {panel.split} tasks of {env}{under_interface}: {url}; Ctrl-C ends it")
        config = uvicorn.Config(
            app, log_level="warning", workers=1, ws_max_size=MOST_BYTES, timeout_graceful_shutdown=2
        )
        uvicorn.Server(config).run(sockets=[listener])


def _panel(env: str, split: str | None, interface: str | Path | None) -> TaskPanel:
    """Build the panel and start its first task, so that missing data is reported before a client connects."""
    spec = environment(env)
    panel = TaskPanel.build(spec, split=split or spec.train_split, interface=interface)
    if not panel.tasks:
        raise UsageError(f"the split {panel.split} of {spec.name} has no tasks to play")
    try_reset(spec, panel.tasks[0], split=panel.split, data_root=None)
    return panel


def _listening(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises `UsageError` if the address or the port cannot be used."""
    with check_address(host, port):
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
