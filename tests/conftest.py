"""For all tests: property tests have no deadline, since a busy machine is no failure, and Ctrl-C means what it says.

A shell starts what it runs in the background with Ctrl-C ignored, and children would inherit that.
"""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
