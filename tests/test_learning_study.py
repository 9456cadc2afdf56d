"""Studies of learning: what a report says of measured episodes, and that every config of a study can be run."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from align_echo.errors import UsageError
from align_echo.train.config import checked_config, read_file
from benchmarks.learning import curves, rounds, stack, taught
from benchmarks.learning.report import compared, findings
from benchmarks.learning.runs import LAST_STEP, START, Job, at_last_step, finish, jobs
from benchmarks.learning.studies import STUDIES, study
from benchmarks.learning.verbs import asked_of, train, train_critic
from benchmarks.pocket import corpus
from tests.evaluate.test_grid import episode

STUDY = study("alfworld")


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """Intervals of a table with a cell or four do not ask for thousands."""
    monkeypatch.setattr("benchmarks.learning.report.RESAMPLES", 200)


def measured(folder: Path, arm: str, seed: int, scores: dict[str, list[float]]) -> Job:
    """A run that is finished, with these scores of a task's episodes."""
    job = Job(arm, seed, folder / arm / f"seed-{seed}", None if arm == START else partial(train), None)
    file = job.measured / "trajectories" / "none.jsonl"
    file.parent.mkdir(parents=True)
    lines = [episode(task, ["look"], score=arm).model_dump_json() for task, some in scores.items() for arm in some]
    file.write_text("\n".join(lines) + "\n")
    (job.folder / "summary.json").write_text(json.dumps({"steps": 4, "environment_steps": 100 * seed}))
    (job.folder / "signals.jsonl").write_text(json.dumps({"policy/tokens": 10, "critic/tokens": seed}) + "\n")
    return job


def test_a_report_weighs_tasks_alike_and_pairs_what_was_gained_by_seed_and_task(tmp_path):
    done = [
        measured(tmp_path, START, 1, {"a": [0.0, 1.0], "b": [0.0]}),
        measured(tmp_path, "grpo", 1, {"a": [1.0, 1.0], "b": [0.0]}),
        measured(tmp_path, "grpo", 2, {"a": [1.0], "b": [1.0]}),
        measured(tmp_path, "echo", 1, {"a": [1.0], "b": [1.0]}),
        measured(tmp_path, "echo", 2, {"a": [1.0], "b": [1.0]}),
    ]
    by_arm = {finding.arm: finding for finding in findings(done, baseline="grpo") if finding.measure == "score"}
    assert (by_arm[START].value, by_arm["grpo"].value, by_arm["echo"].value) == (0.25, 0.75, 1.0)
    assert (by_arm["echo"].gain, by_arm["grpo"].gain, by_arm[START].gain) == (0.25, None, -0.25)
    assert by_arm["grpo"].ci95[0] < 0.75 < by_arm["grpo"].ci95[1]
    assert by_arm["echo"].ci95 == (1.0, 1.0)
    assert (by_arm["grpo"].n, by_arm["grpo"].seeds, by_arm["grpo"].environment_steps) == (4, 2, 150)
    assert by_arm["grpo"].tokens == 11.5
    assert (by_arm[START].environment_steps, by_arm[START].tokens) == (None, None)


def test_what_was_gained_is_of_the_seeds_and_tasks_that_both_have(tmp_path):
    done = [
        measured(tmp_path, START, 1, {"a": [0.0], "b": [0.0]}),
        measured(tmp_path, START, 2, {"a": [1.0], "b": [1.0]}),
        measured(tmp_path, "late", 2, {"a": [1.0], "b": [1.0], "c": [0.0]}),
        measured(tmp_path, "other", 3, {"a": [1.0]}),
    ]
    by_arm = {finding.arm: finding for finding in findings(done, baseline=START) if finding.measure == "score"}
    assert (by_arm["late"].gain, by_arm["late"].n, by_arm["other"].gain) == (0.0, 3, None)


def test_an_arm_of_which_every_episode_broke_is_told_by_name(tmp_path):
    broken = measured(tmp_path, "echo", 1, {"a": [0.0]})
    broken.episodes.write_text(episode("a", ["look"], score=0.0, fault=True).model_dump_json() + "\n")
    with pytest.raises(UsageError, match="every episode of echo broke"):
        findings([broken], baseline=START)


def test_seeds_come_one_after_the_other_so_that_a_study_cut_short_is_a_comparison():
    todo = jobs(STUDY, ["grpo", "echo"], 2, Path("out"))
    assert [(job.seed, job.arm) for job in todo[:3]] == [(1, START), (1, "grpo"), (1, "echo")]
    assert len({job.folder for job in todo}) == len(todo)


