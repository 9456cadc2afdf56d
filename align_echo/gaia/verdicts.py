"""Ask a critic about every candidate of played episodes, and store the verdicts so that a resumed trial asks nothing
twice.

    opinions.jsonl    one `EpisodeVerdicts` a line, appended after each episode; for screens one `StepVerdicts` a line,
                      appended after each step

Not here: the figures (`trial.py`, `gui/screens.py`), and the identity of the critic (a run's folder has one critic).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict

from align_echo.base.files import read_bytes
from align_echo.base.halting import together
from align_echo.base.jsonl import JsonlFile
from align_echo.critic.ask import ActionQuestion, ActionRecord, Critic, SamplingSettings, UnreadVerdicts, Verdict, ask
from align_echo.critic.labels import LABEL_RULES
from align_echo.errors import MissingDataError, UsageError
from align_echo.gaia.collect import read_sampling_settings
from align_echo.gaia.examples import (
    ActionExample,
    Balance,
    Conversation,
    LabelledEpisode,
    balance_examples,
    deduplicate,
    examples_file,
    proposed_actions,
    read_examples,
    rule_for,
    split_held_out,
)
from align_echo.rollout.batches import view_before
from align_echo.types import Frozen, Trajectory

FILE = "opinions.jsonl"
WORKERS = 8
"""Episodes in parallel."""


@dataclass(frozen=True)
class RatedEpisode:
    """An episode with its labels, its agent's conversation, and its environment's action format."""

    trajectory: Trajectory
    labels: LabelledEpisode
    chat: Conversation
    action_format: str

    @property
    def digest(self) -> str:
        """Return the hash of the episode."""
        return hash_episode(self.trajectory)


def hash_episode(trajectory: Trajectory) -> str:
    """Compute the SHA-256 of an episode: equal for a copy of it."""
    return hashlib.sha256(trajectory.model_dump_json().encode()).hexdigest()


class EpisodeVerdicts(Frozen):
    """Verdicts on the distinct candidates of each turn of an episode, identified by its digest."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    episode: str
    turns: tuple[tuple[ActionRecord, ...], ...]

    @property
    def by_turn(self) -> list[Mapping[str, Verdict]]:
        """Return each turn's verdicts by action."""
        return [by_action(turn) for turn in self.turns]

    @property
    def complete(self) -> bool:
        """Return whether the model answered about every action. An unreadable reply counts as an answer: it would come
        again.
        """
        return not any(verdict.fault for turn in self.turns for verdict in turn)


