"""A two-room text world for tests: a real `TextEnv` with no engine to install.

Task ids are "room/<object>-to-<place>": bring the object to the place. Actions: `look`, `inventory`,
`go to {room}`, `take {object}`, `drop {object}`; the first two are read-only.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from align_echo.errors import UsageError
from align_echo.interface.contract import InterfaceContract
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import EngineState, TextEnv

ROOMS = ("kitchen", "study")
START = {"mug 1": "kitchen", "book 1": "study"}
TASK_IDS = ("room/mug-to-study", "room/book-to-kitchen")

CONTRACT = InterfaceContract(
    environment="room",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="batched",
    read_only_actions=("look", "inventory"),
)
SINGLE_CONTRACT = CONTRACT.model_copy(update={"step_layout": "single"})


@dataclass(frozen=True)
class RoomOracle:
    """The rest of the shortest plan."""

    plan: list[str]

    def expert_action(self) -> str | None:
        return self.plan[0] if self.plan else None

    def distance(self) -> int | None:
        return len(self.plan)


class RoomEnv(TextEnv):
    """Two rooms, two objects, one goal. A failed action prints "Nothing happens.", as ALFWorld does."""

    def __init__(self, step_limit: int = 20, contract: InterfaceContract = CONTRACT) -> None:
        super().__init__(TASK_IDS, contract, step_limit)
        self._here = ROOMS[0]
        self._held: str | None = None
        self._where: dict[str, str] = {}

    @property
    def goal(self) -> str:
        target, place = self._target()
        return f"bring the {target} to the {place}"

    @property
    def task_type(self) -> str:
        return "bring"

    def oracle(self) -> RoomOracle:
        return RoomOracle(self.plan())

    def plan(self) -> list[str]:
        """The shortest list of actions that wins from here."""
        target, place = self._target()
        if self._held not in (None, target):
            return [f"drop {self._held}", *self._bring(target, place, self._here)]
        return self._bring(target, place, self._here)

    def _bring(self, target: str, place: str, here: str) -> list[str]:
        if self._held == target:
            return ([f"go to {place}"] if here != place else []) + [f"drop {target}"]
        start = self._where[target]
        if start == place:
            return []
        walk = [f"go to {start}"] if here != start else []
        return [*walk, f"take {target}", f"go to {place}", f"drop {target}"]

    def _target(self) -> tuple[str, str]:
        thing, _, place = self._task_id.removeprefix("room/").partition("-to-")
        return f"{thing} 1", place

    def _load(self, task_id: str) -> EngineState:
        if task_id not in self.task_ids:
            raise UsageError(f"unknown task {task_id!r}")
        self._here, self._held, self._where = ROOMS[0], None, dict(START)
        opening = f"{self._look()} Your task is to: {self.goal}."
        return EngineState(opening, admissible_actions=self._admissible())

    def _act(self, action: str) -> EngineState:
        observation = self._carry_out(action)
        target, place = self._target()
        won = self._where.get(target) == place
        return EngineState(
            observation, score=float(won), won=won, done=won, admissible_actions=self._admissible()
        )

    def _probe(self, action: str) -> str:
        return self._look() if action == "look" else self._inventory()

    def _save(self) -> tuple[str, str | None, dict[str, str]]:
        return self._here, self._held, dict(self._where)

    def _restore(self, task_id: str, saved: tuple[str, str | None, dict[str, str]]) -> None:
        self._task_id = task_id
        self._here, self._held, self._where = saved[0], saved[1], dict(saved[2])

    def _carry_out(self, action: str) -> str:
        if action in self.contract.read_only_actions:
            return self._probe(action)
        verb, _, rest = action.replace("go to", "go", 1).partition(" ")
        if verb == "go" and rest in ROOMS and rest != self._here:
            self._here = rest
            return f"You arrive at the {rest}. {self._look()}"
        if verb == "take" and self._held is None and self._where.get(rest) == self._here:
            self._held = rest
            self._where.pop(rest)
            return f"You take the {rest}."
        if verb == "drop" and self._held == rest:
            self._where[rest], self._held = self._here, None
            return f"You put down the {rest}."
        return "Nothing happens."

    def _admissible(self) -> tuple[str, ...]:
        here = [name for name, room in self._where.items() if room == self._here and self._held is None]
        held = [f"drop {self._held}"] if self._held else []
        walks = [f"go to {room}" for room in ROOMS if room != self._here]
        return tuple(sorted([*walks, *held, *(f"take {name}" for name in here), "look", "inventory"]))

    def _look(self) -> str:
        seen = [f"a {name}" for name, room in sorted(self._where.items()) if room == self._here]
        return f"You are in the {self._here}. You see {', '.join(seen) or 'nothing'}."

    def _inventory(self) -> str:
        return f"You are carrying: a {self._held}." if self._held else "You are not carrying anything."


class MuteEnv(RoomEnv):
    """The same rooms, where a failed action is answered with the page as it was: nothing tells a refusal."""

    def _act(self, action: str) -> EngineState:
        answer = super()._act(action)
        shown = super()._probe("look") if answer.observation == "Nothing happens." else answer.observation
        return dataclasses.replace(answer, observation=shown)


class UnlistedEnv(MuteEnv):
    """The same, where nothing is listed as possible either."""

    def _load(self, task_id: str) -> EngineState:
        return dataclasses.replace(super()._load(task_id), admissible_actions=None)

    def _act(self, action: str) -> EngineState:
        return dataclasses.replace(super()._act(action), admissible_actions=None)


def instead_of(spec: EnvironmentSpec, kind: type[RoomEnv] = RoomEnv) -> EnvironmentSpec:
    """An environment's spec whose environments and tasks are those of the two rooms."""

    def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
        return kind() if step_limit is None else kind(step_limit)

    def task_ids(*, split: str, data_root: Path | None) -> list[str]:
        return list(TASK_IDS)

    return dataclasses.replace(spec, make_env=make_env, task_ids=task_ids)
