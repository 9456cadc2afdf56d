"""`tau2:DOMAIN`: the tools of tau2-bench (retail, airline, telecom, mock), without a simulated customer.

The first text is what the customer wants (in telecom and mock the ticket), the goal is the domain's policy. A turn is
one tool call in JSON; `done` ends the episode, scored as tau2's `EnvironmentEvaluator` does: by the database, or by the
task's assertions on it. What an agent has to say to a customer is not scored.
"""

from __future__ import annotations

import copy
import importlib
import json
import pickle
from functools import partial
from typing import Any

import gymnasium as gym

from align_echo.errors import UsageError, require
from align_echo.wrappers.plain import TextEnvironment

TURNS = 50


def connect(name: str) -> TextEnvironment:
    """Domain of tau2-bench (retail, airline, telecom, mock): one tool call in JSON a turn, `done` ends."""
    needs = ("tau2", "loguru", "deepdiff", "addict", "toml", "dotenv", "docstring_parser")
    require(f"tau2:{name}", "tau2", needs, "the package tau2 is another project")
    from loguru import logger

    logger.disable("tau2")
    try:
        domain = importlib.import_module(f"tau2.domains.{name}.environment")
    except ImportError as error:
        raise UsageError(f"tau2-bench has no domain {name!r}, or it cannot be imported: {error}") from error
    ids = domain.get_tasks_split()
    splits = {split: ids[split] for split in (("train", "test") if "train" in ids else ("base",))}
    world = _Domain(domain)
    tools = tuple(tool.openai_schema for tool in world.environment().get_tools())
    return TextEnvironment(
        partial(_Desk, world),
        splits=splits,
        option="task",
        train_split=next(iter(splits)),
        test_split=[*splits][-1],
        step_limit=TURNS,
        summary=f"the domain {name} of tau2-bench",
        goal=world.environment().policy,
        action_format=" | ".join([*map(_form, tools), "done"]),
        is_invalid=lambda text: text.startswith("Error: "),
        tools=tools,
        save=_Desk.saved,
        restore=_Desk.put,
    )


def _form(tool: dict[str, Any]) -> str:
    names = tool["function"]["parameters"].get("properties", {})
    return json.dumps({"name": tool["function"]["name"], "arguments": dict.fromkeys(names, "...")})


class _WatchedTable(dict[str, Any]):
    """Table that notes the entries that were handed out, which alone can have changed; at first all."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.handed = set(table)

    def __getitem__(self, key: str) -> Any:
        self.handed.add(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.handed.add(key)
        super().__setitem__(key, value)

    def get(self, key: str, default: Any = None) -> Any:
        self.handed.add(key)
        return super().get(key, default)

    def values(self) -> Any:
        self.handed |= set(self)
        return super().values()

    def items(self) -> Any:
        self.handed |= set(self)
        return super().items()


class _Domain:
    """A domain's tasks, and environments with its database, which is read once."""

    def __init__(self, domain: Any) -> None:
        self.make, self.tasks = domain.get_environment, {str(task.id): task for task in domain.get_tasks(None)}
        try:
            first, self.solo = self.make(solo_mode=True), True
        except ValueError:  # this domain has no tickets
            first, self.solo = self.make(), False
        self.base = pickle.dumps(first.tools.db)
        self.tables: dict[str, Any] = vars(pickle.loads(self.base))

    def watch(self, db: Any) -> None:
        """Note from now on which entries of a database are handed out."""
        vars(db).update({name: _WatchedTable(table) for name, table in vars(db).items() if isinstance(table, dict)})

    def changed(self, db: Any, before: dict[str, Any]) -> dict[str, Any]:
        """Return copies of the entries of a database that differ from the domain's; whole tables that are lists.

        `before` are the differences when this, or `put`, was last called.
        """
        differ: dict[str, Any] = {}
        for name, table in vars(db).items():
            known = self.tables[name]
            if not isinstance(table, _WatchedTable):
                differ |= {name: copy.deepcopy(table)} if table != known else {}
                continue
            keys = sorted(key for key in {*table.handed, *before.get(name, ())} if key in table)
            if changes := {key: value for key in keys if known.get(key) != (value := dict.get(table, key))}:
                differ[name] = copy.deepcopy(changes)
            table.handed.clear()
        return differ

    def put(self, db: Any, now: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Change a database whose differences are `now` into the one whose differences are `wanted`."""
        for name in {*now, *wanted}:
            known, table = self.tables[name], vars(db)[name]
            if not isinstance(table, _WatchedTable):
                setattr(db, name, copy.deepcopy(wanted.get(name, known)))
                continue
            for key in now.get(name, ()):
                table.pop(key)
                table.update({key: copy.deepcopy(known[key])} if key in known else {})
            table.update(copy.deepcopy(wanted.get(name, {})))

    def environment(self, solo_mode: bool | None = None) -> Any:
        return self.make(db=pickle.loads(self.base), solo_mode=self.solo if solo_mode is None else solo_mode)


class _Desk(gym.Env[str, str]):
    """The desk of one task."""

    def __init__(self, world: _Domain) -> None:
        self.world = world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.task = self.world.tasks[str((options or {})["task"])]
        self.solo = self.world.solo and self.task.ticket is not None
        self.live, start = self.world.environment(self.solo), self.task.initial_state
        if start is not None:
            self.live.set_state(start.initialization_data, start.initialization_actions, start.message_history or [])
        self.messages: list[Any] = [*((start and start.message_history) or ())]
        self.world.watch(self.live.tools.db)
        self.differences: dict[str, Any] = {}
        self.stale = True
        return str(self.task.ticket if self.solo else self.task.user_scenario.instructions), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        from tau2.data_model.message import AssistantMessage, ToolCall

        if action.strip() == "done":
            won = self._score()
            return "", won, True, False, {"won": won == 1}
        try:
            call = ToolCall.model_validate({**json.loads(action), "id": str(len(self.messages))})
        except (ValueError, TypeError) as error:
            return f"Error: {' '.join(str(error).split())}", 0.0, False, False, {"won": False}
        self.stale |= not self._only_reads(call)
        answer = self.live.get_response(call)
        self.messages += [AssistantMessage(role="assistant", tool_calls=[call]), answer]
        return answer.content or "", 0.0, False, False, {"won": False}

    def _only_reads(self, call: Any) -> bool:
        """Whether a call is of a tool that its domain declares as reading only."""
        tools = self.live.tools
        return call.requestor == "assistant" and call.name in tools.tools and tools.tool_type(call.name) == "read"

    def saved(self) -> tuple[Any, ...]:
        """Return what differs from the domain's database, the user's own database, and the messages."""
        if self.stale:
            self.differences, self.stale = self.world.changed(self.live.tools.db, self.differences), False
        return self.task, self.differences, copy.deepcopy(getattr(self.live.user_tools, "db", None)), [*self.messages]

    def put(self, saved: tuple[Any, ...]) -> None:
        """Return to a saved state."""
        task, wanted, user, messages = saved
        if task is not self.task:
            self.reset(options={"task": task.id})
        self.world.put(self.live.tools.db, self.saved()[1], wanted)
        if user is not None:
            self.live.user_tools.db = copy.deepcopy(user)
        self.differences, self.messages = wanted, [*messages]

    def _score(self) -> float:
        from tau2.evaluator.evaluator_env import EnvironmentEvaluator

        world = self.world
        make = lambda solo_mode=False: world.environment(solo_mode)  # noqa: E731
        try:
            return float(EnvironmentEvaluator.calculate_reward(make, self.task, self.messages, self.solo).reward)
        except ValueError:  # an assertion about something that does not exist
            return 0.0
