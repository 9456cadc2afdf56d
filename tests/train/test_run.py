"""Training runs on the real ALFWorld with a tiny random model: every method for two steps, resuming, folders."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import UsageError
from align_echo.interface.contract import Interface
from align_echo.models import load_model
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local.loading import content_hash
from align_echo.models.local.memory import POOL, size_text
from align_echo.rollout.session import Episode
from align_echo.train.backbone import AdapterModels
from align_echo.train.config import LoraSettings, TrainConfig, checked_config, merged, method
from align_echo.train.obstacles import RunCost, estimate
from align_echo.train.presets import methods
from align_echo.train.printed_lines import announced, describe_memory
from align_echo.train.role_models import RoleModels, build_lora_config, find_sources
from align_echo.train.run import TrainingRun, choose_tasks, played_before, select_tasks
from align_echo.train.signals import Signals
from align_echo.train.stage import LocalStage
from align_echo.types import Message, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec
from tests.models.local.tiny import tiny_model, tiny_tokenizer

SMALL = {
    "steps": 2,
    "save_every": 2,
    "threads": 1,
    "optimising": {"lr": 1e-3},
    "collecting": {"tasks": 1, "samples": 2, "turns": 2, "reply_tokens": 4, "critique_tokens": 6, "workers": 4},
}


def cost_of(name: str, model: str, **changes: Any) -> RunCost:
    config = config_of(name, model, **changes)
    return estimate(config, find_sources(config))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


LONGER = {"sft": {"turns": 50}, "rcm": {"turns": 4, "reply_tokens": 40}}
"""An expert needs its turns to the end, and a policy some room to say an action that can be labelled."""
WARM = {"steps": 16, "optimising": {"lr": 2e-2, "warmup_steps": 0, "schedule": "constant"}}


def config_of(name: str, model: str, **changes: Any) -> TrainConfig:
    values = merged(merged(method(name), SMALL), {"model": model, **changes})
    values = merged(values, {"collecting": LONGER.get(name, {})})
    if values.get("weights") == "models" and "critic" in values.get("trained", ["critic"]):
        values = merged(values, {"optimising": {"critic_lr": 1e-3}})
    return checked_config(values, name)


@pytest.fixture(scope="module")
def warm(model, tmp_path_factory) -> Path:
    """The folder of a short warm start; its policy says short lines, though not sensible ones."""
    folder: Path = tmp_path_factory.mktemp("warm") / "run"
    trained(checked_config(merged(config_of("sft", model).model_dump(), WARM), "sft"), folder)
    return folder


def trained(config: TrainConfig, folder: Path, *, resume: bool = False) -> list[tuple[int, Signals]]:
    seen: list[tuple[int, Signals]] = []
    TrainingRun(config, folder, resume=resume).train(lambda step, signals: seen.append((step, signals)))
    return seen


@pytest.mark.long
@pytest.mark.parametrize("name", methods())
def test_every_method_runs_and_leaves_what_it_says(name, model, warm, tmp_path):
    config = config_of(name, str(warm / "policy") if name == "rcm" else model)
    seen = trained(config, tmp_path / "run")
    assert [step for step, _ in seen] == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / "run" / "signals.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["environment_steps"] > 0 and line["count/broken_rollouts"] == 0 for line in lines)
    assert all(line["rows"] > 0 for line in lines)
    assert all(line["seconds/harvest"] >= line.get("seconds/play", 0) + line.get("seconds/critic", 0) for line in lines)
    assert all(("policy/invalid_share" in line) == (name != "sft") == ("tokens_per_second" in line) for line in lines)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 2
    role = config.trained[0]
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= {
        file.name for file in (tmp_path / "run" / role).iterdir()
    }


def test_a_critic_can_begin_as_another_model_with_a_tokenizer_of_its_own(model, warm, tmp_path):
    config = config_of("echo", model, critic=str(warm / "policy"), steps=1, save_every=1, optimising={"lr": 1e-9})
    trained(config, tmp_path / "run")
    before = load_file(warm / "policy" / "model.safetensors")
    after = load_file(tmp_path / "run" / "critic" / "model.safetensors")
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
    with pytest.raises(UsageError, match="weights: models"):
        config_of("grpo", model, critic=model)


def test_a_run_computes_with_its_threads_and_leaves_the_process_as_many_as_before(model, tmp_path):
    before = torch.get_num_threads()
    wanted = before + 1
    config = config_of("grpo", model, threads=wanted, steps=1)
    seen: list[int] = []
    TrainingRun(config, tmp_path / "run").train(lambda step, signals: seen.append(torch.get_num_threads()))
    assert seen == [wanted]
    assert torch.get_num_threads() == before


@pytest.mark.long
def test_adapters_run_and_can_be_named_as_models(model, tmp_path):
    trained(config_of("echo", model, weights="adapters"), tmp_path / "run")
    for role in ("policy", "critic"):
        folder = tmp_path / "run" / role
        file = folder / "adapter_model.safetensors"
        tensors = {name: tensor * 0 + ("lora_B" in name) for name, tensor in load_file(file).items()}
        save_file({name: tensor + 0.1 for name, tensor in tensors.items()}, file)
        assert drawn_by(str(folder)) != pytest.approx(drawn_by(model), abs=1e-3)
        save_file({name: tensor * 0 for name, tensor in tensors.items()}, file)  # an adapter that changes nothing
        assert drawn_by(str(folder)) == pytest.approx(drawn_by(model), abs=1e-4)
    with pytest.raises(UsageError, match="holds an adapter: name a whole model to train"):
        TrainingRun(config_of("grpo", str(tmp_path / "run" / "policy")), tmp_path / "more")


def drawn_by(name: str) -> tuple[float, ...]:
    completion = load_model(name).complete([Message(role="user", content="look")], temperature=1.0, max_tokens=4)
    assert completion.tokens is not None
    return completion.tokens.logprobs


RUNS = ("whole", "cut")


@pytest.mark.long
def test_a_resumed_run_ends_as_one_that_was_not_disturbed(model, tmp_path):
    config = config_of("echo", model, steps=4, step={"normalisation": "token"})
    whole = trained(config, tmp_path / "whole")
    cut = TrainingRun(config, tmp_path / "cut")

    class Killed(Exception):
        pass

    def stop_at(step: int, signals: Signals) -> None:
        if step == 3:
            raise Killed

    with pytest.raises(Killed):
        cut.train(stop_at)
    rest = trained(config, tmp_path / "cut", resume=True)
    assert [step for step, _ in rest] == [3, 4]

    def lasting(signals: Signals) -> Signals:
        """Without times, and without what depends on the engine's rounding."""
        return {name: value for name, value in signals.items() if "second" not in name and "mismatch" not in name}

    assert [lasting(line) for _, line in rest] == [lasting(line) for _, line in whole[2:]]
    lines = (tmp_path / "cut" / "signals.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]
    for part in ("rollouts", "critiques"):
        first, other = ({file.name: file.read_text() for file in (tmp_path / run / part).iterdir()} for run in RUNS)
        assert first == other
        assert first.keys() == {"1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"}
    for role in ("policy", "critic"):
        weights, others = (load_file(tmp_path / run / role / "model.safetensors") for run in RUNS)
        assert all(bool((weights[name] == others[name]).all()) for name in weights)


@pytest.mark.long
def test_scores_before_and_after_each_critique_are_kept_once_each_step(tmp_path):
    changes = {"env": "webshop", "collecting": {"samples": 3, "turns": 3, "reply_tokens": 40, "critique_tokens": 96}}
    config = config_of("echo", "pocket", save_every=1, **changes)
    run = TrainingRun(config, tmp_path / "run")

    def stop(step: int, signals: Signals) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(stop)
    trained(config, tmp_path / "run", resume=True)
    kept = [json.loads(line) for line in (tmp_path / "run" / "refinements.jsonl").read_text().splitlines()]
    assert [record["step"] for record in kept] == [1, 2]
    for step, record in enumerate(kept, start=1):
        attempt, *refined = JsonlFile(tmp_path / "run" / "rollouts" / f"{step}.jsonl").read(Trajectory)
        assert attempt.critique == ""
        assert [[attempt.score, episode.score] for episode in refined] == record["scores"]
        assert all(episode.critique and episode.task_id == attempt.task_id for episode in refined)
    assert all(0 <= score <= 1 for record in kept for pair in record["scores"] for score in pair)
    assert all(
        len({before for before, _ in record["scores"]}) == 1 for record in kept
    )  # one attempt a query, one query


def test_a_run_ends_once_it_has_played_its_turns_and_makes_no_step_more(model, tmp_path):
    config = config_of("grpo", model, steps=50, environment_steps=7)  # 2 episodes of 2 turns a step
    assert [step for step, _ in trained(config, tmp_path / "run")] == [1, 2]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["steps"], summary["environment_steps"]) == (2, 8)
    before = load_file(tmp_path / "run" / "policy" / "model.safetensors")
    assert trained(config, tmp_path / "run", resume=True) == []
    after = load_file(tmp_path / "run" / "policy" / "model.safetensors")
    assert all(bool((before[name] == after[name]).all()) for name in before)


