"""Folder of a generation run, with everything needed to understand it, resume it and use its interface.

    config.json                  settings (`RunConfig`)
    events.jsonl                 log of events, with times (`Event`)
    under_way.jsonl              requests without an answer yet (`models/spending.py`)
    calls.jsonl, cache/          every prompt and reply (`models/recording.py`); replies by request
    iterations/<i>/trajectories.jsonl, misalignments.json, interface.py, interface.json
    iterations/<i>/iteration.json    written last: the iteration is finished (`IterationRecord`)
    interface.py, interface.json     the final interface
    summary.json                 written last: the run is finished (`RunSummary`)

Nothing is created before `start`, so a refused run leaves no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from align_echo.align.budget import BudgetLimits, BudgetRecord
from align_echo.base.files import read_bytes, write_atomically
from align_echo.base.jsonl import JsonlFile
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import UsageError, unreadable
from align_echo.interface.contract import Interface, RuleCoverage, load_interface, save_interface
from align_echo.intervals import Estimate, Percent, Score, ScoreChange
from align_echo.models.cache import ReplyCache
from align_echo.models.recording import CallLog, RecordingModel, TokenMeter
from align_echo.models.spending import UNDER_WAY
from align_echo.registry import quantity
from align_echo.rollout.faults import fault_text
from align_echo.run_dir import CONFIG, RunDir, finished_nothing, flat
from align_echo.types import ChatModel, Fault, Frozen, Misalignment, Trajectory, Usage, source_in

# ---------------------------------------------------------------- events of a run

EventKind = Literal[
    "run-started",
    "iteration-started",
    "trajectory",
    "misalignments",
    "interface",
    "iteration-finished",
    "run-finished",
    "note",
]


class Event(Frozen):
    """Event of a run. `message` is a sentence for people; `done` of `total` counts within the iteration.

    "trajectory": `done` of `total` episodes are over; `task_id`, `won` (None: it broke) and `fault` belong to this
    episode. "misalignments": `total` new ones. "interface": `path` of the file written. "note": a remark. `time` is the
    time of logging (ISO 8601, UTC); empty outside `events.jsonl`.
    """

    kind: EventKind
    message: str
    iteration: int = 0
    done: int = 0
    total: int = 0
    task_id: str = ""
    won: bool | None = None
    path: str = ""
    fault: Fault | None = None
    time: str = ""


OnEvent = Callable[[Event], None]


# ---------------------------------------------------------------- the one folder of a generation run

LEFT_BY_A_FALSE_START = ("config.json", "events.jsonl", "calls.jsonl", UNDER_WAY, "cache", "iterations")
"""Files a run may leave behind before finishing anything."""

IterationOutcome = Literal["written", "unchanged", "no-failures", "no-misalignments"]
Stopped = Literal["no-failures", "no-misalignments", "iteration-limit", "budget"]
Stored = TypeVar("Stored", bound=BaseModel)


class RunConfig(Frozen):
    """Settings of a run. Resuming requires equal settings, except `versions`.

    `player` is the user's name for the agent, or its class; `agent` is its own name, which others may share. `declared`
    holds the user's declarations about the environment.
    """

    environment: str
    split: str
    data_root: str = ""
    games: str = ""
    agent: str
    player: str = ""
    agent_details: dict[str, str] = Field(default_factory=dict)
    backend: str
    backend_details: dict[str, str] = Field(default_factory=dict)
    seed: int
    iterations: int
    tasks_per_iteration: int | None = None
    turns: int | None = None
    declared: dict[str, JsonValue] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)


class _Upgraded(Frozen):
    """Record that may be one of an older run, with old names: `resolved` for `addressed`, `improved` for `written`."""

    @model_validator(mode="before")
    @classmethod
    def _rename_old_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        words = {OLD_WORDS.get(key, key): value for key, value in data.items()}
        return words | ({"outcome": "written"} if words.get("outcome") == "improved" else {})


OLD_WORDS = {"resolved": "addressed", "improved": "written"}


class IterationRecord(_Upgraded):
    """Result of an iteration: `failed` counts lost episodes, `faults` broken and excluded ones, with sources in
    `faults_by_source`.

    "written": the backend wrote a new interface. "unchanged": misalignments were found, but the interface stayed.
    `addressed` counts misalignments that got their first rules and passed experiments in this iteration; `coverage`
    counts the experiments behind all rules after it. `source_before` and `source_after` identify versions; the labels
    are for display. `budget` holds what the run had spent at the end of the analysis; where it was spent, a larger one
    analyses the iteration's episodes again.
    """

    iteration: int
    outcome: IterationOutcome
    tasks: int
    failed: int
    faults: int
    faults_by_source: dict[str, int] = Field(default_factory=dict)
    misalignments: int = 0
    addressed: int = 0
    coverage: RuleCoverage | None = None
    interface_before: str
    interface_after: str
    source_before: str = ""
    source_after: str = ""
    budget: BudgetRecord = BudgetRecord()

    @property
    def version_before(self) -> str:
        """Identifier of the version that was played."""
        return self.source_before or source_in(self.interface_before) or self.interface_before

    @property
    def version_after(self) -> str:
        """Identifier of the version at the end of the iteration."""
        return self.source_after or source_in(self.interface_after) or self.interface_after


class InPlay(Frozen):
    """Effect of an interface in play, on the same tasks without it ("none"), with its placebo, and with it ("full").

    `won` (percent) and `score` (in [0, 1]) by variant. `over_none` and `over_placebo` are score differences to "full",
    paired by task. `better` and `worse` count tasks with a higher or lower score than without the interface. `known` of
    the `tasks` were used to generate it. `works` is False if the interface failed too often for reliable figures.
    `spoken` of the `turns` with it got words from it, in `spoken_episodes` episodes; of the `refusals`,
    `spoken_refusals` did, None where the environment declares no test of refusals.
    """

    split: str
    tasks: int
    known: int = 0
    episodes: int
    faults: int = 0
    won: dict[str, Percent]
    score: dict[str, Score]
    over_none: ScoreChange
    over_placebo: ScoreChange
    better: int
    worse: int
    works: bool = True
    turns: int = 0
    spoken: int = 0
    spoken_episodes: int = 0
    refusals: int | None = None
    spoken_refusals: int | None = None


class RoleUsage(Frozen):
    """Model usage of a role: distinct requests and their cost."""

    model: str
    requests: int = 0
    usage: Usage = Usage()
    price_known: bool


class RunSummary(_Upgraded):
    """Result of a run. `interface_file` is relative to the run folder; `rules` counts the interface's rules.

    `misalignments` counts all findings and `addressed` those with rules that passed experiments; `coverage` counts the
    experiments behind the rules. `written` is True if the interface differs from the initial one. `in_play` holds its
    effect on an agent; None if not played. `budget` is what the run spent of its limits, and the limit that ended it.
    """

    environment: str
    backend: str
    agent: str
    seed: int
    stopped: Stopped
    iterations: tuple[IterationRecord, ...]
    misalignments: int
    addressed: int = 0
    coverage: RuleCoverage | None = None
    rules: int
    interface: str
    interface_file: str
    written: bool
    in_play: InPlay | None = None
    roles: dict[str, RoleUsage]
    usage: Usage
    budget: BudgetRecord = BudgetRecord()


# ---------------------------------------------------------------- what a run of ALIGN says of itself


def ending(summary: RunSummary) -> str:
    """Describe in one line why a run ended and what it produced."""
    if summary.stopped == "budget":
        count = f"{quantity(summary.misalignments, 'misalignment')} found, rules written for {summary.addressed}"
        if not summary.misalignments:
            count = "no result: nothing was found out before"
        return f"{summary.budget.in_words}; {count}"
    last = summary.iterations[-1]
    failed, played = quantity(last.failed, "episode"), quantity(last.tasks, "episode")
    why = {
        "no-failures": "every training task of the last iteration was won",
        "no-misalignments": f"in the {failed} that failed last, the {summary.backend} backend found no "
        "new misalignment of the kinds that it looks for, which is no proof that there is none",
        "iteration-limit": f"the iterations are used up; {last.failed} of {played} of the last one failed",
    }[summary.stopped]
    broke = f" ({_broken(last.faults)})" if last.faults else ""
    rules = f"rules written for {summary.addressed}{_coverage(summary)}"
    return f"{why}{broke}; {quantity(summary.misalignments, 'misalignment')} found, {rules}"


def iteration_line(record: IterationRecord) -> str:
    """Describe an iteration's result in one line."""
    misalignments = quantity(record.misalignments, "misalignment")
    words = {
        "written": f"rules were written for {record.addressed} of {misalignments}{_coverage(record)}",
        "unchanged": f"no rule was written for {misalignments}; the old interface is kept",
        "no-failures": "no episode failed",
        "no-misalignments": "no new misalignment was found",
    }
    if record.budget.ended_by:
        words["no-misalignments"] = "no result: the budget was spent before"
    played = f"{record.failed} of {quantity(record.tasks, 'episode')} failed"
    broke = f", {_broken(record.faults)}" if record.faults else ""
    return f"iteration {record.iteration}: {played}{broke}; {words[record.outcome]}"