class StepVerdicts(Frozen):
    """Verdicts on the distinct proposed actions of a dataset's step, identified by its id."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: str
    said: tuple[ActionRecord, ...]


def by_action(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """Index verdicts by action."""
    return {verdict.action: verdict for verdict in verdicts}


def without_repeats(episodes: Sequence[RatedEpisode]) -> list[RatedEpisode]:
    """Remove repeated episodes, in order, if several collections hold the same one."""
    return list({episode.digest: episode for episode in reversed(episodes)}.values())[::-1]


def collect_verdicts(
    critic: Critic,
    episodes: Sequence[RatedEpisode],
    folder: Path,
    *,
    on_episode: Callable[[int], None] = lambda done: None,
) -> list[Mapping[str, Verdict]]:
    """Return the critic's verdicts by turn, over all episodes in order. Verdicts already in the folder are reused.

    The file appears with the first complete episode. `on_episode` is called with the number of finished episodes.
    Raises `UsageError` for a critic whose answers hold no verdicts (`UnreadVerdicts`).
    """
    file = JsonlFile(folder / FILE)
    known = {record.episode: record for record in file.read(EpisodeVerdicts)}

    def judge(episode: RatedEpisode) -> EpisodeVerdicts:
        digest = episode.digest
        if digest in known:
            return known[digest]
        record = EpisodeVerdicts(episode=digest, turns=tuple(_verdicts_by_turn(critic, episode)))
        if record.complete:
            file.append(record)
        return record

    pool = ThreadPoolExecutor(WORKERS)
    by_turn: list[Mapping[str, Verdict]] = []
    unread = UnreadVerdicts()
    try:
        with together():
            records = [pool.submit(copy_context().run, judge, episode) for episode in episodes]
            for done, record in enumerate(records, start=1):
                turns = record.result().by_turn
                unread.add(critic, [verdict for turn in turns for verdict in turn.values()])
                by_turn += turns
                on_episode(done)
    finally:
        pool.shutdown(cancel_futures=True)
    return by_turn


def read_verdicts(played: Sequence[Trajectory], folder: Path) -> list[Mapping[str, Verdict]]:
    """Read the verdicts of a finished trial on these episodes, by turn, over all in order.

    Raises `MissingDataError` for a missing episode.
    """
    known = {record.episode: record for record in JsonlFile(folder / FILE).read(EpisodeVerdicts)}
    records = [known.get(hash_episode(trajectory)) for trajectory in played]
    if None in records:
        raise MissingDataError(f"{folder} lacks verdicts on episodes: go on with align-echo critic evaluate --resume")
    return [turn for record in records if record is not None for turn in record.by_turn]


def _verdicts_by_turn(critic: Critic, episode: RatedEpisode) -> Iterator[tuple[Verdict, ...]]:
    for turn, step in enumerate(episode.trajectory.steps):
        actions = proposed_actions(step)
        if not actions:
            yield ()
            continue
        chat = episode.chat(view_before(episode.trajectory, turn, episode.action_format))
        conversation = [message.model_copy(update={"tokens": None}) for message in chat]
        yield tuple(ask(critic, [ActionQuestion(conversation, action) for action in actions]))


# ---------------------------------------------------------------- training data from collections


@dataclass(frozen=True)
class TrainingData:
    """Training and test examples of a critic with their label rule; `collections` by the SHA-256 of their examples, and
    the recorded sampling settings of their candidates (`drawn`).

    Counts of examples left out: `duplicates`, equal actions in the same conversation; `unlabelled`, undecided by the
    rule; and `unbalanced`, dropped from the larger class.
    """

    rule: str
    learned: list[ActionExample]
    tested: list[ActionExample]
    collections: dict[str, Path]
    drawn: tuple[SamplingSettings, ...] = ()
    duplicates: int = 0
    unlabelled: int = 0
    unbalanced: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        """Return how many actions were left out, by reason."""
        return {
            "duplicates": self.duplicates,
            f"that the rule {self.rule!r} cannot tell": self.unlabelled,
            "so that as many are right as wrong": self.unbalanced,
        }


def prepare_training_data(
    collections: Sequence[Path], share: float, rule: str | None, *, seed: int, balance: Balance = "dropped"
) -> TrainingData:
    """Prepare examples from all collections; a `share` of the tasks is for tests. Without a `rule`, use the
    environments' default.

    With `balance` "weighed", all training examples stay; their weights are computed later. Raises `UsageError` for
    unusable examples, `MissingDataError` for a collection without any.
    """
    named = LABEL_RULES.get(rule).name if rule else None
    folders = index_by_content(collections)
    all_examples = [example for folder in folders.values() for example in read_examples(folder)]
    examples = deduplicate(all_examples)
    chosen = named or rule_for((example.environment, example) for example in examples)
    learned, tested = split_examples(examples, share, chosen, seed=seed, balance=balance)
    drawn = [read_sampling_settings(folder) for folder in folders.values()]
    labelled, retained = (
        sum(example.label(chosen) is not None for example in some) for some in (examples, [*learned, *tested])
    )
    return TrainingData(
        rule=chosen,
        learned=learned,
        tested=tested,
        collections=folders,
        drawn=tuple(way for way in drawn if way is not None),
        duplicates=len(all_examples) - len(examples),
        unlabelled=len(examples) - labelled,
        unbalanced=labelled - retained,
    )


def index_by_content(collections: Sequence[Path]) -> dict[str, Path]:
    """Index the collections by the SHA-256 of their examples, so that a collection named twice counts once.

    Raises `MissingDataError` for a collection without examples.
    """
    files: dict[str, Path] = {}
    for folder in collections:
        files.setdefault(hashlib.sha256(read_bytes(examples_file(folder))).hexdigest(), folder)
    return files


def split_examples(
    examples: Sequence[ActionExample], share: float, rule: str, *, seed: int, balance: Balance = "dropped"
) -> tuple[list[ActionExample], list[ActionExample]]:
    """Split into (training, test), each balanced; the training part stays complete if it is "weighed".

    Raises `UsageError` for a side without correct or wrong actions.
    """
    balance_examples(examples, rule, seed=seed)
    learned, tested = split_held_out(examples, share, seed=seed)
    try:
        dropped = balance_examples(learned, rule, seed=seed)
        return dropped if balance == "dropped" else learned, balance_examples(tested, rule, seed=seed) if share else []
    except UsageError as error:
        hint = "choose another --held-out, or 0 to learn from all and leave the critic uncalibrated"
        raise UsageError(f"the tasks are too few to hold {share} of them out: collect more, {hint}") from error
