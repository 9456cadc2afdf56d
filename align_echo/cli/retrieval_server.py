"""`align-echo retrieval-server`: document search for environments in other processes, by Search-R1's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.rollout.display import note


def retrieval_server(
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="A .jsonl of documents; default: SearchQA's embedded ones.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option("--host", help="Where to listen; default: this machine only.")] = "127.0.0.1",
) -> None:
    """Serve document search for SearchQA's $SEARCHQA_URL and other clients of Search-R1's protocol."""
    from align_echo.wrappers.searchqa.corpus import open_corpus
    from align_echo.wrappers.searchqa.protocol import PATH, make_server

    documents = open_corpus(corpus)
    with make_server(documents, port, host) as server:
        print(f"{len(documents.documents)} documents: http://{host}:{server.server_port}{PATH}", flush=True)
        note("Ctrl-C ends it")
        server.serve_forever()
