"""Episodes as logs of inspect_ai, one `.eval` file per part of a run, for `inspect view` and its API.

    logs, damaged = write_logs([Path("runs/first")], Path("logs"))

An episode is a sample: its id is the task's, its epoch the episode's sample, counted from 1. Its messages are the rules
given up front (system), goal, critique and observations (user) and replies (assistant), in order; the exact prompt is
the agent's own and not recorded. Other facts of a turn are metadata of its observation: the action if it differs from
the reply, the raw observation if it differs, candidates, rules, violations, errors. "success" is C or I, "score" a
number; an episode with a fault has it as error, and no score. A run without a summary is "cancelled": it was stopped,
or is still running. Times are those of the run's files, since episodes record none. Keys and passwords are removed, and
characters not allowed in file names are removed from ids.

One part is in memory at a time. Not here: token ids, the recorded rules behind a message (`listing.py`), and reading
logs of inspect_ai.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from align_echo.base.plain_yaml import json_object
from align_echo.errors import MissingExtraError, UsageError, printable, without_secrets
from align_echo.intervals import Estimate, mean_score, scored, success_rate
from align_echo.report.view.reading import CritiqueIndex, Labels, OracleLabels, PlacedCritique
from align_echo.rollout.episode_files import DamagedLine, EpisodeFile, describe_damage, find_episodes, read_episodes
from align_echo.run_dir import CONFIG, SUMMARY
from align_echo.types import NO_REPLY, Step, Trajectory, Usage

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalMetric, EvalResults, EvalSample, EvalSpec
    from inspect_ai.model import ChatMessage, ModelUsage

LONGEST_ID = 200
"""Most characters of a sample's id, used as a file name by inspect_ai; longer ids end with a hash."""

Model = TypeVar("Model", bound=BaseModel)


def write_logs(paths: Sequence[Path], out: Path) -> tuple[list[Path], list[DamagedLine]]:
    """Write a log for each part of these runs into the folder `out`, replacing logs of the same parts.

    Raises `MissingExtraError` without inspect_ai, and `UsageError` for paths without episodes or an `out` that is a
    file. All logs appear or none.
    """
    if find_spec("inspect_ai") is None:
        raise MissingExtraError("writing logs for inspect_ai", "inspect")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: --eval names a folder")
    parts = find_episodes(paths)
    damaged: list[DamagedLine] = []
    critiques, labels = CritiqueIndex(parts, damaged), OracleLabels(parts, damaged)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=".", dir=out))
    try:
        for part in parts:
            _write_log(part, critiques, labels, damaged, unfinished)
        names = sorted(file.name for file in unfinished.iterdir())
        if not names:
            raise UsageError("; ".join(["no episode can be read", *describe_damage(damaged)[:1]]))
        for name in names:
            os.replace(unfinished / name, out / name)
        return [out / name for name in names], damaged
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and not any(out.iterdir()):
            out.rmdir()


def _write_log(
    part: EpisodeFile, critiques: CritiqueIndex, labels: OracleLabels, damaged: list[DamagedLine], folder: Path
) -> None:
    """Write the log of a part; none without episodes."""
    from inspect_ai.log import write_eval_log

    before = len(damaged)
    episodes = list(read_episodes(part.file, damaged))
    if episodes:
        log = _log(part, episodes, critiques, labels, describe_damage(damaged[before:]))
        time, task = log.eval.created[:19].replace(":", "-"), re.sub(r"[^\w.-]+|_", "-", log.eval.task)[:100]
        write_eval_log(log, str(folder / f"{time}_{task}_{log.eval.task_id}.eval"), format="eval")


