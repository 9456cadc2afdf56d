"""What optimizers are given, step by step, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


class Group(NamedTuple):
    """Weights that the optimizer moves alike: `norm` is that of the gradient that it is given."""

    lr: float
    betas: tuple[float, ...]
    weight_decay: float
    norm: float
    shapes: frozenset[tuple[int, ...]]


@contextmanager
def updates_kept(updates: list[list[Group]]) -> Iterator[None]:
    """Add the groups of every step of an optimizer to a list meanwhile."""

    def step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        updates.append([_group(group) for group in optimizer.param_groups])

    hook = register_optimizer_step_pre_hook(step)
    try:
        yield
    finally:
        hook.remove()


def _group(group: dict[str, Any]) -> Group:
    weights = [each for each in group["params"] if each.grad is not None]
    norm = float(torch.linalg.vector_norm(torch.stack([each.grad.norm() for each in weights]))) if weights else 0.0
    shapes = frozenset(tuple(each.shape) for each in group["params"])
    return Group(group["lr"], tuple(group.get("betas", ())), group["weight_decay"], norm, shapes)
