"""Plan, play and print a study: environments x agents, without an interface, with its placebo and with it, as in the
papers' tables.

`plan_study` resolves all names of a file. A study has parts, each with the cells of a grid:

    main                    every agent with the shipped interface, or with an interface generated for it
    rules, feedback         ablations: one half of the interface alone
    verification            an ablation: interfaces generated without experiments
    transfer A > B          interfaces generated for A, played by B

Not here: means over seeds, each of which has its own tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field
from rich.table import Table

from align_echo.agents.players import (
    AgentChoice,
    about,
    choose_agent,
    choose_preset,
    choose_turns,
    describe_agent,
    model_on_record,
    workers_for,
)
from align_echo.align.generation import GenerationConfig, GenerationPlan, generate_interface, plan_generation
from align_echo.align.run_folder import RunFolder
from align_echo.base.files import write_atomically
from align_echo.base.jsonl import JsonlFile
from align_echo.base.plain_yaml import in_yaml
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import InterfaceError, UsageError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, VariantComparison, build_variants
from align_echo.evaluate.folder import Config, EvaluationDir, PlayedPart
from align_echo.evaluate.grid import (
    CAPTION,
    HEADINGS,
    OVER_PLACEBO,
    WITH,
    GridCell,
    GridSummary,
    build_cell,
    build_grid,
    cell_lines,
    faults_line,
    grid_table,
    open_experiment,
    pick_test_tasks,
    play_comparison,
    refusals_lines,
)
from align_echo.evaluate.plan import EvaluationPlan, build_plan_agent, model_loader
from align_echo.evaluate.study_file import (
    GENERATE,
    VERIFICATION,
    AgentEntry,
    StudyFile,
    agent_label,
    as_written,
    in_keys,
    read_study,
    refuse_contradictions,
)
from align_echo.evaluate.tables import WORTH
from align_echo.interface.contract import Interface, load_interface
from align_echo.models.choosing import ModelName
from align_echo.models.local.chat_template import OWN_FORMAT, ChatFormat
from align_echo.models.reply_tokens import find_reply_tokens, read_reply_tokens
from align_echo.models.spending import (
    NO_LIMITS,
    OPTIONS,
    RoleSpending,
    Spending,
    SpendingLimits,
    check_limits,
    open_spending,
)
from align_echo.rollout.faults import InterfaceConduct
from align_echo.rollout.session import Episode, try_reset
from align_echo.run_dir import CONFIG, interface_fingerprints
from align_echo.types import Agent, Frozen, Trajectory, Usage
from align_echo.version import __version__
from align_echo.workers.ray_cluster import ThreadWorkers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

MAIN = "main"
HALVES = ("rules", "feedback")
"""Ablations with one half of the interface, named by that half."""


class StudySummary(Frozen):
    """Results of a study. `parts` are grids by name; `learned` has the label of each generated interface by its folder,
    `unchanged` the folders without any rule; `faults` counts each broken episode once. `at_endpoints` is as in
    `VariantComparison`.
    """

    name: str
    interface: str
    seeds: tuple[int, ...]
    tasks: int
    parts: dict[str, GridSummary]
    learned: dict[str, str]
    unchanged: tuple[str, ...] = ()
    played_by: tuple[str, ...]
    faults: int
    usage: Usage
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)


@dataclass(frozen=True)
class StudyPlan:
    """A study with all settings checked. Folders are relative to the study's.

    `evaluations` have no variants if the interface is generated first; `variants_in` adds them. `interfaces` maps the
    folder of an evaluation to the folder of its generated interface, `baselines` to the evaluation whose episodes
    without an interface it shares. `parts` has, by name, the variant of each evaluation.
    """

    name: str
    file: StudyFile
    evaluations: dict[str, EvaluationPlan]
    labels: dict[str, str]
    generations: dict[str, GenerationPlan]
    interfaces: dict[str, str]
    baselines: dict[str, str]
    parts: dict[str, dict[str, str]]

    @property
    def models(self) -> list[ModelName]:
        """Return the names of all models in use."""
        playing = [evaluation.player.model for evaluation in self.evaluations.values() if evaluation.player.model]
        return [*playing, *(name for generation in self.generations.values() for name in generation.models)]

    @property
    def config(self) -> Config:
        """Return the content of the study's `config.json`; its folders have their own."""
        usual = {"retract"} if self.file.retract else set()
        asked = self.file.model_dump(mode="json", exclude={"base_url", "workers", *usual})
        models = {
            self.labels[folder]: model_on_record(plan.player.model)["model"]
            for folder, plan in self.evaluations.items()
        }
        played = {
            evaluation.spec.name: next(variant for variant in evaluation.variants.values() if variant)
            for evaluation in self.evaluations.values()
            if any(evaluation.variants.values())
        }
        interfaces = {name: interface.content_hash for name, interface in played.items()}
        contents = {"interfaces": interfaces, "interface_contents": interface_fingerprints(played)}
        return {"command": "study", "align_echo": __version__, **asked, "models": models, **contents}

    def variants_in(self, folder: str, interface: Interface) -> dict[str, Interface | None]:
        """Build the variants of an interface for an evaluation."""
        wanted = {PLACEBO} if self.file.placebo else set()
        wanted |= {variants[folder] for variants in self.parts.values() if folder in variants}
        wanted |= set() if folder in self.baselines else {BASELINE}
        played = interface.model_copy(update={"retract": self.file.retract})
        return {name: variant for name, variant in build_variants(played).items() if name in wanted}