def _log(
    part: EpisodeFile,
    episodes: Sequence[Trajectory],
    critiques: CritiqueIndex,
    labels: OracleLabels,
    damaged: list[str],
) -> EvalLog:
    from inspect_ai.log import EvalLog, EvalStats

    config = json_object(part.folder / CONFIG) or {}
    names = _sample_names(episodes)
    spec = _without_secrets(_spec(part, episodes[0], config, names, damaged))
    samples = []
    for trajectory, name in zip(episodes, names, strict=True):
        reviews = critiques.for_episode(part, trajectory.task_id, trajectory.sample, trajectory.critique)
        turn_labels = labels.for_episode(part, trajectory)
        samples.append(_without_secrets(_sample(trajectory, name, reviews, turn_labels, spec.model)))
    usage = sum((trajectory.usage for trajectory in episodes), Usage())
    completed_at = _time(part.file)
    stats = EvalStats(started_at=spec.created, completed_at=completed_at, model_usage=_by_model(spec.model, usage))
    has_ended = (part.folder / SUMMARY).is_file() or not (part.folder / CONFIG).is_file()
    status = "success" if has_ended else "cancelled"
    return EvalLog(status=status, eval=spec, samples=samples, results=_results(episodes), stats=stats)


def _spec(
    part: EpisodeFile, first: Trajectory, config: dict[str, Any], names: Sequence[tuple[str, int]], damaged: list[str]
) -> EvalSpec:
    """Describe a log: its task is run and part, its model the agent's, or the agent's name if no model is recorded."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalSpec

    task = f"{part.run}: {part.part}"
    model = config.get("model")
    config_file = part.folder / CONFIG
    ids = list(dict.fromkeys(sample_id for sample_id, _ in names))
    settings = {"environment": first.environment, "split": first.split, "interface": first.interface}
    return EvalSpec(
        eval_id=_hash_id(f"{task}\n{part.file}"),
        run_id=_hash_id(part.run),
        task_id=_hash_id(str(part.file)),
        created=_time(config_file if config_file.is_file() else part.file),
        task=task,
        task_args={**settings, "seed": first.seed},
        solver=first.agent,
        model=model if isinstance(model, str) and model else first.agent,
        dataset=EvalDataset(name=first.environment, location=first.split, samples=len(ids), sample_ids=ids),
        config=EvalConfig(epochs=max(epoch for _, epoch in names), fail_on_error=False),
        packages={"align_echo": str(config["align_echo"])} if "align_echo" in config else {},
        metadata={"run": part.run, "part": part.part, "config": config, **({"damaged": damaged} if damaged else {})},
    )


def _sample_names(episodes: Sequence[Trajectory]) -> list[tuple[str, int]]:
    """Return a unique id and epoch for each episode's sample: a copy takes the next free epoch."""
    names: dict[tuple[str, int], None] = {}
    for trajectory in episodes:
        sample_id, epoch = _sample_id(trajectory.task_id), max(0, trajectory.sample) + 1
        while (sample_id, epoch) in names:
            epoch += 1
        names[sample_id, epoch] = None
    return list(names)


def _sample_id(task_id: str) -> str:
    plain = " ".join(printable(without_secrets(task_id)).split())[:LONGEST_ID]
    return plain if plain == task_id else f"{plain[: LONGEST_ID - 23]}-{_hash_id(task_id)}"


# ---------------------------------------------------------------- one episode


def _sample(
    trajectory: Trajectory,
    name: tuple[str, int],
    placed_reviews: Sequence[PlacedCritique],
    labels: Sequence[Labels],
    model: str,
) -> EvalSample:
    from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import CORRECT, INCORRECT, Score

    usage = _by_model(model, trajectory.usage)
    output = ModelOutput.from_content(model, trajectory.steps[-1].reply) if trajectory.steps else ModelOutput()
    error = scores = limit = None
    if trajectory.fault is not None:
        fault = trajectory.fault
        text = f"the {fault.source} broke: {fault.error}: {fault.message}"
        error = EvalError(message=text, traceback=fault.traceback or text, traceback_ansi=fault.traceback or text)
    else:
        success = Score(value=CORRECT if trajectory.won else INCORRECT)
        scores = {"success": success, "score": Score(value=trajectory.score)}
    if trajectory.steps and trajectory.steps[-1].truncated:
        limit = EvalSampleLimit(type="turn", limit=len(trajectory.steps))
    excluded = {"steps", "score", "won", "rules", "goal", "initial_observation", "fault", "sample"}
    about = trajectory.model_dump(mode="json", exclude_defaults=True, exclude=excluded)
    reviews = [
        placed.review.model_dump(mode="json", exclude_defaults=True, exclude={"tokens"}) for placed in placed_reviews
    ]
    return EvalSample(
        id=name[0],
        epoch=name[1],
        input=trajectory.goal,
        target="",
        messages=list(_messages(trajectory, labels, model)),
        output=output.model_copy(update={"usage": usage.get(model)}),
        scores=scores,
        metadata={**about, **({"reviews": reviews} if reviews else {})},
        model_usage=usage,
        error=error,
        limit=limit,
        turn_count=len(trajectory.steps),
    )


