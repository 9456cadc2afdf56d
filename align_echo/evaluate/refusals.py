"""Which answers of an environment are refusals: what it declares, or else what it answers nonsense.

An environment that declares nothing is asked: each of a few nonsense actions is sent at the start of a few tasks. The
words that all of them are answered with, in every task, are a refusal. Where a nonsense action is answered with what
was to be read before, or differently from task to task, nothing is inferred, and ALIGN's metric is not defined.

What is inferred may be too narrow (an environment may refuse real actions in other words) and is named as inferred
wherever a figure is shown. Left out: what the probe learns of refusals (`align/probe`), which no metric may look at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from align_echo.wrappers.environment import EnvironmentSpec

NONSENSE = ("blorf", "zint the quarp with vlem", "wug 7")
TASKS = 3

Known = Literal["declared", "inferred"]


@dataclass(frozen=True)
class RefusalTest:
    """Whether an observation is a refusal, and how that is known."""

    is_invalid: Callable[[str], bool]
    known: Known


def refusal_test(spec: EnvironmentSpec, data_root: str | Path | None = None) -> RefusalTest | None:
    """The refusal test of an environment: declared, inferred, or None where nothing tells.

    Raises `MissingDataError`, and `EngineError` if the engine breaks while it is asked.
    """
    if spec.is_invalid is not None:
        return RefusalTest(spec.is_invalid, "declared")
    answers = _answers(spec, data_root)
    if None in answers or len(answers) != 1:
        return None
    (refusal,) = answers
    pattern = re.compile(str(refusal), re.DOTALL)
    return RefusalTest(lambda observation: pattern.fullmatch(observation.strip()) is not None, "inferred")


def _answers(spec: EnvironmentSpec, data_root: str | Path | None) -> set[str | None]:
    """What nonsense is answered with, as patterns; None for an answer that changes nothing or ends the episode."""
    split = spec.test_split
    env = spec.make(split, data_root=data_root)
    try:
        answers: set[str | None] = set()
        for task in spec.tasks(split, data_root)[:TASKS]:
            for action in NONSENSE:
                opening, _ = env.reset(seed=0, options={"task": task})
                answer, reward, terminated, truncated, _ = env.step(action)
                went_on = not (terminated or truncated or float(reward) > 0)
                is_new = went_on and answer.strip() not in opening  # no page that was there before
                answers.add(_pattern(answer.strip(), action) if is_new else None)
        return answers
    finally:
        env.close()


def _pattern(answer: str, action: str) -> str:
    """A regular expression for an answer, where the words of the action, if it names them, may be any."""
    parts = re.split(re.escape(action), answer, flags=re.IGNORECASE)
    if len(parts) == 1:
        first = action.split()[0]
        parts = re.split(rf"\b{re.escape(first)}\b", answer, flags=re.IGNORECASE)
    return ".+".join(map(re.escape, parts))
