"""Keep Chromium's driver for a parent process, and end it when that process ends for any reason.

This is a separate program using the standard library alone: `keeper.py PARENT SECONDS FOLDER DRIVER [ARGUMENT ...]`. It
writes one line to standard output: the driver's process id and port, or a reason why there is none. It ends when its
standard input is closed or readable, when the process PARENT is gone, when the driver ends, when the driver has not
reported its port after SECONDS, or by a signal. Before it ends, it ends the driver with all descendants and removes
FOLDER. A driver that ends before it listens is restarted, `STARTS` times in all. `chromium.py` talks to the driver.
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
"""Standard input, a pipe from the parent."""

LOOK_EVERY = 1.0
"""Seconds between checks of the clock and of the parent, whose pipe may also be held by its forked children."""

STARTS = 4
"""Largest number of starts of a driver before its failure is reported. Chromium's driver takes a port that is free for
IPv6 and wants the same port for IPv4; if another program has that port, the driver ends."""

LONGEST = 1 << 16
"""Bytes of the driver's output per read, and in the buffer until the port is known."""

ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: orphaned descendants become children of this process."""


def main() -> None:
    """Keep a driver until it has to end."""
    parent, seconds, folder, *command = sys.argv[1:]
    alarm = open_alarm()
    with contextlib.suppress(AttributeError):  # missing on systems other than Linux
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


def open_alarm() -> int:
    """Open a file descriptor that becomes readable when a child ends or a signal asks for the end."""
    alarm, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return alarm


def keep(driver: subprocess.Popen[bytes], alarm: int, parent: int, seconds: float, *, last: bool) -> bool:
    """Wait until the driver has to end, reading all its output, so that it never blocks.

    Return False to ask for another start: the driver ended before it listened, and this was not the last start.
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
    """Check if the driver has ended. Other finished children are reaped."""
    with contextlib.suppress(ChildProcessError):
        while child := os.waitpid(-1, os.WNOHANG)[0]:
            if child == driver:
                return True
    return False


def end(driver: int) -> None:
    """End the driver's process group and other descendants of this process; return when all are gone."""
    with contextlib.suppress(OSError):
        os.killpg(driver, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children():
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            os.wait()


def children() -> list[int]:
    """List the child processes, including finished ones; empty if the system does not list them."""
    try:
        return [int(child) for child in Path("/proc/thread-self/children").read_text().split()]
    except OSError:
        return []


def tell(line: str) -> None:
    """Send a line to the parent, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode(errors="replace"))


if __name__ == "__main__":
    main()
