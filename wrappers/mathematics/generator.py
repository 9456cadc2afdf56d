"""Generated problems: twelve kinds, five levels, from fixed seeds, with computed answers.

A task id is `<kind>/<level>/<number>`. The number decides the split. No two problems of a kind have the same numbers
with the same answer, whatever their wording, so no training problem is in a test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from align_echo.base.dice import Dice

# ---------------------------------------------------------------- kinds of problems about numbers and equations

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


# ---------------------------------------------------------------- word problems

NAMES = ("Ada", "Bruno", "Chidi", "Dana", "Emil", "Farah", "Goro", "Hana", "Ines", "Jonas")
GOODS = ("notebooks", "mugs", "plants", "lamps", "scarves", "puzzles")
COLOURS = (("red", "blue"), ("green", "white"), ("black", "yellow"))


def combinatorics(dice: Dice, level: int) -> Draft:
    """Draw menus, choices, orders, committees, and selections with at least one member of a group."""
    n, m = span(dice, 6, 16), span(dice, 5, 14)
    k, j, people = span(dice, 2, 4), span(dice, 2, 3), span(dice, 7, 70)
    if level == 1:
        third = span(dice, 2, 9)
        return n * m * third, (
            f"A menu has {n} starters, {m} main courses and {third} desserts. How many meals of one of each are there?",
            f"A code is one of {n} letters, then one of {m} signs, then one of {third} digits. How many are there?",
        )
    if level == 2:
        return math.comb(people, k), (
            f"In how many ways can {k} of {people} players be chosen, if their order does not matter?",
            f"How many different groups of {k} can be formed from {people} people?",
        )
    if level == 3:
        return math.perm(people, k), (
            f"{people} runners start and none ties. In how many ways can the first {k} places be taken?",
            f"How many ways are there to give {k} different prizes to {k} of {people} people, one each?",
        )
    if level == 4:
        return math.comb(n, k) * math.comb(m, j), (
            f"A committee has {k} of {n} teachers and {j} of {m} parents. How many committees are possible?",
            f"From {n} novels and {m} comics, {k} novels and {j} comics are picked. How many selections are there?",
        )
    size = k + 2
    every, without = math.comb(n + m, size), math.comb(n, size)
    return every - without, (
        f"A team of {size} is chosen from {n} adults and {m} children, with at least one child. How many are possible?",
        f"In how many ways can {size} of {n + m} cards be drawn, {m} of which are marked, so that a marked one is "
        "among them? The order of drawing does not matter.",
    )


def probability(dice: Dice, level: int) -> Draft:
    """Draw questions about balls from a bag, dice, and repeated trials."""
    first, second = dice.pick(COLOURS)
    a, b = span(dice, 2, 20), span(dice, 2, 20)
    both = a + b
    if level == 1:
        return Fraction(a, both), (
            f"A bag holds {a} {first} and {b} {second} balls. One is drawn. How likely is it to be {first}?",
            f"Of the balls in a box, {a} are {first} and {b} are {second}. What is the probability of drawing a "
            f"{first} one?",
        )
    if level == 2:
        sides, faces = span(dice, 4, 20), span(dice, 4, 20)
        total = span(dice, 3, sides + faces - 1)
        ways = sum(1 <= total - face <= faces for face in range(1, sides + 1))
        return Fraction(ways, sides * faces), (
            f"A fair die with {sides} sides and one with {faces} sides, numbered from 1, are rolled. What is the "
            f"probability that the sum is {total}?",
            f"Two fair dice have the numbers 1 to {sides} and 1 to {faces}. How likely is a sum of {total}?",
        )
    if level == 3:
        return Fraction(a * (a - 1), both * (both - 1)), (
            f"Two balls are drawn, without putting one back, from {a} {first} and {b} {second} ones. What is the "
            f"probability that both are {first}?",
            f"A bag holds {a} {first} and {b} {second} balls, and two are taken out together. How likely is it that "
            f"both are {first}?",
        )
    if level == 4:
        drawn = span(dice, 2, 3)
        none = Fraction(math.comb(b, drawn), math.comb(both, drawn))
        return 1 - none, (
            f"From {a} {first} and {b} {second} balls, {drawn} are drawn without putting any back. What is the "
            f"probability that at least one is {first}?",
            f"A bag holds {a} {first} and {b} {second} balls; {drawn} are taken out together. How likely is it that a "
            f"{first} one is among them?",
        )
    times, hits = span(dice, 3, 5), span(dice, 1, 3)
    chance = Fraction(span(dice, 1, 5), span(dice, 6, 11))
    answer = math.comb(times, hits) * chance**hits * (1 - chance) ** (times - hits)
    odds = rf"$\frac{{{chance.numerator}}}{{{chance.denominator}}}$"
    return answer, (
        f"A throw hits with a probability of {odds}, independently of all others. What is the probability of exactly "
        f"{hits} hits in {times} throws?",
        f"A machine part passes a test with probability {odds}. Of {times} parts, tested one by one and independent of "
        f"each other, how likely is it that exactly {hits} pass?",
    )


def percentages(dice: Dice, level: int) -> Draft:
    """Draw parts, changes, successive changes, prices before a change, and mixtures."""
    goods, name = dice.pick(GOODS), dice.pick(NAMES)
    share, base = 5 * span(dice, 1, 17), 20 * span(dice, 3, 60)
    if level == 1:
        return Fraction(base * share, 100), (
            f"What is {share} percent of {base}?",
            f"Of {base} {goods} in a shop, {share} percent are sold. How many {goods} are that?",
        )
    if level == 2:
        return Fraction(base * (100 - share), 100), (
            f"A price of {base} euros is lowered by {share} percent. What is the new price in euros?",
            f"{name} has {base} euros and spends {share} percent of them. How many euros are left?",
        )
    second = 5 * span(dice, 1, 12)
    if level == 3:
        return Fraction(base * (100 + second) * (100 - share), 10_000), (
            f"A price of {base} euros rises by {second} percent and then falls by {share} percent. What is it then, in "
            "euros?",
            f"A tank with {base} litres gains {second} percent, and of the new amount {share} percent run out. How "
            "many litres are left?",
        )
    if level == 4:
        return base, (
            f"After a discount of {share} percent a bicycle costs {_euros(Fraction(base * (100 - share), 100))} euros. "
            "What did it cost before, in euros?",
            f"{name} spent {share} percent of some savings and has {_euros(Fraction(base * (100 - share), 100))} euros "
            "left. How many euros were there at first?",
        )
    low, high = 5 * span(dice, 1, 5), 5 * span(dice, 8, 18)
    litres = span(dice, 2, 40)
    wanted = 5 * span(dice, low // 5 + 1, high // 5 - 1)
    return Fraction(litres * (wanted - low), high - wanted), (
        f"How many litres of a {high} percent solution must be added to {litres} litres of a {low} percent solution to "
        f"get a {wanted} percent solution?",
        f"{name} has {litres} litres of juice with {low} percent fruit and wants {wanted} percent, by adding juice "
        f"with {high} percent fruit. How many litres have to be added?",
    )


def _euros(amount: Fraction) -> str:
    """Write an amount in euros, a whole number of cents."""
    return str(amount) if amount.denominator == 1 else f"{float(amount):.2f}"


def rates(dice: Dice, level: int) -> Draft:
    """Draw prices, speeds, meetings, shared work, and average speeds."""
    goods, (name, friend) = dice.pick(GOODS), dice.shuffled(NAMES)[:2]
    a, b, c = span(dice, 3, 12 + 3 * level), span(dice, 3, 12 + 3 * level), span(dice, 2, 9)
    if level == 1:
        paid = a * b + 5 * c
        return paid - a * b, (
            f"{name} buys {a} {goods} for {b} euros each and pays with {paid} euros. How many euros come back?",
            f"{a} {goods} cost {b} euros each. {name} has {paid} euros and buys them. How many euros are left?",
        )
    if level == 2:
        speed, minutes = 6 * (a + b), 10 * span(dice, 3, 25)
        return Fraction(speed * minutes, 60), (
            f"A train runs at {speed} km per hour for {minutes} minutes. How many km is that?",
            f"How many km does a car go in {minutes} minutes at a steady {speed} km per hour?",
        )
    if level == 3:
        fast, slow, km = 10 + a, 3 + b, 10 * span(dice, 2, 40)
        return Fraction(km * 60, fast + slow), (
            f"{name} and {friend} are {km} km apart and ride towards each other at {fast} and {slow} km per hour. "
            "After how many minutes do they meet?",
            f"Two boats, {km} km apart, head for each other at {fast} and {slow} km per hour. How many minutes pass "
            "until they meet?",
        )
    if level == 4:
        late = span(dice, 1, a - 1)
        rest = Fraction(a - late, a)
        return late + rest / (Fraction(1, a) + Fraction(1, b)), (
            f"{name} paints a fence in {a} hours and {friend} in {b}. {name} begins, and {friend} joins after {late} "
            "hours. How many hours after the beginning is the fence done?",
            f"One pump fills a pool in {a} hours, another in {b} hours. The first runs alone for {late} hours, then "
            "both run. After how many hours in all is the pool full?",
        )
    out, back, km = 5 * a, 5 * b, 10 * c
    rest_minutes = 6 * span(dice, 1, 10)
    hours = Fraction(km, out) + Fraction(km, back) + Fraction(rest_minutes, 60)
    return 2 * km / hours, (
        f"{name} drives {km} km at {out} km per hour, rests for {rest_minutes} minutes and drives back at {back} "
        "km per hour. What is the average speed of the whole trip, the rest included, in km per hour?",
        f"A van goes {km} km at {out} km per hour, is unloaded for {rest_minutes} minutes and returns the same "
        f"way at {back} km per hour. What is its average speed in km per hour over all of that time?",
    )


def geometry(dice: Dice, level: int) -> Draft:
    """Draw rectangles, trapeziums, right angles, areas by coordinates, and points of a grid."""
    a, b, c = span(dice, 3, 30), span(dice, 3, 30), span(dice, 2, 20)
    if level == 1:
        return 2 * (a + b), (
            f"A rectangle is {a} cm long and {b} cm wide. What is its perimeter in cm?",
            f"How many metres of fence go around a garden of {a} m by {b} m?",
        )
    if level == 2:
        return Fraction((a + b) * c, 2), (
            f"The parallel sides of a trapezium are {a} cm and {b} cm long and {c} cm apart. What is its area in "
            "square cm?",
            f"A trapezium with parallel sides of {a} and {b} has a height of {c}. Find its area.",
        )
    if level == 3:
        p, q, scale = span(dice, 2, 7), span(dice, 1, 6), span(dice, 1, 6)
        p += 1 if p == q else 0
        legs = (scale * abs(p * p - q * q), scale * 2 * p * q)
        return scale * (p * p + q * q), (
            f"The legs of a right triangle are {legs[0]} and {legs[1]} long. How long is its longest side?",
            f"A rectangle has sides of {legs[0]} and {legs[1]}. How long is its diagonal?",
        )
    corners = [(span(dice, -9, 9), span(dice, -9, 9)) for _ in range(3)]
    (x1, y1), (x2, y2), (x3, y3) = corners
    twice = abs((x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1))
    if twice == 0:
        return geometry(dice, level)
    listed = ", ".join(f"$({x}, {y})$" for x, y in corners)
    if level == 4:
        return Fraction(twice, 2), (
            f"What is the area of the triangle with the corners {listed}?",
            f"A triangle has its corners at {listed}. Find its area.",
        )
    pairs = ((corners[0], corners[1]), (corners[1], corners[2]), (corners[2], corners[0]))
    border = sum(math.gcd(x - u, y - v) for (x, y), (u, v) in pairs)
    return (twice - border + 2) // 2, (
        f"How many points with whole coordinates lie strictly inside the triangle with the corners {listed}?",
        f"A triangle has its corners at {listed}. Count the points inside it, without its border, of which both "
        "coordinates are whole.",
    )


# ---------------------------------------------------------------- generated problems

VERSION = 1
"""Version of the problems. Scores of different versions are not comparable."""

LEVELS = range(1, 6)

NUMBERS = {"test": range(10), "dev": range(10, 15), "train": range(15, 95)}
"""Numbers of each kind and level's problems, by split."""

