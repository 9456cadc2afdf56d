"""`align-echo shop`: a task of WebShop in the browser, so that a person can shop it and see the score."""

from __future__ import annotations

from typing import Annotated

import typer

from align_echo.cli.options import DataRoot
from align_echo.rollout.display import note


def shop(
    task: Annotated[str, typer.Option("--task", help="The task to shop, such as goal-3.")] = "goal-0",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 takes a free one.")] = 8080,
    data_root: DataRoot = None,
) -> None:
    """Shop a WebShop task yourself, in a browser."""
    from align_echo.wrappers.serving import HOST
    from align_echo.wrappers.webshop.catalogue import open_catalogue
    from align_echo.wrappers.webshop.pages import Shop
    from align_echo.wrappers.webshop.server import make_server

    catalogue = open_catalogue(data_root)
    with make_server(Shop(catalogue, catalogue.goal(task)), port) as server:
        print(f"{task}: http://{HOST}:{server.server_port}/", flush=True)
        note("Ctrl-C ends it")
        server.serve_forever()
