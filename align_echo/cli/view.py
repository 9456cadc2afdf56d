"""`align-echo view`: the episodes of runs as one HTML file, on a port of this machine, or as logs of inspect_ai."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli.console import say
from align_echo.registry import quantity
from align_echo.report.view.inspect_logs import write_logs
from align_echo.report.view.packing import write_page
from align_echo.report.view.serving import make_viewer
from align_echo.rollout.display import note
from align_echo.rollout.episode_files import describe_damage


def view(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Runs' folders, or .jsonl files of episodes.")],
    out: Annotated[Path | None, typer.Option("--out", help="The .html file; default: RUN.html here.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page to this machine instead.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of --serve; 0 takes a free one.")] = 8090,
    logs: Annotated[Path | None, typer.Option("--eval", help="Write logs of inspect_ai to this folder.")] = None,
) -> None:
    """Write all episodes of runs into one HTML file, to read, filter and compare in a browser; or as logs."""
    if logs is not None:
        files, damaged = write_logs(paths, logs)
        for line in describe_damage(damaged) if out is None else ():
            note(line)
        say(f"{logs}: {len(files):,} .eval; look at them with `inspect view --log-dir {logs}`")
    if out is not None or not (serve or logs):
        file, packed = write_page(paths, out)
        for line in describe_damage(packed.damaged):
            note(line)
        say(f"{file}: {quantity(packed.episodes, 'episode')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")
    if serve:
        with make_viewer(paths, port) as server:
            print(server.address, flush=True)
            note("Ctrl-C ends it")
            server.serve_forever()
