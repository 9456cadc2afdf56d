"""Chromium's driver as a process below a keeper (`keeper.py`), which ends it with this process, whatever ends this one.

Left out: talking to the driver (`chromium.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")

ENDED_WITHIN = 20.0
"""Seconds after which a keeper that was told to end is killed: it may be frozen."""


class DriverProcess:
    """A driver that listens at `port`. Its process id, `pid`, is also that of the group of the browser's processes."""

    def __init__(self, path: str, environment: Mapping[str, str], folder: str, *, within: float) -> None:
        """Start it and wait until it listens, at most `within` seconds. `folder` is removed when it ends.

        Raises `OSError` in one line if it does not; then nothing of it is left, as after an interrupt.
        """
        self.pid = self.port = 0
        command = [str(KEEPER), str(os.getpid()), str(within), folder, path, "--port=0"]
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._read_port()
        except BaseException:
            self.end()
            raise

    def _read_port(self) -> None:
        assert self._keeper.stdout is not None
        with self._keeper.stdout as output:
            line = output.readline().decode()
        match = re.fullmatch(r"(\d+) (\d+)\n", line)
        if match is None:
            raise OSError(line.strip() or "its keeper ended")
        self.pid, self.port = int(match[1]), int(match[2])

    @property
    def running(self) -> bool:
        """Neither the driver nor its keeper has ended."""
        return self._keeper.poll() is None

    def end(self) -> None:
        """End the driver and all that it has started; returns when they are gone, and the folder with them.

        A keeper that does not do so in time is killed with the driver; then the folder stays.
        """
        pipe = self._keeper.stdin
        assert pipe is not None
        ending = pipe.closed
        if not ending:
            with contextlib.suppress(OSError):
                pipe.write(b"\n")  # the pipe's end is no sign if a process that was forked off still holds it
            pipe.close()
        try:
            self._keeper.wait(timeout=ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
        if self._keeper.wait() < 0 and self.pid and not ending:  # the keeper was killed itself
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def leave_to_parent(self) -> None:
        """In a process that was forked off: let go of the pipe that keeps the driver running."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
