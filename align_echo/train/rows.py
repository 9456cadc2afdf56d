"""The data passed from a method to the trainer: a row is a conversation with its reward and its group.

Not here: advantages (`advantages.py`), tensors and padding (`batching.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from align_echo.critic.ask import Verdict
from align_echo.errors import UsageError
from align_echo.tokens import TokenSequence, episode_sequence, join
from align_echo.types import Tokens, Trajectory

Role = Literal["policy", "critic"]


@dataclass(frozen=True)
class Row:
    """A conversation of T tokens. Rows of the same `role` and `group` are compared with each other.

    A `moved` row is trained in another context than it was sampled in (ICRL). Its log-probabilities are those of
    sampling; the trainer may weigh its tokens by their likelihood in the new context. An `expert` row was not sampled
    by the policy (LUFFY) and has no log-probabilities.
    """

    tokens: TokenSequence
    role: Role
    group: str
    reward: float
    moved: bool = False
    expert: bool = False

    def contexts(self) -> list[Row]:
        """Return a row for each context of the conversation."""
        return [replace(self, tokens=tokens) for tokens in self.tokens.contexts()]

    @property
    def learnable(self) -> int:
        """Number of tokens to learn from: sampled ones, except a first token, which has no prefix."""
        return sum(self.tokens.mask[1:])


@dataclass(frozen=True)
class RolloutBatch:
    """The result of a method on a batch of tasks.

    `refinements` are pairs of scores: an attempt's, and that of the next attempt (after a critique, if any). `counts`
    holds event counts, such as "broken rollouts" and "unread critiques". `steps` is the number of turns played.
    `ObservedStage` adds the rest: `signals` of play, all `episodes` (the expert's too), and `critiqued`, attempts with
    the critic's replies.
    """

    rows: tuple[Row, ...]
    refinements: tuple[tuple[float, float], ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    signals: dict[str, float] = field(default_factory=dict)
    episodes: tuple[Trajectory, ...] = ()
    critiqued: tuple[tuple[Trajectory, Verdict], ...] = ()


def policy_row(trajectory: Trajectory, group: str) -> Row:
    """Convert a sampled episode to a row; its score is the reward. Raises `UsageError` for a broken episode."""
    if trajectory.fault is not None:
        raise UsageError(f"{trajectory.task_id} was broken by a fault: there is nothing to learn from it")
    return Row(episode_sequence(trajectory), "policy", group, trajectory.score)


def expert_row(lesson: Trajectory) -> Row:
    """Convert an expert's episode to a row of the policy; its score is the reward, its task the group.

    Replies without an action are read and not imitated.
    """
    row = policy_row(lesson, lesson.task_id)
    mask = list(row.tokens.mask)
    for step, (first, end) in zip(lesson.steps, row.tokens.turns, strict=True):
        if step.action is None:
            mask[first:end] = [0] * (end - first)
    return replace(row, tokens=replace(row.tokens, mask=tuple(mask)), expert=True)


def critic_row(reply: Verdict, group: str, reward: float) -> Row:
    """Convert a critic's reply to a row. Raises `UsageError` if it has no token ids."""
    if reply.tokens is None:
        raise UsageError("the critic's reply has no token ids: let a local model be the critic")
    return Row(join([reply.tokens]), "critic", group, reward)


def without_critique(row: Row, trajectory: Trajectory, opening: Sequence[int]) -> Row:
    """Replace the opening of a refined episode's row by `opening`, the tokens before the first reply without a
    critique.

    Raises `UsageError` for an episode without turns, and for one whose later contexts begin otherwise.
    """
    first = trajectory.steps[0].tokens if trajectory.steps else None
    if first is None:
        raise UsageError(f"{trajectory.task_id} has no first reply with token ids")
    calls: list[Tokens] = []
    shift = len(opening) - len(first.context_ids)
    for call in [step.tokens for step in trajectory.steps if step.tokens]:
        if call is first:
            calls.append(first.model_copy(update={"context_ids": tuple(opening)}))
            continue
        rewritten = max(0, len(first.context_ids) - call.start)  # tokens at the end of the opening
        if call.start + shift < 0 or first.context_ids[call.start :] != tuple(opening[len(opening) - rewritten :]):
            raise UsageError(
                f"{trajectory.task_id}: the chat template writes the critique elsewhere in later turns, so that the "
                "episode cannot be trained on without it"
            )
        calls.append(call.model_copy(update={"start": call.start + shift}))
    return replace(row, tokens=join(calls), moved=True)
