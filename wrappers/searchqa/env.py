"""SearchQA as a `TextEnv`: searches and one answer, an oracle, and free snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.searchqa.answers import exact, f1, plain
from align_echo.wrappers.searchqa.corpus import SearchTask
from align_echo.wrappers.searchqa.spec import (
    CONTRACT,
    EMPTY,
    SCORES,
    STEP_LIMIT,
    UNREAD,
    parse_action,
    task_type,
)
from align_echo.wrappers.searchqa.subjects import Document
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv

# ---------------------------------------------------------------- ground truth about a question


class SearchOracle:
    """Oracle after searches, given as (query, titles shown) each. `won` is None before an answer."""

    def __init__(self, task: SearchTask, searched: Sequence[tuple[str, tuple[str, ...]]], won: bool | None) -> None:
        self._task = task
        self._won = won
        seen_titles = {title for query, titles in searched for title in (query, *titles)}
        self._missing = [title for title in task.chain if title not in seen_titles]

    def expert_action(self) -> str | None:
        """Return the next search along the chain, or the answer; None after an answer, or without a known chain."""
        if self._won is not None or not self._task.chain:
            return None
        if self._missing:
            return f"<search>{self._missing[0]}</search>"
        return f"<answer>{self._task.answers[0]}</answer>"

    def distance(self) -> int | None:
        """Count the documents still to show, and 1 for the answer; 0 after a right answer, None after a wrong one."""
        if self._won is not None:
            return 0 if self._won else None
        return len(self._missing) + 1 if self._task.chain else None


# ---------------------------------------------------------------- SearchQA as a `TextEnv`

DOCUMENTS_SHOWN = 3
"""Number of documents shown by a search."""

CHARACTERS_SEARCHED = 1_000
"""Characters of a query that count; the rest is ignored."""

LONGEST_RESULT = 2_000
"""Longest result of a search, in characters (some 500 tokens, the bound of Search-R1); the rest is cut off."""

RIGHT, WRONG = "The answer is right.", "The answer is not right."

TEMPLATES = ("<search>{0}</search>", "<answer>{0}</answer>")

Search = Callable[[str, int], list[Document]]
"""(query, count) -> the best documents, best first. Raises `EngineError`."""

_NAMES = re.compile(r"[A-Z][\w'.-]*(?: [A-Z][\w'.-]*)*")
_OWN_TAGS = re.compile(r"</?information>")

History = tuple[tuple[str, tuple[str, ...]], ...]
"""(query, titles of the shown documents) of every search of an episode."""


class SearchQAEnv(TextEnv):
    """Environment over the questions of one split. `open_search` returns the search function, and is called at every
    reset.

    `score` is "exact" (1 for a right answer, else 0) or "f1". In both cases `raw_score` in `info` is F1, and an exact
    answer wins the episode.
    """

    def __init__(
        self,
        tasks: Mapping[str, SearchTask],
        open_search: Callable[[], Search],
        step_limit: int | None = None,
        score: str = SCORES[0],
    ) -> None:
        """Open a split. Raises `UsageError` for another score or a step limit below 1."""
        if score not in SCORES:
            raise UsageError(f"SearchQA scores an answer by {' or '.join(SCORES)}, not {score!r}")
        super().__init__(tuple(tasks), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._tasks = tasks
        self._open_search = open_search
        self._by_f1 = score == "f1"
        self._search: Search | None = None
        self._task: SearchTask | None = None
        self._history: History = ()
        self._won: bool | None = None

    @property
    def task(self) -> SearchTask:
        """Present question with its answers. Raises `UsageError` before a reset."""
        if self._task is None:
            raise UsageError("call reset() first")
        return self._task

    @property
    def goal(self) -> str:
        return self.task.question

    @property
    def task_type(self) -> str:
        return task_type(self._task_id)

    def oracle(self) -> SearchOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        return SearchOracle(self.task, self._history, self._won)

    def refuses(self, observation: str) -> bool:
        return observation in (UNREAD, EMPTY)

    def offered(self) -> ActionOptions:
        """Return the two forms of an action, the names in the question and the titles shown so far."""
        names = [*_NAMES.findall(self.goal)[1:], *(title for _, titles in self._history for title in titles)]
        return ActionOptions(TEMPLATES, tuple(dict.fromkeys(names)))

    def as_read(self, action: str) -> str:
        """Return the first form in the action, with single spaces; "" if there is none."""
        name, text = parse_action(action)
        return f"<{name}>{text}</{name}>" if name else ""

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        self._open(task_id)
        self._search = self._open_search()
        self._history, self._won = (), None
        return EngineState(f"Question: {self.goal}", raw_score=0.0)

    def _open(self, task_id: str) -> None:
        if task_id not in self._tasks:
            raise UsageError(f"there is no task {task_id!r} in this split; see tasks() for the ids")
        self._task = self._tasks[task_id]

    def _act(self, action: str) -> EngineState:
        name, text = parse_action(action)
        if name == "answer":
            return self._judge(text)
        query = plain(text)[:CHARACTERS_SEARCHED].strip()
        if not query:
            return EngineState(EMPTY if name else UNREAD, raw_score=0.0)
        if self._search is None:
            raise EngineError("the documents are gone: call reset()")
        documents = self._search(query, DOCUMENTS_SHOWN)
        self._history = (*self._history, (query, tuple(plain(document.title) for document in documents)))
        return EngineState(render_documents(documents), raw_score=0.0)

    def _judge(self, answer: str) -> EngineState:
        """Judge an answer and end the episode."""
        won, shared = exact(answer, self.task.answers), f1(answer, self.task.answers)
        self._won = won
        score = shared if self._by_f1 else float(won)
        return EngineState(RIGHT if won else WRONG, score, won, True, raw_score=shared)

    def _probe(self, action: str) -> str:
        raise UsageError("SearchQA has no action that only looks")

    def _save(self) -> tuple[History, bool | None]:
        return self._history, self._won

    def _restore(self, task_id: str, saved: tuple[History, bool | None]) -> None:
        if task_id != self._task_id:
            self._open(task_id)
        self._history, self._won = saved


def render_documents(documents: Iterable[Document]) -> str:
    """Render the documents of a search, cut at `LONGEST_RESULT` characters."""
    lines = [
        _OWN_TAGS.sub("", plain(f"Doc {number}(Title: {document.title}) {document.text}"))
        for number, document in enumerate(documents, start=1)
    ]
    text = "\n".join(lines) or "No document shares a word with this query."
    if len(text) > LONGEST_RESULT:
        text = text[: LONGEST_RESULT - 4] + " ..."
    return f"<information>\n{text}\n</information>"
