"""Parse an agent's turn as the engine reads it: a call of one tool, an answer, or neither.

A turn holds either `Action:` or `Answer:`. A call ends at `End Action`, or with the turn. Only the first of several
counts, and the agent gets a reminder. The tools and their answers are in `env.py`.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from align_echo.reading import parse_json
from align_echo.wrappers.m3tooleval.spec import NO_TURN

ACTION, ANSWER, END = "Action:", "Answer:", "End Action"

TEXT_FORM = """\
To call a tool, write its name and its arguments between `Action:` and `End Action`, with commas between them:
Action: tool_name, first_argument, second_argument End Action
The arguments are split at commas, so none may hold one."""

JSON_FORM = """\
To call a tool, write a JSON object with its name and the list of its arguments between `Action:` and `End Action`:
Action: {"tool": "tool_name", "args": ["first_argument", 2]} End Action"""

ENDING = """\
Call one tool a turn. When you know the result, write `Answer:` and the result alone; this ends the task.
A turn holds either `Action:` or `Answer:`, never both."""


class ParsedTurn(NamedTuple):
    """Parsed turn: a "call" (`text` is the tool's name), an "answer" (`text` is the answer) or "refused" (`text` is the
    reason). `reminder` is an extra note for the agent."""

    kind: str
    text: str = ""
    arguments: tuple[object, ...] = ()
    reminder: str = ""

    def canonical(self, *, as_json: bool) -> str:
        """Write the turn with single spaces, its call in the JSON form or in the text form; "" if it is no turn.

        In the JSON form a number equals its text, as for the tools. A bare name has the text form in both, because the
        only look is written so.
        """
        if self.kind == "call":
            if as_json and not (self.text.isidentifier() and not self.arguments):
                fields = {"tool": self.text, "args": [_as_text(value) for value in self.arguments]}
                return f"{ACTION} {json.dumps(fields, sort_keys=True)} {END}"
            return format_call((self.text, *map(str, self.arguments)), as_json=False)
        return f"{ANSWER} {self.text}" if self.kind == "answer" else ""


def read_turn(action: str, *, as_json: bool) -> ParsedTurn:
    """Parse a turn, with its call in the JSON form or in the text form."""
    if ACTION in action and ANSWER in action:
        return ParsedTurn("refused", f"{NO_TURN}it holds both `Action:` and `Answer:`. Send one of them.")
    if ANSWER in action:
        _, answer, *more = action.split(ANSWER)
        return ParsedTurn("answer", answer.strip(), reminder=_reminder("answer", more))
    if ACTION not in action:
        return ParsedTurn("refused", f"{NO_TURN}it holds neither `Action:` nor `Answer:`.")
    _, call, *more = action.split(ACTION)
    call = call.partition(END)[0].strip()
    reminder = _reminder("action", more)
    if not as_json:
        name, *arguments = (part.strip() for part in call.split(","))
        return ParsedTurn("call", name, tuple(arguments), reminder)
    try:
        fields = parse_json(call)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("tool"), str):
        return ParsedTurn("refused", f'{NO_TURN}a call is a JSON object with "tool", a name, and "args", a list.')
    values = fields.get("args", [])
    listed = tuple(values) if isinstance(values, list) else (values,)
    return ParsedTurn("call", fields["tool"].strip(), listed, reminder)


def format_call(call: tuple[str, ...], *, as_json: bool) -> str:
    """Write a call as an agent does."""
    written = json.dumps({"tool": call[0], "args": list(call[1:])}) if as_json else ", ".join(call)
    return f"{ACTION} {written} {END}"


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _reminder(kind: str, more: list[str]) -> str:
    return f"Note: you sent more than one {kind}, and only the first was used." if more else ""
