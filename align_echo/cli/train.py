"""`align-echo train`: train a policy, a critic or both in an environment by one of the methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from align_echo.agents.players import MODEL_VARIABLE, default_model
from align_echo.cli.console import resumable, run_folder, say
from align_echo.cli.options import Out, Resume
from align_echo.errors import UsageError
from align_echo.rollout.display import note
from align_echo.train.needs import first_alone_prints, require_training

if TYPE_CHECKING:
    from align_echo.train.config import TrainConfig

DEFAULT_METHOD = "grpo"


@first_alone_prints()
def train(
    method: Annotated[
        str | None, typer.Option("--method", help="grpo, echo, icrl ... ; `--method list` lists them all.")
    ] = None,
    env: Annotated[str | None, typer.Option("--env", help="The environment's name; default: the config's.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help=f"pocket, a folder, transformers:HUB; default: ${MODEL_VARIABLE}, the config's."),
    ] = None,
    interface: Annotated[str | None, typer.Option("--interface", help="none, a shipped name, or a .py file.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="YAML; may begin with `method: METHOD`.")] = None,
    tools: Annotated[bool, typer.Option("--tools", help="The policy calls tools (`evaluate --tools`).")] = False,
    demonstrations: Annotated[
        list[str] | None,
        typer.Option("--demonstrations", help="With sft: a run whose episodes are imitated; repeatable."),
    ] = None,
    minimum_score: Annotated[
        float | None,
        typer.Option("--minimum-score", min=0, max=1, help="Least score of --demonstrations; default: only won ones."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Number of steps; default: the config's.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of all random draws.")] = None,
    report_to: Annotated[
        list[str] | None, typer.Option("--report-to", help="tensorboard, trackio, wandb, mlflow, or none; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan without running it.")] = False,
    out: Out = None,
    resume: Resume = False,
) -> None:
    """Train by a method; write the signals of every step, checkpoints and the trained models to a folder."""
    require_training()
    if method == "list":
        _list_methods()
        return
    if config is not None and not config.is_file():  # said before torch is imported
        raise UsageError(f"there is no file {config}")
    model = default_model() if model is None else model
    changes: dict[str, Any] = {"env": env, "model": model, "interface": interface, "steps": steps, "seed": seed}
    changes["tools"] = tools or None
    stored = {"demonstrations": demonstrations or None, "minimum_score": minimum_score}
    changes["collecting"] = {name: value for name, value in stored.items() if value is not None} or None
    changes["report_to"] = None if report_to is None else [name for name in report_to if name != "none"]
    from align_echo.train.config import stored_config

    settings = {name: value for name, value in changes.items() if value is not None}
    resumed = out if resume and not method and not config else None
    chosen = stored_config(resumed, settings) if resumed else _config(method, config, settings)
    folder = run_folder(out, resume, "train", chosen.env)
    from align_echo.train import printed_lines
    from align_echo.train.run import TrainingRun

    run = TrainingRun(chosen, folder, resume=resume)
    if dry_run:
        print("\n".join([*printed_lines.announced(run), *printed_lines.describe_memory(run)]))
        return
    for line in printed_lines.announced(run):
        note(line)
    finished = run.is_finished
    with resumable(folder):
        summary = run.train(
            lambda step, signals: note(printed_lines.step_line(step, chosen.steps, signals)),
            lambda step, figures: note(printed_lines.held_out_line(step, figures)),
            note,
        )
    say(f"{'its results' if finished else 'written'}: {summary} and the trained models beside it")


def _config(method: str | None, file: Path | None, changes: dict[str, Any]) -> TrainConfig:
    from align_echo.train.config import checked_config, merged, read_file
    from align_echo.train.config import method as values_of

    if method and file:
        raise UsageError("--method and --config exclude each other: write `method: METHOD` into the config")
    chosen_method = DEFAULT_METHOD if method is None else method
    values = read_file(file) if file else values_of(chosen_method)
    return checked_config(merged(values, changes), str(file or f"--method {chosen_method}"))


def _list_methods() -> None:
    from align_echo.train.config import installed_methods
    from align_echo.train.presets import about, methods

    for name in methods():
        print(f"{name:24}{about(name)}")
    for name, origin in installed_methods().items():
        print(f"{name:24}of {origin}")
