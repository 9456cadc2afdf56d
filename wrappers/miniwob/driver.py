"""Chromium's driver as a child of a keeper (`keeper.py`), which ends it whenever this process ends.

`chromium.py` talks to the driver.
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
"""Seconds after which a keeper that was asked to end is killed: it may be frozen."""


class DriverProcess:
    """Driver that listens at `port`. Its process id, `pid`, is also the id of the browser's process group."""

    def __init__(self, path: str, environment: Mapping[str, str], folder: str, *, within: float) -> None:
        """Start the driver and wait until it listens, at most `within` seconds. `folder` is removed when it ends.

        Raises `OSError` with a one-line message on failure. Then, as after an interrupt, no part of it is left running.
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
        """Return True while the driver and its keeper run."""
        return self._keeper.poll() is None

    def end(self) -> None:
        """End the driver and its descendants; return after they are gone, and the folder with them.

        A keeper that misses the time limit is killed with the driver; then the folder stays.
        """
        pipe = self._keeper.stdin
        assert pipe is not None
        ending = pipe.closed
        if not ending:
            with contextlib.suppress(OSError):
                pipe.write(b"\n")  # closing alone is no signal while a forked child holds the pipe too
            pipe.close()
        try:
            self._keeper.wait(timeout=ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
        if self._keeper.wait() < 0 and self.pid and not ending:  # the keeper was killed itself
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def leave_to_parent(self) -> None:
        """Close the pipe that keeps the driver running. Call it in a forked child."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
