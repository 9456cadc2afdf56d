"""One command in processes of its own, each of which may be killed, in a folder and a temporary folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kills.jobs import Job

ROOT = Path(__file__).parents[2]
MARK = "ALIGN_ECHO_KILLS"
"""A variable that all processes of a command inherit: by it they are found, whatever their group is."""

PATIENCE = 20.0
"""Seconds in which processes that a killed one started may notice that it is gone."""


@dataclass(frozen=True)
class Life:
    """How one process ended. `status` is None if it was killed; `orphans` are the commands that went on without it."""

    status: int | None
    seconds: float
    said: str
    orphans: tuple[str, ...]


class Place:
    """Where a command works: `out` is what it writes, `temporary` the folder for its temporary files."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.out = folder / "out"
        self.temporary = folder / "temporary"
        self.folder = folder
        self.temporary.mkdir(parents=True)
        for name, text in job.files.items():
            (folder / name).write_text(text)

    def live(self, *, kill_after: float | None, group: bool) -> Life:
        """Start the command, or go on with it; kill it after so many seconds: its whole process group, or it alone."""
        begun = time.monotonic()
        resume = self.out.is_dir() and any(self.out.iterdir())
        mark = str(self.folder)
        with (self.folder / "said").open("w+") as said:
            process = subprocess.Popen(
                self.job.words(str(self.out), resume=resume),
                cwd=self.folder,
                env=self._environment(mark),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                process_group=0,
            )
            try:
                status: int | None = process.wait(timeout=kill_after)
            except subprocess.TimeoutExpired:
                status = None
                (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
                process.wait()
            seconds = time.monotonic() - begun
            said.seek(0)
            lines = said.read().strip().splitlines()
        return Life(status, seconds, lines[-1] if lines else "", orphans(mark))

    def _environment(self, mark: str) -> dict[str, str]:
        paths = (ROOT, ROOT / "examples" / "archive")
        own = {"TMPDIR": str(self.temporary), MARK: mark, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def orphans(mark: str) -> tuple[str, ...]:
    """Commands of the processes that still run under this mark after a while; they are killed then."""
    until = time.monotonic() + PATIENCE
    while (running := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in running:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return tuple(sorted(running.values()))


def _marked(mark: str) -> dict[int, str]:
    """Process ids and commands of all processes of this mark that have not ended."""
    wanted = f"{MARK}={mark}".encode()
    processes = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                processes[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")[:100]
        except OSError:
            continue
    return processes