def _coverage(counted: RunSummary | IterationRecord) -> str:
    """Describe the experiments behind the rules; "" without rules, and for a record of an older version."""
    coverage = counted.coverage
    return f" ({coverage.in_words})" if coverage and coverage.rules else ""


def given_up_line(label: str, share: Estimate, better: str, better_share: Estimate) -> str:
    """Explain why a run ends with an earlier version, with both shares."""
    return f"{label} lost {_lost(share)}, and {better} {_lost(better_share)}, which is clearly less: that one is kept"


def _broken(faults: int) -> str:
    return f"{faults} broke and {'was' if faults == 1 else 'were'} left out"


def _lost(share: Estimate) -> str:
    return f"{round(share.value * share.n / 100)} of {quantity(share.n, 'episode')}"


def episode_event(trajectory: Trajectory, iteration: int, done: int, total: int) -> Event:
    """Build the event for a finished episode."""
    won: bool | None = trajectory.won
    outcome = "won" if trajectory.won else "not won"
    if trajectory.fault is not None:
        won = None
        outcome = f"broke and is left out ({fault_text(trajectory.fault)})"
    return Event(
        kind="trajectory",
        message=f"{trajectory.task_id}: {outcome} after {quantity(len(trajectory.steps), 'action')}",
        iteration=iteration,
        done=done,
        total=total,
        task_id=trajectory.task_id,
        won=won,
        fault=trajectory.fault,
    )


