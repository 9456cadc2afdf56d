"""What a learned interface says, case by case, on a small spec written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.align.probe.offered.runtime import (
    advise,
    asks,
    bare,
    new_history,
    place_in,
    read_text,
    slots,
    watch,
)

SPEC: dict[str, Any] = {
    "uninformative": ["Eh?"],
    "templates": ["beam {0}", "grasp {0}", "lodge {0} on {1}", "rest", "stroll {0}"],
    "always": ["beam {0}", "grasp {0}", "lodge {0} on {1}", "rest", "stroll {0}"],
    "sure": [],
    "forms": {"grasp {0} off {1}": "grasp {0}", "stick {0} on {1}": "lodge {0} on {1}"},
    "views": ["peer", "pockets"],
    "places": ["attic", "north attic", "roof"],
    "travel": "beam {0}",
    "movers": ["beam {0}", "stroll {0}"],
    "names": ["lamp", "tin", "stool", "map"],
    "bare": True,
    "before": ["", "a", "brass", "paper", "the"],
    "after": [""],
}


@pytest.fixture
def history() -> dict[str, Any]:
    """A lamp was seen in the north attic; now on the roof with a stool and a paper map, a tin in the pocket."""
    found = new_history()
    watch(SPEC, found, ["You stand in the north attic. A brass lamp. A way to the roof.", "You have a tin."])
    watch(SPEC, found, ["You stand on the roof. A stool. A paper map. A way to the north attic.", "You have a tin."])
    return found


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("grasp stool off roof", "`grasp stool off roof` is not understood; write `grasp stool` instead."),
        ("stick tin on stool", "`stick tin on stool` is not understood; write `lodge tin on stool` instead."),
        ("grasp lamp", "`grasp lamp` does not work yet: you need to `beam north attic` first."),
        ("lodge tin on lamp", "`lodge tin on lamp` does not work yet: you need to `beam north attic` first."),
        ("grasp the stool over there", 'Words around a name are not understood: here "stool" must stand alone.'),
        ("grasp paper map", 'Words around a name are not understood: here "map" must stand alone.'),
        (
            "lodge the tin on the stool",
            'Words around a name are not understood: here "tin" and "stool" must stand alone.',
        ),
        ("stick the tin on stool", "`stick the tin on stool` is not understood; write `lodge tin on stool` instead."),
        ("stroll north attic", "`stroll north attic` is not possible from here; write `beam north attic` instead."),
        ("grasp teapot", "Nothing called `teapot` was seen so far."),
        ("rest a while", "`rest a while` is not understood; write `rest` instead."),
        ("grasp stool", ""),
    ],
)
def test_a_refusal_is_explained(history: dict[str, Any], action: str, said: str):
    assert advise(SPEC, history, action) == said


def test_a_verb_of_no_form_gets_all_forms(history: dict[str, Any]):
    assert advise(SPEC, history, "juggle tin") == (
        "The environment knows these forms: `beam X`, `grasp X`, `lodge X on Y`, `rest`, `stroll X`."
    )


def test_of_a_form_that_some_tasks_lack_nothing_else_is_said(history: dict[str, Any]):
    spec = {**SPEC, "always": ["beam {0}", "grasp {0}", "rest", "stroll {0}"]}
    some = "Some tasks understand `lodge X on Y`, not all."
    for action in ("lodge the tin on the stool", "lodge tin on lamp", "stick tin on stool", "lodge"):
        assert advise(SPEC, history, action) != some
        assert advise(spec, history, action) == some
    assert advise(spec, history, "lodge teapot on stool") == "Nothing called `teapot` was seen so far."
    assert advise(spec, history, "juggle tin").endswith("forms: `beam X`, `grasp X`, `rest`, `stroll X`.")


def test_a_form_that_takes_whatever_is_in_sight_is_promised_with_it(history: dict[str, Any]):
    spec = {**SPEC, "sure": ["grasp {0}"]}
    said = "grasp the stool over there"
    assert advise(spec, history, said) == f"`{said}` is not understood; write `grasp stool` instead."
    away = advise(spec, history, "grasp the lamp over there")
    assert "`beam north attic` first" in away
    assert "alone" in away
    assert "write" not in away


def test_case_and_spaces_do_not_matter(history: dict[str, Any]):
    assert advise(SPEC, history, " Grasp  LAMP ") == advise(SPEC, history, "grasp lamp")


def test_the_longer_of_two_places_named_at_one_spot_counts():
    assert place_in(SPEC, "You stand in the north attic. A way to the roof.") == "north attic"
    assert place_in(SPEC, "A shed.") == ""


def test_a_thing_seen_again_elsewhere_is_looked_for_where_it_was_seen_last(history: dict[str, Any]):
    watch(SPEC, history, ["You stand in the north attic. Dust.", "You have a tin."])
    assert advise(SPEC, history, "grasp stool") == (
        "`grasp stool` does not work yet: you need to `beam roof` first."
    )
    assert advise(SPEC, history, "grasp lamp") == ""


def test_what_any_text_named_is_not_called_unseen():
    found = new_history("A roof. Bring the teapot here.")
    watch(SPEC, found, ["You stand on the roof. A stool.", "You have a tin."])
    read_text(found, "A clock ticks somewhere.")
    assert advise(SPEC, found, "grasp teapot") == advise(SPEC, found, "grasp clock") == ""
    assert advise(SPEC, found, "grasp unicorn") == "Nothing called `unicorn` was seen so far."


def test_of_things_in_two_places_none_is_fetched(history: dict[str, Any]):
    assert advise(SPEC, history, "lodge stool on lamp") == "`lamp` is not here; it was last seen at north attic."
    assert advise(SPEC, history, "lodge lamp on stool") == "`lamp` is not here; it was last seen at north attic."
    watch(SPEC, history, ["You stand in the attic. Dust.", "You have a tin."])
    assert advise(SPEC, history, "lodge stool on lamp") == "`stool` is not here; it was last seen at roof."
    assert "first" in advise(SPEC, history, "lodge tin on lamp")


def test_without_a_way_of_travelling_the_place_is_told(history: dict[str, Any]):
    spec = {**SPEC, "travel": "", "movers": []}
    assert advise(spec, history, "grasp lamp") == "`lamp` is not here; it was last seen at north attic."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which one?\n0:\tlift the lamp\n1:\tlift the lid\n", True),
        ("Choose:\n 1. the lamp\n 2. the lid", True),
        ("2) the lid", True),
        ("You lift the lamp.", False),
        ("It shows 12:30.\nA lamp 1.", False),
        ("", False),
    ],
)
def test_numbered_choices_wait_for_an_answer(text: str, expected: bool):
    assert asks(text) is expected


def test_words_that_the_engine_never_took_for_a_name_stand_in_for_none(history: dict[str, Any]):
    assert bare({**SPEC, "names": []}, history, "the paper map over there") == ""


@pytest.mark.parametrize("action", ["grasp wilted flower", "grasp pot 1 over there", "grasp flower off roof"])
def test_a_part_of_a_longer_name_is_not_offered_as_a_name(action: str):
    spec = {**SPEC, "names": ["flower", "flower pot 1", "pot 1"]}
    found = new_history()
    watch(spec, found, ["You stand on the roof. A flower pot 1. A map.", "You have a tin."])
    assert advise(spec, found, action).count("alone") == advise(spec, found, action).count("write") == 0
    watch(spec, found, ["You stand on the roof. A flower pot 1. A flower.", "You have a tin."])
    hint = advise(spec, found, action)
    assert "pot" in action or '"flower" must stand alone' in hint or "write `grasp flower`" in hint


@pytest.mark.parametrize("action", ["grasp the roof", "lodge tin on attic", "beam stool", "beam the stool"])
def test_of_places_as_things_and_of_things_as_places_nothing_is_said(history: dict[str, Any], action: str):
    assert advise(SPEC, history, action) == ""


@given(st.text(max_size=60))
def test_any_text_gets_some_answer(action: str):
    found = new_history()
    watch(SPEC, found, ["You stand on the roof. A stool.", "You have a tin."])
    assert isinstance(advise(SPEC, found, action), str)


@given(st.text("abc ", min_size=1, max_size=10), st.text("abc ", min_size=1, max_size=10))
def test_what_fills_a_template_is_found_again(one: str, other: str):
    if one.strip() and other.strip():
        assert slots("lodge {0} on {1}", f"lodge {one} on {other}") == [one.strip(), other.strip()]
    assert slots("lodge {0} on {1}", f"lodge {one}") is None
