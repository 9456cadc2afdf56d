"""Environment of one problem and one reply, as a `TextEnv`.

An answer, right or wrong, ends the episode. A reply without an answer takes a turn and changes nothing; since there is
one turn, the step limit then ends the episode. The score is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import gymnasium as gym

from align_echo.errors import EngineError, ReplyFormatError, UsageError
from align_echo.wrappers.mathematics.generator import MathProblem
from align_echo.wrappers.mathematics.problems import extract_number
from align_echo.wrappers.mathematics.spec import CONTRACT, GOAL, STEP_LIMIT, UNREADABLE, is_invalid
from align_echo.wrappers.mathematics.verifier import (
    contradicts,
    extract_answer,
    extract_answers,
    is_right,
    other_unit,
    require_extra,
    same_text,
    several_answers_error,
    tidy_answer,
)
from align_echo.wrappers.text_env import MAX_TEXT, TEXT_CHARACTERS, EngineState, TextEnv


class MathEnv(TextEnv):
    """Environment over the problems of one split. All environments of a process share one verifier."""

    def __init__(self, problems: Mapping[str, MathProblem], step_limit: int | None = None) -> None:
        """Open a split. Raises `UsageError` for a step limit below 1."""
        super().__init__(tuple(problems), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._problems = problems
        self._problem: MathProblem | None = None
        signs = {sign for problem in problems.values() for sign in problem.text}
        if signs - set(TEXT_CHARACTERS):  # a user's file may hold others
            characters = "".join(sorted(signs | set(TEXT_CHARACTERS)))
            self.observation_space = gym.spaces.Text(MAX_TEXT, min_length=0, charset=characters)

    @property
    def goal(self) -> str:
        return GOAL

    @property
    def task_type(self) -> str:
        return self._problem.kind if self._problem else ""

    def oracle(self) -> AnswerOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        if self._problem is None:
            raise UsageError("call reset() before oracle()")
        return AnswerOracle(self._problem, done=self.state.done, won=self.state.won)

    def refuses(self, observation: str) -> bool:
        """Check if the reply before this observation held no answer."""
        return is_invalid(observation)

    def as_read(self, action: str) -> str:
        """Return the boxed answer as it goes to the verifier; the action itself if there is none."""
        try:
            return rf"\boxed{{{extract_answer(action)}}}"
        except ReplyFormatError:
            return action.strip()

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        require_extra()
        if task_id not in self._problems:
            raise UsageError(f"there is no task {task_id!r} in this split; see tasks() for the ids")
        self._problem = self._problems[task_id]
        return EngineState(self._problem.text)

    def _act(self, action: str) -> EngineState:
        if self._problem is None:
            raise EngineError("the problem is gone: call reset()")
        try:
            answers = extract_answers(action)
            right = all(_is_right(self._problem, answer) for answer in answers)
            if len(answers) > 1 and not right:  # also if one of them is right: the reply must not show which
                raise several_answers_error(len(answers))
        except ReplyFormatError as error:
            return EngineState(rf"{UNREADABLE}: {error}. An answer is given once, as \boxed{{answer}}.")
        if right:
            return EngineState("The answer is right.", score=1.0, won=True, done=True)
        return EngineState("The answer is wrong.", done=True)

    def _probe(self, action: str) -> str:
        raise UsageError("math has no action that only looks")

    def _save(self) -> None:
        """Return nothing: the snapshot itself holds the full state."""

    def _restore(self, task_id: str, saved: None) -> None:
        self._problem = self._problems[task_id]


def _is_right(problem: MathProblem, answer: str) -> bool:
    """Check an answer. If a number is wanted, the verifier sees only that number.

    Raises `EngineError`.
    """
    if problem.worked_out:
        reading = None if other_unit(answer, problem.text) else extract_number(answer, problem.text)
        return reading is not None and is_right(problem.answer, reading)
    gold, reading = _spelled(problem.answer), answer.replace("°", r"^{\circ}")
    return same_text(gold, reading) or (not contradicts(gold, reading) and is_right(gold, reading))


@lru_cache(maxsize=8192)
def _spelled(gold: str) -> str:
    """Spell a row's own answer as agents' answers are."""
    try:
        return tidy_answer(gold)
    except ReplyFormatError:
        return gold


class AnswerOracle:
    """Expert that gives the known answer. For labels and tests; never shown to an agent."""

    def __init__(self, problem: MathProblem, *, done: bool, won: bool) -> None:
        self._problem = problem
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """Return the boxed answer; None after an answer."""
        return None if self._done else rf"\boxed{{{self._problem.answer}}}"

    def distance(self) -> int | None:
        """Return 1 until an answer is given, then 0 if it was right and None if it was wrong."""
        return 1 if not self._done else 0 if self._won else None
