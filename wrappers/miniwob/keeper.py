"""Keeps Chromium's driver for the process that started it, and ends it with that process, whatever ends that one.

A program of its own, which needs the standard library alone: `keeper.py PARENT SECONDS FOLDER DRIVER [ARGUMENT ...]`.
It writes one line to standard output: the driver's process id and the port that it listens at, or why there is none. It
ends when its standard input does or has something to read, when the process PARENT is gone, when the driver ends, when
the driver has not told its port after SECONDS, or by a signal; before that it ends the driver with all below it and
removes FOLDER. A driver that ends before it listens is started again, `STARTS` times in all. Left out: talking to the
driver (`chromium.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from select import select
from time import monotonic

PARENT = 0
"""Standard input, a pipe whose other end the parent holds."""

LOOK_EVERY = 1.0
"""Seconds between looks at the clock and at the parent, whose pipe a process that it forked off may hold as well."""

STARTS = 4
"""How often a driver is started before its end is told. Chromium's takes a port that is free for IPv6 and wants the
same one for IPv4; where another program has that one, it ends."""

LONGEST = 1 << 16
"""Bytes of the driver's output that are read at once, and kept until it has told its port."""

ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: what loses its parent below this process becomes its child."""


def main() -> None:
    """Keep a driver until it is to end."""
    parent, seconds, folder, *command = sys.argv[1:]
    alarm = alarmed()
    with contextlib.suppress(AttributeError):  # another system has no such call
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        for start in range(STARTS):
            driver = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                if keep(driver, alarm, int(parent), float(seconds), last=start == STARTS - 1):
                    break
            finally:
                end(driver.pid)
    except OSError as error:
        tell(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def alarmed() -> int:
    """A file descriptor that can be read once a child has ended or a signal asks for the end."""
    alarm, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return alarm


def keep(driver: subprocess.Popen[bytes], alarm: int, parent: int, seconds: float, *, last: bool) -> bool:
    """Return when the driver is to end. Until then all that it writes is read, so that it never waits for a reader.

    False asks for another start: it ended before it listened, and this was not the last one.
    """
    assert driver.stdout is not None
    output, written, listens = driver.stdout.fileno(), b"", False
    watched, until = [PARENT, alarm, output], monotonic() + seconds
    while True:
        ready = select(watched, [], [], min(LOOK_EVERY, seconds))[0]
        if PARENT in ready or os.getppid() != parent:
            return True
        part = os.read(output, LONGEST) if output in ready else b""
        if output in ready and not part:
            watched.remove(output)
        if not listens:
            written = (written + part)[-LONGEST:]
            if match := re.search(rb"started successfully on port (\d+)", written):
                listens = True
                tell(f"{driver.pid} {int(match[1])}")
        asked = bool(set(os.read(alarm, LONGEST) if alarm in ready else b"") - {signal.SIGCHLD})
        if has_ended(driver.pid) or asked:
            if not listens and (last or asked):
                tell("it ended before it listened")
            return listens or last or asked
        if not listens and monotonic() > until:
            tell(f"it did not say within {seconds:g} s where it listens")
            return True


def has_ended(driver: int) -> bool:
    """Whether the driver has ended. Other children that have are let go."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            if ended == driver:
                return True
    return False


def end(driver: int) -> None:
    """End the driver's process group and what else is left below this process; returns when all of it is gone."""
    with contextlib.suppress(OSError):
        os.killpg(driver, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children():
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            os.wait()


def children() -> list[int]:
    """The processes whose parent this is, those included that have ended; none where the system does not tell."""
    try:
        return [int(child) for child in Path("/proc/thread-self/children").read_text().split()]
    except OSError:
        return []


def tell(line: str) -> None:
    """Tell the parent, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode(errors="replace"))


if __name__ == "__main__":
    main()
