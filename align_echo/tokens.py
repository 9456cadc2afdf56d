"""A trajectory as one token sequence: ids as sampled, loss mask, log-probabilities, turn boundaries.

Every id comes from the model call that used it; no text is encoded here. Not here: padding and tensors (the
trainer's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.errors import TokenDriftError, UsageError
from align_echo.types import Tokens, Trajectory


@dataclass(frozen=True)
class TokenSequence:
    """One conversation of T tokens.

    `mask` [T] is 1 on sampled tokens and 0 on all others; `logprobs` [T] are from sampling time, 0 where the mask is
    0. `turns` are (first, end) positions of the sampled tokens of each call. A conversation whose history is written in
    another way later on has several contexts, one after the other; those beyond the first begin at `breaks`.
    `first_turn` is the number of the first of `turns`.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[tuple[int, int], ...]
    breaks: tuple[int, ...] = ()
    first_turn: int = 0

    def contexts(self) -> list[TokenSequence]:
        """Return a sequence for each context, with the calls made in it."""
        if not self.breaks:
            return [self]
        spans = pairwise((0, *self.breaks, len(self.ids)))
        return [
            TokenSequence(
                self.ids[start:stop],
                self.mask[start:stop],
                self.logprobs[start:stop],
                tuple((first - start, end - start) for first, end in self.turns if start <= first < stop),
                first_turn=sum(first < start for first, _ in self.turns),
            )
            for start, stop in spans
        ]


def join(calls: Sequence[Tokens]) -> TokenSequence:
    """Join the calls of one conversation in order. A call that keeps only part of the ids before it opens a context.

    Raises `TokenDriftError` if a call does not continue the previous one.
    """
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    turns: list[tuple[int, int]] = []
    breaks: list[int] = []
    for number, call in enumerate(calls, start=1):
        begin = breaks[-1] if breaks else 0
        if call.start > len(ids) - begin:
            held = len(ids) - begin
            raise TokenDriftError(f"call {number} begins at token {call.start}, the calls before it hold {held}")
        if len(call.sampled_ids) != len(call.logprobs):
            raise TokenDriftError(
                f"call {number} has {len(call.sampled_ids)} sampled tokens and {len(call.logprobs)} log-probabilities"
            )
        context = call.context_ids
        if call.start < len(ids) - begin:
            breaks.append(len(ids))
            context = (*ids[begin : begin + call.start], *context)
        ids += context
        turns.append((len(ids), len(ids) + len(call.sampled_ids)))
        ids += call.sampled_ids
        mask += [0] * len(context) + [1] * len(call.sampled_ids)
        logprobs += [0.0] * len(context) + list(call.logprobs)
    return TokenSequence(tuple(ids), tuple(mask), tuple(logprobs), tuple(turns), tuple(breaks))


def episode_sequence(trajectory: Trajectory) -> TokenSequence:
    """Build one sequence of a trajectory's calls: a call that does not continue the calls before it opens a context.

    Raises as `join`, and for a step without ids.
    """
    return join([call for conversation in _conversations(trajectory) for call in conversation])


def token_sequence(trajectory: Trajectory) -> TokenSequence:
    """Build the token sequence of a trajectory whose model saw all of it.

    Raises `UsageError` if a step has no token ids (a remote or scripted model, or an agent with more than one call per
    turn) and for a bounded history, `TokenDriftError` if the calls do not fit together.
    """
    conversations = _conversations(trajectory)
    if len(conversations) > 1:
        raise UsageError(
            f"the model saw {trajectory.task_id} from step {len(conversations[0]) + 1} on without earlier turns: it is "
            "several sequences (align_echo.tokens.token_sequences)"
        )
    return join(conversations[0])


def token_sequences(trajectory: Trajectory) -> list[TokenSequence]:
    """Build the token sequences of a trajectory, as its model saw them: a call that does not continue the calls before
    it, because earlier turns were left out, begins another sequence. Raises as `join`, and for a step without ids.
    """
    return [join(conversation) for conversation in _conversations(trajectory)]


def _conversations(trajectory: Trajectory) -> list[list[Tokens]]:
    """Divide the calls of a trajectory where one begins at token 0 again."""
    calls = [step.tokens for step in trajectory.steps]
    missing = next((number for number, call in enumerate(calls, start=1) if call is None), None)
    if missing is not None:
        raise UsageError(
            f"step {missing} of {trajectory.task_id} has no token ids: roll out with a local model and an agent that "
            "makes one call a turn (vanilla, react)"
        )
    conversations: list[list[Tokens]] = [[]]
    for call in calls:
        assert call is not None
        if call.start == 0 and any(before.context_ids or before.sampled_ids for before in conversations[-1]):
            conversations.append([])
        conversations[-1].append(call)
    return conversations
