"""The experts: they win, they count, they make good what a slip has done; labels of actions by them."""

from __future__ import annotations

import pytest

from align_echo.critic.labels import default_rule, label, labels
from align_echo.rollout.session import start_view
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.gui.actions import ClickAction, Point, parse
from align_echo.wrappers.miniwob.spec import WITH_EXPERT
from tests.wrappers.miniwob.conftest import begin, needs_browser

pytestmark = needs_browser


@pytest.mark.parametrize("page", WITH_EXPERT[::6])
def test_the_expert_wins_and_each_of_its_actions_is_one_less_to_go(env, page):
    begin(env, f"{page}/5")
    left = env.oracle().distance()
    while not env.over:
        action = env.oracle().expert_action()
        assert action is not None
        env.step(action)
        now = env.oracle().distance()
        assert left is not None
        assert now == left - 1, action
        left = now
    assert (env.state.won, left) == (True, 0)


@pytest.mark.long
def test_a_slip_that_can_be_made_good_is_and_costs_what_it_costs(env):
    begin(env, "click-checkboxes/4")
    left = env.oracle().distance()
    own = env.oracle().expert_action()
    assert own is not None
    assert left is not None
    env.step(own)
    env.step(own)
    assert (env.oracle().distance(), env.oracle().expert_action()) == (left, own)
    begin(env, "enter-text/2", *(3 * ["click(5, 205)"]))
    field = env.oracle().expert_action()
    assert field is not None
    env.step(field)
    env.step('type("Wrong")')
    assert env.oracle().distance() == 2
    while not env.over:
        env.step(env.oracle().expert_action() or "")
    assert env.state.won


def test_where_all_is_lost_or_there_is_no_expert_no_action_is_known(env):
    begin(env, "click-button-sequence/1")
    two = next(line for line in env.state.observation.splitlines() if '"TWO"' in line)
    point = two[two.index("(") : two.index(")") + 1]
    env.step(f"click{point}")
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)
    begin(env, "tic-tac-toe/1")
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)


@pytest.mark.long
def test_every_rule_labels_and_leaves_the_page_as_it_was(env):
    task = "click-checkboxes/4"
    view = start_view(env, task, "", 0)
    own = env.oracle().expert_action()
    assert own is not None
    at = parse(own)
    assert isinstance(at, ClickAction)
    beside = f"click({at.point.x + 2}, {at.point.y + 1})"
    submit = next(line for line in env.state.observation.splitlines() if '"Submit"' in line)
    early = "click" + submit[submit.index("(") : submit.index(")") + 1]
    actions = [own, beside, "click(5, 205)", early, "press_home()", "clack"]
    before, moment = env.state.observation, env.snapshot()
    right = ["correct", "correct", "wrong", "wrong", "wrong", "wrong"]
    assert default_rule(environment("miniwob")) == "nearer"
    for rule in ("expert", "nearer", "continues"):
        assert labels(env, view, actions, rule) == right, rule
    assert (env.state.observation, env.snapshot()) == (before, moment)


@pytest.mark.long
def test_another_box_that_is_asked_for_too_is_right_by_what_is_left_and_wrong_by_the_experts_own_order(env):
    task = "click-checkboxes-large/2"
    view = start_view(env, task, "", 0)
    own = env.oracle().expert_action()
    begin(env, task, own or "")
    second = env.oracle().expert_action()
    assert second is not None
    view = start_view(env, task, "", 0)
    assert [label(env, view, second, rule) for rule in ("expert", "nearer", "continues")] == [
        *("wrong", "correct", "correct")
    ]


def test_no_label_where_there_is_no_expert(env):
    view = start_view(env, "tic-tac-toe/1", "", 0)
    assert [label(env, view, "click(80, 130)", rule) for rule in ("expert", "nearer", "continues")] == [None] * 3


@pytest.mark.long
def test_points_of_the_expert_lie_on_the_screen(env):
    for page in WITH_EXPERT[::5]:
        begin(env, f"{page}/6")
        action = parse(env.oracle().expert_action() or "")
        if isinstance(action, ClickAction):
            assert Point(0, 0) <= action.point < Point(160, 210)
