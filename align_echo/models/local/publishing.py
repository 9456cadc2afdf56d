"""New weights for a running engine: required files of a folder, and a check that the engine uses the weights.

Every engine receives them through the same two calls (`ModelEngine`). Not here: how each engine loads them.
"""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import MissingDataError, ModelError
from align_echo.models.local.engine import Forward, SamplingConfig, TokenReply, TokenRequest

SAME_WEIGHTS = 0.05
"""Log-probabilities of the same token under the same weights differ by less on any backend (bfloat16 rounding)."""

VERIFICATION = TokenRequest(tuple(range(1, 17)), SamplingConfig(temperature=0, max_tokens=16))
"""Request sent to an engine after new weights were published."""


def check_weights(forward: Forward, reply: TokenReply) -> None:
    """Raise `ModelError` unless the publisher computes the same log-probabilities for the reply to `VERIFICATION`."""
    ids = VERIFICATION.ids + reply.ids
    wanted = forward(ids)[len(VERIFICATION.ids) - 1 :]
    gap = max(abs(ours - theirs) for ours, theirs in zip(wanted, reply.logprobs, strict=True))
    if not gap < SAME_WEIGHTS:
        raise ModelError(f"it does not compute with the published weights: log-probabilities differ by {gap:.3g}")


def model_folder(folder: str) -> str:
    """Return the folder's full path. Raises `MissingDataError` without weights, since vLLM would crash instead."""
    path = Path(folder)
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise MissingDataError(f"{folder} holds no model: config.json and *.safetensors are needed")
    return str(path.resolve())


def adapter_folder(folder: str) -> str:
    """Return the folder's full path. Raises `MissingDataError` without an adapter; a pickled one does not count."""
    path = Path(folder)
    if not all((path / name).is_file() for name in ("adapter_config.json", "adapter_model.safetensors")):
        raise MissingDataError(f"{folder} holds no adapter: save it there first (save_pretrained of a PEFT model)")
    return str(path.resolve())
