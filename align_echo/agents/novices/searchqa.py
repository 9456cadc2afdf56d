"""A scripted novice of SearchQA: a stand-in for a small language model, and NOT a language model.

It searches a name of the question, then names that it met on the way, and answers with a number or a name of the last
document that it read. Its habits are those of small models: it writes actions as other benchmarks have them
(`Search[...]`, `Finish[...]`), repeats what was refused, and answers before it has read enough. It does what feedback
tells it in a line that names an action or its form in backquotes, and reads rules told up front weakly. It knows
capital letters and digits and nothing of how documents are worded. Scores with it are upper bounds for what the same
interface does for a language model. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, chance, times_followed
from align_echo.types import AgentView

_NAMED = re.compile(r"`(<(?:search|answer)>[^`\n]{2,}</(?:search|answer)>)`")
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


STUBBORN = SearchHabits(heeds_feedback=False, heeds_rules=0.0)
"""Never takes a hint: an interface must at least do it no harm."""


class ReaderNovice(ScriptedNovice[SearchHabits]):
    """The scripted novice. Reads SearchQA's observations only."""

    usual = SearchHabits

    def choose(self, view: AgentView) -> str:
        """The next action: same view, same action."""
        hint = self._hint(view) if self.habits.heeds_feedback and view.turns else None
        return hint or self._written(view, *self._meant(view))

    def _hint(self, view: AgentView) -> str | None:
        """The action that the last feedback names, unless it was followed twice already in vain."""
        for command in _NAMED.findall(view.turns[-1].observation):
            if command != view.turns[-1].action and times_followed(view.turns, command) < 2:
                return str(command)
        return None

    def _meant(self, view: AgentView) -> tuple[str, str]:
        """What it wants to do: "search" or "answer", and what for or which."""
        read = [_DOCUMENT.findall(turn.observation) for turn in view.turns]
        results = [documents for documents in read if documents]
        in_question = _names(view.goal.partition(" ")[2])
        if not results:
            return "search", in_question[0] if in_question else view.goal
        early = chance(self.seed, view.task_id, "early", len(results)) < self.habits.answers_early
        queries = " ".join(turn.action or "" for turn in view.turns)
        met = [name for name in self._met(results, in_question) if name not in queries]
        fresh = [name for name in in_question if name not in queries] + met
        if len(results) >= self.habits.searches or early or not fresh:
            return "answer", self._answer(view, results, in_question)
        return "search", fresh[0]

    def _met(self, results: list[list[tuple[str, str]]], in_question: list[str]) -> list[str]:
        """Names in the best document of the last search, beside those of the question and its own title."""
        title, text = results[-1][0]
        return [name for name in _names(text) if name != title and name not in in_question]

    def _answer(self, view: AgentView, results: list[list[tuple[str, str]]], in_question: list[str]) -> str:
        numbers: list[str] = [number for number in _NUMBER.findall(results[-1][0][1]) if number not in view.goal]
        if numbers and _ASKS_NUMBER.search(view.goal):
            return numbers[0]
        if len(in_question) > 1:  # one of them, it seems
            return in_question[int(chance(self.seed, view.task_id, "which") * len(in_question))]
        met = self._met(results, in_question)
        return met[0] if met else Counter(title for documents in results for title, _ in documents).most_common(1)[0][0]

    def _written(self, view: AgentView, name: str, text: str) -> str:
        """The action as it writes it this turn."""
        own = {"search": f"Search[{text}]", "answer": f"Finish[{text}]"}[name]
        last = view.turns[-1] if view.turns else None
        share = self.habits.own_form
        if last and self.habits.heeds_feedback and f"`<{name}>" in last.observation:
            share = 0.0
        elif last and last.action == own:  # it was not understood
            share = self.habits.repeats
        elif f"<{name}>" in view.rules:
            share *= 1 - self.habits.heeds_rules
        return own if chance(self.seed, view.task_id, name, len(view.turns)) < share else f"<{name}>{text}</{name}>"


def _names(text: str) -> list[str]:
    """Words in capitals, by where they first stand; a sentence's first word counts only with another after it."""
    names = [match[0] for match in _NAME.finditer(text) if " " in match[0] or not _begins(text, match.start())]
    return list(dict.fromkeys(names))


def _begins(text: str, start: int) -> bool:
    return start == 0 or text[:start].rstrip().endswith((".", "?", "!"))
