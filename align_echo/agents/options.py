"""Options that several verbs share, so that a name has one meaning on the command line and in Python.

A verb's options are the fields of a config model (`VerbConfig`): the command line (`cli/options.py`), its help and the
reference pages are built from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, InstanceOf, ValidationError, field_validator

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import MODEL_VARIABLE
from align_echo.agents.presets import PRESETS
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import UsageError
from align_echo.models.local.chat_template import ChatFormat
from align_echo.models.spending import SpendingLimits
from align_echo.types import Frozen
from align_echo.wrappers.environment import EnvironmentSpec


class VerbConfig(Frozen):
    """Options of a verb, which its Python function takes as one argument.

    Raises `UsageError` for an unknown option, and for a value of the wrong type or out of bounds.
    """

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_empty(cls, value: object) -> object:
        parts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(part, str) and not part.strip() for part in parts):
            raise ValueError("the name is empty: leave it out, or name one")
        return value

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            option, _, reason = first_wrong(error).partition(":")
            raise UsageError(f"--{option.replace('_', '-')}:{reason}") from None


class ModelConfig(VerbConfig):
    """Options of --model, which the verbs that have it share."""

    chat_template: Annotated[
        str | None,
        Field(description="A local model's template: a file, or the name of one of its own; default: its default."),
    ] = None
    template_args: Annotated[
        str | None,
        Field(description='Variables of the model\'s chat template as JSON, such as {"enable_thinking": false}.'),
    ] = None
    reasoning_effort: Annotated[
        str | None, Field(description="How much a model at an endpoint thinks, such as low, medium or high.")
    ] = None
    extra_body: Annotated[
        str | None, Field(description='Further fields of requests to --model as JSON, such as {"top_k": 20}.')
    ] = None

    @property
    def chat(self) -> ChatFormat:
        """Return how the model's conversations are written and asked for. Raises `UsageError` for invalid JSON."""
        return ChatFormat(
            self.chat_template or "", self.template_args or "", self.reasoning_effort or "", self.extra_body or ""
        )


MaxCost = Annotated[
    float | None,
    Field(gt=0, allow_inf_nan=False, description="Most US dollars for requests to endpoints; nothing beyond is sent."),
]
MaxRequests = Annotated[int | None, Field(ge=1, strict=True, description="Most requests to endpoints.")]
MaxTokensTotal = Annotated[
    int | None, Field(ge=1, strict=True, description="Most tokens of requests to endpoints and replies.")
]


class PayingConfig(VerbConfig):
    """Options of a verb that asks models at endpoints."""

    max_cost: MaxCost = None
    max_requests: MaxRequests = None
    max_tokens_total: MaxTokensTotal = None

    @property
    def spending_limits(self) -> SpendingLimits:
        """Return the limits on what the verb spends."""
        return SpendingLimits(cost=self.max_cost, requests=self.max_requests, tokens=self.max_tokens_total)


Env = Annotated[
    str | InstanceOf[EnvironmentSpec],
    Field(description="An environment's name (`align-echo envs` lists them) or module:Name."),
]
Agent = Annotated[
    str | None,
    Field(
        description=f"The agent: {', '.join(AGENTS.entries())}, or module:Class. Default: vanilla with a model or the "
        "pocket model, else novice."
    ),
]
Model = Annotated[
    str | None,
    Field(
        description="pocket: the small built-in model; smollm2, beginner, FILE.gguf, transformers:PATH_OR_HUB, "
        "vllm:PATH_OR_HUB, vllm-server:NAME; a name at an OpenAI-compatible endpoint; novice: an offline script, "
        "NOT a language model. "
        f"Default: ${MODEL_VARIABLE}, else pocket, or novice without torch."
    ),
]
BaseUrl = Annotated[
    str | None,
    Field(description="Endpoint of the model, or its name in your file; default: $OPENAI_BASE_URL, else OpenAI's."),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    Field(description="Precision of a local model; default: float32 on a CPU, the files' own on a GPU."),
]
Temperature = Annotated[float | None, Field(ge=0, description="Sampling temperature; default: the agent's own.")]
MaxTokens = Annotated[
    str | int | None,
    Field(
        description="Most tokens of a reply, or by role: agent=512,judge=1024; "
        "default: 512 for an agent, 8192 for Analyzer and Optimizer."
    ),
]
Turns = Annotated[
    int | None, Field(ge=1, strict=True, description="Step limit; default: the environment's own.")
]
HistoryTurns = Annotated[
    int | None, Field(ge=1, description="Most turns that a chat model sees beside the opening; default: all.")
]
HistoryTokens = Annotated[
    int | None,
    Field(ge=256, description="Most tokens of the opening and the turns that a chat model sees, estimated."),
]
Tools = Annotated[
    bool, Field(description="The model calls tools: the environment's own, else one that takes an action.")
]
Preset = Annotated[
    str | None, Field(description=f"Settings of the agent and its episodes by name: {', '.join(PRESETS)}.")
]
InterfaceName = Annotated[str, Field(description="none, a shipped name, or a .py file.")]
Placebo = Annotated[bool, Field(description="Also play the interface with neutral texts, as a control.")]
Retract = Annotated[bool, Field(description="Withhold hints of rules that were followed without success.")]
Reasoning = Annotated[bool, Field(description="The critic writes a reason before each verdict, greedily.")]
TestSplit = Annotated[str | None, Field(description="Default: the environment's test split.")]
TrainSplit = Annotated[str | None, Field(description="Default: the environment's training split.")]
TaskCount = Annotated[int | None, Field(description="Number of tasks; default: all of the split.")]
Seed = Annotated[int, Field(ge=0, description="Seed of all random draws.")]
WorkerCount = Annotated[
    str | int | None,
    Field(
        description="Episodes at once (default: 32 with a local model, 8 at an endpoint, else 1), or processes:N, ray, "
        "ray://HOST:PORT."
    ),
]
DataRoot = Annotated[
    Path | None,
    Field(description="The environment's data folder; default: its own variable, else embedded data."),
]
