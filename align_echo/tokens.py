"""A trajectory as one token sequence: ids as sampled, loss mask, log-probabilities, turn boundaries.

Every id comes from the model call that used it; no text is encoded here. Not here: padding and tensors (the
trainer's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.errors import TokenDriftError, UsageError
from align_echo.types import Tokens, Trajectory


@dataclass(frozen=True)
class TokenSequence:
    """One conversation of T tokens.

    `mask` [T] is 1 on sampled tokens and 0 on all others; `logprobs` [T] are from sampling time, 0 where the mask is
    0. `turns` are (first, end) positions of the sampled tokens of each call.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[tuple[int, int], ...]


def join(calls: Sequence[Tokens]) -> TokenSequence:
    """Join the calls of one conversation in order. Raises `TokenDriftError` if a call does not continue the previous
    one.
    """
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    turns: list[tuple[int, int]] = []
    for number, call in enumerate(calls, start=1):
        if call.start != len(ids):
            raise TokenDriftError(f"call {number} begins at token {call.start}, the calls before it hold {len(ids)}")
        if len(call.sampled_ids) != len(call.logprobs):
            raise TokenDriftError(
                f"call {number} has {len(call.sampled_ids)} sampled tokens and {len(call.logprobs)} log-probabilities"
            )
        ids += call.context_ids
        turns.append((len(ids), len(ids) + len(call.sampled_ids)))
        ids += call.sampled_ids
        mask += [0] * len(call.context_ids) + [1] * len(call.sampled_ids)
        logprobs += [0.0] * len(call.context_ids) + list(call.logprobs)
    return TokenSequence(tuple(ids), tuple(mask), tuple(logprobs), tuple(turns))


def token_sequence(trajectory: Trajectory) -> TokenSequence:
    """Build the token sequence of a trajectory.

    Raises `UsageError` if a step has no token ids (a remote or scripted model, or an agent with more than one call per
    turn), `TokenDriftError` if the calls do not fit together.
    """
    calls = [step.tokens for step in trajectory.steps]
    missing = next((number for number, call in enumerate(calls, start=1) if call is None), None)
    if missing is not None:
        raise UsageError(
            f"step {missing} of {trajectory.task_id} has no token ids: roll out with a local model and an agent that "
            "makes one call a turn (vanilla, react)"
        )
    return join([call for call in calls if call is not None])
