"""What rules about places say, case by case, on a small rule set written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import InterfaceError
from align_echo.interface.rules.model import InSight, Rule, RuleSet, dump, load_rules, misworded
from align_echo.interface.rules.place_guide import PlaceGuide
from align_echo.interface.rules.places import Surroundings, asks, match_names
from align_echo.interface.rules.runtime import RuleRuntime

PLACES = Surroundings(
    refusals=("Eh?",),
    always=("beam {0}", "grasp {0}", "lodge {0} on {1}", "rest", "stroll {0}"),
    views=("peer", "pockets"),
    places=("attic", "north attic", "roof"),
    movers=("beam {0}", "stroll {0}"),
    names=("lamp", "tin", "stool", "map"),
    before=("", "a", "brass", "paper", "the"),
    after=("",),
)
RULES: list[Any] = [
    misworded("grasp {0} off {1}", "grasp {0}").model_dump(),
    misworded("stick {0} on {1}", "lodge {0} on {1}").model_dump(),
    {"kind": "elsewhere", "form": "beam {0}", "text": "first"},
    {"kind": "bare_names", "text": "bare"},
]
NORTH, ROOF = (
    "You stand in the north attic. A brass lamp. A way to the roof.",
    "You stand on the roof. A stool. A paper map. A way to the north attic.",
)


def make_guide(*views: str, rules: list[Any] = RULES, text: str = "", **changes: Any) -> PlaceGuide:
    """Return a guide that has seen these views in order, with a tin in the pocket."""
    ruleset = load_rules({"places": PLACES.model_dump() | changes, "rules": rules})
    assert ruleset.places is not None
    guide = PlaceGuide(ruleset.places, ruleset, text)
    for view in views:
        guide.sight.watch([view, "You have a tin."])
    return guide


def advise(action: str, *views: str, **changes: Any) -> str:
    """Return the advice after a lamp was seen in the north attic; now on the roof with a stool and a paper map."""
    return make_guide(NORTH, ROOF, *views, **changes).explain(action).text


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
def test_a_refusal_is_explained(action: str, said: str):
    assert advise(action) == said


def test_a_verb_of_no_form_gets_all_forms():
    assert advise("juggle tin") == (
        "The environment knows these forms: `beam X`, `grasp X`, `lodge X on Y`, `rest`, `stroll X`."
    )


def test_of_a_form_that_some_tasks_lack_nothing_else_is_said():
    forms = {"always": ("beam {0}", "grasp {0}", "rest", "stroll {0}"), "sometimes": ("lodge {0} on {1}",)}
    some = "Some tasks understand `lodge X on Y`, not all."
    for action in ("lodge the tin on the stool", "lodge tin on lamp", "stick tin on stool", "lodge"):
        assert advise(action) != some
        assert advise(action, **forms) == some
    assert advise("lodge teapot on stool", **forms) == "Nothing called `teapot` was seen so far."
    assert advise("juggle tin", **forms).endswith("forms: `beam X`, `grasp X`, `rest`, `stroll X`.")


def test_a_form_that_takes_whatever_is_in_sight_is_promised_with_it():
    rules = [*RULES, InSight(forms=("grasp {0}",), text="t").model_dump()]
    said = "grasp the stool over there"
    assert advise(said, rules=rules) == f"`{said}` is not understood; write `grasp stool` instead."
    away = advise("grasp the lamp over there", rules=rules)
    assert "`beam north attic` first" in away
    assert "alone" in away
    assert "write" not in away


def test_case_and_spaces_do_not_matter():
    assert advise(" Grasp  LAMP ") == advise("grasp lamp")


def test_the_longer_of_two_places_named_at_one_spot_counts():
    assert PLACES.place_in("You stand in the north attic. A way to the roof.") == "north attic"
    assert PLACES.place_in("A shed.") == ""


def test_a_thing_seen_again_elsewhere_is_looked_for_where_it_was_seen_last():
    dust = "You stand in the north attic. Dust."
    assert advise("grasp stool", dust) == (
        "`grasp stool` does not work yet: you need to `beam roof` first."
    )
    assert advise("grasp lamp", dust) == ""


def test_what_any_text_named_is_not_called_unseen():
    guide = make_guide("You stand on the roof. A stool.", text="A roof. Bring the teapot here.")
    guide.hear("wait", "A clock ticks somewhere.")
    assert guide.explain("grasp teapot").text == guide.explain("grasp clock").text == ""
    assert guide.explain("grasp unicorn").text == "Nothing called `unicorn` was seen so far."


def test_of_things_in_two_places_none_is_fetched():
    assert advise("lodge stool on lamp") == "`lamp` is not here; it was last seen at north attic."
    assert advise("lodge lamp on stool") == "`lamp` is not here; it was last seen at north attic."
    dust = "You stand in the attic. Dust."
    assert advise("lodge stool on lamp", dust) == "`stool` is not here; it was last seen at roof."
    assert "first" in advise("lodge tin on lamp", dust)


def test_without_a_way_of_travelling_the_place_is_told():
    rules = [rule for rule in RULES if rule["kind"] != "elsewhere"]
    assert advise("grasp lamp", rules=rules, movers=()) == "`lamp` is not here; it was last seen at north attic."


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


def test_words_that_the_engine_never_took_for_a_name_stand_in_for_none():
    assert make_guide(NORTH, ROOF, names=()).shorten("the paper map over there") == "the paper map over there"


@pytest.mark.parametrize("action", ["grasp wilted flower", "grasp pot 1 over there", "grasp flower off roof"])
def test_a_part_of_a_longer_name_is_not_offered_as_a_name(action: str):
    names = ("flower", "flower pot 1", "pot 1")
    hint = make_guide("You stand on the roof. A flower pot 1. A map.", names=names).explain(action).text
    assert hint.count("alone") == hint.count("write") == 0
    hint = make_guide("You stand on the roof. A flower pot 1. A flower.", names=names).explain(action).text
    assert "pot" in action or '"flower" must stand alone' in hint or "write `grasp flower`" in hint


@pytest.mark.parametrize("action", ["grasp the roof", "lodge tin on attic", "beam stool", "beam the stool"])
def test_of_places_as_things_and_of_things_as_places_nothing_is_said(action: str):
    assert advise(action) == ""


@given(st.text(max_size=60))
def test_any_text_gets_some_answer(action: str):
    assert isinstance(advise(action), str)


@given(st.text("abc ", min_size=1, max_size=10), st.text("abc ", min_size=1, max_size=10))
def test_what_fills_a_template_is_found_again(one: str, other: str):
    if one.strip() and other.strip():
        assert match_names("lodge {0} on {1}", f"lodge {one} on {other}") == [one.strip(), other.strip()]
    assert match_names("lodge {0} on {1}", f"lodge {one}") is None


def play(runtime: RuleRuntime, action: str, answer: str, *shown: str) -> str:
    """Play a turn as a host does; the views show these texts."""
    turn = runtime.hear(action, answer)
    runtime.look(dict(zip(runtime.views(), shown, strict=True)))
    return runtime.advise(turn).text


def rule_set(**changes: Any) -> RuleSet:
    return load_rules({"places": PLACES.model_dump() | changes, "rules": RULES})


def test_views_are_played_where_something_may_have_changed():
    runtime = RuleRuntime(rule_set(), "You wake up.")
    assert "Nothing called `lamp`" in play(runtime, "grasp lamp", "Eh?", ROOF, "You have a tin.")
    assert "Nothing called `lamp`" in play(runtime, "grasp lamp", "Eh?")
    assert play(runtime, "beam attic", "You go.", NORTH, "You have a tin.") == ""
    assert play(runtime, "grasp", "Which one?\n1: the lamp\n2: the lid") == ""
    assert play(runtime, "7", "Eh?") != ""
    assert play(runtime, "1", "Taken.", ROOF, "You have a lamp.") == ""
    assert play(runtime, "grasp the lamp", "Eh?") == (
        'Words around a name are not understood: here "lamp" must stand alone.'
    )


def test_the_first_view_is_read_off_the_opening_where_an_episode_begins_with_it():
    for opening in (True, False):
        runtime = RuleRuntime(rule_set(opening=opening), NORTH)
        assert play(runtime, "beam roof", "You go.", ROOF, "You have a tin.") == ""
        assert ("`beam north attic` first" in play(runtime, "grasp lamp", "Eh?")) == opening


def test_a_task_that_refuses_the_way_to_a_place_is_not_told_of_it_again():
    guide = make_guide(NORTH, ROOF)
    assert "`beam north attic` first" in guide.explain("grasp lamp").text
    guide.hear("beam north attic", "Eh?")
    assert guide.explain("grasp lamp").text == "`lamp` is not here; it was last seen at north attic."
    assert guide.explain("stroll north attic").text == ""
    assert guide.explain("beam north attic").text == "Some tasks understand `beam X`, not all."
    assert "beam" not in guide.explain("juggle tin").text


def test_messages_and_rules_are_data():
    rules: list[Rule] = [misworded("hold {0} at {1}", "grasp {1}")]
    ruleset = RuleSet(places=PLACES, rules=tuple(rules))
    assert load_rules(dump(ruleset)) == ruleset
    assert PlaceGuide(PLACES, ruleset).reading("hold {0} at {1}") == "grasp {1}"
    assert advise("grasp teapot", say_unseen="No {name}!") == "No teapot!"


@pytest.mark.parametrize(
    "changes", [{"always": ["{0} {1} {2} {3}"]}, {"views": ["v"] * 5}, {"places": ["x"] * 201}, {"refusals": 3}]
)
def test_data_that_cannot_be_played_is_refused_in_one_line(changes: Any):
    with pytest.raises(InterfaceError, match=r"^RULES: [^\n]+$"):
        rule_set(**changes)
