"""What an environment answers when an agent's actions are replayed, and when nonsense is said.

Nonsense is said in tasks for learning alone, and in none that is measured. Left out: what the answers tell of refusals
(`refusals.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from align_echo.agents.forms import as_offered
from align_echo.errors import EngineError, MissingDataError
from align_echo.session import base_env
from align_echo.types import Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

NONSENSE = ("blorf", "zint the quarp with vlem", "wug 7")
TASKS = 3
STEPS = 100
"""Steps that a replay may have at first; a longer episode has an environment of its own made."""


@dataclass(frozen=True)
class Answer:
    """What the plain environment answers a step. `text` is None where it was not asked: the reply held no action, or
    the episode had ended.

    `gained`: the score rose. `offered` is what was listed before the action, None without a list; `is_offered` tells
    whether the action was, and `changed` whether the list was another one after it.
    """

    action: str | None
    text: str | None = None
    before: str = ""
    gained: bool = False
    ended: bool = False
    offered: frozenset[str] | None = None
    is_offered: bool = False
    changed: bool = False

    @property
    def is_same_page(self) -> bool:
        """Whether the page before is shown again."""
        return self.text is not None and self.text.strip() == self.before.strip()

    @property
    def words(self) -> str:
        """The answer without regard to case, spaces and numbers."""
        return re.sub(r"\d+", "#", " ".join((self.text or "").casefold().split()))

    @property
    def shape(self) -> str:
        """The same without the words of the action."""
        names = {word for word in re.findall(r"\w+", (self.action or "").casefold()) if not word.isdigit()}
        return re.sub(r"\w+", lambda match: "_" if match[0] in names else match[0], self.words)


def replayed(
    spec: EnvironmentSpec, trajectories: Iterable[Trajectory], data_root: str | Path | None = None
) -> Iterator[tuple[Trajectory, list[Answer]]]:
    """Yield each episode with the answers of the plain environment to its steps, in the split that it names. No limit
    of steps ends a replay.

    Raises `UsageError` for a split or a task that is not there, `EngineError` if the engine breaks.
    """
    envs: dict[str, gym.Env[str, str]] = {}
    limits: dict[str, int] = {}
    try:
        for trajectory in trajectories:
            split, turns = trajectory.split, len(trajectory.steps)
            if turns >= limits.get(split, 0):
                if split in envs:
                    envs.pop(split).close()
                limits[split] = max(STEPS, 2 * turns)
                envs[split] = spec.make(split, data_root=data_root, step_limit=limits[split])
            yield trajectory, replay_answers(envs[split], trajectory)
    finally:
        for env in envs.values():
            env.close()


def replay_answers(env: gym.Env[str, str], trajectory: Trajectory) -> list[Answer]:
    """The answers to an episode's own actions (first line of each) from a fresh reset.

    `env` is the raw environment with a step limit above the episode's length. Raises `UsageError` for an environment
    that does not know the task, `EngineError` if the engine breaks.
    """
    before, _ = env.reset(seed=trajectory.seed, options={"task": trajectory.task_id})
    answers: list[Answer] = []
    over = False
    for said in trajectory.actions:
        action = None if said is None else first_line(said)
        if action is None or over:
            answers.append(Answer(action))
            continue
        answer = _said(env, action, before)
        answers.append(answer)
        over, before = answer.ended, answer.text or ""
    return answers


def _said(env: gym.Env[str, str], action: str, before: str) -> Answer:
    """Say an action in the present state, in which `before` was shown last."""
    base = base_env(env)
    listed = base.state.admissible_actions
    text, reward, terminated, truncated, info = env.step(action)
    over = terminated or truncated
    return Answer(
        action=action,
        text=text,
        before=before,
        gained=float(reward) > 0 or bool(info["won"]),
        ended=over,
        offered=None if listed is None else frozenset(listed),
        is_offered=listed is not None and _is_offered(base.as_read, action, listed),
        changed=not over and listed != base.state.admissible_actions,
    )


def first_line(action: str) -> str:
    """The first line of an action, as it is replayed."""
    return action.strip().split("\n", 1)[0]


def _is_offered(as_read: Callable[[str], str], action: str, listed: Sequence[str]) -> bool:
    return action in listed or as_offered(action, listed) in listed or as_read(action) in map(as_read, listed)


# ---------------------------------------------------------------- what nonsense is answered


@dataclass(frozen=True)
class Nonsense:
    """Whether an answer is in the words that nonsense gets, None where those are not the same or no refusal; whether
    the environment lists what is possible, and whether that changes by itself (None: not known, as nothing was said).
    """

    is_refusal: Callable[[str], bool] | None = None
    lists: bool = False
    ticks: bool | None = None


def ask_nonsense(
    spec: EnvironmentSpec, measured: Iterable[str], data_root: str | Path | None = None
) -> Nonsense:
    """Say a few nonsense actions at the start of a few tasks for learning that are neither measured nor for tests.

    What all of them are answered with, in every task, is a refusal. Where one is answered with what was to be read
    before, ends the episode or breaks the engine, and where there is no such task, nothing is known.
    """
    try:
        apart = {*measured, *spec.tasks(spec.test_split, data_root)}
        tasks = [task for task in spec.tasks(spec.train_split, data_root) if task not in apart][:TASKS]
    except MissingDataError:
        tasks = []
    if not tasks:
        return Nonsense()
    env = spec.make(spec.train_split, data_root=data_root)
    try:
        said = [_first_answer(env, task, action) for task in tasks for action in NONSENSE]
    except EngineError:
        return Nonsense()
    finally:
        env.close()
    lists, ticks = said[0].offered is not None, any(answer.changed for answer in said)
    if any(answer.gained or answer.ended or (answer.text or "").strip() in answer.before for answer in said):
        return Nonsense(None, lists, ticks)
    patterns = {_pattern(answer) for answer in said}
    first = patterns.pop()
    if patterns or not first:
        return Nonsense(None, lists, ticks)
    pattern = re.compile(first, re.DOTALL)
    return Nonsense(lambda observation: pattern.fullmatch(observation.strip()) is not None, lists, ticks)


def _first_answer(env: gym.Env[str, str], task: str, action: str) -> Answer:
    opening, _ = env.reset(seed=0, options={"task": task})
    return _said(env, action, opening)


def _pattern(said: Answer) -> str:
    """A regular expression for an answer, in which the words of the action, if it names them, and numbers may be any;
    "" where it has no other words.
    """
    answer, action = (said.text or "").strip(), said.action or ""
    parts = re.split(re.escape(action), answer, flags=re.IGNORECASE)
    if len(parts) == 1:
        first = action.split()[0]
        parts = re.split(rf"\b{re.escape(first)}\b", answer, flags=re.IGNORECASE)
    if not any(re.search(r"[^\W\d]", part) for part in parts):
        return ""
    return ".+".join(r"\d+".join(map(re.escape, re.split(r"\d+", part))) for part in parts)
