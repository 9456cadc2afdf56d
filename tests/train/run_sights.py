"""What is looked at in a run on record (`run_record.py`), and worlds in which it can be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from align_echo.train.backbone import AdapterModels
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import Role
from align_echo.wrappers.plain import TextEnvironment
from studies.graded import Hall
from tests.doors import Doors
from tests.models.local.tiny import tiny_model
from tests.train.run_record import MODELS, Learned, RunRecord

DOORS = TextEnvironment(
    Doors,
    splits={"train": range(4), "test": range(4, 7), "spare": range(7, 10)},
    return_range=(-4.0, 2.0),
    task_type=lambda task: "even" if int(task) % 2 == 0 else "odd",
    expert=lambda env: f"open {env.right}",
    distance=lambda env: 1,
)
HALL = TextEnvironment(
    Hall,
    splits={"train": range(4), "test": range(4, 7), "spare": range(7, 10), "lone": [10]},
    task_type=DOORS.task_type,
)

def rate(group: int) -> Callable[[RunRecord], float]:
    """The highest rate of a group of weights."""
    return lambda record: max(update[group].lr for update in record.updates)


def factors(record: RunRecord) -> list[float]:
    """The policy's rate at each step, as a share of the highest."""
    return [update[0].lr / rate(0)(record) for update in record.updates]


def warmup(record: RunRecord) -> int:
    """How many steps there are before the rate is full."""
    return factors(record).index(1.0)


def after_warmup(record: RunRecord) -> list[float]:
    return factors(record)[warmup(record) :]


def norms(record: RunRecord) -> list[float]:
    """Of each group of weights the largest norm of a gradient that the optimizer was given."""
    return [max(group.norm for group in groups) for groups in zip(*record.updates, strict=True)]


def explained(field: str, *values: object) -> Callable[[RunRecord], str]:
    """The values of a field of the objective by which every loss of a run is what it is by hand."""

    def explaining(record: RunRecord) -> str:
        objective = record.config.step.objective
        tried = {str(value): objective.model_copy(update={field: value}) for value in values}
        return " or ".join(value for value, each in tried.items() if explains(each, record))

    return explaining


def explains(objective: ObjectiveSettings, record: RunRecord) -> bool:
    """Whether an objective gives the loss of every call."""
    losses = [float(call.loss.loss) for call in record.learned]
    by_hand = [loss_by_hand(call, objective, record) for call in record.learned]
    return by_hand == pytest.approx(losses, rel=1e-4, abs=1e-6)


def loss_by_hand(call: Learned, objective: ObjectiveSettings, record: RunRecord) -> float:
    """The loss of a call, token by token."""
    batch, old, reference = call.batch, before_learning(call, record), of_the_start(call, record)
    stale = record.config.step.ahead and objective.corrected
    total = 0.0
    for row in range(len(batch.ids)):
        advantage, scale = float(batch.advantages[row]), float(batch.scale[row])
        places = batch.mask[row].nonzero().flatten().tolist()
        moved_by = {place: float(call.logprobs[row, place] - old[row, place]) for place in places}
        since = {place: float(old[row, place] - batch.sampled[row, place]) for place in places}
        if objective.ratio == "sequence":
            moved_by = dict.fromkeys(places, math.fsum(moved_by.values()) / len(places))
        if objective.ratio == "sequence" and not batch.moved[row]:
            since = dict.fromkeys(places, math.fsum(since.values()) / len(places))
        for place in places:
            ratio, likely = math.exp(moved_by[place]), float(call.logprobs[row, place])
            held = min(max(ratio, 1 - objective.clip_low), 1 + objective.clip_high)
            term = -min(ratio * advantage, held * advantage)
            if objective.reweigh if batch.moved[row] else stale:
                term *= min(math.exp(since[place]), objective.max_weight)
            if batch.expert[row]:
                shaped = math.exp(likely) / (math.exp(likely) + objective.gamma)
                term = -advantage * (shaped if objective.expert == "shaped" else likely)
            away = float(reference[row, place]) - likely
            total += scale * (term + objective.beta * (-away if objective.kl == "k1" else math.exp(away) - away - 1))
    return total


def before_learning(call: Learned, record: RunRecord) -> torch.Tensor:
    """The log-probabilities of the weights that began to learn from a batch."""
    return next(
        earlier.logprobs
        for earlier in record.learned
        if earlier.harvest == call.harvest and earlier.batch.role == call.batch.role
        if torch.equal(earlier.batch.ids, call.batch.ids)
    )


def of_the_start(call: Learned, record: RunRecord) -> torch.Tensor:
    """The log-probabilities [B, T-1] of the model that the policy began as."""
    model = tiny_model(seed=MODELS[Path(record.config.model).name], context=4096)
    with torch.no_grad():
        logits = model(input_ids=call.batch.ids).logits[:, :-1] / record.config.collecting.temperature
    known: torch.Tensor = logits.log_softmax(-1).gather(-1, call.batch.ids[:, 1:, None])[..., 0]
    return known


