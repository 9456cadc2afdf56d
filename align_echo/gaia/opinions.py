"""Ask a critic about every candidate of played episodes, and store the opinions so that a resumed trial asks nothing
twice.

    opinions.jsonl    one `EpisodeOpinions` a line, appended after each episode; for screens one `StepOpinions` a line,
                      appended after each step

Not here: the figures (`figures.py`, `gui/screens.py`), and the identity of the critic (a run's folder has one critic).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict

from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.scoring import ActionCritic
from align_echo.errors import MissingDataError
from align_echo.gaia.labelling import Conversation, LabelledEpisode, proposed_actions
from align_echo.halting import together
from align_echo.jsonl import JsonlFile
from align_echo.rollout import view_before
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


class EpisodeOpinions(Frozen):
    """Opinions on the distinct candidates of each turn of an episode, identified by its digest."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    episode: str
    turns: tuple[tuple[CriticOpinion, ...], ...]

    @property
    def by_turn(self) -> list[Mapping[str, CriticOpinion]]:
        """Return each turn's opinions by action."""
        return [by_action(turn) for turn in self.turns]

    @property
    def complete(self) -> bool:
        """Return whether the model answered about every action. An unreadable reply counts as an answer: it would come
        again.
        """
        return not any(opinion.broken for turn in self.turns for opinion in turn)


class StepOpinions(Frozen):
    """Opinions on the distinct proposed actions of a dataset's step, identified by its id."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: str
    said: tuple[CriticOpinion, ...]


def by_action(opinions: Iterable[CriticOpinion]) -> dict[str, CriticOpinion]:
    """Index opinions by action."""
    return {opinion.action: opinion for opinion in opinions}


def without_repeats(episodes: Sequence[RatedEpisode]) -> list[RatedEpisode]:
    """Remove repeated episodes, in order, if several collections hold the same one."""
    return list({episode.digest: episode for episode in reversed(episodes)}.values())[::-1]


def opinions(
    critic: ActionCritic,
    episodes: Sequence[RatedEpisode],
    folder: Path,
    *,
    on_episode: Callable[[int], None] = lambda done: None,
) -> list[Mapping[str, CriticOpinion]]:
    """Return the critic's opinions by turn, over all episodes in order. Opinions already in the folder are reused.

    The file appears with the first complete episode. `on_episode` is called with the number of finished episodes.
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
    by_turn: list[Mapping[str, CriticOpinion]] = []
    try:
        with together():
            records = [pool.submit(copy_context().run, ask, episode) for episode in episodes]
            for done, record in enumerate(records, start=1):
                by_turn += record.result().by_turn
                on_episode(done)
    finally:
        pool.shutdown(cancel_futures=True)
    return by_turn


def read_opinions(played: Sequence[Trajectory], folder: Path) -> list[Mapping[str, CriticOpinion]]:
    """Read the opinions of a finished trial on these episodes, by turn, over all in order.

    Raises `MissingDataError` for a missing episode.
    """
    known = {record.episode: record for record in JsonlFile(folder / FILE).read(EpisodeOpinions)}
    records = [known.get(hash_episode(trajectory)) for trajectory in played]
    if None in records:
        raise MissingDataError(f"{folder} lacks opinions of episodes: go on with align-echo critic evaluate --resume")
    return [turn for record in records if record is not None for turn in record.by_turn]


def _opinions_by_turn(critic: ActionCritic, episode: RatedEpisode) -> Iterator[tuple[CriticOpinion, ...]]:
    for turn, step in enumerate(episode.trajectory.steps):
        actions = proposed_actions(step)
        if not actions:
            yield ()
            continue
        chat = episode.chat(view_before(episode.trajectory, turn, episode.action_format))
        conversation = [message.model_copy(update={"tokens": None}) for message in chat]
        yield tuple(critic.score(conversation, actions))
