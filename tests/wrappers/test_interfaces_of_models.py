"""Interfaces as language models write them run unmodified on ALFWorld, and say in the sandbox what they say in Python.

Set ALIGN_PUBLISHED_INTERFACES to a folder of `.py` files (those that ALIGN's authors published, for instance) to run
every one of them too. They are executed in this process for comparison: name only folders that you trust.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from align_echo.interface import Interface, InterfaceContract, load_interface
from align_echo.sandbox import Engine, EngineReply, LogLine, RefusedError, Returned, Sandbox, SandboxSession
from align_echo.sandbox_source import PreparedSource
from align_echo.wrappers import catalogue
from align_echo.wrappers.alfworld.spec import CONTRACT
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from tests.play import interface

FOLDER = os.environ.get("ALIGN_PUBLISHED_INTERFACES", "")
STATEFUL = Path(__file__).parents[2] / "benchmarks" / "stateful_interface.py"
OTHERS = (
    "look", "inventory", "go to fridge 1", "go to desk 1", "take mug 1 from desk 1", "put mug 1 in fridge 1",
    "examine desk 1", "examine mug 1 with desklamp 1", "open drawer 1", "close drawer 1", "move mug 1 to desk 1",
    "heat egg 1 with microwave 1", "clean mug 1 with sinkbasin 1", "use desklamp 1", "slice apple 1 with knife 1",
    "task_complete", "dance",
)  # fmt: skip

GLOBALS = '''
import logging
import re
from typing import Dict, List, Tuple

_locations: Dict[int, str] = {}
_tries = {}

def InferRules(init_obs: str, task: str) -> str:
    names = sorted(set(re.findall(r"\\ba ([a-z]+) \\d+", init_obs)))
    return "Places: " + ", ".join(names) + "\\n" + "\\n".join(f"{i}. {rule}" for i, rule in enumerate(["go", "look"], 1))

def _words(action: str) -> List[str]:
    return action.strip().lower().split()

def WrapStep(env, init_obs: str, task: str, agent_action: str, logger: logging.Logger) -> Tuple[str, bool, bool]:
    """Global state by id(env), attributes on the function, an examine before the action."""
    global _locations, _tries
    key = id(env)
    if not hasattr(WrapStep, "held"):
        WrapStep.held = set()
    _tries[agent_action] = _tries.get(agent_action, 0) + 1
    words = _words(agent_action)

    def note(text):
        WrapStep.last = text
        logger.debug(f"note {text!r} for {key == id(env)}")
        return text

    if words[:1] == ["take"] and "from" in words:
        place = " ".join(words[words.index("from") + 1:])
        thing = " ".join(words[1:words.index("from")])
        if _locations.get(key) != place:
            return note(f"You are not at {place}."), False, False
        seen = env.step([f"examine {place}"])[0][0]
        held = env.step(["inventory"])[0][0]
        if thing not in seen:
            return note(f"There is no {thing} in {place}: {seen} ({held})"), False, False
    obs, reward, done, info = env.step([agent_action])
    obs, won, done = obs[0], info["won"][0], done[0]
    if words[:2] == ["go", "to"] and obs != "Nothing happens.":
        _locations[key] = " ".join(words[2:])
    found = next((w for w in words if w.isdigit()), None)
    if obs == "Nothing happens.":
        return note(f"{obs} Tried {_tries[agent_action]} times; number {found}; before: {getattr(WrapStep, 'last', '')}"), won, done
    return obs, bool(won), bool(done)
'''  # noqa: E501


class PythonSession(SandboxSession):
    """The same code run by Python itself, without any protection."""

    def __init__(self, source: str, contract: InterfaceContract, init_obs: str, task: str, engine: Engine) -> None:
        self._code: dict[str, Any] = {"__name__": "interface"}
        exec(source, self._code)
        self._engine = engine
        self._lines: list[LogLine] = []
        self._arguments = {
            "env": self.Env(engine),
            "init_obs": init_obs,
            "task": task,
            "logger": self.Logger(self._lines),
        }
        self._contract = contract

    class Env:
        def __init__(self, engine: Engine) -> None:
            self._engine = engine

        def step(self, actions: list[str]) -> Any:
            try:
                reply: EngineReply = self._engine(actions[0])
            except RefusedError as refusal:
                raise PermissionError(str(refusal)) from refusal
            return [reply.observation], [reply.reward], [reply.done], {"won": [reply.won]}

    class Logger:
        def __init__(self, lines: list[LogLine]) -> None:
            for level in ("debug", "info", "warning", "error"):
                setattr(
                    self, level, lambda text, *args, level=level: lines.append(LogLine(level, self.said(text, args)))
                )

        @staticmethod
        def said(text: str, args: tuple[Any, ...]) -> str:
            return (text % args if args else text)[:2000]

    @property
    def alive(self) -> bool:
        return True

    def infer_rules(self) -> str:
        return str(self._code["InferRules"](*(self._arguments[name] for name in self._contract.infer_rules_args)))

    def wrap_step(self, action: str) -> Returned:
        given = {**self._arguments, "agent_action": action}
        observation, reward, done = self._code["WrapStep"](*(given[name] for name in self._contract.wrap_step_args))
        return Returned(observation[:20_000], bool(reward), bool(done))

    def take_log(self) -> list[LogLine]:
        lines, self._lines[:] = list(self._lines), []
        return lines

    def close(self) -> None:
        """Nothing to close."""


class PythonSandbox(Sandbox):
    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source

    def open(
        self, source: PreparedSource, contract: InterfaceContract, init_obs: str, task: str, engine: Engine
    ) -> SandboxSession:
        return PythonSession(self._source, contract, init_obs, task, engine)


class Shown(NamedTuple):
    action: str
    observation: str
    raw_observation: str | None
    engine_calls: int
    over: bool


def play(env: AlignWrapper, task: str, actions: list[str] | None = None) -> tuple[str, list[Shown]]:
    """One episode: the given actions, or half the expert's and half others. The rules and what every turn showed."""
    chance = random.Random(task)
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    _, info = env.reset(options={"task": task})
    rules = info["rules"]
    turns: list[Shown] = []
    while not turns or not turns[-1].over:
        expert = base.oracle().expert_action() if actions is None and chance.random() < 0.5 else None
        action = actions[len(turns)] if actions is not None else expert or chance.choice(OTHERS)
        observation, _, terminated, truncated, info = env.step(action)
        assert (info["interface_error"], info["violations"]) == ("", ())
        calls = info["engine_calls"]
        turns.append(Shown(action, observation, info["raw_observation"], calls, terminated or truncated))
    return rules, turns


