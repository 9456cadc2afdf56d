"""Scripted agents for the made-up worlds, and NOT language models: they know the way and err by the world's habits.

They differ in how often they do what a message tells them. They learn nothing from it beyond the one action: whoever
words a form wrongly does so again on the next name. Rules told up front are not read, only messages are.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from align_echo.types import AgentReply, AgentView
from tests.worlds.worlds import Situation, Task, World, after, route, task_of, unmet

LUCK = 0.01
"""How often an agent that was refused finds the right words or the left-out step by itself."""

FUMBLES = 0.35
"""How often an agent that was refused says something else of the same things instead of the same again."""

WANDERS = 3
"""Where nobody errs, every so many tasks the agent walks about instead of doing what is wanted."""

_QUOTED = re.compile(r"`([^`]+)`")
_TOLD = re.compile(
    r"(?:\bneed to|\bwrite)\s*:?\s+[`'\"“‘]?(.+?)[`'\"”’]?(?:\s+first\b|\s+instead\b|[.;,!]|$)", re.MULTILINE
)


@dataclass(frozen=True)
class Errant:
    """An agent of a world. `obedience` is the share of the commands it reads that it follows. A function of the view:
    the same view gives the same action."""

    world: World
    name: str
    obedience: float

    def act(self, view: AgentView) -> AgentReply:
        """The next action."""
        action = self._chosen(view)
        return AgentReply(text=action, action=action)

    def _chosen(self, view: AgentView) -> str:
        task = task_of(self.world, view.task_id)
        rng = random.Random(f"{self.name}/{view.task_id}/{len(view.turns)}")
        now, refused = replayed(self.world, task, view)
        last = view.turns[-1] if view.turns else None
        command = commanded(task, last.observation, last.action or "") if last else ""
        if command and rng.random() < self.obedience:
            return command
        if not self.world.features.misaligned and _number(view) % WANDERS == 0:
            return rng.choice(sorted(text for text in task.actions if unmet(self.world, task, now, text) == []))
        if refused and rng.random() < LUCK:
            return route(self.world, task, now)[0]
        intended = next(text for text in route(self.world, task, now) if not self._leaves_out(task, text))
        if refused and self.world.features.misaligned and rng.random() < FUMBLES:
            intended = rng.choice(self._of_its_concern(task))
        return self._worded(task, intended)

    def _of_its_concern(self, task: Task) -> list[str]:
        """All that can be said of the thing that is wanted, of its first holder and its last, and of where these stand;
        the steps that the agent leaves out are none of it."""
        holders = {task.goal, task.start.holder_of(task.target)}
        names = {task.target, *holders, *(task.spots[holder] for holder in holders)}
        sayings = [text for text in task.actions if not self._leaves_out(task, text)]
        return sorted(text for text in sayings if names.issuperset(task.actions[text][1].values()))

    def _leaves_out(self, task: Task, action: str) -> bool:
        return task.actions[action][0].role in self.world.skipped

    def _worded(self, task: Task, action: str) -> str:
        """An action as this agent says it."""
        form, names = task.actions[action]
        wrong = self.world.wrong.get(form.role)
        return wrong.format(*(names[kind] for kind in form.kinds)) if wrong else action


def obedient(world: World) -> Errant:
    """An agent that follows every command."""
    return Errant(world, "obedient", 1.0)


def replayed(world: World, task: Task, view: AgentView) -> tuple[Situation, bool]:
    """The situation after all turns, worked out from the actions; and whether the last one was refused."""
    now, refused = task.start, False
    for turn in view.turns:
        action = (turn.action or "").strip()
        refused = action not in world.looks and (action not in task.actions or unmet(world, task, now, action) != [])
        now = after(world, task, now, action)
    return now, refused


def commanded(task: Task, message: str, last: str) -> str:
    """The action that a message tells to do: after "need to", after "write", else in backquotes; "" if it names none.
    What was just said is no command, and neither is what is no action of the task's forms and names."""
    for text in (*_TOLD.findall(message), *_QUOTED.findall(message)):
        if text.strip() in task.actions and text.strip() != last:
            return str(text.strip())
    return ""


def _number(view: AgentView) -> int:
    return int(view.task_id.partition("/")[2])
