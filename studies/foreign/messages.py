"""Messages of an interface, tried: what each told an agent to send is played in a copy of its state.

A message that tells an agent to send something is true if the action that it is about works after that. It is false if
what it says is refused, or if the action is refused as before and nothing more is said. It is unknown if the episode
ends, if an answer cannot be read, or if it is about the wording alone, by which the action is still refused. "No
effect" is true if the page stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from align_echo.agents.spec import NO_STEP_LIMIT
from align_echo.interface.contract import Interface
from align_echo.interface.rules.answers import lift
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.interface.rules.runtime import RuleRuntime
from align_echo.types import Trajectory
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import EngineState, TextEnv

CHAIN = 5
"""Messages that are followed after the first."""

MOST_EXAMPLES = 5
"""False messages that are written down."""

WORDING = "This action is written "
"""What begins a message about the wording alone."""

BLANK = "..."
"""What stands in an action for what a message does not know: it cannot be sent."""

_ORDER = re.compile(r"(?:need to|help to:?) `([^`]+)`|(?:Write|is written) `([^`]+)`")
_IDLE = re.compile(r"No effect here: ([^\n]*?)\.(?=\s|$)")
_NOTHING = "Nothing changed: "


@dataclass
class MessageCount:
    """Claims of messages by what came of them: "true", "false", "unknown", and "untried" for all other messages."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, outcome: bool | None, example: str) -> None:
        """Count a claim."""
        self.counts[{True: "true", False: "false", None: "unknown"}[outcome]] += 1
        if outcome is False and len(self.examples) < MOST_EXAMPLES:
            self.examples.append(example)


def count_messages(
    spec: EnvironmentSpec, split: str, interface: Interface, played: Iterable[Trajectory]
) -> MessageCount:
    """Play episodes again in the plain environment, and try every message in its state."""
    env = spec.make_env(split=split, data_root=None, step_limit=NO_STEP_LIMIT)
    rules, count = read_rule_set(interface.source) or RuleSet(), MessageCount()
    for trajectory in played:
        env.reset(seed=0, options={"task": trajectory.task_id})
        runtime = RuleRuntime(rules, "\n".join(env.opening(env.state.observation)))
        runtime.begin(env.state.observation)
        for step in trajectory.steps:
            if step.action is None or step.raw_observation is None or env.over:
                continue
            before = env.state
            env.step(step.action)
            heard = runtime.hear(step.action, env.state.observation)
            runtime.advise(heard)
            message = step.observation.replace(step.raw_observation, "", 1).strip()
            if message:
                trial = MessageTrial(env, runtime.branch(), before, step.action)
                count_message(count, trial, message, f"{trajectory.task_id}: {step.action}")
    env.close()
    return count


def count_message(count: MessageCount, trial: MessageTrial, message: str, where: str) -> None:
    """Try the claims of a message."""
    idle = [name for listed in _IDLE.findall(message) for name in listed.split(", ")]
    for name in idle:
        count.add(trial.is_idle(name), f"{where}: {name} has an effect")
    if _NOTHING in message:
        idle.append(trial.action)
        count.add(trial.was_idle(), f"{where} had an effect")
    orders = list(read_orders(message))
    if orders and BLANK not in orders[0][0]:
        worked = trial.follow(*orders[0])
        count.add(worked or (None if WORDING in message else worked), f"{where}: {message}")
    elif not idle:
        count.counts["untried"] += 1


def read_orders(message: str) -> Iterator[tuple[str, bool]]:
    """Yield the actions that a message tells an agent to send; True for the action itself in other words."""
    for first, instead in _ORDER.findall(message):
        yield first or instead, not first


class MessageTrial:
    """State of an environment after `action`, which a message is about; `before` is the engine's state before it."""

    def __init__(self, env: TextEnv, runtime: RuleRuntime, before: EngineState, action: str) -> None:
        self.env, self.action, self._before, self._runtime = env, action, before, runtime
        self._reader = runtime.rules.reader
        self._page = env.state.observation
        self._refusal = "" if self._stays(before.observation, action, self._page) else lift(self._page, action)

    def was_idle(self) -> bool:
        """Check that the action was not possible, where the engine lists that, or left the page as it was."""
        listed = self._before.admissible_actions
        if listed is not None:
            return self.action not in listed
        return self._stays(self._before.observation, self.action, self._page)

    def is_idle(self, action: str) -> bool | None:
        """Check that another action is not possible now, or leaves the page as it is."""
        listed = self.env.state.admissible_actions
        if listed is not None or self.env.over:
            return action not in listed if listed is not None else None
        start = self.env.snapshot()
        self.env.step(action)
        same = None if self.env.over else self._stays(self._page, action, self.env.state.observation)
        self.env.restore(start)
        return same

    def follow(self, order: str, reworded: bool) -> bool | None:
        """Do what a message says, and what the next ones say, until the action works."""
        if self.env.over:
            return None
        start = self.env.snapshot()
        worked = self._obey(self.action, order, reworded, CHAIN)
        self.env.restore(start)
        return worked

    def _obey(self, action: str, order: str, reworded: bool, depth: int) -> bool | None:
        """Do what a message about a refused action says, then the action; a refused order has its own messages."""
        worked, message = self._send(order)
        if worked is False and not self.env.over:
            worked = self._go_on(order, message, depth)
        if reworded or worked is False or self.env.over:
            return worked
        again, message = self._send(action)
        return self._go_on(action, message, depth) if again is False and not self.env.over else again

    def _go_on(self, action: str, message: str, depth: int) -> bool | None:
        orders = list(read_orders(message))
        return self._obey(action, *orders[0], depth - 1) if orders and depth else False

    def _send(self, action: str) -> tuple[bool | None, str]:
        """Send an action; return whether it works, None if this cannot be said, and the message about it."""
        before = self.env.state
        self.env.step(action)
        answer = self.env.state.observation
        message = self._runtime.advise(self._runtime.hear(action, answer)).text
        listed, after = before.admissible_actions, self.env.state.admissible_actions
        if listed is not None and (action in listed or after != listed):
            return True, message
        if self._stays(before.observation, action, answer) or (answer and lift(answer, action) == self._refusal):
            return False, message
        return None if listed is not None else True, message

    def _stays(self, page: str, action: str, answer: str) -> bool:
        return self._reader.page(answer, page, action) == self._reader.page(page)
