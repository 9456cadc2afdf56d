"""`backend: trl` beside our own trainer: the same recipes end at the same weights, what TRL cannot do is refused."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback, TrainingArguments
from trl.trainer.grpo_trainer import GRPOTrainer

from align_echo.errors import TrainingError, UsageError
from align_echo.tokens import TokenSequence
from align_echo.train.advantages import DELTA
from align_echo.train.arguments import run_settings
from align_echo.train.backbone import AdapterModels, WholeModels
from align_echo.train.config import checked_config, merged, method
from align_echo.train.role_models import build_lora_config
from align_echo.train.rows import Role, RolloutBatch, Row
from align_echo.train.run import TrainingRun
from align_echo.train.signals import Signals
from align_echo.train.trainer import RoleTrainer, build_optimizer
from align_echo.train.trl_trainer import MicroBatches, TrlTrainer, divided, grpo_arguments, plan_micro_batches
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.train.test_processes import check_same, losses, values_of, weights

pytestmark = pytest.mark.filterwarnings("ignore:.*(is_)?gradient_checkpointing.* is deprecated:FutureWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def train(values: dict[str, Any], folder: Path, *, resume: bool = False, until: int | None = None) -> None:
    class Stop(Exception):
        pass

    def watch(step: int, signals: dict[str, float]) -> None:
        if step == until:
            raise Stop

    with suppress(Stop):
        TrainingRun(checked_config(values, "test"), folder, resume=resume).train(watch)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one model": ("grpo", {}),
    "adapters, clipped apart": ("echo", {"weights": "adapters", "optimising": {"max_grad_norm": 0.1}}),
    "w_t": ("icrl", {"trl": {"rows": 3}}),
    "ratios of sequences": (
        "grpo",
        {
            "steps": 4,
            "save_every": 2,
            "step": {
                "normalisation": "sequence",
                "updates": 2,
                "objective": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
            },
        },
    ),
    "a KL term": ("echo", {"weights": "adapters", "step": {"objective": {"beta": 0.1}}}),
    "a KL term to a copy": ("grpo", {"step": {"objective": {"beta": 0.1}}}),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_both_backends_end_at_the_same_weights(case, model, tmp_path):
    name, changes = CASES[case]
    values = merged(values_of(name, model), changes)
    train(values, tmp_path / "own")
    train({**values, "backend": "trl"}, tmp_path / "trl")
    start = weights_at_start(model)
    moved = max(
        float((tensor - start.get(key, 0 * tensor)).abs().max())
        for key, tensor in weights(tmp_path / "own").items()
        if "lora_A" not in key
    )
    assert moved > 1e-3
    check_same(tmp_path / "own", tmp_path / "trl", within=3e-5)


def weights_at_start(model: str) -> dict[str, torch.Tensor]:
    return {f"policy {name}": tensor for name, tensor in tiny_model(context=4096).state_dict().items()}


@pytest.mark.long
def test_a_stopped_run_goes_on_to_the_same_end(model, tmp_path):
    values = {**values_of("echo", model, weights="adapters"), "backend": "trl"}
    values = merged(values, {"evaluating": {"every": 1, "tasks": 2}, "save_every": None})
    train(values, tmp_path / "whole")
    train(values, tmp_path / "cut", until=2)
    train(values, tmp_path / "cut", resume=True)
    last, other = (weights(tmp_path / run / "last") for run in ("whole", "cut"))
    assert all(torch.equal(last[name], other[name]) for name in last)
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")
    assert len((tmp_path / "cut" / "held_out.jsonl").read_text().splitlines()) == 4


@pytest.mark.long
@pytest.mark.parametrize("at", [2, 3])
def test_a_run_that_is_stopped_amid_a_step_keeps_the_one_before_and_goes_on_to_the_same_end(
    at, model, tmp_path, monkeypatch
):
    """With two updates of a harvest: at the third step the second harvest is half learned from."""
    values = merged(values_of("grpo", model), {"backend": "trl", "steps": 4, "save_every": 4, "step": {"updates": 2}})
    train(values, tmp_path / "whole")
    learn = TrlTrainer.training_step

    def stopped(self: Any, *given: Any) -> torch.Tensor:
        if self.state.global_step == at:
            signal.raise_signal(signal.SIGINT)
        return learn(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(TrlTrainer, "training_step", stopped)
        with pytest.raises(KeyboardInterrupt) as stop:
            train(values, tmp_path / "cut")
    checkpoint = tmp_path / "cut" / "checkpoints" / f"checkpoint-{at}"
    assert stop.value.__notes__ == [f"step {at} is kept in {checkpoint}"]
    assert (checkpoint / "harvest.pt").is_file() == (at == 3)
    train(values, tmp_path / "cut", resume=True)
    assert [name for name, tensor in weights(tmp_path / "whole").items() if not torch.equal(
        tensor, weights(tmp_path / "cut")[name]
    )] == []  # fmt: skip
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("echo", {}, "adapters"),
        ("sft", {"env": "alfworld"}, "likelihood"),
        ("luffy", {"env": "alfworld"}, "shaped"),
        ("echo", {"weights": "adapters", "step": {"critic_warmup": 1}}, "critic_warmup"),
        ("grpo", {"step": {"normalisation": "sequence", "objective": {"beta": 0.1}}}, "KL term"),
        ("grpo", {"step": {"objective": {"beta": 0.1, "kl": "k1"}}}, "KL term"),
    ],
)
def test_what_trl_cannot_express_is_refused_before_anything_is_loaded(name, changes, why):
    values = merged(merged(method(name), changes), {"backend": "trl"})
    with pytest.raises(UsageError, match=f"backend: trl .*{why}.*: take own"):
        checked_config(values, "test")


def test_micro_batches_have_as_many_rows_in_every_process(monkeypatch):
    def row(length: int) -> Row:
        return Row(TokenSequence((0,) * length, (1,) * length, (0.0,) * length, ()), "policy", "", 1.0)

    taught = [(row(length), 1.0, 1.0) for length in (2, 9, 4, 7, 3)]
    plan, shares = MicroBatches(2, {"policy": 2}), []
    monkeypatch.setattr("align_echo.train.processes.count", lambda: 2)
    for number in (0, 1):
        monkeypatch.setattr("align_echo.train.processes.index", lambda number=number: number)
        shares.append([[len(row.tokens.ids) for row, *_ in part] for part in divided(taught, "policy", plan)])
    assert [[len(part) for part in share] for share in shares] == [[2, 1], [2, 1]]
    assert shares == [[[9, 4], [2]], [[7, 3], [2]]]  # the last is of no row: it counts nothing
    with pytest.raises(TrainingError, match="room for 8"):
        divided(taught * 2, "policy", plan)

# ---------------------------------------------------------------- steps without a gradient, rows without a token


def one_token(role: Role, token: int, reward: float) -> Row:
    """A row that ends in one sampled token."""
    ids = (5, 6, 7, 8, token)
    return Row(TokenSequence(ids, (0, 0, 0, 0, 1), (0.0,) * 4 + (-5.0,), ((4, 5),)), role, "g", reward)


def silent(role: Role, length: int) -> Row:
    """A row in which the model said nothing, and which would be the best of its group."""
    return Row(TokenSequence(tuple(range(20, 20 + length)), (0,) * length, (0.0,) * length, ()), role, "g", 1.0)


def told(*roles: Role) -> RolloutBatch:
    """Rows of which one earned something in these roles, and nothing in the other."""
    both: tuple[Role, ...] = ("policy", "critic")
    return RolloutBatch(
        tuple(one_token(role, token, float(token == 40 and role in roles)) for role in both for token in (40, 41, 42))
    )


NOTHING_SAID = RolloutBatch((silent("policy", 3), replace(silent("policy", 9), reward=0.0)))


@dataclass
class Course:
    """What a trainer went through: weights after each step, and the rate that it told trackers."""

    weights: list[dict[str, torch.Tensor]]
    rates: list[float]
    moments: dict[str, Any]
    signals: list[Signals]


def course(backend: str, harvests: Sequence[RolloutBatch], folder: Path, model: str, **changes: Any) -> Course:
    """A trainer of this backend that learns from these harvests, one a step."""
    values = merged({"method": "echo", "model": model, "weights": "adapters"}, changes)
    optimising = {"lr": 1e-2, "critic_lr": 1e-2, "weight_decay": 0.1, "schedule": "linear", "warmup_steps": 2}
    values = merged(values, {"optimising": optimising, "backend": backend, "steps": len(harvests), "save_every": 100})
    values = merged(values, {"collecting": {"tasks": 1, "samples": 5}, "trl": {"rows": 2}, "threads": 1})
    config = checked_config(values, "test")
    read: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    torch.manual_seed(0)
    backbone = (
        AdapterModels(read, build_lora_config(config.lora), trained=config.trained)
        if config.weights == "adapters"
        else WholeModels({"policy": read, "critic": read}, reference=config.step.objective.beta > 0)
    )
    rates: dict[Role, float] = {"policy": 1e-2, "critic": 1e-2}
    optimizer = build_optimizer(backbone, rates, weight_decay=0.1)
    ended = Course([], [], {}, [])

    class Look(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            ended.weights.append({name: each.detach().clone() for name, each in backbone.module.named_parameters()})

        def on_log(self, args, state, control, logs=None, **kwargs):
            ended.rates += [logs["learning_rate"]] if "learning_rate" in logs else []

    settings, given = run_settings(config, folder, config.steps), (backbone, harvests.__getitem__, config.step)
    shared: dict[str, Any] = {
        "optimizer": optimizer,
        "publish": lambda: None,
        "watch": lambda step, signals: ended.signals.append(dict(signals)),
        "tokenizers": dict.fromkeys(("policy", "critic"), tiny_tokenizer()),
        "callbacks": [Look()],
    }
    if backend == "own":
        RoleTrainer(*given, TrainingArguments(**settings), **shared).train()
    else:
        plan = plan_micro_batches(config)
        TrlTrainer(*given, grpo_arguments(config, plan, settings), plan=plan, **shared).train()
    ended.moments = optimizer.state_dict()["state"]
    return ended


def moved(course: Course, step: int) -> set[str]:
    """The roles whose weights a step changed, counted from 0 and not the first."""
    before, after = course.weights[step - 1], course.weights[step]
    names = [name for name in before if not torch.equal(before[name], after[name])]
    return {"critic" if ".critic." in name else "policy" for name in names}


@pytest.mark.long
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_no_backend_moves_a_role_in_a_step_without_its_gradient(beta, model, tmp_path):
    harvests = [told("policy", "critic"), told(), told("policy"), NOTHING_SAID, told("critic"), told()]
    steps = {"step": {"objective": {"beta": beta}}}
    courses = {name: course(name, harvests, tmp_path / name, model, **steps) for name in ("own", "trl")}
    both, none = {"policy", "critic"}, set[str]()
    # a KL term is a gradient for every row in which something was said
    wanted = [both, both, none, both, both] if beta else [none, {"policy"}, none, {"critic"}, none]
    for each in courses.values():
        assert [moved(each, step) for step in range(1, 6)] == wanted
    assert courses["own"].rates == courses["trl"].rates
    assert len(set(courses["own"].rates)) > 3, "a rate that never changes is the same everywhere"
    for own, trl in zip(courses["own"].weights, courses["trl"].weights, strict=True):
        apart = [(own[name] - trl[name]).abs() for name in own]
        far = sum(int((each >= 3e-5).sum()) for each in apart)
        # AdamW divides a gradient by its own size: what is all rounding, and differs by machine, moves either way
        assert far <= sum(each.numel() for each in apart) / 1_000
        assert max(float(each.max()) for each in apart) < 2e-4
    counts = [{key: float(each["step"]) for key, each in ended.moments.items()} for ended in courses.values()]
    assert counts[0] == counts[1]


def test_what_trl_measures_of_a_step_is_of_rows_that_are_there(model, tmp_path):
    with_silence = RolloutBatch((*told("policy").rows, silent("policy", 12)))
    ended = course("trl", [with_silence, told()], tmp_path, model, weights="shared")
    assert all(math.isfinite(value) for signals in ended.signals for value in signals.values())
    assert ended.signals[0]["trl/entropy"] > 1
    assert not {"loss", "grad_norm"} & {*ended.signals[1]}, "nothing was learned, so there is neither"
    assert "trl/entropy" not in ended.signals[1]




@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_a_token_that_became_far_likelier_is_clipped_by_trl_too(ratio, model, monkeypatch, tmp_path):
    """As if the weights that learn had gone that far from those that began to."""
    near = GRPOTrainer._get_per_token_logps_and_entropies

    def far(self: Any, *inputs: Any, **options: Any) -> Any:
        logprobs, *others = near(self, *inputs, **options)
        return (logprobs + 100 * torch.is_grad_enabled(), *others)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", far)
    best = RolloutBatch((one_token("policy", 40, 1.0), replace(silent("policy", 6), reward=0.0)))
    changes = {"weights": "shared", "step": {"updates": 2, "objective": {"ratio": ratio}}}
    ended = course("trl", [best, best], tmp_path, model, optimising={"weight_decay": 0.0}, **changes)
    assert [signals["grad_norm"] for signals in ended.signals] == [0.0, 0.0]
    assert ended.signals[0]["loss"] == pytest.approx(-1.2 * 0.5 / (math.sqrt(0.5) + DELTA), rel=1e-5)
    assert all(bool(torch.isfinite(each).all()) for each in ended.weights[-1].values())
