"""Every field of a training's config, seen where it acts: optimizer, loss, engines, worlds, held-out tasks, files.

`LEARNING`, `PLAYING` and `BY_TRL` are the table (`tests/reach.py`): a new field of the config, or a new choice of one,
needs a row in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align_echo.rollout.session import Session
from align_echo.train.config import TrainConfig
from align_echo.types import AgentReply
from align_echo.wrappers.catalogue import environment
from tests.models.local import test_tool_calls
from tests.reach import Case, Row, Scene, check, fields, nested, unseen
from tests.train import test_demonstrations, test_four_bit
from tests.train.run_record import RunRecord, Script, record_of, write_models
from tests.train.run_sights import (
    adapter,
    advantages,
    after_warmup,
    bounds,
    checkpoints,
    counted,
    critic_rewards,
    dtype,
    ending,
    experts,
    explained,
    held_out_splits,
    held_out_temperatures,
    leaves_turns_out,
    lines,
    moved,
    moving_at_once,
    norms,
    opening,
    parities,
    rate,
    refinements,
    rounds,
    splits,
    spread,
    temperatures,
    warmup,
    who_draws,
    workers,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:rows do not share prefixes:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

WORLDS = "tests.train.run_sights"
GRADED = "studies.graded"
DOORS = "tests.cli.door_models"
RULE = "Knock before you open."
INTERFACE = f"""
def InferRules(init_obs, task):
    return {RULE!r}

def WrapStep(env, init_obs, task, agent_action, logger):
    observation, reward, done, info = env.step(agent_action)
    return observation, info["won"], done
