"""An agent for the archive: it knows what to do and not in which order, and does what an observation tells it to do."""

import re

from align_echo.types import AgentReply


class Clerk:
    """A clerk in a hurry: it fetches without going there and never thinks of keys."""

    name = "clerk"

    def act(self, view):
        wanted, home = re.search(r"hand in (file \d)\. It is kept in (drawer \d)", view.initial_observation).groups()
        plan = [f"fetch {wanted} from {home}", "walk to desk 1", f"hand in {wanted}"]
        last = view.turns[-1] if view.turns else None
        told = re.findall(r"`([^`]+)`", last.observation.partition("first")[0]) if last else []
        if told and told[-1] != last.action:
            action = told[-1]
        elif any(turn.observation.startswith(f"You hold {wanted}") for turn in view.turns):
            action = plan[1] if last.observation.startswith("You hold") else plan[2]
        else:
            action = plan[0]
        return AgentReply(text=action, action=action)
