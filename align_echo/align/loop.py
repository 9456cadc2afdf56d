"""ALIGN's Algorithm 1: play, analyse failures, rewrite the interface; repeat up to K times.

The loop stops when no episode fails, when failures show nothing new, or after K iterations. It returns the last
interface unless an earlier version scored clearly better. A failed analysis or check raises an error; a resumed run
continues there. M holds all misalignments, with or without rules. The Analyzer sees only those with rules, so it may
report the others again.

Each step is saved to the run folder when it finishes. A resumed run reads finished iterations, episodes and analyses
back and sends no request twice. The backend decides how to find misalignments and how to write the interface.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import gymnasium as gym

from align_echo.agents.players import describe_agent
from align_echo.align.budget import Budget, BudgetSpentError
from align_echo.align.run_folder import (
    Event,
    EventKind,
    IterationOutcome,
    IterationRecord,
    OnEvent,
    RunConfig,
    RunFolder,
    RunSummary,
    Stopped,
    ending,
    episode_event,
    given_up_line,
    iteration_line,
)
from align_echo.interface.contract import Interface, RuleCoverage, check_source, identity
from align_echo.interface.hints import count_hints, merged
from align_echo.intervals import Estimate, wilson
from align_echo.models.spending import SpentError
from align_echo.registry import quantity
from align_echo.rollout import batches
from align_echo.rollout.faults import (
    ERRORS,
    FIRST_EPISODES,
    FirstReplies,
    fault_text,
    faults_by_source,
    summarize_conduct,
    tell,
)
from align_echo.rollout.session import base_env
from align_echo.types import Agent, Described, Misalignment, Trajectory, Usage
from align_echo.version import versions
from align_echo.workers.ray_cluster import ONE_THREAD, Workers, play_tasks
from align_echo.wrappers.environment import EnvironmentSpec

# ---------------------------------------------------------------- training tasks


@dataclass(frozen=True)
class TrainingSplit:
    """Training split of an environment. `data_root=None` uses the environment's default location."""

    spec: EnvironmentSpec
    data_root: Path | None = None

    @property
    def split(self) -> str:
        """Name of the training split."""
        return self.spec.train_split

    @property
    def games(self) -> str:
        """Name of the game collection. Raises `MissingDataError`."""
        return self.spec.games(self.data_root)

    def env(self, interface: Interface | None = None) -> gym.Env[str, str]:
        """Create an environment, wrapped if `interface` is given. Raises `MissingDataError` or `InterfaceError`."""
        return self.spec.make(self.split, interface=interface, data_root=self.data_root)

    def tasks(self, iteration: int, seed: int, limit: int | None = None) -> list[str]:
        """Return ALIGN's training tasks of an iteration; at most `limit`, spread evenly over task types."""
        tasks = self.spec.training_tasks(data_root=self.data_root, iteration=iteration, seed=seed)
        return tasks if limit is None else spread(tasks, limit, self.spec.task_type)

    def gold(self, task_id: str) -> list[tuple[str, str]]:
        """Return the expert's actions with the raw observations, in order; empty if no expert solves the task."""
        if not self.spec.has_expert(task_id):
            return []
        env = self.env()
        try:
            env.reset(seed=0, options={"task": task_id})
            played: list[tuple[str, str]] = []
            over = False
            while not over and (action := base_env(env).oracle().expert_action()) is not None:
                observation, _, terminated, truncated, _ = env.step(action)
                played.append((action, observation))
                over = terminated or truncated
            return played if base_env(env).state.won else []
        finally:
            env.close()


