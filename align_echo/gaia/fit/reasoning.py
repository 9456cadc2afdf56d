"""Train a reasoning critic: collections in, a critic that writes a reason and then a verdict out.

The folder is that of `folder.py`, with `warm/` and `signals.jsonl` (a step of GRPO each). Not here: the learning steps
(`reasoning_steps.py`), and probabilities: such a critic has no temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.critic.calibration import LabelledVerdict, report
from align_echo.critic.drawn import write_sampling
from align_echo.critic.labels import Rule
from align_echo.critic.reasoning import AT_ONCE, ReasoningCritic
from align_echo.files import write_atomically
from align_echo.gaia.examples import LEAST_ACTIONS, ActionExample, check_both, check_enough, describe_left_out
from align_echo.gaia.fit.folder import (
    SIGNALS,
    WARM,
    check_disk,
    check_finite,
    check_folder,
    open_folder,
    partial_folder,
    publish_critic,
    training_config,
)
from align_echo.gaia.fit.intuitive import TrainingSummary, save_critic
from align_echo.gaia.lessons import TrainingData, prepare_training_data
from align_echo.models.names import POCKET, ModelName, read_name
from align_echo.progress import SILENT, Progress
from align_echo.train.needs import require_reports, require_training

if TYPE_CHECKING:
    from align_echo.gaia.fit.reasoning_steps import ReasoningSettings
    from align_echo.train.crew import RoleModels
    from align_echo.train.signals import Signals

PROGRESS_EVERY = 5
"""Steps between two progress lines."""


def fit_reasoning(
    collections: Sequence[Path],
    path: Path,
    *,
    model: str | ModelName = POCKET,
    rule: Rule | None = None,
    settings: ReasoningSettings | None = None,
    share: float = 0.1,
    least: int = LEAST_ACTIONS,
    resume: bool = False,
    progress: Progress = SILENT,
) -> TrainingSummary:
    """Train a reasoning critic on collections with a `share` of tasks held out.

    Raises `UsageError` as `fit` does, before it touches the folder.
    """
    require_training()
    require_reports()
    from align_echo.gaia.fit.reasoning_steps import (
        ReasoningSettings,
        choose_demonstrations,
        crew_config,
        fitting_examples,
        select_labelled,
    )
    from align_echo.train.backbone import ROLES
    from align_echo.train.crew import find_source, gather

    settings = settings or ReasoningSettings()
    name = read_name(model)
    source = find_source(name)
    lessons = prepare_training_data(collections, share, rule, seed=settings.seed)
    record = training_config(lessons, name, source, share, ["critic/reasoned_verdict", "critic/reason"], settings)
    check_folder(path, record, resume=resume)
    if not resume:
        check_disk(path, source, settings.weights)
    crew = gather(crew_config(name.text, settings), dict.fromkeys(ROLES, source))
    try:
        critic = crew.models["critic"]
        longest = min(settings.longest, critic.engine.context)
        room = {"longest": longest, "reply_tokens": settings.reply_tokens}
        learned = fitting_examples(lessons.learned, critic.encoder, **room)
        tested = fitting_examples(lessons.tested, critic.encoder, **room)
        check_both({example.label(lessons.rule) for example in learned}, longest)
        if lessons.tested:
            check_both({example.label(lessons.rule) for example in tested}, longest)
        too_long = len(lessons.learned) + len(lessons.tested) - len(learned) - len(tested)
        left_out = lessons.left_out | {"too long": too_long}
        check_enough(len(learned), least, left_out)
        choose_demonstrations(select_labelled(learned, lessons.rule), critic.encoder, settings)
        lock = open_folder(path, record, resume=resume)
        held_out = f"{len(tested):,} held out; {describe_left_out(left_out)}"
        progress.say(f"learning from {len(learned):,} actions by the rule {lessons.rule!r}; {held_out}")
        _learn(path, crew, learned, lessons.rule, settings, progress)
        fitted = _finish(path, crew, source, settings, lessons, learned, tested, too_long)
        lock.close()
    finally:
        crew.close()
    return fitted


def _learn(
    path: Path,
    crew: RoleModels,
    learned: Sequence[ActionExample],
    rule: Rule,
    settings: ReasoningSettings,
    progress: Progress,
) -> None:
    from align_echo.gaia.fit.reasoning_steps import learn_to_reason
    from align_echo.runs import CHECKPOINTS, checkpoint_step, newest_checkpoint
    from align_echo.train.run_folder import append, keep_before

    done, warmed_up = (checkpoint_step(newest_checkpoint(path / part)) for part in (CHECKPOINTS, WARM))
    if done or warmed_up:
        progress.say(f"going on after step {done}" if done else f"going on after step {warmed_up} of the warm start")
    keep_before(path / SIGNALS, done + 1)

    def tell(step: int, signals: Signals) -> None:
        append(path / SIGNALS, {"step": step, **signals})
        if step % PROGRESS_EVERY == 0:
            unread = f"{signals.get('count/unread_verdicts', 0):g} unread of {signals['rows']:g}"
            progress.say(f"step {step}/{settings.steps}: reward {signals.get('critic/reward', 0):.3f}, {unread}")

    def warmed(step: int, signals: Signals) -> None:
        if step % PROGRESS_EVERY == 0:
            progress.say(f"warm start, step {step}: loss {signals.get('critic/loss', 0):.3f}")

    learn_to_reason(
        crew,
        learned,
        rule,
        settings,
        path / CHECKPOINTS,
        warm=path / WARM,
        watch=tell,
        watch_warm=warmed,
    )


def _finish(
    path: Path,
    crew: RoleModels,
    source: str,
    settings: ReasoningSettings,
    lessons: TrainingData,
    learned: Sequence[ActionExample],
    tested: Sequence[ActionExample],
    too_long: int,
) -> TrainingSummary:
    reasoner = ReasoningCritic(crew.models["critic"], max_tokens=settings.reply_tokens)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        scored = pool.map(lambda example: reasoner.score(example.messages, [example.action]), tested)
        opinions = [score for (score,) in scored]
    rows = [
        LabelledVerdict(example.task_id, example.action_type, example.label(lessons.rule) or "wrong", score.verdict)
        for example, score in zip(tested, opinions, strict=True)
    ]
    folder = partial_folder(path)
    learner: Any = crew.backbone.activate("critic")
    if settings.weights == "lora":
        crew.backbone.save("critic", folder / "adapter")
        learner = learner.merge_and_unload(adapter_names=["critic"])
    check_finite(learner)
    save_critic(learner, source, folder)
    write_sampling(lessons.drawn, folder)
    publish_critic(folder)
    fitted = TrainingSummary(
        rule=lessons.rule,
        learned_from=len(learned),
        tasks=len({example.task_id for example in learned}),
        too_long=too_long,
        duplicates=lessons.duplicates,
        unlabelled=lessons.unlabelled,
        unbalanced=lessons.unbalanced,
        temperature=1.0,
        held_out=report(rows, 1.0, seed=settings.seed) if rows else None,
    )
    write_atomically(path / "summary.json", fitted.model_dump_json(indent=2) + "\n")
    return fitted
