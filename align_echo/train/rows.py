"""What a recipe hands to the trainer: one conversation a row, with what it earned and whom it is compared with.

Left out: advantages (`align_echo.train.advantages`), tensors and padding (the trainer).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from align_echo.critic.reasoned_verdict import Judgement
from align_echo.critic.review import Review
from align_echo.errors import UsageError
from align_echo.tokens import TokenSequence, join, token_sequence
from align_echo.types import Trajectory

Role = Literal["policy", "critic"]


@dataclass(frozen=True)
class Row:
    """A conversation of T tokens. Rows of one `role` and `group` are compared with each other.

    A `moved` row was sampled in another context than it is trained in (ICRL): its log-probabilities are those of
    sampling, and the trainer may weigh its tokens by how likely they are in the context that it has here.
    An `expert` row was not sampled by the policy at all (LUFFY): it has no log-probabilities.
    """

    tokens: TokenSequence
    role: Role
    group: str
    reward: float
    moved: bool = False
    expert: bool = False

    @property
    def learnable(self) -> int:
        """How many tokens there are to learn from: sampled ones, but for a first token, which follows on nothing."""
        return sum(self.tokens.mask[1:])


@dataclass(frozen=True)
class Harvest:
    """What a recipe brings home from some queries.

    `refinements` are pairs of scores: of an attempt, and of the one that followed it (after a critique, if any).
    `counts` says what happened on the way, among it what could not be used: "broken rollouts", "unread critiques".
    `steps` is how many turns were played in environments. `signals` is what was observed of play (`train.observed`),
    as are `episodes`, all that were played, the expert's too, and `reviewed`, attempts and what the critic said of
    them.
    """

    rows: tuple[Row, ...]
    refinements: tuple[tuple[float, float], ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    signals: dict[str, float] = field(default_factory=dict)
    episodes: tuple[Trajectory, ...] = ()
    reviewed: tuple[tuple[Trajectory, Review], ...] = ()


def policy_row(trajectory: Trajectory, group: str) -> Row:
    """An episode as it was sampled; its score is its reward. Raises `UsageError` for a broken one."""
    if trajectory.fault is not None:
        raise UsageError(f"{trajectory.task_id} was broken by a fault: there is nothing to learn from it")
    return Row(token_sequence(trajectory), "policy", group, trajectory.score)


def expert_row(lesson: Trajectory) -> Row:
    """An expert's episode as if the policy's agent had made it; its score is its reward, its task its group."""
    return replace(policy_row(lesson, lesson.task_id), expert=True)


def critic_row(reply: Review | Judgement, group: str, reward: float) -> Row:
    """A critic's reply. Raises `UsageError` if the critic's model gave no token ids."""
    if reply.tokens is None:
        raise UsageError("the critic's reply has no token ids: let a local model be the critic")
    return Row(join([reply.tokens]), "critic", group, reward)


def without_critique(row: Row, trajectory: Trajectory, opening: Sequence[int]) -> Row:
    """The row of a refined episode with the opening of an episode without critique in place of its own.

    `opening` is what the model is given before its first reply. Raises `UsageError` for an episode without turns.
    """
    first = trajectory.steps[0].tokens if trajectory.steps else None
    if first is None:
        raise UsageError(f"{trajectory.task_id} has no first reply with token ids")
    kept, gained = len(first.context_ids), len(opening) - len(first.context_ids)
    old = row.tokens
    tokens = TokenSequence(
        ids=(*opening, *old.ids[kept:]),
        mask=(*[0] * len(opening), *old.mask[kept:]),
        logprobs=(*[0.0] * len(opening), *old.logprobs[kept:]),
        turns=tuple((start + gained, end + gained) for start, end in old.turns),
    )
    return replace(row, tokens=tokens, moved=True)
