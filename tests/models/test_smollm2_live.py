"""A real language model, from the registry: skipped where that cannot be reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.models.choosing import load_model
from align_echo.models.fetching import get_model
from align_echo.types import Message

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return get_model("smollm2")
    except UsageError as error:
        if "cannot be had" not in str(error):
            raise
        pytest.skip(str(error))


def test_it_answers_with_the_ids_and_log_probabilities_of_transformers(folder) -> None:
    question = "What is the capital of France?\n\n1. Name the city.  2. Say no more."
    model: Any = load_model("smollm2")
    reply = model.complete([Message(role="user", content=question)], temperature=0, max_tokens=16)
    assert "Paris" in reply.text
    tokenizer, tokens = AutoTokenizer.from_pretrained(folder), reply.tokens
    chat = [{"role": "user", "content": question}]
    context: Any = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert list(tokens.context_ids) == context
    ids = torch.tensor([[*context, *tokens.sampled_ids]])
    with torch.no_grad():
        logprobs = AutoModelForCausalLM.from_pretrained(folder)(ids).logits[0].log_softmax(-1)
    places = range(len(context) - 1, ids.shape[1] - 1)
    assert tokens.logprobs == pytest.approx([float(logprobs[at, ids[0, at + 1]]) for at in places], abs=5e-5)


def test_it_plays(folder, tmp_path) -> None:
    few = ["--tasks", "1", "--turns", "2", "--workers", "1", "--out", str(tmp_path / "run")]
    assert main(["evaluate", "--env", "alfworld", "--model", "smollm2", *few]) == 0
    (line,) = (tmp_path / "run" / "trajectories" / "none.jsonl").read_text().splitlines()
    assert all(step["reply"].strip() for step in json.loads(line)["steps"])


@pytest.mark.usefixtures("folder")
def test_the_beginner_says_actions_that_the_environment_takes(tmp_path) -> None:
    few = ["--tasks", "4", "--turns", "8", "--workers", "4", "--out", str(tmp_path / "run")]
    assert main(["evaluate", "--env", "alfworld", "--model", "beginner", "--dtype", "bfloat16", *few]) == 0
    lines = (tmp_path / "run" / "trajectories" / "none.jsonl").read_text().splitlines()
    steps = [step for line in lines for step in json.loads(line)["steps"]]
    taken = [step for step in steps if not step["observation"].startswith("Nothing happens")]
    assert len(taken) > len(steps) / 2
