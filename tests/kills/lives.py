"""One command in processes of its own, each of which may be killed, in a folder and a temporary folder of its own.

Linux only: what a killed process leaves running is adopted by this one, and is found so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.kills.jobs import Job

ROOT = Path(__file__).parents[2]
PATHS = (str(ROOT), str(ROOT / "examples" / "archive"))
PATIENCE = 20.0
"""Seconds in which processes that a killed one started may notice that it is gone."""

_ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of prctl."""


@dataclass(frozen=True)
class Life:
    """How one process ended. `status` is None if it was killed; `cpu` is its own CPU time in seconds.

    `orphans` are the programs that went on without it; `begun` says whether there was anything in its folder.
    """

    status: int | None
    cpu: float
    said: str
    orphans: tuple[str, ...]
    begun: bool


class Workspace:
    """Where a command works: `out` is what it writes, `temporary` the folder for its temporary files."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.out = folder / "out"
        self.temporary = folder / "temporary"
        self.folder = folder
        self._job = job
        self.temporary.mkdir(parents=True)
        for name, text in job.files.items():
            (folder / name).write_text(text)

    def live(self, *, kill_after: float | None, group: bool) -> Life:
        """Start the command, or go on with it; kill it after so many seconds of its CPU time: all of its process group,
        or it alone. Of one that a launcher starts, all processes at once or the newest, which the launcher must notice.
        """
        if ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0):
            raise OSError("this system cannot find orphans")
        words = self._job.words(str(self.out), resume=self._begun())
        process = self._start(words)
        spent, status = 0.0, None
        while status is None and (kill_after is None or spent < kill_after):
            time.sleep(0.01)
            spent = max(spent, sum(map(_cpu, self._counted(process))))
            status = _ended(process)
        if status is None:
            self._kill(process, group)
            os.waitpid(process, 0)
        lines = (self.folder / "said").read_text(errors="replace").strip().splitlines()
        return Life(status, spent, lines[-1] if lines else "", _orphans(), self._begun())

    def _counted(self, process: int) -> list[int]:
        """The processes whose CPU time counts."""
        return [process, *_below(process)] if self._job.launched else [process]

    def _kill(self, process: int, group: bool) -> None:
        if not self._job.launched:
            (os.killpg if group else os.kill)(process, signal.SIGKILL)
            return
        everything = self._counted(process)
        for victim in everything if group else everything[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    def _begun(self) -> bool:
        return self.out.is_dir() and any(self.out.iterdir())

    def _environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(PATHS)}

    def _start(self, words: list[str]) -> int:
        with (self.folder / "said").open("w") as said:
            command = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                process_group=0,
            )
        command.returncode = 0  # it is waited for here, not by subprocess
        return command.pid


def _ended(process: int) -> int | None:
    pid, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on, the name before them; empty if there is no such process."""
    try:
        name, _, rest = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return []
    return [name, *rest.split()]


def _below(process: int) -> list[int]:
    """The processes that this one started, and those that they did, the oldest first."""
    parents = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    below, known = list[int](), {process}
    for pid in sorted(parents):
        if len(parents[pid]) > 2 and int(parents[pid][2]) in known:
            known.add(pid)
            below.append(pid)
    return below


def _cpu(process: int) -> float:
    fields = _stat(process)
    return sum(map(int, fields[12:14])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _orphans() -> tuple[str, ...]:
    """The programs that still run after a while, of all that this process adopted; they are killed then."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        except ChildProcessError:
            return ()
    own = str(os.getpid())
    running = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    left = {pid: fields[0] for pid, fields in running.items() if len(fields) > 2 and fields[2] == own}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return tuple(sorted(left.values()))