def _messages(trajectory: Trajectory, labels: Sequence[Labels], model: str) -> Iterator[ChatMessage]:
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ContentReasoning,
        ContentText,
    )

    if trajectory.rules:
        yield ChatMessageSystem(content=trajectory.rules, source="input")
    for text in filter(None, (trajectory.goal, trajectory.critique, trajectory.initial_observation)):
        yield ChatMessageUser(content=text, source="input")
    for number, (step, turn_labels) in enumerate(zip(trajectory.steps, labels, strict=True), start=1):
        text = ContentText(text=step.reply or NO_REPLY)
        thoughts = [ContentReasoning(reasoning=step.thinking.strip()), text]
        yield ChatMessageAssistant(content=thoughts if step.thinking else text.text, source="generate", model=model)
        yield ChatMessageUser(content=step.observation, metadata=_turn(number, step, turn_labels))


def _turn(number: int, step: Step, labels: Labels) -> dict[str, Any]:
    """Return a turn's metadata, besides reply and observation."""
    turn = step.model_dump(mode="json", exclude_defaults=True, exclude={"reply", "observation", "tokens", "thinking"})
    if step.action == step.reply:
        del turn["action"]
    if step.raw_observation == step.observation:
        del turn["raw_observation"]
    return {"turn": number, **turn, **({"labels": labels} if labels else {})}


# ---------------------------------------------------------------- figures and names


def _results(episodes: Sequence[Trajectory]) -> EvalResults:
    """Compute success and mean score of the episodes without a fault, each with its 95% interval, in [0, 1]."""
    from inspect_ai.log import EvalResults, EvalScore

    rated = scored(episodes)
    counts = {"scored_samples": len(rated), "unscored_samples": len(episodes) - len(rated)}
    figures = []
    if rated:
        rate, mean = success_rate(rated), mean_score(rated)
        figures = [
            EvalScore(name="success", scorer="success", metrics=_metrics("accuracy", rate, 0.01), **counts),
            EvalScore(name="score", scorer="score", metrics=_metrics("mean", mean, 1.0), **counts),
        ]
    return EvalResults(total_samples=len(episodes), completed_samples=len(rated), scores=figures)


def _metrics(name: str, estimate: Estimate, scale: float) -> dict[str, EvalMetric]:
    from inspect_ai.log import EvalMetric

    interval = {} if estimate.ci95 is None else dict(zip(("ci95_low", "ci95_high"), estimate.ci95, strict=True))
    values = {name: estimate.value, **interval}
    return {each: EvalMetric(name=each, value=scale * value) for each, value in values.items()}


def _by_model(model: str, total: Usage) -> dict[str, ModelUsage]:
    usage = _usage(total)
    return {} if usage is None else {model: usage}


def _usage(total: Usage) -> ModelUsage | None:
    """Convert usage; None if the number of tokens is unknown."""
    from inspect_ai.model import ModelUsage

    read, written = total.prompt_tokens, total.completion_tokens
    if read is None or written is None:
        return None
    cost = total.cost_usd or None
    return ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written, total_cost=cost)


def _time(file: Path) -> str:
    """Return when a file was last written, in UTC."""
    return datetime.fromtimestamp(int(file.stat().st_mtime), UTC).isoformat()


def _hash_id(text: str) -> str:
    """Hash a text to 22 characters, the length of inspect_ai's ids."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:22]


def _without_secrets(model: Model) -> Model:
    text = model.model_dump_json()
    cleaned = without_secrets(text)
    return model if cleaned == text else type(model).model_validate_json(cleaned)
