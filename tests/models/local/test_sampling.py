"""One token a row by inverse CDF: the distribution is the one asked for, and its log-probability is told."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.models.local.engine import SamplingConfig
from align_echo.models.local.rows import draw

SIZE = 6
rows = st.lists(st.floats(-8, 8, width=32), min_size=SIZE, max_size=SIZE)
GRID = 500
UNIFORMS = [(number + 0.5) / GRID for number in range(GRID)]


def drawn_shares(logits: list[float], sampling: SamplingConfig) -> list[float]:
    """How often each token comes over an even grid of uniform numbers."""
    tokens, _ = draw(torch.tensor([logits] * GRID), [sampling] * GRID, UNIFORMS)
    return [tokens.count(token) / GRID for token in range(SIZE)]


def expected_shares(logits: list[float], sampling: SamplingConfig) -> list[float]:
    weights = [math.exp(logit / sampling.temperature) for logit in logits]
    order = sorted(range(SIZE), key=lambda token: -weights[token])
    kept = order[: sampling.top_k or SIZE]
    total, before = sum(weights[token] for token in kept), 0.0
    chosen: list[int] = []
    for token in kept:
        if before < sampling.top_p * total or not chosen:
            chosen.append(token)
        before += weights[token]
    left = sum(weights[token] for token in chosen)
    return [weights[token] / left if token in chosen else 0.0 for token in range(SIZE)]


@settings(max_examples=25)
@given(logits=rows, temperature=st.sampled_from([0.3, 1.0, 2.0]), top_k=st.integers(0, SIZE + 2))
def test_tokens_come_as_often_as_temperature_and_top_k_say(logits, temperature, top_k):
    logits = [logit + 1e-3 * index for index, logit in enumerate(logits)]  # no ties
    sampling = SamplingConfig(temperature=temperature, top_k=top_k)
    assert drawn_shares(logits, sampling) == pytest.approx(expected_shares(logits, sampling), abs=6e-3)


@pytest.mark.parametrize("top_p", [0.05, 0.3, 0.5, 0.75, 0.96, 1.0])
@pytest.mark.parametrize("top_k", [0, 3])
def test_top_p_keeps_the_fewest_tokens_that_reach_it_among_those_of_top_k(top_p, top_k):
    logits = [math.log(share) for share in (0.08, 0.4, 0.02, 0.25, 0.15, 0.1)]
    sampling = SamplingConfig(temperature=1.0, top_p=top_p, top_k=top_k)
    assert drawn_shares(logits, sampling) == pytest.approx(expected_shares(logits, sampling), abs=6e-3)


@given(
    logits=st.lists(rows, min_size=1, max_size=5),
    temperatures=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5),
    uniform=st.floats(0, 1, exclude_max=True),
    top_k=st.integers(0, 3),
)
def test_log_probabilities_are_those_before_top_k_at_the_rows_own_temperature(logits, temperatures, uniform, top_k):
    samplings = [
        SamplingConfig(temperature=temperature, top_k=top_k)
        for temperature, _ in zip(temperatures, logits, strict=False)
    ]
    tokens, logprobs = draw(torch.tensor(logits), samplings, [uniform] * len(logits))
    for row, sampling, token, logprob in zip(logits, samplings, tokens, logprobs, strict=True):
        scaled = torch.log_softmax(torch.tensor(row) / (sampling.temperature or 1.0), dim=-1)
        assert logprob == pytest.approx(float(scaled[token]), abs=1e-5)
        if sampling.temperature == 0:
            assert row[token] == pytest.approx(max(row), rel=0, abs=1e-37)  # smaller numbers may count as 0


def test_greedy_takes_the_likeliest_token_by_however_little():
    assert draw(torch.tensor([[-1e-15, 0.0, -2.0]]), [SamplingConfig(temperature=0)], [0.5])[0] == [1]


@pytest.mark.parametrize("uniform", [0.0, math.nextafter(1.0, 0.0)])
def test_a_token_of_probability_zero_is_never_drawn(uniform):
    never = float("-inf")
    tokens, logprobs = draw(torch.tensor([[never, 0.0, never, 0.0, never, never]]), [SamplingConfig()], [uniform])
    assert tokens == [3 if uniform else 1]
    assert logprobs == pytest.approx([math.log(0.5)])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_spoil_no_other_row(temperature):
    rows = torch.tensor([[0.0, float("nan"), 1.0], [0.0, -5.0, 60.0]])
    tokens, logprobs = draw(rows, [SamplingConfig(temperature=temperature)] * 2, [0.5, 0.5])
    assert math.isnan(logprobs[0])
    assert tokens[1] == 2
    assert logprobs[1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("temperature", [1e-4, 1e-38, 5e-324])
def test_a_temperature_near_zero_draws_the_likeliest_token(temperature):
    tokens, logprobs = draw(torch.tensor([[3.0, 900.0, 899.0]]), [SamplingConfig(temperature=temperature)], [0.999])
    assert tokens == [1]
    assert logprobs == pytest.approx([0.0], abs=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1}, {"temperature": math.nan}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}],
)
def test_what_is_no_way_to_draw_is_refused(wrong):
    with pytest.raises(UsageError, match="give a temperature"):
        SamplingConfig(**wrong)
