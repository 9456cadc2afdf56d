"""`align-echo serve`: an environment for loops in other processes. Each loop is loaded only where it is asked for.

Left out: how a loop is spoken to (`openenv.py`, `mcp.py`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from align_echo.loops.guests import Offer
from align_echo.session import try_reset
from align_echo.wrappers.serving import usable

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
    """Serve the tasks of a split until it is stopped, or until the client of `mcp` goes.

    `host`, `port` and `sessions` are of OpenEnv, whose address `say` is told. Raises `MissingExtraError`, and as
    `Offer.of` and a first reset do, before anything is served.
    """
    if loop == "mcp":
        from align_echo.loops.mcp import make_server

        make_server(_offered(env, split, interface, record)).run("stdio")
        return
    from align_echo.loops.openenv import LOCAL, MOST_BYTES, make_app

    offer = _offered(env, split, interface, record)
    with _listening(host, port) as listener:
        import uvicorn

        app = make_app(offer, sessions=sessions, hosts=LOCAL if host in LOCAL else ())
        address = f"[{host}]" if ":" in host else host
        under = f" under {offer.interface.label}" if offer.interface else ""
        url = f"http://{address}:{listener.getsockname()[1]}"
        say(f"{len(offer.tasks):,} {offer.split} tasks of {env}{under}: {url}; Ctrl-C ends it")
        config = uvicorn.Config(app, log_level="warning", ws_max_size=MOST_BYTES, timeout_graceful_shutdown=2)
        uvicorn.Server(config).run(sockets=[listener])


def _offered(env: str, split: str | None, interface: str | Path | None, record: Path | None) -> Offer:
    """What is served, once a first task of it has been started: what is missing is said before a client comes."""
    offer = Offer.of(env, split=split, interface=interface, record=record)
    try_reset(offer.spec, offer.tasks[0], split=offer.split, data_root=None)
    return offer


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `UsageError` if the address or the port cannot be used."""
    with usable(host, port):
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
