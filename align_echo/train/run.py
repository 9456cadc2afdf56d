"""A training run in a folder: tasks and models from a config, a trainer over them, what is written.

    config.json     the settings, with versions and hashes; a resumed run must have the same
    held_out.jsonl  figures of held-out tasks: one object an evaluation, the first before any step
    signals.jsonl   one object a step: rewards, gains, losses, times
    refinements.jsonl   one object a batch: scores before and after each critique
    rollouts/, critiques/   the episodes of one task of each batch, with the critic's replies (`rollouts.py`)
    checkpoints/    as `transformers` writes them; `<checkpoint>/<role>` is the folder of a model (or adapter)
    policy/, critic/   the trained roles at the end, or at their best evaluation
    last/           the trained roles at the end of a run with evaluations
    summary.json    written last: method, steps, first and last evaluation, seconds

Steps are numbered from 1 everywhere; step 0 is before training. Not here: printed lines (`printed_lines.py`).
"""

from __future__ import annotations

import math
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from align_echo.agents.catalogue import tools_for
from align_echo.agents.conversation import CALL_PROMPT, SHARED_PROMPTS, ChatAgent
from align_echo.agents.players import require_expert
from align_echo.agents.reasoning import Vanilla
from align_echo.base.dice import Dice
from align_echo.critic.labels import default_rule
from align_echo.critic.language import FORMS
from align_echo.errors import EngineError, UsageError
from align_echo.intervals import mean_score, scored, success_rate
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.loading import content_hash
from align_echo.models.local.memory import POOL
from align_echo.prompts import prompt_hash
from align_echo.rollout.faults import ERRORS, fault_text
from align_echo.rollout.refusals import PlayJudge, play_judge
from align_echo.rollout.session import Episode, try_reset
from align_echo.run_dir import CHECKPOINTS, check_room, checkpoint_step, drop_unfinished
from align_echo.train import processes
from align_echo.train.arguments import run_settings
from align_echo.train.checkpoints import RoleCheckpoints
from align_echo.train.config import TrainConfig
from align_echo.train.demonstrations import DemonstrationFilter, Demonstrations, read_demonstrations
from align_echo.train.needs import divides_weights, require_four_bit, require_trl
from align_echo.train.obstacles import ObstacleAlarm, RunCost, estimate
from align_echo.train.processes import SharedStage
from align_echo.train.role_models import RoleModels, find_sources, gather
from align_echo.train.rollouts import ObservedStage, RolloutFiles
from align_echo.train.rows import Role, RolloutBatch
from align_echo.train.run_folder import TrainingDir, append, keep_before, steps_in, tokens_on_record
from align_echo.train.serving import PUBLISHED
from align_echo.train.signals import Signals
from align_echo.train.stage import PARTS, LocalStage, Stage
from align_echo.train.trackers import tracking
from align_echo.train.trainer import RoleTrainer, build_optimizer
from align_echo.version import __version__
from align_echo.wrappers.catalogue import environment

# ---------------------------------------------------------------- set the number of torch threads for a while


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Use this number of threads; restore the old one afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- the number of steps, and of environment steps


