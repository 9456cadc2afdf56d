"""The llm backend on real engines whose interface code has another layout than ALFWorld's, from the command line on.

The models are scripted behind a local endpoint; the agent whose failures they look at is the scripted novice.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import align_echo
from align_echo.cli.main import main
from align_echo.interface.contract import STEP_LAYOUTS
from align_echo.wrappers import catalogue
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from tests.align.endpoint import Endpoint, serve
from tests.align.room_world import code, operation


@dataclass(frozen=True)
class Lesson:
    """What the scripted models find on an environment: an action in vain, what tells it, and code that says so.

    `wrong` pairs code in another environment's layout with what its author must hear of it.
    """

    action: str
    hint: str
    good: str
    wrong: tuple[tuple[str, str], ...]


RULES = 'def InferRules(init_obs, task):\n    return "Say it in the listed forms."\n\n\n'
HEAD = RULES + "def WrapStep(env, init_obs, task, agent_action, logger):\n"

ALFWORLDS = HEAD + "    obs, _, done, info = env.step([agent_action])\n    return obs[0], info['won'][0], done[0]\n"

LAB = Lesson(
    action="heat water",
    hint="There is no verb for heating: move it onto a stove.",
    good=HEAD
    + """\
    obs, _, done, info = env.step(agent_action)
    if obs.startswith("No known action"):
        here = env.step("look around")[0].splitlines()[0]
        obs = obs + " There is no verb for heating: move it onto a stove. " + here
    return obs, done, info["score"]
""",
    wrong=(
        (ALFWORLDS, "env.step takes one action as text"),
        (
            HEAD + "    obs, reward, done, info = env.step(agent_action)\n    return obs, reward, done\n",
            "the score is a number",
        ),
        (
            HEAD
            + "    if agent_action.startswith('heat '):\n        return 'No.', False, 0\n"
            + "    obs, reward, done = env.step(agent_action)\n    return obs, done, 0\n",
            "too many values to unpack",
        ),
        (
            HEAD + "    obs = env.step('move water to stove')[0]\n    return obs, False, 0\n",
            "neither the agent's own action nor a read-only one",
        ),
    ),
)
SHOP = Lesson(
    action="click[sign in]",
    hint="Nothing changed: that is no button of this page.",
    good=HEAD
    + """\
    obs, reward, done = env.step(agent_action)
    before, env.page = getattr(env, "page", init_obs), obs
    if obs == before:
        obs = obs + "\\nNothing changed: that is no button of this page."
    return obs, reward, done
""",
    wrong=(
        (ALFWORLDS, "env.step takes one action as text"),
        (
            HEAD + "    obs, reward, done, info = env.step(agent_action)\n    return obs, reward, done\n",
            "not enough values to unpack",
        ),
        (
            HEAD
            + "    if agent_action == 'click[sign in]':\n        return 'No.', 0, False\n"
            + "    obs, _, done, info = env.step(agent_action)\n    return obs, done, info['score']\n",
            "not enough values to unpack",
        ),
    ),
)
TOOLS_HEAD = (
    'def InferRules(task_name, task_type_idx):\n    return "Say it in the listed forms."\n\n\n'
    "def WrapStep(env, task_name, instruction, agent_action, logger):\n"
)
TOOLS = Lesson(
    action="Action: finish('it') End Action",
    hint="Brackets belong to no tool's name: write commas.",
    good=TOOLS_HEAD
    + """\
    obs, reward, done = env.step(agent_action)
    if obs.startswith("There is no tool named") and "(" in agent_action:
        obs = obs + " Brackets belong to no tool's name: write commas."
    return obs, reward, done
