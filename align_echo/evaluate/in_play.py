"""Measure a generated interface in play: the same tasks without it, with its placebo and with it.

Rules that passed their experiments may still help nobody, so a run of ALIGN ends with episodes. They use tasks of the
training split not used to generate the interface, if there are enough. Not here: the run itself (`align/loop.py`), and
further evaluation (`align-echo evaluate --compare`).

    <run>/in-play/        the folder of the evaluation (`folder.py`)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from align_echo.agents.players import choose_turns
from align_echo.align.generation import GenerationPlan
from align_echo.align.loop import GenerationResult
from align_echo.align.run_folder import InPlay, RunFolder, RunSummary, ending, read_episodes
from align_echo.base.jsonl import JsonlFile
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import UsageError, printable
from align_echo.evaluate.comparison import BASELINE, PLACEBO, VariantComparison, build_variants
from align_echo.evaluate.plan import EvaluationPlan, pick_tasks
from align_echo.evaluate.playing import play
from align_echo.evaluate.tables import cell
from align_echo.interface.contract import Interface, load_interface, save_interface
from align_echo.interface.hints import HintCount, count_hints, merged
from align_echo.intervals import Estimate, bootstrap, task_key
from align_echo.models.spending import open_spending
from align_echo.registry import quantity
from align_echo.run_dir import CONFIG
from align_echo.types import Step, Trajectory

FOLDER, WHOLE = "in-play", "full"
ARMS = (BASELINE, PLACEBO, WHOLE)


def play_generated(
    plan: GenerationPlan, generated: GenerationResult, path: Path, *, progress: Progress = SILENT
) -> RunSummary:
    """Play a run's new interface, add the result to the run's summary, and return it.

    Nothing is played without a new interface, or if the plan has no tasks for it. Raises as `playing.play`.
    """
    if not generated.summary.written or not plan.play_count:
        return generated.summary
    if generated.summary.budget.ended_by not in ("", "engine-steps"):
        progress.say("the new interface is not played: the budget is spent; align-echo evaluate measures it")
        return generated.summary
    evaluation, folder = plan_play(plan, generated, path), path / FOLDER
    if (count := len(evaluation.task_ids)) < plan.play_count:
        shortage = f"the run left no more of {evaluation.split} that the interface was not made with"
        progress.say(f"{quantity(count, 'task')} and not {plan.play_count} are played at the end: {shortage}")
    spending = open_spending(plan.limits.of_endpoints, plan.models, path)
    comparison = play(evaluation, folder, resume=(folder / CONFIG).exists(), progress=progress, spending=spending)
    files = {name: JsonlFile(folder / "trajectories" / f"{name}.jsonl") for name in ARMS}
    episodes: dict[str, Iterable[Trajectory]] = {
        name: (trajectory for _, trajectory in file.entries(Trajectory)) for name, file in files.items()
    }
    speech = _Speech(plan.world.spec.is_invalid)
    episodes[WHOLE] = speech.heard(episodes[WHOLE])
    in_play = measure_play(comparison, episodes, known=tasks_used(plan, generated), seed=plan.config.seed)
    in_play = in_play.model_copy(update=speech.counts())
    return RunFolder(path).add_play(generated.summary, in_play)


def plan_play(plan: GenerationPlan, generated: GenerationResult, path: Path) -> EvaluationPlan:
    """Plan the evaluation of a generated interface: all arms play the same tasks with the same seed."""
    world, file = plan.world, path / generated.summary.interface_file
    variants = build_variants(load_interface(file, world.spec.contract, world.spec.action_format))
    all_tasks = world.spec.tasks(world.split, world.data_root)
    used = tasks_used(plan, generated)
    unused = [task for task in all_tasks if task not in used]
    pool = unused if 2 * len(unused) >= plan.play_count else all_tasks
    count = min(plan.play_count, len(pool))
    return EvaluationPlan(
        spec=world.spec,
        split=world.split,
        task_ids=pick_tasks(pool, count, task_type=world.spec.task_type, seed=plan.config.seed),
        interface=str(file),
        variants={name: variants[name] for name in ARMS},
        player=plan.player,
        seed=plan.config.seed,
        workers=plan.workers,
        data_root=world.data_root,
        max_tokens=plan.reply_tokens("agent"),
        preset=plan.preset,
        history=plan.history,
        turns=choose_turns(plan.config.turns, plan.preset, world.spec),
    )


def tasks_used(plan: GenerationPlan, generated: GenerationResult) -> set[str]:
    """Return the training tasks of a run's episodes and experiments."""
    iterations = (record.iteration for record in generated.summary.iterations)
    played = (plan.world.tasks(number, plan.config.seed, plan.config.tasks_per_iteration) for number in iterations)
    return {*generated.interface.provenance.training_tasks, *plan.fresh, *(task for tasks in played for task in tasks)}


