"""An experiment: arms x tasks x samples in one folder, with the episodes that are finished already.

An arm is an agent under an interface, or without. `evaluate` and the cells of a grid and a study play variants of an
interface as arms, an ablation the interface without some rules, refinement its rounds, a collection its one arm. Not
here: refinement rounds (`refinement.py`), grids (`grid.py`), and printing (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

from align_echo.agents.players import about, describe_agent
from align_echo.base.progress import SILENT, Progress
from align_echo.evaluate.comparison import VariantComparison, compare
from align_echo.evaluate.folder import Config, EvaluationDir, PartSetting
from align_echo.evaluate.plan import (
    EvaluationPlan,
    Models,
    build_plan_agent,
    evaluation_config,
    model_loader,
    sampling_warnings,
)
from align_echo.evaluate.tables import NAMES
from align_echo.interface.contract import Interface
from align_echo.models.spending import Spending, open_spending
from align_echo.rollout.faults import FirstReplies
from align_echo.rollout.session import Episode, try_reset
from align_echo.types import Agent, Trajectory
from align_echo.workers.ray_cluster import play_tasks


class Experiment:
    """A plan, its agent and its folder. Nothing is written before `begin`."""

    def __init__(
        self,
        plan: EvaluationPlan,
        path: Path,
        *,
        resume: bool = False,
        progress: Progress = SILENT,
        agent: Agent | None = None,
        spending: Spending | None = None,
    ) -> None:
        """`agent` is the plan's, if it is built already; `spending` that of a larger run, of which this is a part.

        Raises `UsageError` if the agent cannot be built.
        """
        self.plan = plan
        self.path = path
        self.progress = progress
        self._spending = spending
        self.agent = agent or build_plan_agent(plan, self.models)
        self._resume = resume
        self._dir: EvaluationDir | None = None
        self._first_replies = FirstReplies(progress.say)

    @cached_property
    def models(self) -> Models:
        """Return the loader of the plan's chat models."""
        return model_loader(self.plan, self.path, self.spending)

    @cached_property
    def spending(self) -> Spending:
        """Return what the run has spent, shown with its progress."""
        spending = self._spending or open_spending(self.plan.limits, self.plan.models, self.path)
        self.progress.watch(spending)
        return spending

    @property
    def config(self) -> Config:
        """Return the content of `config.json`."""
        return evaluation_config(self.plan, self.agent)

    @property
    def line(self) -> str:
        """Return the line about the agent."""
        return about(self.plan.player, describe_agent(self.agent))

    @property
    def folder(self) -> EvaluationDir:
        """Return the folder of a begun experiment."""
        assert self._dir is not None, "begin first"
        return self._dir

    def check(self) -> None:
        """Refuse a folder of something else. Raises `UsageError`."""
        EvaluationDir(self.path, self.config, resume=self._resume).check()

    def begin(self, config: Config | None = None, *, warn: bool = True) -> Self:
        """Check the folder and the environment, create and lock the folder, and report who plays.

        `config` are further entries of `config.json`. Raises `UsageError` and `EngineError` before anything is written.
        """
        plan = self.plan
        run_dir = EvaluationDir(self.path, {**self.config, **(config or {})}, resume=self._resume)
        run_dir.check()
        try_reset(plan.spec, plan.task_ids[0], split=plan.split, data_root=plan.data_root)
        self._dir = run_dir.begin()
        for line in (self.line, *(sampling_warnings(plan, self.agent) if warn else ())):
            self.progress.say(line)
        return self

    def begin_quietly(self) -> EvaluationDir:
        """Begin an experiment whose environment was tried and whose agent was reported before. Returns its folder."""
        self._dir = EvaluationDir(self.path, self.config, resume=self._resume).begin()
        return self._dir

    def reseeded(self, seed: int) -> Experiment:
        """Return this begun experiment with another seed, in the same folder."""
        if seed == self.plan.seed:
            return self
        plan = replace(self.plan, seed=seed)
        experiment = Experiment(
            plan, self.path, resume=self._resume, progress=self.progress, spending=self.spending
        )
        experiment._dir, experiment._first_replies = self.folder, self._first_replies
        self.progress.say(experiment.line)
        return experiment

    def play(
        self,
        arm: str,
        interface: Interface | None,
        episodes: Sequence[Episode],
        *,
        title: str,
        agent: Agent | None = None,
    ) -> Sequence[Trajectory]:
        """Play the missing episodes of an arm, writing and reporting each as it ends. `agent` replaces the plan's.

        Returns all of them in order; they are read on access. Raises `AgentError`, `EngineError` and `ModelError` for
        repeated faults.
        """
        plan, player, progress = self.plan, agent or self.agent, self.progress
        spec, split, data_root = plan.spec, plan.split, plan.data_root
        setting = PartSetting(spec.contract.environment, split, player.name, plan.seed, interface)
        if cut := self.folder.cut_line("trajectories", arm):
            progress.say(cut)
        played = self.folder.part(arm, episodes, setting)
        progress.stage(title, len(episodes), len(played))

        def ended(trajectory: Trajectory) -> None:
            played.add(trajectory)
            progress.episode(None if trajectory.fault else trajectory.won)
            if trajectory.fault is not None:
                progress.broke(trajectory.task_id, trajectory.fault)

        play_tasks(
            plan.workers,
            lambda: spec.make(split, interface=interface, data_root=data_root),
            player,
            played.missing,
            split=split,
            action_format=spec.action_format,
            seed=plan.seed,
            on_trajectory=ended,
            say=progress.say,
            first_replies=self._first_replies,
        )
        return played

    def play_variants(self) -> dict[str, Sequence[Trajectory]]:
        """Play every variant of the plan, and return all episodes by variant."""
        return {
            name: self.play(name, interface, self.plan.episodes, title=f"interface: {NAMES[name]}")
            for name, interface in self.plan.variants.items()
        }


def play(
    plan: EvaluationPlan,
    path: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    spending: Spending | None = None,
) -> VariantComparison:
    """Play every variant of a plan on its tasks and compare them; finished episodes in the folder are reused.
    `spending` is as in `Experiment`.

    Raises `UsageError` for an unplayable plan and for a folder of something else, before anything is written;
    `AgentError`, `EngineError` and `ModelError` for repeated faults.
    """
    experiment = Experiment(plan, path, resume=resume, progress=progress, spending=spending).begin()
    with experiment.folder as folder:
        trajectories = experiment.play_variants()
        progress.status("replaying the actions in the plain environment")
        comparison = compare(plan.spec, trajectories, seed=plan.seed, data_root=plan.data_root)
        if spending is None:
            comparison = comparison.model_copy(update={"at_endpoints": experiment.spending.by_role})
        folder.finish(comparison)
    return comparison
