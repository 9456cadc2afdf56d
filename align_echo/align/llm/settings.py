"""The numbers of the `llm` backend, in one place."""

from __future__ import annotations

from pydantic import Field

from align_echo.types import Frozen


class LlmSettings(Frozen):
    """Limits and temperatures.

    `verify` False is the paper's ablation: `samples` analyses and `samples` interfaces are drawn at
    `sample_temperature` and the model chooses one, without any experiment.
    """

    verify: bool = True
    samples: int = Field(default=6, ge=1)
    sample_temperature: float = 0.5
    analyzer_temperature: float = 0.0
    optimizer_temperature: float = 0.2
    episodes_per_analysis: int = Field(default=3, ge=1)
    episode_characters: int = Field(default=8000, ge=500)
    operations: int = Field(default=30, ge=1)
    format_tries: int = Field(default=3, ge=1)
    code_tries: int = Field(default=5, ge=1)
    refinements: int = Field(default=3, ge=0)
    max_tokens: int = Field(default=8192, ge=256)
