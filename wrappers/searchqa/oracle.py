"""Ground truth about a question: the documents that lead to its answer, less those that were shown, then the answer.

It counts an answer as known once every document was shown or searched for by its title. For labels and tests; never
shown to an agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.wrappers.searchqa.questions import SearchTask


class SearchOracle:
    """What the expert does after searches, (query, titles that it showed) each. `won` is None before an answer."""

    def __init__(self, task: SearchTask, searched: Sequence[tuple[str, tuple[str, ...]]], won: bool | None) -> None:
        self._task = task
        self._won = won
        known = {title for query, titles in searched for title in (query, *titles)}
        self._missing = [title for title in task.chain if title not in known]

    def expert_action(self) -> str | None:
        """The next search along the chain, or the answer; None once there was one, or where no chain is known."""
        if self._won is not None or not self._task.chain:
            return None
        if self._missing:
            return f"<search>{self._missing[0]}</search>"
        return f"<answer>{self._task.answers[0]}</answer>"

    def distance(self) -> int | None:
        """Documents that were not shown yet, and 1 for the answer; 0 after a right one, None after a wrong one."""
        if self._won is not None:
            return 0 if self._won else None
        return len(self._missing) + 1 if self._task.chain else None