def test_the_last_step_is_measured_beside_the_best_one_of_the_same_training():
    (_, job) = jobs(STUDY, ["grpo"], 1, Path("out"))
    again = at_last_step(STUDY, job)
    models = [asked_of(measured.measuring)["model"] for measured in (job, again)]
    assert models == ["out/grpo/seed-1/policy", "out/grpo/seed-1/last/policy"]
    assert (again.training, again.folder, again.arm) == (job.training, job.folder, "grpo, last step")
    assert again.measured != job.measured


@pytest.mark.long
def test_last_checkpoints_are_compared_with_the_last_one_of_the_baseline(tmp_path):
    scores = {START: 0.0, "grpo": 1.0, "echo": 1.0, f"grpo{LAST_STEP}": 0.25, f"echo{LAST_STEP}": 0.5}
    done = [measured(tmp_path, arm, 1, {"a": [score]}) for arm, score in scores.items()]
    gains = {finding.arm: finding.gain for finding in compared(done, "grpo") if finding.measure == "score"}
    assert gains == {START: -1.0, "grpo": None, "echo": 0.0, f"grpo{LAST_STEP}": None, f"echo{LAST_STEP}": 0.25}
    over_start = {finding.arm: finding.gain for finding in compared(done, START) if finding.measure == "score"}
    assert (over_start["grpo"], over_start[f"grpo{LAST_STEP}"]) == (1.0, 0.25)


@pytest.mark.long
def test_a_command_that_fails_stops_the_study_with_its_own_words(tmp_path):
    missing = partial(train_critic, examples=(Path("nowhere"),), model="pocket", seed=1)
    job = Job("critic", 1, tmp_path / "critic", missing, None)
    with pytest.raises(RuntimeError, match=r"critic, seed 1: training failed: there are no examples in nowhere.*"):
        finish([job], processes=1, say=lambda line: None)


@pytest.mark.parametrize("chosen", STUDIES.values(), ids=list(STUDIES))
def test_every_study_compares_with_an_arm_of_its_own(chosen):
    assert chosen.baseline in {START, *chosen.arms}


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_arm_of_a_study_has_the_same_budget_and_chooses_on_other_tasks_than_it_reports(name):
    configs = [checked_config(read_file(file), file.name) for file in study(name).arms.values()]
    assert len({config.environment_steps for config in configs}) == 1
    assert (
        len({(config.optimising.lr, config.collecting.tasks, config.collecting.samples) for config in configs}) == 1
    )
    assert all(config.env == study(name).env and config.evaluating.split != study(name).split for config in configs)


def test_a_stack_is_every_combination_of_its_layers_on_the_same_tasks():
    todo = stack.jobs(Path("trained"), Path("inside"), [1, 2], Path("out"), interface="probe", best_of=4)
    arms = [job.arm for job in todo if job.seed == 1]
    assert (arms[0], arms[-1], len(set(arms))) == (START, "interface + trained inside + best-of", 10)
    assert len({job.folder for job in todo}) == 20
    for job in todo:
        asked = asked_of(job.measuring)
        named = "inside" if "inside" in job.arm else "trained" if "trained" in job.arm else ""
        assert asked["model"] == (f"{named}/seed-{job.seed}/policy" if named else "pocket")
        assert (asked["interface"] == "probe", asked["best_of"] == 4) == (
            "interface" in job.arm,
            "best-of" in job.arm,
        )


