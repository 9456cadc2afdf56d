"""A text world that offers templates and names and lists no admissible actions; names have one word or several.

Things lie in places or on other things; what is said of a thing that is elsewhere is refused. `beam {0}` leads
anywhere, `stroll {0}` next door only. Task ids are "annex/<seed>"; the goal is a thing in a place.
"""

from __future__ import annotations

import random
import re

from align_echo.errors import UsageError
from align_echo.interface.contract import InterfaceContract
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv

PLACES = ("boiler cellar", "glass hall", "north attic", "roof")
THINGS = ("tin", "rusty old lamp", "brass key", "paper map", "wool coat", "clock", "green bottle", "stool")
TASK_IDS = tuple(f"annex/{seed}" for seed in range(24))
REFUSED = "Eh?"
TEMPLATES = ("beam {0}", "brief", "grasp {0}", "lodge {0} on {1}", "peer", "ping {0}", "pockets", "stroll {0}")

CONTRACT = InterfaceContract(
    environment="annex",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="scored",
    read_only_actions=("brief", "peer", "pockets"),
)


class NoOracle:
    """This world has no ground truth to give."""

    def expert_action(self) -> str | None:
        return None

    def distance(self) -> int | None:
        return None


class AnnexEnv(TextEnv):
    """Goal: the tin into the roof. `where` maps a thing to a place, to a thing, or to "you"."""

    def __init__(self, step_limit: int = 40) -> None:
        super().__init__(TASK_IDS, CONTRACT, step_limit)
        self._here = PLACES[0]
        self._where: dict[str, str] = {}

    @property
    def goal(self) -> str:
        return "bring the tin to the roof"

    @property
    def task_type(self) -> str:
        return "bring"

    def oracle(self) -> NoOracle:
        return NoOracle()

    def offered(self) -> ActionOptions:
        near = [PLACES[number] for number in self._doors()]
        return ActionOptions(TEMPLATES, tuple(sorted([*near, self._here, *filter(self._in_reach, THINGS)])))

    def _load(self, task_id: str) -> EngineState:
        if task_id not in self.task_ids:
            raise UsageError(f"unknown task {task_id!r}")
        rng = random.Random(task_id)
        self._here = rng.choice(PLACES)
        self._where = {thing: rng.choice(PLACES) for thing in THINGS} | {"tin": rng.choice(PLACES[:-1])}
        return self._answer(self._peer())

    def _probe(self, action: str) -> str:
        if action == "brief":
            return f"Wanted: {self.goal}."
        return self._peer() if action == "peer" else self._pockets()

    def _save(self) -> tuple[str, dict[str, str]]:
        return self._here, dict(self._where)

    def _restore(self, task_id: str, saved: tuple[str, dict[str, str]]) -> None:
        self._here, self._where = saved[0], dict(saved[1])

    def _act(self, action: str) -> EngineState:
        if action in CONTRACT.read_only_actions:
            return self._answer(self._probe(action))
        if (match := re.fullmatch(r"(beam|stroll) (.+)", action)) and match[2] in PLACES:
            if match[1] == "beam" or PLACES.index(match[2]) in self._doors():
                self._here = match[2]
                return self._answer(f"Whoosh: {match[2]}.")
        elif (match := re.fullmatch(r"(grasp|ping) (.+)", action)) and self._in_reach(match[2]):
            if match[1] == "ping":
                return self._answer(f"The {match[2]} goes ping.")
            self._where[match[2]] = "you"
            return self._answer(f"The {match[2]} is yours.")
        elif (match := re.fullmatch(r"lodge (.+) on (.+)", action)) and self._may_lodge(match[1], match[2]):
            self._where[match[1]] = match[2]
            return self._answer("Lodged.")
        return self._answer(REFUSED)

    def _doors(self) -> list[int]:
        here = PLACES.index(self._here)
        return [number for number in (here - 1, here + 1) if 0 <= number < len(PLACES)]

    def _in_reach(self, thing: str, depth: int = 0) -> bool:
        place = self._where.get(thing, "")
        return place in (self._here, "you") or (place in self._where and depth < 9 and self._in_reach(place, depth + 1))

    def _may_lodge(self, thing: str, other: str) -> bool:
        return thing != other and self._in_reach(thing) and self._in_reach(other)

    def _peer(self) -> str:
        lines = [f"You stand in the {self._here}. Around you:"]
        for thing in THINGS:
            if self._where[thing] != "you" and self._in_reach(thing):
                place = self._where[thing]
                lines.append(f"  a {thing}" + (f", lodged on the {place}" if place in self._where else ""))
        return "\n".join([*lines, *(f"  a way to the {PLACES[number]}" for number in self._doors())])

    def _pockets(self) -> str:
        held = [f"a {thing}" for thing in THINGS if self._where[thing] == "you"]
        return f"You have {', '.join(held) or 'nothing'}."

    def _answer(self, observation: str) -> EngineState:
        won = self._where["tin"] == "roof"
        return EngineState(observation, float(won), won, won)
