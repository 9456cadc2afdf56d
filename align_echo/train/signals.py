"""Signals of a training step: figures computed from its batch and its losses, by pure functions.

The trainer writes them; reports plot them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from align_echo.rollout.faults import faults_by_source, summarize_conduct
from align_echo.rollout.refusals import PlayJudge, RefusedTurns
from align_echo.train.advantages import GroupAdvantages
from align_echo.train.rows import RolloutBatch, Row
from align_echo.types import Trajectory

if TYPE_CHECKING:
    import torch

    from align_echo.train.batching import TensorBatch
    from align_echo.train.objective import BatchLoss

BANDS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))
"""Bands of an attempt's score, without their upper ends; a full score is a separate band."""

LOG_HALF = math.log(0.5)

QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
"""Quantiles of log w_t over the tokens of a step, by the suffix of the signal's name."""

TURNS = (0, 1, 5, 10, 20)
"""First turns of the spans for the mismatch of log-probabilities."""

LOSSES = ("policy/loss", "critic/loss")
"""The roles' losses; the step's loss is their sum."""

Signals = dict[str, float]
"""Figures of a step by name, without undetermined ones."""


def batch_signals(batch: RolloutBatch, learned: Sequence[Row], advantages: GroupAdvantages) -> Signals:
    """Compute the signals of a batch: rewards by role, advantages of the `learned` rows, groups without variance, gains
    by score band, event counts.

    Without groups there is no share of groups, and a single reward has no standard deviation.
    """
    signals: Signals = {
        "groups": advantages.groups,
        "singleton_groups": advantages.singletons,
        "rows": len(batch.rows),
        "environment_steps": batch.steps,
    }
    if advantages.groups:
        signals["zero_variance_share"] = advantages.zero_variance / advantages.groups
    for role in sorted({row.role for row in batch.rows}):
        of_role = [row for row in batch.rows if row.role == role]
        rewards = [row.reward for row in of_role]
        signals[f"{role}/reward"] = sum(rewards) / len(rewards)
        if len(rewards) > 1:
            signals[f"{role}/reward_std"] = statistics.pstdev(rewards)
        values = [value for row, value in zip(learned, advantages.values, strict=True) if row.role == role]
        if values:
            signals[f"{role}/advantage"] = statistics.fmean(values)
            signals[f"{role}/advantage_std"] = statistics.pstdev(values)
        signals[f"{role}/tokens"] = sum(sum(row.tokens.mask) for row in of_role)
    for name, count in sorted(batch.counts.items()):
        signals[f"count/{name.replace(' ', '_')}"] = count
    return signals | gains(batch.refinements) | batch.signals


def play_signals(played: Sequence[Trajectory], judge: PlayJudge | None) -> Signals:
    """Compute the signals of play: the number of episodes, and shares in [0, 1] of turns and of sound episodes.

    Also counts faults by source, and turns and resets with a failure of the interface. There are no shares of nothing,
    and none of refused turns without a `judge` to identify them.
    """
    sound = [trajectory for trajectory in played if trajectory.fault is None]
    signals: Signals = {"episodes": len(played)} if played else {}
    signals |= {f"count/{source}_faults": count for source, count in sorted(faults_by_source(played).items())}
    if sound:
        outgrown = sum(trajectory.context_overflow for trajectory in sound)
        signals["policy/context_limit_share"] = outgrown / len(sound)
    non_empty = [trajectory for trajectory in sound if trajectory.steps]
    if not non_empty:
        return signals
    steps = [step for trajectory in non_empty for step in trajectory.steps]
    signals["policy/no_action_share"] = sum(step.action is None for step in steps) / len(steps)
    signals["policy/cut_share"] = sum(step.cut_off for step in steps) / len(steps)
    cut_short = sum(trajectory.steps[-1].truncated for trajectory in non_empty)
    signals["policy/turn_limit_share"] = cut_short / len(non_empty)
    refused = judge(non_empty) if judge is not None else RefusedTurns()
    if refused.turns is not None:
        signals["policy/invalid_share"] = refused.turns / len(steps)
    if refused.in_runs is not None:
        signals["policy/invalid_run_share"] = refused.in_runs / len(steps)
    conduct = summarize_conduct(non_empty)
    failures = conduct.failed_turns + conduct.failed_resets
    return signals | ({"count/interface_failures": failures} if failures else {})


