"""`python -m studies.beginner.critiques RUN --model NAME`: how many critiques of a run's lost episodes can be read.

The critic is asked as in training: once for each lost attempt, in ECHO's form, at temperature 1. Prints one JSON line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from align_echo.critic.ask import AttemptQuestion, Critic, ask
from align_echo.models import load_model
from align_echo.models.choosing import in_precision, read_name
from align_echo.rollout.episode_files import find_episodes, read_episodes


def main(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    model: Annotated[str, typer.Option("--model", help="As for align-echo.")],
    most: Annotated[int, typer.Option("--most", help="Critiques to ask for.")] = 60,
    dtype: Annotated[str, typer.Option("--dtype", help="Precision of the model.")] = "float32",
) -> None:
    """Ask for critiques and count those that can be read."""
    episodes = [episode for part in find_episodes([run]) for episode in read_episodes(part.file, [])]
    lost = [episode for episode in episodes if not episode.won and episode.fault is None][:most]
    critic = Critic(load_model(in_precision(read_name(model), dtype)), votes=1, draws_at=1.0, max_tokens=256)
    verdicts = ask(critic, [AttemptQuestion(attempt, 0) for attempt in lost])
    replies = [verdict.reply for verdict in verdicts[:3]]
    count = sum(verdict.critique is not None for verdict in verdicts)
    print(json.dumps({"asked": len(lost), "read": count, "model": model, "replies": replies}))


if __name__ == "__main__":
    typer.run(main)
