"""Answers to rows of one's own: what math-verify takes for right, and must not be paid for."""

from __future__ import annotations

import pytest

from align_echo.wrappers.mathematics.env import MathEnv
from align_echo.wrappers.mathematics.generator import MathProblem

pytest.importorskip("math_verify")


def step(gold: str, reply: str, *, text: str = "Find it.", worked_out: bool = False) -> tuple[float, bool]:
    """The score of a reply to a row, and whether it was an answer."""
    env = MathEnv({"kind/1/0": MathProblem("kind/1/0", text, gold, "kind", "1", worked_out=worked_out)})
    env.reset(options={"task": "kind/1/0"})
    _, reward, terminated, *_ = env.step(reply)
    return float(reward), terminated


RIGHT = [
    (r"\frac{1}{2^{60}}", (r"2^{-60}", r"\frac{1}{1152921504606846976}")),
    ("0.0833333333333333", (r"\frac{1}{12}",)),
    (r"(10^{-9}, 1)", (r"(0.000000001, 1)",)),
    (r"(x+1)^2", (r"x^2+2x+1",)),
    (r"\sqrt{2}\sqrt{3}", (r"\sqrt{6}", "√6", "√(6)")),
    (r"\frac{1}{3}", (r"0.\overline{3}", r"0.\bar{3}")),
    (r"0.1\overline{6}", (r"\frac{1}{6}",)),
    (r"\emptyset", (r"\varnothing", "∅")),
    (r"\varnothing", (r"\emptyset",)),
    ("300", ("3e2", r"3 \times 10^2", "3.0E+2")),
    (r"(2, \infty)", (r"\{x : x > 2\}", r"\{x \mid x > 2\}", r"\{ x \in \mathbb{R} \mid 2 < x \}")),
    ("101_2", ("101_{2}", r"101_{\text{2}}", "101₂")),
    (r"2, 4, \ldots, 2n", (r"2,4,\dots,2n", "2, 4, ..., 2n")),
    (r"12 \text{ cm}", ("12", "12 cm", r"12 \text{ centimeters}", r"12\,\mathrm{cm}")),
    (r"7 \text{ hours}", ("7", "7 h", r"7 \text{ hrs}", "7 hour")),
    (r"\$4", ("4", r"4 \text{ USD}", r"4 \text{ dollars}")),
    (r"40\%", ("40", "0.4", r"40\%")),
    ("0.4", (r"40\%",)),
    ("60^\\circ", ("60", "60°", r"60 \text{ degrees}")),
    ("mango", ("Mango", r"\text{mango}")),
    ("xy", ("yx", "xy")),
    ("B", ("b", r"\text{B}")),
    (r"\begin{pmatrix} 3 \\ 4 \end{pmatrix}", (r"\begin{bmatrix}3\\4\end{bmatrix}",)),
]
WRONG = [
    (r"\frac{1}{2^{60}}", (r"\frac{1}{2^{61}}", "0", r"10^{-30}", "0.000001")),
    (r"\frac{1}{300!}", (r"\frac{1}{301!}",)),
    (r"2^{90}", (r"2^{90} + 1", r"2^{91}")),
    (r"(10^{-9}, 1)", (r"(10^{-8}, 1)",)),
    (r"\{10^{-9}, 1\}", (r"\{10^{-7}, 1\}",)),
    (r"[10^{-9}, 1]", (r"[10^{-10}, 1]",)),
    (r"\frac{1}{3}", ("0.3333333333", "0.333", r"33\%", r"0.\overline{36}")),
    ("0.333", (r"\frac{1}{3}",)),
    (r"\pi", ("3.14159265",)),
    ("101_2", ("101", "101_3", "5")),
    ("101", ("101_2",)),
    (r"2, 4, \ldots, 2n", (r"2, 8, \ldots, 2n", r"2, 4, 2n", r"2, 4, \ldots, n")),
    (r"12 \text{ cm}", ("12 m", r"12 \text{ mm}", r"12 \text{ inches}", "12 oranges")),
    (r"7 \text{ hours}", (r"7 \text{ minutes}", "7 s")),
    (r"\$4", (r"4 \text{ cents}", "4¢", "4 euros")),
    ("40", (r"40\%", r"0.4\%")),
    (r"4 \text{ apples}", (r"4 \text{ pears}", r"4 \text{ million apples}")),
    ("6", (r"\text{not } 6", r"\neg 6", r"6 \text{ not}", r"6 \text{ thousand}", r"6 \bmod 5", "6'")),
    (r"3 \pmod 7", (r"3 \pmod 5",)),
    ("f'(x)", ("f(x)", "f''(x)")),
    ("A^T", ("A",)),
    ("3n", ("3N",)),
    ("r^2", ("R^2",)),
    ("no", ("on", "o n")),
    ("PQR", ("QPR", "RQP")),
    (r"\sin 40^\circ", (r"\sin 40",)),
]


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in RIGHT for answer in answers])
def test_a_right_answer_wins_however_it_is_written(gold, answer):
    assert step(gold, rf"\boxed{{{answer}}}") == (1.0, True)


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in WRONG for answer in answers])
def test_what_says_something_else_does_not_win(gold, answer):
    assert step(gold, rf"\boxed{{{answer}}}")[0] == 0.0


def test_boxes_that_say_the_same_are_one_answer():
    assert step("0.5", r"\boxed{0.5}, that is \boxed{\frac{1}{2}}") == (1.0, True)
    assert step(r"\frac{1}{2}", r"\boxed{\frac{1}{2}} = \boxed{0.5}", worked_out=True) == (1.0, True)


@pytest.mark.parametrize("other", ["0.6", "7", "x"])
def test_which_of_several_boxes_is_right_is_not_said(other):
    env = MathEnv({"k/1/0": MathProblem("k/1/0", "Find it.", "0.5", "k", "1", worked_out=False)}, step_limit=9)
    env.reset(options={"task": "k/1/0"})
    with_right, *_ = env.step(rf"\boxed{{0.5}} or \boxed{{{other}}}")
    assert with_right == env.step(rf"\boxed{{0.25}} or \boxed{{{other}}}")[0]
    assert "2 different answers" in with_right


@pytest.mark.parametrize(
    ("answer", "wins"), [("30 cm", True), ("30", True), ("30 m", False), ("30 mm", False), ("30 €", True)]
)
def test_a_number_in_a_unit_that_the_problem_does_not_name_is_another_number(answer, wins):
    text = "A rectangle is 10 cm long and 5 cm wide. What is its perimeter in cm?"
    assert step("30", rf"\boxed{{{answer}}}", text=text, worked_out=True)[0] == float(wins)
