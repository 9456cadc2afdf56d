"""What the command `align-echo` starts. It imports nothing of the library before Ctrl-C is taken care of.

Importing takes a second. A Ctrl-C in it, and one while the process ends, stops it with exit status 130 and without a
traceback; in between the command line reports a stop itself.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line and leave with its exit status."""
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # a shell may have it ignored
    if heeded:
        signal.signal(signal.SIGINT, _leave)
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
    sys.exit(status)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    run()
