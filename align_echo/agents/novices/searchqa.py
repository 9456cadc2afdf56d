"""Scripted novice of SearchQA: a stand-in for a small language model, and NOT a language model.

It searches a name of the question, then names from the documents, and answers with a number or a name of the last
document. Its habits are those of small models: it writes actions in the form of other benchmarks (`Search[...]`,
`Finish[...]`), repeats refused actions, and answers too early. It follows feedback, with any kind of quotes or as a
form, and is a weak reader of rules given up front. It knows capital letters and digits, but nothing of how documents
are worded. Its scores are upper bounds for the effect of the same interface on a language model. All draws come from a
hash: same view, same action.
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
    """Habits of this novice. Numbers are shares of the occasions; `searches` is the most searches in an episode."""

    own_form: float = 0.35
    repeats: float = 0.5
    answers_early: float = 0.2
    searches: int = 3
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = SearchHabits()
STUBBORN = SearchHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""


def reader_novice(habits: SearchHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of SearchQA. It understands SearchQA's observations only."""
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
        """Draw a number in [0, 1) from task and occasion only."""
        return chance(self.key, *parts)

    def choose(self) -> str:
        return self._hint() or self._written(*self._meant())

    def _hint(self) -> str | None:
        """Return the action named by the last feedback, unless it was already followed twice in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, plain=True, cued=False):
            if times_followed(self.turns, command) < 2:
                return command
        return None

    def _meant(self) -> tuple[str, str]:
        """Choose the next step: "search" or "answer", and its text."""
        if not self.results:
            return "search", self.in_question[0] if self.in_question else self.goal
        early = self.draw("early", len(self.results)) < self.habits.answers_early
        queries = " ".join(turn.action or "" for turn in self.turns)
        fresh = [name for name in (*self.in_question, *self._met()) if name not in queries]
        if len(self.results) >= self.habits.searches or early or not fresh:
            return "answer", self._answer()
        return "search", fresh[0]

    def _met(self) -> list[str]:
        """List the names in the best document of the last search, except its title and names in the question."""
        title, text = self.results[-1][0]
        return [name for name in _names(text) if name != title and name not in self.in_question]

    def _answer(self) -> str:
        numbers: list[str] = [number for number in _NUMBER.findall(self.results[-1][0][1]) if number not in self.goal]
        if numbers and _ASKS_NUMBER.search(self.goal):
            return numbers[0]
        if len(self.in_question) > 1:  # it seems to be asked for one of them
            return self.in_question[int(self.draw("which") * len(self.in_question))]
        names = self._met()
        titles = Counter(title for documents in self.results for title, _ in documents)
        return names[0] if names else titles.most_common(1)[0][0]

    def _written(self, name: str, text: str) -> str:
        """Write the action, with this turn's habits of form."""
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
    """List capitalised names by first appearance; a sentence's first word counts only with another capitalised word
    after it.
    """
    names = [match[0] for match in _NAME.finditer(text) if " " in match[0] or not _begins(text, match.start())]
    return list(dict.fromkeys(names))


def _begins(text: str, start: int) -> bool:
    return start == 0 or text[:start].rstrip().endswith((".", "?", "!"))