def moving_at_once(record: RunRecord) -> list[bool]:
    """Which groups of weights have a gradient in the first step."""
    return [group.norm > 0 for group in record.updates[0]]


def advantages(record: RunRecord) -> list[float]:
    """The advantages of the policy's rows in the first step, each once."""
    batches = [call.batch for call in record.learned if call.step == 0 and call.batch.role == "policy"]
    return sorted({round(value, 3) for batch in batches for value in batch.advantages.flatten().tolist()})


def spread(record: RunRecord) -> float:
    """The standard deviation of the advantages of the policy's rows in the first step."""
    batches = [call.batch for call in record.learned if call.step == 0 and call.batch.role == "policy"]
    return float(torch.cat([batch.advantages.flatten() for batch in batches]).std())


def counted(record: RunRecord) -> list[float]:
    """What a token of each row counts in the first step, as a share of the most."""
    found = [value for call in record.learned if call.step == 0 for value in call.batch.scale.flatten().tolist()]
    return sorted({round(value / max(found), 3) for value in found})


def lines(record: RunRecord, file: str) -> int:
    path = record.folder / file
    return len(path.read_text().splitlines()) if path.is_file() else 0


def temperatures(record: RunRecord, *, held_out: bool = False) -> list[float]:
    return sorted({request.sampling.temperature for request in record.requests(held_out=held_out)})


def bounds(role: Role) -> Callable[[RunRecord], list[int]]:
    """The most tokens of a role's replies."""
    return lambda record: sorted({request.sampling.max_tokens for request in record.requests(role)})


def held_out_temperatures(record: RunRecord) -> list[float]:
    return temperatures(record, held_out=True)


def splits(record: RunRecord, *, held_out: bool = False) -> str:
    """The split of the episodes, and the splits that their tasks are of."""
    episodes = record.held_out_episodes if held_out else record.episodes
    own = {name for name, tasks in HALL.splits.items() for each in episodes if int(each.task_id) in tasks}
    return f"{' '.join({each.split for each in episodes})}: {' '.join(own)}"


def held_out_splits(record: RunRecord) -> str:
    return splits(record, held_out=True)


def parities(record: RunRecord) -> list[int]:
    return sorted({int(task) % 2 for queries in record.queries for task in queries})


def opening(text: str) -> Callable[[RunRecord], bool]:
    """Whether the policy is told a text before its first reply."""
    return lambda record: text in record.said_to("policy")


def leaves_turns_out(record: RunRecord) -> bool:
    """Whether a prompt of the policy leaves turns out."""
    return any("left out here" in asked.text for asked in record.asked if asked.role == "policy")


def refinements(record: RunRecord) -> float:
    """Attempts under a critique for each without one."""
    told = [bool(each.critique) for each in record.episodes]
    return sum(told) / (len(told) - sum(told))


def rounds(record: RunRecord) -> int:
    """How many attempts a session of four has at most: the number of a later one is higher by four."""
    return len({each.sample // 4 for each in record.episodes})


def workers(record: RunRecord) -> list[int]:
    """Conversations that an engine holds at once, and episodes that one part of a harvest plays at once."""
    return [record.engines["policy"].slots, max(record.workers)]


def dtype(record: RunRecord) -> str:
    return str(record.engines["policy"].dtype)


def who_draws(record: RunRecord) -> str:
    """Engines and their adapters, by roles."""
    asked = {asked.role: f"{asked.engine}+{asked.request.adapter}" for asked in record.asked}
    return ", ".join(f"{role} by {engine}" for role, engine in sorted(asked.items()))


def adapter(record: RunRecord) -> Any:
    """A layer with adapters of the weights that learn."""
    assert record.crew is not None
    assert isinstance(record.crew.backbone, AdapterModels)
    return next(module for module in record.crew.backbone.module.modules() if hasattr(module, "lora_A"))


def moved(record: RunRecord) -> str:
    """The roles whose weights are others than at the start."""
    assert record.crew is not None
    roles: tuple[Role, ...] = ("policy", "critic")
    now = {role: dict(record.crew.backbone.activate(role).named_parameters()) for role in roles}
    return " ".join(
        role
        for role, before in record.begun.items()
        if any(not torch.equal(before[name], weights) for name, weights in now[role].items())
    )


def checkpoints(record: RunRecord) -> str:
    folders = (record.folder / "checkpoints").glob("checkpoint-*")
    return " ".join(sorted(folder.name.removeprefix("checkpoint-") for folder in folders))


def critic_rewards(record: RunRecord) -> list[float]:
    return sorted({round(each.reward, 3) for each in record.harvests[0].rows if each.role == "critic"})


def experts(record: RunRecord) -> float:
    """The share of rows that are an expert's."""
    rows = record.harvests[0].rows
    return sum(each.expert for each in rows) / len(rows)


def ending(record: RunRecord) -> str:
    """How many steps were made, and whether a loss ended the run."""
    return f"{len(record.signals)}, {'by its loss' if 'beyond' in record.error else 'as it should'}"
