"""Folder of an evaluation: config, trajectories as they end, summary. A killed run can be resumed.

    config.json                    the settings; a resumed run must have the same
    trajectories/<part>.jsonl      one `Trajectory` a line, appended as each episode ends; a part is a variant or round
    reviews/<part>.jsonl           one `CritiqueRecord` a line, a critique before a round
    summary.json                   a `VariantComparison` or `RefinementResult`, written last

Not here: the model's reply cache in `cache/`, which belongs to the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from pydantic import JsonValue

from align_echo.base.jsonl import JsonlFile
from align_echo.critic.ask import AttemptRecord
from align_echo.errors import UsageError
from align_echo.interface.contract import Interface
from align_echo.models.spending import UNDER_WAY
from align_echo.rollout.session import Episode
from align_echo.run_dir import RunDir, finished_nothing, is_run_by
from align_echo.types import Frozen, Trajectory, impossible

LEFT_BY_A_FALSE_START = ("config.json", "calls.jsonl", UNDER_WAY, "cache", "trajectories", "reviews")
"""Files of an evaluation without any finished episode."""

Config = Mapping[str, JsonValue]

NOT_PLAYED = -1


class CritiqueRecord(Frozen):
    """A critic's verdict on an attempt (`review`), and the attempt."""

    attempt: Episode
    review: AttemptRecord


def attempt_episode(attempt: Trajectory) -> Episode:
    """Return the identity of an attempt of an agent."""
    return Episode(attempt.task_id, attempt.sample, attempt.critique)


@dataclass(frozen=True)
class PartSetting:
    """The common settings of all episodes of a part."""

    environment: str
    split: str
    agent: str
    seed: int
    interface: Interface | None

    def describe_mismatch(self, played: Trajectory) -> str:
        """Describe why a record is not of this run; "" if it is. Labels of interfaces are not compared."""
        for name in ("environment", "split", "agent", "seed"):
            if getattr(played, name) != getattr(self, name):
                return f"its {name} is {getattr(played, name)!r:.80}, not {getattr(self, name)!r:.80}"
        last = played.steps[-1].score if played.steps else 0.0
        if played.score != last:
            return f"its score is {played.score:g}, and that of its last turn {last:g}"
        under = played.played_under
        known = self.interface.played if self.interface is not None else None
        if (under is None) != (known is None) and (under is not None or played.source != self._source):
            return f"it was played under another interface ({played.interface:.80})"
        if under is not None and known is not None and under.fingerprint != known.fingerprint:
            return f"it was played under another interface ({played.interface:.80})"
        return ""

    @property
    def _source(self) -> str:
        return self.interface.content_hash if self.interface is not None else ""


class PlayedPart(Sequence[Trajectory]):
    """The finished episodes of a part, in the requested order.

    Each is read from its file on access; none is kept in memory.
    """

    def __init__(self, file: JsonlFile, episodes: Sequence[Episode], starts: Mapping[Episode, int]) -> None:
        """`starts` has the byte offsets of the lines of episodes in the file."""
        self._file = file
        self._starts = {episode: starts.get(episode, NOT_PLAYED) for episode in episodes}

    @property
    def missing(self) -> list[Episode]:
        """Return the episodes not played yet."""
        return [episode for episode, start in self._starts.items() if start == NOT_PLAYED]

    def add(self, trajectory: Trajectory) -> None:
        """Write a finished episode."""
        self._starts[attempt_episode(trajectory)] = self._file.append(trajectory)

    def __len__(self) -> int:
        return len(self._starts) - len(self.missing)

    def __iter__(self) -> Iterator[Trajectory]:
        for start in self._starts.values():
            if start != NOT_PLAYED:
                yield self._file.at(start, Trajectory)

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trajectory]: ...
    def __getitem__(self, index: int | slice) -> Trajectory | list[Trajectory]:
        starts = [start for start in self._starts.values() if start != NOT_PLAYED][index]
        if isinstance(starts, int):
            return self._file.at(starts, Trajectory)
        return [self._file.at(start, Trajectory) for start in starts]


class EvaluationDir(RunDir):
    """Folder of a run that plays. Without any finished episode or reply it starts again."""

    def __init__(self, path: Path, config: Config, *, resume: bool = False) -> None:
        super().__init__(path, config, resume=resume, left=LEFT_BY_A_FALSE_START, has_output=self._holds_output)
        self._files: dict[Path, JsonlFile] = {}

    def _holds_output(self, path: Path) -> bool:
        command = self.config and self.config.get("command")
        return not (
            is_run_by(path, command) and finished_nothing(path, LEFT_BY_A_FALSE_START, "trajectories/*.jsonl")
        )

    def part(self, part: str, episodes: Sequence[Episode], setting: PartSetting) -> PlayedPart:
        """Open a part with its episodes without a fault; other records are dropped, to be played again.

        Raises `UsageError` for a record that cannot be of this run, and for a repeated episode.
        """
        wanted, file = set(episodes), self._file("trajectories", part)
        starts: dict[Episode, int] = {}
        for number, (start, trajectory) in enumerate(file.entries(Trajectory), start=1):
            episode = attempt_episode(trajectory)
            if trajectory.fault is not None or episode not in wanted:
                continue
            problem = impossible(trajectory) or setting.describe_mismatch(trajectory)
            problem = "it is there twice" if episode in starts else problem
            if problem:
                raise UsageError(
                    f"{file.path} line {number} is no episode of this run: {problem}; take the line out, or name "
                    "another --out"
                )
            starts[episode] = start
        return PlayedPart(file, episodes, dict(zip(starts, file.keep(starts.values()), strict=True)))

    def cut_line(self, kind: Literal["trajectories", "reviews"], part: str) -> str:
        """Report that the last line of a part is incomplete and will be repeated; "" otherwise."""
        file = self._file(kind, part)
        repeated = "its episode is played" if kind == "trajectories" else "its critique is asked for"
        return f"the last line of {file.path} is not whole and is left out: {repeated} again" if file.is_cut else ""

    def critiques(self, part: str, attempts: Sequence[Trajectory]) -> list[CritiqueRecord]:
        """Return the critiques of these attempts without a model fault; other records are dropped."""
        wanted, file = {attempt_episode(attempt) for attempt in attempts}, self._file("reviews", part)
        entries = list(file.entries(CritiqueRecord))
        answered = [
            (start, record)
            for start, record in entries
            if record.review.fault is None and record.attempt in wanted
        ]
        file.keep(start for start, _ in answered)
        return [record for _, record in answered]

    def add_critique(self, part: str, record: CritiqueRecord) -> None:
        """Store a new critique."""
        self._file("reviews", part).append(record)

    def _file(self, kind: str, part: str) -> JsonlFile:
        path = self.path / kind / f"{part}.jsonl"
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise UsageError(f"{path} leads out of {self.path}: put the file itself there")
        return self._files.setdefault(path, JsonlFile(path))
