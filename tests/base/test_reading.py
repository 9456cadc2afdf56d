"""JSON that somebody damaged: told in a line, whatever it holds."""

from __future__ import annotations

import pytest

from align_echo.base.plain_yaml import json_lines, json_object, parse_json
from align_echo.errors import InterfaceError, UsageError
from align_echo.evaluate.folder import EvaluationDir
from align_echo.interface.contract import identity, load_interface, save_interface
from align_echo.train.run_folder import keep_before
from tests.room_env import CONTRACT

DEEP = "[" * 200_000
NOT_AN_OBJECT = [DEEP, "[]", "[1, 2]", "null", '"text"', "3", "", "{", '{"a": }', "\x00"]


def test_what_is_nested_too_deeply_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)
    assert parse_json('{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize("text", NOT_AN_OBJECT)
def test_a_file_that_holds_no_object_is_none(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    assert json_object(tmp_path / "config.json") is None


def test_bytes_that_are_no_text_and_no_file_are_none(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert json_object(tmp_path / "config.json") is None
    assert json_object(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", NOT_AN_OBJECT)
def test_an_interfaces_record_is_refused_in_one_line(text, tmp_path):
    save_interface(identity(CONTRACT), tmp_path, "mine")
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(InterfaceError, match="is not readable") as caught:
        load_interface(tmp_path / "mine.py")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", NOT_AN_OBJECT)
@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_whose_config_is_no_config_is_refused_in_one_line(text, resume, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        EvaluationDir(tmp_path, {"command": "evaluate"}, resume=resume).check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", NOT_AN_OBJECT[:-1])
def test_a_line_of_signals_that_is_damaged_is_named(line, tmp_path):
    file = tmp_path / "signals.jsonl"
    file.write_text('{"step": 0}\n' + line + '\n{"step": 1}\n')
    with pytest.raises(UsageError, match=r"signals.jsonl line 2 is damaged"):
        keep_before(file, 5)
    assert file.read_text().count("\n") == 3, "the file is left alone"


def test_what_was_not_written_to_its_end_is_left_out(tmp_path):
    file = tmp_path / "signals.jsonl"
    file.write_text('{"step": 0, "loss": NaN}\n{"step": 1, "loss": 0.1}\n{"step": 2, "lo')
    assert [json_line["step"] for json_line in json_lines(file)] == [0, 1]
    keep_before(file, 1)
    assert file.read_text() == '{"step": 0, "loss": NaN}\n'
    assert json_lines(tmp_path / "none.jsonl") == []


@pytest.mark.long
def test_settings_that_are_nested_too_deeply_are_refused(tmp_path):
    pytest.importorskip("yaml")
    from align_echo.train.config import read_file

    (tmp_path / "deep.yaml").write_text("a: " + DEEP)
    with pytest.raises(UsageError, match="nested too deeply"):
        read_file(tmp_path / "deep.yaml")
