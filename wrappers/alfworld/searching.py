"""Whether an action in ALFWorld searches: it looks into what was not looked into, while something is still missing.

Left out: whether the engine refuses the action, which the player's text cannot tell.
"""

from __future__ import annotations

from align_echo.types import AgentView
from align_echo.wrappers.alfworld.household import Belief, name_of, read_goal

EXAMINE = "examine "
LOOKING = ("go to ", "open ", EXAMINE)
"""How actions begin that may show what is in or on furniture."""


def explores(view: AgentView, action: str, answer: str = "") -> bool:
    """Whether an ALFWorld action looks into new furniture while something that the task needs was never seen.

    It reads only what the player could read, so it does not see whether the action is refused. Going to a piece of
    furniture counts once; opening it counts until its inside was seen. Examining shows furniture beside which the
    player already stands: it counts where the engine's `answer` tells for the first time what is there, or that the
    furniture is closed.
    """
    goal = read_goal(view.goal)
    command = action.strip()
    way = next((start for start in LOOKING if command.startswith(start)), None)
    if goal is None or way is None:
        return False
    place = command.removeprefix(way)
    belief = Belief.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {thing for things in belief.contents.values() for thing in things}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [name_of(thing) for thing in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    known = {"go to ": place in stood, "open ": False, EXAMINE: place in belief.closed}
    fresh = place not in belief.contents and not known[way]
    belief.update(answer, goal.dest)
    shows = way != EXAMINE or place in belief.contents or place in belief.closed
    return missing and fresh and shows