def spread(tasks: Sequence[str], limit: int, type_of: Callable[[str], str]) -> list[str]:
    """Take at most `limit` tasks, alternating between types and preserving order within each type."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_type[type_of(task)].append(task)
    turns = sorted((turn, task) for queue in by_type.values() for turn, task in enumerate(queue))
    chosen = {task for _, task in turns[:limit]}
    return [task for task in tasks if task in chosen]


# ---------------------------------------------------------------- choose the interface that was played best


def best_iteration(records: Sequence[IterationRecord]) -> int:
    """Return the iteration that made the best version; 0 for the initial interface."""
    if not records:
        return 0
    made_in = {records[0].version_before: 0}
    made_in |= {record.version_after: record.iteration for record in records if record.outcome == "written"}
    last, shares = records[-1].version_after, compute_failure_shares(records)
    if last not in shares:
        return made_in[last]
    best = min(shares, key=lambda version: (shares[version].value, version != last))
    return made_in[best if shares[best].high < shares[last].low else last]  # the intervals do not overlap


def compute_failure_shares(records: Sequence[IterationRecord]) -> dict[str, Estimate]:
    """Compute the percentage of lost episodes for each played version; `n` counts its episodes."""
    failed: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for record in records:
        failed[record.version_before] += record.failed
        played[record.version_before] += record.tasks - record.faults
    return {version: wilson(failed[version], count) for version, count in played.items() if count}


# ---------------------------------------------------------------- algorithm 1 of ALIGN

ITERATIONS = 8
"""Number of iterations, K in the paper."""


class GenerationResult(NamedTuple):
    """Result of a generation run."""

    interface: Interface
    summary: RunSummary


def generate(
    spec: EnvironmentSpec,
    agent: Agent,
    backend: Backend,
    folder: RunFolder,
    *,
    seed: int = 0,
    iterations: int = ITERATIONS,
    tasks_per_iteration: int | None = None,
    data_root: Path | None = None,
    player: str = "",
    workers: Workers = ONE_THREAD,
    resume: bool = False,
    on_event: OnEvent | None = None,
    budget: Budget | None = None,
) -> GenerationResult:
    """Generate an interface for `agent`, starting from the identity interface.

    `tasks_per_iteration=None` uses the paper's number for the environment. `player` is the name the user gave the agent
    (default: its class); a resumed run must use the same name. Pass models through `folder.record(model, role)` so that
    a resumed run reuses their replies. `budget` is the backend's own: once it is spent, no episode begins, and the run
    ends with the interface so far.

    Raises `UsageError` before writing anything, and if the agent's first replies hold no action (`FirstReplies`).
    Raises `ModelError` or `EngineError` when a model or the engine keeps failing; the run can then be resumed.
    """
    world = TrainingSplit(spec, data_root)
    folder.start(
        RunConfig(
            environment=spec.name,
            split=world.split,
            data_root=str(data_root or ""),
            games=world.games,
            agent=agent.name,
            player=player or f"{type(agent).__module__}:{type(agent).__qualname__}",
            agent_details=describe_agent(agent),
            backend=backend.name,
            backend_details=backend.describe(),
            seed=seed,
            iterations=iterations,
            tasks_per_iteration=tasks_per_iteration,
            turns=spec.turns,
            declared=dict(spec.declared),
            versions=versions(),
        ),
        resume=resume,
        on_event=on_event,
    )
    run = _Run(world, agent, backend, folder, seed, iterations, tasks_per_iteration, workers, budget or Budget())
    try:
        return run.run()
    finally:
        folder.release()


@dataclass
class _Run:
    """State of a run: the current interface and all misalignments so far."""

    world: TrainingSplit
    agent: Agent
    backend: Backend
    folder: RunFolder
    seed: int
    iterations: int
    limit: int | None
    workers: Workers
    budget: Budget
    interface: Interface = field(init=False)
    misalignments: list[Misalignment] = field(default_factory=list)
    addressed: list[Misalignment] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    records: list[IterationRecord] = field(default_factory=list)

    def run(self) -> GenerationResult:
        self.interface = identity(self.world.spec.contract)
        made_of = f"{self.world.spec.name}: {self.agent.name}, {self.backend.name} backend, seed {self.seed}"
        self._say("run-started", made_of, total=self.iterations)
        for iteration in range(1, self.iterations + 1):
            try:
                record = self._restore(iteration) or self._iterate(iteration)
            except (BudgetSpentError, SpentError):
                self._say("note", "the budget is spent: no further episode", iteration)
                break
            self.records.append(record)
            if record.budget.ended_by:
                self.budget.adopt(record.budget)
                break
            if record.outcome in ("no-failures", "no-misalignments"):
                break
        self._take_best()
        if not self._has_changed():
            self._stamp_identity()
        summary = self._summary()
        rules = f"{summary.rules} rules in {summary.interface}"
        self.folder.finish(summary, self.interface)
        path = str(self.folder.path / summary.interface_file)
        end = f"finished ({summary.stopped}): {ending(summary)}; {rules}"
        self._say("run-finished", end, len(self.records), path=path)
        return GenerationResult(self.interface, summary)

    # ------------------------------------------------------------ one iteration

    def _iterate(self, iteration: int) -> IterationRecord:
        self.folder.begin_iteration(iteration)
        tasks = self.world.tasks(iteration, self.seed, self.limit)
        before = self.interface
        trajectories = self._play(iteration, tasks)
        failed = batches.failed(trajectories)
        misalignments = self._analyze(iteration, trajectories) if failed else []
        outcome: IterationOutcome = "no-failures" if not failed else "no-misalignments"
        addressed = len(self.addressed)
        if misalignments:
            outcome = self._optimize(iteration, tasks, misalignments)
        if outcome != "written":
            self._remember(trajectories)
        record = IterationRecord(
            iteration=iteration,
            outcome=outcome,
            tasks=len(tasks),
            failed=len(failed),
            faults=sum(trajectory.fault is not None for trajectory in trajectories),
            faults_by_source=faults_by_source(trajectories),
            misalignments=len(misalignments),
            addressed=len(self.addressed) - addressed,
            coverage=RuleCoverage.of(self.interface.provenance.rules),
            interface_before=before.label,
            interface_after=self.interface.label,
            source_before=before.content_hash,
            source_after=self.interface.content_hash,
            budget=self.budget.record,
        )
        self.folder.finish_iteration(record)
        self._say("iteration-finished", iteration_line(record), iteration)
        return record

    def _restore(self, iteration: int) -> IterationRecord | None:
        """Load a finished iteration."""
        record = self.folder.finished_iteration(iteration)
        if record is None:
            return None
        if self.budget.limits.allow_more_than(record.budget):
            self.folder.forget_analysis(iteration)
            return None
        misalignments = self.folder.misalignments(iteration) or []
        if record.outcome == "written":
            self.interface = self.folder.interface(iteration)
            self.tasks += self.world.tasks(iteration, self.seed, self.limit)
        else:
            self._remember(list(self.folder.trajectories(iteration).read(Trajectory)))
        self._keep(misalignments, written=record.outcome == "written")
        return record

    def _play(self, iteration: int, tasks: Sequence[str]) -> list[Trajectory]:
        """Play an iteration's tasks and return the episodes in task order; read finished episodes back."""
        file = self.folder.trajectories(iteration)
        by_task = {trajectory.task_id: trajectory for trajectory in file.read(Trajectory) if trajectory.fault is None}
        missing = [task for task in tasks if task not in by_task]
        done = len(tasks) - len(missing)
        start = f"iteration {iteration}: {quantity(len(tasks), 'task')} under {self.interface.label}"
        self._say("iteration-started", start, iteration, done=done, total=len(tasks))
        if missing:
            self.budget.check()

        def ended(trajectory: Trajectory) -> None:
            nonlocal done
            done += 1
            by_task[trajectory.task_id] = trajectory
            file.append(trajectory)
            self.folder.emit(episode_event(trajectory, iteration, done, len(tasks)))
            if done < len(tasks):
                self.budget.check()

        world, interface, first = self.world, self.interface, iteration == 1 and not by_task
        play_tasks(
            self.workers,
            lambda: world.env(interface),
            self.agent,
            missing,
            split=self.world.split,
            action_format=self.world.spec.action_format,
            seed=self.seed,
            on_trajectory=ended,
            say=lambda line: self._say("note", line, iteration),
            first_replies=FirstReplies(stop_after=min(FIRST_EPISODES, len(tasks))) if first else None,
        )
        trajectories = [by_task[task] for task in tasks]
        _stop_if_all_broke(trajectories, iteration)
        for line in tell({self.interface.label: summarize_conduct(trajectories)}):
            self._say("note", line, iteration)
        return trajectories

    def _analyze(self, iteration: int, played: Sequence[Trajectory]) -> list[Misalignment]:
        misalignments = self.folder.misalignments(iteration)
        if misalignments is None:
            misalignments = self.backend.analyze(played, tuple(self.addressed), self.interface)
            self.folder.save_misalignments(iteration, misalignments)
        failed = quantity(len(batches.failed(played)), "failed episode")
        message = f"{quantity(len(misalignments), 'new misalignment')} found in {failed}"
        if self.budget.cut and not misalignments:
            message = f"no result about {failed}: the budget was spent before"
        self._say("misalignments", message, iteration, total=len(misalignments))
        return misalignments

    def _optimize(
        self, iteration: int, tasks: Sequence[str], misalignments: Sequence[Misalignment]
    ) -> IterationOutcome:
        """Adopt the backend's new interface. Raises `InterfaceError` if it could not be loaded again."""
        candidate = self.backend.optimize(misalignments, self.interface)
        check_source(candidate.source, candidate.contract)
        if candidate.content_hash == self.interface.content_hash:
            self._keep(misalignments, written=False)
            return "unchanged"
        self.tasks += tasks
        self.interface = self._add_provenance(candidate, iteration)
        self._keep(misalignments, written=True)
        path = self.folder.save_interface(iteration, self.interface)
        self._say("interface", f"new interface {self.interface.label}", iteration, path=str(path))
        return "written"

    def _keep(self, misalignments: Sequence[Misalignment], *, written: bool) -> None:
        """Add new misalignments, and mark those with rules when a new interface was written."""
        claims = {misalignment.claim for misalignment in self.misalignments}
        self.misalignments += [misalignment for misalignment in misalignments if misalignment.claim not in claims]
        if written:
            unresolved = self.interface.provenance.unresolved
            done = {misalignment.claim for misalignment in self.addressed}
            self.addressed += [
                misalignment
                for misalignment in misalignments
                if misalignment.text not in unresolved and misalignment.claim not in done
            ]

    def _remember(self, trajectories: Sequence[Trajectory]) -> None:
        """Add the outcomes of hints to the interface's record, for the next iteration and the saved file.

        Another source starts with an empty record.
        """
        complete = [trajectory for trajectory in trajectories if trajectory.fault is None]
        record = merged(self.interface.record, count_hints(complete))
        self.interface = self.interface.model_copy(update={"record": record})

    def _add_provenance(self, candidate: Interface, iteration: int) -> Interface:
        """Add provenance known to the loop; the backend has set the rules and engine steps."""
        described = {**describe_agent(self.agent), **self.backend.describe()}
        provenance = candidate.provenance.model_copy(
            update={
                "environment": self.world.spec.name,
                "action_format": self.world.spec.action_format,
                "backend": self.backend.name,
                "agent": self.agent.name,
                "models": _part(described, "model."),
                "prompt_hashes": _part(described, "prompt."),
                "seed": self.seed,
                "iterations": iteration,
                "training_tasks": tuple(dict.fromkeys((*self.tasks, *candidate.provenance.training_tasks))),
                "usage": self._spent(),
                "versions": {**versions(), "games": self.world.games},
                "content_hash": candidate.content_hash,
            }
        )
        record = candidate.record if candidate.content_hash == self.interface.content_hash else ()
        return candidate.model_copy(update={"provenance": provenance, "record": record})

    def _has_changed(self) -> bool:
        """Check if the final interface differs from the initial interface."""
        return self.interface.content_hash != identity(self.world.spec.contract).content_hash

    def _take_best(self) -> None:
        """Return to an earlier version and its rules if it scored clearly better than the last."""
        best = best_iteration(self.records)
        written = [record for record in self.records if record.outcome == "written"]
        if not written or best == written[-1].iteration:
            return
        last, shares = self.interface, compute_failure_shares(self.records)
        self.interface = self.folder.interface(best) if best else identity(self.world.spec.contract)
        self.addressed = self.addressed[: sum(record.addressed for record in written if record.iteration <= best)]
        lost, best_share = (shares[each.content_hash] for each in (last, self.interface))
        self.folder.note(given_up_line(last.label, lost, self.interface.label, best_share))

    def _stamp_identity(self) -> None:
        """Record the agent, backend and tasks of an unchanged identity interface."""
        for record in self.records:
            self.tasks += self.world.tasks(record.iteration, self.seed, self.limit)
        self.interface = self._add_provenance(self.interface, len(self.records))

    # ------------------------------------------------------------ the end

    def _summary(self) -> RunSummary:
        last = self.records[-1].outcome if self.records else "unchanged"
        spent = self.budget.record
        stopped: Stopped = last if last in ("no-failures", "no-misalignments") else "iteration-limit"
        if spent.ended_by:
            stopped = "budget"
        return RunSummary(
            environment=self.world.spec.name,
            backend=self.backend.name,
            agent=self.agent.name,
            seed=self.seed,
            stopped=stopped,
            iterations=tuple(self.records),
            misalignments=len(self.misalignments),
            addressed=len(self.addressed),
            coverage=RuleCoverage.of(self.interface.provenance.rules),
            rules=len(self.interface.provenance.rules),
            interface=self.interface.label,
            interface_file="interface.py",
            written=self._has_changed(),
            roles=self.folder.roles(),
            usage=self._spent(),
            budget=spent,
        )

    def _spent(self) -> Usage:
        return sum((role.usage for role in self.folder.roles().values()), Usage())

    def _say(
        self, kind: EventKind, message: str, iteration: int = 0, *, done: int = 0, total: int = 0, path: str = ""
    ) -> None:
        event = Event(kind=kind, message=message, iteration=iteration, done=done, total=total, path=path)
        self.folder.emit(event)


