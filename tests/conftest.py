"""For all tests: property tests have no deadline, since a busy machine is no failure, and Ctrl-C means what it says.

A shell starts what it runs in the background with Ctrl-C ignored, and children would inherit that.

Every training ends with a full garbage collection, and going through the millions of objects of imported libraries and
of collected tests took half of the time of a test that trains. Those live to the end: collections leave them out.
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
