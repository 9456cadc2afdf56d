"""Which answers are right: by meaning, and by upstream's own check."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.wrappers.m3tooleval.env import is_right, is_same_text


@pytest.mark.parametrize(
    ("answer", "expected", "digits"),
    [
        ("7", 7, None),
        ("7.0", 7, None),
        ("'7'", 7, None),
        ("1,234.5", 1234.5, None),
        ("$12.30", 12.3, 2),
        ("237.94", 237.942, 2),
        ("237.942", 237.942, 2),
        ("0.1", 0.1 + 1e-9, None),
        ("[1, 2]", [1.0, 2.0], None),
        ("(1.0, 2.0)", [1, 2], None),
        ("1, 2", [1, 2], None),
        ('["a", "b"]', ["a", "b"], None),
        ("a, b", ["a", "b"], None),
        ("('A', 6)", ("A", 6), None),
        ("['A', '6']", ("A", 6), None),
        ("{'b': 2, 'a': 1.0}", {"a": 1, "b": 2}, None),
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}, None),
        ('{"ok": true}', {"ok": True}, None),
        ("true", True, None),
        ("No.", False, None),
        ("`abc  def`", "abc def", None),
        ('"abc".', "abc", None),
        ("2041-07-01", "2041-07-01", None),
        ("7182000", 7182000.0, None),
        ("7,182,000.0", 7182000, None),
        ("11.999999999999998", 12, None),
        ("12", 11.999999999999998, None),
        ("7182000.004", 7182000.0, 2),
        ("12345678901234567891", 12345678901234567891, None),
    ],
)
def test_a_right_answer_is_right_however_it_is_written(answer, expected, digits):
    assert is_right(answer, expected, digits)


@pytest.mark.parametrize(
    ("answer", "expected", "digits"),
    [
        ("8", 7, None),
        ("The answer is 7", 7, None),
        ("7182001", 7182000.0, None),
        ("7182000.5", 7182000, None),
        ("7182001", 7182000.0, 2),
        ("12345679", 12345678, None),
        ("12345678901234567890", 12345678901234567891, None),
        ("[2016001, 1]", [2016000, 1], None),
        ("0.0000001", 0, None),
        ("237.94", 237.942, None),
        ("237.9", 237.942, 2),
        ("237.93", 237.942, 2),
        ("True", 1, None),
        ("1", True, None),
        ("[2, 1]", [1, 2], None),
        ("[1, 2, 3]", [1, 2], None),
        ("{'a': 1}", {"a": 1, "b": 2}, None),
        ("abd", "abc", None),
        ("ABC", "abc", None),
        ("", "abc", None),
        ("nan", 7.0, None),
        ("__import__('os').getpid()", 7, None),
        ("[" * 5000, [1], None),
        ("9" * 5000, 7, None),
        ("(" * 300 + ")" * 300, [1], None),
    ],
)
def test_a_wrong_answer_is_wrong(answer, expected, digits):
    assert not is_right(answer, expected, digits)


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("7", 7, True),
        ("7.0", 7, True),
        ("237.942", 237.942, True),
        ("237.94", 237.942, False),
        ("[1.0, 2.0]", [1.0, 2.0], True),
        ("[1, 2]", [1.0, 2.0], False),
        ("[1.0,2.0]", [1.0, 2.0], False),
        ("{'b': 2, 'a': 1}", {"a": 1, "b": 2}, False),
        ("'abc'", "abc", True),
        ("True", True, True),
        ("true", True, False),
        ("1", True, True),
    ],
)
def test_upstreams_check_asks_for_how_it_is_written(answer, expected, right):
    assert is_same_text(answer, expected) is right


VAST = "0x" + "f" * 3900
"""A whole number with more digits than Python writes."""


@pytest.mark.parametrize(
    "answer", ["9" * 400, "-" + "9" * 400, "1e999", "9" * 400 + "+1j", VAST, f"[{VAST}]", f"{{{VAST}: 1}}"]
)
@pytest.mark.parametrize("expected", [7, 1.5, "abc", True, [7], ("A", 7), {"a": 7}])
def test_a_number_beyond_all_bounds_is_a_wrong_answer(answer, expected):
    assert not is_right(answer, expected, 2)
    assert not is_same_text(answer, expected)


@given(st.text(max_size=200), st.sampled_from([1, 1.5, "a", True, [1, 2], {"a": 1}, ("A", 3)]))
def test_any_text_is_an_answer(answer, expected):
    assert is_right(answer, expected, 2) in (True, False)
    assert is_same_text(answer, expected) in (True, False)