"""


def also(scene: Scene[RunRecord], sections: str, **changes: Any) -> Scene[RunRecord]:
    """The rows of some sections of a scene, in runs with these changes."""
    rows = [row for row in scene.rows if row.field.split(".")[0] in sections.split()]
    return Scene(nested(scene.base, changes), rows)


def label_of_an_action(record: RunRecord) -> str | None:
    """How the run labels a door that was opened."""
    session = Session(environment(f"{WORLDS}:DOORS").make("train"), agent="any")
    session.reset("0")
    session.act(AgentReply(text="open red", action="open red"))
    return record.stages[0].labels([session.trajectory()])[0][0]


def row(field: str, see: Callable[[RunRecord], Any], *cases: Case) -> Row[RunRecord]:
    return Row(field, see, cases)


# ---------------------------------------------------------------- the table

SCRIPTED = {"env": f"{WORLDS}:DOORS"}
PLAYED = {"env": f"{WORLDS}:HALL", "method": f"{GRADED}:GRPO"}

LEARNING: dict[str, Scene[RunRecord]] = {
    "optimizer": Scene(
        {**SCRIPTED, "base": "echo", "steps": 5, "save_every": 5},
        [
            row("optimising.lr", rate(0), (1e-3, 1e-3), (2e-3, 2e-3)),
            row("optimising.critic_lr", rate(1), (None, 1e-3), (5e-3, 5e-3)),
            row(
                "optimising.weight_decay",
                lambda record: [group.weight_decay for group in record.updates[-1]],
                *((0.0, [0.0, 0.0]), (0.1, [0.1, 0.1])),
            ),
            row(
                "optimising.betas",
                lambda record: [beta for group in record.updates[-1] for beta in group.betas],
                *(([0.9, 0.999], [0.9, 0.999] * 2), ([0.8, 0.95], [0.8, 0.95] * 2)),
            ),
            row("optimising.warmup_steps", warmup, (0, 0), (1, 1), (2, 2)),
            row(
                "optimising.schedule",
                after_warmup,
                *(("constant", [1, 1, 1, 1, 1]), ("linear", [1, 0.75, 0.5, 0.25]), ("cosine", [1, 0.75, 0.25])),
            ),
            row("optimising.max_grad_norm", norms, (0.2, [0.2, 0.2]), (0.1, [0.1, 0.1])),
            row("step.critic_warmup", moving_at_once, (0, [True, True]), (1, [False, True])),
            row(
                "collecting.critic_reward",
                critic_rewards,
                *(("saturation", [-0.348, 1.792]), ("linear", [-0.25, 0.5]), ("revision", [-0.25, 1.0])),
            ),
        ],
    ),
    "loss": Scene(
        {
            **{**SCRIPTED, "base": "icrl", "optimising": {"lr": 0.05}},
            **{"collecting": {"samples": 4}},
            **{"step": {"updates": 2, "tokens_per_batch": 20, "share_prefixes": False}},
        },
        [
            row("step.objective.clip_low", explained("clip_low", 0.1, 0.2), (0.2, "0.2"), (0.1, "0.1")),
            row("step.objective.clip_high", explained("clip_high", 0.1, 0.3), (0.1, "0.1"), (0.3, "0.3")),
            row(
                "step.objective.ratio",
                explained("ratio", "token", "sequence"),
                *(("token", "token"), ("sequence", "sequence"), ("token", "token")),
            ),
            row("step.objective.beta", explained("beta", 0.1, 0.5), (0.1, "0.1"), (0.5, "0.5")),
            row("step.objective.kl", explained("kl", "k1", "k3"), ("k3", "k3"), ("k1", "k1"), ("k3", "k3")),
            row("step.objective.max_weight", explained("max_weight", 1.5, 2.0), (2.0, "2.0"), (1.5, "1.5")),
            row(
                "step.objective.reweigh",
                explained("reweigh", True, False),
                *((True, "True"), (True, "True"), (False, "False")),
            ),
            row("step.joint", lambda record: record.signals[0]["groups"], (False, 2), (True, 1), (False, 2)),
            row("step.scaled", spread, (True, 1.0), (False, 0.395), (False, 0.395)),
            row("step.normalisation", counted, ("token", [1.0]), ("sequence", [0.333, 0.5, 1.0])),
            row("collecting.rounds", rounds, (2, 2), (3, 3)),
        ],
    ),
    "harvest": Scene(
        {**SCRIPTED, "base": "grpo", "collecting": {"samples": 4}},
        [
            row("step.updates", lambda record: len(record.harvests), (1, 2), (2, 1)),
            row(
                "step.tokens_per_batch",
                lambda record: max(call.batch.computed for call in record.learned),
                *((8192, 10), (9, 8)),
            ),
            row(
                "step.share_prefixes",
                lambda record: any(call.batch.tree is not None for call in record.learned),
                *((True, True), (False, False)),
            ),
            row("bf16", lambda record: str(record.layers[0]), (False, "torch.float32"), (True, "torch.bfloat16")),
            row(
                "gradient_checkpointing",
                lambda record: len(record.layers) / len(record.learned),
                *((False, 1), (True, 2), (False, 1)),
            ),
            row("threads", lambda record: sum(record.threads), (1, 1), (2, 2)),
            row(
                "step.max_loss",
                ending,
                *((1e4, "2, as it should"), (1e4, "2, as it should"), (1e-9, "0, by its loss")),
            ),
        ],
    ),
    "imitation": Scene(
        {**SCRIPTED, "base": "grpo", "steps": 1, "save_every": 1},
        [
            row("method", experts, ("luffy", 1 / 3), ("luffy", 1 / 3), ("sft", 1), ("grpo", 0)),
            row(
                "step.advantage",
                advantages,
                *(("group", [-1.155, 0.577]), ("group", [-1.155, 0.577]), ("reward", [1]), ("group", [-1, 1])),
            ),
            row(
                "step.objective.expert",
                explained("expert", "shaped", "likelihood"),
                *(("shaped", "shaped"), ("shaped", "shaped"), ("likelihood", "likelihood")),
            ),
            row("step.objective.gamma", explained("gamma", 0.1, 0.5), (0.1, "0.1"), (0.5, "0.5")),
        ],
    ),
    "ahead": Scene(
        {**SCRIPTED, "base": "grpo", "steps": 3, "save_every": 3},
        [
            row("step.ahead", lambda record: record.signals[-1].get("staleness", 0), (True, 1), (True, 1), (False, 0)),
            row("step.objective.corrected", explained("corrected", True, False), (True, "True"), (False, "False")),
        ],
    ),
    "roles": Scene(
        {**SCRIPTED, "base": "echo", "step": {"objective": {"beta": 0.1}}},
        [
            row(
                "trained",
                moved,
                *((("policy", "critic"), "policy critic"), (("policy",), "policy"), (("critic",), "critic")),
            ),
            row(
                "model",
                lambda record: record.model_at_the_start("policy"),
                *(("./first", "first"), ("./first", "first"), ("./second", "second")),
            ),
            row(
                "critic", lambda record: record.model_at_the_start("critic"), (None, "first"), ("./second", "second")
            ),
        ],
    ),
    "adapters": Scene(
        {**SCRIPTED, "base": "echo", "weights": "adapters", "optimising": {"lr": 0.05}},
        [
            row("lora.rank", lambda record: adapter(record).lora_A["policy"].weight.shape[0], (8, 8), (4, 4)),
            row("lora.alpha", lambda record: adapter(record).scaling["critic"], (32, 4.0), (8, 2.0)),
            row("step.objective.beta", explained("beta", 0.1, 0.5), (0.1, "0.1"), (0.5, "0.5")),
        ],
    ),
    "ends": Scene(
        {**SCRIPTED, "base": "grpo"},
        [
            row("steps", ending, (3, "3, as it should"), (2, "2, as it should")),
            row("environment_steps", lambda record: len(record.signals), (None, 3), (None, 2), (1, 1)),
            row("save_every", checkpoints, (1, "2 3"), (2, "2")),
            row("rollouts.episodes", lambda record: lines(record, "rollouts/1.jsonl"), (2, 2), (1, 1)),
            row(
                "rollouts.mebibytes",
                lambda record: lines(record, "rollouts/1.jsonl") > 0,
                *((64.0, True), (64.0, True), (1e-4, False)),
            ),
            row("report_to", lambda record: "policy/reward" in record.tracked, ([], False), (["tensorboard"], True)),
        ],
    ),
    "patience": Scene(
        {**SCRIPTED, "base": "grpo", "steps": 3, "save_every": 1, "evaluating": {"every": 1, "tasks": 1}},
        [row("evaluating.patience", lambda record: len(record.signals), (0, 3), (1, 2))],
    ),
    "verdicts": Scene(
        {**SCRIPTED, "base": "rcm", "collecting": {"tasks": 2}, "steps": 1, "save_every": 1},
        [
            row("collecting.states", lambda record: len(record.groups), (1, 2), (2, 4)),
        ],
    ),
}
"""Runs whose episodes are scripted."""

PLAYING: dict[str, Scene[RunRecord]] = {
    "labels": Scene(
        {**SCRIPTED, "base": "rcm", "collecting": {"tasks": 1}, "steps": 1, "save_every": 1},
        [
            row(
                "collecting.rule",
                label_of_an_action,
                (f"{DOORS}:ALL_WRONG", "wrong"),
                (f"{DOORS}:ALL_RIGHT", "correct"),
            )
        ],
    ),
    "engines": Scene(
        {**PLAYED, "base": "echo", "method": f"{GRADED}:ECHO"},
        [
            row("env", opening("red and a green"), (f"{WORLDS}:HALL", False), (f"{WORLDS}:DOORS", True)),
            row("split", splits, (None, "train: train"), ("spare", "spare: spare")),
            row("task_types", parities, (None, [0, 1]), (("odd",), [1])),
            row("chat_template", opening("In our way"), (None, False), ("./own.jinja", True)),
            row("template_args", opening("way, for now."), (None, False), ('{"how": ", for now"}', True)),
            row("interface", opening(RULE), ("none", False), ("./knock.py", True)),
            row("collecting.temperature", temperatures, (0.7, [0.7]), (1.3, [1.3])),
            row("collecting.reply_tokens", bounds("policy"), (4, [4]), (6, [6])),
            row("collecting.critique_tokens", bounds("critic"), (5, [5]), (7, [7])),
            row("collecting.turns", lambda record: max(len(each.steps) for each in record.episodes), (1, 1), (2, 2)),
            row("collecting.tasks", lambda record: len(set(record.queries[0])), (2, 2), (1, 1)),
            row("collecting.samples", refinements, (2, 2), (3, 3)),
            row(
                "collecting.form",
                lambda record: "Next time:" in record.said_to("critic"),
                *(("echo", False), ("icrl", True)),
            ),
            row("collecting.workers", workers, (5, [5, 3]), (2, [2, 2])),
            row("collecting.dtype", dtype, ("float32", "torch.float32"), ("bfloat16", "torch.bfloat16")),
            row("collecting.best_of", lambda record: record.candidates, (1, 1), (2, 2)),
            row(
                "weights",
                who_draws,
                ("shared", "critic by policy+, policy by policy+"),
                ("adapters", "critic by policy+critic, policy by policy+policy"),
                ("models", "critic by critic+, policy by policy+"),
            ),
        ],
    ),
    "won attempts": Scene(
        {
            **{**PLAYED, "base": "echo", "method": f"{GRADED}:ECHO", "steps": 1, "save_every": 1},
            **{"collecting": {"tasks": 4, "reply_tokens": 1}},
        },
        [
            row(
                "collecting.critique_won",
                lambda record: sum(each.role == "critic" for each in record.asked),
                *((True, 4 * 3), (False, 1 * 3)),
            )
        ],
    ),
    "history": Scene(
        {**PLAYED, "base": "grpo", "collecting": {"turns": 4}, "steps": 1, "save_every": 1},
        [
            row("collecting.history_turns", leaves_turns_out, (None, False), (1, True)),
            row("collecting.history_tokens", leaves_turns_out, (None, False), (256, True)),
        ],
    ),
    "servers": Scene(
        {**PLAYED, "base": "grpo", "steps": 1, "save_every": 1},
        [
            row(
                "collecting.servers",
                lambda record: " ".join(record.served),
                *(((), ""), (("http://127.0.0.1:9",), "http://127.0.0.1:9/v1")),
            )
        ],
    ),
    "held-out tasks": Scene(
        {**PLAYED, "base": "grpo", "steps": 4, "save_every": None, "collecting": {"temperature": 0.8}},
        [
            row("evaluating.every", lambda record: record.evaluated, (1, [0, 1, 2, 3, 4]), (2, [0, 2, 4])),
            row("evaluating.tasks", lambda record: len(set(record.held_out_tasks)), (2, 2), (1, 1)),
            row("evaluating.split", held_out_splits, (None, "test: test"), ("spare", "spare: spare")),
            row("evaluating.temperature", held_out_temperatures, (1.0, [1.0]), (0.3, [0.3])),
        ],
    ),
}
"""Runs whose engines play."""

BY_TRL: dict[str, Scene[RunRecord]] = {
    "backend": Scene(
        {**SCRIPTED, "base": "grpo", "collecting": {"samples": 5}},
        [
            row(
                "backend",
                lambda record: type(record.trainer).__name__,
                *(("own", "RoleTrainer"), ("trl", "TrlTrainer"), ("trl", "TrlTrainer")),
            ),
            row("trl.rows", lambda record: max(record.micro_batches, default=0), (4, 0), (3, 3), (2, 2)),
        ],
    ),
    "optimizer": also(LEARNING["optimizer"], "optimising", backend="trl", weights="adapters"),
    "precision": also(LEARNING["harvest"], "bf16", backend="trl"),
    "ends": also(LEARNING["ends"], "steps environment_steps save_every report_to rollouts", backend="trl"),
}
"""Runs of TRL's trainer."""

