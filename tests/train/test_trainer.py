"""The trainer with a tiny model: it learns, keeps frozen what is frozen, resumes to the bit, stops at nonsense."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from transformers import TrainerCallback, TrainingArguments

from align_echo.errors import TrainingError, UsageError
from align_echo.tokens import TokenSequence
from align_echo.train.advantages import DELTA
from align_echo.train.backbone import ROLES, AdapterModels, Backbone, WholeModels
from align_echo.train.checkpoints import Evaluation
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.rows import Role, RolloutBatch, Row
from align_echo.train.signals import Signals
from align_echo.train.trainer import PlayFunction, RoleTrainer, StepSettings, build_optimizer
from tests.models.local.tiny import tiny_model

LIKED, OTHER = 40, 41
PROMPT: dict[Role, tuple[int, ...]] = {"policy": (5, 6, 7), "critic": (8, 9, 10, 11)}


def row(role: Role, token: int, reward: float, group: str = "g") -> Row:
    prompt = PROMPT[role]
    length = len(prompt)
    tokens = TokenSequence(
        ids=(*prompt, token),
        mask=(0,) * length + (1,),
        logprobs=(0.0,) * length + (-5.0,),
        turns=((length, length + 1),),
    )
    return Row(tokens, role, group, reward)


def liking(number: int) -> RolloutBatch:
    """Each role earns something for the one token only; the rest of the harvest depends on its number."""
    rows = [row(role, token, float(token == LIKED)) for role in ROLES for token in (LIKED, OTHER, 50 + number)]
    return RolloutBatch(tuple(rows), steps=3)


def settings_of(objective: ObjectiveSettings | None = None, **changes: Any) -> StepSettings:
    return StepSettings(objective=objective or ObjectiveSettings(), **changes)


def trainer(
    folder: Path,
    backbone: Backbone,
    recipe: PlayFunction = liking,
    settings: StepSettings | None = None,
    *,
    steps: int = 4,
    lr: float = 1e-2,
    callbacks: Sequence[TrainerCallback] = (),
    seen: list[tuple[int, Signals]] | None = None,
    evaluation: Evaluation | None = None,
    publish: Callable[[], None] = lambda: None,
    **changes: Any,
) -> RoleTrainer:
    usual: dict[str, Any] = {"learning_rate": lr, "lr_scheduler_type": "linear", "save_steps": 2, "seed": 1}
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=steps, report_to=[], use_cpu=True, disable_tqdm=True, **(usual | changes)
    )
    return RoleTrainer(
        backbone,
        recipe,
        settings or settings_of(),
        arguments,
        optimizer=build_optimizer(backbone, dict.fromkeys(ROLES, lr)),
        publish=publish,
        watch=lambda step, signals: seen.append((step, signals)) if seen is not None else None,
        evaluation=evaluation,
        callbacks=callbacks,
        last=folder / "last",
    )


def liking_of(backbone: Backbone, role: Role) -> float:
    model = backbone.activate(role)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([PROMPT[role]])).logits[0, -1]
    return float(logits.log_softmax(-1)[LIKED])


def shared() -> WholeModels:
    model = tiny_model()
    return WholeModels({"policy": model, "critic": model})


def pair(trained: Sequence[Role] = ROLES) -> WholeModels:
    return WholeModels({"policy": tiny_model(), "critic": tiny_model(seed=1)}, trained=trained)


def adapters(trained: Sequence[Role] = ROLES) -> AdapterModels:
    torch.manual_seed(0)
    return AdapterModels(tiny_model(), LoraConfig(r=4, target_modules="all-linear"), trained=trained)


def weights_of(backbone: Backbone) -> dict[str, torch.Tensor]:
    return {name: weights.detach().clone() for name, weights in backbone.module.named_parameters()}


def differing(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("make", [shared, pair, adapters])
def test_what_earns_more_becomes_likelier_in_both_roles(make, tmp_path):
    backbone = make()
    before = {role: liking_of(backbone, role) for role in ROLES}
    trainer(tmp_path, backbone, steps=8).train()
    for role in ROLES:
        assert liking_of(backbone, role) > before[role] + 0.3


@pytest.mark.parametrize("make", [pair, adapters])
@pytest.mark.parametrize("role", ROLES)
def test_a_frozen_role_keeps_its_weights_to_the_bit(make, role, tmp_path):
    backbone = make(trained=(role,))
    before = weights_of(backbone)
    trainer(tmp_path, backbone, settings=settings_of(ObjectiveSettings()), steps=3).train()
    changed = differing(before, weights_of(backbone))
    assert changed
    assert all(f"{role}." in name for name in changed)


def test_a_kl_term_leaves_both_adapters_their_gradients_to_be_clipped(tmp_path):
    seen: list[tuple[int, Signals]] = []
    trainer(tmp_path, adapters(), settings=settings_of(ObjectiveSettings(beta=0.1)), steps=1, seen=seen).train()
    assert all(seen[0][1][f"{role}/grad_norm"] > 0 for role in ROLES)


@pytest.mark.long
@pytest.mark.parametrize("make", [pair, adapters])
def test_a_critic_learns_alone_while_it_warms_up(make, tmp_path):
    backbone, warming = make(), settings_of(critic_warmup=2)
    seen: list[tuple[int, Signals]] = []
    before = weights_of(backbone)
    trainer(tmp_path / "a", backbone, settings=warming, steps=2).train()
    assert {"critic." in name for name in differing(before, weights_of(backbone))} == {True}
    backbone = make()
    trainer(tmp_path / "b", backbone, settings=warming, steps=3, seen=seen).train()
    assert {"critic." in name for name in differing(before, weights_of(backbone))} == {True, False}
    assert [("policy/loss" in signals, "policy/reward" in signals) for _, signals in seen] == [
        (False, True),
        (False, True),
        (True, True),
    ]


def test_the_models_own_weights_stay_as_they_are_under_adapters(tmp_path):
    backbone = adapters()
    before = weights_of(backbone)
    trainer(tmp_path, backbone, steps=3).train()
    changed = differing(before, weights_of(backbone))
    assert {"lora" in name for name in changed} == {True}
    assert {role for role in ROLES for name in changed if f".{role}." in name} == set(ROLES)


@pytest.mark.long
def test_gradient_checkpointing_does_not_mix_up_adapters(tmp_path):
    plain, checkpointed = adapters(), adapters()
    checkpointed.module.train()
    base = checkpointed.activate("policy").get_base_model()
    base.gradient_checkpointing_enable({"use_reentrant": False})
    trainer(tmp_path / "a", plain).train()
    trainer(tmp_path / "b", checkpointed).train()
    after, other = weights_of(plain), weights_of(checkpointed)
    assert all(torch.allclose(after[name], other[name], atol=1e-6) for name in after)


class StopAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self._step


@pytest.mark.long
@pytest.mark.parametrize("make", [shared, pair, adapters])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_disturbed(make, updates, tmp_path):
    straight = make()
    trainer(tmp_path / "straight", straight, settings=settings_of(updates=updates)).train()
    trainer(tmp_path / "cut", make(), settings=settings_of(updates=updates), callbacks=[StopAt(2)]).train()
    resumed = make()
    trainer(tmp_path / "cut", resumed, settings=settings_of(updates=updates)).train(resume_from_checkpoint=True)
    assert differing(weights_of(straight), weights_of(resumed)) == set()


def test_a_second_update_uses_the_log_probabilities_of_the_first(tmp_path):
    seen: list[tuple[int, Signals]] = []
    harvests: list[int] = []

    def recipe(number: int) -> RolloutBatch:
        harvests.append(number)
        return liking(number)

    trainer(tmp_path, shared(), recipe, settings_of(updates=2), lr=0.1, seen=seen).train()
    assert harvests == [0, 1]
    clipped = [signals["policy/clip_share"] for _, signals in seen]
    assert clipped[0] == clipped[2] == 0
    assert clipped[1] > 0
    assert [signals["policy/outside_share"] >= signals["policy/clip_share"] for _, signals in seen] == [True] * 4
    furthest = [signals["policy/most_log_ratio"] for _, signals in seen]
    assert furthest[0] == furthest[2] == 0
    assert min(furthest[1], furthest[3]) > math.log(1.2)  # beyond the clip: what is told comes before it


@pytest.mark.parametrize("tokens", [5, 10])
def test_every_batch_is_measured_against_its_own_log_probabilities(tokens, tmp_path):
    seen: list[tuple[int, Signals]] = []
    settings = settings_of(updates=2, tokens_per_batch=tokens, share_prefixes=False)
    trainer(tmp_path, shared(), settings=settings, lr=0.0, seen=seen).train()
    furthest = [signals[f"{role}/most_log_ratio"] for _, signals in seen for role in ROLES]
    assert furthest == [0.0] * 8  # nothing was learned, so nothing has moved


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_batch(tmp_path):
    backbone = shared()
    with torch.no_grad():
        next(iter(backbone.module.parameters())).fill_(math.nan)
    with pytest.raises(TrainingError, match="post-mortem"):
        trainer(tmp_path, backbone).train()
    kept = torch.load(tmp_path / "post-mortem.pt")
    assert kept["step"] == 1
    assert kept["role"] in ROLES


def silent(role: Role, length: int, *, first: bool = False) -> Row:
    """A row in which the model said nothing; with `first`, nothing but a first token, which follows on nothing."""
    mask = (int(first), *[0] * (length - 1))
    tokens = TokenSequence(tuple(range(20, 20 + length)), mask, (0.0,) * length, ((0, 1),) if first else ())
    return Row(tokens, role, "g", 0.0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("objective", [ObjectiveSettings(), ObjectiveSettings(beta=0.1)])
@pytest.mark.parametrize("quiet", [[silent("policy", 9)], [silent("policy", 1, first=True), silent("policy", 30)]])
def test_rows_in_which_nothing_was_said_count_nothing_and_end_no_run(quiet, objective, share, tmp_path):
    said = liking(0).rows

    def learned(rows: Sequence[Row], folder: str) -> dict[str, torch.Tensor]:
        backbone = WholeModels({"policy": tiny_model(), "critic": tiny_model(seed=1)}, reference=True)
        settings = settings_of(objective, advantage="reward", tokens_per_batch=9, share_prefixes=share)
        trainer(tmp_path / folder, backbone, lambda number: RolloutBatch(tuple(rows)), settings, steps=2).train()
        return weights_of(backbone)

    assert not differing(learned(said, "without"), learned((*quiet, *said), "with"))


def test_a_harvest_in_which_nothing_was_said_changes_nothing(tmp_path):
    backbone = pair()
    before = weights_of(backbone)
    rows = tuple(replace(silent(role, 5 + reward), reward=reward) for role in ROLES for reward in (0, 1))
    trainer(tmp_path, backbone, lambda number: RolloutBatch(rows), settings_of(ObjectiveSettings()), steps=2).train()
    assert not differing(before, weights_of(backbone))


def test_a_harvest_that_teaches_nothing_changes_nothing(tmp_path):
    backbone = shared()
    before = weights_of(backbone)
    seen: list[tuple[int, Signals]] = []
    alike = RolloutBatch((row("policy", LIKED, 1.0), row("policy", OTHER, 1.0)))
    trainer(tmp_path, backbone, lambda number: alike, seen=seen).train()
    assert differing(before, weights_of(backbone)) == set()
    assert seen[0][1]["zero_variance_share"] == 1.0


@pytest.mark.parametrize("joint", [False, True])
def test_roles_are_one_group_where_the_settings_say_so_and_nowhere_else(joint, tmp_path):
    backbone, seen = shared(), list[tuple[int, Signals]]()
    before = weights_of(backbone)
    harvest = RolloutBatch(
        tuple(row(role, token, float(role == "policy")) for role in ROLES for token in (LIKED, OTHER))
    )
    trainer(tmp_path, backbone, lambda number: harvest, settings_of(joint=joint), steps=1, seen=seen).train()
    assert (differing(before, weights_of(backbone)) != set()) is joint
    assert seen[0][1]["groups"] == (1 if joint else 2)
    assert seen[0][1]["zero_variance_share"] == (0 if joint else 1)


@pytest.mark.long
def test_advantages_are_scaled_where_the_settings_say_so(tmp_path):
    norms = {}
    for scaled in (False, True):
        seen = list[tuple[int, Signals]]()
        settings = settings_of(scaled=scaled)
        trainer(tmp_path / str(scaled), shared(), settings=settings, steps=1, seen=seen).train()
        norms[scaled] = seen[0][1]["policy/grad_norm"]
    deviation = 3**-0.5
    assert norms[False] / norms[True] == pytest.approx(deviation + DELTA, rel=1e-4)


@pytest.mark.long
def test_roles_that_share_weights_are_one_mean_and_others_one_each(tmp_path):
    harvest = RolloutBatch(tuple(row for row in liking(0).rows if row.role == "policy"))
    extra = tuple(row("critic", token, 0.5, "other") for token in (LIKED, OTHER, 50))
    for make, share in ((shared, 0.5), (pair, 1.0), (adapters, 1.0)):
        norms = []
        for rows in (harvest.rows, (*harvest.rows, *extra)):
            seen = list[tuple[int, Signals]]()
            harvested = RolloutBatch(rows)
            trainer(
                tmp_path / f"{make.__name__}{len(rows)}", make(), {0: harvested}.__getitem__, steps=1, seen=seen
            ).train()
            norms.append(seen[0][1]["policy/grad_norm"])
        assert norms[1] / norms[0] == pytest.approx(share, rel=1e-4)


def beside_its_start() -> WholeModels:
    model = tiny_model()
    return WholeModels({"policy": model, "critic": model}, reference=True)


@pytest.mark.parametrize("make", [beside_its_start, adapters])
def test_the_reference_stays_where_the_model_began(make, tmp_path):
    seen: list[tuple[int, Signals]] = []
    trainer(tmp_path, make(), settings=settings_of(ObjectiveSettings(beta=0.1)), steps=2, lr=0.1, seen=seen).train()
    for role in ROLES:
        first, second = (signals[f"{role}/kl"] for _, signals in seen)
        assert first == pytest.approx(0, abs=1e-6)
        assert second > 1e-4


@pytest.mark.long
def test_a_kl_term_holds_the_model_near_its_start(tmp_path):
    def moved(beta: float) -> float:
        backbone = beside_its_start()
        before = liking_of(backbone, "policy")
        trainer(tmp_path / str(beta), backbone, settings=settings_of(ObjectiveSettings(beta=beta)), steps=8).train()
        return liking_of(backbone, "policy") - before

    assert 0 < moved(5.0) < moved(0.0)


def test_the_signals_of_a_step(tmp_path):
    seen: list[tuple[int, Signals]] = []
    trainer(tmp_path, shared(), steps=1, seen=seen).train()
    ((step, signals),) = seen
    assert step == 1
    assert signals["policy/reward"] == pytest.approx(1 / 3)
    assert signals["policy/reward_std"] == pytest.approx(math.sqrt(2) / 3)  # of 1, 0 and 0
    assert signals["critic/tokens"] == 3
    assert signals["environment_steps"] == 3
    assert signals["policy/mismatch/from_turn_0"] > 0
    assert signals["policy/entropy"] > 0
    assert signals["trained_tokens"] == sum(len(row(role, 1, 0.0).tokens.ids) * 3 - saved(role) for role in ROLES)


def saved(role: Role) -> int:
    """Tokens that three rows of a role need not compute: the prompt of two, which all three share."""
    return 2 * len(PROMPT[role])


class Logged(TrainerCallback):
    def __init__(self) -> None:
        self.logs: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.logs.append(dict(logs))


def test_trackers_are_given_the_signals_and_standard_output_nothing(tmp_path, capsys):
    logged, seen = Logged(), list[tuple[int, Signals]]()
    trainer(tmp_path, pair(), steps=2, seen=seen, callbacks=[logged], logging_steps=1).train()
    for logs, (_, signals) in zip(logged.logs[:2], seen, strict=True):
        assert signals.items() <= logs.items()
        both = math.hypot(signals["policy/grad_norm"], signals["critic/grad_norm"])
        assert logs["grad_norm"] == pytest.approx(both)
        assert both > 0
    assert capsys.readouterr().out == ""


@pytest.mark.long
def test_gradients_of_one_role_do_not_make_the_others_smaller(tmp_path):
    def alone(number: int) -> RolloutBatch:
        return RolloutBatch(tuple(row for row in liking(number).rows if row.role == "policy"))

    together, apart = pair(), pair()
    trainer(tmp_path / "a", together, max_grad_norm=0.01).train()
    trainer(tmp_path / "b", apart, alone, max_grad_norm=0.01).train()
    assert all("critic." in name for name in differing(weights_of(together), weights_of(apart)))


def test_a_gradient_that_is_no_number_stops_the_run(tmp_path):
    backbone = shared()
    backbone.weights("policy")[0].register_hook(lambda grad: grad * math.nan)  # type: ignore[no-untyped-call]
    before = weights_of(backbone)
    with pytest.raises(TrainingError, match="the gradient of step 1"):
        trainer(tmp_path, backbone).train()
    assert differing(before, weights_of(backbone)) == set()


def test_roles_that_share_weights_cannot_be_frozen_apart_or_learn_at_two_rates():
    model = tiny_model()
    with pytest.raises(UsageError, match="shares its weights"):
        WholeModels({"policy": model, "critic": model}, trained=("policy",))
    with pytest.raises(TrainingError, match="one learning rate"):
        build_optimizer(WholeModels({"policy": model, "critic": model}), {"policy": 1e-3, "critic": 1e-4})


def test_rates_by_role():
    groups = build_optimizer(pair(), {"policy": 1e-3, "critic": 1e-4}).param_groups
    assert [group["lr"] for group in groups] == [1e-3, 1e-4]
    assert not set(map(id, groups[0]["params"])) & set(map(id, groups[1]["params"]))


def test_checkpoints_hold_models_that_can_be_loaded(tmp_path):
    backbone = pair()
    trainer(tmp_path, backbone, steps=2).train()
    for role, reread in itertools.product(ROLES, [pair()]):
        reread.load(role, tmp_path / "checkpoint-2" / role)
        assert liking_of(reread, role) == pytest.approx(liking_of(backbone, role), abs=1e-6)


def test_the_best_weights_are_loaded_at_the_end_and_the_last_ones_kept(tmp_path):
    backbone, scores = pair(), iter((0.9, 0.1))
    trainer(
        tmp_path,
        backbone,
        evaluation=lambda: {"score": next(scores)},
        eval_strategy="steps",
        eval_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_score",
        greater_is_better=True,
    ).train()
    for role in ROLES:
        best, last = liking_of(backbone, role), pair()
        last.load(role, tmp_path / "last" / role)
        at_two = pair()
        at_two.load(role, tmp_path / "checkpoint-2" / role)
        assert best == pytest.approx(liking_of(at_two, role), abs=1e-6)
        assert liking_of(last, role) > best + 0.01


def test_half_precision_is_used_where_it_is_asked_for_and_is_near(tmp_path):
    norms = []
    for name, bf16 in (("single", False), ("half", True)):
        seen: list[tuple[int, Signals]] = []
        trainer(tmp_path / name, shared(), steps=1, seen=seen, bf16=bf16).train()
        norms.append(seen[0][1]["policy/grad_norm"])
    assert norms[0] != norms[1]
    assert norms[1] == pytest.approx(norms[0], rel=0.05)
