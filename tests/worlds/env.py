"""The engine and the texts of a made-up world, as a `TextEnv`. What actions do is in `worlds.py`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv
from tests.worlds.worlds import Situation, Task, World, after, finishes, possible, route, task_of, unmet

STEP_LIMIT = 40


@dataclass(frozen=True)
class RouteOracle:
    """The world's own route; the distance is its length, which may be more than the least one."""

    rest: list[str]

    def expert_action(self) -> str | None:
        """The next action of the route."""
        return self.rest[0] if self.rest else None

    def distance(self) -> int | None:
        """The length of the route."""
        return len(self.rest)


class WorldEnv(TextEnv):
    """A world over some of its tasks. An action is read as it is written, spaces around it left out."""

    def __init__(self, world: World, task_ids: Sequence[str], step_limit: int = STEP_LIMIT) -> None:
        super().__init__(tuple(task_ids), world.contract, step_limit)
        self.world = world
        self._task = task_of(world, self.task_ids[0])
        self._now = self._task.start
        self._won = False
        self._allowed: dict[Situation, tuple[str, ...]] = {}

    @property
    def situation(self) -> Situation:
        """The present state, for agents that know the world and for tests."""
        return self._now

    @property
    def goal(self) -> str:
        """What is wanted; the form of the action that brings it about is not named."""
        used = " used" if self.world.features.goal == "use" else ""
        preposition = "on" if used else "in"
        return f"have {self._task.target}{used} {preposition} {self._task.goal}"

    @property
    def task_type(self) -> str:
        """The kind of goal."""
        return self.world.features.goal

    def oracle(self) -> RouteOracle:
        """The route from here; nothing once it is won."""
        return RouteOracle([] if self._won else route(self.world, self._task, self._now))

    def offered(self) -> ActionOptions | None:
        """All forms, and the names that are in sight now."""
        if not self.world.features.offers:
            return None
        near = [holder for holder in self._task.holders if self._is_here(holder)]
        seen = [thing for thing, holder in self._now.inside if holder in near and self._is_ready(holder)]
        going = self._task.rooms or (self._task.holders if self.world.features.travel == "holders" else ())
        names = {*going, *near, *seen, *filter(None, [self._now.held])}
        return ActionOptions(tuple(sorted(form.template for form in self.world.forms.values())), tuple(sorted(names)))

    def possible(self) -> tuple[str, ...]:
        """The admissible actions, whether the world lists them or not."""
        if self._now not in self._allowed:
            sayings = possible(self.world, self._task, self._now)
            self._allowed[self._now] = tuple(sorted([*sayings, *self.world.looks]))
        return self._allowed[self._now]

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        self._task = task_of(self.world, task_id)
        self._now, self._won = self._task.start, False
        self._allowed.clear()
        return self._answer(self._opening())

    def _act(self, action: str) -> EngineState:
        action = action.strip()
        if action in self.world.looks:
            return self._answer(self._probe(action))
        if action not in self._task.actions or unmet(self.world, self._task, self._now, action) != []:
            return self._answer(self._refusal(action))
        self._now = after(self.world, self._task, self._now, action)
        self._won = finishes(self.world, self._task, self._now, action)
        return self._answer(self._success(action))

    def _probe(self, action: str) -> str:
        if action == self.world.looks[0]:
            return self._surroundings()
        return f"You hold the {self._now.held}." if self._now.held else "You hold nothing."

    def _save(self) -> tuple[Task, Situation, bool]:
        return self._task, self._now, self._won

    def _restore(self, task_id: str, saved: tuple[Task, Situation, bool]) -> None:
        if saved[0] is not self._task:
            self._allowed.clear()
        self._task, self._now, self._won = saved

    # ------------------------------------------------------------ texts

    def _opening(self) -> str:
        task, lines = self._task, []
        if task.rooms:
            lines.append(f"There are {', '.join(task.rooms)}.")
            lines += [f"The {holder} stands in the {room}." for holder, room in task.spots.items()]
        else:
            lines.append(f"There are {', '.join(task.holders)}.")
        lines.append(f"Somewhere there are {', '.join(sorted(task.things))}.")
        return " ".join([*lines, f"Wanted: {self.goal}."])

    def _refusal(self, action: str) -> str:
        style, refusals = self.world.features.refusal, self.world.refusals
        if style == "silent":
            return self._state.observation
        if style == "several":
            return refusals[zlib.crc32(action.encode()) % len(refusals)]
        return refusals[0] if style == "one" else f"{refusals[0].rstrip('.')}: {action}."

    def _success(self, action: str) -> str:
        form, names = self._task.actions[action]
        thing, holder = names.get("thing", ""), names.get("holder", "")
        if form.role == "go":
            return self._surroundings()
        if form.role == "take":
            return f"You hold the {thing}."
        if form.role in ("put", "use"):
            return f"The {thing} is {'in' if form.role == 'put' else 'used on'} the {holder}."
        return self._about(holder) or f"The {holder} changes."

    def _surroundings(self) -> str:
        near = [holder for holder in self._task.holders if self._is_here(holder)]
        lines = [self._about(holder) or f"The {holder} is here." for holder in near]
        where = [f"You are at the {self._now.here}."] if self._now.here else []
        return " ".join([*where, *lines]) or "You are nowhere yet."

    def _about(self, holder: str) -> str:
        """How a holder is, where that is shown, and what is in it, where that can be seen."""
        steps = sum(other == holder for _, other in self._now.done)
        shown = self.world.features.shown and self.world.features.preparations > 0
        lines = [f"The {holder} is {self.world.states[steps]}."] if shown else []
        if self._is_ready(holder):
            inside = [thing for thing in self._task.things if (thing, holder) in self._now.inside]
            lines.append(f"In the {holder} you find {', '.join(inside) or 'nothing'}.")
        return " ".join(lines)

    def _is_here(self, holder: str) -> bool:
        return self._now.here == self._task.spots[holder]

    def _is_ready(self, holder: str) -> bool:
        last = self.world.features.preparations - 1
        return last < 0 or (last, holder) in self._now.done

    def _answer(self, observation: str) -> EngineState:
        listed = self.possible() if self.world.features.listed else None
        return EngineState(observation, float(self._won), self._won, self._won, listed)
