"""Play a plan into a folder: every variant on the same tasks, and their comparison.

Not here: refinement rounds (`rounds.py`), grids (`grid.py`), and printing (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from align_echo.agents.players import about, describe_agent
from align_echo.evaluate.comparison import VariantComparison, compare, run_variant
from align_echo.evaluate.folder import EvaluationFolder, PartSetting, check_folder
from align_echo.evaluate.plan import (
    EvaluationPlan,
    build_plan_agent,
    evaluation_config,
    model_loader,
    sampling_warnings,
)
from align_echo.evaluate.tables import NAMES
from align_echo.interface import Interface
from align_echo.progress import SILENT, Progress
from align_echo.session import Episode, try_reset
from align_echo.types import Agent, Trajectory


def play(plan: EvaluationPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT) -> VariantComparison:
    """Play every variant of a plan on its tasks and compare them; finished episodes in the folder are reused.

    Raises `UsageError` for an unplayable plan and for a folder of something else, before anything is written;
    `AgentError`, `EngineError` and `ModelError` for repeated faults.
    """
    player = build_plan_agent(plan, model_loader(plan, path))
    config = evaluation_config(plan, player)
    check_folder(path, config, resume=resume)
    try_reset(plan.spec, plan.task_ids[0], split=plan.split, data_root=plan.data_root)
    folder = EvaluationFolder(path, config, resume=resume)
    for line in (about(plan.player, describe_agent(player)), *sampling_warnings(plan, player)):
        progress.say(line)
    trajectories = play_variants(plan, player, folder, progress)
    progress.status("replaying the actions in the plain environment")
    comparison = compare(plan.spec, trajectories, seed=plan.seed, data_root=plan.data_root)
    folder.finish(comparison)
    return comparison


def play_variants(
    plan: EvaluationPlan, agent: Agent, folder: EvaluationFolder, progress: Progress
) -> dict[str, Sequence[Trajectory]]:
    """Play every unfinished variant of the plan, and return all episodes by variant."""
    return {
        name: play_part(
            plan,
            agent,
            interface,
            plan.episodes,
            part=name,
            title=f"interface: {NAMES[name]}",
            folder=folder,
            progress=progress,
        )
        for name, interface in plan.variants.items()
    }


def play_part(
    plan: EvaluationPlan,
    player: Agent,
    interface: Interface | None,
    episodes: Sequence[Episode],
    *,
    part: str,
    title: str,
    folder: EvaluationFolder,
    progress: Progress,
) -> Sequence[Trajectory]:
    """Play the missing episodes of a part, writing and reporting each as it ends.

    Returns all of them in order; they are read on access.
    """
    setting = PartSetting(plan.spec.contract.environment, plan.split, player.name, plan.seed, interface)
    if cut := folder.cut_line("trajectories", part):
        progress.say(cut)
    played = folder.part(part, episodes, setting)
    progress.stage(title, len(episodes), len(played))

    def ended(trajectory: Trajectory) -> None:
        played.add(trajectory)
        progress.episode(trajectory.won)
        if trajectory.fault is not None:
            progress.broke(trajectory.task_id, trajectory.fault)

    run_variant(
        plan.spec,
        player,
        interface,
        played.missing,
        split=plan.split,
        seed=plan.seed,
        workers=plan.workers,
        data_root=plan.data_root,
        on_trajectory=ended,
        progress=progress,
    )
    return played