def training(folder: Path, scores: list[float], pairs: list[list[float]]) -> Path:
    """What a run of two steps wrote: held-out scores before and after, and a pair a step."""
    folder.mkdir(parents=True)
    files: dict[str, list[dict[str, object]]] = {
        "signals": [
            {"step": 1, "environment_steps": 10, "log_w_t": -2.0, "count/critiques_of_lost_attempts": 3},
            {"step": 2, "environment_steps": 30, "log_w_t": 1.0, "count/unread_critiques_of_lost_attempts": 2},
        ],
        "held_out": [{"step": 2 * index, "score": {"value": score}} for index, score in enumerate(scores)],
        "refinements": [{"step": step, "scores": [pair]} for step, pair in enumerate(pairs, 1)],
    }
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_curves_tell_turns_scores_changes_by_band_and_weights(tmp_path):
    runs = [
        training(tmp_path / "1", [0.25, 0.5], [[0.5, 0.75], [1.0, 0.0]]),
        training(tmp_path / "2", [0.75, 1.0], [[0.5, 0.25], [0.0, 1.0]]),
    ]
    drawn = curves.curves({"icrl": runs})
    points = [(point.environment_steps, point.score, point.lowest) for point in drawn["points"]]
    assert points == [(0, 0.5, 0.25), (40, 0.75, 0.5)]
    changes = {(gain.half, gain.before): (gain.gain, gain.n) for gain in drawn["gains"]}
    assert changes[("first", "0.5-0.75")] == changes[("first", "all")] == (0.0, 2)
    assert (changes[("second", "full")], changes[("second", "0-0.25")]) == ((-1.0, 1), (1.0, 1))
    assert drawn["spreads"][1].shares == {"0-0.25": {"full": 0.5}, "full": {"0-0.25": 0.5}}
    assert drawn["weights"] == {"icrl": {"first": {"log_w_t": -2.0}, "second": {"log_w_t": 1.0}}}
    assert drawn["critiques"] == {"icrl": {"lost": {"asked": 6, "unread": 4, "cut": 0}}}


def test_a_seed_that_stopped_early_does_not_bend_the_curve(tmp_path):
    runs = [training(tmp_path / "1", [0.25, 0.5], []), training(tmp_path / "2", [0.75], [])]
    drawn = curves.curves({"grpo": runs})
    assert [(point.step, point.seeds) for point in drawn["points"]] == [(0, 2)]
    assert (drawn["gains"], drawn["spreads"]) == ([], [])


def attempts(folder: Path, arm: str, seed: int, by_round: list[dict[str, bool]]) -> Job:
    """A finished run of rounds: which tasks were played in each, and won."""
    job = Job(arm, seed, folder / arm / f"seed-{seed}", None, None)
    (job.measured / "trajectories").mkdir(parents=True)
    for number, played in enumerate(by_round):
        lines = [episode(task, ["look"], score=float(won)).model_dump_json() for task, won in played.items()]
        (job.measured / "trajectories" / f"round-{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return job


def test_rounds_are_compared_with_as_many_attempts_without_a_critic(tmp_path):
    first = {"a": True, "b": False, "c": False}
    done = [
        attempts(tmp_path, "icrl, self", 1, [first, {"b": True, "c": False}, {"c": True}]),
        attempts(tmp_path, "icrl, none", 1, [first, {"b": False, "c": False}, {"b": True, "c": False}]),
    ]
    by_round = {(standing.critic, standing.round): standing for standing in rounds.standings(done, 2)}
    assert [round(3 * by_round["self", number].success) for number in range(3)] == [1, 2, 3]
    assert [round(3 * by_round["none", number].success) for number in range(3)] == [1, 1, 2]
    assert by_round["self", 0].gain is None
    assert by_round["none", 2].gain is None
    assert by_round["self", 1].gain == by_round["self", 2].gain == pytest.approx(1 / 3)


def test_rounds_ask_the_critic_that_was_trained_with_the_policy_of_its_seed():
    todo = rounds.jobs(Path("trained"), [1, 2], Path("out"), rounds=2)
    asked = {(job.arm, job.seed): asked_of(job.measuring)["critic"] for job in todo}
    assert len(asked) == len(todo) == len({job.folder for job in todo}) == 14
    assert asked["echo, own critic", 2] == "trained/echo/seed-2/critic"
    assert (asked["echo, start", 1], asked["start, self", 1], asked["icrl, none", 2]) == ("pocket", "self", "none")


@pytest.mark.long
def test_the_taught_start_is_a_model_that_was_taught_and_is_not_taught_twice(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(corpus, "SHOPPING_REVIEWS_A_PART", 12)
    from align_echo.models import load_model
    from align_echo.models.recording import get_weights

    settings = taught.SETTINGS.model_copy(update={"longest": 700, "bf16": False})
    loss, chats = taught.teach(tmp_path, {"shopping-critics": 1}, settings)
    assert (loss > 0, chats) == (True, 12)
    model = load_model(str(tmp_path / "model"))
    assert get_weights(model) != get_weights(load_model("pocket"))
    with pytest.raises(UsageError, match="is there already"):
        taught.teach(tmp_path, {"shopping-critics": 1}, settings)
