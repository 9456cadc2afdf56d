"""Decision lists from cases of a yard that nobody built: what is a rule, and what is found among many conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from align_echo.align.probe.cases import Case
from align_echo.align.probe.rules import learn
from align_echo.interface.rules.decisions import DecisionLists, DecisionRule
from align_echo.interface.rules.model import AlwaysNeeds, MissingStep, NeedsStep
from align_echo.interface.rules.situations import IsMentioned, IsNot, IsShown, OwnName, Situation
from align_echo.interface.rules.vocabulary import NUMBERED, Vocabulary, mention_of

GAUGES = [f"gauge {chr(ord('a') + number)}" for number in range(9)]
"""Views, each of which shows a crate or does not."""

VOCABULARY = Vocabulary(
    forms=("hoist {0}", "oil {0}"),
    refusals=("No.",),
    kinds={"hoist {0}": (("crate",),), "oil {0}": (("crate",),)},
    views=tuple(GAUGES),
    case=True,
    number=True,
)
OILING = MissingStep("oil {0}", (OwnName("name", 0),))


def hoisting(
    number: int,
    *,
    helps: bool = False,
    now: bool = False,
    shown: Iterable[int] = (),
    seen: str = "There is a crate 1.",
    tasks: int = 7,
) -> Case:
    """A crate that could not be hoisted, and whether oil helps, or that can be hoisted `now`; `shown` are the gauges
    that show it.
    """
    situation = Situation.begin(VOCABULARY, seen).with_views({GAUGES[gauge]: "A crate 1." for gauge in shown})
    steps = frozenset({"oil crate 1"} if helps else ())
    task, names = f"yard/{number % tasks}", ("crate 1",)
    return Case(task, (), "hoist crate 1", "hoist {0}", names, situation, steps, False, int(helps), now)


def learned(cases: Sequence[Case]) -> list[DecisionRule]:
    return learn(DecisionLists(VOCABULARY, ()), cases)


def oiling(*when: IsShown | IsMentioned) -> NeedsStep:
    return NeedsStep(form="hoist {0}", when=when, step=OILING)


@pytest.mark.parametrize(("cases", "rules"), [(40, []), (200, [oiling()])])
def test_what_fails_once_in_forty_times_is_no_rule_and_once_in_two_hundred_is(cases, rules):
    assert learned([hoisting(number, helps=number > 0) for number in range(cases)]) == rules


@pytest.mark.parametrize(("cases", "tasks", "known"), [(3, 3, False), (4, 4, True), (40, 2, False), (40, 3, True)])
def test_a_rule_helped_in_four_cases_and_three_tasks(cases, tasks, known):
    rules = learned([hoisting(number, helps=True, tasks=tasks) for number in range(cases)])
    assert rules == ([oiling()] if known else [])


@pytest.mark.parametrize(("needed", "known"), [(4, True), (5, False)])
def test_a_rule_has_four_conditions_at_most(needed, known):
    """Oil helps where so many gauges show the crate; elsewhere each of them is the one that does not."""
    lacking = [[gauge for gauge in range(needed) if gauge != number % needed] for number in range(60)]
    cases = [hoisting(number, shown=shown) for number, shown in enumerate(lacking)]
    rules = learned(cases + [hoisting(number, helps=True, shown=range(needed)) for number in range(20)])
    assert [len(rule.when) for rule in rules] == ([needed] if known else [])


@pytest.mark.parametrize(("allowed", "known"), [(11, False), (12, True)])
def test_what_held_in_twelve_cases_of_an_allowed_action_is_what_it_always_needs(allowed, known):
    """Oil helped where the gauge did not show the crate: in two tasks alone, which are too few for a rule of refusals.
    """
    cases = [hoisting(number, now=True, shown=[0]) for number in range(allowed)]
    cases += [hoisting(number, helps=True, tasks=2) for number in range(6)]
    musts = [rule for rule in learned(cases) if isinstance(rule, AlwaysNeeds)]
    assert [rule.step for rule in musts] == ([OILING] if known else [])
    assert all(rule.when == (IsNot("not", IsShown("shows", GAUGES[0], 0)),) for rule in musts)


def test_how_a_thing_is_spoken_of_is_a_condition_by_three_words_before_it():
    """Of two words alone, `see a`, both sentences have the same."""
    told = {True: "You can not see a crate 1.", False: "You can now see a crate 1."}
    cases = [hoisting(number, helps=number % 2 == 0, seen=told[number % 2 == 0]) for number in range(40)]
    assert learned(cases) == [oiling(IsMentioned("shape", 0, "not see a X"))]


def test_words_further_off_make_no_difference():
    told = ["On the quay you see a crate 1 made of wood.", "In a shed you see a crate 1 made of iron."]
    first, second = (mention_of(NUMBERED, sentence, "crate 1") for sentence in told)
    assert first == "quay you see a X made of".removeprefix("quay ") == second


def test_two_conditions_are_found_among_seven_that_look_better_each_by_itself():
    """Oil helps where the first two gauges show the crate. Each of the others shows it in four of five such cases, and
    more seldom elsewhere than the first does, or the second.
    """

    def is_shown(number: int, other: int) -> bool:
        return number % 5 != other % 5 if number < 40 else (7 * number + 17 * other) % 120 < 16

    def shown(number: int) -> list[int]:
        right = [0, 1] if number < 40 else [0] if number < 80 else [1] if number < 120 else []
        return right + [2 + other for other in range(7) if is_shown(number, other)]

    cases = [hoisting(number, helps=number < 40, shown=shown(number)) for number in range(160)]
    assert learned(cases) == [oiling(IsShown("shows", GAUGES[0], 0), IsShown("shows", GAUGES[1], 0))]
