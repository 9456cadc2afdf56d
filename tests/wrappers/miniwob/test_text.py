"""A page as text, a text as keys, and the way of a drag. Needs no browser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from align_echo.wrappers.gui.actions import Point, TypeAction, parse
from align_echo.wrappers.miniwob.page import (
    DRAG_STEPS,
    LONGEST_TEXT,
    MOST_ELEMENTS,
    PageElement,
    PageState,
    ScreenLine,
    between,
    key_events,
    line,
    listing,
    plain,
    read_screen,
)
from align_echo.wrappers.text_env import TEXT_CHARACTERS


def element(text: str | None = "Submit", **changes: object) -> PageElement:
    given = {"kind": "button", "name": "", "color": "", "states": (), "center": Point(45, 77), "size": (60, 22)}
    return PageElement(**{**given, "text": text, **changes})  # type: ignore[arg-type]


def test_an_element_is_one_line_with_what_there_is_to_say():
    assert line(element()) == 'button "Submit" (45, 77) 60x22'
    seen = element("", kind="input text", states=("focused", 'hint "From:"'))
    assert line(seen) == 'input text "" focused hint "From:" (45, 77) 60x22'
    assert line(element(None, kind="span", name=".trash", color="#ff0000")) == "span .trash #ff0000 (45, 77) 60x22"


def test_a_screen_has_at_most_so_many_lines_of_at_most_so_many_characters():
    look = PageState(tuple(element("long " * 1000) for _ in range(MOST_ELEMENTS + 7)), False, 0.0)
    lines = listing(look).splitlines()
    assert (len(lines), lines[-1]) == (MOST_ELEMENTS + 2, "... and 7 more")
    assert max(map(len, lines)) < LONGEST_TEXT + 60


def test_a_screen_is_read_back_also_with_words_around_it():
    label = element("a1", kind="label", center=Point(20, 60), size=(30, 13))
    seen = listing(PageState((label, element("", kind="input", name="checkbox")), False, 0.0))
    things = read_screen(f"Refused: not an action.\n{seen}\nTry `click(20, 60)`.")
    assert things == [
        ScreenLine("label", "a1", "", Point(20, 60), 30, 13),
        ScreenLine("input", "", "checkbox", Point(45, 77), 60, 22),
    ]
    assert read_screen('span "say \\"é (1, 2) 3x4\\"" .x covered (5, 6) 7x8')[0] == ScreenLine(
        "span", 'say "é (1, 2) 3x4"', ".x covered", Point(5, 6), 7, 8
    )
    assert read_screen("The task has ended.") == read_screen('a "b (1, 2) 3x4') == []


@given(st.text(max_size=LONGEST_TEXT))
def test_what_an_element_says_is_read_back_whatever_it_is(text):
    (read,) = read_screen(line(element(text)))
    assert (read.text, read.center, (read.width, read.height)) == (text, Point(45, 77), (60, 22))


@given(st.text(), st.text(), st.text())
def test_any_page_is_text_of_the_observation_space(text, name, state):
    seen = listing(PageState((element(text, name=name, states=(state,)),), False, 0.0))
    assert set(seen) <= set(TEXT_CHARACTERS)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_what_a_line_shows_can_be_typed_as_it_stands(text):
    shown = line(element(text)).removeprefix("button ").removesuffix(" (45, 77) 60x22")
    assert parse(f"type({shown})") == TypeAction(text)


@given(st.text(alphabet=TEXT_CHARACTERS))
def test_a_goal_in_printable_characters_stays_as_it_is(text):
    assert plain(text) == text


@given(st.text())
def test_every_character_is_a_key_that_goes_down_and_up_or_is_inserted(text):
    events = list(key_events(text))
    inserted = [event["text"] for name, event in events if name == "Input.insertText"]
    down = [event for _, event in events if event.get("type") in ("keyDown", "rawKeyDown")]
    up = [event for _, event in events if event.get("type") == "keyUp"]
    assert len(inserted) + len(down) == len(text)
    assert [event["key"] for event in down] == [event["key"] for event in up]
    assert not any(" " <= character <= "~" for character in inserted)


def test_keys_have_the_codes_of_a_us_keyboard():
    codes = [event["windowsVirtualKeyCode"] for _, event in key_events("aZ5%-_\n\b") if event["type"] != "keyUp"]
    assert codes == [65, 90, 53, 53, 189, 189, 13, 8]
    shifted = [event["modifiers"] for _, event in key_events("aZ5%-_") if event["type"] != "keyUp"]
    assert shifted == [0, 8, 0, 8, 0, 8]


@given(*[st.builds(Point, st.integers(0, 159), st.integers(0, 209))] * 2)
def test_a_drag_ends_where_it_should_and_goes_straight(start, end):
    way = between(start, end)
    assert way[-1] == end
    assert len(way) <= DRAG_STEPS
    for point in way:
        assert min(start.x, end.x) <= point.x <= max(start.x, end.x)
        assert min(start.y, end.y) <= point.y <= max(start.y, end.y)
