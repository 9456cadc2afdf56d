"""RCM: a critic that reasons about a proposed action before its verdict, trained by GRPO; a baseline of GAIA (paper 3).

The policy plays and does not learn. Not here: the intuitive critic, with its answer of one word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from align_echo.base.dice import Dice
from align_echo.critic.ask import Label, Verdict
from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import tally
from align_echo.train.rows import RolloutBatch, Row, critic_row
from align_echo.train.stage import ActionProposal, Stage
from align_echo.types import Trajectory

SAMPLES = 8
STATES = 2
FORMAT = 0.1
"""Reward of a readable but wrong verdict."""

Labelled = tuple[ActionProposal, Label]


def rcm(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES, states: int = STATES) -> RolloutBatch:
    """Play an episode of each task, draw `states` actions for each task, and ask for `samples` verdicts on each.

    The reward is `verdict_reward`; verdicts on the same action form a group. Broken episodes and verdicts are omitted.
    """
    played = stage.play([Episode(task) for task in tasks])
    sound = [trajectory for trajectory in played if trajectory.fault is None]
    labels = stage.labels(sound)
    dice = Dice(f"actions to judge {[(trajectory.task_id, trajectory.actions) for trajectory in sound]}")
    drawn = balanced(_labelled(sound, labels), states * len(tasks), dice)
    proposals = [(replace(action, sample=sample), label) for action, label in drawn for sample in range(samples)]
    judged = list(zip(proposals, stage.judge([proposal for proposal, _ in proposals]), strict=True))
    counts = tally(played)
    counts["right actions"] = sum(label == "correct" for _, label in drawn)
    counts["wrong actions"] = sum(label == "wrong" for _, label in drawn)
    counts["unlabelled actions"] = sum(label is None for episode_labels in labels for label in episode_labels)
    rows, verdict_counts = compared(
        [
            (f"{proposal.attempt.task_id} turn {proposal.turn}", label, judgement)
            for (proposal, label), judgement in judged
        ]
    )
    counts.update(verdict_counts)
    return RolloutBatch(rows=rows, counts=counts, steps=sum(len(trajectory.steps) for trajectory in played))


def compared(judged: Sequence[tuple[str, Label, Verdict]]) -> tuple[tuple[Row, ...], Counter[str]]:
    """Convert verdicts, as (group, label, verdict), to rows, and count unusable ones."""
    counts = Counter(
        {
            "broken verdicts": sum(judgement.fault is not None for _, _, judgement in judged),
            "unread verdicts": sum(judgement.fault is None and judgement.label is None for _, _, judgement in judged),
        }
    )
    rows = tuple(
        critic_row(judgement, group, verdict_reward(judgement, label))
        for group, label, judgement in judged
        if judgement.fault is None and judgement.tokens is not None
    )
    return rows, counts


def verdict_reward(judged: Verdict, label: Label) -> float:
    """Return 1 for a verdict equal to the label, `FORMAT` for a wrong one, 0 for an unreadable reply.

    GAIA (paper 3, section 4.3) rewards form and correctness without stating the amounts.
    """
    if judged.label is None:
        return 0.0
    return 1.0 if judged.label == label else FORMAT


def balanced(labelled: Sequence[Labelled], count: int, dice: Dice) -> list[Labelled]:
    """Draw `count` examples (or all, if fewer) with labels as balanced as possible."""
    mixed = dice.shuffled(labelled)
    right = [example for example in mixed if example[1] == "correct"]
    wrong = [example for example in mixed if example[1] == "wrong"]
    right_count = min(len(right), max(count // 2, count - len(wrong)))
    return right[:right_count] + wrong[: count - right_count]


def _labelled(played: Sequence[Trajectory], labels: Sequence[Sequence[Label | None]]) -> list[Labelled]:
    return [
        (ActionProposal(trajectory, turn), label)
        for trajectory, episode_labels in zip(played, labels, strict=True)
        for turn, label in enumerate(episode_labels)
        if label is not None
    ]


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return rcm(tasks, stage, samples=collecting.samples, states=collecting.states)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    return BatchCost(collecting.tasks, collecting.tasks * collecting.samples * collecting.states)


METHOD = Method("rcm", _collect, _bounds, roles=("critic",), needs="distances")
