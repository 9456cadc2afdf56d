"""Actions on a screen: read as they are written, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ReplyFormatError
from align_echo.wrappers.gui.actions import (
    FORMS,
    ClickAction,
    DragAction,
    FinishAction,
    LongPressAction,
    OpenAppAction,
    Point,
    PressBackAction,
    PressHomeAction,
    ScrollAction,
    TypeAction,
    action_type,
    parse,
    target_point,
    write,
)

points = st.builds(Point, st.integers(0, 4000), st.integers(0, 4000))
directions = st.sampled_from(["up", "down", "left", "right"])
actions = st.one_of(
    st.builds(ClickAction, points),
    st.builds(LongPressAction, points),
    st.builds(TypeAction, st.text()),
    st.builds(ScrollAction, points, directions),
    st.builds(DragAction, points, points),
    st.builds(OpenAppAction, st.text()),
    st.just(PressHomeAction()),
    st.just(PressBackAction()),
    st.builds(FinishAction, st.text()),
)


@given(actions)
def test_what_is_written_is_read_again(action):
    assert parse(write(action)) == action


@given(st.text())
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        read = write(parse(text))
    except ReplyFormatError as error:
        read = str(error)
    assert "\n" not in read


def test_every_action_is_written_as_its_name_and_arguments():
    assert write(ScrollAction(Point(80, 100), "down")) == 'scroll(80, 100, "down")'
    assert write(TypeAction('say "é"')) == 'type("say \\"é\\"")'
    assert write(FinishAction()) == "finished()"
    assert " ".join(FORMS) == "click long_press type scroll drag open_app press_home press_back finished"


def test_only_clicks_and_long_presses_have_the_point_of_grounding():
    assert target_point(ClickAction(Point(1, 2))) == target_point(LongPressAction(Point(1, 2))) == (1, 2)
    assert target_point(ScrollAction(Point(1, 2), "up")) is None
    assert action_type(LongPressAction(Point(1, 2))) == "long_press"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not an action"),
        ("I click(1, 2)", "not an action"),
        ("click(1, 2) click(3, 4)", "arguments are"),
        ("click(1.5, 2)", "whole numbers"),
        ("click(true, 2)", "whole numbers"),
        ("click(1)", r"write click\(x, y\)"),
        ("type(hello)", "double-quoted"),
        ("type('hello')", "double-quoted"),
        ('scroll(1, 2, "sideways")', "scroll has other arguments"),
        ("swipe(1, 2)", "unknown action 'swipe'; known: click, "),
        (r'type("\ud800")', "half a character"),
        ("click(" + "[" * 100_000 + ")", "arguments are"),
    ],
)
def test_what_is_no_action_is_refused_with_what_to_write(text, said):
    with pytest.raises(ReplyFormatError, match=said):
        parse(text)
