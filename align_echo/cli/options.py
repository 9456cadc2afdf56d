"""Options shared by several verbs, so that a name has one meaning everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import MODEL_VARIABLE
from align_echo.agents.presets import PRESETS
from align_echo.critic.best_of import RULES
from align_echo.critic.language import FORMS


def folder(text: str) -> Path:
    """Parse --out; an empty name would mean the current folder."""
    if not text.strip():
        raise typer.TyperException("--out names no folder")
    return Path(text)


Env = Annotated[str, typer.Option("--env", help="An environment's name (`align-echo envs` lists them) or module:Name.")]
Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help=f"The agent: {', '.join(AGENTS.entries())}, or module:Class. Default: vanilla with a model or the pocket "
        "model, else novice.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar=MODEL_VARIABLE,
        help="pocket: the small built-in model; transformers:PATH_OR_HUB, vllm:PATH_OR_HUB, vllm-server:NAME; "
        "a name at an OpenAI-compatible endpoint; novice: an offline script, NOT a language model. "
        "Default: pocket, or novice without torch.",
    ),
]
Interface = Annotated[str, typer.Option("--interface", help="none, a shipped name, or a .py file.")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="Endpoint of the model; default: $OPENAI_BASE_URL, else OpenAI's own."),
]
Placebo = Annotated[
    bool,
    typer.Option("--placebo/--no-placebo", help="Also play the interface with neutral texts, as a control."),
]
Retract = Annotated[
    bool, typer.Option("--retract/--no-retract", help="Withhold hints of rules that were followed without success.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", min=0, help="Sampling temperature; default: the agent's own.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=256, help="Most tokens of a chat model's reply; default: 512 for an agent."),
]
AgentPreset = Annotated[
    str | None,
    typer.Option("--agent-preset", help=f"Settings of the agent and its episodes by name: {', '.join(PRESETS)}."),
]
Engine = Annotated[str | None, typer.Option("--engine", help="Engine of the environment; default: its first one.")]
Turns = Annotated[int | None, typer.Option("--turns", min=1, help="Step limit; default: the environment's own.")]
BestOf = Annotated[
    int, typer.Option("--best-of", min=1, help="Candidates a turn; the best by a critic's verdict is sent.")
]
Judge = Annotated[
    str | None, typer.Option("--judge", help="Critic of --best-of, named as for --model; default: the agent's own.")
]
Pick = Annotated[
    str,
    typer.Option(
        "--pick", help=f"Rule to choose among --best-of's candidates: {', '.join(RULES.entries())}, or module:NAME."
    ),
]
Reasoning = Annotated[
    bool, typer.Option("--reasoning", help="The critic writes a reason before each verdict, greedily.")
]
AbstainBelow = Annotated[
    float,
    typer.Option("--abstain-below", min=0, max=1, help="Take the first candidate if the critic is less sure of all."),
]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", min=0, help="Top-k sampling of a local model, 0 disables it; default: as --judge's data."),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p", min=0, max=1, help="Top-p sampling of a local model, 1 disables it; default: as in --judge's data."
    ),
]
RefineRounds = Annotated[
    int | None,
    typer.Option("--refine-rounds", min=1, help="Rounds in which failed tasks are criticised and played again."),
]
Critic = Annotated[
    str | None,
    typer.Option("--critic", help="For --refine-rounds: a model as for --model, self, or none for fresh attempts."),
]
CriticForm = Annotated[
    str | None,
    typer.Option(
        "--critic-form", help=f"The critic's prompt: {', '.join(FORMS.entries())}, or module:NAME. Default: echo."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random draws.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", parser=folder, metavar="<path>", help="Folder of the run; default: a new one under runs/."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", help="The environment's data folder; default: its own variable, else embedded data."),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Episodes at once (default: 32 with a local model, 8 at an endpoint, else 1), or processes:N, ray, ray://HOST:PORT.",
    ),
]
