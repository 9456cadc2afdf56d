"""Helpers of the interface tests: wrap the two-room world in interface source and play it."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import gymnasium as gym

from align_echo.interface.contract import Interface, InterfaceContract, Provenance
from align_echo.interface.sandbox.session import Sandbox
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv

WINNING = ("take mug 1", "go to study", "drop mug 1")
TASK = TASK_IDS[0]
SMALL = Sandbox(memory=16 * 2**20)
QUICK = Sandbox(seconds=0.2, memory=16 * 2**20)
"""For code that hangs: all else has time enough on a busy machine."""

FORWARD = """
obs, reward, done, info = env.step([agent_action])
return obs[0], info["won"][0], done[0]
"""


class Outcome(NamedTuple):
    """What the environment decides on one turn: nothing of it may depend on the interface."""

    reward: float
    terminated: bool
    truncated: bool
    score: float
    won: bool


def source(body: str = FORWARD, *, rules: str = "return ''", top: str = "") -> str:
    """Interface source from the body of `WrapStep`."""
    return (
        f"{textwrap.dedent(top)}\n"
        f"def InferRules(init_obs, task):\n{textwrap.indent(textwrap.dedent(rules).strip(), '    ')}\n\n"
        "def WrapStep(env, init_obs, task, agent_action, logger):\n"
        f"{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    )


def interface(
    text: str, contract: InterfaceContract = CONTRACT, *, use_rules: bool = True, use_feedback: bool = True
) -> Interface:
    """An `Interface` for the two-room world (or another contract)."""
    return Interface(
        name="test",
        source=text,
        contract=contract,
        provenance=Provenance(environment=contract.environment, backend="test"),
        use_rules=use_rules,
        use_feedback=use_feedback,
    )


def wrapped(
    text: str,
    *,
    sandbox: Sandbox = SMALL,
    step_limit: int = 6,
    use_rules: bool = True,
    use_feedback: bool = True,
) -> AlignWrapper:
    """The two-room world behind interface source."""
    made = interface(text, use_rules=use_rules, use_feedback=use_feedback)
    return AlignWrapper(RoomEnv(step_limit), made, sandbox=sandbox)


def outcome(result: tuple[str, Any, bool, bool, dict[str, Any]]) -> Outcome:
    """The environment's part of a step's result."""
    _, reward, terminated, truncated, info = result
    return Outcome(float(reward), terminated, truncated, info["score"], info["won"])


def play(
    env: gym.Env[str, str], actions: tuple[str, ...] = WINNING
) -> list[tuple[str, Any, bool, bool, dict[str, Any]]]:
    """Reset, send the actions, then `look` until the episode is over: the results of all steps."""
    env.reset(options={"task": TASK})
    results: list[tuple[str, Any, bool, bool, dict[str, Any]]] = []
    while not results or not (results[-1][2] or results[-1][3]):
        turn = len(results)
        results.append(env.step(actions[turn] if turn < len(actions) else "look"))
    return results
