"""What an interface costs beyond the engine: `python -m studies.wrapper_overhead [--tasks N] [--rounds N]`.

A scripted novice plays tasks behind each interface; what it says is then said again behind it, by two arms in turn,
task by task: `now` is the sandbox as it is, `before` the way it was: the prelude and the source run in every
episode, and each turn is a snippet of its own in which every look is a call of its own, and `opentelemetry` is searched
for in vain each time (where it is not installed). Both must show the same.

Time inside the engine (the agent's actions, looks, resets) is taken off, of the clock and of CPU seconds, which are
this process's and its sandbox workers'. A first round warms up and is not counted. Prints a table, then one JSON line:
`value` is the median step of the first shipped interface (ms), `baseline` that of `before`, `ratio` their quotient over
all rounds and `interval` its 95% bootstrap interval over rounds; `interfaces` holds the same of each, and of resets.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pydantic_monty

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.spec import AgentSetting
from align_echo.interface import Interface, InterfaceContract, identity, load_interface
from align_echo.intervals import ratio
from align_echo.sandbox import pool
from align_echo.sandbox.constructs import STOOD_IN
from align_echo.sandbox.loading import prelude
from align_echo.sandbox.session import Engine, Sandbox, SandboxSession, TurnUsage
from align_echo.sandbox.source import PreparedSource
from align_echo.session import Session
from align_echo.wrappers import catalogue
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv
from studies.rounds import at_least_one

INTERFACES = ("alfworld/probe", "webshop/probe", "alfworld/identity", "alfworld/stateful")
ROUNDS = 5


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


class Clock:
    """Seconds, and CPU seconds of this process and of the workers that are told of."""

    def __init__(self) -> None:
        self.workers: set[int] = set()

    def read(self) -> tuple[float, float]:
        """(seconds, CPU seconds)."""
        workers = sum(time.clock_gettime((~pid << 3) | 2) for pid in self.workers)  # the clock of another process
        return time.perf_counter(), time.process_time() + workers


@dataclass
class Cost:
    """Seconds of each call beyond the engine, and CPU seconds of all of them."""

    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0


class EngineClock(gym.Wrapper[str, str, str, str]):
    """Adds up what is spent in the engine below an `AlignWrapper`."""

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
        """The environment's step, timed."""
        return self._timed(self.env.step)(action)

    def reset(self, **options: Any) -> Any:
        """The environment's reset, timed."""
        return self._timed(self.env.reset)(**options)


# ---------------------------------------------------------------- one interface


class Arm:
    """An environment behind an interface in one of the two sandboxes."""

    def __init__(self, interface: Interface, split: str, sandbox: Sandbox) -> None:
        self._engine = EngineClock(catalogue.make(interface.contract.environment, split=split))
        self.env = AlignWrapper(self._engine, interface, sandbox=sandbox)
        self._clock = Clock()
        self.steps, self.resets = Cost(), Cost()

    def play(self, task: str, actions: list[str]) -> list[str]:
        """One episode: all that was shown. Ends with an error if the interface failed."""
        with self._measured(self.resets):
            shown, info = self.env.reset(options={"task": task})
        texts = [shown]
        for action in actions:
            with self._measured(self.steps):
                shown, _, terminated, truncated, info = self.env.step(action)
            texts.append(shown)
            if info["interface_error"]:
                raise SystemExit(f"the interface failed: {info['interface_error']}")
            if terminated or truncated:
                break
        return texts

    def take(self) -> tuple[Cost, Cost]:
        """What steps and resets cost since the last call."""
        steps, resets = self.steps, self.resets
        self.steps, self.resets = Cost(), Cost()
        return steps, resets

    @contextmanager
    def _measured(self, cost: Cost) -> Iterator[None]:
        self._engine.seconds = self._engine.cpu = 0.0
        seconds, cpu = self._clock.read()
        yield
        now, spent = self._clock.read()
        cost.seconds.append(now - seconds - self._engine.seconds)
        cost.cpu += spent - cpu - self._engine.cpu
        session = self.env._session
        if session is not None and session._worker.session is not None and session._worker.session.worker_pid:
            self._clock.workers.add(session._worker.session.worker_pid)


