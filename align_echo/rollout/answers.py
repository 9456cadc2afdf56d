"""Replay agents' actions in the plain environment and record its answers, also its answers to nonsense.

Nonsense is only sent in training tasks, never in a measured task. Not here: inferring refusals from the answers
(`refusals.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from align_echo.agents.parsing import as_offered
from align_echo.errors import EngineError, MissingDataError
from align_echo.rollout.session import base_env
from align_echo.types import Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

NONSENSE = ("blorf", "zint the quarp with vlem", "wug 7")
TASKS = 3
STEPS = 100
"""Initial step limit of a replay; a longer episode gets a new environment."""


@dataclass(frozen=True)
class EnvReply:
    """The plain environment's answer to a step. `text` None: not asked, as the reply had no action or the episode had
    ended.

    `gained`: the score rose. `offered` are the actions listed before the action, None without a list; `is_offered`:
    the action was listed; `changed`: the list was different afterwards.
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
        """True if the previous page is shown again."""
        return self.text is not None and self.text.strip() == self.before.strip()

    @property
    def words(self) -> str:
        """Words of the answer, ignoring case, spaces and numbers."""
        return re.sub(r"\d+", "#", " ".join((self.text or "").casefold().split()))

    @property
    def shape(self) -> str:
        """Answer as `words`, without the words of the action."""
        names = {word for word in re.findall(r"\w+", (self.action or "").casefold()) if not word.isdigit()}
        return re.sub(r"\w+", lambda match: "_" if match[0] in names else match[0], self.words)


def replayed(
    spec: EnvironmentSpec, trajectories: Iterable[Trajectory], data_root: str | Path | None = None
) -> Iterator[tuple[Trajectory, list[EnvReply]]]:
    """Yield each episode with the plain environment's answers to its steps, in its own split. No step limit ends a
    replay.

    Raises `UsageError` for an unknown split or task, `EngineError` if the engine breaks.
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


def replay_answers(env: gym.Env[str, str], trajectory: Trajectory) -> list[EnvReply]:
    """Replay an episode's actions (first line of each) from a fresh reset and return the answers.

    `env` is the raw environment with a step limit above the episode's length. Raises `UsageError` for an unknown task,
    `EngineError` if the engine breaks.
    """
    before, _ = env.reset(seed=trajectory.seed, options={"task": trajectory.task_id})
    answers: list[EnvReply] = []
    over = False
    for spoken_action in trajectory.actions:
        action = None if spoken_action is None else first_line(spoken_action)
        if action is None or over:
            answers.append(EnvReply(action))
            continue
        answer = _answer(env, action, before)
        answers.append(answer)
        over, before = answer.ended, answer.text or ""
    return answers


def _answer(env: gym.Env[str, str], action: str, before: str) -> EnvReply:
    """Send an action in the current state, after `before` was shown, and return the answer."""
    base = base_env(env)
    listed = base.state.admissible_actions
    text, reward, terminated, truncated, info = env.step(action)
    over = terminated or truncated
    return EnvReply(
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
    """Return the first line of an action, the part that is replayed."""
    return action.strip().split("\n", 1)[0]


def _is_offered(as_read: Callable[[str], str], action: str, listed: Sequence[str]) -> bool:
    return action in listed or as_offered(action, listed) in listed or as_read(action) in map(as_read, listed)


# ---------------------------------------------------------------- nonsense


@dataclass(frozen=True)
class NonsenseRule:
    """The environment's reaction to nonsense.

    `is_refusal` recognises the answer to nonsense; None if the answers differ or are no refusal. `lists`: the
    environment lists possible actions. `ticks`: the list changes by itself (None: unknown, nothing was sent).
    """

    is_refusal: Callable[[str], bool] | None = None
    lists: bool = False
    ticks: bool | None = None


def ask_nonsense(
    spec: EnvironmentSpec, measured: Iterable[str], data_root: str | Path | None = None
) -> NonsenseRule:
    """Send some nonsense actions at the start of some training tasks, excluding measured and test tasks.

    The common answer to all of them, in every task, is a refusal. Nothing is known if an answer repeats earlier text,
    gains, ends the episode or breaks the engine, or if there is no suitable task.
    """
    try:
        excluded = {*measured, *spec.tasks(spec.test_split, data_root)}
        tasks = [task for task in spec.tasks(spec.train_split, data_root) if task not in excluded][:TASKS]
    except MissingDataError:
        tasks = []
    if not tasks:
        return NonsenseRule()
    env = spec.make(spec.train_split, data_root=data_root)
    try:
        answers = [_first_answer(env, task, action) for task in tasks for action in NONSENSE]
    except EngineError:
        return NonsenseRule()
    finally:
        env.close()
    lists, ticks = answers[0].offered is not None, any(answer.changed for answer in answers)
    if any(answer.gained or answer.ended or (answer.text or "").strip() in answer.before for answer in answers):
        return NonsenseRule(None, lists, ticks)
    patterns = {_pattern(answer) for answer in answers}
    first = patterns.pop()
    if patterns or not first:
        return NonsenseRule(None, lists, ticks)
    pattern = re.compile(first, re.DOTALL)
    return NonsenseRule(lambda observation: pattern.fullmatch(observation.strip()) is not None, lists, ticks)


def _first_answer(env: gym.Env[str, str], task: str, action: str) -> EnvReply:
    opening, _ = env.reset(seed=0, options={"task": task})
    return _answer(env, action, opening)


def _pattern(spoken: EnvReply) -> str:
    """Build a regular expression for an answer, with wildcards for the action's words and for numbers.

    Returns "" if the answer has no other words.
    """
    answer, action = (spoken.text or "").strip(), spoken.action or ""
    parts = re.split(re.escape(action), answer, flags=re.IGNORECASE)
    if len(parts) == 1:
        first = action.split()[0]
        parts = re.split(rf"\b{re.escape(first)}\b", answer, flags=re.IGNORECASE)
    if not any(re.search(r"[^\W\d]", part) for part in parts):
        return ""
    return ".+".join(r"\d+".join(map(re.escape, re.split(r"\d+", part))) for part in parts)
