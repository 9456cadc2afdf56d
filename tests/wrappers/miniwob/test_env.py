"""Episodes: what is refused, what real input does to a page, whose the reward is, and coming back to a moment."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from align_echo.errors import EngineError, MissingExtraError, UsageError
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.page import ENDED, BrowserPage
from align_echo.wrappers.miniwob.spec import is_invalid
from tests.wrappers.miniwob.conftest import begin, needs_browser

pytestmark = needs_browser


def page_of(env: MiniWoBEnv) -> BrowserPage:
    assert env._opened is not None
    return env._opened


def said(env: MiniWoBEnv, script: str) -> Any:
    """What a script says of the present page."""
    assert env._leased is not None
    return env._leased.run(script)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("", "not an action"),
        ("click the button", "not an action"),
        ("click(1)", "click has other arguments: write click(x, y)"),
        ("click(1.5, 2)", "arguments are whole numbers"),
        ("tap(1, 2)", "unknown action 'tap'"),
        ("click(160, 100)", "(160, 100) is not on the screen, which is 160 wide and 210 high"),
        ("click(10, 210)", "(10, 210) is not on the screen"),
        ("click(-1, 5)", "(-1, 5) is not on the screen"),
        ("long_press(0, 999999999999999999999)", "is not on the screen"),
        ("drag(10, 10, 10, 400)", "(10, 400) is not on the screen"),
        ('scroll(400, 10, "down")', "(400, 10) is not on the screen"),
        ('open_app("Mail")', "there are no apps here"),
        ("press_home()", "there is no home screen here"),
        ("press_back()", "there is nothing to go back to here"),
        ('type("\\u0000")', "type takes printable characters"),
        ('type("\\ud800")', "half a character"),
        (f'type("{"a" * 201}")', "type takes at most 200 characters"),
    ],
)
def test_what_is_no_action_here_is_a_turn_that_says_what_was_wrong_and_changes_nothing(env, action, reason):
    before = begin(env, "click-checkboxes/4")
    observation, reward, terminated, truncated, info = env.step(action)
    assert is_invalid(observation)
    assert reason in observation.partition("\n")[0]
    assert observation.partition("\n")[2] == before
    assert (reward, terminated, truncated, info["turns"], env._save()) == (0.0, False, False, 1, ())


def test_what_is_refused_is_not_repeated_at_any_length(env):
    before = begin(env, "click-checkboxes/4")
    nines = "9" * 4000
    for action in (f"click({nines}, 1)", f"drag(1, 1, 1, -{nines})", f"tap({nines})", nines, f'type("{nines}")'):
        observation, *_ = env.step(action)
        assert is_invalid(observation)
        assert len(observation) < len(before) + 200


def test_what_is_done_is_no_refusal(env):
    assert not is_invalid(begin(env, "click-checkboxes/4", "click(80, 120)"))


# ---------------------------------------------------------------- input


def test_a_text_is_typed_by_keys_and_taken_back_by_the_backspace(env):
    script = "window.keys = []; document.addEventListener('keydown', (event) => keys.push([event.key, event.keyCode]));"
    begin(env, "enter-text/2")
    field = env.oracle().expert_action()
    assert field is not None
    env.step(field)
    said(env, script)
    observation = env.step('type("Ab&x\\b \\u00e9")')[0]
    assert said(env, "return keys;") == [["A", 65], ["b", 66], ["&", 55], ["x", 88], ["Backspace", 8], [" ", 32]]
    assert 'input text "Ab& \\u00e9" focused' in observation


def test_a_click_is_a_press_and_a_release_that_the_page_can_trust(env):
    begin(env, "click-test-2/1")
    said(env, "window.seen = []; for (const kind of ['mousedown', 'mouseup', 'click']) "
              "document.addEventListener(kind, (event) => seen.push([kind, event.isTrusted, event.detail]), true);")
    env.step("click(5, 205)")
    env.step("click(5, 205)")
    assert said(env, "return seen;") == [["mousedown", True, 1], ["mouseup", True, 1], ["click", True, 1]] * 2


def test_a_long_press_holds_while_the_pages_clock_goes_on(env):
    begin(env, "click-test-2/1")
    said(env, "document.onmousedown = () => { window.down = Date.now(); };"
              "document.onmouseup = () => { window.up = Date.now(); };")
    env.step("long_press(5, 205)")
    assert said(env, "return up - down;") == 1000


def test_a_drag_moves_what_it_holds(env):
    observation = begin(env, "drag-box/1")
    large, small = sorted(page_of(env).look.elements[:2], key=lambda element: element.size, reverse=True)
    assert f"{large.center.x}, {large.center.y}) {large.size[0]}x" in observation
    moved = env.step(f"drag({small.center.x}, {small.center.y}, {large.center.x}, {large.center.y})")[0]
    assert moved.count(f"({large.center.x}, {large.center.y})") == 2


def test_a_scroll_brings_into_sight_what_lies_there(env):
    before = begin(env, "social-media/1")
    down = env.step('scroll(80, 150, "down")')[0]
    assert down != before
    assert env.step('scroll(80, 150, "up")')[0] == before


def test_a_list_is_opened_and_chosen_from_by_clicks(env):
    begin(env, "choose-list/6")
    offered = []
    while not env.over and (action := env.oracle().expert_action()) is not None:
        offered.append(env.step(action)[0].count("\noption "))
    assert env.state.won
    assert max(offered) >= 3


# ---------------------------------------------------------------- the page's clock


@pytest.mark.long
def test_time_passes_by_actions_alone_and_no_time_is_up(env):
    begin(env, "click-test-2/1")
    start = said(env, "return Date.now();")
    for _ in range(40):
        env.step("click(5, 205)")
    assert said(env, "return Date.now();") == start + 40_000
    assert not env.over
    env.step("nothing at all")
    assert said(env, "return Date.now();") == start + 40_000


def test_what_moves_moves_by_turns(env):
    seen = [begin(env, "stock-market/1"), *(env.step("click(5, 205)")[0] for _ in range(3))]
    assert len(set(seen)) == 4
    assert [begin(env, "stock-market/1"), *(env.step("click(5, 205)")[0] for _ in range(3))] == seen


# ---------------------------------------------------------------- the score


def test_the_reward_is_the_pages_own_and_does_not_fade(env):
    begin(env, "click-test/0")
    for _ in range(12):
        assert env.step("click(5, 205)")[1] == 0.0
    action = env.oracle().expert_action()
    assert action is not None
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["won"], info["raw_score"]) == (1.0, True, True, 1.0)


def test_a_wrong_end_scores_nothing_and_tells_the_raw_reward(env):
    begin(env, "click-test-2/3")
    two = next(element for element in page_of(env).look.elements if element.text == "TWO")
    observation, reward, terminated, _, info = env.step(f"click({two.center.x}, {two.center.y})")
    assert (observation, reward, terminated, info["score"], info["won"]) == (ENDED, 0.0, True, 0.0, False)
    assert info["raw_score"] == -1.0


def test_part_of_the_reward_is_a_score_but_no_win(env):
    begin(env, "click-checkboxes-large/2")
    while env.oracle().distance() != 3:
        env.step(env.oracle().expert_action() or "")
    submit = next(element for element in page_of(env).look.elements if element.text == "Submit")
    _, reward, _, _, info = env.step(f"click({submit.center.x}, {submit.center.y})")
    assert (info["score"], info["won"], info["raw_score"]) == (reward, False, reward)
    assert 0.0 < reward < 1.0


def test_finished_ends_the_episode_with_what_the_page_gave(env):
    begin(env, "click-checkboxes/4")
    observation, reward, terminated, _, info = env.step('finished("done")')
    assert (observation, reward, terminated, info["score"], info["raw_score"]) == (ENDED, 0.0, True, 0.0, 0.0)
    with pytest.raises(EngineError, match="over"):
        env.step("click(5, 205)")
    assert env.oracle().expert_action() is None


# ---------------------------------------------------------------- what is seen


def test_the_screenshot_is_the_page_in_its_size_and_changes_with_it(env):
    begin(env, "click-checkboxes/4")
    before = env.screenshot()
    assert (before.size, before.mode) == ((160, 210), "RGB")
    assert before.getpixel((80, 40)) == (255, 255, 0)
    action = env.oracle().expert_action()
    assert action is not None
    env.step(action)
    assert env.screenshot().tobytes() != before.tobytes()


def test_a_screenshot_before_a_reset_is_refused():
    with pytest.raises(UsageError, match="reset"):
        MiniWoBEnv("test").screenshot()


def test_a_screenshot_after_the_end_is_refused(env):
    begin(env, "click-test/0")
    action = env.oracle().expert_action()
    assert action is not None
    assert env.step(action)[2]
    with pytest.raises(UsageError, match="the episode is over and its page is gone"):
        env.screenshot()


def test_a_screenshot_without_pillow_tells_what_to_install(env, monkeypatch):
    begin(env, "click-test/0")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[gui\]'"):
        env.screenshot()


def test_two_clicks_on_one_element_are_read_alike_unless_the_point_counts(env):
    begin(env, "click-checkboxes/4")
    label = next(element for element in page_of(env).look.elements if element.kind == "label")
    box = next(element for element in page_of(env).look.elements if element.kind == "input checkbox")
    on_label = env.as_read(f"click({label.center.x}, {label.center.y})")
    assert on_label == env.as_read(f"click({box.center.x}, {box.center.y})")
    assert on_label != env.as_read(f"long_press({box.center.x}, {box.center.y})")
    assert on_label != env.as_read("click(5, 205)") == env.as_read(" click( 7 ,206)")
    begin(env, "circle-center/1")
    assert env.as_read("click(80, 100)") != env.as_read("click(81, 100)")
    assert env.as_read(" tap ") == "tap"


@pytest.mark.long
def test_what_is_listed_can_be_clicked(env):
    begin(env, "click-widget/1")
    clicks = env.state.admissible_actions
    assert clicks
    assert len(clicks) == len(page_of(env).look.elements)
    assert not any(is_invalid(begin(env, "click-widget/1", click)) for click in clicks)


# ---------------------------------------------------------------- coming back


TO_COME_BACK_TO = ["click-collapsible/1", "choose-date/2", "email-inbox/1", "tic-tac-toe/1", "terminal/1"]


@pytest.mark.long
@pytest.mark.parametrize("task", TO_COME_BACK_TO)
def test_a_moment_comes_back_exactly(env, task):
    begin(env, task, "click(80, 130)", 'type("ls\\n")')
    moment = env.snapshot()
    seen = page_of(env).look
    picture = env.screenshot().tobytes()
    ways = ("click(20, 60)", "click(140, 60)", 'scroll(80, 130, "down")')
    after = [env.step(action)[:4] for action in ways if not env.over]
    env.restore(moment)
    assert page_of(env).look == seen
    assert env.screenshot().tobytes() == picture
    assert [env.step(action)[:4] for action in ways if not env.over] == after
    begin(env, "click-test/1")
    env.restore(moment)
    assert page_of(env).look == seen


def test_going_on_from_a_moment_that_lies_ahead_plays_only_what_is_missing(env):
    begin(env, "enter-text/2")
    first, page = env.snapshot(), page_of(env)
    action = env.oracle().expert_action()
    assert action is not None
    env.step(action)
    ahead = env.snapshot()
    env.restore(ahead)
    assert page_of(env) is page
    env.restore(first)
    assert page_of(env) is not page
    opened = page_of(env)
    env.restore(ahead)
    assert page_of(env) is opened


def test_a_page_cannot_be_left(env):
    """Enter in its form would load the page anew, without the task."""
    begin(env, "guess-number/2")
    address = said(env, "return location.href;")
    said(env, "window.mark = 1; document.getElementById('area').insertAdjacentHTML("
              "'beforeend', '<a id=\"out\" href=\"click-test.html\">out</a>');")
    field = next(element for element in page_of(env).look.elements if element.kind == "input number")
    env.step(f"click({field.center.x - 10}, {field.center.y})")
    env.step('type("5\\n")')
    link = next(element for element in page_of(env).look.elements if element.text == "out")
    env.step(f"click({link.center.x}, {link.center.y})")
    assert said(env, "return [location.href, window.mark];") == [address, 1]
