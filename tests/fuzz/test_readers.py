"""Every reader of what others wrote is given what nobody should write: it answers, or raises the error that it names.

`python -m studies.fuzz` does the same for as long as one likes, and looks for texts that take too long.
"""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.parsing import parse_reasoned_action
from align_echo.align.hybrid.reading import MOST_HYPOTHESES, parse_hypotheses
from align_echo.base.commands import split_sentences
from align_echo.critic.language import parse_critique
from align_echo.errors import ReplyFormatError
from tests.fuzz.mutate import ODD, mutated
from tests.fuzz.targets import TARGETS, Target, problem

LONG = 100_000


def texts(target: Target) -> st.SearchStrategy[str]:
    """Parts of the seeds and odd signs in any order, and seeds that were changed."""
    parts = sorted({part for seed in target.seeds for part in re.findall(r"</?\w+>|\w+:?|\s|[^\w\s]", seed)} | {*ODD})
    shuffled = st.lists(st.one_of(st.sampled_from(parts), st.text(max_size=5)), max_size=20).map("".join)
    changed = st.integers(0, 2**32).map(lambda number: mutated(target.seeds, random.Random(number)))
    return st.one_of(shuffled, changed)


def hold(target: Target, examples: int) -> None:
    """So many texts are taken as they should be."""

    @settings(max_examples=examples, derandomize=True, database=None)
    @given(text=texts(target))
    def taken(text: str) -> None:
        assert problem(target, text) == "", text

    taken()


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_takes_any_text(name: str) -> None:
    hold(TARGETS[name], 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_takes_a_thousand_texts(name: str) -> None:
    hold(TARGETS[name], 1000)


def test_a_reply_of_many_brackets_is_read_at_once() -> None:
    """Each bracket may begin a list of hypotheses; once the rest of the reply was looked through for each."""
    for reply in ("{" * LONG, '{"kind": ' * (LONG // 9), "[{" * (LONG // 2)):
        with pytest.raises(ReplyFormatError) as refused:
            parse_hypotheses(reply, ["1"])
        assert len(str(refused.value)) < 15_000


def test_hypotheses_beyond_the_most_that_are_read_are_counted_in_one_line() -> None:
    needed = '{"kind": "needs", "action": "put {0} in {1}", "step": "open {1}"}'
    others = [f'{{"kind": "needs", "action": "a{number} {{0}}"}}' for number in range(500)]
    many = "[" + ",".join([needed, *others]) + "]"
    read = parse_hypotheses(many, ["1"])
    assert len(read.hypotheses) == 1
    assert len(read.unread) == MOST_HYPOTHESES
    assert read.unread[-1] == f"{501 - MOST_HYPOTHESES} more: at most {MOST_HYPOTHESES} are read at once"


def test_a_message_of_many_labels_is_one_sentence_and_is_read_at_once() -> None:
    message = "\nAction:" * (LONG // 8)
    assert "".join(split_sentences(message)) == message
    quotes = '"a" b. ' * (LONG // 7)
    assert "".join(split_sentences(quotes)) == quotes


def test_a_critique_of_many_half_blocks_is_refused_at_once() -> None:
    pairs = "<reason>a</reason><suggestions>b</suggestions>" * (LONG // 45)
    with pytest.raises(ReplyFormatError, match="blocks twice"):
        parse_critique(pairs)
    with pytest.raises(ReplyFormatError, match="no more"):
        parse_critique("<reason>" + "</reason><suggestions>" * (LONG // 22))


def test_a_line_of_many_marks_is_no_observation_and_is_read_at_once() -> None:
    action = "#" * LONG
    assert parse_reasoned_action(f"Thought: x\nAction: a{action}").endswith(action)
