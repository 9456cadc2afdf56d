"""RCM: a critic that reasons about a proposed action and then judges it, by GRPO; a baseline of GAIA (paper 3).

Left out: the policy, which plays and is not trained, and the intuitive critic, which answers in one word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from align_echo.critic.reasoned_verdict import Judgement
from align_echo.critic.verdict import Verdict
from align_echo.dice import Dice
from align_echo.session import Episode
from align_echo.train.method import Bounds, Collecting, Method
from align_echo.train.methods.refining import tally
from align_echo.train.rows import Harvest, Row, critic_row
from align_echo.train.stage import Proposal, Stage
from align_echo.types import Trajectory

SAMPLES = 8
STATES = 2
FORMAT = 0.1
"""What the form alone earns."""

Labelled = tuple[Proposal, Verdict]


def rcm(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES, states: int = STATES) -> Harvest:
    """One episode a task. From the actions of all, `states` a task are drawn and each is judged `samples` times.

    What a verdict earns: `verdict_reward`. Replies about one action are a group. What a model or an engine broke is
    left out.
    """
    played = stage.play([Episode(task) for task in tasks])
    whole = [trajectory for trajectory in played if trajectory.fault is None]
    labels = stage.labels(whole)
    dice = Dice(f"actions to judge {[(trajectory.task_id, trajectory.actions) for trajectory in whole]}")
    drawn = balanced(_labelled(whole, labels), states * len(tasks), dice)
    proposals = [(replace(action, sample=sample), label) for action, label in drawn for sample in range(samples)]
    judged = list(zip(proposals, stage.judge([proposal for proposal, _ in proposals]), strict=True))
    counts = tally(played)
    counts["right actions"] = sum(label == "correct" for _, label in drawn)
    counts["wrong actions"] = sum(label == "wrong" for _, label in drawn)
    counts["unlabelled actions"] = sum(label is None for of_episode in labels for label in of_episode)
    rows, of_verdicts = compared(
        [
            (f"{proposal.attempt.task_id} turn {proposal.turn}", label, judgement)
            for (proposal, label), judgement in judged
        ]
    )
    counts.update(of_verdicts)
    return Harvest(rows=rows, counts=counts, steps=sum(len(trajectory.steps) for trajectory in played))


def compared(judged: Sequence[tuple[str, Verdict, Judgement]]) -> tuple[tuple[Row, ...], Counter[str]]:
    """The rows of replies, each with its group and the action's label, and what could not be used."""
    counts = Counter(
        {
            "broken verdicts": sum(judgement.fault is not None for _, _, judgement in judged),
            "unread verdicts": sum(judgement.fault is None and judgement.verdict is None for _, _, judgement in judged),
        }
    )
    rows = tuple(
        critic_row(judgement, group, verdict_reward(judgement, label))
        for group, label, judgement in judged
        if judgement.fault is None and judgement.tokens is not None
    )
    return rows, counts


def verdict_reward(judged: Judgement, label: Verdict) -> float:
    """1 for a verdict that agrees with the label, `FORMAT` for another one, 0 for a reply that cannot be read.

    GAIA (paper 3, section 4.3) rewards form and correctness and does not say how much each.
    """
    if judged.verdict is None:
        return 0.0
    return 1.0 if judged.verdict == label else FORMAT


def balanced(labelled: Sequence[Labelled], count: int, dice: Dice) -> list[Labelled]:
    """`count` of them, as near to half of each label as there are enough; all of them if there are fewer."""
    mixed = dice.shuffled(labelled)
    right = [example for example in mixed if example[1] == "correct"]
    wrong = [example for example in mixed if example[1] == "wrong"]
    of_right = min(len(right), max(count // 2, count - len(wrong)))
    return right[:of_right] + wrong[: count - of_right]


def _labelled(played: Sequence[Trajectory], labels: Sequence[Sequence[Verdict | None]]) -> list[Labelled]:
    return [
        (Proposal(trajectory, turn), label)
        for trajectory, of_episode in zip(played, labels, strict=True)
        for turn, label in enumerate(of_episode)
        if label is not None
    ]


def _collect(tasks: Sequence[str], stage: Stage, collecting: Collecting) -> Harvest:
    return rcm(tasks, stage, samples=collecting.samples, states=collecting.states)


def _bounds(collecting: Collecting) -> Bounds:
    return Bounds(collecting.tasks, collecting.tasks * collecting.samples * collecting.states)


METHOD = Method("rcm", _collect, _bounds, roles=("critic",), needs="distances")
