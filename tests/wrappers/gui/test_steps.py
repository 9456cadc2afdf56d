"""Step datasets: what is written is read again, and what is not as it should be is refused by file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("PIL")

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from align_echo.errors import MissingDataError, UsageError
from align_echo.wrappers.gui.actions import ClickAction, Point, ScrollAction, TypeAction
from align_echo.wrappers.gui.steps import SCREENS, GuiStep, load_screenshot, read_steps, write_steps
from tests.wrappers.gui.screens import SIZE, recorded, screen


def changed(folder: Path, **changes: object) -> Path:
    """The second step of the folder's file with some fields changed."""
    file = folder / "steps.jsonl"
    first, second = file.read_text().splitlines()
    file.write_text("\n".join([first, json.dumps({**json.loads(second), **changes})]) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_steps([recorded(0), recorded(1, ScrollAction(Point(80, 100), "down"), box=None)], tmp_path / "data")
    return tmp_path / "data"


def test_what_is_written_is_read_again(tmp_path):
    steps = [recorded(0), recorded(1, TypeAction("é \"x\"\n"), box=None), recorded(2, colour="green")]
    written = write_steps(steps, tmp_path / "a" / "data")
    assert read_steps(tmp_path / "a" / "data") == written
    assert [step.truth for step in written] == [step.action for step in steps]
    for one, step in zip(steps, written, strict=True):
        assert load_screenshot(tmp_path / "a" / "data", step).tobytes() == one.screenshot.tobytes()


def test_equal_pictures_are_stored_once(tmp_path):
    write_steps([recorded(0), recorded(1), recorded(2, colour="green")], tmp_path / "data")
    assert len(list((tmp_path / "data" / "screens").iterdir())) == 2


def test_a_folder_that_is_there_stays_as_it_is(folder):
    before = (folder / "steps.jsonl").read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        write_steps([recorded(7)], folder)
    assert (folder / "steps.jsonl").read_bytes() == before


def test_nothing_is_left_of_a_folder_that_could_not_be_written_whole(tmp_path):
    with pytest.raises(UsageError, match="outside the screen"):
        write_steps([recorded(0), recorded(1, ClickAction(Point(500, 5)), box=None)], tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "e-0"}, "came before"),
        ({"id": ""}, "id: "),
        ({"number": "1"}, "number: "),
        ({"number": 1.0}, "number: "),
        ({"colour": "red"}, "colour: there is no such setting"),
        ({"action": "tap(1, 2)"}, "unknown action 'tap'"),
        ({"action": "click(1)"}, "write click"),
        ({"action": "click(160, 5)"}, "outside the screen of 160x210"),
        ({"action": None}, "give the right action, the box"),
        ({"box": [50, 0, 20, 30]}, "is not"),
        ({"box": [0, 0, 161, 30]}, "is not"),
        ({"box": [0, 0, 20]}, "box"),
        ({"action": "click(40, 50)", "box": [50, 60, 20, 30]}, "is not"),
        ({"action": "click(40, 50)", "box": [20, 30, 39, 70]}, r"outside the box \[20, 30, 39, 70\]"),
        ({"action": "long_press(1, 1)", "box": [20, 30, 60, 70]}, "lies outside the box"),
        ({"width": 170, "height": 220}, "160x210 pixels, not 170x220"),
        ({"width": 0}, "width: "),
        ({"screenshot": "../steps.png"}, "is not the name of"),
        ({"screenshot": "/etc/passwd.png"}, "is not the name of"),
        ({"screenshot": "a.jpg"}, "is not the name of"),
        ({"history": "click(1, 2)"}, "history: "),
    ],
)
def test_a_step_that_is_none_is_refused_by_file_and_line(folder, changes, said):
    with pytest.raises(UsageError, match=said) as caught:
        read_steps(changed(folder, **changes))
    assert str(caught.value).startswith(f"{folder / 'steps.jsonl'} line 2: ")
    assert "\n" not in str(caught.value)


def test_a_line_that_is_no_json_is_refused(folder):
    with (folder / "steps.jsonl").open("a") as stream:
        stream.write("{\n")
    with pytest.raises(UsageError, match=r"steps\.jsonl line 3: Invalid JSON"):
        read_steps(folder)


def test_a_screenshot_must_be_there_and_be_a_picture(folder):
    with pytest.raises(MissingDataError, match=r"line 2: there is no .*nothing\.png"):
        read_steps(changed(folder, screenshot="nothing.png"))
    (folder / "screens" / "text.png").write_text("no picture")
    with pytest.raises(UsageError, match=r"line 2: .*text\.png is no PNG picture"):
        read_steps(changed(folder, screenshot="text.png"))
    screen().save(folder / "screens" / "photo.png", format="JPEG")
    with pytest.raises(UsageError, match="is no PNG picture"):
        read_steps(changed(folder, screenshot="photo.png"))
    whole = (folder / "screens" / "000000.png").read_bytes()
    (folder / "screens" / "half.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="is no PNG picture"):
        read_steps(changed(folder, screenshot="half.png"))


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    screen().save(tmp_path / "outside.png")
    (folder / "screens" / "link.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(UsageError, match="leads out of the folder"):
        read_steps(changed(folder, screenshot="link.png"))


def test_a_loop_of_links_is_told_in_one_line(folder):
    name = read_steps(folder)[0].screenshot
    place = folder / SCREENS / name
    place.unlink()
    place.symlink_to(place)
    with pytest.raises(UsageError, match="a link that leads nowhere"):
        read_steps(folder)


@pytest.mark.parametrize("size", [(9_000, 6_000), (15_000, 12_000)])
def test_a_picture_of_more_pixels_than_any_screen_is_refused(folder, size, recwarn):
    step = read_steps(folder)[0]
    Image.new("1", size).save(folder / SCREENS / step.screenshot)
    with pytest.raises(UsageError, match="more than 50,000,000 pixels"):
        read_steps(folder)
    assert not recwarn.list


def test_a_folder_without_steps_is_no_dataset(tmp_path):
    with pytest.raises(MissingDataError, match="there is no"):
        read_steps(tmp_path)
    (tmp_path / "steps.jsonl").write_text("")
    with pytest.raises(UsageError, match="holds no step"):
        read_steps(tmp_path)


def test_a_picture_with_transparency_is_seen_in_rgb(tmp_path):
    Image.new("RGBA", SIZE, (10, 20, 30, 0)).save(tmp_path / "x.png")
    write_steps([recorded(0)], tmp_path / "data")
    (tmp_path / "x.png").replace(tmp_path / "data" / "screens" / "000000.png")
    step = read_steps(tmp_path / "data")[0]
    assert load_screenshot(tmp_path / "data", step).mode == "RGB"


@pytest.mark.parametrize("box", [None, [0, 0, 9, 9]])
def test_an_action_is_not_repeated_at_any_length(folder, box):
    with pytest.raises(UsageError, match="lies outside the screen") as caught:
        read_steps(changed(folder, action=f"click({'9' * 4000}, 1)", box=box))
    assert len(str(caught.value)) < len(str(folder)) + 200


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from([*GuiStep.model_fields, "x"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=4)
)))
def test_any_record_is_a_step_or_refused_in_one_line(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("any") / "data"
    write_steps([recorded(0), recorded(1)], folder)
    said = ""
    try:
        read_steps(changed(folder, **changes))
    except (UsageError, MissingDataError) as error:
        said = str(error)
    assert "\n" not in said
