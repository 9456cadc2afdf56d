"""Train a reasoning critic: collections in, a critic that writes a reason and then a verdict out.

The folder is that of `folder.py`, with `warm/` and `signals.jsonl` (a step of GRPO each). Not here: probabilities: such
a critic has no temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field

from align_echo.base.dice import Dice
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import (
    ActionQuestion,
    Critic,
    Label,
    ask,
    reasoned_verdict_messages,
    write_reasoned_verdict,
    write_sampling,
)
from align_echo.critic.calibration import LabelledVerdict, report
from align_echo.errors import UsageError
from align_echo.gaia.examples import LEAST_ACTIONS, ActionExample, check_both, check_enough, describe_left_out
from align_echo.gaia.fit.folder import (
    SIGNALS,
    WARM,
    CriticDir,
    check_disk,
    check_finite,
    partial_folder,
    publish_critic,
    training_config,
)
from align_echo.gaia.fit.intuitive import TrainingSummary, save_critic
from align_echo.gaia.verdicts import TrainingData, prepare_training_data
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local import POCKET
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.memory import POOL
from align_echo.prompts import render
from align_echo.run_dir import newest_checkpoint
from align_echo.tokens import TokenSequence
from align_echo.train.arguments import build_arguments
from align_echo.train.config import LoraSettings, TrainConfig
from align_echo.train.method import CollectingSettings
from align_echo.train.methods.rcm import compared
from align_echo.train.needs import require_training
from align_echo.train.objective import ObjectiveSettings
from align_echo.train.role_models import RoleModels
from align_echo.train.rows import RolloutBatch, Row
from align_echo.train.signals import Signals
from align_echo.train.trainer import PlayFunction, RoleTrainer, StepSettings, build_optimizer
from align_echo.types import Frozen

PROGRESS_EVERY = 5
"""Steps between two progress lines."""


def fit_reasoning(
    collections: Sequence[Path],
    path: Path,
    *,
    model: str | ModelName = POCKET,
    rule: str | None = None,
    settings: ReasoningSettings | None = None,
    share: float = 0.1,
    least: int = LEAST_ACTIONS,
    resume: bool = False,
    progress: Progress = SILENT,
) -> TrainingSummary:
    """Train a reasoning critic on collections with a `share` of tasks held out.

    Raises `UsageError` as `fit` does, and for a model that does not fit into the memory, before it touches the folder.
    """
    require_training()
    from align_echo.train.backbone import ROLES
    from align_echo.train.role_models import find_source, gather

    name = read_name(model)
    source = find_source(name)
    settings = _with_tokens(settings or ReasoningSettings(), name.text, source, path if resume else None)
    lessons = prepare_training_data(collections, share, rule, seed=settings.seed)
    record = training_config(lessons, name, source, share, ["critic/reasoned_verdict", "critic/reason"], settings)
    run_dir = CriticDir(path, record, resume=resume)
    run_dir.check()
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
        with run_dir:
            held_out = f"{len(tested):,} held out; {describe_left_out(left_out)}"
            progress.say(f"learning from {len(learned):,} actions by the rule {lessons.rule!r}; {held_out}")
            _learn(path, crew, learned, lessons.rule, settings, progress)
            fitted = _finish(run_dir, crew, source, settings, lessons, learned, tested, too_long)
    finally:
        crew.close()
    return fitted


def _with_tokens(settings: ReasoningSettings, model: str, source: str, resumed: Path | None) -> ReasoningSettings:
    """Return the settings with a number of tokens at once: as given, on record in the folder, or the most that fit.

    Raises `UsageError` if the model does not fit into the memory.
    """
    from align_echo.train.backbone import ROLES
    from align_echo.train.obstacles import estimate
    from align_echo.train.run_folder import tokens_on_record

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if settings.tokens_per_batch is None and resumed:
        settings = settings.model_copy(update={"tokens_per_batch": tokens_on_record(resumed, ("settings",))})
    cost = estimate(crew_config(model, settings), dict.fromkeys(ROLES, source), POOL.limit(device))
    cost.check_memory(POOL, device)
    return settings.model_copy(update={"tokens_per_batch": cost.tokens_per_batch})


def _learn(
    path: Path,
    crew: RoleModels,
    learned: Sequence[ActionExample],
    rule: str,
    settings: ReasoningSettings,
    progress: Progress,
) -> None:
    from align_echo.run_dir import CHECKPOINTS, checkpoint_step, newest_checkpoint
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
    run_dir: CriticDir,
    crew: RoleModels,
    source: str,
    settings: ReasoningSettings,
    lessons: TrainingData,
    learned: Sequence[ActionExample],
    tested: Sequence[ActionExample],
    too_long: int,
) -> TrainingSummary:
    critic = Critic(crew.models["critic"], votes=1, max_tokens=settings.reply_tokens)
    verdicts = ask(critic, [ActionQuestion(example.messages, example.action) for example in tested])
    rows = [
        LabelledVerdict(example.task_id, example.action_type, example.label(lessons.rule) or "wrong", verdict.label)
        for example, verdict in zip(tested, verdicts, strict=True)
    ]
    folder = partial_folder(run_dir.path)
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
    run_dir.finish(fitted)
    return fitted


# ---------------------------------------------------------------- train a causal language model as a reasoning critic

STEPS_AT_ONCE = 64
"""Most replies sampled in parallel."""

Watch = Callable[[int, Signals], None]


class ReasoningSettings(Frozen, allow_inf_nan=False):
    """Settings of a warm start by imitation of templated replies, and of GRPO after it."""

    weights: Literal["lora", "full"] = "lora"
    """LoRA on all linear layers, or all weights."""
    rank: int = Field(default=8, ge=1)
    """Rank of LoRA."""
    alpha: int = Field(default=32, ge=1)
    """Alpha of LoRA: its scale is alpha / rank."""
    warm_examples: int = Field(default=400, ge=0)
    """Actions to imitate first, once each; 0: none."""
    warm_batch: int = Field(default=16, ge=1)
    """Imitated actions a step."""
    warm_lr: float = Field(default=1e-3, gt=0)
    """Learning rate of the warm start."""
    steps: int = Field(default=40, ge=1)
    """Steps of GRPO."""
    states: int = Field(default=16, ge=2)
    """Actions a step, half of them correct."""
    samples: int = Field(default=8, ge=2)
    """Replies about each action."""
    lr: float = Field(default=1e-4, gt=0)
    """Learning rate of GRPO."""
    reply_tokens: int = Field(default=64, ge=1)
    """Most tokens of a reply; a reply cut off is unreadable, and longer ones are not imitated."""
    tokens_per_batch: int | None = Field(default=None, ge=1)
    """Tokens computed at once, as `step.tokens_per_batch` of `train`."""
    longest: int = Field(default=4096, ge=1)
    """Most tokens of a conversation with its reply."""
    bf16: bool = False
    """Mixed precision (bfloat16)."""
    seed: int = Field(default=0, ge=0)
    """Seed of all random draws."""
    save_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""


def crew_config(model: str, settings: ReasoningSettings) -> TrainConfig:
    """Return the config for `train.role_models.gather`: one model, trained as the critic."""
    lora = settings.weights == "lora"
    return TrainConfig(
        model=model,
        weights="adapters" if lora else "shared",
        trained=("critic",) if lora else ("policy", "critic"),
        method="rcm",
        collecting=CollectingSettings(workers=STEPS_AT_ONCE),
        step=StepSettings(tokens_per_batch=settings.tokens_per_batch),
        lora=LoraSettings(rank=settings.rank, alpha=settings.alpha),
        seed=settings.seed,
    )


def reason(example: ActionExample, verdict: Label) -> str:
    """Write a reason for an action's label from a template, the conversation and the label's facts."""
    sent = {message.content.strip() for message in example.messages if message.role == "assistant"}
    facts = {"action": example.action, "verdict": verdict, "explores": example.explores}
    return render("critic/reason", {**facts, "repeated": example.action in sent})


def demonstration(example: ActionExample, verdict: Label, encoder: ChatEncoder) -> Row:
    """Encode the question about an action and the reply to imitate, as if the critic had sampled it."""
    question = encoder.opening(reasoned_verdict_messages(example.messages, example.action))
    reply = _reply(example, verdict, encoder)
    tokens = TokenSequence(
        ids=question + reply,
        mask=(0,) * len(question) + (1,) * len(reply),
        logprobs=(0.0,) * (len(question) + len(reply)),
        turns=((len(question), len(question) + len(reply)),),
    )
    return Row(tokens, "critic", example.key, 1.0, expert=True)


def _reply(example: ActionExample, verdict: Label, encoder: ChatEncoder) -> tuple[int, ...]:
    text = write_reasoned_verdict(reason(example, verdict), verdict)
    return (*encoder.plain(text), encoder.end_id)


def fitting_examples(
    examples: Sequence[ActionExample], encoder: ChatEncoder, *, longest: int, reply_tokens: int
) -> list[ActionExample]:
    """Keep the examples whose conversation leaves room for a reply."""
    return [
        example
        for example in examples
        if len(encoder.opening(reasoned_verdict_messages(example.messages, example.action))) + reply_tokens <= longest
    ]


def select_labelled(examples: Sequence[ActionExample], rule: str) -> list[tuple[ActionExample, Label]]:
    """Return the examples labelled by the rule, with their labels."""
    return [(example, label) for example in examples if (label := example.label(rule)) is not None]


def choose_demonstrations(
    pairs: Sequence[tuple[ActionExample, Label]], encoder: ChatEncoder, settings: ReasoningSettings
) -> list[tuple[ActionExample, Label]]:
    """Choose the demonstrations of the warm start, turn by turn. Demonstrations longer than `reply_tokens` are left
    out, since the critic's replies would be cut off.

    Raises `UsageError` if none fits.
    """
    if not settings.warm_examples:
        return []
    fitting = (pair for pair in by_turn(pairs, settings.seed) if len(_reply(*pair, encoder)) <= settings.reply_tokens)
    demonstrations = list(islice(fitting, settings.warm_examples))
    if not demonstrations:
        raise UsageError(
            f"no demonstration fits into {settings.reply_tokens} tokens: set `reply_tokens`, or `warm_examples: 0`"
        )
    return demonstrations


def learn_to_reason(
    crew: RoleModels,
    examples: Sequence[ActionExample],
    rule: str,
    settings: ReasoningSettings,
    folder: Path,
    *,
    warm: Path,
    watch: Watch,
    watch_warm: Watch,
) -> None:
    """Train the crew's critic; checkpoints of the warm start go to `warm`, those of GRPO to `folder`.

    It continues from the last checkpoint, and the engine gets the final weights. Raises `UsageError` if a label has no
    example, or no demonstration fits.
    """
    pairs = select_labelled(examples, rule)
    if {label for _, label in pairs} != {"correct", "wrong"}:
        raise UsageError("there are not both correct and wrong actions to learn from")
    encoder = crew.models["critic"].encoder
    demonstrations = [] if newest_checkpoint(folder) else choose_demonstrations(pairs, encoder, settings)
    if demonstrations:
        size = settings.warm_batch
        parts = [demonstrations[start : start + size] for start in range(0, len(demonstrations), size)]

        def imitate(number: int) -> RolloutBatch:
            return RolloutBatch(tuple(demonstration(example, label, encoder) for example, label in parts[number]))

        imitating = StepSettings(
            objective=ObjectiveSettings(expert="likelihood"),
            advantage="reward",
            normalisation="token",
            tokens_per_batch=settings.tokens_per_batch,
        )
        _train(crew, imitate, imitating, settings, warm, steps=len(parts), lr=settings.warm_lr, watch=watch_warm)

    def compare(number: int) -> RolloutBatch:
        return judge_actions(crew.models["critic"], states_at(number, pairs, settings), settings)

    comparing = StepSettings(tokens_per_batch=settings.tokens_per_batch)
    _train(crew, compare, comparing, settings, folder, steps=settings.steps, lr=settings.lr, watch=watch)
    crew.publish()


def by_turn(pairs: Sequence[tuple[ActionExample, Label]], seed: int) -> list[tuple[ActionExample, Label]]:
    """Shuffle turns by the seed, with the actions of a turn together, so that their shared history is computed once."""
    pairs_by_turn: dict[str, list[tuple[ActionExample, Label]]] = {}
    for example, label in pairs:
        pairs_by_turn.setdefault(f"{example.task_id} {example.sample} {example.round} {example.turn}", []).append(
            (example, label)
        )
    return [pair for turn in Dice(f"warm start {seed}").shuffled(sorted(pairs_by_turn)) for pair in pairs_by_turn[turn]]


class JudgedAction(NamedTuple):
    """An action to judge, with the number of the pass over the actions of its label, from 0."""

    example: ActionExample
    label: Label
    lap: int


def states_at(
    number: int, pairs: Sequence[tuple[ActionExample, Label]], settings: ReasoningSettings
) -> list[JudgedAction]:
    """Choose the actions of a step: passes over the correct and over the wrong ones, each pass in its own order.

    With fewer actions of a label than a step needs, an action occurs several times, each time in another pass.
    """
    wrong = settings.states // 2
    counts: dict[Label, int] = {"correct": settings.states - wrong, "wrong": wrong}
    actions: list[JudgedAction] = []
    for verdict, count in counts.items():
        pool = [example for example, label in pairs if label == verdict]
        first, last = number * count, (number + 1) * count
        for lap in range(first // len(pool), (last - 1) // len(pool) + 1):
            order = Dice(f"states {settings.seed} {verdict} {lap}").shuffled(pool)
            begin = lap * len(pool)
            actions += [JudgedAction(chosen, verdict, lap) for chosen in order[max(first - begin, 0) : last - begin]]
    return actions


def judge_actions(model: LocalModel, actions: Sequence[JudgedAction], settings: ReasoningSettings) -> RolloutBatch:
    """Sample `samples` verdicts for every action, in a group per action. Another pass draws other replies."""
    requests = [
        (f"{index} {example.key}", example, label, lap * settings.samples + sample)
        for index, (example, label, lap) in enumerate(actions)
        for sample in range(settings.samples)
    ]
    critic = Critic(model, votes=1, draws_at=1.0, max_tokens=settings.reply_tokens)
    questions = [ActionQuestion(example.messages, example.action, sample) for _, example, _, sample in requests]
    answers = zip(requests, ask(critic, questions, threads=STEPS_AT_ONCE), strict=True)
    rows, counts = compared([(group, label, verdict) for (group, _, label, _), verdict in answers])
    return RolloutBatch(rows=rows, counts=counts)


def _train(
    crew: RoleModels,
    recipe: PlayFunction,
    step: StepSettings,
    settings: ReasoningSettings,
    folder: Path,
    *,
    steps: int,
    lr: float,
    watch: Watch,
) -> None:
    arguments = build_arguments(
        folder,
        steps=steps,
        lr=lr,
        schedule="constant",
        bf16=settings.bf16,
        seed=settings.seed,
        log_every=1,
        save_every=settings.save_every,
    )
    trainer = RoleTrainer(
        crew.backbone,
        recipe,
        step,
        arguments,
        optimizer=build_optimizer(crew.backbone, {"policy": lr, "critic": lr}),
        publish=crew.publish,
        watch=watch,
    )
    trainer.train(resume_from_checkpoint=newest_checkpoint(folder) or None)
