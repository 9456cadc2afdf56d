"""Translate PDDL to Fast Downward's SAS format, without side effects on `sys.argv` and other threads' output.

It calls the steps of `fast_downward.pddl2sas` itself, because that function overwrites `sys.argv` for good and swallows
the output of other threads.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from align_echo.errors import EngineError

TRANSLATING = threading.Lock()
"""Guard of the translator, which keeps its options in a module."""


@dataclass(frozen=True)
class TranslationResult:
    """Problem as the engine loads it, with the names used in its operators and facts.

    `actions`: name -> (parameter, type) in order; `types`: (name, supertypes); `objects`: name -> type; `facts`:
    initial (predicate, arguments), constant ones included.
    """

    sas: str
    actions: dict[str, tuple[tuple[str, str], ...]]
    types: tuple[tuple[str, tuple[str, ...]], ...]
    objects: dict[str, str]
    facts: tuple[tuple[str, tuple[str, ...]], ...]


def translate(domain: str, problem: str) -> TranslationResult:
    """Translate a problem for playing. Raises `EngineError` if the PDDL does not parse."""
    task, sas = _translate(domain, problem, for_planning=False)
    return TranslationResult(
        sas=sas,
        actions={a.name: tuple((p.name.strip("?"), p.type_name) for p in a.parameters) for a in task.actions},
        types=tuple((t.name, tuple(t.supertype_names)) for t in task.types),
        objects={o.name: o.type_name for o in task.objects},
        facts=tuple(fact for atom in task.init if (fact := _fact(atom)) is not None),
    )


def translate_for_planning(domain: str, problem: str) -> str:
    """Translate a problem to SAS text for the planner, without parts irrelevant to the goal."""
    return _translate(domain, problem, for_planning=True)[1]


def _fact(atom: Any) -> tuple[str, tuple[str, ...]] | None:
    predicate = getattr(atom, "predicate", "=")  # assignments of costs have none
    return None if predicate == "=" else (predicate, tuple(atom.args))


def _translate(domain: str, problem: str, *, for_planning: bool) -> tuple[Any, str]:
    with TRANSLATING, _quiet():
        try:
            return _run(domain, problem, for_planning)
        except (Exception, SystemExit) as error:  # the translator leaves the process on a parse error
            raise EngineError(f"the game's PDDL does not translate: {error}".splitlines()[0]) from error


def _run(domain: str, problem: str, for_planning: bool) -> tuple[Any, str]:
    argv = sys.argv
    sys.argv = ["translate", "domain", "task"]  # its options are read from the command line on import
    try:
        from fast_downward.translate import normalize, options, translate
        from fast_downward.translate.pddl_parser import lisp_parser, parsing_functions
    finally:
        sys.argv = argv
    options.filter_unimportant_vars = for_planning
    options.filter_unreachable_facts = for_planning
    options.use_partial_encoding = for_planning
    options.skip_variable_reordering = not for_planning
    options.add_implied_preconditions = for_planning
    options.invariant_generation_max_candidates = 0
    task = parsing_functions.parse_task(
        lisp_parser.parse_nested_list(domain.split("\n")), lisp_parser.parse_nested_list(problem.split("\n"))
    )
    normalize.normalize(task)
    output = io.StringIO()
    translate.pddl_to_sas(task).output(output)
    return task, output.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard this thread's output to `sys.stdout`; pass on the output of other threads."""
    real = sys.stdout
    sys.stdout = _Muted(real, threading.get_ident())
    try:
        yield
    finally:
        sys.stdout = real


class _Muted(io.TextIOBase):
    def __init__(self, real: TextIO, thread: int) -> None:
        self._real = real
        self._thread = thread

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._real.write(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._real.flush()