MOST_DRAWS = 400
"""Largest number of draws for a problem unlike all before it."""

KINDS: dict[str, Callable[[Dice, int], tuple[int | Fraction, tuple[str, ...]]]] = {
    "arithmetic": arithmetic,
    "fractions": fractions,
    "equations": equations,
    "systems": systems,
    "sequences": sequences,
    "divisibility": divisibility,
    "modular": modular,
    "combinatorics": combinatorics,
    "probability": probability,
    "percentages": percentages,
    "rates": rates,
    "geometry": geometry,
}
"""Kind -> a function of dice and a level: the answer, and the problem in several wordings."""


@dataclass(frozen=True)
class MathProblem:
    """Problem, which may hold LaTeX, and its answer in LaTeX. `worked_out`: the answer has to be written as a number,
    not as a sum with that value."""

    task_id: str
    text: str
    answer: str
    kind: str
    level: str
    worked_out: bool


def task_ids(split: str) -> list[str]:
    """Return the task ids of a split in order, the kinds in turn."""
    return [f"{kind}/{level}/{number}" for number in NUMBERS[split] for level in LEVELS for kind in KINDS]


@cache
def problems(split: str) -> Mapping[str, MathProblem]:
    """Return the problems of a split by task id, in the order of `task_ids`."""
    return {
        problem.task_id: problem
        for number in NUMBERS[split]
        for level in LEVELS
        for problem in (generate_kind(kind)[level, number] for kind in KINDS)
    }


