"""A collection: episodes with all their candidates, their labels, and the resulting examples.

    config.json, trajectories/played.jsonl    as in an evaluation's folder (`evaluate/folder.py`)
    labels.jsonl                              one `LabelledEpisode` a line, appended as each is labelled
    examples.parquet                          distinct actions as `ActionExample` rows
    summary.json                              `CollectionSummary`, written last

Not here: playing (`collect.py`), and training (`fit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import get_args

import gymnasium as gym
from pydantic import Field

from align_echo.critic.drawn import SamplingSettings
from align_echo.critic.labels import Rule
from align_echo.errors import MissingDataError, UsageError
from align_echo.faults import fault_text, faults_by_source
from align_echo.files import write_atomically
from align_echo.gaia.examples import FILE, deduplicate, rule_for, write_examples
from align_echo.gaia.labelling import (
    Conversation,
    LabelledEpisode,
    build_examples,
    label_episode,
    proposed_actions,
    turn_candidates,
)
from align_echo.intervals import Percent, scored, success_rate
from align_echo.jsonl import JsonlFile
from align_echo.reading import json_object
from align_echo.trouble import InterfaceConduct, summarize_conduct
from align_echo.types import Frozen, Trajectory

PART = "played"
LABELS = "labels.jsonl"


class LabelCounts(Frozen):
    """Counts of distinct actions labelled correct and wrong by a rule, and of undecided ones."""

    correct: int
    wrong: int
    unknown: int


class CollectionSummary(Frozen):
    """Summary of a collection. `examples` counts distinct actions in distinct conversations, `proposed` also
    repetitions in other episodes; `labels` is by rule, `conduct` is the interface's. `unlabelled` counts turns with
    candidates but without examples, because the engine failed twice or the replay differed from the record.
    """

    environment: str
    split: str
    agent: str
    tasks: int
    episodes: int
    faults: int
    faults_by_source: dict[str, int] = Field(default_factory=dict)
    conduct: InterfaceConduct = InterfaceConduct()
    success_rate: Percent
    turns: int
    candidates: int
    unlabelled: int
    proposed: int
    examples: int
    exploring: int
    labels: dict[str, LabelCounts]


def label_all(
    make_env: Callable[[], gym.Env[str, str]],
    played: Sequence[Trajectory],
    folder: Path,
    *,
    rules: Sequence[Rule],
    on_episode: Callable[[int], None] = lambda number: None,
) -> list[LabelledEpisode]:
    """Label all episodes without a fault by these rules, in order; labels already in the folder are reused.

    `on_episode` is called with the number of each newly labelled episode, from 1.
    """
    file = JsonlFile(folder / LABELS)
    known = {(labelled.task_id, labelled.sample): labelled for labelled in file.read(LabelledEpisode)}
    episodes: list[LabelledEpisode] = []
    env = make_env()
    try:
        for number, trajectory in enumerate(scored(played), start=1):
            labelled = known.get((trajectory.task_id, trajectory.sample))
            if labelled is None or not labelled.belongs_to(trajectory):
                on_episode(number)
                labelled = label_episode(env, trajectory, rules)
                file.append(labelled)
            episodes.append(labelled)
    finally:
        env.close()
    return episodes


def finish(
    played: Sequence[Trajectory],
    labelled: Sequence[LabelledEpisode],
    conversation: Conversation,
    folder: Path,
    *,
    action_format: str,
    weights: str,
    number: int = 1,
) -> CollectionSummary:
    """Write the examples and the summary. Raises `UsageError` if no episode was played to its end."""
    trajectories = scored(played)
    if not trajectories:
        fault = next(
            (fault_text(trajectory.fault) for trajectory in played if trajectory.fault is not None), "none was played"
        )
        raise UsageError(f"all {len(played)} episodes broke, so there is nothing to learn from; the first: {fault}")
    examples = [
        example
        for trajectory, labels in zip(trajectories, labelled, strict=True)
        for example in build_examples(
            trajectory, labels, conversation, action_format=action_format, weights=weights, number=number
        )
    ]
    distinct = deduplicate(examples)
    write_examples(distinct, folder / FILE)
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    collected = CollectionSummary(
        environment=trajectories[0].environment,
        split=trajectories[0].split,
        agent=trajectories[0].agent,
        tasks=len({trajectory.task_id for trajectory in trajectories}),
        episodes=len(trajectories),
        faults=len(played) - len(trajectories),
        faults_by_source=faults_by_source(played),
        conduct=summarize_conduct(trajectories),
        success_rate=success_rate(trajectories),
        turns=len(steps),
        candidates=sum(len(turn_candidates(step)) for step in steps),
        unlabelled=sum(
            bool(proposed_actions(step)) and not actions
            for trajectory, labels in zip(trajectories, labelled, strict=True)
            for step, actions in zip(trajectory.steps, labels.turns, strict=True)
        ),
        proposed=len(examples),
        examples=len(distinct),
        exploring=sum(example.explores for example in distinct),
        labels={rule: _shares([example.label(rule) for example in distinct]) for rule in get_args(Rule)},
    )
    write_atomically(folder / "summary.json", collected.model_dump_json(indent=2) + "\n")
    return collected


def _shares(labels: Sequence[str | None]) -> LabelCounts:
    counts = Counter(labels)
    return LabelCounts(correct=counts["correct"], wrong=counts["wrong"], unknown=counts[None])


def read_sampling_settings(folder: Path) -> SamplingSettings | None:
    """Read a collection's sampling settings; None if its folder does not record them."""
    config = json_object(folder / "config.json") or {}
    details, top_k, top_p = config.get("agent_details"), config.get("top_k"), config.get("top_p")
    if top_k is None and config.get("base_url") is None:
        top_k, top_p = 0, 1.0
    try:
        return SamplingSettings(temperature=float(details["temperature"]), top_k=top_k, top_p=top_p)  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        return None


def default_episode_rule(episodes: Iterable[tuple[Trajectory, LabelledEpisode]]) -> Rule:
    """Return the default label rule of labelled episodes. Raises as `rule_for`."""
    return rule_for(
        (trajectory.environment, action)
        for trajectory, labelled in episodes
        for turn in labelled.turns
        for action in turn
    )


def read_collection(folder: Path) -> tuple[list[Trajectory], list[LabelledEpisode]]:
    """Read the episodes without a fault and their labels, in the same order.

    Raises `MissingDataError` for an incomplete collection, `UsageError` for damaged files.
    """
    if not (folder / "summary.json").is_file() or not (folder / LABELS).is_file():
        raise MissingDataError(f"{folder} holds no finished collection: run align-echo critic collect --out {folder}")
    played = scored(JsonlFile(folder / "trajectories" / f"{PART}.jsonl").read(Trajectory))
    known = {(labels.task_id, labels.sample): labels for labels in JsonlFile(folder / LABELS).read(LabelledEpisode)}
    pairs = [(trajectory, known.get((trajectory.task_id, trajectory.sample))) for trajectory in played]
    labelled = [labels for trajectory, labels in pairs if labels is not None and labels.belongs_to(trajectory)]
    if not labelled or len(labelled) < len(played):
        raise MissingDataError(f"{folder} lacks labels of episodes: go on with align-echo critic collect --resume")
    return played, labelled