def _part(described: dict[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in described.items() if key.startswith(prefix)}


def _stop_if_all_broke(trajectories: Sequence[Trajectory], iteration: int) -> None:
    """Raise an error if no episode of the iteration could be played."""
    faults = [trajectory.fault for trajectory in trajectories if trajectory.fault is not None]
    if faults and len(faults) == len(trajectories):
        first = faults[0]
        broke = f"every episode of iteration {iteration} broke; the first: {fault_text(first)}"
        raise ERRORS[first.source](f"{broke}; put this right")


class Backend(Described, Protocol):
    """What a run needs of its backend: find misalignments, and write the next interface.

    A backend keeps no state between calls except in the arguments (a misalignment's `detail`, the interface's source),
    because a resumed run may call `optimize` without `analyze`. Without a result, calls return an empty list or the
    interface unchanged. Failures raise `ModelError` or `EngineError`; the run ends and can be resumed.
    """

    @property
    def name(self) -> str: ...

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find and verify new misalignments in lost episodes (`rollout.batches.failed`), excluding `known`.

        `played` holds all episodes of the iteration, at least one of them lost; the won ones show working actions.
        """
        ...

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface for `new`; return `interface` itself if impossible.

        Texts of unresolved misalignments go into `unresolved` of its provenance.
        """
        ...
