"""The two-room world as ALIGN's loop sees it, with scripted models: a naive agent, an analyzer, an optimizer.

The misalignment: taking an object that is in the other room prints "Nothing happens." The agent keeps trying until
some text tells it to go there first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv

MUG, BOOK = TASK_IDS
STEP_LIMIT = 6
HINT = "Go to the study first."
WAYS = {
    "mug 1": ["take mug 1", "go to study", "drop mug 1"],
    "book 1": ["go to study", "take book 1", "go to kitchen", "drop book 1"],
}


def make_env(
    *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
) -> TextEnv:
    return RoomEnv(step_limit or STEP_LIMIT)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    return list(TASK_IDS)


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    return list(TASK_IDS)


SPEC = EnvironmentSpec(
    name="room",
    summary="two rooms",
    splits=("train",),
    train_split="train",
    test_split="train",
    step_limit=STEP_LIMIT,
    action_format="look | inventory | go to {room} | take {object} | drop {object}",
    contract=CONTRACT,
    is_invalid=lambda observation: observation.strip() == "Nothing happens.",
    task_type=lambda task_id: "bring",
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
)


def naive_agent(request: dict[str, Any]) -> str:
    """Fetches the mug; tries to take the book from afar until it is told where to go."""
    told = [message["content"] for message in request["messages"] if message["role"] != "assistant"]
    thing = "mug 1" if "bring the mug 1" in told[1] else "book 1"
    if thing == "book 1" and not any(HINT in text for text in told):
        return "take book 1"
    done = [message["content"] for message in request["messages"] if message["role"] == "assistant"]
    way = WAYS[thing]
    if thing == "book 1" and "go to study" in done:
        done = done[done.index("go to study") :]
    elif thing == "book 1":
        done = []
    return way[min(len(done), len(way) - 1)]


def operation(name: str, argument: str = "") -> str:
    """A model's request for an experiment."""
    given = f"\n<argument>{argument}</argument>" if argument else ""
    return f"Let me see.\n<operation>{name}</operation>{given}"


def findings(support: str | None = None, rule: str = "an object can be taken only in its own room") -> str:
    """A model's findings, citing experiments if `support` is given."""
    cites = "" if support is None else f"<support>{support}</support><refuted></refuted>"
    return (
        f"I think this is it.\n<misalignments><misalignment><task_id>{BOOK}</task_id>"
        f"<action_type>take object</action_type><action>take book 1</action><intent>get hold of the book</intent>"
        f"<rule>{rule}</rule><sufficient_feedback>{HINT}</sufficient_feedback><kind>new-logic</kind>{cites}"
        "</misalignment></misalignments>"
    )


def code(source: str) -> str:
    """A model's reply with code."""
    return f"This should do.\n<code>\n{source}</code>"


GOOD_CODE = f"""\
def InferRules(init_obs, task):
    return "Objects can be taken only in their own room."


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done, info = env.step([agent_action])
    text = obs[0]
    if agent_action.startswith("take ") and text == "Nothing happens.":
        text = text + " {HINT}"
    return text, info["won"][0], done[0]
"""

EXPERIMENTS = [
    operation("init_simulator", BOOK),
    operation("execute_agent_action", "take book 1"),
    operation("get_next_agent_action"),
    operation("change_last_action_observation", HINT),
    operation("get_next_agent_action"),
    operation("execute_agent_action", "go to study"),
    operation("execute_agent_action", "take book 1"),
]
CHECKS = [
    operation("init_simulator", BOOK),
    operation("execute_agent_action", "take book 1"),
    operation("get_next_agent_action"),
    "<resolved>yes</resolved>",
]
ANALYZER = [findings(), *EXPERIMENTS, findings(support="2, 3, 5, 7"), *CHECKS]
"""A whole iteration of the analyzer's model: analysis, then the check of the optimizer's code."""
