"""For all tests: property tests have no deadline, since a busy machine is no failure, and Ctrl-C means what it says.

A shell starts what it runs in the background with Ctrl-C ignored, and children would inherit that.

Every training ends with a full garbage collection, which goes through the millions of objects of the imported libraries
and of the collected tests: half of the time of its test. Those objects live to the end, so it is told to leave them out.
"""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are imported: nothing that imports make is garbage


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
