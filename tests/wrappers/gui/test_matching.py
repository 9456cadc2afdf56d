"""The matching rules, by hand and by their properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from align_echo.wrappers.gui.actions import (
    ClickAction,
    DragAction,
    FinishAction,
    LongPressAction,
    Point,
    PressHomeAction,
    ScrollAction,
    TypeAction,
    parse,
    write,
)
from align_echo.wrappers.gui.steps import (
    GuiStep,
    alike,
    f1,
    hits,
    is_grounded,
    near,
    right_type,
    succeeds,
    type_matches,
)
from tests.wrappers.gui.test_gui_actions import actions

WIDTH, HEIGHT = 1000, 2000


def step(action: str | None, box: tuple[int, int, int, int] | None = None) -> GuiStep:
    return GuiStep(
        id="a", episode="e", number=0, instruction="Do it.", screenshot="a.png", width=WIDTH, height=HEIGHT,
        action=action, box=box,
    )


def measured(action: str, right: GuiStep) -> str:
    """T if the type is right, G if the point hits, S if the step succeeds."""
    said = parse(action)
    flags = [("T", type_matches(said, right)), ("G", hits(said, right)), ("S", succeeds(said, right))]
    return "".join(letter for letter, true in flags if true)


@pytest.mark.parametrize(
    ("right", "action", "found"),
    [
        # 14% of 1000 pixels are 140 across, of 2000 they are 280 down.
        ("click(500, 1000)", "click(640, 1000)", "TGS"),
        ("click(500, 1000)", "click(641, 1000)", "T"),
        ("click(500, 1000)", "click(500, 1280)", "TGS"),
        ("click(500, 1000)", "click(500, 1281)", "T"),
        ("click(500, 1000)", "click(600, 1200)", "T"),  # sqrt(0.1^2 + 0.1^2) = 0.1414
        ("click(500, 1000)", "click(598, 1196)", "TGS"),  # sqrt(2) * 0.098 = 0.1386
        ("click(500, 1000)", f"click({10**400}, -{10**400})", "T"),
        ("click(500, 1000)", "long_press(500, 1000)", "G"),
        ("long_press(500, 1000)", "long_press(500, 1000)", "TGS"),
        ("click(500, 1000)", 'type("x")', ""),
        ('scroll(1, 1, "down")', 'scroll(900, 900, "down")', "TS"),
        ('scroll(1, 1, "down")', 'scroll(1, 1, "up")', "T"),
        ('scroll(1, 1, "down")', "click(1, 1)", ""),
        ('type("New York")', 'type(" new  york ")', "TS"),
        ('type("New York")', 'type("new york city")', "TS"),  # F1 = 2*2/(3+2) = 0.8
        ('type("New York")', 'type("york is far")', "T"),  # F1 = 2*1/(3+2) = 0.4
        ('type("a b")', 'type("a c")', "T"),  # F1 = 0.5, not above
        ('type("")', 'type("x")', "T"),
        ('type("")', 'type("")', "TS"),
        ('open_app("Clock")', 'open_app("clock")', "TS"),
        ('open_app("Clock")', 'open_app("Maps")', "T"),
        ('open_app("Clock")', 'type("Clock")', ""),
        ("press_home()", "press_home()", "TS"),
        ("press_home()", "press_back()", ""),
        ("finished()", 'finished("whatever")', "TS"),
        ('finished("42")', 'finished("42")', "TS"),
        ('finished("42")', "finished()", "T"),
        ("drag(100, 200, 500, 1000)", "drag(200, 200, 500, 1200)", "TS"),
        ("drag(100, 200, 500, 1000)", "drag(100, 200, 700, 1000)", "T"),
        ("drag(100, 200, 500, 1000)", "drag(300, 200, 500, 1000)", "T"),
    ],
)
def test_without_a_box(right, action, found):
    assert measured(action, step(right)) == found


@pytest.mark.parametrize(
    ("action", "found"),
    [("click(10, 20)", "TGS"), ("click(30, 40)", "TGS"), ("click(31, 40)", "T"), ("long_press(20, 30)", "G")],
)
@pytest.mark.parametrize("right", ["click(20, 30)", None])
def test_a_box_with_its_edges_is_what_is_to_be_hit(right, action, found):
    assert measured(action, step(right, (10, 20, 30, 40))) == found


def test_a_box_says_nothing_of_what_is_not_clicked():
    assert measured('scroll(900, 900, "up")', step('scroll(5, 5, "up")', (0, 0, 10, 10))) == "TS"
    assert not is_grounded(step('scroll(5, 5, "up")', (0, 0, 10, 10)))


def test_a_step_with_a_box_alone_is_a_click():
    assert right_type(step(None, (1, 2, 3, 4))) == "click"


points = st.builds(Point, st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1))
inside = st.one_of(
    st.builds(ClickAction, points),
    st.builds(LongPressAction, points),
    st.builds(ScrollAction, points, st.sampled_from(["up", "down", "left", "right"])),
    st.builds(DragAction, points, points),
    st.builds(TypeAction, st.text()),
    st.builds(FinishAction, st.text()),
    st.just(PressHomeAction()),
)


boxes = st.builds(
    lambda one, other: (min(one.x, other.x), min(one.y, other.y), max(one.x, other.x), max(one.y, other.y)),
    points,
    points,
)


@given(inside, st.none() | boxes)
def test_the_right_action_succeeds_on_every_step_that_is_one(action, box):
    try:
        right = step(write(action), box)
    except ValidationError:
        x1, y1, x2, y2 = box
        assert not (x1 <= action.point.x <= x2 and y1 <= action.point.y <= y2)
        return
    assert type_matches(action, right)
    assert succeeds(action, right)
    assert hits(action, right) == is_grounded(right)


@given(inside, actions)
def test_success_needs_the_type_and_the_point(right, action):
    truth = step(write(right))
    if succeeds(action, truth):
        assert type_matches(action, truth)
        assert hits(action, truth) or not is_grounded(truth)


@given(st.text(), st.text())
def test_likeness_is_mutual_and_f1_is_the_harmonic_mean(one, other):
    assert alike(one, other) == alike(other, one)
    words, wanted = set(one.split()), set(other.split())
    common = len(words & wanted)
    if common:
        precision, recall = common / len(words), common / len(wanted)
        assert math.isclose(f1(words, wanted), 2 * precision * recall / (precision + recall))
    else:
        assert f1(words, wanted) == 0


@given(st.integers(-500, 1500), st.integers(-500, 2500), st.integers(1, 9))
def test_nearness_does_not_depend_on_the_resolution(x, y, scale):
    large = Point(x * scale, y * scale), Point(500 * scale, 1000 * scale)
    assert near(Point(x, y), Point(500, 1000), (1000, 2000)) == near(*large, size=(1000 * scale, 2000 * scale))