@cache
def generate_kind(kind: str) -> Mapping[tuple[int, int], MathProblem]:
    """Generate all problems of a kind, of every split, by level and number."""
    dice = Dice(f"math {VERSION} {kind}")
    seen: set[tuple[object, ...]] = set()
    generated = {}
    for number in range(max(numbers.stop for numbers in NUMBERS.values())):
        for level in LEVELS:
            answer, text = _new(kind, level, dice, seen)
            task_id = f"{kind}/{level}/{number}"
            generated[level, number] = MathProblem(task_id, text, latex(answer), kind, str(level), worked_out=True)
    return generated


def _new(kind: str, level: int, dice: Dice, seen: set[tuple[object, ...]]) -> tuple[int | Fraction, str]:
    """Draw an answer and a problem unlike those in `seen`, and add it there."""
    for _ in range(MOST_DRAWS):
        answer, wordings = KINDS[kind](dice, level)
        content = (answer, *sorted(re.findall(r"\d+", wordings[0])))
        if content not in seen:
            seen.add(content)
            return answer, dice.pick(wordings)
    raise AssertionError(f"there are too few different problems of {kind}, level {level}")


def latex(answer: int | Fraction) -> str:
    """Write a number as LaTeX."""
    if answer.denominator == 1:
        return str(answer.numerator)
    sign = "-" if answer < 0 else ""
    return rf"{sign}\frac{{{abs(answer.numerator)}}}{{{answer.denominator}}}"
