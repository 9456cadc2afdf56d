"""Options that several verbs share, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MODEL_VARIABLE = "ALIGN_ECHO_MODEL"

Env = Annotated[str, typer.Option("--env", help="The environment's name; `align-echo envs` lists them.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar=MODEL_VARIABLE,
        help="Chat model at an OpenAI-compatible endpoint; novice: an offline script, NOT a language model.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="Endpoint of the model; default: $OPENAI_BASE_URL, else OpenAI's own."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every draw.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the run; default: a new one under runs/.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", help="The environment's data folder; default: its own variable, else embedded data."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Episodes at once; default: 8 with a chat model, 1 without."),
]
