"""Old keys of a training config: refused from a user's file with the new name, read from the folder of an older run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.report.material import find_method
from align_echo.train.config import TrainConfig, checked_config, merged, method, read_file, stored_config
from align_echo.train.presets import RENAMED_KEYS, implementation_for, methods, refuse_old_keys, with_new_keys
from align_echo.train.run_folder import TrainingDir

VALUES = {
    "collecting.recipe": "echo",
    "collecting.queries": 3,
    "step.most_loss": 7.0,
    "step.objective.most_weight": 1.5,
}
"""A value under each old key."""


def nested(name: str, value: object) -> dict[str, Any]:
    """Return a value under its dotted name."""
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def value_at(values: Any, name: str) -> Any:
    """Look up a dotted name."""
    for part in name.split("."):
        values = values[part]
    return values


def old_config(config: TrainConfig) -> dict[str, Any]:
    """Return a config as an earlier version stored it."""
    values = config.model_dump(mode="json")
    values["collecting"]["recipe"] = implementation_for(values.pop("method"))
    values["collecting"]["queries"] = values["collecting"].pop("tasks")
    values["step"]["most_loss"] = values["step"].pop("max_loss")
    values["step"]["objective"]["most_weight"] = values["step"]["objective"].pop("max_weight")
    return values


def stored(folder: Path, config: dict[str, Any], **record: Any) -> Path:
    """Write the `config.json` of a run."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"command": "train", **record, "config": config}))
    return folder


def test_every_old_key_has_an_example():
    assert VALUES.keys() == RENAMED_KEYS.keys()


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_an_old_key_in_a_file_is_refused_with_its_new_name(old, new, tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"method": "grpo", **nested(old, VALUES[old])}))
    with pytest.raises(UsageError, match=rf"mine\.yaml: {old} is now {new}$"):
        read_file(file)
    with pytest.raises(UsageError, match=rf"^here: {old} is now {new}$"):
        checked_config(merged(method("grpo"), nested(old, VALUES[old])), "here")
    status = main(["train", "--config", str(file), "--out", str(tmp_path / "run")])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f"{old} is now {new}\n")
    assert not (tmp_path / "run").exists()


def test_an_old_key_is_refused_before_a_module_is_imported(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: no_such_module:METHOD\ncollecting: {queries: 2}\n")
    with pytest.raises(UsageError, match=r"collecting\.queries is now collecting\.tasks"):
        read_file(file)


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_an_old_key_of_a_stored_run_is_read(old, new, tmp_path):
    values = method("grpo")
    values.pop("method")
    changes = merged(nested("collecting.recipe", "grpo"), nested(old, VALUES[old]))
    folder = stored(tmp_path / "run", merged(values, changes))
    assert value_at(stored_config(folder, {}).model_dump(), new) == VALUES[old]


@pytest.mark.parametrize("name", methods())
def test_a_run_of_an_earlier_version_goes_on_under_the_name_of_its_method(name, tmp_path):
    config = checked_config(method(name), name)
    folder = stored(tmp_path / "run", old_config(config))
    record = {"command": "train", "config": config.model_dump(mode="json")}
    assert TrainingDir(folder, record, resume=True).find_checkpoint() == ""
    resumed = stored_config(folder, {})
    assert resumed == config.model_copy(update={"method": implementation_for(name)})
    as_resumed = {**record, "config": resumed.model_dump(mode="json")}
    assert TrainingDir(folder, as_resumed, resume=True).find_checkpoint() == ""
    assert find_method(with_new_keys(old_config(config))) == name


def test_a_run_of_an_earlier_version_does_not_go_on_with_another_method(tmp_path):
    folder = stored(tmp_path / "run", old_config(checked_config(method("grpo"), "grpo")))
    other = checked_config({**method("grpo"), "method": "regenerate"}, "other").model_dump(mode="json")
    with pytest.raises(UsageError, match=r"was started with method = grpo, not regenerate"):
        TrainingDir(folder, {"command": "train", "config": other}, resume=True).find_checkpoint()


@pytest.mark.parametrize("damaged", [{}, {"collecting": 3}, {"step": {"objective": None}}])
def test_a_damaged_config_without_old_keys_is_left_as_it_is(damaged):
    refuse_old_keys(damaged, "here")
    assert with_new_keys(damaged) == damaged


def test_an_old_method_of_the_wrong_type_is_renamed_and_nothing_else():
    assert with_new_keys({"collecting": {"recipe": 3}}) == {"collecting": {}, "method": 3}
