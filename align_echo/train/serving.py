"""The servers that play for a run: connecting to them, and the folders in which they find the weights of now.

Each version of a role's weights has a folder of its own under the run's, which the servers must read under the same
path; the last two of each role are kept. Left out: engines in this process (`crew.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from align_echo.errors import ModelError, UsageError
from align_echo.models.local.engine import Engine, Reply
from align_echo.models.local.fleet import Fleet
from align_echo.models.local.publishing import VERIFICATION, check_weights
from align_echo.models.local.vllm_server import VllmServer
from align_echo.models.retry import RetryPolicy
from align_echo.train.backbone import ROLES, Adapters, Backbone
from align_echo.train.rows import Role

PUBLISHED = "published"
"""The folder of a run in which servers find weights."""

KEPT = 2
"""How many versions of a role are kept: vLLM may read an adapter's folder again while it serves it."""

ATTEMPTS = 3
"""How often one of several servers is asked before its requests go to the others."""


def served_by(addresses: Sequence[str], source: str, backbone: Backbone) -> Engine:
    """The vLLM servers at these base URLs as one engine. Each must serve one model: for adapters that of `source`, on
    which the backbone stands, as its log-probabilities of a short reply must show.

    Raises `UsageError` for a server that is not there or serves another model, `ModelError` for one that is silent.
    """
    retry = RetryPolicy(attempts=ATTEMPTS) if len(addresses) > 1 else None

    def connect(address: str) -> Engine:
        server = VllmServer("", base_url=address, retry=retry)
        try:
            if isinstance(backbone, Adapters):
                reply = server.submit(VERIFICATION).result()
                with backbone.reference("policy") as bare:
                    _check_model(bare, reply, f"the server at {address} serves another model than {source}")
        except BaseException:
            server.close()
            raise
        return server

    return Fleet(addresses, connect)


def _check_model(model: Any, reply: Reply, otherwise: str) -> None:
    """Raises `UsageError`, which says `otherwise`, unless the model gives a server's reply to `VERIFICATION` the same
    log-probabilities."""
    known = model.get_input_embeddings().weight.shape[0]
    if any(token >= known for token in reply.ids):
        raise UsageError(f"{otherwise}: its vocabulary is larger")
    try:
        check_weights(partial(logprobs_of, model), reply)
    except ModelError as error:
        raise UsageError(f"{otherwise}: {error}") from error


@torch.no_grad()
def logprobs_of(model: Any, ids: tuple[int, ...]) -> list[float]:
    """A model's own pass over ids [T]: the natural logarithms of the probabilities of ids[1:] [T - 1]."""
    device = next(model.parameters()).device
    logits_TV = model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0, :-1].float()
    targets_T1 = torch.tensor(ids[1:], device=device)[:, None]
    logprobs: list[float] = logits_TV.log_softmax(-1).gather(-1, targets_T1)[:, 0].tolist()
    return logprobs


class ServedWeights:
    """Versions of a run's weights in `folder`, which is emptied when the first is published."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions: dict[Role, list[Path]] = {}
        self._number = 0

    def publish(self, engine: Engine, backbone: Backbone) -> None:
        """Let the engine draw with the weights of now. Roles that are not trained are published once."""
        if not self._versions:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._number += 1
        by_adapter = isinstance(backbone, Adapters)
        for role in ROLES if by_adapter else backbone.kept:
            if role not in backbone.trained and role in self._versions:
                continue
            version = self._folder / f"{role}-{self._number}"
            version.mkdir(parents=True)
            backbone.save(role, version)
            if by_adapter:
                engine.load_adapter(role, str(version))
            else:
                engine.publish_weights(str(version), partial(logprobs_of, backbone.activate(role)))
            self._forget(role, version)

    def _forget(self, role: Role, version: Path) -> None:
        versions = [*self._versions.get(role, ()), version]
        for old in versions[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        self._versions[role] = versions[-KEPT:]

    def close(self) -> None:
        """Remove what was published."""
        if self._versions:
            shutil.rmtree(self._folder, ignore_errors=True)