# ---------------------------------------------------------------- the folder

_EPISODES = ("trajectories/*.jsonl", "iterations/*/trajectories.jsonl")


def read_episodes(folder: Path) -> Iterator[Trajectory]:
    """Read all episodes of a folder of `evaluate` or `generate-interface`. Raises `UsageError` if it is not there."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: name the folder of a run")
    for pattern in _EPISODES:
        for file in sorted(folder.glob(pattern)):
            yield from JsonlFile(file).read(Trajectory)


class RunFolder:
    """Reader and writer of a run folder. Call `start` before writing anything else."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._events = JsonlFile(self.path / "events.jsonl")
        self._calls = CallLog(self.path / "calls.jsonl")
        self._cache = ReplyCache(self.path / "cache")
        self._changed_endpoints: dict[str, tuple[str, str]] = {}
        self._on_event: OnEvent | None = None
        self._stage = 0
        self._run: RunDir | None = None

    # ------------------------------------------------------------ beginning and end

    def check(self, *, resume: bool) -> None:
        """Check that the folder can be used. Raises `UsageError` if it is in use, not empty, or (with `resume`) holds
        no run.

        A run that finished nothing (no episode, reply or iteration) is restarted from scratch.
        """
        RunDir(self.path, resume=resume, has_output=_has_output).check()

    def start(self, config: RunConfig, *, resume: bool, on_event: OnEvent | None = None) -> None:
        """Create or resume the run folder and lock it until `release`.

        Raises `UsageError` naming the first setting that differs. A model's endpoint may have changed; this is noted.
        """
        self.check(resume=resume)
        settings = config.model_dump(mode="json")
        self._run = RunDir(
            self.path, settings, resume=resume, left=LEFT_BY_A_FALSE_START, has_output=_has_output, compared=_must_match
        ).begin()
        self._changed_endpoints = _changed_endpoints(self._load(RunConfig, CONFIG), config)
        self._on_event = on_event
        for old, new in sorted(set(self._changed_endpoints.values())):
            self.note(f"the models were asked at {old} and are asked at {new} from here on; earlier replies are kept")

    def finish(self, summary: RunSummary, interface: Interface) -> None:
        """Write the final interface, then the summary."""
        save_interface(interface, self.path, "interface")
        self._save(summary, "summary.json")

    def save_unfinished(self, interface: Interface) -> None:
        """Write the interface so far, which the end of the run replaces."""
        save_interface(interface, self.path, "interface")
        self.note(f"what was found so far is in {self.path / 'interface.py'}; --resume --out {self.path} goes on")

    def add_play(self, summary: RunSummary, in_play: InPlay) -> RunSummary:
        """Add the interface's effect in play to the summary."""
        summary = summary.model_copy(update={"in_play": in_play})
        self._save(summary, "summary.json")
        return summary

    def release(self) -> None:
        """Release the lock."""
        if self._run is not None:
            self._run.close()

    def summary(self) -> RunSummary | None:
        """Load the summary; None for an unfinished run."""
        return self._load(RunSummary, "summary.json") if (self.path / "summary.json").exists() else None

    # ------------------------------------------------------------ while it runs

    def record(self, model: ChatModel, role: str, meter: TokenMeter | None = None) -> RecordingModel:
        """Wrap a model with the run's cache and log, for a role: "agent", "analyzer" or "optimizer"."""
        return RecordingModel(
            model,
            role=role,
            cache=self._cache,
            log=self._calls,
            stage=lambda: self._stage,
            known_as=lambda identity: self._original_identity(role, identity),
            meter=meter,
        )

    def emit(self, event: Event) -> None:
        """Log an event and pass it to the listener."""
        timestamp = datetime.now(UTC).isoformat(timespec="seconds")
        self._events.append(event.model_copy(update={"time": timestamp}))
        if self._on_event is not None:
            self._on_event(event)

    def note(self, message: str) -> None:
        """Log a remark."""
        self.emit(Event(kind="note", message=message))

    def roles(self) -> dict[str, RoleUsage]:
        """Count requests and cost by role; repeated requests count once."""
        roles: dict[str, RoleUsage] = {}
        seen: set[tuple[str, str]] = set()
        for call in self._calls.read():
            if call.reply is None or (call.role, call.request) in seen:
                continue
            seen.add((call.role, call.request))
            old = roles.get(call.role) or RoleUsage(model=call.model, price_known=call.usage.cost_usd is not None)
            update = {"requests": old.requests + 1, "usage": old.usage + call.usage}
            roles[call.role] = old.model_copy(update=update)
        return roles

    # ------------------------------------------------------------ iterations

    def begin_iteration(self, iteration: int) -> None:
        """Start an iteration: models with a temperature draw new replies, even for repeated requests."""
        self._stage = iteration

    def trajectories(self, iteration: int) -> JsonlFile:
        """Open the file of an iteration's episodes."""
        return JsonlFile(self._iteration(iteration) / "trajectories.jsonl")

    def save_misalignments(self, iteration: int, misalignments: Sequence[Misalignment]) -> None:
        """Write the findings of an iteration's analysis."""
        text = _MISALIGNMENTS.dump_json(list(misalignments), indent=2).decode()
        folder = self._iteration(iteration)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "misalignments.json", text + "\n")

    def misalignments(self, iteration: int) -> list[Misalignment] | None:
        """Load the findings of an iteration's analysis; None if unfinished."""
        file = self._iteration(iteration) / "misalignments.json"
        if not file.exists():
            return None
        try:
            return _MISALIGNMENTS.validate_json(read_bytes(file))
        except ValidationError as error:
            raise UsageError(f"{file} is damaged: delete it and resume; {first_wrong(error)}") from error

    def forget_analysis(self, iteration: int) -> None:
        """Drop an iteration's analysis and its end; its episodes stay."""
        for name in ("iteration.json", "misalignments.json"):
            (self._iteration(iteration) / name).unlink(missing_ok=True)

    def spent(self, limits: BudgetLimits) -> BudgetRecord:
        """Return what the run has spent by its last finished iteration, and the tokens of all its replies.

        An iteration that is analysed again under larger limits does not count.
        """
        records: list[IterationRecord] = []
        while (record := self.finished_iteration(len(records) + 1)) is not None:
            if limits.allow_more_than(record.budget):
                break
            records.append(record)
        used = [role.usage for role in self.roles().values()]
        tokens = sum((usage.prompt_tokens or 0) + (usage.completion_tokens or 0) for usage in used)
        last = records[-1].budget if records else BudgetRecord()
        return last.model_copy(update={"tokens": tokens, "ended_by": ""})

    def save_interface(self, iteration: int, interface: Interface) -> Path:
        """Write an iteration's interface."""
        return save_interface(interface, self._iteration(iteration), "interface")

    def finish_iteration(self, record: IterationRecord) -> None:
        """Mark an iteration as finished."""
        self._save(record, f"iterations/{record.iteration}/iteration.json")

    def finished_iteration(self, iteration: int) -> IterationRecord | None:
        """Load a finished iteration's record; None if unfinished."""
        name = f"iterations/{iteration}/iteration.json"
        return self._load(IterationRecord, name) if (self.path / name).exists() else None

    def interface(self, iteration: int) -> Interface:
        """Load a finished iteration's interface."""
        record = self.finished_iteration(iteration)
        name = record.interface_after.rpartition("@")[0] if record else "interface"
        return load_interface(self._iteration(iteration) / "interface.py").model_copy(update={"name": name})

    # ------------------------------------------------------------ inside

    def _original_identity(self, role: str, identity: str) -> str:
        """Return the model's identity with the endpoint used at the start of the run."""
        old, new = self._changed_endpoints.get(role, ("", ""))
        return old + identity.removeprefix(new) if new and identity.startswith(new) else identity

    def _iteration(self, iteration: int) -> Path:
        return self.path / "iterations" / str(iteration)

    def _save(self, record: BaseModel, name: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, record.model_dump_json(indent=2) + "\n")

    def _load(self, kind: type[Stored], name: str) -> Stored:
        file = self.path / name
        try:
            return kind.model_validate_json(read_bytes(file))
        except OSError as error:
            raise UsageError(unreadable(file, error)) from error
        except ValidationError as error:
            raise UsageError(f"{file} is damaged: {first_wrong(error)}") from error


_MISALIGNMENTS = TypeAdapter(list[Misalignment])


def _changed_endpoints(stored: RunConfig, wanted: RunConfig) -> dict[str, tuple[str, str]]:
    """Map each role to its old and new endpoint, if they differ."""
    old, new = _flat(stored), _flat(wanted)
    keys = [key for key in old if ".base_url." in key and old[key] and new.get(key) and old[key] != new[key]]
    return {key.rpartition(".base_url.")[2]: (str(old[key]), str(new[key])) for key in keys}


def _flat(config: RunConfig) -> dict[str, object]:
    return flat(config.model_dump(exclude={"versions"}))


def _must_match(key: str) -> bool:
    """Check if a setting must match on resume; endpoint addresses and versions need not."""
    return ".base_url." not in key and not key.startswith("versions.")


def _has_output(path: Path) -> bool:
    """Return False for a folder of a generation without any finished episode, reply or iteration."""
    try:
        RunConfig.model_validate_json(read_bytes(path / CONFIG))
    except (OSError, ValidationError):
        return True
    return not finished_nothing(path, LEFT_BY_A_FALSE_START, "iterations/*/trajectories.jsonl")
