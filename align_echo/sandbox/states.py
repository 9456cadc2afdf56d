"""What runs around interface code: the states that sessions begin from, and the loop that calls it turn by turn.

In a state the prelude has run, and the source of the interface too where it only defines.
To run the prelude and a source takes milliseconds, to load what they left takes less. A state is made once in a process
and never leaves it, since the interpreter trusts the bytes that it loads.
"""

from __future__ import annotations

import functools
from importlib import resources

from align_echo.interface import InterfaceContract
from align_echo.sandbox.pool import Worker

NEXT = "_align_next"
"""The name under which the loop around interface code hands over what a turn came to, and waits for the next."""

_PROXIES = {"batched": "_AlignBatchedEnv", "triple": "_AlignTripleEnv"}
_SOURCES = 16
"""States with a source that are kept, of up to a few 100 KB each."""


@functools.lru_cache(maxsize=_SOURCES)
def after_prelude(layout: str, seconds: float, memory: int) -> bytes:
    """The state in which `_align_env` stands for an environment of this layout and nothing of an interface has run.

    `seconds` and `memory` (bytes) are the limits of every session that is begun from it. Raises `MontyError` where they
    are too small, and as `Worker` does.
    """
    proxy = _PROXIES.get(layout, "_AlignSingleEnv")
    with Worker(seconds, memory) as session:
        session.feed_run(f"{prelude()}\n_align_env = {proxy}()\n_align_logger = _AlignLogger()\n")
        return session.dump()


@functools.lru_cache(maxsize=_SOURCES)
def after_source(source: str, layout: str, seconds: float, memory: int) -> bytes:
    """The state in which prepared source has run too: only for one that does nothing but define
    (`PreparedSource.only_defines`), so that it leaves the same in every episode.

    Raises `MontyError` if it fails, and as `Worker` does.
    """
    with Worker(seconds, memory) as session:
        session.load_session(after_prelude(layout, seconds, memory))
        session.feed_run(source)
        return session.dump()


def loop(contract: InterfaceContract) -> str:
    """What calls the interface's functions: by the action of each turn, and the rules where that is None."""
    rules = _call("InferRules", contract.infer_rules_args)
    step = _call("WrapStep", contract.wrap_step_args)
    return f"""
while True:
    if _align_agent_action is None:
        _align_value = _align_rules({rules})
    else:
        _align_value = _align_returned({step}, {contract.step_layout!r})
    _align_agent_action = {NEXT}(_align_value)
"""


def _call(function: str, arguments: tuple[str, ...]) -> str:
    return f"{function}({', '.join(f'_align_{name}' for name in arguments)})"


def prelude() -> str:
    """The text that runs before interface code."""
    folder = resources.files("align_echo.sandbox")
    parts = (folder.joinpath(f"{part}.py").read_text(encoding="utf-8") for part in ("prelude", "stdlib"))
    return "\n".join(parts)