def gains(refinements: Sequence[tuple[float, float]]) -> Signals:
    """Compute the mean change of score after a critique: overall, and by the band of the score before."""
    if not refinements:
        return {}
    by_band: dict[str, list[float]] = defaultdict(list)
    for before, after in refinements:
        by_band["all"].append(after - before)
        by_band[band(before)].append(after - before)
    return {f"gain/{name}": sum(values) / len(values) for name, values in sorted(by_band.items())}


def band(score: float) -> str:
    """Return the band of a score, as "0.25-0.5"; "full" for 1."""
    edges = next(((low, high) for low, high in BANDS if low <= score < high), None)
    return f"{edges[0]:g}-{edges[1]:g}" if edges else "full"


def numbers(signals: Signals) -> Signals:
    """Drop signals without a finite value."""
    return {name: value for name, value in signals.items() if math.isfinite(value)}


def without_loss(logs: Signals) -> Signals:
    """Drop loss and gradient norm from the logs of a step without rows, where their 0 means nothing."""
    return {name: value for name, value in logs.items() if name not in ("loss", "grad_norm")}


class LossSummary:
    """Accumulator of a step's losses over micro-batches; for `stale` rows also of the drift of the weights."""

    def __init__(self, *, stale: bool = False) -> None:
        self._stale = stale
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: Counter[str] = Counter()
        self._largest: dict[str, float] = {}
        self._revised: list[torch.Tensor] = []

    @classmethod
    def of(cls, parts: Sequence[LossSummary]) -> LossSummary:
        """Merge the losses of a step from several processes."""
        merged = cls()
        for part in parts:
            for name, value in part._sums.items():
                merged._sums[name] += value
                merged._counts[name] = 1 if name in LOSSES else merged._counts[name] + part._counts[name]
            for name, value in part._largest.items():
                merged._largest[name] = max(merged._largest.get(name, 0.0), value)
            merged._revised += part._revised
        return merged

    def add(self, batch: TensorBatch, loss: BatchLoss, entropies: torch.Tensor) -> None:
        """Add a micro-batch; `entropies` [B, T-1] in nats."""
        counted = batch.mask.bool()
        compared = counted & ~batch.expert
        self._sums[f"{batch.role}/loss"] += float(loss.loss.detach())
        self._counts[f"{batch.role}/loss"] = 1
        self._mean(f"{batch.role}/outside_share", loss.outside, compared)
        self._mean(f"{batch.role}/clip_share", loss.clipped, compared)
        if loss.ratio is not None and compared.any():
            name, farthest = f"{batch.role}/most_log_ratio", loss.ratio[compared].clamp_min(1e-30).log().abs().max()
            self._largest[name] = max(self._largest.get(name, 0.0), float(farthest))
        self._mean(f"{batch.role}/kl", loss.kl, counted)
        self._mean(f"{batch.role}/entropy", entropies, counted)
        revised = counted & batch.moved & batch.won & ~batch.expert
        if loss.log_weights is not None and revised.any():
            self._mean("log_w_t", loss.log_weights, revised)
            self._mean("w_t_below_half", loss.log_weights < LOG_HALF, revised)
            self._revised.append(loss.log_weights[revised].detach().float().cpu())
        sampled = counted & ~batch.moved & ~batch.expert
        for first, end in zip(TURNS, (*TURNS[1:], math.inf), strict=True):
            of_turns = sampled & (batch.turn >= first) & (batch.turn < end)
            self._mean(f"{batch.role}/mismatch/from_turn_{first}", loss.mismatch, of_turns)
        if self._stale:
            self._mean(f"{batch.role}/stale/log_ratio", loss.mismatch, sampled)
            self._mean(f"{batch.role}/stale/cut_share", loss.cut, sampled)

    def _mean(self, name: str, values: torch.Tensor | None, where: torch.Tensor) -> None:
        """Add the values at these tokens to a mean."""
        if values is not None and where.any():
            chosen = values[where]
            self._sums[name] += float(chosen.sum())
            self._counts[name] += chosen.numel()

    def read(self) -> Signals:
        """Return the signals: sums of losses over micro-batches, maxima (`most_...`), quantiles over tokens
        (`log_w_t/p05` ...), and means over tokens for all others.
        """
        means = {name: self._sums[name] / self._counts[name] for name in sorted(self._sums)}
        return means | self._largest | self._spread()

    def _spread(self) -> Signals:
        """Compute the quantiles of log w_t; empty without revised tokens."""
        if not self._revised:
            return {}
        import torch

        values = torch.cat(self._revised).sort().values
        last = len(values) - 1
        return {f"log_w_t/{name}": float(values[round(share * last)]) for name, share in QUANTILES.items()}