@in_keys()
def plan_study(source: str | Path | StudyFile) -> StudyPlan:
    """Plan a study from a shipped name, a YAML file or a checked `StudyFile`, with all names resolved and settings
    checked.

    Raises `UsageError`, `InterfaceError` and `MissingDataError` in one line.
    """
    if isinstance(source, StudyFile):
        file, name = source, "study"
        refuse_contradictions(file, name)
    else:
        file, name = read_study(source), Path(source).stem
    specs = [environment(name_or_class) for name_or_class in file.environments]
    _refuse_twice("environments", [spec.name for spec in specs])
    _refuse_one_folder("environments", [spec.name for spec in specs])
    players = _players(file, specs)
    _refuse_idle_settings(file, players.values())
    plan = StudyPlan(name, file, {}, {}, {}, {}, {}, {})
    for seed in file.all_seeds:
        _add_main(plan, specs, players, seed)
    for seed in file.all_seeds:
        _add_others(plan, specs, players, seed)
    return plan


def _players(file: StudyFile, specs: Iterable[EnvironmentSpec]) -> dict[str, AgentChoice]:
    """Choose the agents by label. Raises `UsageError` for a model without use, and for a repeated agent."""
    names = [spec.name for spec in specs]
    chat = ChatFormat("", file.template_args or "", file.reasoning_effort or "", file.extra_body or "")
    if chat.options and not any(model for _, model in file.agents):
        raise UsageError(f"no agent of this study names a model: leave {chat.options} out")
    chosen = {
        (agent, model): choose_agent(agent, model, names, file.base_url, chat if model else OWN_FORMAT)
        for agent, model in file.agents
    }
    _refuse_one_folder("agents", map(agent_label, chosen))
    earlier: dict[tuple[str | None, ...], AgentEntry] = {}
    for entry, player in chosen.items():
        model = player.model
        if entry[1] is not None and model is None:
            raise UsageError(f"agents: {entry[0]} asks no model: leave {entry[1]} out")
        identity = (player.agent.name, *((model.kind, str(model.place)) if model else ()))
        first = earlier.setdefault(identity, entry)
        if first != entry:
            both = f"{in_yaml(as_written(first))} and {in_yaml(as_written(entry))}"
            raise UsageError(f"agents: {both} are one player: name each once")
    return {agent_label(entry): player for entry, player in chosen.items()}


def _refuse_idle_settings(file: StudyFile, players: Iterable[AgentChoice]) -> None:
    """Raise `UsageError` for unused model settings. Settings of generation are checked when it is planned."""
    playing = [player.model for player in players if player.model]
    writers = bool(file.analyzer_model or file.optimizer_model)
    if file.temperature is not None and not playing:
        raise UsageError("no agent of this study asks a model: leave temperature out")
    if file.agent_preset is not None and not playing:
        raise UsageError("no agent of this study asks a model: leave agent_preset out")
    if file.max_tokens is not None and not (playing or writers):
        raise UsageError("no model is asked in this study: leave max_tokens out")
    if file.base_url is not None and not (writers or any(model.endpoint for model in playing)):
        raise UsageError("no model is asked at an endpoint in this study: leave base_url out")


