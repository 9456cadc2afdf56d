"""The one folder of a generation run: everything needed to understand it, to resume it, and to use what it made.

    config.json                  what was asked for (`RunConfig`)
    events.jsonl                 what happened, with times (`Event`)
    calls.jsonl, cache/          every prompt and reply (`models/recording.py`); the replies by request
    iterations/<i>/trajectories.jsonl, misalignments.json, interface.py, interface.json
    iterations/<i>/iteration.json    written last: the iteration is finished (`IterationRecord`)
    interface.py, interface.json     the final interface
    summary.json                 written last: the run is finished (`RunSummary`)

Nothing is created before `start`, so a run that is refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from align_echo.errors import UsageError
from align_echo.files import read_bytes, write_atomically
from align_echo.interface import Interface, load_interface, save_interface
from align_echo.intervals import Percent, Score, ScoreChange
from align_echo.jsonl import JsonlFile
from align_echo.models.cache import ReplyCache, find_price
from align_echo.models.recording import CallLog, RecordingModel
from align_echo.run_dir import CONFIG, RunDir, finished_nothing, flat
from align_echo.types import ChatModel, Fault, Frozen, Misalignment, Usage, source_in

# ---------------------------------------------------------------- events

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
    """One event. `message` is a whole sentence for people; `done` of `total` counts within the iteration.

    "trajectory": `done` of `total` episodes are over, `task_id`, `won` (None: it broke) and `fault`
    are of this one.
    "misalignments": `total` new ones. "interface": `path` of the file written. "note": something worth knowing.
    `time` is when the event was logged (ISO 8601, UTC); empty for one that is not in `events.jsonl`.
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

LEFT_BY_A_FALSE_START = ("config.json", "events.jsonl", "calls.jsonl", "cache", "iterations")
"""What a run may leave behind before it has finished anything."""

IterationOutcome = Literal["written", "unchanged", "no-failures", "no-misalignments"]
Stopped = Literal["no-failures", "no-misalignments", "iteration-limit"]
Stored = TypeVar("Stored", bound=BaseModel)


class RunConfig(Frozen):
    """What was asked for. A run is resumed only with the same (`versions` are for the record).

    `player` is what the agent was named by, or its class; `agent` is what it calls itself, as others may, too.
    `declared` is what a user declares of the environment.
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
    declared: dict[str, JsonValue] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)


class IterationRecord(Frozen):
    """One iteration: `failed` are the episodes the agent lost, `faults` those that broke and were left out, by
    their source in `faults_by_source`.

    "written": the backend wrote another interface. "unchanged": misalignments were found, and it kept the old one.
    `addressed` counts the misalignments of this iteration for which rules were written and stood their experiments, and
    for which there were none before. `source_before` and `source_after` tell versions apart, the labels are to be read.
    """

    iteration: int
    outcome: IterationOutcome
    tasks: int
    failed: int
    faults: int
    faults_by_source: dict[str, int] = Field(default_factory=dict)
    misalignments: int = 0
    addressed: int = 0
    interface_before: str
    interface_after: str
    source_before: str = ""
    source_after: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_older_runs(cls, given: Any) -> Any:
        return _renamed(given)

    @property
    def version_before(self) -> str:
        """What tells the interface that was played from other versions."""
        return self.source_before or source_in(self.interface_before) or self.interface_before

    @property
    def version_after(self) -> str:
        """The same of the interface that the iteration ended with."""
        return self.source_after or source_in(self.interface_after) or self.interface_after


def _renamed(given: Any) -> Any:
    """A record of an older run in today's words: rules that were written were called resolved, an interface that was
    written improved."""
    if not isinstance(given, dict):
        return given
    words = {OLD_WORDS.get(key, key): value for key, value in given.items()}
    return words | ({"outcome": "written"} if words.get("outcome") == "improved" else {})


OLD_WORDS = {"resolved": "addressed", "improved": "written"}


class InPlay(Frozen):
    """What an interface changed in play: the same tasks without it ("none"), with its placebo and with it ("full").

    Percent won and scores in [0, 1] by variant. `over_none` and `over_placebo` are the score with it minus the other's,
    paired by task. `better` and `worse` count the tasks whose score was higher or lower with it than without it. Of the
    `tasks`, `known` were used to make it. `works` is False if it failed too often for the figures to be its own.
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


