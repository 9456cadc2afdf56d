"""What the command `align-echo` starts. It imports nothing of the library before Ctrl-C is taken care of.

Importing takes a second. A Ctrl-C in it, and one while the process ends, stops it with exit status 130 and without a
traceback; in between the command line reports a stop itself.

Python sees a signal between two instructions of its main thread. One that comes just as that thread goes to sleep on a
lock, or that another thread received, would be seen when the sleep ends, which may be never. So a thread hears of every
signal and wakes the main one.

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

WAKINGS = (0.1, 0.5, 1.0)
"""Seconds to wait before the main thread is woken after a signal, each time: it may not be asleep yet."""


def run() -> None:
    """Run the command line and leave with its exit status."""
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # a shell may have it ignored
    if heeded:
        signal.signal(signal.SIGINT, _leave)
        _wake_the_main_thread()
    from align_echo.cli.main import main
    from align_echo.cli.output import redact_tracebacks

    redact_tracebacks()
    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = main()
    except KeyboardInterrupt:  # a second one, while the first was seen to
        status = 130
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    gc.freeze()
    sys.exit(status)


def _wake_the_main_thread() -> None:
    """From now on every signal of this process interrupts what its main thread waits for."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGURG, _notice)
    threading.Thread(target=_wake, args=(reading,), name="waking", daemon=True).start()


def _wake(reading: int) -> None:
    main = threading.main_thread().ident
    assert main is not None  # it has begun
    while received := os.read(reading, 64):  # a byte for each signal, its number
        if set(received) - {signal.SIGURG}:
            for seconds in WAKINGS:
                time.sleep(seconds)
                signal.pthread_kill(main, signal.SIGURG)


def _notice(number: int, frame: FrameType | None) -> None:
    """Nothing more: to be interrupted is what wakes the main thread."""


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    run()