def check_alike(found: Interface, tasks: list[str]) -> None:
    """Play the tasks in the sandbox and again in Python: same rules, texts, engine calls and log."""
    inside = AlignWrapper(catalogue.make("alfworld", split="valid_unseen"), found)
    outside = AlignWrapper(catalogue.make("alfworld", split="valid_unseen"), found, sandbox=PythonSandbox(found.source))
    changed = 0
    for task in tasks:
        rules, turns = play(inside, task)
        assert play(outside, task, [turn.action for turn in turns]) == (rules, turns)
        assert inside.log == outside.log
        changed += sum(turn.observation != turn.raw_observation for turn in turns)
    assert changed, "an interface that changes nothing proves nothing"
    inside.close()
    outside.close()


def documented() -> Interface:
    """The example of docs/interfaces.md."""
    page = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
    return interface(page.split("```python\n")[1].split("```")[0], CONTRACT)


def one_task_of_each_type() -> list[str]:
    spec = catalogue.environment("alfworld")
    by_type = {spec.task_type(task): task for task in catalogue.tasks("alfworld", split="valid_unseen")}
    return list(by_type.values())


@pytest.mark.parametrize(
    "found",
    [load_interface(STATEFUL, CONTRACT), interface(GLOBALS, CONTRACT), documented()],
    ids=["stateful", "globals", "documented"],
)
def test_interfaces_in_the_style_of_models_run(found: Interface):
    check_alike(found, one_task_of_each_type()[:2])


@pytest.mark.skipif(not FOLDER, reason="ALIGN_PUBLISHED_INTERFACES names no folder of published interfaces")
@pytest.mark.parametrize("file", sorted(Path(FOLDER).glob("*.py")) if FOLDER else [], ids=lambda file: file.stem)
def test_published_interfaces_run_unmodified(file: Path):
    check_alike(load_interface(file, CONTRACT), one_task_of_each_type())
