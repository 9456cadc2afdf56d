"""What an interface costs beyond the engine: `python -m studies.wrapper_overhead [--tasks N] [--rounds N]`.

A scripted novice plays tasks behind each interface; the same actions are then sent again behind it, by two arms in
turn, task by task: `now` is the sandbox as it is, `before` the way it was: prelude and source run in every episode,
each turn is a snippet of its own in which every look is a call of its own, and `opentelemetry` is searched for in vain
each time (where it is not installed). Both must show the same.

Time inside the engine (actions, looks) is taken off, of the clock and of CPU seconds, which are this process's and its
sandbox workers'. A first round is not counted. An interface is a shipped name, `ENVIRONMENT/identity`, or
`ENVIRONMENT=FILE`. Prints a table, then one JSON line: `value` is the median step of the first interface (ms),
`baseline` that of `before`, the rest as in `rounds.py`; `interfaces` holds the same of each.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import pydantic_monty

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.spec import AgentSetting
from align_echo.interface.contract import Interface, InterfaceContract, identity, load_interface
from align_echo.interface.sandbox import pool
from align_echo.interface.sandbox.constructs import STOOD_IN
from align_echo.interface.sandbox.loading import prelude
from align_echo.interface.sandbox.session import Engine, Sandbox, SandboxSession, TurnUsage
from align_echo.interface.sandbox.source import PreparedSource
from align_echo.rollout.session import Session
from align_echo.wrappers import catalogue
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from studies.rounds import Round, at_least_one, costs

INTERFACES = ("alfworld/probe", "webshop/probe", "alfworld/identity")


# ---------------------------------------------------------------- the way it was


@functools.cache
def before_prelude(layout: str) -> str:
    """The prelude with the stand-ins of all modules, and nothing that asks for looks together."""
    return prelude(layout, STOOD_IN) + "\n_align_asked = lambda env, actions: actions\n"


class BeforeSession(SandboxSession):
    """Runs the prelude and the source anew, and a snippet for each turn; a look is a call of its own."""

    def _guarded(self, work: Callable[[pydantic_monty.MontySession], Any]) -> Any:
        def searching(session: pydantic_monty.MontySession) -> Any:
            pool.thread.inside = False
            return work(session)

        return super()._guarded(searching)

    def _serve(self, arguments: tuple[Any, ...]) -> pydantic_monty.ExternalResult:
        answer = super()._serve(arguments)
        pool.thread.inside = False
        return answer

    def _begin(self, session: pydantic_monty.MontySession) -> None:
        self._snippet(session, before_prelude(self._layout))
        self._snippet(session, self._source.text)

    def _take_turn(self, action: str | None) -> Any:
        self._spent = TurnUsage(self._limits, self._log.characters)
        rules, step = (line.partition(" = ")[2] for line in self._loop.splitlines() if "_align_value = " in line)
        if action is None:
            return self._guarded(lambda session: self._snippet(session, rules))
        return self._guarded(lambda session: self._snippet(session, step, _align_agent_action=action))

    def _snippet(self, session: pydantic_monty.MontySession, code: str, **inputs: str | None) -> Any:
        ended = self._answered(self._feed(session, code, **inputs), "")
        assert isinstance(ended, pydantic_monty.MontyComplete)
        return ended.output


class Before(Sandbox):
    """Opens such sessions."""

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
        """A `BeforeSession`."""
        return BeforeSession(self, source, contract, init_obs, task, engine, further or {}, within_turn)


# ---------------------------------------------------------------- clocks


class EngineClock(gym.Wrapper[str, str, str, str]):
    """Adds up what is spent in the engine below an `AlignWrapper`, by the clock and in CPU seconds."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__(env)
        self.seconds = self.cpu = 0.0
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        for name in ("look", "pass_turn"):
            setattr(base, name, self._timed(getattr(base, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            seconds, cpu = time.perf_counter(), time.process_time()
            try:
                return call(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - seconds
                self.cpu += time.process_time() - cpu

        return timed

    def step(self, action: str) -> Any:
        """Take the environment's step, timed."""
        return self._timed(self.env.step)(action)


# ---------------------------------------------------------------- one interface


class Arm:
    """An environment behind an interface in one of the two sandboxes."""

    def __init__(self, interface: Interface, split: str, sandbox: Sandbox) -> None:
        self._engine = EngineClock(catalogue.make(interface.contract.environment, split=split))
        self.env = AlignWrapper(self._engine, interface, sandbox=sandbox)
        self._workers: set[int] = set()
        self._steps, self._seconds, self._cpu = 0, 0.0, 0.0

    def play(self, task: str, actions: list[str]) -> list[str]:
        """Play an episode; all that was shown. Ends with an error if the interface failed."""
        texts = [self.env.reset(options={"task": task})[0]]
        for action in actions:
            self._engine.seconds = self._engine.cpu = 0.0
            clock, cpu = time.perf_counter(), self._cpu_now()
            shown, _, terminated, truncated, info = self.env.step(action)
            self._seconds += time.perf_counter() - clock - self._engine.seconds
            self._cpu += self._cpu_now() - cpu - self._engine.cpu
            self._steps += 1
            texts.append(shown)
            if info["interface_error"]:
                raise SystemExit(f"the interface failed: {info['interface_error']}")
            if terminated or truncated:
                break
        return texts

    def _cpu_now(self) -> float:
        session = self.env._session
        if session is not None and session._worker.session is not None and session._worker.session.worker_pid:
            self._workers.add(session._worker.session.worker_pid)
        return time.process_time() + sum(time.clock_gettime((~pid << 3) | 2) for pid in self._workers)

    def take(self) -> Round:
        """Return what the steps cost since the last call, in milliseconds."""
        spent = Round(self._steps, 1e3 * self._seconds, 1e3 * self._cpu)
        self._steps, self._seconds, self._cpu = 0, 0.0, 0.0
        return spent


def load(name: str) -> Interface:
    """Load an interface by what `--interfaces` calls it."""
    contract = catalogue.environment(re.split("[/=]", name)[0]).contract
    if "=" in name:
        return load_interface(Path(name.partition("=")[2]), contract)
    return identity(contract) if name.endswith("/identity") else load_interface(name)


def said(interface: Interface, count: int) -> tuple[str, dict[str, list[str]]]:
    """Return the split, and what the novice says behind the interface in tasks that are spread over it."""
    spec = catalogue.environment(interface.contract.environment)
    split = "valid_unseen" if spec.name == "alfworld" else spec.train_split
    tasks = catalogue.tasks(spec.name, split=split)
    novice = agent_spec("novice").build(AgentSetting(spec, split))
    session = Session.open(spec, agent="novice", split=split, interface=interface)
    played: dict[str, list[str]] = {}
    for task in tasks[:: max(1, len(tasks) // count)][:count]:
        session.reset(task)
        while not session.over:
            session.act(novice.act(session.view))
        played[task] = [step.action or "" for step in session.trajectory().steps]
    session.close()
    return split, played


def measure(name: str, count: int, rounds: int) -> dict[str, Any]:
    """Play both arms over all rounds; what a step costs, in milliseconds."""
    interface = load(name)
    split, played = said(interface, count)
    arms = {"before": Arm(interface, split, Before()), "now": Arm(interface, split, Sandbox())}
    spent: dict[str, list[Round]] = {arm: [] for arm in arms}
    for number in range(rounds + 1):
        for task, actions in played.items():
            order = list(arms.values()) if number % 2 else list(reversed(arms.values()))
            shown = [arm.play(task, actions) for arm in order]
            if shown[0] != shown[1]:
                raise SystemExit(f"the two ways do not show the same in {task}")
        for name_of, arm in arms.items():
            taken = arm.take()
            spent[name_of] += [taken] if number else []
    for arm in arms.values():
        arm.env.close()
    return {**costs(spent["now"], spent["before"]), "n": int(sum(round_.work for round_ in spent["now"]))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=at_least_one, default=6, help="tasks of each environment (default 6)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="counted rounds (default 5)")
    parser.add_argument("--interfaces", nargs="+", default=INTERFACES, metavar="NAME")
    options = parser.parse_args()
    interfaces = {name: measure(name, options.tasks, options.rounds) for name in options.interfaces}
    print(f"{'ms a step beyond the engine':<36} {'before':>8} {'now':>8} {'ratio':>6} {'of CPU':>6} {'n':>6}")
    for name, row in interfaces.items():
        ratios = f"{row['ratio']:6.2f} {row['cpu_ratio']:6.2f}"
        print(f"{name:<36} {row['baseline']:8.3f} {row['value']:8.3f} {ratios} {row['n']:6d}")
    first = interfaces[options.interfaces[0]]
    print(json.dumps({"name": "wrapper_overhead", "unit": "ms", **first, "interfaces": interfaces}))


if __name__ == "__main__":
    main()
