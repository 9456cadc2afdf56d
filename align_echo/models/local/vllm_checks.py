"""Validate requests to vLLM and its answers: shared by the server and the in-process engine.

vLLM returns log-probabilities of one of two distributions (its option --logprobs-mode): the model's own
("raw_logprobs", its default), or the sampled distribution after temperature, top-k and top-p ("processed_logprobs").
Ours are after temperature and before top-k and top-p, so each mode supports only some samplings; the others are
refused here rather than recorded wrongly. Choices (`SamplingConfig.choices`) are at temperature 1: the first mode
always gives them, the second only at temperature 1 or greedily. Not here: calling vLLM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models.local.engine import TokenReply, TokenRequest

LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

LOWEST_TEMPERATURE = 0.01
"""vLLM raises lower nonzero temperatures to this value."""

ROUNDING = 1e-3
"""Tolerance of log-probabilities above 0."""

MOST_CHOICES = 128
"""Maximum token ids in `logprob_token_ids`."""

LOWEST_LOGPROB = -9999.0
"""vLLM's server reports lower log-probabilities, including -inf, as this value."""

PROBES = ((1, 1.0), (2, 1.0), (1, 2.0))
"""(the only allowed token id, temperature) of the three draws that reveal the mode."""


def mode_seen(first: Sequence[float], second: Sequence[float], hot: Sequence[float]) -> LogprobsMode | None:
    """Infer the mode from the values of three draws: each the drawn token's, then the most likely tokens'. None for
    logits.

    After processing, the only allowed token has probability 1. Before it, the token has the model's probability at any
    temperature, and two tokens cannot both have 1. Values whose exponentials sum to more than 1 are logits.
    """
    if any(sum(math.exp(min(value, 1.0)) for value in reply[1:]) > 1 + ROUNDING for reply in (first, second, hot)):
        return None
    if first[0] == second[0] == hot[0] == 0:
        return "processed_logprobs"
    return "raw_logprobs" if abs(first[0] - hot[0]) < ROUNDING else None


def check_request(request: TokenRequest, mode: LogprobsMode) -> None:
    """Raise `UsageError` if vLLM cannot answer the request in this mode with correct log-probabilities."""
    sampling = request.sampling
    if not request.ids or sampling.max_tokens < 1:
        raise UsageError("a request needs a context and room for one token")
    if len(sampling.choices) > MOST_CHOICES:
        raise UsageError(f"vLLM tells the log-probabilities of {MOST_CHOICES} tokens, not of {len(sampling.choices)}")
    if 0 < sampling.temperature < LOWEST_TEMPERATURE:
        raise UsageError(
            f"vLLM draws at no temperature between 0 and {LOWEST_TEMPERATURE}; asked for {sampling.temperature}"
        )
    if sampling.temperature == 0:
        return
    if mode == "raw_logprobs" and sampling.temperature != 1:
        raise UsageError(
            f"temperature {sampling.temperature} needs vLLM with --logprobs-mode processed_logprobs: "
            "this one gives log-probabilities of temperature 1"
        )
    if mode == "processed_logprobs" and (sampling.top_k > 0 or sampling.top_p < 1):
        raise UsageError(
            "top-k and top-p need vLLM with --logprobs-mode raw_logprobs and temperature 1: "
            "with processed_logprobs it gives log-probabilities after them"
        )
    if mode == "processed_logprobs" and sampling.temperature != 1 and sampling.choices:
        raise UsageError(
            f"choices at temperature {sampling.temperature} need vLLM with --logprobs-mode raw_logprobs: "
            "this one gives log-probabilities of that temperature; or ask at temperature 1 or greedily"
        )


def room(request: TokenRequest, context: int) -> int:
    """Return the maximum number of reply tokens. Raises `ContextOverflowError` if there is no room."""
    left = context - len(request.ids)
    if left < 1:
        raise ContextOverflowError(f"the context has {len(request.ids)} tokens and the model takes {context}")
    return min(request.sampling.max_tokens, left)


def extract_choices(request: TokenRequest, first: Mapping[int, float]) -> tuple[float, ...]:
    """Extract `TokenReply.choices` from vLLM's values at the reply's first token, by token id; -inf at the lowest
    value.

    Raises `UsageError` if a choice is missing, `ModelError` if there are no values.
    """
    wanted = request.sampling.choices
    if wanted and not first:
        raise ModelError("the reply has no log-probabilities at its first token")
    if not first.keys() >= set(wanted):
        raise UsageError("this vLLM gives no log-probabilities of chosen tokens (logprob_token_ids): use 0.32 or later")
    return tuple(-math.inf if first[word] <= LOWEST_LOGPROB else first[word] for word in wanted)


def checked_reply(
    request: TokenRequest,
    longest: int,
    ids: Sequence[int],
    logprobs: Sequence[float],
    reason: str | None,
    choices: tuple[float, ...] = (),
) -> TokenReply:
    """Validate and build a `TokenReply`. Raises `ModelError` if it cannot be the answer to the request."""
    if not ids:
        raise ModelError("the reply has no tokens")
    if len(ids) != len(logprobs):
        raise ModelError(f"the reply has {len(ids)} token ids and {len(logprobs)} log-probabilities")
    if len(ids) > longest:
        raise ModelError(f"the reply has {len(ids)} tokens, {longest} were asked for")
    if any(not math.isfinite(logprob) or logprob > ROUNDING for logprob in logprobs) or not all(
        choice <= ROUNDING for choice in choices
    ):
        raise ModelError("the reply's log-probabilities are none")
    if not set(request.sampling.stop_ids).isdisjoint(ids[:-1]):
        raise ModelError("the reply goes on after its end token")
    if reason == "stop":
        return TokenReply(tuple(ids), tuple(logprobs), "stop", choices)
    if reason == "length":
        return TokenReply(tuple(ids), tuple(logprobs), "length", choices)
    raise ModelError(f"the reply ended for the reason {reason!r}")
