"""States of the interpreter that sessions begin from: the prelude has run, and the source of the interface if it may.

To run the prelude and a source takes milliseconds, to load what they left takes less. A state is made once in a process
and never leaves it, since the interpreter trusts the bytes that it loads.
"""

from __future__ import annotations

import functools
from importlib import resources

from align_echo.sandbox.pool import Worker

SOURCES = 16
"""States with a source that are kept, of up to a few 100 KB each."""


@functools.lru_cache(maxsize=SOURCES)
def after_prelude(proxy: str, seconds: float, memory: int) -> bytes:
    """The state in which `_align_env` is a `proxy` (a class of the prelude) and nothing of an interface has run.

    `seconds` and `memory` (bytes) are the limits of every session that is begun from it. Raises `MontyError` where they
    are too small, and as `Worker` does.
    """
    with Worker(seconds, memory) as session:
        session.feed_run(f"{_prelude()}\n_align_env = {proxy}()\n_align_logger = _AlignLogger()\n")
        return session.dump()


@functools.lru_cache(maxsize=SOURCES)
def after_source(source: str, proxy: str, seconds: float, memory: int) -> bytes:
    """The state in which prepared source has run too: only for one that does nothing but define
    (`PreparedSource.only_defines`), so that it leaves the same in every episode.

    Raises `MontyError` if it fails, and as `Worker` does.
    """
    with Worker(seconds, memory) as session:
        session.load_session(after_prelude(proxy, seconds, memory))
        session.feed_run(source)
        return session.dump()


def _prelude() -> str:
    folder = resources.files("align_echo.sandbox")
    parts = (folder.joinpath(f"{part}.py").read_text(encoding="utf-8") for part in ("prelude", "stdlib"))
    return "\n".join(parts)
