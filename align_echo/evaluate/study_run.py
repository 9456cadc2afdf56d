"""Play a study: generate interfaces, play evaluations, and reuse all finished parts.

    config.json                            the settings; a resumed study must have the same
    interfaces/<environment>/<agent>/      a run of `generate-interface`, if interfaces are generated
    evaluations/<environment>/<agent>/     an evaluation, with the halves of the interface if requested
    transfer/, unverified/                 evaluations of other interfaces, on the same episodes without one
    summary.json, study.md                 a `StudySummary`, and its tables; written last

With several seeds, `seed-<n>/` comes before the environment. Not here: planning (`study.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from align_echo.agents.players import about, describe_agent
from align_echo.align.generation import generate_interface
from align_echo.align.run_folder import RunFolder
from align_echo.evaluate.cast import build_plan_agent, evaluation_config, model_loader
from align_echo.evaluate.comparison import BASELINE, VariantComparison
from align_echo.evaluate.folder import PlayedPart, check_folder, open_folder
from align_echo.evaluate.grid import GridSummary, build_cell, build_grid
from align_echo.evaluate.grid_run import play_comparison
from align_echo.evaluate.plan import EvaluationPlan
from align_echo.evaluate.study import StudyPlan, StudySummary, part_title
from align_echo.evaluate.study_file import in_keys
from align_echo.evaluate.study_tables import write_markdown
from align_echo.files import write_atomically
from align_echo.interface import Interface, load_interface
from align_echo.jsonl import JsonlFile
from align_echo.progress import SILENT, Progress
from align_echo.runs import CONFIG, SUMMARY
from align_echo.session import Episode, try_reset
from align_echo.types import Agent, Trajectory, Usage

TABLES = "study.md"

Comparisons = Mapping[str, VariantComparison | None]
"""Results of evaluations, by folder; None if no episode had a score."""


@in_keys()
def play_study(plan: StudyPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT) -> StudySummary:
    """Generate and play all unfinished parts of a study, and write its summary and tables.

    Raises as `playing.play` and `generate_interface`; invalid settings are refused before anything is written.
    """
    check_folder(path, plan.config, resume=resume)
    agents = {
        folder: build_plan_agent(evaluation, model_loader(evaluation, path / folder))
        for folder, evaluation in plan.evaluations.items()
    }
    openings = {evaluation.spec.name: evaluation for evaluation in plan.evaluations.values()}
    for evaluation in openings.values():
        try_reset(evaluation.spec, evaluation.task_ids[0], split=evaluation.split, data_root=None)
    lock = open_folder(path, plan.config, resume=resume)
    learned = {folder: _generate(plan, folder, path, progress) for folder in plan.generations}
    evaluations = {folder: _with_interface(plan, folder, learned) for folder in plan.evaluations}
    comparisons: dict[str, VariantComparison | None] = {}
    for number, (folder, evaluation) in enumerate(evaluations.items(), start=1):
        progress.say(f"evaluation {number} of {len(evaluations)}: {folder}")
        comparisons[folder] = _play(plan, folder, evaluation, agents[folder], path, progress)
    study = _summarise(plan, evaluations, agents, comparisons, learned, path)
    write_atomically(path / TABLES, write_markdown(study))
    write_atomically(path / SUMMARY, study.model_dump_json(indent=2) + "\n")
    lock.close()
    return study


def _generate(plan: StudyPlan, folder: str, path: Path, progress: Progress) -> Interface:
    """Generate an interface in the study's folder, resuming an unfinished run."""
    run, generation = path / folder, plan.generations[folder]
    if RunFolder(run).summary() is None:
        progress.say(f"learning: {folder}")
        generate_interface(generation, run, resume=(run / CONFIG).exists(), progress=progress)
    name = folder.partition("/")[2]
    return load_interface(run / "interface.py").model_copy(update={"name": name})


def _with_interface(plan: StudyPlan, folder: str, learned: Mapping[str, Interface]) -> EvaluationPlan:
    """Add the variants of its generated interface to an evaluation."""
    evaluation = plan.evaluations[folder]
    if folder not in plan.interfaces:
        return evaluation
    return replace(evaluation, variants=plan.variants_in(folder, learned[plan.interfaces[folder]]))


def _play(
    plan: StudyPlan, folder: str, evaluation: EvaluationPlan, agent: Agent, path: Path, progress: Progress
) -> VariantComparison | None:
    """Play the unfinished part of an evaluation, reading shared episodes without an interface."""
    run_folder = path / folder
    if (run_folder / CONFIG).exists():
        check_folder(run_folder, evaluation_config(evaluation, agent), resume=True)
    if folder not in plan.baselines:
        return play_comparison(evaluation, agent, run_folder, progress)
    file = JsonlFile(path / plan.baselines[folder] / "trajectories" / f"{BASELINE}.jsonl")
    starts = {Episode(trajectory.task_id): start for start, trajectory in file.entries(Trajectory)}
    shared = PlayedPart(file, [Episode(task) for task in evaluation.task_ids], starts)
    return play_comparison(evaluation, agent, run_folder, progress, baseline=shared)


# ---------------------------------------------------------------- the summary


def _summarise(
    plan: StudyPlan,
    evaluations: Mapping[str, EvaluationPlan],
    agents: Mapping[str, Agent],
    comparisons: Comparisons,
    learned: Mapping[str, Interface],
    path: Path,
) -> StudySummary:
    summaries = {folder: RunFolder(path / folder).summary() for folder in plan.generations}
    spent = [summary.usage for summary in summaries.values() if summary is not None]
    empty = {folder for folder, summary in summaries.items() if summary is not None and not summary.written}
    faults = 0
    for folder, evaluation in evaluations.items():
        comparison = comparisons[folder]
        results = comparison.variants if comparison else {}
        spent += [result.usage for name, result in results.items() if name in evaluation.variants]
        missing = len(evaluation.task_ids)
        faults += sum(results[name].faults if name in results else missing for name in evaluation.variants)
    who_played = [about(played.player, describe_agent(agents[folder])) for folder, played in evaluations.items()]
    return StudySummary(
        name=plan.name,
        interface=plan.file.interface,
        seeds=plan.file.all_seeds,
        tasks=plan.file.tasks,
        parts={part: _grid(plan, part, evaluations, comparisons) for part in plan.parts},
        learned={folder: interface.label for folder, interface in learned.items()},
        unchanged=tuple(folder for folder in learned if folder in empty),
        played_by=tuple(dict.fromkeys(who_played)),
        faults=faults,
        usage=sum(spent, Usage()),
    )


def _grid(
    plan: StudyPlan, part: str, evaluations: Mapping[str, EvaluationPlan], comparisons: Comparisons
) -> GridSummary:
    """Build the grid of a part."""
    cells = []
    for folder, variant in plan.parts[part].items():
        evaluation = evaluations[folder]
        labels = {name: interface.label if interface else BASELINE for name, interface in evaluation.variants.items()}
        cells.append(
            build_cell(
                evaluation.spec,
                comparisons[folder],
                {BASELINE: BASELINE, **labels},
                agent=plan.labels[folder],
                tasks=len(evaluation.task_ids),
                folder=folder,
                variant=variant,
            )
        )
    played = [evaluations[folder] for folder in plan.parts[part]]
    models = {evaluation.player.model.on_record for evaluation in played if evaluation.player.model}
    return build_grid(
        cells,
        model=" and ".join(sorted(models)) or None,
        interface=part_title(plan.file, part),
        seed=played[0].seed,
        tasks=max(len(evaluation.task_ids) for evaluation in played),
    )
