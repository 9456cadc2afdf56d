"""An agent for the greenhouse: a class with a `name` and a method `act`, and nothing of align-echo but the reply."""

from __future__ import annotations

import re

from align_echo.types import AgentReply

ACTION = re.compile(r"(?:walk to|pick up|fill|push|water) the \w+")


class Gardener:
    """A stubborn gardener who knows what to do and not in which order; it does what an observation tells it to do."""

    name = "gardener"

    def act(self, view):
        plant = re.search(r"water the (\w+)\.", view.initial_observation).group(1)
        plan = ["pick up the can", "walk to the pond", "pick up the can", "fill the can", "walk to the greenhouse"]
        plan.append(f"water the {plant}")
        done = [turn.action for turn in view.turns]
        if view.turns:
            told = ACTION.findall(view.turns[-1].observation.partition("That fails.")[2])
            fresh = [action for action in told if action not in done[-1:]]
            if fresh:
                return AgentReply(text=fresh[0], action=fresh[0])
        step = 0
        for turn in view.turns:
            if turn.action == plan[step] and ("That fails." not in turn.observation or step in (0, 2)):
                step = min(step + 1, len(plan) - 1)
        return AgentReply(text=plan[step], action=plan[step])
