"""Muon for hidden matrices and AdamW for all other parameters, as one optimizer for any trainer.

Muon (Jordan et al., 2024) is PyTorch's. Small models trained from scratch (a few million parameters) learn to copy only
with it. Embeddings, head, norms and biases stay with AdamW, as its authors advise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer


class MuonWithAdamW(Optimizer):
    """Muon and AdamW behind one interface: schedulers and checkpoints see the parameter groups of both."""

    def __init__(
        self, model: nn.Module, *, muon_lr: float = 0.02, adamw_lr: float = 3e-3, weight_decay: float = 0.01
    ) -> None:
        hidden, rest = split_parameters(model)
        self._both: tuple[Optimizer, ...] = (
            Muon(hidden, lr=muon_lr, weight_decay=weight_decay),
            AdamW(rest, lr=adamw_lr, betas=(0.9, 0.95), weight_decay=weight_decay),
        )
        super().__init__([*hidden, *rest], {})
        self.param_groups = [group for optimizer in self._both for group in optimizer.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step with each optimizer. A `closure` is evaluated once, before both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for optimizer in self._both:
            optimizer.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both, in order."""
        return {"both": [optimizer.state_dict() for optimizer in self._both]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both."""
        for optimizer, state in zip(self._both, state_dict["both"], strict=True):
            optimizer.load_state_dict(state)
        self.param_groups = [group for optimizer in self._both for group in optimizer.param_groups]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Split the trained parameters into (matrices of hidden layers, all others)."""
    embeddings = {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    head = getattr(model, "lm_head", None)
    outside = embeddings | ({id(p) for p in head.parameters()} if isinstance(head, nn.Module) else set())
    trained = [p for p in model.parameters() if p.requires_grad]
    hidden = [p for p in trained if p.ndim == 2 and id(p) not in outside]
    return hidden, _without(trained, hidden)


def _without(parameters: Iterable[nn.Parameter], left_out: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    known = {id(p) for p in left_out}
    return [p for p in parameters if id(p) not in known]