@dataclass
class _Speech:
    """Counts turns on which the interface spoke. `is_invalid` is the environment's test of refusals, if it has one."""

    is_invalid: Callable[[str], bool] | None
    turns: int = 0
    spoken: int = 0
    spoken_episodes: int = 0
    refusals: int = 0
    spoken_refusals: int = 0

    def heard(self, episodes: Iterable[Trajectory]) -> Iterator[Trajectory]:
        """Pass episodes on, and count those without a fault."""
        for episode in episodes:
            spoken = 0 if episode.fault else sum(map(self._count, episode.steps))
            self.spoken_episodes += spoken > 0
            yield episode

    def _count(self, step: Step) -> bool:
        raw = step.raw_observation
        speaks = step.action is not None and (raw is None or raw.strip() != step.observation.strip())
        refused = raw is None or (self.is_invalid is not None and self.is_invalid(raw))
        self.turns += 1
        self.spoken += speaks
        self.refusals += refused
        self.spoken_refusals += speaks and refused
        return speaks

    def counts(self) -> dict[str, int | None]:
        """Return the counts; None for refusals that are unknown."""
        counts = {"turns": self.turns, "spoken": self.spoken, "spoken_episodes": self.spoken_episodes}
        if self.is_invalid is None:
            return {**counts, "refusals": None, "spoken_refusals": None}
        return {**counts, "refusals": self.refusals, "spoken_refusals": self.spoken_refusals}


def measure_play(
    comparison: VariantComparison, episodes: Mapping[str, Iterable[Trajectory]], *, known: set[str], seed: int
) -> InPlay:
    """Compute the figures of the episodes, each task once, paired by task. `known` are tasks used to generate the
    interface.

    Raises `UsageError` if no task ended without a fault in all arms.
    """
    ends = {
        name: {task_key(episode): episode.score for episode in played if episode.fault is None}
        for name, played in episodes.items()
    }
    tasks = [task for task in ends[BASELINE] if all(task in arm_scores for arm_scores in ends.values())]
    if not tasks:
        raise UsageError("no task was played to its end without the interface, with its placebo and with it")
    scores = {name: np.asarray([arm_scores[task] for task in tasks]) for name, arm_scores in ends.items()}

    def gain(over: str) -> Estimate:
        gains = {"gain": scores[WHOLE] - scores[over]}
        return bootstrap(gains, lambda sums: sums["gain"] / len(tasks), seed=seed, bounds=(-1, 1))

    results = {name: comparison.variants[name] for name in ARMS}
    return InPlay(
        split=comparison.split,
        tasks=len(tasks),
        known=sum(task_id in known for _, _, task_id in tasks),
        episodes=sum(result.episodes for result in results.values()),
        faults=sum(result.faults for result in results.values()),
        won={name: result.success_rate for name, result in results.items()},
        score={name: result.mean_score for name, result in results.items()},
        over_none=gain(BASELINE),
        over_placebo=gain(PLACEBO),
        better=int((scores[WHOLE] > scores[BASELINE]).sum()),
        worse=int((scores[WHOLE] < scores[BASELINE]).sum()),
        works=all(result.conduct.works for result in results.values()),
    )


# ---------------------------------------------------------------- printing


def result_lines(plan: GenerationPlan, summary: RunSummary, path: Path, spent: str = "") -> Iterator[str]:
    """Describe the end of a run, what it spent, the path of a new interface, and in the last line its effect in play.
    """
    yield f"stopped after {quantity(len(summary.iterations), 'iteration')} ({summary.stopped}): {ending(summary)}"
    for rule in load_interface(path / summary.interface_file).provenance.unresolved:
        yield f"no rule stood its experiments for: {printable(rule)}"
    yield from summary.usage.lines(spent)
    if summary.written:
        yield f"interface: {path / summary.interface_file}"
        yield f"to measure it further: {evaluate_command(plan, path / summary.interface_file)}"
    yield play_line(summary)


def evaluate_command(plan: GenerationPlan, interface: Path) -> str:
    """Return the command to evaluate an interface on the test split."""
    model = plan.player.model
    options = f" --model {model}" if model else ""
    if model and model.endpoint and plan.config.base_url:
        options += f" --base-url {plan.config.base_url}"
    asked = {**model.chat.on_record, **plan.history.describe()} if model else {}
    if tokens := plan.reply_tokens("agent"):
        asked["max_tokens"] = str(tokens)
    if plan.config.turns is not None:
        asked["turns"] = str(plan.config.turns)
    for name, value in asked.items():
        options += f" --{name.replace('_', '-')} {shlex.quote(value)}"
    options += f" --agent-preset {plan.preset.name}" if plan.preset else ""
    who = f"--env {plan.world.spec.name} --agent {plan.player.agent.name}{options}"
    return f"align-echo evaluate {who} --compare --interface {interface}"