def part_title(file: StudyFile, part: str) -> str:
    """Describe the interface in the title of a part's table."""
    kind = part.partition(", seed ")[0]
    own = "that each agent learned" if file.interface == GENERATE else file.interface
    titles = {
        MAIN: own,
        "rules": f"{own}, its rules alone (without WrapStep)",
        "feedback": f"{own}, its feedback alone (without InferRules)",
        VERIFICATION: f"{own} without verification",
    }
    learner = kind.removeprefix("transfer ").partition(" > ")[0]
    return titles.get(kind, f"that {learner} learned") + part.removeprefix(kind)


# ---------------------------------------------------------------- the parts


def _add_main(plan: StudyPlan, specs: list[EnvironmentSpec], players: Mapping[str, AgentChoice], seed: int) -> None:
    """Add each agent in each environment with its own interface, and the halves of it."""
    halves = [half for half in HALVES if half in plan.file.ablations]
    for spec in specs:
        shipped = None if plan.file.interface == GENERATE else _shipped(plan.file, spec)
        for label, player in players.items():
            below = _subfolder(plan.file, spec, label, seed)
            folder = f"evaluations/{below}"
            for part, variant in [(MAIN, WITH), *((half, half) for half in halves)]:
                plan.parts.setdefault(_part_name(plan.file, part, seed), {})[folder] = variant
            plan.labels[folder] = label
            if shipped is None:
                plan.interfaces[folder] = f"interfaces/{below}"
                plan.generations[f"interfaces/{below}"] = _generation(plan.file, spec, player, seed)
            plan.evaluations[folder] = _evaluation(plan, folder, spec, player, seed, shipped)


def _shipped(file: StudyFile, spec: EnvironmentSpec) -> Interface:
    """Load the file's interface for an environment. Raises `UsageError` and `InterfaceError`."""
    try:
        shipped = spec.interface(file.interface)
    except InterfaceError as error:
        raise InterfaceError(f"interface: {error}") from error
    if shipped is None:
        raise UsageError("a study plays without and with an interface: name one, e.g. interface: probe")
    return shipped


def _add_others(plan: StudyPlan, specs: list[EnvironmentSpec], players: Mapping[str, AgentChoice], seed: int) -> None:
    """Add interfaces of other agents, and those generated without experiments."""
    for spec in specs:
        for label, player in players.items():
            own = _subfolder(plan.file, spec, label, seed)
            if VERIFICATION in plan.file.ablations:
                learned_in = f"interfaces/unverified/{own}"
                plan.generations[learned_in] = _generation(plan.file, spec, player, seed, verify=False)
                _add_guest(plan, VERIFICATION, f"unverified/{own}", learned_in, own)
            for learner_entry, player_entry in plan.file.transfer:
                learner = agent_label(learner_entry)
                if agent_label(player_entry) == label:
                    folder = f"transfer/{_subfolder(plan.file, spec, f'{learner}-to-{label}', seed)}"
                    learned_in = f"interfaces/{_subfolder(plan.file, spec, learner, seed)}"
                    _add_guest(plan, f"transfer {learner} > {label}", folder, learned_in, own)


def _add_guest(plan: StudyPlan, part: str, folder: str, learned_in: str, own: str) -> None:
    """Add an evaluation of an interface generated for another agent; `own` is the agent's own evaluation."""
    baseline = f"evaluations/{own}"
    model = plan.evaluations[baseline]
    plan.parts.setdefault(_part_name(plan.file, part, model.seed), {})[folder] = WITH
    plan.labels[folder] = plan.labels[baseline]
    plan.interfaces[folder] = learned_in
    plan.baselines[folder] = baseline
    plan.evaluations[folder] = _evaluation(plan, folder, model.spec, model.player, model.seed, None)


def _evaluation(
    plan: StudyPlan, folder: str, spec: EnvironmentSpec, player: AgentChoice, seed: int, shipped: Interface | None
) -> EvaluationPlan:
    file, model = plan.file, player.model
    preset = choose_preset(file.agent_preset, (player,)) if model else None
    turns = choose_turns(file.turns, preset, spec)
    return EvaluationPlan(
        spec=spec.with_settings(turns=turns),
        split=spec.test_split,
        task_ids=pick_test_tasks(spec, file.tasks, seed),
        interface=shipped.name if shipped else plan.interfaces[folder],
        variants=plan.variants_in(folder, shipped) if shipped else {},
        player=player,
        seed=seed,
        workers=ThreadWorkers(file.workers or workers_for(player)),
        temperature=file.temperature if model else None,
        max_tokens=find_reply_tokens(read_reply_tokens(file.max_tokens), "agent", model) if model else None,
        preset=preset,
        turns=turns,
    )


