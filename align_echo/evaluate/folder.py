"""The folder that an evaluation writes: config, trajectories as they end, summary. A killed one can be resumed.

    config.json                    what was asked for; a resumed run must ask for the same
    trajectories/<part>.jsonl      one `Trajectory` a line, appended as each episode ends; a part is a variant or round
    reviews/<part>.jsonl           one `Reviewed` a line, what a critic said before a round
    summary.json                   a `Comparison` or `Refinement`, once all is done

Leaves out the model's reply cache, which lives in `cache/` beside these and belongs to the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, JsonValue

from align_echo.align.run_folder import clear, finished_nothing
from align_echo.errors import UsageError
from align_echo.evaluate.refinement import Reviewed, episode_of
from align_echo.interface import write_atomically
from align_echo.jsonl import JsonlFile
from align_echo.locking import FolderLock, check_free
from align_echo.reading import json_object
from align_echo.rollout import Episode
from align_echo.types import Frozen, Trajectory

LEFT_BY_A_FALSE_START = ("config.json", "calls.jsonl", "cache", "trajectories", "reviews")
"""What an evaluation may leave behind before it has finished anything."""

Config = Mapping[str, JsonValue]


class EvaluationFolder:
    """One evaluation's folder. Opening it creates it, and keeps other processes out until it is forgotten."""

    def __init__(self, path: Path, config: Config, *, resume: bool = False) -> None:
        """Raises `UsageError` if the folder holds something else than this evaluation, or anything without `resume`."""
        check_folder(path, config, resume=resume)
        self.path = path
        self._files: dict[Path, JsonlFile] = {}
        path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(path)
        check_folder(path, config, resume=resume)  # again: another process may have begun since
        if not resume:
            clear(path, LEFT_BY_A_FALSE_START)
        write_atomically(path / "config.json", json.dumps(config, indent=2) + "\n")

    def finished(self, part: str, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Those of the episodes that ended without a fault; what else the part holds is dropped, to be played again."""
        asked, file = set(episodes), self._file("trajectories", part)
        kept = [one for one in file.read(Trajectory) if one.fault is None and episode_of(one) in asked]
        _keep(file, kept)
        return kept

    def add(self, part: str, trajectory: Trajectory) -> None:
        """Keep an episode that has just ended."""
        self._file("trajectories", part).append(trajectory)

    def reviewed(self, part: str, attempts: Sequence[Trajectory]) -> list[Reviewed]:
        """The reviews of these attempts whose model did not break; what else the part holds is dropped."""
        asked, file = {episode_of(one) for one in attempts}, self._file("reviews", part)
        kept = [one for one in file.read(Reviewed) if one.review.fault is None and one.attempt in asked]
        _keep(file, kept)
        return kept

    def add_review(self, part: str, reviewed: Reviewed) -> None:
        """Keep a review that has just come in."""
        self._file("reviews", part).append(reviewed)

    def finish(self, summary: Frozen) -> Path:
        """Write `summary.json`."""
        return write_atomically(self.path / "summary.json", summary.model_dump_json(indent=2) + "\n")

    def _file(self, kind: str, part: str) -> JsonlFile:
        path = self.path / kind / f"{part}.jsonl"
        return self._files.setdefault(path, JsonlFile(path))


def _keep(file: JsonlFile, records: Sequence[BaseModel]) -> None:
    """Let a file hold these records and no others."""
    if records:
        write_atomically(file.path, "".join(f"{one.model_dump_json()}\n" for one in records))
    else:
        file.path.unlink(missing_ok=True)


def check_folder(path: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that cannot take this evaluation, or another run of its kind, without touching it, and one that
    another process works in.

    Raises `UsageError`.

    An evaluation in which nothing was finished (no episode, no reply) is nothing to lose: it is begun anew.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        if resume:
            raise UsageError(f"there is nothing to resume in {path}")
        return
    if not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    check_free(path)
    if not resume:
        if _finished_nothing(path, config.get("command")):
            return
        raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
    stored = json_object(path / "config.json")
    if stored is None:
        raise UsageError(f"{path} is not the folder of a run: it has no readable config.json")
    for key in sorted({*config, *stored}):
        if config.get(key) != stored.get(key):
            raise UsageError(
                f"{path} was started with {key} = {stored.get(key)!r}, not {config.get(key)!r}; "
                "resume with the same, or name another --out"
            )


def _finished_nothing(path: Path, command: JsonValue) -> bool:
    stored = json_object(path / "config.json")
    ours = stored is not None and command is not None and stored.get("command") == command
    return ours and finished_nothing(path, LEFT_BY_A_FALSE_START, "trajectories/*.jsonl")
