"""Word problems: counts, chances, percentages, rates, shapes; otherwise as in `number_kinds.py`."""

from __future__ import annotations

import math
from fractions import Fraction

from align_echo.dice import Dice
from align_echo.wrappers.mathematics.number_kinds import Draft, span

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
