"""What was spent is told as far as it is known: a part that nobody told is no 0 in a sum."""

from __future__ import annotations

import pytest

from align_echo.types import Usage

KNOWN = Usage(prompt_tokens=1200, completion_tokens=34, cost_usd=0.25)
PRICELESS = KNOWN.model_copy(update={"cost_usd": None})
SILENT = Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)


def test_a_sum_is_known_where_all_its_parts_are():
    assert KNOWN + KNOWN + Usage() == Usage(prompt_tokens=2400, completion_tokens=68, cost_usd=0.5)
    assert Usage(prompt_tokens=2400, completion_tokens=68, cost_usd=None) == KNOWN + PRICELESS
    assert sum([KNOWN, SILENT, KNOWN], Usage()) == SILENT
    half = Usage(prompt_tokens=7, completion_tokens=None, cost_usd=None)
    assert (KNOWN + half).prompt_tokens == 1207
    assert (KNOWN + half).tokens is None


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(), ""),
        (KNOWN, "tokens: 1,234; cost: $0.2500"),
        (PRICELESS, "tokens: 1,234; cost: not known"),
        (SILENT, "tokens: not told by every reply; cost: not known"),
        (Usage(completion_tokens=5, cost_usd=None), "tokens: 5; cost: not known"),
    ],
)
def test_words_name_no_figure_that_nobody_knows(usage, words):
    assert usage.in_words == words


def test_what_an_older_version_wrote_is_read():
    assert Usage.model_validate({"prompt_tokens": 7, "completion_tokens": 0, "cost_usd": 0.0}).tokens == 7
    assert Usage.model_validate_json(SILENT.model_dump_json()) == SILENT
