"""`python -m studies.beginner --out FOLDER`: make the beginner, SmolLM2's adapter. Forty minutes on a core."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.errors import AlignEchoError


def main(
    out: Annotated[Path, typer.Option("--out", help="Folder of lessons, checkpoints and model.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
) -> None:
    """Make the adapter; lessons that are in --out already are not made again."""
    from studies.beginner.build import BeginnerSettings, build

    try:
        print(f"written: {build(BeginnerSettings(), out, resume=resume)}")
    except AlignEchoError as error:
        typer.echo(f"align-echo: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
