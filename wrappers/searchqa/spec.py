"""Static facts about SearchQA, without its documents: splits, action forms, interface contract, invalid actions."""

from __future__ import annotations

import re

from align_echo.interface.contract import InterfaceContract

SPLITS = ("train", "dev", "test")

ACTION_FORMAT = """\
One action a turn, written exactly in one of these forms:
<search>{query}</search> | <answer>{answer}</answer>
A search shows the documents that match its words best.
An answer ends the episode: give the name, the year or the number alone."""

CONTRACT = InterfaceContract(
    environment="searchqa",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
)

STEP_LIMIT = 10
"""Turns of an episode. Published loops differ: 2 searches and an answer, 5 turns, 30 turns."""

SCORES = ("exact", "f1")
"""Choices of `engine`: if an answer is right, or its word overlap with the right answer."""

REFUSAL = "Not an action: "

UNREAD = REFUSAL + "write <search>words to look for</search>, or <answer>the answer</answer>, which ends the episode."

EMPTY = REFUSAL + "the search is empty. Write <search>words to look for</search>."

_OPENING = re.compile(r"<(search|answer)>")


def parse_action(action: str) -> tuple[str, str]:
    """Parse ("search" or "answer", text between the tags) of the first pair of tags; ("", "") if there is none."""
    last = {name: action.rfind(f"</{name}>") for name in ("search", "answer")}
    for opening in _OPENING.finditer(action):
        name, start = opening[1], opening.end()
        if start <= last[name]:
            return name, " ".join(action[start : action.find(f"</{name}>", start)].split())
    return "", ""


def is_invalid(observation: str) -> bool:
    """Check if the action was refused: it has neither form, or its search is empty."""
    return observation.startswith(REFUSAL)


def task_type(task_id: str) -> str:
    """Read the kind of question from `<split>/<kind>/<number>`; "" for an invalid id."""
    return task_id.partition("/")[2].partition("/")[0]


def has_expert(task_id: str) -> bool:
    """Check if the documents with the answer are known, as for the embedded questions."""
    return task_type(task_id) != "question"
