"""Scripted novice of M3ToolEval: a stand-in for a small language model, and NOT a language model.

It decodes single messages and follows links by their words on a company's site; in the other families it calculates
with the numbers it reads, and answers with the result. Its one habit of form is that of models that write Python: it
calls `tool('argument')` with brackets and quotes, which the engine reads as a tool's name. It stops when its patience
ends, or when feedback or rules show a line with `Action: tool, ... End Action` (it is a weak reader of rules). Its
scores are upper bounds for the effect of the same interface on a language model. It writes the text form only. All
draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, chance
from align_echo.types import AgentView

_SHOWN_FORM = re.compile(r"Action: *\w+(, | End Action)")
_LINK = re.compile(r"^(.*) \[link '([^']+)'\]$", re.MULTILINE)
_CALL = re.compile(r"Action: (\w+)(?:, (.*))? End Action")
_REFUSED = ("This turn is not valid", "There is no tool named", "The call failed")
_FIELDS = {"e-mail": "E-mail", "telephone": "Telephone", "speciality": "Speciality", "department": "Department"}
_COMMON = frozenset("what is the of a one in you are on home page firm's site and work".split())  # noqa: SIM905

Move = tuple[str, ...]
"""A tool's name and its arguments; ("", answer) for an answer."""


@dataclass(frozen=True)
class ToolHabits:
    """Habits of this novice. `writes_python` is the share of tasks with Python-style calls; `patience` is how many
    refusals in a row it takes before it follows the documented form, unless it `gets_stuck`.
    """

    writes_python: float = 0.6
    gets_stuck: float = 0.5
    patience: int = 3
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = ToolHabits()
STUBBORN = ToolHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""


def tool_novice(habits: ToolHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of M3ToolEval. It writes the text form only."""
    return ScriptedNovice(lambda view: _written(next_move(view), _writes_python(habits, seed, view)), name)


def _written(move: Move, as_python: bool) -> str:
    name, *arguments = move
    if not name:
        return f"Answer: {arguments[0]}"
    if as_python:
        return f"Action: {name}({', '.join(repr(argument) for argument in arguments)}) End Action"
    return f"Action: {', '.join((name, *arguments))} End Action"


def _writes_python(habits: ToolHabits, seed: int, view: AgentView) -> bool:
    """Return whether it writes Python-style calls now."""
    key = f"{seed}/{view.task_id}"
    share = habits.writes_python
    if _SHOWN_FORM.search(view.rules):
        share *= 1 - habits.heeds_rules
    if chance(key, "python") >= share:
        return False
    answers = [turn.observation for turn in view.turns]
    if habits.heeds_feedback and any(map(_SHOWN_FORM.search, answers)):
        return False
    stuck = chance(key, "stuck") < habits.gets_stuck
    return stuck or sum(answer.startswith(_REFUSED) for answer in answers) < habits.patience


def next_move(view: AgentView) -> Move:
    """Choose the next call or answer, before it is put in a form."""
    done = [
        ((call[1], call[2] or ""), turn.observation)
        for turn in view.turns
        if (call := _CALL.fullmatch(turn.action or "")) and not turn.observation.startswith(_REFUSED)
    ]
    if "convert_hex_to_ascii(" in view.initial_observation:
        return _decode(view.goal, [text for _, text in done])
    if "click_url(" in view.initial_observation:
        return _browse(view.goal, done)
    if done or "calculator(expression" not in view.initial_observation:
        return ("", done[-1][1] if done else "True")
    numbers = re.findall(r"\d+(?:\.\d+)?", view.goal)[:3]
    return ("calculator", " * ".join(numbers or ["1"]))


def _decode(goal: str, texts: list[str]) -> Move:
    """Decode the first message of the goal, step by step; `texts` are the tools' answers so far."""
    code = re.search(r"\b(?:[0-9a-f]{2}){4,}\b", goal)
    shift = re.search(r"(?:shift of|by) (\d+)", goal)
    steps = ["convert_hex_to_ascii"]
    steps += ["reverse_string"] if " round" in goal else []
    steps += ["caesar_decode"] if shift else []
    steps += ["string_length"] if "How many" in goal else []
    if code is None or len(texts) >= len(steps):
        return ("", texts[-1] if texts else "unknown")
    name = steps[len(texts)]
    argument = texts[-1] if texts else code[0]
    return (name, argument, shift[1]) if shift and name == "caesar_decode" else (name, argument)


def _browse(goal: str, done: list[tuple[tuple[str, str], str]]) -> Move:
    """Follow the links with words of the goal, and read the answer off the page."""
    pages = [text for _, text in done if text.startswith("[page ")]
    if not pages:
        return ("view",)
    heading, _, text = pages[-1].partition("\n")
    address, part, parts = re.findall(r"\[page (\S+), part (\d+) of (\d+)\]", heading)[0]
    if (answer := _answer(goal, address, text)) is not None:
        return ("", answer)
    visited = {argument for (name, argument), _ in done if name == "click_url"}
    links = [(label, link) for label, link in _LINK.findall(text) if link not in visited]
    words = set(re.findall(r"[\w'-]+", goal.lower())) - _COMMON
    words |= {"goods"} if "cost" in words else {"numbers"} if "whose" in words else {"staff"}
    ranked = sorted(links, key=lambda named: -len(words & set(named[0].lower().split())))
    if ranked and words & set(ranked[0][0].lower().split()):
        return ("click_url", ranked[0][1])
    if part != parts:
        return ("scroll_down",)
    return ("click_url", ranked[0][1]) if ranked else ("go_to_previous_page",)


def _answer(goal: str, address: str, text: str) -> str | None:
    """Read the answer off a page; None without it. For a sum it knows the first price alone."""
    if (number := re.search(r"number is ([\d-]+)", goal)) is not None:
        named = re.search(rf"^{number[1]}: (.*)$", text, re.MULTILINE)
        return None if named is None else named[1]
    kind, _, subject = address[1:].rpartition("/")
    if "How many" in goal:
        return str(len(_LINK.findall(text))) if kind and f"the {subject} " in goal.lower() else None
    if kind.count("/") != 1 or subject.replace("-", " ") not in goal.lower():
        return None
    field = next((label for word, label in _FIELDS.items() if f"{word} of" in goal), "Department")
    label = "Price" if "cost" in goal else field
    line = re.search(rf"^{label}: (.*)$", text, re.MULTILINE)
    return None if line is None else re.sub(r"^.*week, | now$", "", line[1])
