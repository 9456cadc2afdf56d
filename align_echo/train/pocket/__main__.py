"""`python -m align_echo.train.pocket --out FOLDER`: make the pocket model from nothing. An hour or more on one core."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from align_echo.train.pocket.build import PocketSettings, build


def main(
    out: Annotated[Path, typer.Option("--out", help="Folder of corpus, checkpoints and model.")],
    settings: Annotated[Path | None, typer.Option("--settings", help="JSON file of other PocketSettings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
) -> None:
    """Make the pocket model; what is in --out already is not made again."""
    torch.set_num_threads(1)  # the order of additions, and so the weights, depends on the number
    wanted = PocketSettings.model_validate_json(settings.read_bytes()) if settings else PocketSettings()
    print(f"written: {build(wanted, out, resume=resume)}")


if __name__ == "__main__":
    typer.run(main)
