"""The verifier's process: `python -P checking.py` reads questions, one JSON object a line, and answers each with one.

A question holds `gold` and `answer` as LaTeX, and `seconds`. The answer is `{"right": true or false}`, or
`{"error": why}` where the verifier raised or cannot read the gold answer. A question that takes longer than its seconds
ends the process, also where nobody is left to end it. It imports math-verify and nothing of align-echo. Left out:
starting, waiting and ending (`verifier.py`).
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from functools import lru_cache
from typing import Any

MOST_MEMORY = 4 << 30
"""Bytes of address space: what takes more raises within."""


def main() -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    read("1")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, question["seconds"])
        answer = judged(question["gold"], question["answer"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=answers, flush=True)


def judged(gold: str, answer: str) -> dict[str, Any]:
    """Whether an answer is right; the error in words where that cannot be said."""
    from math_verify import verify

    try:
        wanted = read_gold(gold)
        if not wanted:
            return {"error": f"the task's own answer cannot be read: {gold[:80]!r}"}
        right = verify(wanted, read(answer), allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=True)
    except (Exception, RecursionError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        return {"error": f"{type(error).__name__}: {reason}"}
    return {"right": bool(right)}


def read(answer: str) -> list[Any]:
    """What math-verify makes of an answer: an expression, then its text; [] where it makes nothing of it."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    ways = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    parsed: list[Any] = parse(rf"\boxed{{{answer}}}", ways, parsing_timeout=None, raise_on_error=True)
    return parsed


@lru_cache(maxsize=8192)
def read_gold(gold: str) -> list[Any]:
    """As `read`, once for each gold answer."""
    return read(gold)


if __name__ == "__main__":
    main()