def test_turns_that_several_steps_learn_from_count_once(tmp_path):
    lines = [{"step": step, "environment_steps": turns} for step, turns in enumerate((5, 5, 7), start=1)]
    (tmp_path / "signals.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert played_before(tmp_path / "signals.jsonl", 2) == 12
    assert played_before(tmp_path / "signals.jsonl", 1) == 17


def test_a_warm_start_makes_the_experts_words_likelier(warm):
    """The loss is the mean cross-entropy of the expert's tokens; of 300 entries, a random model's is above log 300."""
    losses = [json.loads(line)["policy/loss"] for line in (warm / "signals.jsonl").read_text().splitlines()]
    assert losses[0] > math.log(300)
    assert losses[-1] < losses[0] - 1.5


def interrupted_at(stop: int) -> Callable[[int, Signals], None]:
    """Ctrl-C as the signals of a step come in."""

    def watch(step: int, signals: Signals) -> None:
        if step == stop:
            raise KeyboardInterrupt

    return watch


@pytest.mark.long
def test_a_run_killed_while_it_wrote_goes_on_from_what_it_wrote_to_the_end(model, tmp_path):
    config = config_of("grpo", model, steps=3, save_every=1)
    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(interrupted_at(3))
    torn = tmp_path / "run" / "checkpoints" / "checkpoint-3"
    torn.mkdir()
    (torn / "optimizer.pt").write_text("half of")
    saved = tmp_path / "run" / "policy"
    saved.mkdir()
    half = [torn / ".tmpAbC", saved / ".tmpAbC", tmp_path / "run" / f".summary.json.{'0' * 16}"]
    for file in half:
        file.write_text("half of")
    with (tmp_path / "run" / "signals.jsonl").open("a") as signals:
        signals.write('{"step": 2, "gro')
    rest = trained(config, tmp_path / "run", resume=True)
    assert [step for step, _ in rest] == [3]
    assert not any(file.exists() for file in half), "what the killed process left is gone"
    assert (saved / "model.safetensors").is_file()
    lines = (tmp_path / "run" / "signals.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


@pytest.mark.long
def test_a_checkpoint_that_was_cut_short_is_told_in_one_line_and_the_one_before_it_serves(model, tmp_path):
    config = config_of("grpo", model, steps=3, save_every=1)
    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(interrupted_at(3))
    checkpoints = tmp_path / "run" / "checkpoints"
    newest = checkpoints / "checkpoint-2"
    files = [file for file in newest.rglob("*") if file.suffix in (".json", ".pt", ".pth", ".safetensors")]
    assert {suffix.suffix for suffix in files} == {".json", ".pt", ".pth", ".safetensors"}
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) * 2 // 3])
        with pytest.raises(UsageError, match=f"{file.name} is damaged") as caught:
            TrainingRun(config, tmp_path / "run", resume=True)
        assert "\n" not in str(caught.value)
        file.write_bytes(content)
    files[0].write_bytes(b"")
    shutil.rmtree(newest)  # as the line says
    assert [step for step, _ in trained(config, tmp_path / "run", resume=True)] == [2, 3]


ADAPTERS = """
from align_echo.train.backbone import AdapterModels
from align_echo.train.config import LoraSettings
from align_echo.train.role_models import build_lora_config
from tests.models.local.tiny import tiny_model
AdapterModels(tiny_model(), build_lora_config(LoraSettings())).save("policy", folder)
"""


@pytest.mark.long
def test_equal_adapters_have_equal_files_in_every_process(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    exec(ADAPTERS, {"__name__": "adapters", "folder": here})
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    program = f"import sys\nfrom pathlib import Path\nfolder = Path(sys.argv[1])\n{ADAPTERS}"
    subprocess.run(
        [sys.executable, "-c", program, str(there)], env={**os.environ, "PYTHONHASHSEED": other}, check=True
    )
    assert content_hash(here) == content_hash(there)


@pytest.mark.long
def test_a_run_stopped_before_its_first_checkpoint_is_begun_anew(model, tmp_path):
    config = config_of("grpo", model)
    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(interrupted_at(1))
    assert len(trained(config, tmp_path / "run")) == 2
    with pytest.raises(UsageError, match="is not empty"):
        TrainingRun(config, tmp_path / "run")


def test_a_run_is_on_record_with_all_that_it_is_made_of(model, tmp_path):
    config = config_of("grpo", model, interface="probe")
    record = TrainingRun(config, tmp_path / "run").on_record
    assert record["interface"].startswith("alfworld/probe@")
    assert record["weights"] == dict.fromkeys(("policy", "critic"), content_hash(Path(model)))
    assert {"vanilla/system", "critic/echo"} <= record["prompts"].keys()


@pytest.mark.long
def test_a_run_that_does_not_improve_stops_early_also_when_it_was_stopped_before(model, tmp_path):
    """A model at random wins nothing, so no evaluation is better than the first: two more and the run ends."""
    config = config_of("grpo", model, steps=9, save_every=1, evaluating={"every": 1, "tasks": 1, "patience": 2})
    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(interrupted_at(3))
    assert [step for step, _ in trained(config, tmp_path / "run", resume=True)] == [3]
    file = tmp_path / "run" / "summary.json"
    summary = json.loads(file.read_text())
    assert (summary["steps"], summary["best_step"]) == (3, 1)
    assert trained(config, tmp_path / "run", resume=True) == []
    assert json.loads(file.read_text()) == summary


def test_the_names_of_model_and_interface_are_looked_up_once_in_a_run(model, tmp_path, monkeypatch):
    looked_up: list[str] = []
    read_interface = EnvironmentSpec.read_interface

    def read(spec: EnvironmentSpec, source: str, **options: Any) -> Interface | None:
        looked_up.append(f"interface {source}")
        return read_interface(spec, source, **options)

    def read_model(name: str) -> ModelName:
        looked_up.append(f"model {name}")
        return read_name(name)

    monkeypatch.setattr(EnvironmentSpec, "read_interface", read)
    monkeypatch.setattr("align_echo.train.role_models.read_name", read_model)
    config = config_of("grpo", model, steps=1, save_every=1, evaluating={"every": 1, "tasks": 1})
    run = TrainingRun(config, tmp_path / "run")
    assert describe_memory(run)[1:], announced(run)
    run.train(lambda step, signals: None)
    assert sorted(looked_up) == ["interface none", f"model {model}"]


def test_held_out_tasks_are_played_before_and_after(model, tmp_path):
    config = config_of("grpo", model, save_every=1, evaluating={"every": 1, "tasks": 2})
    steps_told: list[int] = []
    TrainingRun(config, tmp_path / "run").train(
        lambda step, signals: None, lambda step, figures: steps_told.append(step)
    )
    assert steps_told == [0, 1, 2]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for when in ("before", "after"):
        assert summary[when]["faults"] == 0
        for name, most in (("score", 1), ("success", 100)):
            figure = summary[when][name]
            low, high = figure["ci95"]
            assert figure["n"] == 2
            assert 0 <= low <= figure["value"] <= high <= most
    assert summary["before"]["success"]["ci95"][1] > 0  # two lost tasks do not say that none is ever won


@pytest.mark.long
def test_a_run_that_goes_on_keeps_what_was_measured_before_it_began(model, tmp_path, monkeypatch):
    config = config_of("grpo", model, save_every=1, evaluating={"every": 1, "tasks": 1})
    with pytest.raises(KeyboardInterrupt):
        TrainingRun(config, tmp_path / "run").train(interrupted_at(2))
    curve = tmp_path / "run" / "held_out.jsonl"
    first, *rest = curve.read_text().splitlines(keepends=True)
    measured = json.loads(first)
    measured["score"]["value"] = 0.125  # not what these weights would score: it must be read, not played again
    curve.write_text(json.dumps(measured) + "\n" + "".join(rest))
    trained(config, tmp_path / "run", resume=True)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {"step": 0, **summary["before"]} == measured
    assert [json.loads(line)["step"] for line in curve.read_text().splitlines()] == [0, 1, 2]
    assert summary["after"]["score"]["n"] == 1


def test_best_of_n_is_for_training_and_not_for_held_out_tasks(model, tmp_path):
    played: list[str] = []

    class Watched(TrainingRun):
        def _stage(self, crew: RoleModels, split: str, temperature: float) -> LocalStage:
            stage = super()._stage(crew, split, temperature)

            class Stage(LocalStage):
                def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
                    trajectories = super().play(episodes)
                    played.extend(f"{split} {trajectory.agent.partition('(')[0]}" for trajectory in trajectories)
                    return trajectories

            return Stage(**vars(stage))

    config = config_of("grpo", model, save_every=1, evaluating={"every": 1, "tasks": 1}, collecting={"best_of": 3})
    Watched(config, tmp_path / "run").train(lambda step, signals: None)
    assert set(played) == {"train best-of-3", "valid_unseen vanilla"}
    lines = [json.loads(line) for line in (tmp_path / "run" / "signals.jsonl").read_text().splitlines()]
    assert all("count/missing_verdicts" in line for line in lines)
    assert all(line["policy/mismatch/from_turn_0"] < 1e-3 for line in lines if "policy/mismatch/from_turn_0" in line)


def test_a_folder_that_holds_something_else_is_refused(model, tmp_path):
    config = config_of("grpo", model)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        TrainingRun(config, tmp_path)
    with pytest.raises(UsageError, match="not the folder of a run"):
        TrainingRun(config, tmp_path, resume=True)
    trained(config, tmp_path / "run")
    with pytest.raises(UsageError, match=r"was started with seed = 0, not 5"):
        TrainingRun(config.model_copy(update={"seed": 5}), tmp_path / "run", resume=True)
    with pytest.raises(UsageError, match="is a file"):
        TrainingRun(config, tmp_path / "file")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "gpt-5"}, "cannot be trained"),
        ({"env": "nowhere"}, "nowhere"),
        ({"split": "nowhere"}, "nowhere"),
        ({"collecting": {"tasks": 10**6}}, "tasks to train on"),
    ],
)
def test_names_that_are_not_known_are_refused(changes, message, model, tmp_path):
    with pytest.raises(UsageError, match=message):
        trained(checked_config(merged(config_of("grpo", model).model_dump(), changes), "grpo"), tmp_path / "run")


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 3))
def test_every_lap_asks_for_other_tasks_each_once(size, count, seed):
    pool = [f"task {number}" for number in range(size)]
    if count > size:
        with pytest.raises(UsageError):
            choose_tasks(0, pool, count, seed)
        return
    lap = size // count
    harvests = [choose_tasks(harvest, pool, count, seed) for harvest in range(2 * lap)]
    for first in (0, lap):
        drawn = [task for queries in harvests[first : first + lap] for task in queries]
        assert len(drawn) == len(set(drawn)) == lap * count
    assert harvests == [choose_tasks(harvest, pool, count, seed) for harvest in range(2 * lap)]


