"""Options that several verbs share, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import MODEL_VARIABLE
from align_echo.agents.presets import PRESETS
from align_echo.critic.language import FORMS
from align_echo.critic.selection import RULES


def folder(text: str) -> Path:
    """The folder that --out names; an empty name would stand for the current one."""
    if not text.strip():
        raise typer.TyperException("--out names no folder")
    return Path(text)


Env = Annotated[str, typer.Option("--env", help="An environment's name (`align-echo envs` lists them) or module:Name.")]
Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help=f"Who plays: {', '.join(AGENTS.entries())}, or module:Class. Default: vanilla with a model or the pocket "
        "one, else novice.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar=MODEL_VARIABLE,
        help="pocket: the small model that comes along; transformers:PATH_OR_HUB, vllm:PATH_OR_HUB, vllm-server:NAME; "
        "a name at an OpenAI-compatible endpoint; novice: an offline script, NOT a language model. "
        "Default: pocket, or novice where torch is not installed.",
    ),
]
Interface = Annotated[str, typer.Option("--interface", help="none, a shipped name, or a .py file.")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="Endpoint of the model; default: $OPENAI_BASE_URL, else OpenAI's own."),
]
Placebo = Annotated[
    bool,
    typer.Option("--placebo/--no-placebo", help="Also the interface with neutral words for its own, as a control."),
]
Retract = Annotated[
    bool, typer.Option("--retract/--no-retract", help="Withhold hints whose like were followed and did not come true.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", min=0, help="Of the agent's model; default: the agent's own.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=256, help="Of one reply of a chat model; default: 512 of an agent's."),
]
AgentPreset = Annotated[
    str | None,
    typer.Option("--agent-preset", help=f"Settings of the agent and its episodes by name: {', '.join(PRESETS)}."),
]
Engine = Annotated[str | None, typer.Option("--engine", help="Of the environment; default: the first that it has.")]
Turns = Annotated[int | None, typer.Option("--turns", min=1, help="Of an episode; default: the environment's own.")]
BestOf = Annotated[
    int, typer.Option("--best-of", min=1, help="Candidates a turn, of which the best by a verdict is sent.")
]
Judge = Annotated[
    str | None, typer.Option("--judge", help="Model of --best-of's verdicts, as for --model; default: the agent's own.")
]
Pick = Annotated[
    str,
    typer.Option(
        "--pick", help=f"Who takes one of --best-of's candidates: {', '.join(RULES.entries())}, or module:NAME."
    ),
]
Reasoning = Annotated[
    bool, typer.Option("--reasoning", help="The critic writes a reason before each verdict, greedily.")
]
AbstainBelow = Annotated[
    float,
    typer.Option("--abstain-below", min=0, max=1, help="The first candidate if the critic is not so sure of any."),
]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", min=0, help="Of a local model's draws, 0 is off; default: as --judge's data was drawn."),
]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", min=0, max=1, help="Of a local model's draws, 1 is off; default: as --judge's data."),
]
RefineRounds = Annotated[
    int | None,
    typer.Option("--refine-rounds", min=1, help="So many times, what failed is criticised and played anew."),
]
Critic = Annotated[
    str | None,
    typer.Option("--critic", help="Of --refine-rounds: a model as for --model, self, or none for fresh attempts."),
]
CriticForm = Annotated[
    str | None,
    typer.Option(
        "--critic-form", help=f"What the critic is asked: {', '.join(FORMS.entries())}, or module:NAME. Default: echo."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every draw.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", parser=folder, metavar="<path>", help="Folder of the run; default: a new one under runs/."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
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
