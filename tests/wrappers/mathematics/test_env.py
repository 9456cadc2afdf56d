"""The environment: one turn, scores of 0 or 1, refusals, chat models that hand over a boxed answer, training."""

from __future__ import annotations

import json
import re

import pytest

import align_echo
from align_echo.cli.main import main
from align_echo.errors import EngineError, MissingExtraError, UsageError
from align_echo.wrappers.mathematics import generator
from align_echo.wrappers.mathematics.spec import is_invalid
from tests.align.endpoint import serve
from tests.models.local.tiny import tiny_model, tiny_tokenizer

pytest.importorskip("math_verify")

TASK = "equations/2/0"
ANSWER = generator.problems("test")[TASK].answer


@pytest.fixture
def env():
    made = align_echo.make("math", split="test")
    made.reset(options={"task": TASK})
    yield made
    made.close()


@pytest.mark.parametrize(("answer", "score"), [(ANSWER, 1.0), (f"x = {ANSWER}", 1.0), ("-999", 0.0), ("x", 0.0)])
def test_an_answer_ends_the_episode_with_a_score_of_0_or_1(env, answer, score):
    observation, reward, terminated, truncated, info = env.step(rf"I get $\boxed{{{answer}}}$.")
    assert (reward, terminated, truncated, info["won"]) == (score, True, False, score == 1.0)
    assert observation == f"The answer is {'right' if score else 'wrong'}."
    assert ANSWER not in observation
    with pytest.raises(EngineError, match="over"):
        env.step(rf"\boxed{{{ANSWER}}}")


@pytest.mark.parametrize("reply", ["", ANSWER, r"\boxed{}", r"\boxed{1} \boxed{2}", r"\boxed{" + "1" * 1000 + "}"])
def test_a_reply_without_one_answer_is_told_so_and_is_the_turn(env, reply):
    observation, reward, terminated, truncated, info = env.step(reply)
    assert observation.startswith("No answer could be read: ")
    assert observation.endswith(r"An answer is given once, as \boxed{answer}.")
    assert (reward, terminated, truncated, info["won"]) == (0.0, False, True, False)
    assert is_invalid(observation)
    assert env.unwrapped.refuses(observation)


def test_nothing_of_the_answer_is_told_before_it_is_given():
    env = align_echo.make("math", split="test")
    for task in align_echo.tasks("math", split="test")[:60]:
        _, info = env.reset(options={"task": task})
        assert rf"\boxed{{{generator.problems('test')[task].answer}}}" not in json.dumps(info)
    env.close()


def test_where_math_verify_is_missing_the_line_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr("align_echo.errors.find_spec", lambda name: None)
    env = align_echo.make("math", split="test")
    with pytest.raises(MissingExtraError, match=r"The math environment needs an extra: pip install '\.\[math\]'"):
        env.reset()


def test_engines_and_tasks_of_other_splits_are_refused(env):
    with pytest.raises(UsageError, match="has no engine 'fast'"):
        align_echo.make("math", engine="fast")
    with pytest.raises(UsageError, match="there is no task 'equations/2/20' in this split"):
        env.reset(options={"task": "equations/2/20"})


# ---------------------------------------------------------------- as a user


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_random_agent_says_that_there_is_nothing_to_draw_from(capsys, tmp_path):
    status, _, err = run(capsys, "evaluate", "--env", "math", "--agent", "random", "--out", tmp_path / "run")
    assert (status, err.count("\n")) == (2, 1)
    assert "math lists no actions" in err


def test_the_probe_says_before_it_plays_that_there_are_no_actions_to_learn_of(capsys, tmp_path):
    given = ("--env", "math", "--backend", "probe", "--out", tmp_path / "run")
    status, out, err = run(capsys, "generate-interface", *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "math lists no actions, which the probe needs to know: use --backend llm" in err


REPLIES = {
    "vanilla": "Both sides are\n2x = 8\nand so $x = {answer}$.\n\nThe answer is $\\boxed{{{answer}}}$.",
    "react": "Thought: I solve for the unknown.\nAction: \\boxed{{{answer}}}",
}


@pytest.mark.parametrize("agent", REPLIES)
def test_a_chat_model_hands_over_its_boxed_answer(agent, capsys, tmp_path):
    """The model knows every second answer, and reasons in words around it."""
    known = {problem.text: problem.answer for problem in generator.problems("test").values()}

    def reply(request):
        text, _, goal = request["messages"][-1]["content"].partition("\n\nYour task: ")
        assert r"\boxed{answer}" in goal
        right = sorted(known).index(text) % 2 == 0
        return REPLIES[agent].format(answer=known[text] if right else "-12345")

    with serve({"scripted": reply}) as endpoint:
        model = ("--model", "scripted", "--base-url", endpoint.url, "--agent", agent)
        status, out, err = run(capsys, "evaluate", "--env", "math", *model, "--tasks", 12, "--out", tmp_path / "run")
    assert status == 0, err
    texts = [request["messages"][-1]["content"].partition("\n\nYour task: ")[0] for request in endpoint.requests]
    right = sum(sorted(known).index(text) % 2 == 0 for text in texts)
    assert 0 < right < len(texts) == 12
    assert re.search(rf"none +12 +{100 * right / 12:.1f} ", out)


def test_a_file_of_ones_own_is_evaluated_and_a_damaged_line_is_told(capsys, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"problem": "Add 1 and 1.", "answer": "2"}\n')
    data = ("--data-root", file, "--agent", "expert")
    status, out, _ = run(capsys, "evaluate", "--env", "math", *data, "--out", tmp_path / "run")
    assert (status, f"problems at {file}" in "".join(out.splitlines())) == (0, True)
    file.write_text('{"problem": "Add 1 and 1."}\n')
    status, _, err = run(capsys, "evaluate", "--env", "math", *data, "--out", tmp_path / "again")
    assert (status, err.count("\n")) == (2, 1)
    assert "rows.jsonl line 1 is damaged: it has no 'answer'" in err


def test_two_steps_of_training_run(capsys, tmp_path):
    tiny_model(context=2048).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    config = {
        "env": "math",
        "model": str(tmp_path / "model"),
        "steps": 2,
        "threads": 1,
        "method": "grpo",
        "collecting": {"tasks": 1, "samples": 2, "turns": 1, "reply_tokens": 4, "workers": 2},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    given = ("train", "--config", tmp_path / "config.yaml", "--out", tmp_path / "run")
    status, _, err = run(capsys, *given, "--dry-run")
    assert status == 0, err
    status, _, err = run(capsys, *given)
    assert status == 0, err
    assert (tmp_path / "run" / "policy").is_dir()
