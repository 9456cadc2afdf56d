"""Ground truth about a running episode: the expert's next action, and the distance to the goal.

The expert has to follow the whole episode (it keeps notes), but only catches up on demand. Distances are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from align_echo.wrappers.alfworld.engine import Fact, GameEngine, GameView
from align_echo.wrappers.alfworld.expert import FACTS_READ, HandcodedExpert
from align_echo.wrappers.alfworld.routes import shortest_route
from align_echo.wrappers.alfworld.task import TaskParameters


@dataclass(frozen=True)
class EpisodeStep:
    """Step and the state after it, kept so that the expert can catch up later."""

    action: str
    feedback: str
    sight: GameView


class HouseOracle:
    """Oracle over one episode of an engine; every action must be passed to `record`."""

    def __init__(self, engine: GameEngine, intro: str, trajectory: dict[str, Any]) -> None:
        """Start an episode. `trajectory` is the content of traj_data.json. Raises `KeyError` if it lacks a task
        parameter."""
        self._engine = engine
        self._intro = intro
        self._parameters = TaskParameters.read(trajectory)
        self._moments: list[EpisodeStep] = []
        self._followed = 0
        self._expert: HandcodedExpert | None = None
        self._advice: str | None = None
        self.record("look", intro)

    def record(self, action: str, feedback: str) -> None:
        """Record an action that was carried out or refused."""
        self._moments.append(EpisodeStep(action, feedback, self._engine.sight))

    @property
    def moments(self) -> tuple[EpisodeStep, ...]:
        """Recorded moments, in order."""
        return tuple(self._moments)

    def rewind(self, moments: tuple[EpisodeStep, ...]) -> None:
        """Reset the record to earlier moments."""
        self._moments = list(moments)
        self._followed = 0
        self._expert = None
        self._advice = None

    def handcoded_action(self) -> str | None:
        """Return the handcoded expert's next action; None if it has none."""
        if self._expert is None:
            self._expert = HandcodedExpert(self._parameters, self._intro)
        for moment in self._moments[self._followed :]:
            facts = self._facts(moment.sight)
            self._advice = self._expert.follow(moment.action, moment.feedback, moment.sight.commands, facts)
            self._followed += 1
        return self._advice

    def expert_action(self) -> str | None:
        """Return the handcoded expert's next action, or the first of a shortest route if it has none; None once won."""
        if self._engine.won:
            return None
        action = self.handcoded_action()
        if action is not None:
            return action
        route = self.route()
        return route[0] if route else None

    def distance(self) -> int | None:
        """Return the least number of actions to the goal; 0 once won, None if it cannot be reached."""
        route = self.route()
        return None if route is None else len(route)

    def route(self) -> list[str] | None:
        """Return an exact shortest route to the goal; [] once won, None if it cannot be reached."""
        if self._engine.won:
            return []
        return shortest_route(self._engine.sight.facts(), self._engine.names, self._parameters)

    def _facts(self, sight: GameView) -> list[Fact]:
        """Return the facts the expert reads, with the names it knows."""
        names = self._engine.names
        return sorted(
            (predicate, tuple(names[name].strip() for name in arguments))
            for predicate, arguments in sight.facts(FACTS_READ)
        )
