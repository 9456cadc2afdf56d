"""Every option of `train`, `critic train` and `critic evaluate`: what it gives to the training, or to the trial.

What settings do there is seen in `tests/train/test_config_reaches.py` and `tests/gaia/test_settings_reach.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.gaia.examples import FILE
from align_echo.train.run import TrainingRun
from tests.cli import test_critic, test_critic_evaluate, test_spending, test_train
from tests.cli.door_models import arguments
from tests.models.local.tiny import tiny_config
from tests.reach import Case, Row, Scene, check, options, unseen


@dataclass
class Given:
    """What was called, and what it was given."""

    what: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


def row(option: str, see: Callable[[Given], Any], *cases: Case) -> Row[Given]:
    return Row(option, see, cases)


def same(option: str, *values: Any) -> Row[Given]:
    """An option that is given under its own name."""
    return row(option, lambda given: given.values[option], *((value, value) for value in values))


def setting(option: str, *values: Any) -> Row[Given]:
    """An option that is a setting."""
    return row(option, lambda given: getattr(given.settings, option), *((value, value) for value in values))


def paths(name: str) -> Callable[[Given], str]:
    return lambda given: " ".join(map(str, given.values[name]))


RUNS: dict[str, Scene[Given]] = {
    "options": Scene(
        {},
        [
            row("method", lambda given: given.config.method, ("grpo", "grpo"), ("icrl", "icrl")),
            row("env", lambda given: given.config.env, ("alfworld", "alfworld"), ("webshop", "webshop")),
            row("model", lambda given: given.config.model, ("pocket", "pocket"), ("./start", "./start")),
            row("interface", lambda given: given.config.interface, ("none", "none"), ("probe", "probe")),
            row("tools", lambda given: given.config.tools, (False, False), (True, True)),
            row("steps", lambda given: given.config.steps, (3, 3), (4, 4)),
            row("seed", lambda given: given.config.seed, (1, 1), (2, 2)),
            row("out", lambda given: given.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "demonstrations": Scene(
        {"method": "sft", "demonstrations": "./here"},
        [
            row("demonstrations", lambda given: given.config.collecting.demonstrations,
                ("./here", ("./here",)), ("./there", ("./there",))),
            row("minimum_score", lambda given: given.config.collecting.minimum_score, (0.5, 0.5), (0.25, 0.25)),
        ],
    ),
    "file": Scene({}, [row("config", lambda given: given.config.steps, ("./seven.yaml", 7), ("./eight.yaml", 8))]),
    "trackers": Scene(
        {}, [row("report_to", lambda given: " ".join(given.config.report_to), ("none", ""), ("wandb", "wandb"))]
    ),
}

LEARNED = {"examples": "./here", "model": "./start"}

TRAININGS: dict[str, Scene[Given]] = {
    "options": Scene(
        {},
        [
            row("examples", paths("collections"), ("./here", "here"), ("./there", "there")),
            row("model", lambda given: given.model.text, ("./start", "./start"), ("./other", "./other")),
            same("rule", "expert", "nearer", "continues"),
            setting("weights", "lora", "full"),
            setting("lr", 1e-3, 2e-3),
            setting("epochs", 4, 5),
            setting("seed", 4, 5),
            row("config", lambda given: given.settings.batch_size, ("paper-gaia", 16), ("./mine.yaml", 5)),
            row("held_out", lambda given: given.share, (0.2, 0.2), (0.3, 0.3)),
            same("least", 3, 4),
            row("out", lambda given: given.path.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "reasoning": Scene(LEARNED, [row("reasoning", lambda given: given.what, (False, "fit"), (True, "fit_reasoning"))]),
    "reasoning by settings": Scene(
        {**LEARNED, "reasoning": True},
        [setting("weights", "lora", "full"), setting("lr", 1e-3, 2e-3), setting("seed", 4, 5)],
    ),
    "screens": Scene(
        {},
        [
            row("recording", lambda given: str(given.collections), ("./here", "here"), ("./there", "there")),
            row("predictions", paths("predictions"), ("./one", "one"), ("./two", "two")),
            setting("weights", "lora", "full"),
            setting("lr", 1e-3, 2e-3),
            setting("epochs", 4, 5),
            setting("seed", 4, 5),
        ],
    ),
}

def asked(option: str, *cases: Case) -> Row[Given]:
    """An option of a trial, in the config that the trial is given."""
    return row(option, lambda given: getattr(given.config, option), *cases)


TRIALS: dict[str, Scene[Given]] = {
    "options": Scene(
        LEARNED | {"model": None},
        [
            asked("judge", ("pocket", "pocket"), ("./start", "./start")),
            row("examples", lambda given: str(given.config.examples[0]), ("./here", "here"), ("./there", "there")),
            asked("rule", ("expert", "expert"), ("nearer", "nearer"), ("continues", "continues")),
            asked("pick", (None, ()), ("mine:RULE", ("mine:RULE",))),
            asked("env", (None, None), ("mine:World", "mine:World")),
            asked("agent", (None, None), ("mine:Agent", "mine:Agent")),
            asked("base_url", (None, None), ("http://a/v1", "http://a/v1")),
            asked("seed", (1, 1), (2, 2)),
            asked("reasoning", (False, False), (True, True)),
            asked("max_tokens", (None, None), (64, 64)),
            row("out", lambda given: given.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "votes": Scene(
        {"judge": "pocket", "examples": "./here", "reasoning": True}, [asked("votes", (None, None), (3, 3))]
    ),
}


class Enough(UsageError):
    """What was to be seen was seen."""


@pytest.fixture
def command(monkeypatch):
    """Give a command options, and say what it calls for the work, and with what."""
    for name in ("start", "other"):
        tiny_config().save_pretrained(name)
    for name in ("here", "there"):
        Path(name).mkdir()
        (Path(name) / FILE).touch()
    for name in ("one", "two"):
        Path(name).touch()
    Path("mine.yaml").write_text("batch_size: 5\n")
    for name, steps in (("seven", 7), ("eight", 8)):
        Path(f"{name}.yaml").write_text(f"method: grpo\nsteps: {steps}\n")
    records: list[Given] = []

    def heard(what: str, *names: str) -> Callable[..., Any]:
        def call(*given: Any, **by_name: Any) -> Any:
            records.append(Given(what, {**dict(zip(names, given, strict=False)), **by_name}))
            raise Enough("enough")

        return call

    monkeypatch.setattr("align_echo.train.trackers.find_spec", lambda name: object())
    monkeypatch.setattr(TrainingRun, "__init__", heard("train", "self", "config", "folder"))
    for where in ("cli.critic.fit", "gaia.fit.reasoning.fit_reasoning", "cli.critic.fit_screens"):
        what = where.rpartition(".")[2]
        monkeypatch.setattr(f"align_echo.{where}", heard(what, "collections", "path"))
    monkeypatch.setattr("align_echo.cli.critic.run_trial", heard("trial", "config", "folder"))

    def begin(*verb: str) -> Callable[[dict[str, Any], int], Given]:
        def call(values: dict[str, Any], number: int) -> Given:
            assert main([*verb, *arguments(values)]) == 2
            return records[-1]

        return call

    return begin


@pytest.mark.parametrize("name", RUNS)
def test_options_of_train_are_given_to_the_run(name, command):
    check(RUNS[name], command("train"))


@pytest.mark.parametrize("name", TRAININGS)
def test_options_of_critic_train_are_given_to_the_training(name, command):
    check(TRAININGS[name], command("critic", "train"))


@pytest.mark.parametrize("name", TRIALS)
def test_options_of_critic_evaluate_are_given_to_the_trial(name, command):
    check(TRIALS[name], command("critic", "evaluate"))


def test_every_option_is_seen():
    begun_anew = test_critic.test_a_training_that_wrote_half_a_checkpoint_resumes_and_one_without_any_is_begun_anew
    dry = {
        "dry_run": test_train.test_a_dry_run_says_what_it_would_cost_and_writes_nothing,
        "resume": test_train.test_a_run_goes_on_by_its_folder_alone,
    }
    again = {"resume": test_critic_evaluate.test_a_resumed_trial_asks_for_the_same}
    assert unseen(options("train"), RUNS.values(), dry) == []
    assert unseen(options("critic train"), TRAININGS.values(), {"resume": begun_anew}) == []
    assert unseen(options("critic evaluate"), TRIALS.values(), {**again, **test_spending.LIMITS}) == []
