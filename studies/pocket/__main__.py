"""`python -m studies.pocket --out FOLDER`: make the pocket model from nothing. An hour and a half on two cores."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import AlignEchoError, MissingExtraError, UsageError, unreadable


def main(
    out: Annotated[Path, typer.Option("--out", help="Folder of corpus, checkpoints and model.")],
    settings: Annotated[Path | None, typer.Option("--settings", help="JSON file of other PocketSettings.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="Model to make the later stages of.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
) -> None:
    """Make the pocket model; parts of its corpus that are in --out already are not made again."""
    try:
        print(f"written: {make(out, settings, start=start, resume=resume)}")
    except AlignEchoError as error:
        typer.echo(f"align-echo: {error}", err=True)
        raise typer.Exit(2) from None


def make(out: Path, settings: Path | None, *, start: Path | None = None, resume: bool) -> Path:
    """The folder of the model. Raises `MissingExtraError`, `UsageError`."""
    if util.find_spec("torch") is None or util.find_spec("transformers") is None:
        raise MissingExtraError("making the pocket model", "train")
    from studies.pocket.build import PocketSettings, build

    try:
        wanted = PocketSettings.model_validate_json(settings.read_bytes()) if settings else PocketSettings()
    except OSError as error:
        raise UsageError(unreadable(settings, error)) from None
    except ValidationError as error:
        raise UsageError(f"{settings}: {first_wrong(error)}") from None
    if resume and not any(out.glob("checkpoints-*/checkpoint-*")):
        raise UsageError(f"there is no checkpoint in {out} to go on from: leave --resume out")
    return build(wanted, out, start=start, resume=resume)


if __name__ == "__main__":
    typer.run(main)
