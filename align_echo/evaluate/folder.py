"""The folder that an evaluation writes: config, trajectories as they end, summary. A killed one can be resumed.

    config.json                    what was asked for; a resumed run must ask for the same
    trajectories/<part>.jsonl      one `Trajectory` a line, appended as each episode ends; a part is a variant or round
    reviews/<part>.jsonl           one `Reviewed` a line, what a critic said before a round
    summary.json                   a `Comparison` or `Refinement`, once all is done

Leaves out the model's reply cache, which lives in `cache/` beside these and belongs to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from pydantic import JsonValue

from align_echo.errors import UsageError
from align_echo.evaluate.refinement import Reviewed, episode_of
from align_echo.files import write_atomically
from align_echo.interface import Interface
from align_echo.jsonl import JsonlFile
from align_echo.locking import FolderLock
from align_echo.runs import begin_run, check_run, finished_nothing, of_verb
from align_echo.session import Episode
from align_echo.types import Frozen, Trajectory, impossible

LEFT_BY_A_FALSE_START = ("config.json", "calls.jsonl", "cache", "trajectories", "reviews")
"""What an evaluation may leave behind before it has finished anything."""

Config = Mapping[str, JsonValue]

NOT_PLAYED = -1


@dataclass(frozen=True)
class Setting:
    """What all episodes of a part of a run have in common."""

    environment: str
    split: str
    agent: str
    seed: int
    interface: Interface | None

    def other(self, played: Trajectory) -> str:
        """Say in words what of a record is not of this run; "" if nothing is. Labels of interfaces are not compared."""
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
    """The episodes of a part that have been played, in the order in which they were asked for.

    Each is read from its file whenever it is asked for: none is held.
    """

    def __init__(self, file: JsonlFile, episodes: Sequence[Episode], starts: Mapping[Episode, int]) -> None:
        """`starts` has where the lines of those that are in the file begin, in bytes."""
        self._file = file
        self._starts = {episode: starts.get(episode, NOT_PLAYED) for episode in episodes}

    @property
    def missing(self) -> list[Episode]:
        """The episodes that have not been played."""
        return [episode for episode, start in self._starts.items() if start == NOT_PLAYED]

    def add(self, trajectory: Trajectory) -> None:
        """Write an episode that has just ended."""
        self._starts[episode_of(trajectory)] = self._file.append(trajectory)

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


class EvaluationFolder:
    """One evaluation's folder. Opening it creates it, and keeps other processes out until it is forgotten."""

    def __init__(self, path: Path, config: Config, *, resume: bool = False) -> None:
        """Raises `UsageError` if the folder holds something else than this evaluation, or anything without `resume`."""
        self._lock = open_folder(path, config, resume=resume)
        self.path = path
        self._files: dict[Path, JsonlFile] = {}

    def part(self, part: str, episodes: Sequence[Episode], setting: Setting) -> PlayedPart:
        """Open a part, with those of the episodes that ended without a fault; what else it holds is dropped, to be
        played again.

        Raises `UsageError` for a record that cannot be of this run, and for one episode that is there twice.
        """
        wanted, file = set(episodes), self._file("trajectories", part)
        starts: dict[Episode, int] = {}
        for number, (start, trajectory) in enumerate(file.entries(Trajectory), start=1):
            episode = episode_of(trajectory)
            if trajectory.fault is not None or episode not in wanted:
                continue
            problem = impossible(trajectory) or setting.other(trajectory)
            problem = "it is there twice" if episode in starts else problem
            if problem:
                raise UsageError(
                    f"{file.path} line {number} is no episode of this run: {problem}; take the line out, or name "
                    "another --out"
                )
            starts[episode] = start
        return PlayedPart(file, episodes, dict(zip(starts, file.keep(starts.values()), strict=True)))

    def cut_line(self, kind: Literal["trajectories", "reviews"], part: str) -> str:
        """Say that the last line of a part is not whole, so that it is made anew; "" where it is."""
        file = self._file(kind, part)
        what = "its episode is played" if kind == "trajectories" else "its critique is asked for"
        return f"the last line of {file.path} is not whole and is left out: {what} again" if file.is_cut else ""

    def reviewed(self, part: str, attempts: Sequence[Trajectory]) -> list[Reviewed]:
        """The reviews of these attempts whose model did not break; what else the part holds is dropped."""
        wanted, file = {episode_of(attempt) for attempt in attempts}, self._file("reviews", part)
        entries = list(file.entries(Reviewed))
        answered = [
            (start, reviewed)
            for start, reviewed in entries
            if reviewed.review.fault is None and reviewed.attempt in wanted
        ]
        file.keep(start for start, _ in answered)
        return [reviewed for _, reviewed in answered]

    def add_review(self, part: str, reviewed: Reviewed) -> None:
        """Keep a review that has just come in."""
        self._file("reviews", part).append(reviewed)

    def finish(self, summary: Frozen) -> Path:
        """Write `summary.json`."""
        return write_atomically(self.path / "summary.json", summary.model_dump_json(indent=2) + "\n")

    def _file(self, kind: str, part: str) -> JsonlFile:
        path = self.path / kind / f"{part}.jsonl"
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise UsageError(f"{path} leads out of {self.path}: put the file itself there")
        return self._files.setdefault(path, JsonlFile(path))


def check_folder(path: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that cannot take this evaluation, or another run of its kind, without touching it, and one that
    another process works in.

    An evaluation in which nothing was finished (no episode, no reply) is nothing to lose: it is begun anew. Raises
    `UsageError`.
    """
    check_run(path, config, resume=resume, unmade=_unmade(config))


def open_folder(path: Path, config: Config, *, resume: bool) -> FolderLock:
    """Make the folder and write its settings; until the lock is closed no other process works in it. Raises as
    `check_folder`."""
    return begin_run(path, config, resume=resume, left=LEFT_BY_A_FALSE_START, unmade=_unmade(config))


def _unmade(config: Config) -> Callable[[Path], bool]:
    def unmade(path: Path) -> bool:
        return of_verb(path, config.get("command")) and finished_nothing(
            path, LEFT_BY_A_FALSE_START, "trajectories/*.jsonl"
        )

    return unmade