def test_the_estimate_of_a_step_by_hand(model):
    cost = cost_of("echo", model)
    assert (cost.episodes, cost.critiques, cost.most_turns) == (3, 2, 6)
    assert cost.rows == {"policy": 2, "critic": 2}
    assert cost.parameters == 2 * tiny_model(context=4096).num_parameters()
    assert cost.memory["gradients and optimizer"] == 3 * 4 * cost.parameters
    assert (cost.batches, cost.verdicts, cost.lessons, cost.evaluations) == (2, 0, 0, 0)
    assert cost_of("icrl", model).episodes == 4
    assert cost_of("echo-no-critic", model).rows == {"policy": 2}
    luffy = cost_of("luffy", model)
    assert (luffy.episodes, luffy.lessons, luffy.most_turns, luffy.rows) == (1, 1, 4, {"policy": 2})
    assert cost_of("echo-frozen-policy", model).rows == {"critic": 2}
    assert cost_of("sft", model).rows == {"policy": 1}
    assert cost_of("rcm", model).rows == {"critic": 4}


@pytest.mark.parametrize("weights", ["adapters", "models"])
def test_a_run_writes_what_its_plan_says_at_most_and_about_half_of_it_at_least(weights, model, tmp_path):
    config = config_of("sft", model, weights=weights, steps=3, save_every=1)
    run = TrainingRun(config, tmp_path)
    run.train(lambda step, signals: None)
    files = [tmp_path / name for name in ("checkpoints", "policy", "critic")]
    written = sum(file.stat().st_size for folder in files for file in folder.rglob("*") if file.is_file())
    assert written <= run.cost.disk <= 2 * written


