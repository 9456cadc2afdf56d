"""`align-echo show`: the episodes in a run's folder, and one of them turn by turn, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli.console import say
from align_echo.report.view.listing import episode_lines, find_episode, overview
from align_echo.rollout.display import note
from align_echo.rollout.episode_files import DamagedLine, describe_damage, find_episodes, resolve_part, select_part


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or a .jsonl file of episodes.")],
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="A task's id, or a unique part of it.")] = None,
    part: Annotated[str | None, typer.Option("--part", help="Only this part: a variant, a round, a step.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", help="Sample number, if the task has several.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Most episodes to list.")] = 60,
) -> None:
    """List the episodes of a run; with a task, print one of them turn by turn."""
    parts = find_episodes([run])
    part = resolve_part(parts, part)
    damaged: list[DamagedLine] = []
    if task is None:
        lines = overview(select_part(parts, part), most, damaged)
    else:
        lines = episode_lines(*find_episode(parts, task, damaged, part=part, sample=sample), parts, damaged)
    for line in lines:
        say(line)
    for line in describe_damage(damaged):
        note(line)
