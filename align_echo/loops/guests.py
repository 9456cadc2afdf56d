"""Episodes of one client of a third-party loop, one after another.

    panel = TaskPanel.build("alfworld", split="valid_unseen", interface="probe")
    guest = Guest(panel, "my loop")
    view = guest.reset(panel.tasks[0])
    step = guest.act("go to desk 1")
    guest.close()

Clients are not trusted. Bad input is refused in one line that says what to do: an action that is not text, is too long
or cannot be written as UTF-8, an unknown task, a turn after the end. A refused call costs no turn. With `record`,
every episode is appended to a file that `align-echo view` and `show` read. An episode that the client leaves before
its end has a `Fault` and no score, so leaving does not hide a loss. Not here: the protocol (one file per loop), and
token ids, which the client has.
"""

from __future__ import annotations

import threading

from align_echo.errors import AgentError, UsageError
from align_echo.grammar import with_article
from align_echo.jsonl import JsonlFile
from align_echo.loops.driving import TaskPanel
from align_echo.session import Session
from align_echo.types import AgentView, Step, Trajectory
from align_echo.wrappers.text_env import MAX_TEXT

LEFT = "the client left this episode before its end"

LONGEST_NAME = 200
"""Maximum characters of an unknown name quoted in an error."""


class ClientSession:
    """Episodes of one client. Methods are thread-safe: each call waits for the one before."""

    def __init__(self, panel: TaskPanel, agent: str, record: JsonlFile | None = None) -> None:
        """Store the settings; the environment is made at the first reset. `agent` is the client's name in
        trajectories.
        """
        self._panel = panel
        self._agent = agent
        self._record = record
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._closed = False
        self._kept = True

    def reset(self, task: object) -> AgentView:
        """Begin a task, leaving any episode in progress.

        Raises `UsageError`, `EngineError`, or the error from making the environment.
        """
        with self._lock:
            self._check_open()
            name = self._known(task)
            self._leave()
            if self._session is None:
                self._session = self._panel.open(agent=self._agent)
            self._kept = False
            return self._session.reset(name)

    def act(self, action: object) -> Step:
        """Take one turn.

        Raises `UsageError` for an invalid action or if no turn can be taken, `EngineError` if the environment breaks:
        the episode then has no score.
        """
        with self._lock:
            self._check_open()
            if self._session is None:
                raise UsageError("no episode was begun: reset to a task first")
            text = checked_action(action)
            try:
                return self._session.step(text)
            finally:
                if self._session.over:
                    self._keep(self._session.trajectory())

    @property
    def won(self) -> bool:
        """True if the episode so far is won."""
        with self._lock:
            return self._session is not None and self._session.trajectory().won

    def close(self) -> None:
        """Leave any episode and close the environment. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._leave()
            finally:
                if self._session is not None:
                    self._session.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this session is closed, as it was idle for too long or its client had left: begin anew")

    def _known(self, task: object) -> str:
        """Return the task if it is in the panel. Raises `UsageError` otherwise."""
        if not isinstance(task, str):
            raise UsageError(f"a task is named by its id, a text, not by {describe_json_type(task)}")
        panel = self._panel
        if task not in panel.tasks:
            asked = task if len(task) <= LONGEST_NAME else f"{task[:LONGEST_NAME]}..."
            raise UsageError(f"{panel.spec.name} has no {panel.split} task {asked!r}; its first is {panel.tasks[0]!r}")
        return task

    def _leave(self) -> None:
        """Record an episode left by the client before its end."""
        session = self._session
        if session is None or self._kept:
            return
        if not session.over:
            session.fail(AgentError(LEFT))
        if session.trajectory().fault:
            self._keep(session.trajectory())

    def _keep(self, trajectory: Trajectory) -> None:
        if not self._kept and self._record is not None:
            self._record.append(trajectory)
        self._kept = True


def checked_action(action: object) -> str:
    """Return the action if it is valid. Raises `UsageError` otherwise."""
    if not isinstance(action, str):
        raise UsageError(f"an action is a text, not {describe_json_type(action)}")
    if len(action) > MAX_TEXT:
        raise UsageError(f"the action has {len(action):,} characters; at most {MAX_TEXT:,} are taken")
    try:
        action.encode()
    except UnicodeEncodeError as error:
        raise UsageError("the action holds half of a character, which UTF-8 cannot write") from error
    return action


def describe_json_type(value: object) -> str:
    """Return the JSON type of a value in words."""
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return {**names, dict: "an object"}.get(type(value), with_article(type(value).__name__))


def opening(view: AgentView) -> str:
    """Return everything a client may know before its first action, as one text for a model."""
    parts = [view.action_format, view.rules, view.critique, f"Your task: {view.goal}", view.initial_observation]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def ending(step: Step, won: bool) -> str:
    """Describe in one line how an episode ended; "" while it goes on."""
    if not (step.terminated or step.truncated):
        return ""
    how = "it was won" if won else "the last turn was taken" if step.truncated else "it was lost"
    return f"The episode is over: {how}; its score is {step.score:g} of 1."