""",
    wrong=(
        (ALFWORLDS, "env.step takes one action as text"),
        (
            TOOLS_HEAD + "    obs, reward, done, info = env.step(agent_action)\n    return obs, reward, done\n",
            "not enough values to unpack",
        ),
    ),
)
LESSONS = {"scienceworld": LAB, "webshop": SHOP, "m3tooleval": TOOLS}

pytestmark = pytest.mark.long

ENVIRONMENTS = [
    pytest.param("scienceworld", marks=pytest.mark.skipif(not find_spec("scienceworld"), reason="no simulator")),
    "webshop",
    "m3tooleval",
]


class Analyst:
    """A model that finds the lesson in the first failed episode it is shown and then carries out experiments.

    It cites the two experiments that tell: the action in vain, and what the agent does once it is told.
    """

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson
        self._number = 0
        self._task = ""

    def __call__(self, request: dict[str, Any]) -> str:
        if request["messages"][0]["content"].startswith("Somebody makes claims"):
            return "[]"
        number = self._number
        self._number += 1
        if number == 0:
            shown = re.search(r"^## Task (\S+)$", request["messages"][-1]["content"], re.MULTILINE)
            assert shown is not None
            self._task = shown[1]
        acting = [
            operation("init_simulator", self._task),
            operation("execute_agent_action", self._lesson.action),
            operation("get_next_agent_action"),
        ]
        believing = [operation("change_last_action_observation", self._lesson.hint), operation("get_next_agent_action")]
        moves = [self._findings(""), *acting, *believing, self._findings("<support>2, 5</support><refuted></refuted>")]
        return [*moves, *acting, "<resolved>yes</resolved>"][number]

    def _findings(self, cites: str) -> str:
        return (
            f"<misalignments><misalignment><task_id>{self._task}</task_id><action_type>a form of words</action_type>"
            f"<action>{self._lesson.action}</action><intent>to get on</intent><rule>only the listed forms work</rule>"
            f"<sufficient_feedback>{self._lesson.hint}</sufficient_feedback><kind>new-logic</kind>{cites}"
            "</misalignment></misalignments>"
        )


@dataclass(frozen=True)
class Made:
    """An interface made from the command line, and the requests that made it."""

    environment: str
    folder: Path
    endpoint: Endpoint

    @property
    def lesson(self) -> Lesson:
        return LESSONS[self.environment]

    def answers(self, model: str) -> list[str]:
        """The last message of every request to a model."""
        return [request["messages"][-1]["content"] for request in self.endpoint.asked(model)]


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The author first writes all that is wrong, then what is right."""
    environment, folder = request.param, tmp_path_factory.mktemp("made") / "run"
    lesson = LESSONS[environment]
    replies = [code(source) for source in (*(wrong for wrong, _ in lesson.wrong), lesson.good)]
    with serve({"analyst": Analyst(lesson), "author": replies}) as endpoint:
        models = ["--analyzer-model", "analyst", "--optimizer-model", "author", "--base-url", endpoint.url]
        size = ["--iterations", "1", "--tasks-per-iteration", "2", "--agent", "novice"]
        run = ["generate-interface", "--env", environment, "--backend", "llm", *models, *size, "--out", str(folder)]
        assert main(run) == 0
    return Made(environment, folder, endpoint)


def test_a_finding_is_proved_and_written_into_an_interface(made: Made) -> None:
    assert json.loads((made.folder / "summary.json").read_text())["written"]
    interface = align_echo.load_interface(made.folder / "interface.py")
    assert interface.source == made.lesson.good
    assert [(rule.text, rule.evidence.support) for rule in interface.provenance.rules] == [
        ("a form of words: Seen in 1 task, not shown to be a rule: only the listed forms work", 2)
    ]
    heard = made.answers("analyst")
    assert not [answer for answer in heard if "could not be carried out" in answer]
    assert [made.lesson.hint in answer for answer in heard if "(execute_agent_action)" in answer] == [False, True]


def test_the_interface_changes_what_the_agent_sees_and_nothing_else(made: Made) -> None:
    env = align_echo.make(made.environment, interface=made.folder / "interface.py")
    assert isinstance(env, AlignWrapper)
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    task, *_ = align_echo.load_interface(made.folder / "interface.py").provenance.training_tasks
    _, info = env.reset(options={"task": task})
    assert info["rules"] == "Say it in the listed forms."
    expert = base.oracle().expert_action()
    assert expert is not None
    seen, _, _, _, info = env.step(made.lesson.action)
    assert (made.lesson.hint in seen, info["interface_error"], info["violations"]) == (True, "", ())
    seen, _, _, _, info = env.step(expert)
    assert (seen, info["interface_error"]) == (info["raw_observation"], "")
    assert [line for line in env.log if line.level in ("forged", "fallback", "violation")] == []
    env.close()


def test_code_in_another_layout_goes_back_with_the_right_one(made: Made) -> None:
    layout = catalogue.environment(made.environment).contract.layout
    answers = made.answers("author")[1:]
    assert len(answers) == len(made.lesson.wrong)
    for (_, told), answer in zip(made.lesson.wrong, answers, strict=True):
        assert told in answer
        assert "is refused" in answer or (layout.call in answer and layout.returned in answer)


def test_the_models_hear_of_their_own_environment_only(made: Made) -> None:
    spec = catalogue.environment(made.environment)
    foreign = [layout.call for layout in STEP_LAYOUTS.values() if layout.call != spec.contract.layout.call]
    for model in ("analyst", "author"):
        system, opening = (message["content"] for message in made.endpoint.asked(model)[0]["messages"])
        for needed in (spec.action_format, f"`{spec.contract.layout.call}`", f"`{spec.contract.layout.returned}`"):
            assert needed in system
        for text in (system, opening, *(made.answers("analyst") if model == "analyst" else ())):
            assert not [call for call in foreign if call in text]
            assert "receptacle" not in text
            assert "<argument>look</argument>" not in text
    looks = spec.contract.read_only_actions
    assert all(look in system for look in looks)
    assert ("no action that only looks" in system) == (not looks)
