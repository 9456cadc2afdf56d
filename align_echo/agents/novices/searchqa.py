"""A scripted novice of SearchQA: a stand-in for a small language model, and NOT a language model.

It searches a name of the question, then names that it met on the way, and answers with a number or a name of the last
document that it read. Its habits are those of small models: it writes actions as other benchmarks have them
(`Search[...]`, `Finish[...]`), repeats what was refused, and answers before it has read enough. It does what feedback
tells it to, however that quotes the action or shows its form, and reads rules told up front weakly. It knows capital
letters and digits and nothing of how documents are worded. Scores with it are upper bounds for what the same interface
does for a language model. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, advised, chance, names_form, times_followed
from align_echo.types import AgentView

_COMMAND = re.compile(r"<(?P<kind>search|answer)>(?! |words to look for|the answer)[^`\n<]{2,}</(?P=kind)>")
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_NUMBER = re.compile(r"(?<!\w)\d+(?!\w)")
_DOCUMENT = re.compile(r"^Doc \d+\(Title: (.*?)\) (.*)$", re.MULTILINE)
_ASKS_NUMBER = re.compile(r"\b(year|how (many|much|long|deep|old|far)|when)\b", re.IGNORECASE)


@dataclass(frozen=True)
class SearchHabits:
    """What this novice does of itself. Numbers are shares of the occasions; `searches` is the most that it makes."""

    own_form: float = 0.35
    repeats: float = 0.5
    answers_early: float = 0.2
    searches: int = 3
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = SearchHabits()
STUBBORN = SearchHabits(heeds_feedback=False, heeds_rules=0.0)
"""Never takes a hint: an interface must at least do it no harm."""


def reader_novice(habits: SearchHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """The scripted novice of SearchQA. It reads SearchQA's observations only."""
    return ScriptedNovice(lambda view: _ReaderMind(habits, seed, view).choose(), name)


class _ReaderMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: SearchHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}"
        self.goal = view.goal
        self.rules = view.rules
        self.turns = view.turns
        self.in_question = _names(view.goal.partition(" ")[2])
        read = [_DOCUMENT.findall(turn.observation) for turn in view.turns]
        self.results: list[list[tuple[str, str]]] = [documents for documents in read if documents]

    def draw(self, *parts: object) -> float:
        """A number in [0, 1) that depends on task and occasion only."""
        return chance(self.key, *parts)

    def choose(self) -> str:
        return self._hint() or self._written(*self._meant())

    def _hint(self) -> str | None:
        """The action that the last feedback names, unless it was followed twice already in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, plain=True, cued=False):
            if times_followed(self.turns, command) < 2:
                return command
        return None

    def _meant(self) -> tuple[str, str]:
        """What it wants to do: "search" or "answer", and what for or which."""
        if not self.results:
            return "search", self.in_question[0] if self.in_question else self.goal
        early = self.draw("early", len(self.results)) < self.habits.answers_early
        queries = " ".join(turn.action or "" for turn in self.turns)
        fresh = [name for name in (*self.in_question, *self._met()) if name not in queries]
        if len(self.results) >= self.habits.searches or early or not fresh:
            return "answer", self._answer()
        return "search", fresh[0]

    def _met(self) -> list[str]:
        """Names in the best document of the last search, beside those of the question and its own title."""
        title, text = self.results[-1][0]
        return [name for name in _names(text) if name != title and name not in self.in_question]

    def _answer(self) -> str:
        numbers: list[str] = [number for number in _NUMBER.findall(self.results[-1][0][1]) if number not in self.goal]
        if numbers and _ASKS_NUMBER.search(self.goal):
            return numbers[0]
        if len(self.in_question) > 1:  # it seems to be asked for one of them
            return self.in_question[int(self.draw("which") * len(self.in_question))]
        met = self._met()
        titles = Counter(title for documents in self.results for title, _ in documents)
        return met[0] if met else titles.most_common(1)[0][0]

    def _written(self, name: str, text: str) -> str:
        """The action as it writes it this turn."""
        own = {"search": f"Search[{text}]", "answer": f"Finish[{text}]"}[name]
        last = self.turns[-1] if self.turns else None
        share = self.habits.own_form
        if last and self.habits.heeds_feedback and names_form(last.observation, f"<{name}>"):
            share = 0.0
        elif last and last.action == own:  # it was not understood
            share = self.habits.repeats
        elif f"<{name}>" in self.rules:
            share *= 1 - self.habits.heeds_rules
        return own if self.draw(name, len(self.turns)) < share else f"<{name}>{text}</{name}>"


def _names(text: str) -> list[str]:
    """Words in capitals, by where they first stand; a sentence's first word counts only with another after it."""
    names = [match[0] for match in _NAME.finditer(text) if " " in match[0] or not _begins(text, match.start())]
    return list(dict.fromkeys(names))


def _begins(text: str, start: int) -> bool:
    return start == 0 or text[:start].rstrip().endswith((".", "?", "!"))