class RoleUsage(Frozen):
    """What one role of a run asked its model: distinct requests, and what they cost."""

    model: str
    requests: int = 0
    usage: Usage = Usage()
    price_known: bool


class RunSummary(Frozen):
    """The result of a run. `interface_file` is relative to the run folder; `rules` counts those of the interface.

    `misalignments` are all that were found, `addressed` those of them for which the interface has rules that stood
    their experiments; `written` is whether the interface is another than the run began with. Whether an agent gained
    by it, `in_play` tells, which is None where that was not played.
    """

    environment: str
    backend: str
    agent: str
    seed: int
    stopped: Stopped
    iterations: tuple[IterationRecord, ...]
    misalignments: int
    addressed: int = 0
    rules: int
    interface: str
    interface_file: str
    written: bool
    in_play: InPlay | None = None
    roles: dict[str, RoleUsage]
    usage: Usage

    @model_validator(mode="before")
    @classmethod
    def _of_older_runs(cls, given: Any) -> Any:
        return _renamed(given)


class RunFolder:
    """Reads and writes a run's folder. Call `start` before anything else is written."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._events = JsonlFile(self.path / "events.jsonl")
        self._calls = CallLog(self.path / "calls.jsonl")
        self._cache = ReplyCache(self.path / "cache")
        self._moved: dict[str, tuple[str, str]] = {}
        self._on_event: OnEvent | None = None
        self._stage = 0
        self._run: RunDir | None = None

    # ------------------------------------------------------------ beginning and end

    def check(self, *, resume: bool) -> None:
        """Refuse a folder that holds something or that another process works in, or with `resume` one that holds no
        run. Raises `UsageError`.

        A run in which nothing was finished (no episode, no reply, no iteration) is nothing to lose: it is begun anew.
        """
        RunDir(self.path, resume=resume, has_output=_has_output).check()

    def start(self, config: RunConfig, *, resume: bool, on_event: OnEvent | None = None) -> None:
        """Create the folder, or check that the run in it is the one asked for; no other process may work in it until
        `release`. Raises `UsageError` naming the first setting that differs. Endpoints may have moved: the same models
        go on at their new address, with a note.
        """
        self.check(resume=resume)
        settings = config.model_dump(mode="json")
        self._run = RunDir(
            self.path, settings, resume=resume, left=LEFT_BY_A_FALSE_START, has_output=_has_output, compared=_compared
        ).begin()
        self._moved = _moved(self._load(RunConfig, CONFIG), config)
        self._on_event = on_event
        for old, new in sorted(set(self._moved.values())):
            self.note(f"the models were asked at {old} and are asked at {new} from here on; earlier replies are kept")

    def finish(self, summary: RunSummary, interface: Interface) -> None:
        """Write the final interface and, last of all, the summary."""
        save_interface(interface, self.path, "interface")
        self._save(summary, "summary.json")

    def add_play(self, summary: RunSummary, in_play: InPlay) -> RunSummary:
        """Write into the summary what the interface changed in play."""
        summary = summary.model_copy(update={"in_play": in_play})
        self._save(summary, "summary.json")
        return summary

    def release(self) -> None:
        """Let other processes in."""
        if self._run is not None:
            self._run.close()

    def summary(self) -> RunSummary | None:
        """The summary of a finished run."""
        return self._load(RunSummary, "summary.json") if (self.path / "summary.json").exists() else None

    # ------------------------------------------------------------ while it runs

    def record(self, model: ChatModel, role: str) -> RecordingModel:
        """The model with this run's memory and log, in a role: "agent", "analyzer", "optimizer"."""
        return RecordingModel(
            model,
            role=role,
            cache=self._cache,
            log=self._calls,
            stage=lambda: self._stage,
            known_as=lambda identity: self._first_known_as(role, identity),
        )

    def emit(self, event: Event) -> None:
        """Log an event and show it to whoever watches."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._events.append(event.model_copy(update={"time": now}))
        if self._on_event is not None:
            self._on_event(event)

    def note(self, message: str) -> None:
        """Log something worth knowing."""
        self.emit(Event(kind="note", message=message))

    def roles(self) -> dict[str, RoleUsage]:
        """What each role asked and cost: a request counts once, however often its reply was used."""
        roles: dict[str, RoleUsage] = {}
        seen: set[tuple[str, str]] = set()
        for call in self._calls.read():
            if call.reply is None or (call.role, call.request) in seen:
                continue
            seen.add((call.role, call.request))
            old = roles.get(call.role) or RoleUsage(model=call.model, price_known=find_price(call.model) is not None)
            update = {"requests": old.requests + 1, "usage": old.usage + call.usage}
            roles[call.role] = old.model_copy(update=update)
        return roles

    # ------------------------------------------------------------ iterations

    def begin_iteration(self, iteration: int) -> None:
        """From here on models with a temperature draw anew, also for requests of earlier iterations."""
        self._stage = iteration

    def trajectories(self, iteration: int) -> JsonlFile:
        """The episodes of an iteration, as they end."""
        return JsonlFile(self._iteration(iteration) / "trajectories.jsonl")

    def save_misalignments(self, iteration: int, misalignments: Sequence[Misalignment]) -> None:
        """Write what the analysis of an iteration found."""
        text = _MISALIGNMENTS.dump_json(list(misalignments), indent=2).decode()
        folder = self._iteration(iteration)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "misalignments.json", text + "\n")

    def misalignments(self, iteration: int) -> list[Misalignment] | None:
        """What the analysis of an iteration found; None if it was not finished."""
        file = self._iteration(iteration) / "misalignments.json"
        if not file.exists():
            return None
        try:
            return _MISALIGNMENTS.validate_json(read_bytes(file))
        except ValidationError as error:
            raise UsageError(f"{file} is damaged: delete it and resume; {error.errors()[0]['msg']}") from error

    def save_interface(self, iteration: int, interface: Interface) -> Path:
        """Write the interface that an iteration made."""
        return save_interface(interface, self._iteration(iteration), "interface")

    def finish_iteration(self, record: IterationRecord) -> None:
        """Mark an iteration as finished."""
        self._save(record, f"iterations/{record.iteration}/iteration.json")

    def finished_iteration(self, iteration: int) -> IterationRecord | None:
        """The record of a finished iteration."""
        name = f"iterations/{iteration}/iteration.json"
        return self._load(IterationRecord, name) if (self.path / name).exists() else None

    def interface(self, iteration: int) -> Interface:
        """The interface that a finished iteration made."""
        record = self.finished_iteration(iteration)
        name = record.interface_after.rpartition("@")[0] if record else "interface"
        return load_interface(self._iteration(iteration) / "interface.py").model_copy(update={"name": name})

    # ------------------------------------------------------------ inside

    def _first_known_as(self, role: str, identity: str) -> str:
        """A model's identity at the endpoint where the run began."""
        old, new = self._moved.get(role, ("", ""))
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
        except (OSError, ValidationError) as error:
            raise UsageError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error


_MISALIGNMENTS = TypeAdapter(list[Misalignment])


def _moved(stored: RunConfig, wanted: RunConfig) -> dict[str, tuple[str, str]]:
    """By role of a model: where it was asked and where it is asked now, if that differs."""
    old, new = _flat(stored), _flat(wanted)
    keys = [key for key in old if ".base_url." in key and old[key] and new.get(key) and old[key] != new[key]]
    return {key.rpartition(".base_url.")[2]: (str(old[key]), str(new[key])) for key in keys}


def _flat(config: RunConfig) -> dict[str, object]:
    return flat(config.model_dump(exclude={"versions"}))


def _compared(key: str) -> bool:
    """Whether a run is resumed only with the same of a setting: not an endpoint's address."""
    return ".base_url." not in key and not key.startswith("versions.")


def _has_output(path: Path) -> bool:
    """Return False for a folder of a generation without any finished episode, reply or iteration."""
    try:
        RunConfig.model_validate_json(read_bytes(path / CONFIG))
    except (OSError, ValidationError):
        return True
    return not finished_nothing(path, LEFT_BY_A_FALSE_START, "iterations/*/trajectories.jsonl")
