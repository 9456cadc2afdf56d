"""What is a name is told from what an engine lists, in whatever words and spelling."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.align.probe.cases import general
from align_echo.align.probe.names import find_names, is_numbered, learn_names, skeleton
from align_echo.interface.rules.actions import build_name_pattern
from align_echo.interface.rules.vocabulary import name_pattern

THINGS = ("lamp", "red lamp", "coat hanger", "K-17", "Old Map", "ball of wool")
HOLDERS = ("chest", "oak chest", "shelf")
LISTED = (
    *(f"grab {thing}" for thing in THINGS),
    *(f"stow {thing} with {holder}" for thing, holder in product(THINGS, HOLDERS)),
    *(f"unlock {holder}" for holder in HOLDERS),
    *(f"unlock gate to {way}" for way in ("north", "south", "west")),
    *(f"stroll {way}" for way in ("north", "south", "west", "east")),
    *(f"hop onto {holder}" for holder in HOLDERS),
    *("wait", "turn right round"),
)


def forms(actions, pattern: str) -> set[str]:
    return {skeleton(action, pattern)[0] for action in actions}


def learned_pattern(actions, texts=()) -> str:
    return name_pattern(learn_names(actions, texts))


def test_names_of_any_spelling_are_told_from_the_words_around_them():
    assert find_names(LISTED) == {*THINGS, *HOLDERS, "north", "south", "west", "east"}
    assert forms(LISTED, learned_pattern(LISTED)) == {
        *("grab {0}", "stow {0} with {1}", "unlock {0}", "unlock gate to {0}", "stroll {0}", "hop onto {0}"),
        *("wait", "turn right round"),
    }


def test_an_action_without_words_has_no_name():
    assert find_names(["", " ", "wait"]) == set()


def test_the_longest_name_is_found_and_only_whole_words():
    pattern = build_name_pattern(["lamp", "red lamp", "oak"])
    assert re.findall(pattern, "a red lamp, lamps and a lamp of oak; soak it") == ["red lamp", "lamp", "oak"]
    assert re.findall(build_name_pattern([]), "a lamp") == []


def test_a_number_in_a_name_may_be_another_number():
    assert re.fullmatch(build_name_pattern(["12l of oak"]), "7l of oak")
    assert not re.fullmatch(build_name_pattern(["12l of oak"]), "l of oak")


def test_names_with_numbers_at_their_end_are_known_as_before():
    listed = [f"board pod {number}" for number in range(9)] + ["scan", *(f"fetch gem {number}" for number in range(9))]
    assert is_numbered(listed)
    assert learn_names(listed) is None
    counted = [f"grab {number} {fruit}" for number in range(9) for fruit in ("figs", "pears", "plums")]
    assert not is_numbered([*counted, *(f"stow {action[5:]} with chest" for action in counted)])


@pytest.mark.long
@given(st.sets(st.from_regex(r"[a-z]{2,6}( [a-z]{2,6}){0,2}", fullmatch=True), min_size=4, max_size=12))
def test_made_up_names_behind_a_first_word_are_names(names):
    pattern = learned_pattern([f"Seize {name}" for name in names])
    assert {skeleton(f"Seize {name}", pattern) for name in names} == {("Seize {0}", (name,)) for name in names}


@pytest.mark.parametrize(
    ("templates", "left"),
    [
        (["stow {0} with {1}", "stow wool with {0}", "stow {0} with tub"], ["stow {0} with {1}"]),
        (["grab {0}", "grab {0} off {1}", "grab it"], ["grab {0}", "grab {0} off {1}"]),
        (["wait", "grab {0}"], ["grab {0}", "wait"]),
    ],
)
def test_a_form_with_a_name_in_it_is_no_form_of_its_own(templates, left):
    assert general(templates) == left


def test_two_names_in_a_row_are_two_though_several_forms_have_the_same_row():
    things = ["brass key", "oak lid", "tin cup", "red hat", "blue coat"]
    holders = ["crate", "tall box", "wide bin", "chest"]
    rows = [f"{thing} {holder}" for thing in things for holder in holders]
    listed = {f"{verb} {row}" for verb in ("stow", "fetch") for row in rows}
    listed |= {f"open {holder}" for holder in holders} | {f"clean {thing}" for thing in things[:3]}
    assert find_names(listed) == {*things, *holders}


KEYS = ("brass key", "iron key", "old tin key", "silk hat", "felt hat", "straw hat")
BINS = ("tall bin", "wide old bin", "oak crate")


def test_the_last_word_of_many_names_joins_none():
    with_a_word_between = {f"stow {key} upon {place}" for key in KEYS for place in BINS[:2]}
    assert find_names(with_a_word_between) == {*KEYS, *BINS[:2]}
    in_a_row = {f"stow {key} {place}" for key in KEYS for place in BINS}
    assert find_names({*in_a_row, *(f"open {place}" for place in BINS)}) == {*KEYS, *BINS}


def test_two_words_that_join_the_same_names_both_do():
    inside, on_top = ({f"stow {key} {way} {place}" for key in KEYS for place in BINS} for way in ("inside", "upon"))
    others = {f"lift {key}" for key in KEYS} | {f"open {place}" for place in BINS}
    assert {*KEYS, *BINS} <= find_names({*inside, *on_top, *others})


def test_names_behind_words_of_their_form_tell_names_in_a_row_of_a_form_that_comes_before():
    in_a_row = {f"bring {key} {place}" for key in KEYS for place in BINS}
    assert find_names({*in_a_row, *(f"hop onto {place}" for place in BINS)}) == {*KEYS, *BINS}


# ---------------------------------------------------------------- told apart by what is printed

LAMPS = ("lamp", "red lamp", "coat hanger", "Old Map", "ball of wool", "tin cup")
CRATES = ("crate", "oak chest", "shelf", "tall bin", "wide old bin")
PRINTED = [f"You hold the {lamp}. The {crate} is open: nothing." for lamp, crate in product(LAMPS, CRATES)]
IN_A_ROW = [f"{verb} {lamp} {crate}" for verb in ("stow", "fetch") for lamp, crate in product(LAMPS, CRATES)]
SHAPES = ("cup", "mug", "jar", "pot", "vat")
COLOURED = [f"{colour} {shape}" for colour in ("red", "blue", "pink", "grey", "dark") for shape in SHAPES]


def test_two_names_that_stand_alone_in_no_action_are_told_apart_by_what_is_printed():
    echoes = [f"> {action}" for action in IN_A_ROW]
    assert find_names(IN_A_ROW, [*PRINTED, *echoes]) == {*LAMPS, *CRATES}


def test_one_name_of_two_words_is_printed_as_it_stands_in_actions():
    listed = [f"{verb} {name}" for verb in ("lift", "drop") for name in COLOURED]
    apart = [f"Nothing is {name.replace(' ', ' but a ')}." for name in COLOURED]
    assert find_names(listed, [*apart, *(f"A {name} is here." for name in COLOURED)]) == {*COLOURED}


def test_the_last_word_of_many_printed_names_joins_none_and_is_no_name():
    boxes = [f"{wood} {box}" for wood in ("oak", "elm", "fir") for box in ("box", "bin", "tub")]
    listed = [f"{verb} {name} {box}" for verb in ("stow", "fetch") for name, box in product(COLOURED, boxes)]
    assert find_names(listed, [f"In the {box}: {name}, nothing else." for name, box in product(COLOURED, boxes)]) == {
        *COLOURED,
        *boxes,
    }


def test_a_word_between_printed_names_belongs_to_the_form():
    listed = [f"stow {lamp} with {crate}" for lamp, crate in product(LAMPS, CRATES)]
    pattern = learned_pattern(listed, [*PRINTED, *(f"Come with {crate}." for crate in CRATES)])
    assert forms(listed, pattern) == {"stow {0} with {1}"}


def test_of_two_words_that_may_join_names_one_does_whose_names_are_printed():
    boxes = ("oak box", "old tin box", "elm box")
    listed = [f"stow {box} with {lamp}" for box, lamp in product(boxes, LAMPS)]
    printed = [f"The {box} holds a {lamp}." for box, lamp in product(boxes, LAMPS)]
    assert find_names(listed, printed) == {*boxes, *LAMPS}


def test_where_nothing_is_printed_rows_of_each_word_with_each_are_two_names():
    listed = [f"{verb} {name}" for verb in ("lift", "drop") for name in COLOURED]
    assert forms(listed, learned_pattern(listed)) == {"lift {0} {1}", "drop {0} {1}"}
    some = [action for number, action in enumerate(listed) if number % 3]
    assert forms(some, learned_pattern(some)) == {"lift {0}", "drop {0}"}


def test_an_endless_action_that_an_agent_said_is_no_name():
    endless = [f"stow {word * 1000} here" for word in ("so", "on")]
    names = find_names([*IN_A_ROW, *endless], [*PRINTED, *endless])
    assert {*LAMPS, *CRATES} <= names
    assert forms(["stow lamp crate"], build_name_pattern(names)) == {"stow {0} {1}"}