SAME_BY_TRL: dict[str, dict[str, Any]] = {
    "loss": {"step.objective.kl": "k3", "step.normalisation": "token", "optimising.lr": 0.02},
    "adapters": {},
}
"""Scenes whose gradients are the same by both trainers, and what has to be otherwise for that."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("models")
    write_models(made)
    (made / "knock.py").write_text(INTERFACE)
    return made


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)


def test_every_field_of_the_config_is_seen_where_it_acts():
    scenes = [*LEARNING.values(), *PLAYING.values(), *BY_TRL.values()]
    elsewhere = {
        "seed": test_another_seed_is_another_run,
        "tools": test_tool_calls.test_a_step_of_grpo_learns_from_calls_with_the_numbers_of_transformers,
        "lora.four_bit": test_four_bit.test_engine_and_trainer_compute_with_the_same_four_bits,
        "collecting.demonstrations": test_demonstrations.test_a_run_imitates_stored_episodes_and_plays_none,
        "collecting.minimum_score": test_demonstrations.test_a_least_score_takes_lost_episodes_too,
    }
    assert unseen(fields(TrainConfig), scenes, elsewhere) == []


@pytest.mark.long
@pytest.mark.parametrize("name", LEARNING)
def test_what_decides_how_is_learned_does_so(name, tmp_path):
    check(LEARNING[name], lambda values, run: record_of(values, tmp_path / str(run), Script()))


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYING)
def test_what_decides_what_is_played_does_so(name, tmp_path):
    check(PLAYING[name], lambda values, run: record_of(values, tmp_path / str(run)))


@pytest.mark.long
@pytest.mark.parametrize("name", BY_TRL)
def test_what_decides_how_trl_learns_does_so(name, tmp_path):
    check(BY_TRL[name], lambda values, run: record_of(values, tmp_path / str(run), Script()))


@pytest.mark.long
@pytest.mark.parametrize("name", SAME_BY_TRL)
def test_trl_has_the_gradients_of_our_own_trainer(name, tmp_path):
    same = {**SAME_BY_TRL[name], "collecting.temperature": 0.7, "optimising.max_grad_norm": 1e6}
    for run, values in enumerate(LEARNING[name].runs[:2]):
        own, trl = (
            record_of(nested(values, {**same, "backend": backend}), tmp_path / f"{backend}{run}", Script())
            for backend in ("own", "trl")
        )
        norms = [[group.norm for update in record.updates for group in update] for record in (own, trl)]
        assert min(norms[0]) > 0
        assert norms[0] == pytest.approx(norms[1], rel=1e-3)


@pytest.mark.long
def test_another_seed_is_another_run(tmp_path):
    """Tasks, draws, held-out tasks, and what adapters begin as; the same seed gives the same."""
    held_out = {"every": 2, "tasks": 2}
    values = {**PLAYED, "base": "grpo", "weights": "adapters", "save_every": None, "evaluating": held_out}
    first, other, again = (
        record_of({**values, "seed": seed}, tmp_path / str(run)) for run, seed in enumerate((0, 5, 0))
    )

    def drawn(record: RunRecord) -> list[object]:
        begun = [weights.tolist() for name, weights in record.begun["policy"].items() if "lora_A.policy" in name]
        seeds = [{each.sampling.seed for each in record.requests(held_out=held_out)} for held_out in (False, True)]
        return [record.queries, set(record.held_out_tasks), *seeds, begun]

    assert drawn(first) == drawn(again)
    assert all(here != there for here, there in zip(drawn(first), drawn(other), strict=True))


def test_every_harvest_draws_anew(tmp_path):
    """From a context that is the same in all of them, of a task that is alone."""
    record = record_of({**PLAYED, "base": "grpo", "split": "lone", "steps": 3, "save_every": 3}, tmp_path / "run")
    assert len({request.ids for request in record.requests()}) == 1
    seeds = [request.sampling.seed for request in record.requests()]
    assert len(set(seeds)) == len(seeds) == 9


def test_what_was_drawn_is_learned_at_the_temperature_of_its_draw(tmp_path):
    values = {**PLAYED, "base": "echo", "weights": "shared", "step": {"objective": {"beta": 0.01}}}
    changes = {"method": f"{GRADED}:ECHO", "collecting": {"temperature": 0.7}}
    record = record_of({**values, **changes}, tmp_path / "run")
    mismatch = {name: value for signals in record.signals for name, value in signals.items() if "/mismatch/" in name}
    assert {name.split("/")[0] for name in mismatch} == {"policy", "critic"}
    assert max(mismatch.values()) < 1e-3
