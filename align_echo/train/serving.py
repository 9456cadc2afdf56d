"""vLLM servers that play for a run: connections, and the folders with the current weights.

Each version of a role's weights has a folder under the run's, which the servers must read under the same path. The last
two versions of each role remain. Not here: engines in this process (`role_models.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from align_echo.errors import ModelError, UsageError
from align_echo.models.client import RetryPolicy
from align_echo.models.local.engine import ModelEngine, TokenReply
from align_echo.models.local.engine_process import EngineGroup
from align_echo.models.local.vllm_engine import VERIFICATION, check_weights
from align_echo.models.local.vllm_server import VllmServer
from align_echo.train.backbone import ROLES, AdapterModels, Backbone
from align_echo.train.rows import Role

PUBLISHED = "published"
"""Folder in a run for the weights of servers."""

KEPT = 2
"""Versions of a role to retain: vLLM may read an adapter's folder again while it serves it."""

ATTEMPTS = 3
"""Attempts at one of several servers before its requests go to the others."""


def served_by(addresses: Sequence[str], source: str, backbone: Backbone) -> ModelEngine:
    """Connect to the vLLM servers at these base URLs as one engine.

    For adapters each must serve the model `source` of the backbone; its log-probabilities of a short reply are
    compared. Raises `UsageError` for an unreachable server or another model, `ModelError` for a server without answer.
    """
    retry = RetryPolicy(attempts=ATTEMPTS) if len(addresses) > 1 else None

    def connect(address: str) -> ModelEngine:
        server = VllmServer("", base_url=address, retry=retry)
        try:
            if isinstance(backbone, AdapterModels):
                reply = server.submit(VERIFICATION).result()
                with backbone.reference("policy") as bare:
                    _check_model(bare, reply, f"the server at {address} serves another model than {source}")
        except BaseException:
            server.close()
            raise
        return server

    return EngineGroup(addresses, connect)


def _check_model(model: Any, reply: TokenReply, otherwise: str) -> None:
    """Compare the log-probabilities of a server's reply to `VERIFICATION` with the model's.

    Raises `UsageError` with the message `otherwise` if they differ.
    """
    known = model.get_input_embeddings().weight.shape[0]
    if any(token >= known for token in reply.ids):
        raise UsageError(f"{otherwise}: its vocabulary is larger")
    try:
        check_weights(partial(compute_logprobs, model), reply)
    except ModelError as error:
        raise UsageError(f"{otherwise}: {error}") from error


@torch.no_grad()
def compute_logprobs(model: Any, ids: tuple[int, ...]) -> list[float]:
    """Compute natural log-probabilities [T - 1] of ids[1:] by a forward pass over ids [T]."""
    device = next(model.parameters()).device
    logits_TV = model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0, :-1].float()
    targets_T1 = torch.tensor(ids[1:], device=device)[:, None]
    logprobs: list[float] = logits_TV.log_softmax(-1).gather(-1, targets_T1)[:, 0].tolist()
    return logprobs


class ServedWeights:
    """Versions of a run's weights in `folder`. The first `publish` empties it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions: dict[Role, list[Path]] = {}
        self._number = 0

    def publish(self, engine: ModelEngine, backbone: Backbone) -> None:
        """Load the current weights into the engine. Roles without training are published once."""
        if not self._versions:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._number += 1
        by_adapter = isinstance(backbone, AdapterModels)
        for role in ROLES if by_adapter else backbone.kept:
            if role not in backbone.trained and role in self._versions:
                continue
            version = self._folder / f"{role}-{self._number}"
            version.mkdir(parents=True)
            backbone.save(role, version)
            if by_adapter:
                engine.load_adapter(role, str(version))
            else:
                engine.publish_weights(str(version), partial(compute_logprobs, backbone.activate(role)))
            self._forget(role, version)

    def _forget(self, role: Role, version: Path) -> None:
        versions = [*self._versions.get(role, ()), version]
        for old in versions[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        self._versions[role] = versions[-KEPT:]

    def close(self) -> None:
        """Remove the published weights."""
        if self._versions:
            shutil.rmtree(self._folder, ignore_errors=True)
