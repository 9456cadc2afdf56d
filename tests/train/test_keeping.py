"""A training that is stopped at any moment keeps its last whole step, and goes on to the end of one that was not."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import EarlyStoppingCallback, TrainerCallback

from align_echo.errors import ModelError
from align_echo.run_dir import checkpoint_step, newest_checkpoint, whole_checkpoints
from align_echo.train.backbone import Backbone
from align_echo.train.rows import RolloutBatch
from align_echo.train.trainer import RoleTrainer
from tests.train.test_trainer import (
    adapters,
    differing,
    liking,
    liking_of,
    pair,
    settings_of,
    shared,
    trainer,
    weights_of,
)


def told_to_stop() -> None:
    signal.raise_signal(signal.SIGINT)


@dataclass
class Scene:
    """A run of six steps, which is stopped once, at the `at`-th time that it comes to a `moment`."""

    folder: Path
    make: Callable[[], Backbone]
    moment: str = ""
    at: int = 0
    updates: int = 1
    ahead: bool = False
    save_steps: int = 4
    evaluated: bool = False
    scores: Callable[[int], float] = lambda step: step / 10
    stop: Callable[[], None] = told_to_stop
    passed: int = 0
    played_by: dict[int, float] = field(default_factory=dict)
    evaluations: list[int] = field(default_factory=list)

    def reach(self, moment: str) -> None:
        self.passed += moment == self.moment
        if moment == self.moment and self.passed == self.at:
            self.stop()

    def run(self, *, resume: bool = False) -> tuple[Backbone, RoleTrainer, str]:
        """The backbone and the trainer, and what is noted of a stop."""
        backbone, published = self.make(), [0.0]

        def publish() -> None:
            published[0] = liking_of(backbone, "policy")

        def play(number: int) -> RolloutBatch:
            self.reach("playing")
            self.played_by[number] = published[0]
            return liking(number)

        def evaluate() -> dict[str, float]:
            self.reach("evaluating")
            self.evaluations.append(made.state.global_step)
            return {"score": self.scores(made.state.global_step)}

        class Look(TrainerCallback):
            def on_log(look, args, state, control, **kwargs):
                self.reach("logging")

        every: dict[str, Any] = {"save_steps": self.save_steps, "restore_callback_states_from_checkpoint": True}
        if self.evaluated:
            every |= {"eval_strategy": "steps", "eval_steps": self.save_steps, "load_best_model_at_end": True}
            every |= {"metric_for_best_model": "eval_score", "greater_is_better": True}
        patience = [EarlyStoppingCallback(1)] if self.evaluated else []
        made = trainer(
            self.folder,
            backbone,
            play,
            settings_of(updates=self.updates, ahead=self.ahead, tokens_per_batch=15),
            steps=6,
            publish=publish,
            evaluation=evaluate if self.evaluated else None,
            callbacks=[Look(), *patience],
            logging_steps=1,
            **every,
        )
        self._instrument(made)
        try:
            made.train(resume_from_checkpoint=newest_checkpoint(self.folder) or None if resume else None)
        except (KeyboardInterrupt, ModelError) as stop:
            return backbone, made, " ".join(stop.__notes__)
        finally:
            made.close()
        return backbone, made, ""

    def _instrument(self, made: Any) -> None:
        """Let the moments inside a step be come to."""
        backward, dice = made.accelerator.backward, made._save_rng_state
        step = made.optimizer.step

        def backwards(loss: torch.Tensor) -> None:
            self.reach("learning")
            backward(loss)
            self.reach("learned")

        def stepped(closure: Any = None) -> Any:
            self.reach("stepping")
            return step(closure)

        def saved(folder: str) -> None:
            self.reach("saving")
            dice(folder)

        made.accelerator.backward = backwards
        made.optimizer.step = stepped
        made._save_rng_state = saved


@pytest.fixture(autouse=True)
def ctrl_c_is_as_it_was() -> Iterator[None]:
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


MOMENTS: dict[str, tuple[str, int, int]] = {
    "before anything is learned": ("playing", 1, 0),
    "while the fourth harvest is played": ("playing", 4, 3),
    "between two batches": ("learned", 5, 2),
    "as a backward pass begins": ("learning", 4, 1),
    "amid a step of the optimizer": ("stepping", 3, 3),
    "as a step is logged": ("logging", 5, 5),
    "while a checkpoint is written": ("saving", 1, 4),
    "as the last step is made": ("stepping", 6, 6),
}
"""A moment, how often it is come to before the stop, and the step that is whole then."""


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_the_last_whole_step_is_kept_and_gone_on_from_to_the_bit(moment, tmp_path):
    name, at, step = MOMENTS[moment]
    wanted, _, _ = Scene(tmp_path / "whole", shared).run()
    scene = Scene(tmp_path / "cut", shared, name, at)
    _, _, told = scene.run()
    assert checkpoint_step(newest_checkpoint(scene.folder)) == step
    kept = f"step {step} is kept in {scene.folder / f'checkpoint-{step}'}"
    assert told == (kept if step else "no step is finished")
    assert {entry.name for entry in scene.folder.iterdir() if "checkpoint" in entry.name} == {
        checkpoint.name for checkpoint in whole_checkpoints(scene.folder)
    }
    resumed, again, _ = scene.run(resume=True)
    assert not differing(weights_of(wanted), weights_of(resumed))
    assert again.state.global_step == 6
    assert len(again.state.log_history) == 6 + 1


@pytest.mark.parametrize("make", [pair, pytest.param(adapters, marks=pytest.mark.long)])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("updates", "moment", "at"), [(1, "learned", 5), (2, "learned", 7), (2, "stepping", 3)])
def test_so_it_is_with_several_updates_of_a_harvest_and_with_harvests_played_ahead(
    make, ahead, updates, moment, at, tmp_path
):
    def scene(name: str, moment: str = "", at: int = 0) -> Scene:
        return Scene(tmp_path / name, make, moment, at, updates=updates, ahead=ahead)

    whole, cut = scene("whole"), scene("cut", moment, at)
    wanted, _, _ = whole.run()
    _, _, told = cut.run()
    assert told.startswith("step 2 is kept" if updates == 1 else "step 3 is kept")
    resumed, _, _ = cut.run(resume=True)
    assert not differing(weights_of(wanted), weights_of(resumed))
    assert cut.played_by.items() <= whole.played_by.items()


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("at", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_an_evaluation_that_was_cut_short_is_made_when_the_run_goes_on(at, ahead, tmp_path):
    def scene(name: str, moment: str = "", at: int = 0) -> Scene:
        return Scene(tmp_path / name, pair, moment, at, ahead=ahead, save_steps=2, evaluated=True)

    whole, cut = scene("whole"), scene("cut", "evaluating", at)
    wanted, first, _ = whole.run()
    _, _, told = cut.run()
    assert told.startswith(f"step {2 * at} is kept")
    resumed, again, _ = cut.run(resume=True)
    assert whole.evaluations == cut.evaluations == [2, 4, 6]
    assert not differing(weights_of(wanted), weights_of(resumed))
    assert cut.played_by.items() <= whole.played_by.items()
    for state in (first.state, again.state):
        assert (state.best_global_step, Path(str(state.best_model_checkpoint)).name) == (6, "checkpoint-6")
    states = (json.loads((each.folder / "checkpoint-6" / "trainer_state.json").read_text()) for each in (whole, cut))
    first_state, other = ({**state, "best_model_checkpoint": "", "log_history": 0} for state in states)
    assert first_state == other


@pytest.mark.long
def test_an_evaluation_that_was_cut_short_can_end_the_run(tmp_path):
    def scene(name: str, moment: str = "", at: int = 0) -> Scene:
        return Scene(tmp_path / name, pair, moment, at, save_steps=2, evaluated=True, scores=lambda step: -step)

    whole, cut = scene("whole"), scene("cut", "evaluating", 2)
    wanted, first, _ = whole.run()
    cut.run()
    resumed, again, _ = cut.run(resume=True)
    assert whole.evaluations == cut.evaluations == [2, 4]
    assert first.state.global_step == again.state.global_step == 4
    assert not differing(weights_of(wanted), weights_of(resumed))


def test_a_step_that_one_process_cannot_write_is_said_to_be_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(RoleTrainer, "_writes_alone", lambda self, step: False)
    _, _, told = Scene(tmp_path, shared, "learned", 5).run()
    assert told == "step 2 is lost, as one process alone cannot write it; no step is kept"
    assert newest_checkpoint(tmp_path) == ""


def test_a_step_that_was_cut_in_two_is_not_kept(tmp_path):
    """As where another handler of Ctrl-C raises at once."""

    def torn() -> None:
        raise KeyboardInterrupt

    scene = Scene(tmp_path, shared, "stepping", 3, stop=torn)
    _, _, told = scene.run()
    assert (told, newest_checkpoint(tmp_path)) == ("no step is finished", "")


def test_what_breaks_a_run_leaves_its_last_whole_step(tmp_path):
    def broken() -> None:
        raise ModelError("the endpoint is gone")

    scene = Scene(tmp_path, shared, "playing", 4, stop=broken)
    _, _, told = scene.run()
    assert told.startswith("step 3 is kept")


def test_a_step_that_cannot_be_written_is_told_of_and_the_one_before_is_kept(tmp_path, monkeypatch):
    def full(self: Any, folder: str) -> None:
        if folder.endswith("5"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(RoleTrainer, "_save_optimizer_and_scheduler", full)
    scene = Scene(tmp_path, shared, "playing", 6)
    _, _, told = scene.run()
    assert told == f"step 5 cannot be written (No space left on device); step 4 is kept in {tmp_path / 'checkpoint-4'}"
    assert [checkpoint.name for checkpoint in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]
