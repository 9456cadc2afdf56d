"""Printed lines of a training run: the plan, its cost, and the result of each step.

Not here: warnings (`obstacles.py`). The command line prints the lines.
"""

from __future__ import annotations

from typing import Any

from align_echo.intervals import Estimate
from align_echo.models.local.memory import size_text
from align_echo.registry import quantity
from align_echo.train import processes
from align_echo.train.config import TrainConfig
from align_echo.train.obstacles import RunCost
from align_echo.train.rollouts import CRITIQUES, ROLLOUTS
from align_echo.train.run import TrainingRun
from align_echo.train.signals import Signals

STEP_SIGNALS = (
    *("policy/reward", "critic/reward", "policy/loss", "loss", "gain/all", "zero_variance_share", "policy/entropy"),
    "log_w_t",
)
FAILURE_COUNTS = (
    "count/agent_faults",
    *("count/broken_rollouts", "count/broken_critiques", "count/broken_verdicts"),
    *("count/unread_critiques_of_lost_attempts", "count/unread_critiques_of_won_attempts"),
    *("count/cut_critiques_of_lost_attempts", "count/cut_critiques_of_won_attempts"),
    *("count/unread_verdicts", "count/failed_lessons", "count/too_long_demonstrations"),
    "count/interface_failures",
)
"""Counts of unusable results and failures, printed if above 0."""

WEIGHTS = {"shared": "one model for both", "adapters": "an adapter each on one model", "models": "a model each"}
"""Descriptions of `weights`."""


def announced(run: TrainingRun) -> list[str]:
    """Describe a run before it starts: method, model, environment, cost, files."""
    if run.is_finished:
        return [f"the run in {run.folder} is finished: nothing is left to do"]
    config, cost = run.config, run.cost
    tasks = "" if run.demonstrations else f" (split {run.on_record['split']}, {len(run.tasks):,} tasks)"
    where = f"environment {config.env}{tasks}"
    model = f"model {config.model}" + (f", critic {config.critic}" if config.critic else "")
    return [
        f"training by {config.method}: {model}, {where}, interface {run.on_record['interface']}",
        f"{_learners(config)}; {cost.parameters:,} parameters in all",
        _rules(config),
        *_memory(run),
        *([f"{processes.count()} processes, which share playing and learning"] if processes.count() > 1 else []),
        *([f"going on after step {run.begun_at}"] if run.begun_at else []),
        *(["no step was finished before: it begins with the first"] if run.begins_anew else []),
        *_playing(config),
        *([f"learning from {run.demonstrations}"] if run.demonstrations else []),
        *_budget(config, cost),
        *_held_out_tasks(run, cost),
        f"to be written to {run.folder}: {', '.join(_written(config))}",
    ]


def describe_memory(run: TrainingRun) -> list[str]:
    """Describe the run's memory by use."""
    cost = run.cost
    head = f"memory for {cost.parameters:,} parameters, of {size_text(run.memory_limit)}:"
    items = [f"  {size / 2**20:10,.0f} MiB  {item}" for item, size in cost.memory.items()]
    items += [f"  {engine.describe_conversations(run.room)}" for engine in cost.engines[:1]]
    disk = f"disk for checkpoints and models: {cost.disk / 2**20:,.0f} MiB at most"
    return [head, *items, disk]


def step_line(step: int, steps: int, signals: Signals) -> str:
    """Describe the result of a step."""
    parts = [f"{name} {signals[name]:.3f}" for name in STEP_SIGNALS if name in signals]
    if "staleness" in signals:
        parts.append(f"stale by {signals['staleness']:g}")
    lost = [
        f"{name.removeprefix('count/').replace('_', ' ')} {signals[name]:g}"
        for name in FAILURE_COUNTS
        if signals.get(name)
    ]
    took = signals["seconds/harvest"] + signals["seconds/learn"]
    return f"step {step}/{steps}: {', '.join([*parts, *lost])}, {took:.1f} s"


def held_out_line(step: int, figures: dict[str, Any]) -> str:
    """Describe the figures of held-out tasks after a step."""
    score, won = Estimate.model_validate(figures["score"]), figures["success"]["value"]
    return f"held-out tasks after {step} steps: score {score.value:.3f} {score.interval(2)}, won {won:.1f}%"


