"""Answers to generated problems: a number that stands there worked out, in whatever form, and nothing left to do."""

from __future__ import annotations

import pytest

from align_echo.wrappers.mathematics import verifier
from align_echo.wrappers.mathematics.env import MathEnv
from align_echo.wrappers.mathematics.generator import MathProblem

pytest.importorskip("math_verify")


def score(gold: str, answer: str, text: str = "What is asked for?") -> float:
    """What a boxed answer to a generated problem is worth."""
    env = MathEnv({"kind/1/0": MathProblem("kind/1/0", text, gold, "kind", "1", worked_out=True)})
    env.reset(options={"task": "kind/1/0"})
    return float(env.step(rf"\boxed{{{answer}}}")[1])


RIGHT = {
    "5": (
        *("5", "+5", "5.0", "{5}", "(5)", "05", "x=5", "x = y = 5", "2+3=5", r"\gcd(10, 15) = 5", "a_{5} = 5"),
        *(r"\textbf{5}", r"\mathbf{5}", r"\text{5}", r"\mathrm{5}", r"\bf 5", r"\boldsymbol{5}", r"\textcolor{red}{5}"),
        *(r"\approx 5", "≈ 5", r"x \approx 5", r"\Rightarrow x = 5", r"5 \approx 4.9"),
        *("xy = 5", "x+y+z=5", "x + 2y - z = 5", r"\angle A = 5", "1,000 - 995 = 5", "5! - 115 = 5"),
    ),
    "60": (
        *("60 cm", "60 m", "60 km/h", "60 km per hour", r"60\text{ km/h}", r"60\ \mathrm{km}/\mathrm{h}"),
        *("60 euros", "60 €", "€60", r"\$60", "60 EUR", "60 litres", "60 minutes", "60 mugs", r"60\text{ of them}"),
        *("60 cm²", "60 cm^2", "60cm2", "60 square cm", r"60\text{ cm}^2", r"60 \frac{km}{h}", r"60^\circ", "60°"),
        *(r"\text{60 km}", r"x = 60 \text{ km}", "60 km h^{-1}"),
    ),
    r"\frac{3}{10}": (
        *(r"P(A) = \frac{3}{10}", r"P(A \text{ or } B) = \frac{3}{10}", r"1 - P(B) = 3/10", "0.3", r"30\%"),
        *(r"30\text{ percent}", r"\dfrac{3}{10}", r"\frac3{10}", r"\frac{\mathbf{3}}{10}", "6/20"),
        *(r"\frac{3}{10} \approx 0.33", r"\frac{-3}{-10}", r"{3 \over 10}", "(3)/(10)", "30 percent"),
    ),
    r"-\frac{3}{2}": (r"-1\frac{1}{2}", "-1 1/2", "-1½", r"-\left(\frac{3}{2}\right)", r"\text{−}1.5"),
    r"\frac{1}{3}": (r"33\frac{1}{3}\%", r"\frac{1}{3} hours", r"\frac{1}{3} \approx 0.3333333"),
    "1234": ("1,234", "1{,}234", "1 234", r"1\,234 \text{ cm}"),
    "-1234567": ("-1,234,567",),
}
WRONG = {
    "5": (
        *("2+3", "-5", "5x", "5t", "5!", "5^1", "5, 5", r"5 \text{ or } 6", "|5|", "5/1", r"\frac{5}{0}"),
        *("x > 5", r"x \ne 5", "x >= 5", "x != 5", r"\pm 5", "x = 3, x = 5", r"x = 3 \text{ or } x = 5"),
        *("5 million", r"5 \text{ million}", "5 squared", "5 halves", "5 km 300 m", "5 mod 7", "5 - 0", r"5\pi"),
        *(r"5\%", "5 percent", r"5.0\%", r"0.05\%"),
        *("five", "x", "?", "5 abc", r"9^{9^{9^9}}", r"x = 3 \text{ or } x \approx 5", r"x \equiv 5 \pmod{7}"),
    ),
    "6": ("3!", "12/2", r"\frac{12}{2}", r"2 \times 3", r"\gcd(12, 18)", "2(3)"),
    "4": ("2^2", r"\sqrt{16}", r"\lfloor 4.5 \rfloor", r"\binom{4}{1}", r"10 \mod 6"),
    r"\frac{5}{6}": (r"\frac{1}{2} + \frac{1}{3}", r"5 \div 6", r"\frac{5}{6}x", "5"),
    "25": ("2⁵",),
    "1500": (r"1.5 \times 10^3",),
    r"\frac{1}{3}": ("0.3333333", "0.3333333333", r"33.3333\%"),
}


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in RIGHT.items() for answer in answers])
def test_a_number_is_worked_out_however_it_is_written(gold, answer):
    assert score(gold, answer) == 1.0


@pytest.mark.parametrize(("gold", "answer"), [(gold, answer) for gold, answers in WRONG.items() for answer in answers])
def test_a_problem_written_again_or_another_number_is_wrong(gold, answer):
    assert score(gold, answer) == 0.0


@pytest.mark.parametrize(
    ("gold", "text", "copied"),
    [
        ("4", "Solve $3x - 8 = 4$ for $x$.", "3x-8 = 4"),
        ("7", "Given that $2x + y = 7$ and $x - y = 1$, find $xy$.", "$2x + y = 7$"),
    ],
)
def test_an_equation_of_the_problem_is_no_answer_though_its_right_side_be_the_number(gold, text, copied):
    assert score(gold, copied, text) == 0.0
    assert score(gold, f"xy = {gold}", text) == 1.0


@pytest.mark.parametrize("answer", ["^".join("i" * 30) + "^2", "9^{9^9}", "x = 9^{9^{9^9}}", r"10^{10^{10}} \approx 6"])
def test_what_math_verify_never_finishes_is_not_handed_to_it(answer, monkeypatch):
    handed_over: list[str] = []

    def never(self: object, gold: str, given: str) -> bool:
        handed_over.append(given)
        return False

    monkeypatch.setattr(verifier.VerifierProcess, "is_right", never)
    assert score("5", answer) == 0.0
    assert handed_over in ([], ["6"])


@pytest.mark.parametrize("answer", ["7" * 290, "0." + "7" * 290, "7" * 140 + "/" + "3" * 140, "5." + "0" * 280 + r"\%"])
def test_long_numbers_are_judged(answer):
    assert score("5", answer) == 0.0
