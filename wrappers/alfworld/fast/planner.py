"""Fast Downward's own search for a plan from a state. Used to test the exact distances; slow in large kitchens.

The library is loaded once per process, for the first plan.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import fast_downward

from align_echo.wrappers.alfworld.fast.engine import GameState
from align_echo.wrappers.alfworld.fast.sas import read_sas
from align_echo.wrappers.alfworld.translation import translate, translate_for_planning

_LOCK = threading.Lock()
"""Guard of the library, which holds one task at a time."""


def plan(state: GameState) -> list[str] | None:
    """Search for commands from a state to the goal; None if the search fails. Takes seconds to minutes."""
    names = _plan(state.game.domain, state.game.problem, state.bits)
    if names is None:
        return None
    commands = state.program.operator_commands
    return [commands[name] for name in names]


def _plan(domain: str, problem: str, bits: int) -> list[str] | None:
    playing, planning = _translations(domain, problem)
    with _LOCK:
        library = _library()
        library.load_sas(_started_at(playing, bits).encode())
        library.load_sas_replan(planning.encode())
        if not library.replan(False):
            return None
        operators = (fast_downward.Operator * library.get_last_plan_length())()
        library.get_last_plan(operators)
        return [str(operator.name) for operator in operators]


@functools.lru_cache(8)
def _translations(domain: str, problem: str) -> tuple[str, str]:
    return translate(domain, problem).sas, translate_for_planning(domain, problem)


def _started_at(sas: str, bits: int) -> str:
    """Replace the initial state of a task; derived facts keep their defaults."""
    task = read_sas(sas)
    head, _, rest = sas.partition("begin_state\n")
    values, _, tail = rest.partition("end_state\n")
    lines = values.split()
    for variable, before in enumerate(lines):
        if variable not in task.derived and bool(bits >> variable & 1) != task.initial[variable]:
            lines[variable] = str(1 - int(before))
    return f"{head}begin_state\n" + "\n".join(lines) + f"\nend_state\n{tail}"


@functools.cache
def _library() -> Any:
    return fast_downward.load_lib()