def _generation(
    file: StudyFile, spec: EnvironmentSpec, player: AgentChoice, seed: int, *, verify: bool = True
) -> GenerationPlan:
    """Plan the generation of an agent's interface in an environment."""
    asks = bool(file.analyzer_model or file.optimizer_model or file.backend == "llm")
    at_endpoint = asks or (player.model is not None and player.model.endpoint is not None)
    key = "interface" if verify else f"ablations: {VERIFICATION}"
    with in_keys(f"{key}: {spec.name}, {player.agent.name}: "):
        config = GenerationConfig(
            env=spec,
            backend=file.backend,
            model=None,
            analyzer_model=file.analyzer_model,
            optimizer_model=file.optimizer_model,
            base_url=file.base_url if at_endpoint else None,
            max_tokens=file.max_tokens if asks or player.model else None,
            agent_preset=file.agent_preset if player.model else None,
            turns=file.turns,
            iterations=file.iterations,
            tasks_per_iteration=file.tasks_per_iteration,
            seed=seed,
            workers=file.workers,
        )
        return plan_generation(config, player=player, verify=verify)


def _subfolder(file: StudyFile, spec: EnvironmentSpec, label: str, seed: int) -> str:
    """Return the subfolder of an environment and an agent."""
    of_seed = f"seed-{seed}/" if len(file.all_seeds) > 1 else ""
    return f"{of_seed}{_folder_name(spec.name)}/{_folder_name(label)}"


def _part_name(file: StudyFile, part: str, seed: int) -> str:
    """Name a part, with its seed if there are several."""
    return f"{part}, seed {seed}" if len(file.all_seeds) > 1 else part


