"""`align-echo critic` as a new user meets it: collect, train, evaluate, use; and bad input in one line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

from align_echo.cli.main import main
from align_echo.critic.ask import SamplingSettings, read_calibration, read_sampling
from align_echo.gaia.collect import CollectionSummary, read_collection
from align_echo.gaia.examples import ActionExample, is_held_out, read_examples, write_examples
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.trial import TABLE, TrialResult
from align_echo.types import Message
from tests.gaia.test_examples import example
from tests.holder import holder
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.play import source

CRITIC = ["critic", "train", "--held-out", "0", "--least", "1", "--out", "critic", "--examples"]
COLLECT = ["critic", "collect", "--env", "alfworld", "--model", "pocket", "--tasks", "2", "--seed", "1"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """Two tasks that the pocket model played with two candidates a turn."""
    folder: Path = tmp_path_factory.mktemp("collections") / "made"
    assert main([*COLLECT, "--candidates", "2", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A random one."""
    folder: Path = tmp_path_factory.mktemp("model") / "tiny"
    tiny_model(context=8000).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Path:
    """Hand-made ones of several tasks."""
    examples = [
        example(f"task {task}", action, nearer="correct" if action == "look" else "wrong", expert=None)
        for task in range(8)
        for action in ("look", "go to desk 1")
    ]
    folder: Path = tmp_path_factory.mktemp("examples")
    write_examples(examples, folder / "examples.parquet")
    return folder


def train(examples: Path, model: Path, *more: object) -> list[object]:
    return ["critic", "train", "--examples", examples, "--model", model, "--least", "1", "--out", "critic", *more]


@pytest.mark.long
def test_a_collection_has_every_candidate_of_every_turn_with_its_labels(collection):
    played, labelled = read_collection(collection)
    collected = CollectionSummary.model_validate_json((collection / "summary.json").read_text())
    steps = [step for trajectory in played for step in trajectory.steps]
    assert (collected.episodes, collected.turns, collected.candidates) == (2, len(steps), 2 * len(steps))
    assert all(step.choice is not None and len(step.choice.candidates) == 2 for step in steps)
    rows = read_examples(collection)
    labels = {(trajectory.task_id, turn, candidate.action, candidate.nearer)
              for trajectory in labelled for turn, actions in enumerate(trajectory.turns) for candidate in actions}
    assert {(row.task_id, row.turn, row.action, row.nearer) for row in rows} <= labels
    assert len(rows) == collected.examples
    config = json.loads((collection / "config.json").read_text())
    assert (config["top_k"], config["top_p"], config["agent_details"]["pick"]) == (30, 0.8, "first")


@pytest.mark.long
def test_collect_train_evaluate_and_use_it(collection, run):
    status, out, err = run(*CRITIC, collection)
    assert status == 0, err
    assert "no task was held out" in out
    assert "written: critic/critic, to be named as --judge" in out
    assert read_sampling(Path("critic/critic")) == (SamplingSettings(temperature=1.0, top_k=30, top_p=0.8),)
    assert json.loads(Path("critic/config.json").read_text())["settings"]["weights"] == "full"
    assert "settings for a model of this size: full weights" in err
    assert {entry.name for entry in Path("critic").iterdir()} == {
        "checkpoints",
        "config.json",
        "critic",
        "summary.json",
    }
    assert not Path("critic/critic/calibration.json").exists()
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert (fitted.rule, fitted.temperature, fitted.held_out, fitted.too_long) == ("nearer", 1.0, None, 0)
    status, out, err = run(
        "critic", "evaluate", "--judge", "critic/critic", "--examples", collection, "--out", "trial"
    )
    assert status == 0, err
    result = TrialResult.model_validate_json(Path("trial/summary.json").read_text())
    assert result.critic.n == result.critic.with_logit
    assert {point.candidates for point in result.curve} == {1, 2}
    assert "right action taken" in out
    guided = [*COLLECT, "--candidates", "2", "--tasks", "1", "--judge", "critic/critic", "--out", "guided"]
    status, out, err = run(*guided)
    assert status == 0, err
    assert "best of 2 at temperature 1.0 by" in err


