"""A critic on screens that learns: it gets better on screens that it never saw, and goes on where it was stopped."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("peft")
pytest.importorskip("PIL")

import torch
from peft import PeftModel
from transformers import TrainerCallback

from align_echo.errors import UsageError
from align_echo.gaia.gui.fit import tiny_vision
from align_echo.gaia.gui.learning import VisionSettings, balanced, learn_on_screens, steps
from align_echo.gaia.gui.vision import next_logits
from tests.gaia.gui.drawn_screens import dataset, examples_in, learn

FEW = VisionSettings(weights="full", lr=1e-3, batch_size=4, at_once=2, save_every=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return dataset(tmp_path_factory.mktemp("drawn") / "data", 8, seed="few")


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.long
def test_it_learns_to_tell_which_box_is_clicked_on_screens_that_it_never_saw(tmp_path):
    """The better constant answer is right in half the cases; with 100 of them, 80% is six standard errors above."""
    learned = dataset(tmp_path / "learned", 600, seed="learned")
    tested = dataset(tmp_path / "tested", 50, seed="tested")
    accuracy, _ = learn(learned, tested, tmp_path / "out")
    assert accuracy >= 80


def test_the_gradient_of_a_step_does_not_depend_on_how_many_are_in_memory(folder, tmp_path):
    examples = examples_in(folder)[:6]
    found = []
    for at_once in (1, 6):
        model, encoder = tiny_vision()
        settings = FEW.model_copy(update={"batch_size": 6, "at_once": at_once, "warmup": 0.0})
        found.append(weights(learn_on_screens(model, encoder, examples, settings, tmp_path / str(at_once))))
    assert torch.allclose(found[0], found[1], atol=2e-4)
    assert not torch.allclose(found[0], weights(tiny_vision()[0]), atol=2e-4)


def test_the_loss_is_that_of_the_one_token(folder, tmp_path):
    """The first loss that the trainer tells is the cross-entropy of the untrained model's next tokens."""
    examples = examples_in(folder)[:3]
    model, encoder = tiny_vision()
    with torch.no_grad():
        batch = encoder.batch([example.sight(encoder) for example in examples], model.device)
        logits = next_logits(model.eval(), batch)
    words = [encoder.words[0 if example.label == "correct" else 1] for example in examples]
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(words)).item()
    told: list[float] = []

    class Listening(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            told.extend([logs["loss"]] if logs and "loss" in logs else [])

    settings = FEW.model_copy(update={"batch_size": 3, "epochs": 10})
    still = settings.model_copy(update={"lr": 1e-12})
    learn_on_screens(model, encoder, examples, still, tmp_path, callbacks=[Listening()])
    assert told[0] == pytest.approx(expected, rel=1e-3)


def test_lora_leaves_the_model_as_it_was_but_for_its_adapter(folder, tmp_path):
    model, encoder = tiny_vision()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    adapting = FEW.model_copy(update={"weights": "lora"})
    learned = learn_on_screens(model, encoder, examples_in(folder), adapting, tmp_path)
    assert isinstance(learned, PeftModel)
    after = {name.replace("base_layer.", ""): one for name, one in learned.get_base_model().state_dict().items()}
    assert all(torch.equal(one, after[name]) for name, one in before.items())
    adapted = {name for name, _ in learned.named_parameters() if "lora_B" in name}
    assert any("visual" in name for name in adapted)
    assert any("language_model" in name for name in adapted)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_stopped_training_ends_as_one_that_was_not_stopped(kind, folder, tmp_path):
    examples, settings = examples_in(folder), FEW.model_copy(update={"weights": kind})

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step == 2

    whole = learn_on_screens(*tiny_vision(), examples, settings, tmp_path / "whole")
    learn_on_screens(*tiny_vision(), examples, settings, tmp_path / "cut", callbacks=[Stop()])
    other = tiny_vision(seed=9 if kind == "full" else 0)
    resumed = learn_on_screens(*other, examples, settings, tmp_path / "cut", resume=True)
    assert torch.equal(weights(whole), weights(resumed))


def test_every_epoch_takes_every_example_once_in_an_order_of_its_own():
    made = steps(10, FEW.model_copy(update={"epochs": 2}))
    assert [len(one) for one in made] == [4, 4, 2, 4, 4, 2]
    first, second = list(chain(*made[:3])), list(chain(*made[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_as_many_right_as_wrong_actions_are_kept(folder):
    examples = examples_in(folder)
    kept = balanced([one for index, one in enumerate(examples) if one.label == "correct" or index < 6])
    assert sum(example.label == "correct" for example in kept) == len(kept) / 2 > 0
    with pytest.raises(UsageError, match="learns from both"):
        balanced([example for example in examples if example.label == "correct"])
    with pytest.raises(UsageError, match="no labelled action"):
        learn_on_screens(*tiny_vision(), [], FEW, Path("nowhere"))
