"""Interfaces as language models write them run unmodified, and say in the sandbox what they say in Python.

Set ALIGN_PUBLISHED_INTERFACES to a folder (of those that ALIGN's authors published, for instance) to run every `.py`
file in it as an interface of ALFWorld, and those in its subfolders as interfaces of the environment that a subfolder is
named after (`m3tooleval/`, `scienceworld/`, `webshop/`). They are executed in this process for comparison: name only
folders that you trust.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.novices import make_novice
from align_echo.interface.contract import Interface, InterfaceContract, load_interface
from align_echo.interface.sandbox.session import (
    Engine,
    EngineReply,
    LogLine,
    RefusedError,
    Sandbox,
    SandboxSession,
    WrapStepResult,
)
from align_echo.interface.sandbox.source import PreparedSource
from align_echo.rollout.session import extend, start_view, take_turn
from align_echo.types import Agent, AgentReply, AgentView, Step
from align_echo.wrappers import catalogue
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from tests.play import interface

FOLDER = os.environ.get("ALIGN_PUBLISHED_INTERFACES", "")
EPISODES = 8
STATEFUL = Path(__file__).parents[1] / "data" / "stateful_interface.py"
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


LABORATORY = r'''
import io
import logging
import re
import sys  # not used

notes = io.StringIO()

def InferRules(init_obs: str, task: str) -> str:
    wanted = [thing.strip() for thing in re.findall(r"focus on the (.*?)(?: first|\.|$)", task) if thing.strip()]
    return "Name things as they are listed." + (f" Focus on: {' or '.join(wanted)}." if wanted else "")

def _where(env, logger, score=0.0):
    try:
        seen, _, _, info = env.step("look around")
        found = re.search(r"(?:You are in|This room is called) the (.*?)\.", seen)
        return seen, info["score"], f"the {found.group(1)}" if found else "here"
    except Exception as error:
        logger.error(f"no look: {error}")
        try:
            return env.look(), score, "here"
        except AttributeError:
            return "", score, "here"

def WrapStep(env, init_obs: str, task: str, agent_action: str, logger: logging.Logger):
    action = agent_action.lower().strip()
    logger.debug(f"action: {agent_action}")
    if taken := re.match(r"(?:take|pick up)\s+(.+)\s+from\s+(.+)", action):
        seen, score, where = _where(env, logger)
        notes.write(f"{taken.group(1)};")
        return f"{seen}\n\n`{agent_action}` is not understood: say `pick up {taken.group(1)}`.", False, score
    elif pause := re.match(r"wait\s+(\d+)", action):
        return f"There is no waiting for {pause.group(1)}. Noted so far: {notes.getvalue()}", False, 0
    if 'obs' not in locals():
        obs, _, done, info = env.step(agent_action)
    in_vain = any(words in obs.lower() for words in ["no known action", "not clear how to get"])
    if in_vain and not done:
        seen, score, where = _where(env, logger, info["score"])
        held = env.step("inventory")[0]
        return f"{obs}\nYou are in {where}.\n{held}\n{seen}", False, score
    if done and info["score"] < 0:
        obs += "\nThat was the end of it."
    return obs, done, info["score"]
'''
SHOP = r'''
import logging
import re
from typing import Any, Dict, Tuple

last_search = None

def _limits(task: str, logger: logging.Logger) -> Dict[str, Any]:
    found: Dict[str, Any] = {"words": sorted(set(re.findall(r"\b(red|blue|black|white|cotton)\b", task.lower())))}
    price = re.search(r"(?:under|lower than|less than)\s*\$?(\d+(?:\.\d+)?)", task.lower())
    if price:
        found["price"] = float(price.group(1))
    if not found["words"]:
        del found["words"]
    logger.debug(f"limits: {found}")
    return found

def InferRules(init_obs: str, task: str) -> str:
    return """1. Write `search[words]` or `click[button]`.