class TurnBudget(TrainerCallback):
    """Callback that ends a run after the step with which it reaches `most` turns. The weights of this step are
    evaluated and saved.

    `played` counts the turns before this process, for a resumed run.
    """

    def __init__(self, most: int, played: int = 0) -> None:
        self._most = most
        self._played = played

    def add(self, turns: int) -> None:
        """Add turns to the count."""
        self._played += turns

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Stop, save and evaluate once the budget is spent."""
        if self._played >= self._most:
            control.should_training_stop = True
            control.should_save = True
            control.should_evaluate = args.eval_strategy != "no"


def played_before(signals: Path, updates: int) -> int:
    """Count the turns recorded in a run's `signals.jsonl`.

    The `updates` steps of a batch all record its turns; only the first counts. Raises `UsageError` for a damaged line.
    """
    first = (record for record in steps_in(signals) if (record["step"] - 1) % updates == 0)
    return sum(int(record.get("environment_steps", 0)) for record in first)


# ---------------------------------------------------------------- figures on held-out tasks


class HeldOut(TrainerCallback):
    """An evaluation on held-out tasks, one episode each. `figures` holds the latest, in the form of `summary.json`:

    `score` (0 to 1) and `success` (percent), each `value`, `n` and `ci95` over tasks, and the number of `faults`. As a
    trainer's callback it appends the figures of every evaluation to `file`, with the step, and passes them to `watch`.
    """

    def __init__(
        self,
        stage: Stage,
        tasks: Sequence[str],
        seed: int,
        file: Path,
        watch: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._stage = stage
        self._tasks = tasks
        self._seed = seed
        self._file = file
        self._watch = watch
        self.figures: dict[str, Any] | None = None

    def __call__(self) -> Signals:
        """Play the tasks; return mean score and share of wins, both 0 to 1.

        If every episode broke, raises the first episode's fault: that is no score of 0.
        """
        played = self._stage.play([Episode(task) for task in self._tasks])
        done = scored(played)
        if not done:
            first = next((trajectory.fault for trajectory in played if trajectory.fault is not None), None)
            kind = ERRORS[first.source] if first else EngineError
            raise kind(f"every held-out episode broke; the first: {fault_text(first) if first else 'there are none'}")
        score, success = mean_score(done, seed=self._seed), success_rate(done)
        self.figures = {
            "score": score.model_dump(mode="json"),
            "success": success.model_dump(mode="json"),
            "faults": len(played) - len(done),
        }
        return {"score": score.value, "won": success.value / 100, "n": float(len(done))}

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Append the figures to the file."""
        if self.figures is not None and state.is_world_process_zero:
            append(self._file, {"step": state.global_step, **self.figures})
            self._watch(state.global_step, self.figures)


# ---------------------------------------------------------------- A training run in a folder

PACKAGES = ("torch", "transformers", "peft", "accelerate")

HELD_OUT = "held_out.jsonl"
LAST = "last"


def _ignore_figures(step: int, figures: dict[str, Any]) -> None:
    """Do nothing. The default of `evaluated`, for callers who read the figures in the folder."""


def _ignore_line(line: str) -> None:
    """Do nothing. The default of `say`, for callers who read the signals."""


def select_tasks(wanted: Sequence[str] | None, tasks: Sequence[str], task_type: Callable[[str], str]) -> list[str]:
    """Select the tasks of the wanted types; all for None. Raises `UsageError` for a type without tasks."""
    if wanted is None:
        return list(tasks)
    types = {task: task_type(task) for task in tasks}
    unknown = sorted(set(wanted) - set(types.values()))
    if unknown:
        known = ", ".join(sorted(set(types.values())))
        raise UsageError(f"task_types: no task to train on is of type {unknown[0]!r}; types: {known}")
    return [task for task in tasks if types[task] in wanted]


