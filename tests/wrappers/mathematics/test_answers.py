"""Replies and verdicts: what is read as the one answer, and which answers are right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.base.plain_yaml import braced
from align_echo.errors import EngineError, ReplyFormatError
from align_echo.wrappers.mathematics.verifier import extract_answer

pytest.importorskip("math_verify")

from align_echo.wrappers.mathematics.verifier import is_right

# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"\boxed{5}", "5"),
        (r"So $2 + 3 = 5$, and the answer is $\boxed{ 5 }$.", "5"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{5} and again \boxed{ 5 }", "5"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{5.}", "5"),
        (r"\boxed{$5$}", "5"),
        (r"\boxed{−5}", "-5"),
        (r"\boxed{12 000}", "12000"),
        (r"\boxed{12\,000}", "12000"),
        (r"\boxed{1 1/2}", r"1\frac{1}{2}"),
        (r"\boxed{1 \frac{1}{2}}", r"1\frac{1}{2}"),
        (r"\boxed{½}", "1/2"),
        (r"\boxed{1½}", r"1\frac{1}{2}"),
        (r"\boxed{-2 ¾ km}", r"-2\frac{3}{4} km"),
        (r"\boxed{¹⁄₂}", "1/2"),
        (r"\boxed{1¹⁄₂}", r"1\frac{1}{2}"),
        (r"\boxed{2⁵}", "2^{5}"),
        (r"\boxed{10⁻¹²}", "10^{-12}"),
        (r"\boxed{12 cm²}", "12 cm^{2}"),
        (r"\boxed{x₁₂}", "x_{12}"),
        (r"\boxed{101₂}", "101_{2}"),
        (r"\boxed{45º}", "45°"),
        (r"\boxed{１２}", "12"),
        (r"}} \boxed{5} {{ \boxed{6", "5"),
    ],
)
def test_the_one_answer_is_read(reply, answer):
    assert extract_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no"),
        ("5", "no"),
        (r"\boxed{5", "no"),
        (r"\boxed{}", "empty"),
        (r"\boxed{5} or \boxed{6}", "2 different"),
        (r"\boxed{1 4}", "side by side"),
        (r"\boxed{1\;2}", "side by side"),
        (r"\boxed{½5}", "side by side"),
        (r"\boxed{" + "1" * 301 + "}", "301 characters"),
        (r"\boxed{" * 6_000 + "1" + "}" * 6_000, "characters"),
        (r"\boxed{" * 14 + "1" + "}" * 14, "deep"),
        (r"\boxed{" + "\ufdfa" * 20 + "}", "360 characters"),
        (r"\boxed{" + "(" * 13 + "1" + ")" * 13 + "}", "deep"),
    ],
)
def test_what_holds_no_single_answer_is_refused_with_the_reason(reply, reason):
    with pytest.raises(ReplyFormatError, match=reason):
        extract_answer(reply)


@given(st.text(alphabet="\\boxed{}5 ", max_size=60))
def test_what_braces_hold_is_balanced_and_in_the_text(text):
    for inside in braced(text, r"\boxed"):
        assert rf"\boxed{{{inside}}}" in text
        assert braced(rf"\boxed{{{inside}}}", r"\boxed") == [inside]


# ---------------------------------------------------------------- right and wrong

RIGHT = [
    (r"\frac{1}{2}", ("1/2", "0.5", r"\dfrac12", r"\frac{2}{4}", r"50\%", "x = 1/2", r"\frac{1}{2} \text{ hours}")),
    (r"\frac{3}{2}", ("1 1/2", r"1\frac{1}{2}", "1.5")),
    (r"-\frac{2}{3}", (r"\frac{-2}{3}", "-2/3", "−2/3")),
    ("1234", ("1,234", "1 234", r"1{,}234", "1234.0")),
    ("5", ("5 cm", r"5\text{ cm}^2", "x=5", "2+3=5", "5.", r"\$5")),
    (r"\{1,2\}", ("2, 1", r"\{2,1\}", r"x=1 \text{ or } x=2")),
    (r"[0,\infty)", (r"[0, \infty)", r"x \ge 0")),
    (r"(3, \frac{\pi}{2})", (r"\left(3, \pi/2\right)",)),
    ("x=3", ("3", "x = 3")),
    (r"\sqrt{18}", (r"3\sqrt{2}",)),
    (r"\text{Evelyn}", ("Evelyn", r"\text{Evelyn}")),
    ("x^2+2x+1", ("(x+1)^2",)),
    ("p - q", ("-q+p",)),
]
WRONG = [
    (r"\frac{1}{2}", ("2", "-1/2", "0.51", "x", "half")),
    ("5", ("-5", "3, 5", r"3 \text{ or } 5", r"\pm 5", "5x", "x=3, x=5", "?", r"\text{five}", "5!")),
    (r"[0,\infty)", (r"(0,\infty)", r"x > 0")),
    (r"\{1,2\}", ("1", "1,2,3")),
    (r"\text{Evelyn}", (r"\text{Bob}",)),
    ("p - q", ("q - p",)),
]


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in RIGHT for answer in answers])
def test_the_forms_of_a_right_answer_are_right(gold, answer):
    assert is_right(gold, extract_answer(rf"\boxed{{{answer}}}"))


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in WRONG for answer in answers])
def test_wrong_answers_are_wrong(gold, answer):
    assert not is_right(gold, extract_answer(rf"\boxed{{{answer}}}"))


def test_a_gold_answer_that_nobody_can_read_is_a_fault_and_not_a_zero():
    with pytest.raises(EngineError, match="own answer cannot be read"):
        is_right("", "5")