def load(name: str) -> Interface:
    """A shipped interface by its name, or of an environment `identity` or this folder's `stateful`."""
    contract = catalogue.environment(name.partition("/")[0]).contract
    if name.endswith("/identity"):
        return identity(contract)
    if name.endswith("/stateful"):
        return load_interface(Path(__file__).with_name("stateful_interface.py"), contract)
    return load_interface(name)


def said(interface: Interface, count: int) -> tuple[str, dict[str, list[str]]]:
    """(split, what the novice says behind the interface in tasks that are spread over the split)."""
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
    """Both arms over all rounds: steps and resets by the clock (ms) and in CPU ms."""
    interface = load(name)
    split, played = said(interface, count)
    arms = {"before": Arm(interface, split, Before()), "now": Arm(interface, split, Sandbox())}
    costs: dict[str, list[tuple[Cost, Cost]]] = {arm: [] for arm in arms}
    for number in range(rounds + 1):
        for task, actions in played.items():
            order = list(arms.values()) if number % 2 else list(reversed(arms.values()))
            shown = [arm.play(task, actions) for arm in order]
            if shown[0] != shown[1]:
                raise SystemExit(f"the two ways do not show the same in {task}")
        for name_of, arm in arms.items():
            taken = arm.take()
            costs[name_of] += [taken] if number else []
    for arm in arms.values():
        arm.env.close()
    return {
        "step": figures([steps for steps, _ in costs["before"]], [steps for steps, _ in costs["now"]]),
        "reset": figures([resets for _, resets in costs["before"]], [resets for _, resets in costs["now"]]),
    }


def rounded(ends: tuple[float, float] | None) -> list[float] | None:
    """Round the ends of an interval; None without one, as of one round."""
    return None if ends is None else [round(end, 4) for end in ends]


def figures(before: list[Cost], now: list[Cost]) -> dict[str, Any]:
    """Medians and CPU of both arms, a cost for each round."""
    medians = [[1e3 * statistics.median(cost.seconds) for cost in arm] for arm in (now, before)]
    cpu = [[1e3 * cost.cpu / len(cost.seconds) for cost in arm] for arm in (now, before)]
    clock, spent = ratio(*medians), ratio(*cpu)
    return {
        "ms": round(statistics.median(medians[0]), 4),
        "ms_fastest_round": round(min(medians[0]), 4),
        "before_ms": round(statistics.median(medians[1]), 4),
        "before_ms_fastest_round": round(min(medians[1]), 4),
        "ratio": round(clock.value, 4),
        "interval": rounded(clock.ci95),
        "cpu_ms": round(statistics.mean(cpu[0]), 4),
        "before_cpu_ms": round(statistics.mean(cpu[1]), 4),
        "cpu_ratio": round(spent.value, 4),
        "cpu_interval": rounded(spent.ci95),
        "cpu_seconds": [round(sum(cost.cpu for cost in arm), 3) for arm in (now, before)],
        "n": sum(len(cost.seconds) for cost in now),
        "rounds": len(now),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=12, help="tasks of each environment (default 12)")
    parser.add_argument("--rounds", type=at_least_one, default=ROUNDS, help=f"counted rounds (default {ROUNDS})")
    parser.add_argument("--interfaces", nargs="+", default=INTERFACES, metavar="ENVIRONMENT/NAME")
    options = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'milliseconds beyond the engine':<36} {'before':>8} {'now':>8} {'CPU before':>11} {'CPU now':>8} {'n':>6}")
    interfaces: dict[str, Any] = {}
    for name in options.interfaces:
        interfaces[name] = measure(name, options.tasks, options.rounds)
        for what, row in interfaces[name].items():
            print(f"{name + ', a ' + what:<36} {row['before_ms']:8.3f} {row['ms']:8.3f}", end="")
            print(f" {row['before_cpu_ms']:11.3f} {row['cpu_ms']:8.3f} {row['n']:6d}")
    first = interfaces[options.interfaces[0]]["step"]
    figure = {"name": "wrapper_overhead", "value": first["ms"], "unit": "ms", "baseline": first["before_ms"]}
    figure |= {key: first[key] for key in ("ratio", "interval", "cpu_seconds", "cpu_ratio", "cpu_interval", "n")}
    print(json.dumps({**figure, "load": round(os.getloadavg()[0], 1), "interfaces": interfaces}))


if __name__ == "__main__":
    main()