def play_line(summary: RunSummary) -> str:
    """Describe an interface's effect in play, in one line."""
    if not summary.written:
        return "in play: no new interface was written, so nothing changes"
    played = summary.in_play
    if played is None:
        return "in play: not played, so what the interface changes for the agent is not known"
    if not played.works:
        return "in play: the interface did not work, and what was played is the environment without it"
    where = f"{quantity(played.tasks, 'task')} of {played.split}"
    where += f", {played.known} of them used to make it" if played.known else ", none of them used to make it"
    are = "is" if played.faults == 1 else "are"
    broke = f"; {quantity(played.faults, 'episode')} broke and {are} left out" if played.faults else ""
    graded = any(abs(played.won[name].value / 100 - played.score[name].value) > 1e-9 for name in ARMS)
    name, estimates, digits, scale = ("score", played.score, 3, 1) if graded else ("won, %", played.won, 1, 100)
    arms = zip(("without it", "with its placebo", "with it"), ARMS, strict=True)
    figures = ", ".join(f"{cell(estimates[arm], digits=digits)} {arm_name}" for arm_name, arm in arms)
    over = cell(played.over_placebo.scaled(scale), signed=True, digits=digits)
    rests_on = f"{where}{broke}; {speech_line(played)}"
    return f"in play ({rests_on}): {name}: {figures}; over its placebo {over}: {verdict_on_play(played)}"


def speech_line(played: InPlay) -> str:
    """Describe where the interface spoke."""
    where = f"{played.spoken} of {quantity(played.turns, 'turn')}"
    if played.refusals is not None:
        where = f"{played.spoken_refusals} of {quantity(played.refusals, 'refusal')}"
    return f"it spoke on {where}, in {played.spoken_episodes} of {quantity(played.tasks, 'episode')}"


HARMFUL = "agents did worse with it than with its placebo: leave it out"


def verdict_on_play(played: InPlay) -> str:
    """Summarise an interface's play: counts, and whether its placebo may do the same."""
    worse = f", {played.worse} got worse" if played.worse else ""
    if played.over_placebo.sign < 0:
        return f"{played.better} of {quantity(played.tasks, 'episode')} improved{worse}; {HARMFUL}"
    if not played.better:
        return f"written, and no episode improved{worse}"
    caveat = "" if played.over_placebo.sign > 0 else "; not shown to be more than its placebo does"
    return f"{played.better} of {quantity(played.tasks, 'episode')} improved{worse}{caveat}"


def nothing_written(plan: GenerationPlan, summary: RunSummary, path: Path) -> str:
    """Explain why a run with misalignments ended without an interface, and what to do; "" for any other run."""
    if summary.written or not summary.misalignments or summary.budget.ended_by:
        return ""
    count = summary.misalignments
    finding = f"{quantity(count, 'misalignment')} {'was' if count == 1 else 'were'} found"
    if any(record.outcome == "written" for record in summary.iterations):
        return (
            f"{finding} and rules were written, but the agent lost clearly more under them than without: the interface "
            f"in {path} changes nothing; the others are in its iterations/, and another --seed plays other tasks"
        )
    remedy = "another --optimizer-model" if plan.optimizer else "--backend hybrid with a --model"
    return (
        f"{finding} and no rule was written for any: the interface in {path} changes nothing; name {remedy}, and "
        "another folder"
    )


# ---------------------------------------------------------------- hints on record, by the interface's source

def count_run_hints(interface: Interface, folder: Path) -> tuple[HintCount, ...]:
    """Count the outcomes of the interface's hints, by rule, in a folder of `evaluate` or `generate-interface`.

    Episodes of its placebo do not count. Raises `UsageError` for a missing folder, and if none was played under
    exactly this source.
    """
    labels: dict[str, None] = {}
    played = []
    for trajectory in read_episodes(folder):
        labels[trajectory.interface] = None
        is_own = trajectory.source == interface.content_hash and not trajectory.is_placebo
        if is_own and trajectory.fault is None:
            played.append(trajectory)
    if not played:
        contents = f"it holds those of {', '.join(labels)}" if labels else "it holds none"
        label = f"{interface.name}@{interface.content_hash}"
        raise UsageError(f"no episode of {folder} was played under the interface {label}: {contents}")
    return count_hints(played)


def keep_record(interface: Interface, file: Path, record: tuple[HintCount, ...]) -> Interface:
    """Add counts to the record of an interface's `.py` file, in its `.json`, and return the updated interface.

    Raises `UsageError` unless the file is the user's own.
    """
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"a record is kept beside a .py file of your own: copy {file} and name the copy")
    updated = interface.model_copy(update={"record": merged(interface.record, record)})
    save_interface(updated, file.parent, file.stem)
    return updated
