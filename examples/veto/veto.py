"""A rule of selection for align-echo: the action that was drawn most often, unless the critic calls it wrong."""

from __future__ import annotations

from collections import Counter

from align_echo.critic.best_of import SelectionRule


def take(given):
    """The index of a candidate: the first of the most frequent action that was not vetoed."""
    votes = Counter(action for action in given.actions if action is not None)
    vetoed = {action for action, said in given.judged.items() if said.label == "wrong"}
    ranked = [action for action, _ in votes.most_common() if action not in vetoed] or list(votes)
    return given.actions.index(ranked[0]) if ranked else 0


VETO = SelectionRule("veto", take, needs_judge=True)