def choose_tasks(number: int, pool: Sequence[str], count: int, seed: int) -> list[str]:
    """Choose the tasks of a batch by its number, from 0: the same in every process.

    Batches go through all tasks in laps, each lap in another random order; a remainder smaller than a batch is skipped.
    Raises `UsageError` if there are fewer tasks than `count`.
    """
    if len(pool) < count:
        raise UsageError(f"there are {len(pool)} tasks to train on: ask for no more a step (collecting.tasks)")
    lap, index = divmod(number, len(pool) // count)
    return Dice(f"training tasks {seed} {lap}").shuffled(pool)[index * count : (index + 1) * count]


def play_batch(config: TrainConfig, tasks: Sequence[str], stage: Stage, judge: PlayJudge | None = None) -> RolloutBatch:
    """Play a batch by the config's method and add signals of play.

    `judge` identifies refused turns; None if unknown.
    """
    observed = ObservedStage(SharedStage(stage))
    batch = config.implementation.collect(tasks, observed, config.collecting)
    episodes = (*observed.played, *observed.lessons_played)
    return replace(batch, signals=observed.signals(judge), episodes=episodes, critiqued=tuple(observed.critiqued))


def count_parts(config: TrainConfig, on_gpu: bool) -> int:
    """Return in how many parts a batch is played.

    One with servers (more was not measured), with adapters (an engine computes one of them a step), and on a GPU (few
    rows take as long as many).
    """
    return 1 if config.collecting.servers or config.weights == "adapters" or on_gpu else PARTS


class TrainingRun:
    """A training run with checked inputs. Call `train` once; a resumed run continues from its newest checkpoint.

    With several processes each has a `TrainingRun`; only the first writes.
    """

    def __init__(self, config: TrainConfig, folder: Path, *, resume: bool = False) -> None:
        """Check config and folder. Raises `UsageError` or `MissingDataError` for unknown names, and for a folder with
        other contents.
        """
        processes.join()
        self.config = config
        processes.call_on_first(self._check_backend)
        self.folder = processes.call_on_first(lambda: folder)
        self._spec = environment(config.env)
        self._split = self._spec.check_split(config.split or self._spec.train_split)
        self._held_out = self._spec.check_split(config.evaluating.split or self._spec.test_split)
        self._sources = find_sources(config)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self.memory_limit = POOL.limit(self._device)
        self.config = config = self._with_tokens(resume)
        self._interface = self._spec.interface(config.interface)
        self.demonstrations = self._demonstrations()
        self.on_record = self._record()
        self.tasks = self._tasks()
        few = len(self.tasks) if self.demonstrations else config.collecting.tasks
        self._tasks_a_batch = min(few, config.collecting.tasks)
        choose_tasks(0, self.tasks, self._tasks_a_batch, config.seed)
        if config.needs_expert:
            require_expert(self._spec, self._split, self.tasks, None)
        self._resuming = resume
        self._resume = processes.call_on_first(lambda: self._run_dir(resume).find_checkpoint())
        if not resume:
            processes.call_on_first(lambda: check_room(self.folder, self.cost.disk))
        self.room = self.cost.check_memory(POOL, self._device, self._cost_with_adapters)
        self._rollouts = RolloutFiles(self.folder, config.rollouts, config.steps)
        self._evaluation: HeldOut | None = None
        self._say: Callable[[str], None] = _ignore_line

    def _check_backend(self) -> None:
        if processes.count() > 1 and self.config.collecting.servers:
            raise UsageError("several processes play with engines of their own: leave out collecting.servers")
        if self.config.backend == "trl":
            require_trl()
        if self.config.lora.four_bit:
            require_four_bit()
        if self.config.backend == "own" and divides_weights():
            raise UsageError("our own trainer divides no weights (FSDP, DeepSpeed): take backend: trl")

    def _with_tokens(self, resume: bool) -> TrainConfig:
        """Return the config with a number of tokens that are learned from at once: the one on record if resumed."""
        step = self.config.step
        if step.tokens_per_batch is not None:
            return self.config
        stored = processes.call_on_first(lambda: tokens_on_record(self.folder)) if resume else None
        size = stored or processes.call_on_first(lambda: self.cost.tokens_per_batch)
        return self.config.model_copy(update={"step": step.model_copy(update={"tokens_per_batch": size})})

    def _demonstrations(self) -> Demonstrations | None:
        """Read the stored episodes to imitate; None if the run has none."""
        collecting = self.config.collecting
        if not collecting.demonstrations:
            return None
        held_out = "" if self._held_out == self._split else self._held_out
        return read_demonstrations(
            collecting.demonstrations,
            DemonstrationFilter(self._spec.name, held_out, self.config.task_types, collecting.minimum_score),
        )

    def _tasks(self) -> list[str]:
        """Return the tasks to train on, or the names of the stored episodes."""
        if self.demonstrations is not None:
            return list(self.demonstrations.episodes)
        return select_tasks(self.config.task_types, self._spec.tasks(self._split), self._spec.task_type)

    @cached_property
    def cost(self) -> RunCost:
        """Return upper bounds on the run's cost."""
        return estimate(self.config, self._sources, self.memory_limit)

    def _cost_with_adapters(self) -> RunCost | None:
        """Return the run's cost with adapters; None if it has them, or its critic begins as another model."""
        if self.config.weights == "adapters" or self.config.critic is not None:
            return None
        config = self.config.model_copy(update={"weights": "adapters"})
        return estimate(config, self._sources, self.memory_limit)

    @property
    def begun_at(self) -> int:
        """Number of steps behind the checkpoint to resume from; 0 for a new run."""
        return checkpoint_step(self._resume)

    @property
    def begins_anew(self) -> bool:
        """Return whether this resumes a run without a finished step."""
        return self._resuming and not self._resume

    @property
    def is_finished(self) -> bool:
        """Return whether the run was finished before."""
        return bool(self._resume) and (self.folder / "summary.json").is_file()

    def _record(self) -> dict[str, Any]:
        """Build the contents of `config.json`; a resumed run must have the same."""
        interface, stored = self._interface, self.demonstrations
        return {
            "command": "train",
            "align_echo": __version__,
            "python": platform.python_version(),
            "processes": processes.count(),
            "packages": {name: metadata.version(name) for name in PACKAGES},
            "split": self._split,
            "held_out": self._held_out,
            "games": self._spec.games(None),
            "interface": interface.label if interface else "none",
            "interface_contents": interface.fingerprint if interface else "none",
            "weights": {
                role: content_hash(Path(source)) if Path(source).is_dir() else ""
                for role, source in self._sources.items()
            },
            "prompts": {name: prompt_hash(name) for name in self._prompts()},
            **({"demonstrations": stored.content_hash} if stored else {}),
            "config": self.config.model_dump(mode="json"),
        }

    def _prompts(self) -> tuple[str, ...]:
        """List the prompt templates of the agent and the critics."""
        critics = (*FORMS.get(self.config.collecting.form).prompts, "critic/verdict", "critic/reasoned_verdict")
        calls = (CALL_PROMPT,) if self.config.tools else ()
        return (*SHARED_PROMPTS, *calls, *Vanilla.prompts, *critics)

    def train(
        self,
        watch: Callable[[int, Signals], None],
        evaluated: Callable[[int, dict[str, Any]], None] = _ignore_figures,
        say: Callable[[str], None] = _ignore_line,
    ) -> Path:
        """Train to the end and return the path of `summary.json`.

        `watch` receives every step's signals, `evaluated` the figures of held-out tasks with their step, `say` a line
        when nothing can be learned, and when that is over. A finished run is left as it is.
        """
        if self.is_finished:
            return self.folder / "summary.json"
        self._say = say
        held = POOL.reserve(self.cost.learning, self._device)
        with computing_with(self.config.threads), processes.others_reached(), held:
            return self._train(watch, evaluated)

    def _train(self, watch: Callable[[int, Signals], None], evaluated: Callable[[int, dict[str, Any]], None]) -> Path:
        start = time.monotonic()
        processes.gathered(self._try_worlds)
        crew = gather(self.config, self._sources, self.folder)
        run_dirs: list[TrainingDir] = []
        try:
            processes.call_on_first(lambda: run_dirs.append(self._begin_folder()))
            self._evaluation = self._held_out_tasks(crew, evaluated) if self.config.evaluating.every else None
            names = self.config.report_to if processes.is_first() else ()
            with (
                tracking(names, self.folder, self.begun_at) as trackers,
                closing(self._trainer(crew, watch)) as trainer,
            ):
                for callback in (*trackers, *([self._evaluation] if self._evaluation else [])):
                    trainer.add_callback(callback)
                before = self._before(trainer)
                trainer.train(resume_from_checkpoint=self._resume or None)
                trainer.remove_callback(HeldOut)
                after = self._figures(trainer)
            crew.save(self.folder)
            took = None if self._resume else round(time.monotonic() - start, 1)  # unknown for a resumed run
            figures = {"before": before, "after": after, "seconds": took}
            return processes.call_on_first(lambda: self._end(trainer, figures))
        finally:
            crew.close()
            for run_dir in run_dirs:
                run_dir.close()

    def _try_worlds(self) -> None:
        """Reset a task of each split, and ask the expert if it is needed, before loading a model: so a broken
        environment is reported first.
        """
        held_out = {self._held_out: self._spec.tasks(self._held_out)} if self.config.evaluating.every else {}
        played = {} if self.demonstrations else {self._split: self.tasks}
        for split, tasks in {**held_out, **played}.items():
            try_reset(
                self._spec, tasks[0], split=split, data_root=None,
                expert=self.config.needs_expert and split == self._split,
            )  # fmt: skip

    def _end(self, trainer: RoleCheckpoints, figures: dict[str, Any]) -> Path:
        """Write `summary.json`."""
        summary = {
            "method": self.config.method,
            "steps": trainer.state.global_step,
            "best_step": trainer.state.best_global_step if self._evaluation else None,
            "environment_steps": self._played,
            **figures,
        }
        return self._run_dir(self._resuming).finish(summary)

    def _run_dir(self, resume: bool) -> TrainingDir:
        return TrainingDir(self.folder, self.on_record, resume=resume)

    def _begin_folder(self) -> TrainingDir:
        """Write `config.json` and drop the records of steps to repeat.

        Raises `UsageError` if another process works in the folder, or has since the check.
        """
        run_dir = self._run_dir(self._resuming).begin()
        if self._run_dir(True).find_checkpoint() != self._resume:
            raise UsageError(f"another process has worked in {self.folder} just now: repeat the command")
        drop_unfinished(self.folder / CHECKPOINTS)
        shutil.rmtree(self.folder / PUBLISHED, ignore_errors=True)
        first = self.begun_at + 1 if self._resume else 0
        for name in ("signals.jsonl", "refinements.jsonl", HELD_OUT):
            keep_before(self.folder / name, first)
        self._rollouts.drop_from(first)
        return run_dir

    def _figures(self, trainer: RoleCheckpoints) -> dict[str, Any] | None:
        """Evaluate the current weights on held-out tasks; None without evaluations."""
        if self._evaluation is None:
            return None
        trainer.evaluate()
        return self._evaluation.figures

    def _before(self, trainer: RoleCheckpoints) -> dict[str, Any] | None:
        """Return the figures of the initial weights; a resumed run reads them from the folder."""
        if not self._resume:
            return self._figures(trainer)
        first = next(iter(steps_in(self.folder / HELD_OUT)), None)
        return first and {name: value for name, value in first.items() if name != "step"}

    def _held_out_tasks(self, crew: RoleModels, evaluated: Callable[[int, dict[str, Any]], None]) -> HeldOut:
        config = self.config
        tasks = self._spec.tasks(self._held_out)
        chosen = Dice(f"held-out tasks {config.seed}").shuffled(tasks)[: config.evaluating.tasks]
        stage = self._stage(crew, self._held_out, config.evaluating.temperature)
        return HeldOut(SharedStage(stage), chosen, config.seed, self.folder / HELD_OUT, evaluated)

    def _trainer(self, crew: RoleModels, watch: Callable[[int, Signals], None]) -> RoleCheckpoints:
        config = self.config
        plain = self._stage(crew, self._split, config.collecting.temperature)
        stage = replace(plain, best_of=config.collecting.best_of)
        judge = play_judge(self._spec)

        def play(number: int) -> RolloutBatch:
            tasks = choose_tasks(number, self.tasks, self._tasks_a_batch, config.seed)
            return play_batch(config, tasks, stage.at_step(number), judge)

        def keep(number: int, batch: RolloutBatch) -> None:
            step = number * config.step.updates + 1
            budget.add(batch.steps)
            if not processes.is_first():
                return
            if batch.refinements:
                append(self.folder / "refinements.jsonl", {"step": step, "scores": batch.refinements})
            self._rollouts.keep(step, batch)

        alarm = ObstacleAlarm(config)
        budget = TurnBudget(config.environment_steps or 0, self._played)

        def observe(step: int, signals: Signals) -> None:
            if not processes.is_first():
                return
            append(self.folder / "signals.jsonl", {"step": step, **signals})
            watch(step, signals)
            for line in alarm.lines(step, signals):
                self._say(line)

        rates: dict[Role, float] = {
            "policy": config.optimising.lr,
            "critic": config.optimising.critic_lr or config.optimising.lr,
        }
        kind, arguments = self._engine()
        trainer: RoleCheckpoints = kind(
            crew.backbone,
            play,
            config.step,
            arguments,
            optimizer=build_optimizer(
                crew.backbone, rates, weight_decay=config.optimising.weight_decay, betas=config.optimising.betas
            ),
            publish=crew.publish,
            watch=observe,
            temperature=config.collecting.temperature,
            evaluation=self._evaluation,
            tokenizers=crew.tokenizers,
            callbacks=[
                *([EarlyStoppingCallback(config.evaluating.patience)] if config.evaluating.patience else []),
                *([budget] if config.environment_steps else []),
            ],
            last=self.folder / LAST,
            keep=keep,
            advantage=config.implementation.advantage,
        )
        return trainer

    def _engine(self) -> tuple[Callable[..., RoleCheckpoints], TrainingArguments]:
        """Return the class of the config's trainer and its arguments."""
        settings = run_settings(self.config, self.folder, self._last_step)
        if self.config.backend == "own":
            return partial(RoleTrainer, loss=self.config.implementation.loss), TrainingArguments(**settings)
        from align_echo.train.trl_trainer import TrlTrainer, grpo_arguments, plan_micro_batches

        plan = plan_micro_batches(self.config)
        return partial(TrlTrainer, plan=plan), grpo_arguments(self.config, plan, settings)

    @property
    def _played(self) -> int:
        """Number of turns played so far."""
        return played_before(self.folder / "signals.jsonl", self.config.step.updates)

    @property
    def _last_step(self) -> int:
        """Return the last step: no further step if a resumed run has spent its budget."""
        spent = self._played >= (self.config.environment_steps or math.inf)
        return self.begun_at if spent else self.config.steps

    def _stage(self, crew: RoleModels, split: str, temperature: float) -> LocalStage:
        """Build the stage of a split, with the crew's policy and critic."""
        config, spec, interface = self.config, self._spec, self._interface
        tools = tools_for(spec, crew.models["policy"]) if config.tools else None

        def agent(model: LocalModel) -> ChatAgent:
            player = Vanilla(model, temperature=temperature, max_tokens=config.collecting.reply_tokens)
            bounded = player.with_history(config.collecting.history)
            return bounded.with_tools(tools) if tools else bounded

        return LocalStage(
            make_env=lambda: spec.make(split, interface=interface, step_limit=config.collecting.turns),
            agent=agent,
            policy=crew.models["policy"],
            critic=crew.models["critic"],
            split=split,
            action_format=spec.action_format,
            form=FORMS.get(config.collecting.form),
            critic_temperature=config.collecting.temperature,
            critic_tokens=config.collecting.critique_tokens,
            rule=config.collecting.rule or default_rule(spec),
            workers=config.collecting.workers,
            parts=count_parts(config, torch.cuda.is_available()),
            stored=self.demonstrations.episodes if self.demonstrations else {},
        )
