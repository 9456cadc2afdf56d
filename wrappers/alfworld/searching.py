"""Decide if an action in ALFWorld searches: it looks into new furniture while an object of the task is still missing.

A refusal by the engine is not considered, because the text does not show it.
"""

from __future__ import annotations

from align_echo.types import AgentView
from align_echo.wrappers.alfworld.household import BeliefState, entity_name, read_goal

EXAMINE = "examine "
LOOKING = ("go to ", "open ", EXAMINE)
"""Prefixes of actions that may show the contents of furniture."""


def explores(view: AgentView, action: str, answer: str = "") -> bool:
    """Check if an ALFWorld action looks into new furniture while an object of the task is still unseen.

    It reads only the agent's text, so it does not see if the action is refused. Going to a piece of furniture counts
    once; opening it counts until its inside was seen. Examining shows furniture at the agent's place: it counts if the
    engine's `answer` reports for the first time what is there, or that the furniture is closed.
    """
    goal = read_goal(view.goal)
    command = action.strip()
    verb = next((start for start in LOOKING if command.startswith(start)), None)
    if goal is None or verb is None:
        return False
    furniture = command.removeprefix(verb)
    belief = BeliefState.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {item for items in belief.contents.values() for item in items}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [entity_name(item) for item in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    known = {"go to ": furniture in stood, "open ": False, EXAMINE: furniture in belief.closed}
    fresh = furniture not in belief.contents and not known[verb]
    belief.update(answer, goal.dest)
    shows = verb != EXAMINE or furniture in belief.contents or furniture in belief.closed
    return missing and fresh and shows
