"""Ground truth about a question: the documents that lead to its answer, except those already shown, then the answer.

An answer counts as known after every document was shown, or was searched for by its title. For labels and tests; never
shown to an agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.wrappers.searchqa.questions import SearchTask


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
