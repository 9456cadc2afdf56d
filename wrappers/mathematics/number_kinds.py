"""Kinds of problems about numbers and equations. Each is a function of dice and a level from 1 to 5.

It returns the exact answer, and the problem in several equivalent wordings. Unknowns of equations are drawn first, so
that there is exactly one solution. No problem is a single quotient or remainder that is already in the form of its
answer. Word problems are in `story_kinds.py`.
"""

from __future__ import annotations

import math
from fractions import Fraction

from align_echo.dice import Dice

Draft = tuple[int | Fraction, tuple[str, ...]]
"""Answer, and its problem in several wordings."""


def span(dice: Dice, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, both included."""
    return low + dice.below(high - low + 1)


def signed(dice: Dice, low: int, high: int) -> int:
    """Draw as `span`, negative at even odds."""
    return span(dice, low, high) * dice.pick((1, -1))


def term(factor: int, name: str, *, first: bool = False) -> str:
    """Write a term of a sum, with its sign: `+ 3x`, `- x`; as the first one `3x`, `-x`. A factor of 0 is written as
    well."""
    size = "" if abs(factor) == 1 and name else str(abs(factor))
    if first:
        return f"{'-' if factor < 0 else ''}{size}{name}"
    return f" {'-' if factor < 0 else '+'} {size}{name}"


def arithmetic(dice: Dice, level: int) -> Draft:
    """Draw an expression of whole numbers with brackets and the order of operations."""
    a, b, c, d, e, f = (span(dice, 2, 9 + 8 * level) for _ in range(6))
    small, power = span(dice, 2, 9), span(dice, 2, 12)
    quotient = d * e
    text, answer = {
        1: (rf"{a} + {b} \times {small}", a + b * small),
        2: (rf"{a} \times {b} - {c} \times {d}", a * b - c * d),
        3: (rf"({a} + {b}) \times {small} - {quotient} \div {e}", (a + b) * small - d),
        4: (rf"{a} - {b} \times ({c} - {d} \times {small}) + {power}^2", a - b * (c - d * small) + power**2),
        5: (
            rf"({quotient} \div {e} - {a} \times ({b} - {c})) \times {small} + {power}^3 - {f}^2",
            (d - a * (b - c)) * small + power**3 - f**2,
        ),
    }[level]
    return answer, (f"Calculate ${text}$.", f"What is the value of ${text}$?", f"Work out ${text}$.")


def fractions(dice: Dice, level: int) -> Draft:
    """Draw sums, products and quotients of fractions; at level 5 a fraction within a fraction."""
    high = 7 + 2 * level
    below = [span(dice, 2, high) for _ in range(3)]
    a, b, c = (part(span(dice, 1, high), size) for size in below)
    integer = span(dice, 1, 9)
    x, y, z = (rf"\frac{{{n.numerator}}}{{{n.denominator}}}" for n in (a, b, c))
    inner = integer + b
    text, answer = {
        1: (f"{x} + {y}", a + b),
        2: (f"{x} + {y} - {z}", a + b - c),
        3: (rf"{x} \times {y} + {z}", a * b + c),
        4: (rf"\left({x} - {y}\right) \div {z}", (a - b) / c),
        5: (rf"{x} - \frac{{1}}{{{integer} + {y}}} \times {z}", a - c / inner),
    }[level]
    return answer, (
        f"Calculate ${text}$.",
        f"Write ${text}$ as one fraction or whole number.",
        f"What number is ${text}$?",
    )


def part(above: int, below: int) -> Fraction:
    """Make a fraction that is no whole number."""
    share = Fraction(above, below)
    return share if share.denominator > 1 else share + Fraction(1, below)


def equations(dice: Dice, level: int) -> Draft:
    """Draw an equation with one unknown; at level 5 a quadratic one, with the question for one solution."""
    name = dice.pick(("x", "y", "t", "n"))
    x, a, b, c = signed(dice, 1, 10 + 2 * level), span(dice, 2, 12), signed(dice, 1, 30), span(dice, 2, 12)
    if level == 5:
        second_root = signed(dice, 1, 15)
        second_root += 1 if second_root == x else 0
        total, product = -a * (x + second_root), a * x * second_root
        middle = term(total, name) if total else ""
        text = f"{a}{name}^2{middle}{term(product, '')} = 0"
        which, answer = dice.pick((("larger", max(x, second_root)), ("smaller", min(x, second_root))))
        return answer, (
            f"What is the {which} solution of ${text}$?",
            f"The equation ${text}$ has two solutions. Find the {which} one.",
        )
    if level == 4:
        share = Fraction(x, a + c)
        right = (a + c) * b + x
        text = f"{a}({name}{term(b, '')}) = {right - c * b}{term(-c, name)}"
        return share, (f"Solve ${text}$ for ${name}$.", f"For which number ${name}$ is ${text}$?")
    text = {
        1: f"{name}{term(b, '')} = {x + b}",
        2: f"{a}{name}{term(b, '')} = {a * x + b}",
        3: f"{a + c}{name}{term(b, '')} = {c}{name}{term(a * x + b, '')}",
    }[level]
    return x, (f"Solve ${text}$ for ${name}$.", f"For which number ${name}$ is ${text}$?", f"Find ${name}$: ${text}$.")


def systems(dice: Dice, level: int) -> Draft:
    """Draw linear equations in two unknowns, from level 4 in three; the question is for a number made of the solution.
    """
    names = dice.pick((("x", "y", "z"), ("a", "b", "c"), ("p", "q", "r")))[: 2 if level < 4 else 3]
    size = 5 + 2 * level
    while True:
        values = [signed(dice, 0, size) for _ in names]
        rows = [[signed(dice, 1, 2 if level == 1 else 2 + level) for _ in names] for _ in names]
        if level == 4:
            rows[1][0] = rows[2][0] = rows[2][1] = 0
        if determinant(rows) != 0:
            break
    lines = []
    for row in rows:
        terms = [(factor, name) for factor, name in zip(row, names, strict=True) if factor]
        left = "".join(term(factor, name, first=index == 0) for index, (factor, name) in enumerate(terms))
        lines.append(f"${left} = {sum(factor * value for factor, value in zip(row, values, strict=True))}$")
    equations_text = f"{', '.join(lines[:-1])} and {lines[-1]}"
    first, second, last = names[0], names[1], names[-1]
    wanted, answer = {
        1: (first, values[0]),
        2: (second, values[1]),
        3: (f"{first}{second}", values[0] * values[1]),
        4: (f"{first} + {second} + {last}", sum(values)),
        5: (f"{first} + 2{second} - {last}", values[0] + 2 * values[1] - values[-1]),
    }[level]
    return answer, (
        f"Given that {equations_text}, find ${wanted}$.",
        f"The numbers {', '.join(f'${name}$' for name in names)} satisfy {equations_text}. What is ${wanted}$?",
    )


def determinant(rows: list[list[int]]) -> int:
    """Compute the determinant of a square of numbers."""
    if len(rows) == 1:
        return rows[0][0]
    minors = ([row[:column] + row[column + 1 :] for row in rows[1:]] for column in range(len(rows)))
    return sum((-1) ** column * rows[0][column] * determinant(minor) for column, minor in enumerate(minors))


def sequences(dice: Dice, level: int) -> Draft:
    """Draw arithmetic and geometric sequences, their sums, and at level 5 a sequence defined by its last term."""
    start, step, count = signed(dice, 1, 20), signed(dice, 2, 12), span(dice, 8, 40)
    ratio, length = dice.pick((2, 3, 4, 5, -2, -3)), span(dice, 4, 7)
    listed = ", ".join(str(start + step * index) for index in range(4))
    powers = ", ".join(str(start * ratio**index) for index in range(3))
    if level == 1:
        return start + 4 * step, (
            f"Which number comes next in the arithmetic sequence {listed}, ...?",
            f"The sequence {listed}, ... goes on in equal steps. What is its fifth term?",
        )
    if level == 2:
        return start + (count - 1) * step, (
            f"What is term number {count} of the arithmetic sequence {listed}, ...?",
            f"The sequence {listed}, ... goes on in equal steps; {start} is term 1. Find term {count}.",
        )
    if level == 3:
        return count * start + step * count * (count - 1) // 2, (
            f"Find the sum of the first {count} terms of the arithmetic sequence {listed}, ...",
            f"The sequence {listed}, ... goes on in equal steps. What do its first {count} terms add up to?",
        )
    if level == 4:
        return start * (ratio**length - 1) // (ratio - 1), (
            f"Find the sum of the first {length} terms of the geometric sequence {powers}, ...",
            f"In {powers}, ... each term is the one before times the same number. What is the sum of {length} terms?",
        )
    value, add = start, signed(dice, 1, 9)
    for _ in range(length - 1):
        value = ratio * value + add
    rule = rf"a_{{n+1}} = {term(ratio, 'a_n', first=True)}{term(add, '')}"
    return value, (
        f"A sequence has $a_1 = {start}$ and ${rule}$. Find $a_{{{length}}}$.",
        f"Let $a_1 = {start}$, and let ${rule}$ for $n$ from 1 on. What is $a_{{{length}}}$?",
    )


def divisibility(dice: Dice, level: int) -> Draft:
    """Draw questions for common divisors and multiples, the number of divisors, and counts of multiples."""
    common, a, b, c = span(dice, 2, 15 + 5 * level), span(dice, 2, 15), span(dice, 2, 15), span(dice, 2, 15)
    x, y, z = common * a, common * b, common * c
    if level == 1:
        return math.gcd(x, y), (
            f"What is the greatest common divisor of {x} and {y}?",
            f"Find the largest whole number that divides both {x} and {y}.",
        )
    if level == 2:
        return math.lcm(x, y), (
            f"What is the least common multiple of {x} and {y}?",
            f"Find the smallest positive whole number that both {x} and {y} divide.",
        )
    if level == 3:
        number = x * b
        return sum(number % divisor == 0 for divisor in range(1, number + 1)), (
            f"How many positive divisors does {number} have?",
            f"Count the positive whole numbers that divide {number}.",
        )
    if level == 4:
        rest = span(dice, 1, min(x, y, z) - 1)
        return math.lcm(x, y, z) + rest, (
            f"What is the smallest number above {rest} that leaves a remainder of {rest} when it is divided by any of "
            f"{x}, {y} and {z}?",
            f"A number above {rest} leaves the remainder {rest} after division by {x}, by {y} and by {z}. What is the "
            "least such number?",
        )
    top = span(dice, 200, 2000)
    p, q, r = 2 + a % 6, 8 + b % 5, 13 + c % 6
    answer = sum(n % r != 0 and (n % p == 0 or n % q == 0) for n in range(1, top + 1))
    return answer, (
        f"How many whole numbers from 1 to {top} are multiples of {p} or of {q} but not of {r}?",
        f"Among 1, 2, ..., {top}, count those that {p} or {q} divides and {r} does not divide.",
    )


def modular(dice: Dice, level: int) -> Draft:
    """Draw questions for remainders: of a number, a product and a power, then inverses and two remainders at once."""
    m = span(dice, 5, 20 + 10 * level)
    a, b, k = span(dice, m + 1, 400 * level), span(dice, m + 1, 90), span(dice, 5, 60)
    if level < 4:
        text, value = {1: (f"{a}", a), 2: (rf"{a} \times {b} + {k}", a * b + k), 3: (f"{b}^{{{k}}}", b**k)}[level]
        return value % m, (
            f"What is the remainder when ${text}$ is divided by {m}?",
            f"Find the number from 0 to {m - 1} that leaves the same remainder as ${text}$ on division by {m}.",
        )
    if level == 4:
        while math.gcd(b, m) != 1 or b % m == 1:
            b += 1
        return pow(b, -1, m), (
            rf"Find the smallest positive whole number $x$ with ${b}x \equiv 1 \pmod{{{m}}}$.",
            f"By which least positive whole number must {b} be multiplied to leave the remainder 1 on division by {m}?",
        )
    n = span(dice, 5, 40)
    while math.gcd(m, n) != 1:
        n += 1
    value = a % (m * n)
    return value, (
        f"Find the smallest whole number, 0 or above, that leaves the remainder {value % m} on division by {m} and the "
        f"remainder {value % n} on division by {n}.",
        rf"What is the smallest $x \ge 0$ with $x \equiv {value % m} \pmod{{{m}}}$ and "
        rf"$x \equiv {value % n} \pmod{{{n}}}$?",
    )
