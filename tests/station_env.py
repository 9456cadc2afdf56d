"""A text world with a vocabulary of its own, for tests of what must not depend on a benchmark's words.

Decks hold pods; a pod must be unsealed before something is fetched out of it or stowed into it; one gem at a time.
Every refused action is answered with the same word. Task ids are "station/<seed>".
"""

from __future__ import annotations

import random

from align_echo.interface.contract import InterfaceContract
from align_echo.wrappers.text_env import EngineState, TextEnv

TASK_IDS = tuple(f"station/{seed}" for seed in range(12))
REFUSED = "Denied."

CONTRACT = InterfaceContract(
    environment="station",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="batched",
    read_only_actions=("scan",),
)


class NoOracle:
    """This world has no ground truth to give."""

    def expert_action(self) -> str | None:
        return None

    def distance(self) -> int | None:
        return None


class StationEnv(TextEnv):
    """Pod k stands on deck k. Goal: gem 4 into pod 1."""

    def __init__(self, step_limit: int = 30) -> None:
        super().__init__(TASK_IDS, CONTRACT, step_limit)
        self._deck = 0
        self._held = 0
        self._gems: dict[int, int] = {}
        self._open: set[int] = set()

    @property
    def goal(self) -> str:
        return "stow gem 4 into pod 1"

    @property
    def task_type(self) -> str:
        return "stow"

    def oracle(self) -> NoOracle:
        return NoOracle()

    def _load(self, task_id: str) -> EngineState:
        rng = random.Random(task_id)
        self._deck, self._held, self._open = 0, 0, set()
        self._gems = {gem: rng.randint(2, 5) for gem in range(1, 5)}
        decks = ", ".join(f"a deck {number}" for number in range(1, 6))
        return self._answer(f"You float in a station with {decks}. Wanted: {self.goal}.")

    def _probe(self, action: str) -> str:
        return f"You are on deck {self._deck}." if self._deck else "You float."

    def _save(self) -> tuple[int, int, dict[int, int], set[int]]:
        return self._deck, self._held, dict(self._gems), set(self._open)

    def _restore(self, task_id: str, saved: tuple[int, int, dict[int, int], set[int]]) -> None:
        self._deck, self._held, self._gems, self._open = saved[0], saved[1], dict(saved[2]), set(saved[3])

    def _act(self, action: str) -> EngineState:
        if action not in self._allowed():
            return self._answer(REFUSED)
        if action == "scan":
            return self._answer(self._probe(action))
        verb, *rest = action.split()
        first = int(rest[1])
        if verb == "board":
            self._deck = first
            state = self._contents(first) if first in self._open else f"The pod {first} is sealed."
            return self._answer(f"You stand on deck {first} before pod {first}. {state}")
        if verb == "unseal":
            self._open.add(first)
            return self._answer(f"The pod {first} hisses. {self._contents(first)}")
        if verb == "seal":
            self._open.discard(first)
            return self._answer(f"The pod {first} is sealed.")
        if verb == "fetch":
            self._held = first
            del self._gems[first]
            return self._answer(f"Now gem {first} floats beside you.")
        self._gems[first] = int(rest[4])
        self._held = 0
        return self._answer(f"In goes gem {first}.")

    def _allowed(self) -> list[str]:
        deck = self._deck
        allowed = ["scan", *(f"board deck {number}" for number in range(1, 6) if number != deck)]
        if deck:
            allowed.append(f"seal pod {deck}" if deck in self._open else f"unseal pod {deck}")
        if deck in self._open and not self._held:
            allowed += [f"fetch gem {gem} out pod {deck}" for gem, pod in self._gems.items() if pod == deck]
        if deck in self._open and self._held:
            allowed.append(f"stow gem {self._held} into pod {deck}")
        return sorted(allowed)

    def _contents(self, pod: int) -> str:
        gems = ", ".join(f"a gem {gem}" for gem, place in sorted(self._gems.items()) if place == pod)
        return f"Inside pod {pod} you find {gems or 'nothing'}."

    def _answer(self, observation: str) -> EngineState:
        goal = 4 in self._gems and self._gems[4] == 1
        return EngineState(observation, float(goal), goal, goal, tuple(self._allowed()))