@pytest.mark.long
def test_a_critic_is_held_against_judges_that_read_nothing_and_told_so(examples, model, run):
    """The table knows these examples by heart, and a random model learns nothing at this rate."""
    status, out, err = run(*train(examples, model, "--held-out", "0.3", "--lr", "1e-9"))
    assert status == 0, err
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert fitted.baselines[TABLE].accuracy.value == 100
    assert f"{TABLE}: 100.0%" in out
    assert re.search(rf"^warning: this critic is not shown to beat .*{TABLE}", err, re.MULTILINE)


@pytest.mark.long
def test_play_draws_as_the_critics_data_was_drawn_unless_told_otherwise(collection, run):
    assert run(*CRITIC, collection)[0] == 0
    play = ["evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--best-of", "2", "--judge"]
    play += ["critic/critic", "--temperature", "1"]
    status, _, err = run(*play, "--out", "alike")
    assert (status, "warning" in err) == (0, False), err
    config = json.loads(Path("alike/config.json").read_text())
    assert (config["top_k"], config["top_p"]) == (30, 0.8)
    status, _, err = run(*play, "--top-k", "0", "--out", "other")
    assert status == 0, err
    assert "the critic learned from candidates drawn at temperature 1 with --top-k 30 --top-p 0.8; these are" in err
    assert "drawn at temperature 1 from all tokens: its verdicts may mislead" in err


def test_an_interface_that_fails_in_a_collection_is_told(run):
    Path("mine.py").write_text(source("raise RuntimeError('no')"))
    status, out, err = run(*COLLECT, "--tasks", "1", "--candidates", "1", "--interface", "mine.py", "--out", "made")
    assert status == 1
    assert "the interface did not work: mine.py" in err
    assert re.search(r"^the interface failed on \d+ of its turns, .* line 6: RuntimeError: no$", out, re.MULTILINE)


