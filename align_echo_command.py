"""What the command `align-echo` starts. It imports nothing of the library before Ctrl-C and SIGTERM are taken care of.

Importing takes a second. A signal in it, and one while the process ends, stops it with exit status 130 (SIGTERM: 143)
and without a traceback; in between the command line reports a stop itself, and
`align_echo.base.halting` has what was done kept.

Python sees a signal between two instructions of its main thread. One that comes just as that thread goes to sleep on a
lock, or that another thread received, would be seen when the sleep ends, which may be never. So a thread hears of every
signal, wakes the main one, sees that the process ends in time, and ends it at a second signal. Under a launcher, which
passes on what its processes received already, the first alone counts.

When it leaves, Python would search all that there is for cycles, several times: over the games that a rollout keeps,
more than a second. What the process holds then goes with it, so nothing is searched.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

WAKINGS = (0.1, 0.6, 1.6)
"""Seconds after a signal at which the main thread is woken: it may not be asleep yet."""

SAME_WITHIN = 0.2
"""Seconds in which a second signal is the first one once more: whoever started the process may pass it on, too."""


def run() -> None:
    """Run the command line and leave with its exit status."""
    _leave_the_current_folder_out()
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # a shell may ignore one
    for number in heeded:
        signal.signal(number, _leave)
    if heeded:
        _listen()
    from align_echo.base import halting
    from align_echo.cli.main import main
    from align_echo.cli.output import redact_tracebacks

    redact_tracebacks()
    halting.heed(heeded)
    try:
        status = main()
    except KeyboardInterrupt:  # it came where the command line does not report it
        status = halting.status()
    for number in heeded:
        signal.signal(number, _leave)
    gc.freeze()
    sys.exit(status)


def _leave_the_current_folder_out() -> None:
    """Take the current folder off the path of modules, where `python -m` and `python -c` put it.

    A checkout that is the current folder stays: its modules are this program.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # somebody removed it
        here = ""
    code = os.path.dirname(os.path.abspath(__file__))
    if not sys.flags.safe_path and sys.path[:1] in ([here], [""]) and here != code:
        del sys.path[0]


def _listen() -> None:
    """From now on every signal of this process interrupts what its main thread waits for, and ends it in time."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGURG, _notice)
    os.register_at_fork(after_in_child=_as_any_process)
    threading.Thread(target=_hear, args=(reading,), name="listening", daemon=True).start()


def _hear(reading: int) -> None:
    told = 0.0
    alone = (os.environ.get("WORLD_SIZE") or "1") == "1"
    while received := os.read(reading, 64):  # a byte for each signal, its number
        stops = [number for number in received if number in SIGNALS]
        if stops and not told:
            told = time.monotonic()
            for work in (_wake, _see_through):
                threading.Thread(target=work, args=(stops[0],), daemon=True).start()
        elif stops and alone and time.monotonic() > told + SAME_WITHIN:
            os._exit(128 + stops[0])


def _wake(number: int) -> None:
    main, begun = threading.main_thread().ident, time.monotonic()
    assert main is not None  # it has begun
    for seconds in WAKINGS:
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        signal.pthread_kill(main, signal.SIGURG)


def _see_through(number: int) -> None:
    stopping = sys.modules.get("align_echo.base.halting")  # before it is imported the process just ends
    if stopping is not None and hasattr(stopping, "see_through"):
        stopping.see_through(number)


def _as_any_process() -> None:
    """In a forked process, which has no thread that listens: signals are its own, and what they usually are."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _notice(number: int, frame: FrameType | None) -> None:
    """Nothing more: to be interrupted is what wakes the main thread."""


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    run()
