"""What runs around interface code: the states that sessions begin from, and the loop that calls it turn by turn.

In a state the prelude has run, and the source of the interface too where it only defines.
To run the prelude and a source takes milliseconds, to load what they left takes less. A state is made once in a process
and never leaves it, since the interpreter trusts the bytes that it loads.
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
"""The name under which the loop around interface code hands over what a turn came to, and waits for the next."""

_PROXIES = {"batched": "_AlignBatchedEnv", "triple": "_AlignTripleEnv"}
_STAND_INS = re.compile(r"^# -{20,} (.+)\n", re.MULTILINE)
_STATES = 32
"""How many states are kept, those used last: of 40 KB, and with a source of a few 100 KB."""


class StateKey(NamedTuple):
    """What a state depends on beside the source: the layout of `env.step`, the modules that are stood in for, and the
    limits of every session that is begun from it, in seconds and bytes."""

    layout: str
    stood_in: frozenset[str]
    seconds: float
    memory: int


_kept: dict[tuple[StateKey, str], bytes] = {}


def begin(session: pydantic_monty.MontySession, key: StateKey, source: str = "") -> None:
    """Bring a fresh session to the state in which prepared source has run: one that only defines
    (`PreparedSource.only_defines`), so that it leaves the same in every episode. Without a source, nothing has run.

    Raises `MontyError` if the source fails, or the limits are too small.
    """
    state = _kept.pop((key, source), None)
    if state is not None:
        _kept[key, source] = state
        session.load_session(state)
        return
    if source:
        begin(session, key)
    session.feed_run(source or prelude(key.layout, key.stood_in))
    for oldest in list(_kept)[: len(_kept) + 1 - _STATES]:
        _kept.pop(oldest, None)
    _kept[key, source] = session.dump()


def prelude(layout: str, stood_in: Collection[str]) -> str:
    """The text that runs before interface code: `prelude.py`, the parts of `stdlib.py` and `stdlib_logging.py` that
    stand in for these modules, and what interface code is given as `env`."""
    proxy = _PROXIES.get(layout, "_AlignSingleEnv")
    first, *parts = _STAND_INS.split(_text("stdlib") + _text("stdlib_logging"))
    named = zip(parts[::2], parts[1::2], strict=True)
    wanted = [part for names, part in named if not set(names.split(", ")).isdisjoint(stood_in)]
    return "\n".join([_text("prelude"), first, *wanted, f"_align_env = {proxy}()\n"])


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


def _text(part: str) -> str:
    return resources.files("align_echo.sandbox").joinpath(f"{part}.py").read_text(encoding="utf-8")
