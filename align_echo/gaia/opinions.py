"""What a critic says of every candidate of played episodes, kept on disk so that a stopped trial asks nothing twice.

    opinions.jsonl    one `EpisodeOpinions` a line, appended as each episode was asked about; on screens one
                      `StepOpinions` a line, appended as each step was

Left out: what it is worth (`figures.py`, `gui/screens.py`), and which critic it is (a run's folder is of one critic).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict

from align_echo.critic.opinion import Opinion
from align_echo.critic.scoring import Critic
from align_echo.errors import MissingDataError
from align_echo.gaia.labelling import Conversation, LabelledEpisode, proposed
from align_echo.halting import together
from align_echo.jsonl import JsonlFile
from align_echo.rollout import view_before
from align_echo.types import Frozen, Trajectory

FILE = "opinions.jsonl"
WORKERS = 8
"""Episodes that are asked about at once."""


@dataclass(frozen=True)
class RatedEpisode:
    """An episode with its labels, the chat of the agent that played it, and its environment's form of actions."""

    trajectory: Trajectory
    labels: LabelledEpisode
    chat: Conversation
    action_format: str

    @property
    def digest(self) -> str:
        """What tells the episode from others."""
        return digest_of(self.trajectory)


def digest_of(trajectory: Trajectory) -> str:
    """SHA-256 of all that was played: the same for a copy of the episode."""
    return hashlib.sha256(trajectory.model_dump_json().encode()).hexdigest()


class EpisodeOpinions(Frozen):
    """What was said of the distinct candidates of each turn of the episode with this digest."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    episode: str
    turns: tuple[tuple[Opinion, ...], ...]

    @property
    def by_turn(self) -> list[Mapping[str, Opinion]]:
        """For each turn the opinion of each action."""
        return [by_action(turn) for turn in self.turns]

    @property
    def complete(self) -> bool:
        """Whether the model broke over no action. A reply that cannot be read is an answer: it would come again."""
        return not any(opinion.broken for turn in self.turns for opinion in turn)


class StepOpinions(Frozen):
    """What was said of the distinct actions that were proposed in the step of a dataset with this id."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: str
    said: tuple[Opinion, ...]


def by_action(opinions: Iterable[Opinion]) -> dict[str, Opinion]:
    """The opinion of each action."""
    return {opinion.action: opinion for opinion in opinions}


def distinct(episodes: Sequence[RatedEpisode]) -> list[RatedEpisode]:
    """Each episode once, in order, however many collections hold it."""
    return list({episode.digest: episode for episode in reversed(episodes)}.values())[::-1]


def opinions(
    critic: Critic,
    episodes: Sequence[RatedEpisode],
    folder: Path,
    *,
    on_episode: Callable[[int], None] = lambda done: None,
) -> list[Mapping[str, Opinion]]:
    """The critic's opinions by turn, over all episodes in order. What the folder has is not asked for again.

    The file appears with the first episode over which the critic's model did not break. `on_episode` is told how many
    are done.
    """
    file = JsonlFile(folder / FILE)
    known = {record.episode: record for record in file.read(EpisodeOpinions)}

    def ask(episode: RatedEpisode) -> EpisodeOpinions:
        digest = episode.digest
        if digest in known:
            return known[digest]
        record = EpisodeOpinions(episode=digest, turns=tuple(_opinions_by_turn(critic, episode)))
        if record.complete:
            file.append(record)
        return record

    pool = ThreadPoolExecutor(WORKERS)
    by_turn: list[Mapping[str, Opinion]] = []
    try:
        with together():
            records = [pool.submit(copy_context().run, ask, episode) for episode in episodes]
            for done, record in enumerate(records, start=1):
                by_turn += record.result().by_turn
                on_episode(done)
    finally:
        pool.shutdown(cancel_futures=True)
    return by_turn


def read_opinions(played: Sequence[Trajectory], folder: Path) -> list[Mapping[str, Opinion]]:
    """What a finished trial's folder holds of these episodes, by turn, over all in order.

    Raises `MissingDataError` where an episode is not in it.
    """
    known = {record.episode: record for record in JsonlFile(folder / FILE).read(EpisodeOpinions)}
    records = [known.get(digest_of(trajectory)) for trajectory in played]
    if None in records:
        raise MissingDataError(f"{folder} lacks opinions of episodes: go on with align-echo critic evaluate --resume")
    return [turn for record in records if record is not None for turn in record.by_turn]


def _opinions_by_turn(critic: Critic, episode: RatedEpisode) -> Iterator[tuple[Opinion, ...]]:
    for turn, step in enumerate(episode.trajectory.steps):
        actions = proposed(step)
        if not actions:
            yield ()
            continue
        chat = episode.chat(view_before(episode.trajectory, turn, episode.action_format))
        conversation = [message.model_copy(update={"tokens": None}) for message in chat]
        yield tuple(critic.score(conversation, actions))
