"""Scripts that play worlds of other packages: they know a game's goal and not the wording that it wants.

Each heeds any command in backquotes, and leaves out what a message calls without effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from align_echo.agents.novices.habits import chance
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.interface.rules.actions import declared_forms, fill, parse_call
from align_echo.types import AgentReply, AgentView, Turn
from studies.foreign.clerk import serve_customer, stroll_shop

Moves = Callable[[AgentView], Sequence[str]]
"""Function that returns the actions a script would take now, any of which will do."""

PATIENCE = 3
"""Times in a row that a command is sent after the same action."""

MOST_NAMES = 40
"""Names from the texts that a stroller puts into its actions."""

TOOLS = {"roast": "oven", "fry": "stove", "grill": "toaster"}
"""What a cook roasts, fries and grills with."""

_COMMAND = re.compile(r"`([^`\n]+)`")
_IDLE = re.compile(r"No effect here: ([^\n]*?)\.(?=\s|$)|Nothing changed: `([^`\n]+)` has no effect here\.")
_NOUN = re.compile(r"\b(?:an?|the|some) ((?:\w+ )?\w+)")
_ROW = re.compile(r"^ ?(\d+) ((?: +[.\dF])+) *$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """An agent that draws one of its moves by chance. `strolls`: half of its actions are of any form, on any name."""

    name: str
    moves: Moves
    seed: int = 0
    strolls: bool = False

    def act(self, view: AgentView) -> AgentReply:
        """Return the command of the last message, else a move."""
        draw = chance(self.seed, view.task_id, len(view.turns))
        command = find_command(view)
        if self.strolls and draw < 0.5:
            draw, command = 2 * draw, ""
            moves = stroll(view) or self.moves(view)
        else:
            idle = find_idle(view)
            moves = [move for move in self.moves(view) if move not in idle] or self.moves(view)
        action = command or moves[int(draw * len(moves)) % len(moves)]
        return AgentReply(text=action, action=action)


def read_texts(view: AgentView) -> str:
    """Return all that an agent has read of the world."""
    return "\n".join([view.initial_observation, *(turn.observation for turn in view.turns)])


def find_command(view: AgentView) -> str:
    """Return the first command in the last answer that was not heeded in vain before; "" without one."""
    if not view.turns:
        return ""
    last = view.turns[-1]
    recent = [turn.action for turn in view.turns[-2 * PATIENCE - 1 : -1]]
    calls = view.action_format.startswith("{")
    told = [each for each in _COMMAND.findall(last.observation) if not calls or parse_call(each) is not None]
    commands = [each for each in told if each != last.action]
    return next((each for each in commands if recent != [last.action, each] * PATIENCE), "")


def find_idle(view: AgentView) -> set[str]:
    """Return the actions that messages called without effect since the page last changed."""
    idle: set[str] = set()
    pages = [_read_page(turn) for turn in view.turns]
    for number in range(len(pages) - 1, -1, -1):
        for listed, single in _IDLE.findall(view.turns[number].observation):
            idle |= {*listed.split(", "), single}
        if number == 0 or pages[number] != pages[number - 1]:
            break
    return idle


def _read_page(turn: Turn) -> str:
    """Return the words of an answer without messages and without the action."""
    words = " ".join(_IDLE.sub("", turn.observation).split())
    return words.replace(f"({(turn.action or '').capitalize()})", "").strip()


# ---------------------------------------------------------------- what each game's script would do


def say_words(view: AgentView) -> list[str]:
    """Return the words of the action format."""
    return [part.strip(" []") for part in view.action_format.split("|")]


def guess_number(view: AgentView) -> list[str]:
    """Return the middle of the numbers that are left."""
    low, high = 1, 20
    for turn in view.turns:
        if turn.action and (number := re.search(r"\d+", turn.action)):
            low = max(low, int(number[0]) + 1) if "is higher" in turn.observation else low
            high = min(high, int(number[0]) - 1) if "is lower" in turn.observation else high
    return [str((low + high) // 2)]


def press_button(view: AgentView) -> list[str]:
    """Return the names of the buttons."""
    buttons = re.search(r"buttons: ([^.\n]+)", view.initial_observation)
    return buttons[1].split(", ") if buttons else ["red"]


def reveal_cell(view: AgentView) -> list[str]:
    """Return the cells that the latest board shows covered."""
    texts = [view.initial_observation, *(turn.observation for turn in view.turns)]
    board = next((rows for text in reversed(texts) if (rows := _ROW.findall(text))), [])
    cells = [(row, column, cell) for row, shown in board for column, cell in enumerate(shown.split())]
    return [f"{row} {column}" for row, column, cell in cells if cell == "."] or ["0 0"]


def cook_meal(view: AgentView) -> list[str]:
    """Return the step of the recipe that was tried least often and is not done."""
    recipe = re.search(r"Ingredients:\s*\n(.*?)\n\s*Directions:\s*\n(.*?prepare meal)", read_texts(view), re.DOTALL)
    if recipe is None:
        return ["examine cookbook"]
    steps = [(f"take {food.strip()}", rf"^You (?:take|pick up) the {food.strip()}\b") for food in recipe[1].split("\n")]
    for verb, food in re.findall(r"^\s*(\w+) the (.+?)\s*$", recipe[2], re.MULTILINE):
        tool = TOOLS.get(verb)
        said = f"cook {food} with {tool}" if tool else f"{verb} {food} with knife"
        steps.append((said, rf"^You (?:{verb}|{'fried' if verb == 'fry' else verb}\w*) the {food}\b"))
    steps += [("prepare meal", r"^Adding the meal"), ("eat meal", r"^You eat the meal")]
    tried = [turn.action for turn in view.turns]
    texts = read_texts(view)
    left = [
        (tried.count(said), number, said)
        for number, (said, done) in enumerate(steps)
        if not re.search(done, texts, re.MULTILINE)
    ]
    return [min(left)[2]]


def stroll(view: AgentView) -> list[str]:
    """Return actions of all declared forms on names in the texts, also in forms that nothing fits."""
    names = [*dict.fromkeys(_NOUN.findall(read_texts(view)))][-MOST_NAMES:]
    declared = declared_forms(view.action_format)
    if tools := [form for form in declared if form.tool]:
        return stroll_shop(view, tools)
    forms = [form for form in declared if form.text]
    pick = chance("form", view.task_id, len(view.turns))
    if not forms:
        return []
    form = forms[int(pick * len(forms))]
    pools = [names or ["1", "2", "3"]] * min(form.slots, 2)
    return [fill(form.text, values) for values in product(*pools)]


SCRIPTS: dict[str, Moves] = {
    "gymnasium:": say_words,
    "minigrid:": say_words,
    "textarena:GuessTheNumber": guess_number,
    "textarena:Bandit": press_button,
    "textarena:Minesweeper": reveal_cell,
    "textarena:": say_words,
    "textworld:make": cook_meal,
    "tau2:retail": serve_customer,
}
"""Moves by the beginning of a world's name: the first that fits counts."""


def choose_moves(world: str, seed: int = 0) -> Moves:
    """Return what the script of a world would do."""
    moves = next((moves for beginning, moves in SCRIPTS.items() if world.startswith(beginning)), say_words)
    return partial(serve_customer, seed=seed) if moves is serve_customer else moves


def _build(setting: AgentSetting) -> Script:
    return Script("script", choose_moves(setting.spec.name, setting.seed), setting.seed)


def _build_stroller(setting: AgentSetting) -> Script:
    return Script("stroller", choose_moves(setting.spec.name, setting.seed), setting.seed, strolls=True)


PLAYER = AgentSpec("script", "a script that knows the goal and not the wording; NOT a language model", False, _build)
STROLLER = AgentSpec("stroller", "half of its actions are of any form, on any name", False, _build_stroller)
