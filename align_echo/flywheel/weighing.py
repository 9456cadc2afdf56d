"""How much each example counts, so that neither the state nor the wording of an action tells whether it is right.

In every state right and wrong actions count the same, and so does every action as right as it does as wrong, in all
states that have it. Otherwise a critic learns how often each kind of action is right ("Buy Now" mostly is), which ranks
the candidates of a state wrongly wherever it is not. Found by iterative proportional fitting (Deming and Stephan,
1940). Left out: balance by leaving examples out (`examples.balanced`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from align_echo.critic.labels import Rule
from align_echo.flywheel.examples import Example

ROUNDS = 60
MOST = 5.0
"""What an example counts at most in the fitting: one that alone says that an action is right would outweigh a batch."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def even_weights(examples: Sequence[Example], rule: Rule) -> Floats:
    """What each example counts [N], on average 1 of those that count.

    What the rule cannot tell counts nothing, nor do states without both right and wrong actions, as best-of-N has no
    choice there. Actions that are only ever right, or wrong, stay as they come. Where both cannot be had, or only with
    an example that would count more than `MOST`, right and wrong of a state, and more so those of an action, count
    about the same.
    """
    labels = [one.label(rule) for one in examples]
    right_N = np.asarray([label == "correct" for label in labels], dtype=np.intp)
    states_N = _numbers([one.state for one in examples])
    actions_N = _numbers([(one.environment, one.action) for one in examples])
    weights_N = np.asarray([label is not None for label in labels], dtype=np.float64)
    weights_N *= _sides(states_N, right_N, weights_N).min(axis=1)[states_N] > 0
    for _ in range(ROUNDS):
        for groups_N in (actions_N, states_N):
            weights_N = np.minimum(MOST, weights_N * _evening(groups_N, right_N, weights_N))
    counted = weights_N > 0
    return weights_N / weights_N[counted].mean() if counted.any() else weights_N


def _numbers(names: Sequence[Hashable]) -> Ints:
    """Which of the distinct ones each is [N]."""
    found: dict[Hashable, int] = {}
    return np.asarray([found.setdefault(name, len(found)) for name in names], dtype=np.intp)


def _sides(groups_N: Ints, right_N: Ints, weights_N: Floats) -> Floats:
    """What wrong and right ones of each group count together [G, 2]."""
    sides_G2 = np.zeros((int(groups_N.max(initial=-1)) + 1, 2))
    np.add.at(sides_G2, (groups_N, right_N), weights_N)
    return sides_G2


def _evening(groups_N: Ints, right_N: Ints, weights_N: Floats) -> Floats:
    """What makes right and wrong ones of each group that has both count the same, and it as much as before [N]."""
    sides_G2 = _sides(groups_N, right_N, weights_N)
    both_G = sides_G2.min(axis=1) > 0
    factors_G2 = np.ones_like(sides_G2)
    factors_G2[both_G] = sides_G2[both_G].sum(axis=1, keepdims=True) / 2 / sides_G2[both_G]
    factors_N: Floats = factors_G2[groups_N, right_N]
    return factors_N