2. Choose **all** options before `click[Buy Now]`."""

def WrapStep(env: Any, init_obs: str, task: str, agent_action: str, logger: logging.Logger) -> Tuple[str, float, bool]:
    global last_search
    if not hasattr(env, "_page"):
        env._page = init_obs
    action = agent_action.strip().lower()
    if action.startswith("search[") and action.endswith("]"):
        if agent_action[7:-1] == last_search:
            return "The same words find the same things.", 0.0, False
        last_search = agent_action[7:-1]
    elif action == "click[buy]":
        return f"Previous page:\n{env._page}\nThe button is `Buy Now`.", 0.0, False
    try:
        obs, reward, done = env.step(agent_action)
    except Exception as error:
        return f"Failed: {error}", 0.0, True
    same, env._page = obs == env._page, obs
    price = re.search(r"price:\s*\$(\d+(?:\.\d+)?)", obs.lower())
    limits = _limits(task, logger)
    if price and "price" in limits and float(price.group(1)) > limits["price"]:
        obs = f"Too dear: ${float(price.group(1)):.2f} of ${limits['price']:.2f}.\n" + obs
    if done and 0 < reward < 1.0:
        obs = f"Only in part what was asked for.\n\n{obs}"
    return (obs + "\nNothing changed." if same else obs), reward, done
'''

TOOLS = r'''
import logging
import re
from typing import Any, Tuple

FAMILIES = {
    0: "message_decoder",
    1: "cryptobotanists_plant_dna_sequencer",
    2: "trade_calculator",
    3: "travel_itinerary_planning",
    4: "web_browsing",
}

def InferRules(task_name: str, task_type_idx: int) -> str:
    """What is to be known of a family, by its index."""
    if task_type_idx == 1:
        return "Answer with one sequence alone, never with a list of them."
    return f"Family {FAMILIES[task_type_idx]}: keep to the usual form of a call ({task_name.count('/')} slash)."

def WrapStep(env: Any, task_name: str, instruction: str, agent_action: str, logger: logging.Logger) -> Tuple[str, float, bool]:
    obs, reward, done = "", 0.0, False
    family = -1
    for idx, name in FAMILIES.items():
        if name in task_name.lower():
            family = idx
            break
    logger.debug(f"task {task_name!r}, family {family}")
    match = re.match(r"^\s*Action:\s*([a-zA-Z0-9_]+)\((.*)\)\s*End Action\s*$", agent_action)
    if match:
        tool, inside = match.group(1), match.group(2).strip()
        if not inside:
            return f"`{tool}()` has brackets: write 'Action: {tool} End Action'.", reward, done
        plain = re.sub(r"""['"]""", lambda quote: "", inside)
        return f"Brackets around ({inside}): write 'Action: {tool}, {plain} End Action'.", reward, done
    try:
        obs, reward, done = env.step(agent_action)
        if agent_action.startswith("Answer:") and reward == 0.0 and done:
            content = agent_action.split("Answer:", 1)[1].strip()
            if family == 1 and content.startswith("[") and content.endswith("]"):
                obs = "Only one sequence is asked for."
            elif "answer with" in instruction.lower():
                obs = f"{obs} Look at the form that was asked for: {content!r} is not it?"
    except Exception as e:
        logger.error(f"step failed: {e}", exc_info=True)
        obs, reward, done = f"Error: {e}", 0.0, False
    return obs, reward, done
'''  # noqa: E501
MEMORY = r'''
import re
from collections import Counter

class Notes:
    def __init__(self, instruction):
        self.instruction = instruction
        self.calls = Counter()

    def add(self, call):
        self.calls[call] += 1
        return self.calls[call]

    @staticmethod
    def name_of(action):
        found = re.search(r"Action:\s*(\w+)", action)
        return found.group(1) if found else None

def InferRules(task_name, task_type_idx):
    InferRules.family = task_name.split("/")[0]
    return ["a", "b", "c", "d", "e"][task_type_idx] + ") one call a turn"

def WrapStep(env, task_name, instruction, agent_action, logger):
    if not hasattr(env, "notes"):
        env.notes = Notes(instruction)
        env.known = set()
    if not hasattr(WrapStep, "turns"):
        WrapStep.turns = 0
    WrapStep.turns += 1
    name = Notes.name_of(agent_action)
    seen_before = env.notes.add(agent_action)
    view = ""
    if InferRules.family == "web_browsing" and seen_before > 1:
        view = env.step("Action: view End Action")[0]
        logger.info("looked: %s", view[:20])
    obs, reward, done = env.step(agent_action)
    if obs.startswith("There is no tool named") and not done:
        tools = re.findall(r"\w+", obs.split("The tools are:")[1])
        close = [tool for tool in tools if name and tool == name]
        env.known.update(tools)
        if close:
            obs += f"\nYou mean `{close[0]}`: Action: {close[0]}, ... End Action"
    if seen_before > 1:
        obs += f"\nSent {seen_before} times in {WrapStep.turns} turns. {len(env.known)} tools known. {view}"
    return obs, reward, done
'''


class PythonSession(SandboxSession):
    """The same code run by Python itself, without any protection."""

    def __init__(
        self, source: str, contract: InterfaceContract, given: Mapping[str, str | int], engine: Engine
    ) -> None:
        self._code: dict[str, Any] = {"__name__": "interface"}
        exec(source, self._code)
        self._lines: list[LogLine] = []
        self._arguments: dict[str, Any] = {
            "env": self.Env(engine, contract.step_layout),
            "logger": self.Logger(self._lines),
            **given,
        }
        self._contract = contract

    class Env:
        def __init__(self, engine: Engine, layout: str) -> None:
            self._engine = engine
            self._layout = layout

        def step(self, given: Any) -> Any:
            try:
                reply: EngineReply = self._engine(given[0] if self._layout == "batched" else given)
            except RefusedError as refusal:
                raise PermissionError(str(refusal)) from refusal
            if self._layout == "batched":
                return [reply.observation], [reply.reward], [reply.done], {"won": [reply.won]}
            if self._layout == "triple":
                return reply.observation, reply.reward, reply.done
            return reply.observation, reply.reward, reply.done, {"won": reply.won, "score": round(100 * reply.score)}

    class Logger:
        def __init__(self, lines: list[LogLine]) -> None:
            for level in ("debug", "info", "warning", "error"):
                setattr(
                    self, level, lambda text, *args, level=level: lines.append(LogLine(0, level, self.said(text, args)))
                )

        @staticmethod
        def said(text: str, args: tuple[Any, ...]) -> str:
            return (text % args if args else text)[:2000]

    @property
    def alive(self) -> bool:
        return True

    def infer_rules(self) -> str:
        return str(self._code["InferRules"](*(self._arguments[name] for name in self._contract.infer_rules_args)))

    def wrap_step(self, action: str) -> WrapStepResult:
        given = {**self._arguments, "agent_action": action}
        observation, *rest = self._code["WrapStep"](*(given[name] for name in self._contract.wrap_step_args))
        if self._contract.step_layout == "scored":
            rest = [rest[1] >= 100, rest[0]]
        return WrapStepResult(observation[:20_000], bool(rest[0]), bool(rest[1]))

    def take_log(self, turn: int) -> list[LogLine]:
        lines, self._lines[:] = [line._replace(turn=turn) for line in self._lines], []
        return lines

    def close(self) -> None:
        """Nothing to close."""


class PythonSandbox(Sandbox):
    source: str

    def open(
        self,
        source: PreparedSource,
        contract: InterfaceContract,
        init_obs: str,
        task: str,
        engine: Engine,
        further: Mapping[str, str | int] | None = None,
        *,
        within_turn: bool = False,
    ) -> SandboxSession:
        return PythonSession(self.source, contract, {"init_obs": init_obs, "task": task, **(further or {})}, engine)


class Dabbler:
    """Half the expert's actions and half others of ALFWorld."""

    name = "dabbler"

    def __init__(self, env: TextEnv) -> None:
        self._env = env

    def act(self, view: AgentView) -> AgentReply:
        chance = random.Random(f"{view.task_id} {len(view.turns)}")
        expert = self._env.oracle().expert_action() if chance.random() < 0.5 else None
        action = expert or chance.choice(OTHERS)
        return AgentReply(text=action, action=action)


class Again:
    """Repeats what was done on an earlier episode."""

    name = "again"

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def act(self, view: AgentView) -> AgentReply:
        step = self._steps[len(view.turns)]
        return AgentReply(text=step.reply, action=step.action)


def play(env: AlignWrapper, task: str, agent: Agent) -> tuple[str, list[Step]]:
    """One episode: the rules and the steps. Nothing may be refused or go wrong."""
    view = start_view(env, task, "", 0)
    steps: list[Step] = []
    while not steps or not (steps[-1].terminated or steps[-1].truncated):
        steps.append(take_turn(env, agent.act(view)))
        view = extend(view, steps[-1])
    assert [line for line in env.log if line.level in ("fallback", "violation", "bypassed")] == []
    return view.rules, steps


def check_alike(interface: Interface, split: str, tasks: list[str]) -> None:
    """Play the tasks in the sandbox and again in Python: same rules, texts, engine calls and log."""
    name = interface.contract.environment
    inside = AlignWrapper(catalogue.make(name, split=split), interface)
    outside = AlignWrapper(catalogue.make(name, split=split), interface, sandbox=PythonSandbox(source=interface.source))
    base = inside.unwrapped
    assert isinstance(base, TextEnv)
    agent = Dabbler(base) if name == "alfworld" else make_novice(name)
    changed = 0
    for task in tasks:
        rules, steps = play(inside, task, agent)
        assert play(outside, task, Again(steps)) == (rules, steps)
        assert inside.log == outside.log
        changed += bool(rules) + sum(step.observation != step.raw_observation for step in steps)
    assert changed, "an interface that changes nothing proves nothing"
    inside.close()
    outside.close()


def documented() -> Interface:
    """The example of docs/interfaces.md."""
    page = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
    return written(page.split("```python\n")[1].split("```")[0], "alfworld")


def written(source: str, environment: str) -> Interface:
    """An interface of an environment from its source."""
    return interface(source, catalogue.environment(environment).contract)


def apart(environment: str, count: int) -> list[str]:
    """So many of an environment's test tasks, as far apart as can be."""
    tasks = catalogue.tasks(environment, split=catalogue.environment(environment).test_split)
    return tasks[:: max(1, len(tasks) // count)][:count]


def one_task_of_each_type() -> list[str]:
    spec = catalogue.environment("alfworld")
    by_type = {spec.task_type(task): task for task in catalogue.tasks("alfworld", split="valid_unseen")}
    return list(by_type.values())


def published() -> list[tuple[str, Path]]:
    """The interfaces in the folder, each after the name of its environment."""
    if not FOLDER:
        return []
    files = [("alfworld", file) for file in Path(FOLDER).glob("*.py")]
    files += [(name, file) for name in catalogue.environments() for file in Path(FOLDER, name).glob("*.py")]
    return sorted(files)


@pytest.mark.parametrize(
    "interface",
    [load_interface(STATEFUL, catalogue.environment("alfworld").contract), written(GLOBALS, "alfworld"), documented()],
    ids=["stateful", "globals", "documented"],
)
def test_interfaces_in_the_style_of_models_run(interface: Interface):
    check_alike(interface, "valid_unseen", one_task_of_each_type()[:2])


@pytest.mark.long
@pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra is not installed")
def test_an_interface_of_scienceworld_in_the_style_of_models_runs():
    check_alike(written(LABORATORY, "scienceworld"), "align_test", apart("scienceworld", 2)[:1])


@pytest.mark.long
def test_an_interface_of_webshop_in_the_style_of_models_runs():
    check_alike(written(SHOP, "webshop"), "align_test", apart("webshop", 10))


@pytest.mark.parametrize("source", [TOOLS, MEMORY], ids=["tools", "memory"])
def test_an_interface_of_m3tooleval_in_the_style_of_models_runs(source: str):
    check_alike(written(source, "m3tooleval"), "test", apart("m3tooleval", 14))


def test_a_reward_that_the_environment_gave_is_not_called_forged():
    env = AlignWrapper(catalogue.make("webshop", split="align_test"), written(SHOP, "webshop"))
    partly = 0
    for task in apart("webshop", 10):
        _, steps = play(env, task, make_novice("webshop"))
        partly += 0 < steps[-1].score < 1
        assert not [line for line in env.log if line.level == "forged"]
    assert partly, "nothing was bought that is right in part"
    env.close()


@pytest.mark.skipif(not FOLDER, reason="ALIGN_PUBLISHED_INTERFACES names no folder of published interfaces")
@pytest.mark.parametrize(("environment", "file"), published(), ids=lambda part: getattr(part, "stem", part))
def test_published_interfaces_run_unmodified(environment: str, file: Path):
    spec = catalogue.environment(environment)
    tasks = one_task_of_each_type() if environment == "alfworld" else apart(environment, EPISODES)
    check_alike(load_interface(file, spec.contract), spec.test_split, tasks)
