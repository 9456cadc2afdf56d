"""Configs: the methods that ship, a user's file on top of one, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.errors import UsageError
from align_echo.train.config import about, checked_config, merged, method, methods, read_file


@pytest.mark.parametrize("name", methods())
def test_every_method_that_ships_is_a_run_and_says_what_it_is(name):
    assert checked_config(method(name), name).steps > 0
    assert about(name).endswith(".")


def test_a_file_changes_single_values_of_its_base(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: echo\ncollecting: {samples: 4}\nsteps: 7\n")
    config = checked_config(read_file(file), str(file))
    assert (config.steps, config.collecting.samples, config.collecting.recipe) == (7, 4, "echo")
    assert config.collecting.critic_reward == "saturation"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "scienceworld"}, "no oracle can label single actions of scienceworld: take alfworld or webshop"),
        ({"trained": ["policy"]}, "rcm learns as a critic alone"),
    ],
)
def test_a_critic_of_actions_needs_labels_and_to_be_trained(changes, message):
    with pytest.raises(UsageError, match=message):
        checked_config(merged(method("rcm"), changes), "mine.yaml")


def test_merging_leaves_the_base_as_it_was():
    base = {"a": {"x": 1, "y": 2}, "b": 3}
    assert merged(base, {"a": {"y": 5}, "c": 6}) == {"a": {"x": 1, "y": 5}, "b": 3, "c": 6}
    assert base == {"a": {"x": 1, "y": 2}, "b": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stepz": 3}, "stepz: Extra inputs are not permitted"),
        ({"collecting": {"samples": 0}}, "collecting.samples: "),
        ({"optimising": {"lr": "fast"}}, "optimising.lr: "),
        ({"trained": []}, "trained: name policy, critic or both"),
        ({"trained": ["critic"]}, "learns as a policy alone"),
        ({"step": {"advantage": "reward"}}, "reward is for sft"),
        ({"collecting": {"recipe": "sft"}}, "reward is for sft"),
        ({"trained": ["policy"], "collecting": {"recipe": "icrl"}}, "shared weights learn both roles"),
        ({"optimising": {"lr": 1e-6, "critic_lr": 1e-5}}, "shared weights have one rate"),
        ({"save_every": 3, "step": {"updates": 2}}, "multiple of step.updates"),
        ({"save_every": 3, "evaluating": {"every": 4}}, "multiple of evaluating.every"),
        ({"save_every": 10, "evaluating": {"every": 20}}, "multiple of evaluating.every"),
    ],
)
def test_what_makes_no_run_is_refused(changes, message):
    with pytest.raises(UsageError, match=message) as refused:
        checked_config(merged(method("grpo"), changes), "mine.yaml")
    assert str(refused.value).startswith("mine.yaml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is no YAML"), ("- a", "must hold names and values"), ("base: nope", "unknown method 'nope'")],
)
def test_a_file_that_cannot_be_read_is_refused(text, message, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_file(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_file(tmp_path / "missing.yaml")
