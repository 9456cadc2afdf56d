"""Rules about pages as data: what a form takes of a page, what is near, and data that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from align_echo.errors import InterfaceError
from align_echo.interface.rules.model import load_rules
from align_echo.interface.rules.page_guide import PageGuide
from align_echo.interface.rules.pages import PageOffers, likeness
from align_echo.interface.rules.runtime import RuleRuntime

PAGES: dict[str, Any] = {
    "breaks": [" / "],
    "frame": ["home", "up"],
    "free": {"seek: {0}": ["home"]},
    "closed": {
        "tap <{0}>": {
            "sure": ["home", "up"],
            "regions": {"home || home || ": {"open": "all", "but": ["after price"]}, "home | up || up || ": {}},
        }
    },
}
STEP = {"kind": "needs_page", "form": "tap <{0}>", "page": "home | up", "name": "Order", "step": "Up", "text": "t"}


def guide(**changes: Any) -> PageGuide:
    rules = load_rules({"pages": {**PAGES, **changes}, "rules": [STEP]})
    assert rules.pages is not None
    return PageGuide(rules.pages, rules.rules)


@pytest.mark.parametrize(
    ("page", "action", "said"),
    [
        ("Home / red tea", "tap <tea>", "`tap <tea>` is not understood; write `tap <red tea>` instead."),
        ("Home / price / nine", "tap <nine>", "The page is as it was. `tap <X>` takes here: Home | price."),
        ("Home / Up / tea", "tap <Order>", "`tap <Order>` does not work yet: you need to `tap <Up>` first."),
        ("Home / tea", "seek tea", "`seek tea` is not understood; write `seek: tea` instead."),
        ("Home / tea", "tap <tea>", ""),
    ],
)
def test_what_is_near_is_named(page: str, action: str, said: str):
    told = guide().advise(page, action).text
    assert told.startswith(said) if said else not told


def test_a_name_that_was_said_itself_goes_before_the_name_beside_its_like():
    rule = {"kind": "named_beside", "form": "tap <{0}>", "shift": -2, "regions": ["home || home || "], "text": "t"}
    rules = load_rules({"pages": PAGES, "rules": [rule]})
    assert rules.pages is not None
    beside = PageGuide(rules.pages, rules.rules)
    page = "Home / green tea / K-1 / price / green tea"
    assert beside.advise(page, "tap <green>").step == "tap <K-1>" != beside.advise(page, "tap <Green Tea>").step
    assert beside.advise(page, "tap <Green Tea>").step == "tap <green tea>"


def test_a_message_has_room_for_short_names_and_for_some():
    long = "tea " * 60
    assert guide().advise(f"Home / {long} / milk", "tap <zebra>").text == (
        "The page is as it was. `tap <X>` takes here, among others: Home | milk. `seek: X` takes any words."
    )
    many = " / ".join(f"{number} {'tea ' * 45}" for number in range(200))
    assert 1_000 < len(guide().advise(f"Home / {many}", "tap <zebra>").text) < 2_500
    assert len(guide().advise("Home / milk", f"seek {'tea ' * 900}").text) < 200


def test_messages_are_templates():
    assert guide(say="Better: {step}").advise("Home / red tea", "tap <tea>").text == "Better: tap <red tea>"


def test_only_a_page_that_stays_is_spoken_about():
    runtime = RuleRuntime(load_rules({"pages": PAGES}), "Home / red tea")
    assert "write `tap <red tea>`" in runtime.advise(runtime.hear("tap <tea>", "Home / red tea")).text
    assert runtime.advise(runtime.hear("tap <tea>", "Home / Up / tea")).text == ""


@pytest.mark.parametrize("pages", [{"breaks": [""]}, {"frame": ["x"] * 101}, {"closed": {"a": 1}}, {"free": 3}])
def test_data_that_cannot_be_played_is_refused_in_one_line(pages: Any):
    with pytest.raises(InterfaceError, match=r"^RULES: [^\n]+$"):
        load_rules({"pages": pages})


def test_a_page_of_very_many_parts_and_a_long_action_take_no_time():
    offers = PageOffers.model_validate({**PAGES, "breaks": [" "]})
    page = offers.read("tea " * 5_000)
    assert len(page.parts) == len(page.regions) == 300
    assert guide().advise("Home / " + "ab" * 9_000, "tap <" + "abc" * 1_300 + ">").text
    assert likeness("ab" * 9_000, "abc" * 9_000) < 1