def _learners(config: TrainConfig) -> str:
    """Describe the roles that learn, and those of the method that stay frozen."""
    roles = config.implementation.roles
    learning = [role for role in roles if role in config.trained]
    frozen = "".join(f", the {role} stays as it was" for role in roles if role not in learning)
    weights = f", {WEIGHTS[config.weights]}" if len(roles) > 1 else ""
    return f"{' and '.join(learning)} learn{'' if len(learning) > 1 else 's'}{frozen}{weights}"


def _rules(config: TrainConfig) -> str:
    """Name the advantage, the loss, and the reward of critiques that are learned from."""
    method, own = config.implementation, f"that of {config.method}"
    words = [f"advantage: {config.step.advantage or own}", f"loss: {own if method.loss else 'step.objective'}"]
    if method.refines and "critic" in method.roles and "critic" in config.trained:
        words.append(f"reward of a critique: {config.collecting.critic_reward}")
    return "; ".join(words)


def _memory(run: TrainingRun) -> list[str]:
    """Describe the run's memory in one line."""
    cost, each = run.cost, [(name, size) for name, size in run.cost.memory.items() if size]
    line = f"memory: {size_text(run.memory_limit)}; " + ", ".join(f"{name} {size_text(size)}" for name, size in each)
    return ["; ".join([line, *(engine.describe_conversations(run.room) for engine in cost.engines[:1])])]


def _playing(config: TrainConfig) -> list[str]:
    """Describe servers and playing ahead, if used."""
    servers = config.collecting.servers
    where = f"played by the vLLM server{'s' if len(servers) > 1 else ''} at {', '.join(servers)}"
    ahead = "each batch after the first is played while the one before is learned from"
    return [*([where] if servers else []), *([ahead] if config.step.ahead else [])]


def _budget(config: TrainConfig, cost: RunCost) -> list[str]:
    """Describe the cost of a batch, and of the run."""
    collecting = config.collecting
    steps = f"{quantity(config.steps, 'step')} from {quantity(cost.batches, 'batch')}"
    if collecting.demonstrations:
        return [f"{steps}; at most {quantity(collecting.tasks, 'stored episode')} in each"]
    until = f", or until {config.environment_steps:,} turns are played" if config.environment_steps else ""
    played = f"{quantity(cost.episodes, 'episode')} of {config.env}"
    played += f" and {cost.lessons:,} of the expert" if cost.lessons else ""
    each = f"  {quantity(collecting.tasks, 'task')}, {quantity(collecting.samples, 'sample')} of each: "
    lines = [
        f"{steps}{until}; at most, in each batch:",
        f"{each}{played}, {quantity(cost.most_turns, 'turn')}, {quantity(cost.critiques, 'critique')}",
    ]
    if cost.verdicts:
        lines.append(f"  {cost.replies:,} candidates for actions, {cost.verdicts:,} verdicts on them")
    rows = ", ".join(f"{count:,} of the {role}" for role, count in cost.rows.items())
    in_all = (cost.episodes + cost.lessons) * cost.batches
    return [*lines, f"  rows to learn from: {rows}", f"in all batches at most {quantity(in_all, 'episode')}"]


def _held_out_tasks(run: TrainingRun, cost: RunCost) -> list[str]:
    if not cost.evaluations:
        return []
    when = f"every {run.config.evaluating.every} steps, {cost.evaluations} times at most"
    return [f"held-out tasks: {cost.held_out} episodes of split {run.on_record['held_out']} {when}"]


def _written(config: TrainConfig) -> list[str]:
    """List the files and folders of the run, in order of appearance."""
    method = config.implementation
    criticises = method.refines and method.bounds(config.collecting).critiques > 0
    roles = config.trained[:1] if config.weights == "shared" else config.trained
    return [
        "config.json",
        *(["held_out.jsonl"] if config.evaluating.every else []),
        "signals.jsonl",
        *(["refinements.jsonl"] if method.refines else []),
        *([f"{ROLLOUTS}/"] if config.rollouts.episodes and not config.collecting.demonstrations else []),
        *([f"{CRITIQUES}/"] if config.rollouts.episodes and criticises else []),
        "checkpoints/",
        *(f"{role}/" for role in roles),
        *(["last/"] if config.evaluating.every else []),
        "summary.json",
    ]