def test_the_memory_of_adapters_is_that_of_their_numbers(model):
    cost = cost_of("echo", model, weights="adapters", lora={"rank": 4})
    adapters = AdapterModels(tiny_model(context=4096), build_lora_config(LoraSettings(rank=4)))
    learn = sum(weights.numel() for role in adapters.trained for weights in adapters.weights(role))
    assert cost.parameters == tiny_model(context=4096).num_parameters() + learn
    assert cost.memory["gradients and optimizer"] == 3 * 4 * learn > 0


@pytest.mark.parametrize("weights", ["shared", "models", "adapters"])
def test_a_run_that_does_not_fit_is_advised_to_take_adapters(weights, model, tmp_path):
    config = config_of("grpo" if weights == "shared" else "echo", model, weights=weights, trained=["policy", "critic"])
    adapters = estimate(config.model_copy(update={"weights": "adapters"}), find_sources(config), 1)
    try:
        POOL.set_limit(1_000_000)
        with pytest.raises(UsageError, match="does not fit") as refused:
            TrainingRun(config, tmp_path / "run")
    finally:
        POOL.set_limit(0)
    advice = f"set weights: adapters (needs {size_text(adapters.least)})"
    assert (advice in str(refused.value)) == (weights != "adapters")


def test_the_estimate_counts_candidates_verdicts_updates_and_evaluations(model):
    changes = {"steps": 7, "collecting": {"best_of": 3}, "step": {"updates": 2}, "save_every": None}
    cost = cost_of("grpo", model, **changes, evaluating={"every": 4, "tasks": 5})
    assert (cost.episodes, cost.most_turns, cost.replies, cost.verdicts) == (2, 4, 12, 12)
    assert cost.batches == 4
    assert (cost.held_out, cost.evaluations) == (5, 4)  # before, after steps 4 and 7, and of what is kept


