"""Chat agents play from the command line: their tags come through, whatever their reply is dressed in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from align_echo.cli.main import main
from align_echo.types import Trajectory
from align_echo.wrappers.searchqa.corpus import open_questions
from tests.align.endpoint import serve

DRESSED = {
    "vanilla": ("{}", "<think>I should\nlook.</think>\n\n{}", "I do not know that yet. {}"),
    "react": ("Thought: I should look.\nAction: {}", "Thought: next.\nAction: `{}`", "Thought: known.\n**Action:** {}"),
}


@pytest.mark.parametrize("agent", DRESSED)
def test_tags_come_through(agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = {task.question: task for task in open_questions(None, "test").values()}

    def answer(request) -> str:
        messages = request["messages"]
        first = next(message["content"] for message in messages if message["role"] == "user")
        task = tasks[re.findall(r"^Question: (.*)$", first, re.MULTILINE)[0]]
        number = sum(message["role"] == "assistant" for message in messages)
        chain = [f"<search>{title}</search>" for title in task.chain]
        return DRESSED[agent][number % 3].format([*chain, f"<answer>{task.answers[0]}</answer>"][number])

    with serve({"m": answer}) as endpoint:
        command = ["evaluate", "--env", "searchqa", "--agent", agent, "--model", "m", "--base-url", endpoint.url]
        assert main([*command, "--tasks", "4", "--out", "run"]) == 0
    lines = Path("run/trajectories/none.jsonl").read_text().splitlines()
    played = [Trajectory.model_validate_json(line) for line in lines]
    assert [(episode.won, episode.fault) for episode in played] == [(True, None)] * 4
    assert all(step.problem == "" for episode in played for step in episode.steps)
    assert json.loads(Path("run/config.json").read_text())["games"].startswith("embedded questions")
