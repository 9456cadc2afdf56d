"""One conversation as one token sequence: ids in order, a mask over what was sampled, and no drift."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import TokenDriftError, UsageError
from align_echo.tokens import join, token_sequence
from align_echo.types import Step, Tokens, Trajectory

ids = st.lists(st.integers(0, 5000), max_size=6).map(tuple)


@st.composite
def conversations(draw, min_size: int = 0) -> list[Tokens]:
    """Calls that follow on one another."""
    calls: list[Tokens] = []
    for context, sampled in draw(st.lists(st.tuples(ids, ids), min_size=min_size, max_size=6)):
        logprobs = tuple(draw(st.lists(st.floats(-20, 0), min_size=len(sampled), max_size=len(sampled))))
        start = calls[-1].end if calls else 0
        calls.append(Tokens(start=start, context_ids=context, sampled_ids=sampled, logprobs=logprobs))
    return calls


def trajectory(*calls: Tokens | None) -> Trajectory:
    steps = (Step(reply="look", action="look", observation="", raw_observation="", tokens=call) for call in calls)
    return Trajectory(
        environment="room",
        split="train",
        task_id="room/mug-to-study",
        agent="test",
        goal="",
        initial_observation="",
        steps=tuple(steps),
    )


@given(conversations())
def test_a_sequence_is_every_call_in_order_with_the_sampled_tokens_marked(calls):
    sequence = join(calls)
    assert len(sequence.ids) == len(sequence.mask) == len(sequence.logprobs) == sum(map(length, calls))
    end = 0
    for call, (first, last) in zip(calls, sequence.turns, strict=True):
        assert sequence.ids[end:first] == call.context_ids
        assert sequence.ids[first:last] == call.sampled_ids
        assert sequence.mask[end:last] == (0,) * len(call.context_ids) + (1,) * len(call.sampled_ids)
        assert sequence.logprobs[end:last] == (0.0,) * len(call.context_ids) + call.logprobs
        end = last
    assert end == len(sequence.ids)


def length(call: Tokens) -> int:
    return len(call.context_ids) + len(call.sampled_ids)


@given(conversations(min_size=1), st.data())
def test_a_call_that_begins_after_the_end_of_the_one_before_is_drift(calls, data):
    number = data.draw(st.integers(0, len(calls) - 1))
    shift = data.draw(st.integers(1, 50))
    moved = calls[number].model_copy(update={"start": calls[number].start + shift})
    with pytest.raises(TokenDriftError, match=f"call {number + 1} begins at token {moved.start}"):
        join([*calls[:number], moved, *calls[number + 1 :]])


def test_a_call_that_goes_on_from_a_part_of_what_was_before_opens_a_context_of_its_own():
    first = Tokens(context_ids=(1, 2, 3), sampled_ids=(4, 5), logprobs=(-0.1, -0.2))
    second = Tokens(start=5, context_ids=(6,), sampled_ids=(7,), logprobs=(-0.3,))
    third = Tokens(start=3, context_ids=(5, 6), sampled_ids=(8, 9), logprobs=(-0.4, -0.5))
    sequence = join([first, second, third])
    one, other = sequence.contexts()
    assert (one.ids, one.turns) == ((1, 2, 3, 4, 5, 6, 7), ((3, 5), (6, 7)))
    assert (other.ids, other.mask, other.turns) == ((1, 2, 3, 5, 6, 8, 9), (0, 0, 0, 0, 0, 1, 1), ((5, 7),))
    assert other.logprobs == (0.0, 0.0, 0.0, 0.0, 0.0, -0.4, -0.5)
    assert sequence.ids == one.ids + other.ids
    assert [sequence.ids[start:end] for start, end in sequence.turns] == [(4, 5), (7,), (8, 9)]


@given(conversations(min_size=2), st.data())
def test_a_call_that_is_left_out_is_drift_unless_it_was_empty(calls, data):
    number = data.draw(st.integers(0, len(calls) - 2))
    rest = [*calls[:number], *calls[number + 1 :]]
    if length(calls[number]):
        with pytest.raises(TokenDriftError):
            join(rest)
    else:
        assert join(rest).ids == join(calls).ids


def test_sampled_tokens_without_their_log_probabilities_are_drift():
    with pytest.raises(TokenDriftError, match="call 1 has 2 sampled tokens and 1 log-probabilities"):
        join([Tokens(context_ids=(1,), sampled_ids=(2, 3), logprobs=(-0.5,))])


def test_a_step_without_token_ids_is_refused_by_number():
    first = Tokens(context_ids=(1, 2), sampled_ids=(3,), logprobs=(-0.5,))
    assert token_sequence(trajectory(first)).ids == (1, 2, 3)
    with pytest.raises(UsageError, match="step 2 of room/mug-to-study has no token ids: roll out with a local model"):
        token_sequence(trajectory(first, None))


@given(conversations())
def test_a_trajectory_that_was_written_and_read_again_is_the_same_sequence(calls):
    made = trajectory(*calls)
    assert token_sequence(Trajectory.model_validate_json(made.model_dump_json())) == token_sequence(made) == join(calls)
