"""Code around interface code: the initial states of sessions, and the loop that calls it turn by turn.

In a state the prelude has run, and also the interface's source if it only defines. Running a prelude and a source
takes milliseconds; loading their state is faster. A state is made once per process and never leaves it, since the
interpreter trusts the loaded bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from align_echo.interface import InterfaceContract

if TYPE_CHECKING:
    import pydantic_monty

NEXT = "_align_next"
"""Name of the function that passes a turn's result to the host and waits for the next action."""

_PROXIES = {"batched": "_AlignBatchedEnv", "triple": "_AlignTripleEnv"}
_STAND_INS = re.compile(r"^# -{20,} (.+)\n", re.MULTILINE)
_STATES = 32
"""Maximum number of stored states, the most recently used: 40 KB each, or a few 100 KB with a source."""


class StateKey(NamedTuple):
    """Key of a state, besides the source: the layout of `env.step`, the replaced modules, and the limits of its
    sessions, in seconds and bytes.
    """

    layout: str
    stood_in: frozenset[str]
    seconds: float
    memory: int


_states: dict[tuple[StateKey, str], bytes] = {}


def begin(session: pydantic_monty.MontySession, key: StateKey, source: str = "") -> None:
    """Bring a new session to the state after running prepared source, which must only define
    (`PreparedSource.only_defines`).

    Without a source, only the prelude has run. Raises `MontyError` if the source fails, or the limits are too small.
    """
    state = _states.pop((key, source), None)
    if state is not None:
        _states[key, source] = state
        session.load_session(state)
        return
    if source:
        begin(session, key)
    session.feed_run(source or prelude(key.layout, key.stood_in))
    for oldest in list(_states)[: len(_states) + 1 - _STATES]:
        _states.pop(oldest, None)
    _states[key, source] = session.dump()


def prelude(layout: str, stood_in: Collection[str]) -> str:
    """Return the text that runs before interface code.

    It contains `prelude.py`, the parts of `stdlib.py` and `stdlib_logging.py` for these modules, and the interface's
    `env`.
    """
    proxy = _PROXIES.get(layout, "_AlignSingleEnv")
    first, *parts = _STAND_INS.split(_text("stdlib") + _text("stdlib_logging"))
    named = zip(parts[::2], parts[1::2], strict=True)
    wanted = [part for names, part in named if not set(names.split(", ")).isdisjoint(stood_in)]
    return "\n".join([_text("prelude"), first, *wanted, f"_align_env = {proxy}()\n"])


def loop(contract: InterfaceContract) -> str:
    """Return the loop that calls `WrapStep` for each turn's action, or `InferRules` if the action is None."""
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


def _text(part: str) -> str:
    return resources.files("align_echo.sandbox").joinpath(f"{part}.py").read_text(encoding="utf-8")
