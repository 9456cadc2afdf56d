"""RCM: a critic that reasons about a proposed action and then judges it, by GRPO; a baseline of GAIA (paper 3).

Left out: the policy, which plays and is not trained, and the intuitive critic, which answers in one word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from align_echo.critic.reasoned_verdict import Judgement
from align_echo.critic.verdict import Verdict
from align_echo.rollout import Episode
from align_echo.train.methods.refining import tally
from align_echo.train.rows import Harvest, critic_row
from align_echo.train.stage import Proposal, Stage
from align_echo.types import Trajectory
from align_echo.wrappers.dice import Dice

SAMPLES = 8
STATES = 2

Labelled = tuple[Proposal, Verdict]


def rcm(queries: Sequence[str], stage: Stage, *, samples: int = SAMPLES, states: int = STATES) -> Harvest:
    """One episode a query. From the actions of all, `states` a query are drawn and each is judged `samples` times.

    A verdict that agrees with the oracle's label earns 1; another one, and one that cannot be read, 0. Replies about
    one action are a group. What a model or an engine broke is left out.
    """
    played = stage.play([Episode(query) for query in queries])
    whole = [one for one in played if one.fault is None]
    labels = stage.labels(whole)
    dice = Dice(f"actions to judge {[(one.task_id, one.actions) for one in whole]}")
    drawn = balanced(_labelled(whole, labels), states * len(queries), dice)
    asked = [(replace(of, sample=sample), label) for of, label in drawn for sample in range(samples)]
    judged = list(zip(asked, stage.judge([of for of, _ in asked]), strict=True))
    counts = tally(played)
    counts["right actions"] = sum(label == "correct" for _, label in drawn)
    counts["wrong actions"] = sum(label == "wrong" for _, label in drawn)
    counts["unlabelled actions"] = sum(label is None for of_one in labels for label in of_one)
    counts["broken verdicts"] = sum(one.fault is not None for _, one in judged)
    counts["unread verdicts"] = sum(one.fault is None and one.said is None for _, one in judged)
    return Harvest(
        rows=tuple(
            critic_row(one, f"{of.attempt.task_id} turn {of.turn}", float(_verdict(one) == label))
            for (of, label), one in judged
            if one.fault is None and one.tokens is not None
        ),
        counts=counts,
        steps=sum(len(one.steps) for one in played),
    )


def balanced(labelled: Sequence[Labelled], count: int, dice: Dice) -> list[Labelled]:
    """`count` of them, as near to half of each label as there are enough; all of them if there are fewer."""
    mixed = dice.shuffled(labelled)
    right = [one for one in mixed if one[1] == "correct"]
    wrong = [one for one in mixed if one[1] == "wrong"]
    of_right = min(len(right), max(count // 2, count - len(wrong)))
    return right[:of_right] + wrong[: count - of_right]


def _labelled(played: Sequence[Trajectory], labels: Sequence[Sequence[Verdict | None]]) -> list[Labelled]:
    return [
        (Proposal(one, turn), label)
        for one, of_one in zip(played, labels, strict=True)
        for turn, label in enumerate(of_one)
        if label is not None
    ]


def _verdict(judged: Judgement) -> Verdict | None:
    return judged.said.verdict if judged.said else None