def _folder_name(label: str) -> str:
    """Replace characters that some file systems do not allow."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-")


def _refuse_one_folder(axis: str, names: Iterable[str]) -> None:
    """Raise `UsageError` for two names with the same folder."""
    by_folder: dict[str, str] = {}
    for name in names:
        first = by_folder.setdefault(_folder_name(name), name)
        if first != name:
            raise UsageError(
                f"{axis}: {first} and {name} would share the folder {_folder_name(name)}: rename one of them, or play "
                "it in a study of its own"
            )


def _refuse_twice(axis: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{axis}: {name} is there twice: name each once")
        seen.add(name)


# ---------------------------------------------------------------- tables of a study


def build_tables(study: StudySummary) -> list[Table]:
    """Build a table for each part; the caption is below the last."""
    tables = [grid_table(grid) for grid in study.parts.values()]
    for table in tables[:-1]:
        table.caption = None
    return tables


def write_markdown(study: StudySummary) -> str:
    """Write the tables of all parts as Markdown, with a heading each."""
    lines = [f"# Study {study.name}", ""]
    for grid in study.parts.values():
        lines += [f"## Without and with the interface {grid.interface}", ""]
        lines += [_row(HEADINGS), _row(["---"] * 3 + ["---:"] * (len(HEADINGS) - 3))]
        lines += [_row((cell.environment, cell.agent, *line)) for cell in grid.cells for line in cell_lines(cell)]
        lines.append("")
    ends = [*CAPTION.splitlines(), OVER_PLACEBO, WORTH.replace("\n", " "), *study_notes(study)]
    return "\n".join([*lines, *(f"- {line.rstrip(';')}" for line in ends), ""])


def study_notes(study: StudySummary) -> list[str]:
    """Write the lines below the tables: how refusals are known, who played, where nothing was generated, and broken
    episodes by cell and part.
    """
    why = "nothing was learned: it changes nothing"
    unchanged = [f"{folder}: {study.learned[folder]} ({why})" for folder in study.unchanged]
    cells = [cell for grid in study.parts.values() for cell in grid.cells]
    return [*refusals_lines(cells), *study.played_by, *unchanged, *(_faults(study) or ["faults: none"])]


def _faults(study: StudySummary) -> list[str]:
    """Write a line for each cell with broken episodes, in the part they were played for."""
    lines = []
    for part, grid in study.parts.items():
        for cell in grid.cells:
            line = faults_line(cell, _own_sides(part, cell))
            lines += [line if part == MAIN else f"{line} ({part})"] if line else []
    return lines


def study_conducts(study: StudySummary) -> dict[str, InterfaceConduct]:
    """Return the conduct of the interface in each side played for a part."""
    return {
        f"{cell.environment} {cell.agent} {name}" + ("" if part == MAIN else f" ({part})"): cell.sides[name].conduct
        for part, grid in study.parts.items()
        for cell in grid.cells
        for name in _own_sides(part, cell)
    }


def _own_sides(part: str, cell: GridCell) -> list[str]:
    """Return the sides of a cell that belong to this part alone."""
    kind = part.partition(", seed ")[0]
    if kind == MAIN:
        return list(cell.sides)
    if kind in HALVES:
        return ["with"]
    return [name for name in cell.sides if name in (PLACEBO, "with")]


def _row(fields: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(field.replace('|', chr(92) + '|') for field in fields)} |"


# ---------------------------------------------------------------- play a study

TABLES = "study.md"

Comparisons = Mapping[str, VariantComparison | None]
"""Results of evaluations, by folder; None if no episode had a score."""


@in_keys()
def play_study(
    plan: StudyPlan,
    path: Path,
    *,
    resume: bool = False,
    progress: Progress = SILENT,
    limits: SpendingLimits = NO_LIMITS,
) -> StudySummary:
    """Generate and play all unfinished parts of a study within the limits, and write its summary and tables.

    Raises as `playing.play` and `generate_interface`; invalid settings are refused before anything is written.
    """
    run_dir = EvaluationDir(path, plan.config, resume=resume)
    run_dir.check()
    check_limits(limits, plan.models)
    spending = open_spending(limits, plan.models, path)
    progress.watch(spending)
    agents = {
        folder: build_plan_agent(evaluation, model_loader(evaluation, path / folder, spending))
        for folder, evaluation in plan.evaluations.items()
    }
    openings = {evaluation.spec.name: evaluation for evaluation in plan.evaluations.values()}
    for evaluation in openings.values():
        try_reset(evaluation.spec, evaluation.task_ids[0], split=evaluation.split, data_root=None)
    with run_dir:
        learned = {folder: _generate(plan, folder, path, progress, spending) for folder in plan.generations}
        evaluations = {folder: _with_interface(plan, folder, learned) for folder in plan.evaluations}
        comparisons: dict[str, VariantComparison | None] = {}
        for number, (folder, evaluation) in enumerate(evaluations.items(), start=1):
            progress.say(f"evaluation {number} of {len(evaluations)}: {folder}")
            experiment = open_experiment(
                evaluation, path / folder, progress, agent=agents[folder], spending=spending
            )
            shared = _shared_baseline(path / plan.baselines[folder], evaluation) if folder in plan.baselines else ()
            comparisons[folder] = play_comparison(experiment, baseline=shared)
        study = _summarise(plan, evaluations, agents, comparisons, learned, path)
        study = study.model_copy(update={"at_endpoints": spending.by_role})
        write_atomically(path / TABLES, write_markdown(study))
        run_dir.finish(study)
    return study


def _generate(plan: StudyPlan, folder: str, path: Path, progress: Progress, spending: Spending) -> Interface:
    """Generate an interface in the study's folder, resuming an unfinished run, and one that the limits ended.

    Raises `SpentError` if they end it again: what it has learned by then is not what the study asks for.
    """
    run, generation = path / folder, plan.generations[folder]
    summary = RunFolder(run).summary()
    if summary is None or summary.budget.ended_by in OPTIONS:
        progress.say(f"learning: {folder}")
        resume = (run / CONFIG).exists()
        generated = generate_interface(generation, run, resume=resume, progress=progress, spending=spending)
        for limit in OPTIONS:
            if generated.summary.budget.ended_by == limit:
                raise spending.refusal(limit)
    name = folder.partition("/")[2]
    return load_interface(run / "interface.py").model_copy(update={"name": name})


def _with_interface(plan: StudyPlan, folder: str, learned: Mapping[str, Interface]) -> EvaluationPlan:
    """Add the variants of its generated interface to an evaluation."""
    evaluation = plan.evaluations[folder]
    if folder not in plan.interfaces:
        return evaluation
    return replace(evaluation, variants=plan.variants_in(folder, learned[plan.interfaces[folder]]))


def _shared_baseline(folder: Path, evaluation: EvaluationPlan) -> PlayedPart:
    """Open the episodes without an interface that another evaluation has played."""
    file = JsonlFile(folder / "trajectories" / f"{BASELINE}.jsonl")
    starts = {Episode(trajectory.task_id): start for start, trajectory in file.entries(Trajectory)}
    return PlayedPart(file, [Episode(task) for task in evaluation.task_ids], starts)


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