def test_a_run_may_train_on_tasks_of_some_types_only():
    shown = ["heat a", "cool a", "heat b"]
    assert select_tasks(None, shown, lambda task: task[:4]) == shown
    assert select_tasks(("heat",), shown, lambda task: task[:4]) == ["heat a", "heat b"]
    with pytest.raises(UsageError, match="no task to train on is of type 'boil'; types: cool, heat"):
        select_tasks(("heat", "boil"), shown, lambda task: task[:4])


def test_as_many_tokens_are_learned_from_at_once_as_fit_and_a_resumed_run_keeps_the_number(model, tmp_path):
    config = config_of("grpo", model, save_every=1)
    at_most = TrainingRun(config, tmp_path / "most")
    assert at_most.config.step.tokens_per_batch == 8192
    whole = at_most.memory_limit
    try:
        POOL.set_limit(sum(at_most.cost.memory.values()) - at_most.cost.memory["activations of learning"] // 3)
        run = TrainingRun(config, tmp_path / "run")
        assert run.config.step.tokens_per_batch == 4096
        POOL.set_limit(whole)  # the tests' other models take part of it too
        run.train(lambda step, signals: None)
        assert TrainingRun(config, tmp_path / "run", resume=True).config.step.tokens_per_batch == 4096
        POOL.set_limit(sum(at_most.cost.memory.values()) // 20)
        with pytest.raises(UsageError, match="does not fit"):
            TrainingRun(config, tmp_path / "none")
    finally:
        POOL.set_limit(0)