@pytest.mark.long
def test_a_finished_collection_resumes_to_the_same(collection, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(collection, copy)
    before = {entry.name: entry.read_bytes() for entry in copy.iterdir() if entry.is_file()}
    status, _, err = run(*COLLECT, "--candidates", "2", "--out", copy, "--resume")
    assert status == 0, err
    assert {entry.name: entry.read_bytes() for entry in copy.iterdir() if entry.is_file()} == before
    status, _, err = run(*COLLECT, "--candidates", "3", "--out", copy, "--resume")
    assert (status, err.count("\n")) == (2, 2)
    assert "was started with" in err


@pytest.mark.long
def test_in_the_experts_states_every_episode_is_won_whatever_the_candidates_are(run, tmp_path):
    status, _, err = run(*COLLECT, "--candidates", "2", "--states", "expert", "--out", str(tmp_path / "led"))
    assert status == 0, err
    played, _ = read_collection(tmp_path / "led")
    assert all(trajectory.won for trajectory in played)
    assert {trajectory.agent for trajectory in played} == {"first-of-2(vanilla(pocket)), led by expert"}
    examples = read_examples(tmp_path / "led" / "examples.parquet")
    assert any(example.nearer == "wrong" for example in examples)
    assert not any(example.sent and example.expert == "wrong" for example in examples)


@pytest.mark.long
def test_a_stopped_collection_goes_on_where_it_was(collection, run, stop_after_first_episode):
    command = [*COLLECT, "--candidates", "2", "--workers", "1", "--out", "run"]
    status, _, err = run(*command)
    assert status == 130
    assert "--resume --out run" in err
    assert not Path("run/summary.json").exists()
    status, out, err = run("critic", "evaluate", "--judge", "pocket", "--examples", "run", "--out", "trial")
    assert (status, out) == (2, "")
    assert "no finished collection" in err
    status, _, err = run(*command, "--resume")
    assert status == 0, err
    assert [episode.task_id for episode in read_collection(Path("run"))[0]] == [
        episode.task_id for episode in read_collection(collection)[0]
    ]


@pytest.mark.long
def test_a_critic_is_calibrated_on_tasks_that_it_did_not_learn_from(examples, model, run):
    status, out, err = run(*train(examples, model, "--held-out", "0.3", "--weights", "lora"))
    assert status == 0, err
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert fitted.held_out is not None
    assert (fitted.learned_from + fitted.held_out.n, fitted.tasks + fitted.held_out.accuracy.n) == (16, 8)
    calibration = read_calibration(Path("critic/critic"))
    assert (calibration.temperature, calibration.n) == (fitted.temperature, fitted.held_out.n)
    assert Path("critic/critic/adapter/adapter_config.json").is_file()
    assert "held-out tasks" in out
    before = Path("critic/summary.json").read_bytes()
    assert run(*train(examples, model, "--held-out", "0.3", "--weights", "lora", "--resume"))[0] == 0
    assert Path("critic/summary.json").read_bytes() == before


@pytest.mark.long
def test_a_training_that_wrote_half_a_checkpoint_resumes_and_one_without_any_is_begun_anew(examples, model, run):
    command = train(examples, model, "--held-out", "0")
    assert run(*command)[0] == 0
    shutil.rmtree("critic/critic")
    Path("critic/summary.json").unlink()
    Path("critic/checkpoints/checkpoint-99").mkdir()
    assert run(*command, "--resume")[0] == 0
    assert Path("critic/critic/model.safetensors").is_file()
    shutil.rmtree("critic/critic")
    Path("critic/summary.json").unlink()
    shutil.rmtree("critic/checkpoints")
    assert run(*command)[0] == 0
    status, _, err = run(*command)
    assert (status, err.count("\n")) == (2, 1)
    assert "critic is not empty: add --resume" in err


@pytest.mark.long
def test_a_training_that_another_process_is_at_work_on_is_left_alone(examples, model, run):
    Path("critic").mkdir()
    with holder(Path("critic")):
        status, _, err = run(*train(examples, model, "--held-out", "0"))
        assert (status, err.count("\n"), "another process is at work in critic" in err) == (2, 1, True)
    assert list(Path("critic").iterdir()) == []
    assert run(*train(examples, model, "--held-out", "0"))[0] == 0
    with holder(Path("critic")):
        status, _, err = run(*train(examples, model, "--held-out", "0", "--resume"))
        assert (status, err.count("\n"), "another process is at work in critic" in err) == (2, 1, True)


def test_resume_asks_for_the_same(examples, model, run):
    assert run(*train(examples, model, "--held-out", "0"))[0] == 0
    status, _, err = run(*train(examples, model, "--held-out", "0", "--lr", "0.5", "--resume"))
    assert (status, err.count("\n")) == (2, 1)
    assert "critic was started with settings.lr = 0.0006, not 0.5" in err


@pytest.mark.long
def test_the_model_of_a_resumed_training_is_told_by_its_files_not_by_its_path(examples, model, run):
    shutil.copytree(model, "one")
    assert run(*train(examples, Path("one"), "--held-out", "0"))[0] == 0
    shutil.move("one", "other")
    status, _, err = run(*train(examples, Path("other"), "--held-out", "0", "--resume"))
    assert status == 0, err
    tiny_model(seed=1, context=8000).save_pretrained("other")
    status, _, err = run(*train(examples, Path("other"), "--held-out", "0", "--resume"))
    assert (status, err.count("\n")) == (2, 1)
    assert "critic was started with weights = " in err


def test_weighed_states_are_learned_from_whole_unless_their_actions_are_all_right_or_all_wrong(model, run):
    examples = [
        example(f"task {task}", action, nearer="correct" if action == "look" else "wrong")
        for task, actions in enumerate([("look", "go", "wait"), ("look", "go"), ("go",)])
        for action in actions
    ]
    write_examples(examples, Path("some.parquet"))
    Path("weighed.yaml").write_text("balance: weighed\n")
    status, _, err = run(*train(Path("some.parquet"), model, "--held-out", "0", "--config", "weighed.yaml"))
    assert status == 0, err
    assert "1 of states whose actions are all right or all wrong" in err
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert (fitted.learned_from, fitted.tasks, fitted.one_sided) == (5, 2, 1)
    status, _, err = run(*train(Path("some.parquet"), model, "--held-out", "0", "--out", "dropped"))
    assert status == 0, err
    assert TrainingSummary.model_validate_json(Path("dropped/summary.json").read_text()).learned_from == 4


def test_what_is_not_learned_from_is_counted_by_why(model, run):
    rows = [
        *(example("a", f"go to desk {number}", nearer="wrong") for number in range(3)),
        *(example("a", "look", nearer="correct") for _ in range(3)),
        example("a", "inventory", nearer=None),
    ]
    write_examples(rows, Path("some.parquet"))
    status, _, err = run(*train(Path("some.parquet"), model, "--held-out", "0"))
    assert status == 0
    left_out = "left out: 2 duplicates, 1 that the rule 'nearer' cannot tell, 2 so that as many are right as wrong"
    assert f"learning from 2 actions by the rule 'nearer'; 0 held out; {left_out}\n" in err
    fitted = TrainingSummary.model_validate_json(Path("critic/summary.json").read_text())
    assert (fitted.learned_from, fitted.duplicates, fitted.unlabelled, fitted.unbalanced) == (2, 2, 1, 2)
    status, _, err = run(*train(Path("some.parquet"), model, "--held-out", "0", "--least", "3", "--out", "refused"))
    assert status == 2
    assert f"2 actions are too few to learn from ({left_out}): a critic needs 3; " in err
    assert not Path("refused").exists()


@pytest.mark.long
def test_the_seed_of_a_config_counts_unless_the_command_names_another(examples, model, run):
    Path("settings.yaml").write_text("seed: 7\n")
    command = train(examples, model, "--held-out", "0", "--config", "settings.yaml")
    assert run(*command)[0] == 0
    assert json.loads(Path("critic/config.json").read_text())["settings"]["seed"] == 7
    assert run(*command, "--seed", "3", "--out", "other")[0] == 0
    assert json.loads(Path("other/config.json").read_text())["settings"]["seed"] == 3


@pytest.mark.parametrize("kind", [(), ("--reasoning",)])
@pytest.mark.parametrize(("tested", "long"), [(False, "wrong"), (True, "correct")])
def test_what_is_too_long_may_leave_a_side_one_label_alone_and_is_then_refused(kind, tested, long, model, run):
    def messages(task: str, label: str) -> tuple[Message, ...]:
        too_long = label == long and is_held_out(task, 0.3) == tested
        return (Message(role="user", content=f"{task} {'hall ' * (500 if too_long else 1)}"),)

    examples = [
        example(f"task {number}", action, nearer=label, messages=messages(f"task {number}", label))
        for number in range(8)
        for action, label in (("look", "correct"), ("wait", "wrong"))
    ]
    write_examples(examples, Path("one/examples.parquet"))
    Path("settings.yaml").write_text("longest: 400")
    status, out, err = run(*train(Path("one"), model, *kind, "--config", "settings.yaml", "--held-out", "0.3"))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert f"no conversation about a {long} action fits into 400 tokens: set `longest`" in err
    assert not Path("critic").exists()


def test_a_wrong_value_is_told_by_where_it_comes_from(examples, model, run):
    Path("settings.yaml").write_text("{rank: 0, lr: 0.001}")
    config = ("--config", "settings.yaml")
    for more, message in (
        ((*config, "--lr", "-1"), "settings.yaml: rank: "),
        (("--lr", "-1"), "--lr: must be above 0"),
        (("--reasoning", "--lr", "inf"), "--lr: must be a finite number"),
        (("--weights", "some"), "--weights: must be lora or full"),
    ):
        status, out, err = run(*train(examples, model, *more))
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert f"align-echo: {message}" in err
    Path("settings.yaml").write_text("{lr: .inf, rank: 2}")
    for more, message in ((config, "settings.yaml: lr: "), ((*config, "--lr", "-1"), "--lr: must be above 0")):
        status, _, err = run(*train(examples, model, *more))
        assert (status, err.count("\n")) == (2, 1)
        assert f"align-echo: {message}" in err


@pytest.mark.long
def test_another_folder_than_that_of_a_critic_of_text_is_told_what_it_is(collection, model, run):
    pytest.importorskip("PIL")
    from align_echo.gaia.gui.fit import tiny_vision

    critic_folder = Path("run/critic")
    shutil.copytree(model, critic_folder)
    Path("run/config.json").write_text(json.dumps({"command": "critic train"}))
    vision, encoder = tiny_vision()
    vision.save_pretrained("eyes")
    encoder.save(Path("eyes"))
    for name, message in (
        ("run", "no model can be loaded from run: name run/critic, which holds one"),
        ("./eyes", "eyes is a critic on screens: put it on trial with align-echo critic gui-steps"),
    ):
        status, out, err = run("critic", "evaluate", "--judge", name, "--examples", collection, "--out", "trial")
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert message in err
        assert not Path("trial").exists()
    status, out, err = run(*train(collection, Path("run"), "--held-out", "0"))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "no model can be loaded from run: name run/critic, which holds one" in err


BAD = {
    "an agent without a model": ([*COLLECT[:4], "--agent", "expert"], "the agent expert asks no model"),
    "candidates that would be alike": ([*COLLECT, "--temperature", "0"], "--candidates 8 needs a --temperature"),
    "nothing to draw from": ([*COLLECT, "--top-p", "0"], "--top-p is above 0"),
    "a guide of nothing": ([*COLLECT, "--candidates", "1", "--judge", "self"], "--judge needs candidates"),
    "a script as a guide": ([*COLLECT, "--judge", "novice"], "can only play: name another with --judge"),
    "a script as a critic": (
        ["critic", "evaluate", "--judge", "novice", "--examples", "."],
        "can only play: name another with --judge",
    ),
    "an unknown environment": (["critic", "collect", "--env", "chess"], "chess"),
    "truncation at an endpoint": (
        [*COLLECT[:4], "--agent", "vanilla", "--model", "far", "--base-url", "http://localhost:1/v1", "--top-k", "5"],
        "--top-k and --top-p are for local models",
    ),
    "resume without a folder": ([*COLLECT, "--resume"], "add --out DIR"),
    "nothing to resume": (["critic", "train", "--examples", "E", "--resume"], "there is nothing to resume in out"),
    "no examples": (["critic", "train", "--examples", "nowhere"], "there are no examples in nowhere"),
    "an unknown rule": (["critic", "train", "--examples", "E", "--rule", "best"], "unknown label rule 'best'; known: "),
    "another environment's rule": (["critic", "train", "--examples", "E", "--rule", "continues"], "correct and wrong"),
    "no share": (["critic", "train", "--examples", "E", "--held-out", "1"], "at least 0 and below 1"),
    "a share of too few": (["critic", "train", "--examples", "E", "--held-out", "0.001"], "the tasks are too few"),
    "a handful of examples": (
        ["critic", "train", "--examples", "E", "--held-out", "0"],
        "16 actions are too few to learn from (none was left out): a critic needs 100; collect more (align-echo critic "
        "collect --tasks N), or add --least 16 to learn from these all the same",
    ),
    "no learning rate": (["critic", "train", "--examples", "E", "--lr", "-1"], "lr: must be above 0"),
    "a model that cannot learn": (["critic", "train", "--examples", "E", "--model", "gpt"], "cannot be trained"),
    "only examples": (["critic", "evaluate", "--judge", "pocket", "--examples", "E"], "no finished collection"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(case, run, examples):
    arguments, message = BAD[case]
    out = [] if case == "resume without a folder" else ["--out", "out"]
    status, result, err = run(*(examples if argument == "E" else argument for argument in arguments), *out)
    assert (status, result) == (2, "")
    assert err.count("\n") == 1, err
    assert message in err
    assert list(Path().iterdir()) == []


def test_collections_of_environments_with_other_rules_need_a_rule(examples, model, run):
    other: list[ActionExample] = [
        example("box", "look", environment="scienceworld", nearer=None, continues="correct", expert="correct"),
        example("box", "wait", environment="scienceworld", nearer=None, continues="wrong", expert="wrong"),
    ]
    write_examples(other, Path("other/examples.parquet"))
    both = train(examples, model, "--examples", "other", "--held-out", "0")
    status, _, err = run(*both)
    assert (status, err.count("\n")) == (2, 1)
    assert "alfworld: nearer, scienceworld: continues): choose with --rule" in err
    assert not Path("critic").exists()
    assert run(*both, "--rule", "expert")[0] == 0


def test_a_collection_that_does_not_say_who_played_is_refused(collection, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(collection, copy)
    for text in ("[]", '{"agent": "expert"}', "no json"):
        (copy / "config.json").write_text(text)
        status, out, err = run("critic", "evaluate", "--judge", "pocket", "--examples", copy, "--out", "trial")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "does not say which agent played" in err
