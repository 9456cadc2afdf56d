"""Stored episodes to imitate: of any agent, in the folders of runs or in files of episodes.

They are learned with the rules and texts that they were played with. Episodes of held-out tasks are left out, so that
figures on these stay true. Not here: chats of one's own (`sft.py`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.errors import UsageError
from align_echo.registry import quantity
from align_echo.rollout.episode_files import DamagedLine, find_episodes, read_episodes
from align_echo.types import Trajectory


@dataclass(frozen=True)
class Demonstrations:
    """Episodes to imitate by name (task and number), and how many were left out, by reason."""

    episodes: dict[str, Trajectory]
    left_out: Counter[str]

    @property
    def content_hash(self) -> str:
        """SHA-256 of the episodes, in hex."""
        digest = hashlib.sha256()
        for name, episode in self.episodes.items():
            digest.update(f"{name} {_identity(episode)}\n".encode())
        return digest.hexdigest()

    def __str__(self) -> str:
        """Describe them in a line."""
        tasks = {episode.task_id for episode in self.episodes.values()}
        agents = sorted({episode.agent for episode in self.episodes.values()})
        by = f" by {', '.join(agents[:3])}{' and others' if len(agents) > 3 else ''}" if agents else ""
        without = "; left out: " * bool(self.left_out) + describe_counts(self.left_out)
        return f"{quantity(len(self.episodes), 'stored episode')} of {quantity(len(tasks), 'task')}{by}{without}"


def describe_counts(left_out: Counter[str]) -> str:
    """List numbers of episodes with their reasons; empty for none."""
    return ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())


@dataclass(frozen=True)
class DemonstrationFilter:
    """Which episodes are imitated: of this environment, not of the split `held_out`, of these types of task (None:
    all), with at least this score (None: won).
    """

    environment: str
    held_out: str
    task_types: Sequence[str] | None = None
    minimum_score: float | None = None

    def why_not(self, episode: Trajectory) -> str:
        """Say why an episode is left out; "" if it is imitated."""
        least = self.minimum_score
        reasons = {
            "of another environment": episode.environment != self.environment,
            f"of the held-out split {self.held_out}": bool(self.held_out) and episode.split == self.held_out,
            "of other types of task": self.task_types is not None and episode.task_type not in self.task_types,
            "broken by a fault": episode.fault is not None,
            "lost": least is None and not episode.won,
            f"with a score below {least or 0:g}": least is not None and episode.score < least,
            "without an action": not any(step.action for step in episode.steps),
        }
        return next((reason for reason, applies in reasons.items() if applies), "")


def read_demonstrations(runs: Sequence[str], wanted: DemonstrationFilter) -> Demonstrations:
    """Read the episodes of runs' folders or `.jsonl` files; each counts once.

    Raises `UsageError` for a missing folder, for one without episodes, and if none is to be imitated.
    """
    episodes: dict[str, Trajectory] = {}
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    for episode in _episodes(runs, lambda damaged: left_out.update({"on damaged lines": len(damaged)})):
        identity = _identity(episode)
        reason = "that are there twice" if identity in seen else wanted.why_not(episode)
        seen.add(identity)
        if reason:
            left_out[reason] += 1
            continue
        name = f"{episode.task_id}#{numbers[episode.task_id]}"
        numbers[episode.task_id] += 1
        episodes[name] = episode.model_copy(update={"context_overflow": False})
    found = Demonstrations(episodes, +left_out)
    if not episodes:
        why = describe_counts(found.left_out) or "they are empty"
        raise UsageError(f"nothing can be learned from the episodes of {', '.join(runs)}: {why}")
    return found


def _episodes(runs: Sequence[str], report: Callable[[list[DamagedLine]], None]) -> Iterator[Trajectory]:
    damaged: list[DamagedLine] = []
    for part in find_episodes([Path(run) for run in runs]):
        yield from read_episodes(part.file, damaged)
    report(damaged)


def _identity(episode: Trajectory) -> str:
    """Return a hash of what was said: the same episode has the same in every file."""
    said = [(step.reply, step.action, step.observation) for step in episode.steps]
    told = (episode.environment, episode.task_id, episode.rules, episode.critique, episode.initial_observation, said)
    return hashlib.sha256(repr(told).encode("utf-8", "replace")).hexdigest()
