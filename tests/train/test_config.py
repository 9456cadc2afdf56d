"""Configs: the methods that ship, a user's file on top of one, and what is refused in one line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from align_echo.errors import UsageError
from align_echo.train.config import TrainConfig, checked_config, merged, method, read_file
from align_echo.train.presets import about, methods


@pytest.mark.parametrize("name", methods())
def test_every_method_that_ships_is_a_run_and_says_what_it_is(name):
    assert checked_config(method(name), name).steps > 0
    assert about(name).endswith(".")


METHODS_OWN: Any = {
    **dict.fromkeys(("method", "weights", "trained", "critic"), True),
    "collecting": {"rounds", "states", "critique_won", "critic_reward", "form"},
    "step": {"joint": True, "critic_warmup": True, "objective": {"reweigh", "max_weight", "expert", "gamma"}},
    "optimising": {"critic_lr"},
}
"""What a method may set because it is that method."""


def shared_settings(config: TrainConfig) -> dict[str, Any]:
    """All that has to be alike where methods are compared."""
    return config.model_dump(exclude=METHODS_OWN)


@pytest.mark.parametrize(
    "name", [name for name in methods() if not name.startswith("paper-") and name not in ("gspo", "sft", "rcm")]
)
def test_methods_are_alike_in_everything_but_the_method(name):
    assert shared_settings(checked_config(method(name), name)) == shared_settings(checked_config(method("grpo"), ""))


STUDIES = Path(__file__).parents[2] / "studies" / "training"


@pytest.mark.parametrize("study", sorted(folder.name for folder in STUDIES.iterdir()))
def test_the_arms_of_a_study_are_alike_in_everything_but_the_method(study):
    shared = [shared_settings(checked_config(read_file(file), str(file))) for file in (STUDIES / study).glob("*.yaml")]
    assert len(shared) > 1
    assert all(settings == shared[0] for settings in shared)


def test_the_papers_settings_have_their_names():
    icrl, echo = (checked_config(method(f"paper-{name}"), name) for name in ("icrl", "echo"))
    assert (icrl.optimising.weight_decay, icrl.optimising.betas, icrl.collecting.turns) == (0.1, (0.9, 0.98), 30)
    assert (icrl.step.normalisation, icrl.step.objective.max_weight, icrl.collecting.rounds) == ("token", 2.0, 2)
    assert (echo.step.normalisation, echo.step.objective.beta, echo.weights) == ("sequence", 0.001, "models")
    assert {config.optimising.lr for config in (icrl, echo)} == {1e-6}
    assert {config.collecting.samples for config in (icrl, echo)} == {8}


def test_a_file_changes_single_values_of_its_base(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("method: echo\ncollecting: {samples: 4}\nsteps: 7\n")
    config = checked_config(read_file(file), str(file))
    assert (config.steps, config.collecting.samples, config.method) == (7, 4, "echo")
    assert config.collecting.critic_reward == "saturation"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "scienceworld"}, "scienceworld does not measure .*: take alfworld or .* or webshop"),
        ({"trained": ["policy"]}, "rcm learns as a critic alone"),
        ({"collecting": {"rule": "continues"}}, "collecting.rule: alfworld is not labelled by the rule continues"),
        (
            {"env": "scienceworld", "collecting": {"rule": "nearer"}},
            "collecting.rule: scienceworld is not labelled by the rule nearer",
        ),
    ],
)
def test_a_critic_of_actions_needs_labels_and_to_be_trained(changes, message):
    with pytest.raises(UsageError, match=message):
        checked_config(merged(method("rcm"), changes), "mine.yaml")


def test_a_label_rule_that_measures_no_distance_needs_none():
    changes = {"env": "scienceworld", "collecting": {"rule": "continues"}}
    assert checked_config(merged(method("rcm"), changes), "mine.yaml").collecting.rule == "continues"


def test_merging_leaves_the_base_as_it_was():
    base = {"a": {"x": 1, "y": 2}, "b": 3}
    assert merged(base, {"a": {"y": 5}, "c": 6}) == {"a": {"x": 1, "y": 5}, "b": 3, "c": 6}
    assert base == {"a": {"x": 1, "y": 2}, "b": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stepz": 3}, "stepz: there is no such setting"),
        ({"collecting": {"samples": 0}}, "collecting.samples: "),
        ({"optimising": {"lr": "fast"}}, "optimising.lr: must be a number, not 'fast'"),
        ({"trained": []}, "trained: name policy, critic or both"),
        ({"trained": ["critic"]}, "learns as a policy alone"),
        ({"step": {"advantage": "reward"}}, "reward is for methods that imitate"),
        ({"method": "sft"}, "reward is for methods that imitate"),
        ({"trained": ["policy"], "method": "icrl"}, "shared weights learn both roles"),
        ({"optimising": {"lr": 1e-6, "critic_lr": 1e-5}}, "shared weights have one rate"),
        ({"save_every": 3, "step": {"updates": 2}}, "multiple of step.updates"),
        ({"evaluating": {"every": 3}, "step": {"updates": 2}}, "multiple of step.updates"),
        ({"save_every": 20, "evaluating": {"every": 10}}, "leave it out, or take evaluating.every"),
        ({"save_every": 10, "evaluating": {"every": 20}}, "leave it out, or take evaluating.every"),
        ({"evaluating": {"patience": 2}}, "patience: needs evaluating.every"),
        ({"collecting": {"samples": 1}}, "take 2 or more"),
        ({"collecting": {"temperature": math.inf}}, "collecting.temperature: "),
        ({"collecting": {"history_turns": 0}}, "collecting.history_turns: "),
        ({"collecting": {"history_turns": 2}, "method": "icrl", "trained": ["policy", "critic"]}, "a bounded history"),
        ({"collecting": {"history_tokens": 500}, "backend": "trl"}, "takes an episode as one sequence"),
        ({"step": {"critic_warmup": 3}}, "critic_warmup: needs both roles trained, with weights"),
        ({"task_types": []}, "task_types: "),
        ({"step": {"updates": 0}}, "step.updates: "),
        ({"step": {"tokens_per_batch": 0}}, "step.tokens_per_batch: "),
        ({"step": {"objective": {"clip_low": 3}}}, "step.objective.clip_low: "),
        ({"step": {"objective": {"beta": -1}}}, "step.objective.beta: "),
        ({"step": {"objective": {"max_weight": 0}}}, "step.objective.max_weight: "),
        ({"step": {"objective": {"gamma": 0}}}, "step.objective.gamma: "),
        ({"optimising": {"betas": [2, 0.9]}}, "optimising.betas.0: "),
        ({"seed": 2**40}, "seed: "),
        ({"report_to": ["nonsense"]}, "unknown tracker 'nonsense'; known: tensorboard, wandb"),
    ],
)
def test_what_makes_no_run_is_refused(changes, message):
    with pytest.raises(UsageError, match=message) as refused:
        checked_config(merged(method("grpo"), changes), "mine.yaml")
    assert str(refused.value).startswith("mine.yaml: ")
    assert "\n" not in str(refused.value)


def test_a_run_without_a_method_is_told_of_the_methods():
    with pytest.raises(UsageError, match="begin the file with method: METHOD, one of critique-grpo, echo, "):
        checked_config({"env": "alfworld"}, "mine.yaml")


def test_checkpoints_fall_on_evaluations():
    changed = merged(method("grpo"), {"evaluating": {"every": 7}})
    assert checked_config(changed, "mine.yaml").steps_a_checkpoint == 7
    assert checked_config(method("grpo"), "grpo").steps_a_checkpoint == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is no YAML"), ("- a", "must hold names and values"), ("base: nope", "unknown method 'nope'")],
)
def test_a_file_that_cannot_be_read_is_refused(text, message, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_file(file)
    with pytest.raises(UsageError, match=r"^there is no file .*missing\.yaml$"):
        read_file(tmp_path / "missing.yaml")
