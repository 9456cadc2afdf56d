"""A causal language model becomes a reasoning critic: GRPO on collected actions (GAIA's RCM, paper 3, section 4.3).

Of each action several reasoned verdicts are drawn and compared; what one earns is `rcm.verdict_reward`. A model that
does not know the form has nothing to compare, so it may begin with a warm start: reasons by template, made from the
labels, are imitated. On `train.trainer`: checkpoints, resume and shared prefixes are its own. Left out: where examples
come from (`collection.py`), playing while the critic learns (`train.methods.rcm`), and how good it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from align_echo.critic.labels import Rule
from align_echo.critic.reasoned_verdict import judge, reasoned_verdict_messages, write_reasoned_verdict
from align_echo.critic.verdict import Verdict
from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.gaia.examples import Example
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.prompts import render
from align_echo.runs import newest_checkpoint
from align_echo.tokens import TokenSequence
from align_echo.train.arguments import arguments_of
from align_echo.train.config import Lora, TrainConfig
from align_echo.train.crew import Crew
from align_echo.train.loss import Objective
from align_echo.train.method import Collecting
from align_echo.train.methods.rcm import compared
from align_echo.train.rows import Harvest, Row
from align_echo.train.signals import Signals
from align_echo.train.trainer import Recipe, RoleTrainer, StepSettings, optimizer_of
from align_echo.types import Frozen

AT_ONCE = 64
"""Replies that are drawn at once."""

Watch = Callable[[int, Signals], None]


class ReasoningSettings(Frozen, allow_inf_nan=False):
    """A warm start that imitates templated replies, and then GRPO."""

    weights: Literal["lora", "full"] = "lora"
    """LoRA on all linear layers, or all weights."""
    rank: int = Field(default=8, ge=1)
    """Of LoRA."""
    alpha: int = Field(default=32, ge=1)
    """Of LoRA: its scale is alpha / rank."""
    warm_examples: int = Field(default=400, ge=0)
    """Actions that are imitated first, once each; 0: none."""
    warm_batch: int = Field(default=16, ge=1)
    """Of them a step."""
    warm_lr: float = Field(default=1e-3, gt=0)
    """The warm start's rate."""
    steps: int = Field(default=40, ge=1)
    """Of GRPO."""
    states: int = Field(default=16, ge=2)
    """Actions a step, half of them correct."""
    samples: int = Field(default=8, ge=2)
    """Replies about each of them."""
    lr: float = Field(default=1e-4, gt=0)
    """GRPO's rate."""
    reply_tokens: int = Field(default=64, ge=1)
    """Of a reply; one that is cut off cannot be read, and longer ones are not imitated."""
    tokens_per_batch: int = Field(default=8192, ge=1)
    """Computed at once, padding too."""
    longest: int = Field(default=4096, ge=1)
    """Tokens of the longest conversation, with its reply."""
    bf16: bool = False
    """Mixed precision (bfloat16)."""
    seed: int = Field(default=0, ge=0)
    """Of every draw."""
    save_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""


def crew_config(model: str, settings: ReasoningSettings) -> TrainConfig:
    """What `train.crew.gather` loads: one model, whose critic learns."""
    lora = settings.weights == "lora"
    return TrainConfig(
        model=model,
        weights="adapters" if lora else "shared",
        trained=("critic",) if lora else ("policy", "critic"),
        collecting=Collecting(recipe="rcm", workers=AT_ONCE),
        lora=Lora(rank=settings.rank, alpha=settings.alpha),
        seed=settings.seed,
    )


def reason(example: Example, verdict: Verdict) -> str:
    """Why an action has its label, by template and from what the critic reads and the label knows."""
    sent = {message.content.strip() for message in example.messages if message.role == "assistant"}
    facts = {"action": example.action, "verdict": verdict, "explores": example.explores}
    return render("critic/reason", {**facts, "repeated": example.action in sent})


def demonstration(example: Example, verdict: Verdict, encoder: ChatEncoder) -> Row:
    """The question about an action and a reply as the critic would have sampled it, to be imitated."""
    question = encoder.opening(reasoned_verdict_messages(example.messages, example.action))
    reply = _reply(example, verdict, encoder)
    tokens = TokenSequence(
        ids=question + reply,
        mask=(0,) * len(question) + (1,) * len(reply),
        logprobs=(0.0,) * (len(question) + len(reply)),
        turns=((len(question), len(question) + len(reply)),),
    )
    return Row(tokens, "critic", example.key, 1.0, expert=True)


def _reply(example: Example, verdict: Verdict, encoder: ChatEncoder) -> tuple[int, ...]:
    text = write_reasoned_verdict(reason(example, verdict), verdict)
    return (*encoder.plain(text), encoder.end_id)


def fitting_examples(
    examples: Sequence[Example], encoder: ChatEncoder, *, longest: int, reply_tokens: int
) -> list[Example]:
    """Those whose conversation leaves room for a reply."""
    return [
        example
        for example in examples
        if len(encoder.opening(reasoned_verdict_messages(example.messages, example.action))) + reply_tokens
        <= longest
    ]


def labelled(examples: Sequence[Example], rule: Rule) -> list[tuple[Example, Verdict]]:
    """The examples that the rule labels, with their labels."""
    return [(example, label) for example in examples if (label := example.label(rule)) is not None]


def imitated(
    pairs: Sequence[tuple[Example, Verdict]], encoder: ChatEncoder, settings: ReasoningSettings
) -> list[tuple[Example, Verdict]]:
    """What the warm start shows, turn by turn: of a demonstration longer than `reply_tokens` the critic would learn a
    reply that is cut off when it is sampled, so such are left out. Raises `UsageError` where all are.
    """
    if not settings.warm_examples:
        return []
    fitting = (pair for pair in by_turn(pairs, settings.seed) if len(_reply(*pair, encoder)) <= settings.reply_tokens)
    shown = list(islice(fitting, settings.warm_examples))
    if not shown:
        raise UsageError(
            f"no demonstration fits into {settings.reply_tokens} tokens: set `reply_tokens`, or `warm_examples: 0`"
        )
    return shown


def learn_to_reason(
    crew: Crew,
    examples: Sequence[Example],
    rule: Rule,
    settings: ReasoningSettings,
    folder: Path,
    *,
    warm: Path,
    watch: Watch,
    watch_warm: Watch,
) -> None:
    """Train the crew's critic; checkpoints of the warm start go to `warm`, those of GRPO to `folder`.

    It goes on from the last checkpoint that is there. The engine has the weights of the end. Raises `UsageError` where
    a label has no example, or no demonstration fits.
    """
    pairs = labelled(examples, rule)
    if {label for _, label in pairs} != {"correct", "wrong"}:
        raise UsageError("there are not both correct and wrong actions to learn from")
    encoder = crew.models["critic"].encoder
    shown = [] if newest_checkpoint(folder) else imitated(pairs, encoder, settings)
    if shown:
        size = settings.warm_batch
        parts = [shown[start : start + size] for start in range(0, len(shown), size)]

        def imitate(number: int) -> Harvest:
            return Harvest(tuple(demonstration(example, label, encoder) for example, label in parts[number]))

        imitating = StepSettings(
            objective=Objective(expert="likelihood"),
            advantage="reward",
            normalisation="token",
            tokens_per_batch=settings.tokens_per_batch,
        )
        _train(crew, imitate, imitating, settings, warm, steps=len(parts), lr=settings.warm_lr, watch=watch_warm)

    def compare(number: int) -> Harvest:
        return judged(crew.models["critic"], states_at(number, pairs, settings), settings)

    comparing = StepSettings(tokens_per_batch=settings.tokens_per_batch)
    _train(crew, compare, comparing, settings, folder, steps=settings.steps, lr=settings.lr, watch=watch)
    crew.publish()


def by_turn(pairs: Sequence[tuple[Example, Verdict]], seed: int) -> list[tuple[Example, Verdict]]:
    """Turns in an order by the seed, actions of a turn together: what was read before them is then computed once."""
    pairs_of: dict[str, list[tuple[Example, Verdict]]] = {}
    for example, label in pairs:
        pairs_of.setdefault(f"{example.task_id} {example.sample} {example.round} {example.turn}", []).append(
            (example, label)
        )
    return [pair for turn in Dice(f"warm start {seed}").shuffled(sorted(pairs_of)) for pair in pairs_of[turn]]


class JudgedAction(NamedTuple):
    """An action that is judged, and in which lap over those of its label: from 0."""

    example: Example
    label: Verdict
    lap: int


def states_at(
    harvest: int, pairs: Sequence[tuple[Example, Verdict]], settings: ReasoningSettings
) -> list[JudgedAction]:
    """The actions of a harvest: laps over the correct and over the wrong ones, each lap in an order of its own.

    With fewer actions of a label than a harvest takes one comes several times, each time in another lap.
    """
    wrong = settings.states // 2
    counts: dict[Verdict, int] = {"correct": settings.states - wrong, "wrong": wrong}
    drawn: list[JudgedAction] = []
    for verdict, count in counts.items():
        pool = [example for example, label in pairs if label == verdict]
        first, last = harvest * count, (harvest + 1) * count
        for lap in range(first // len(pool), (last - 1) // len(pool) + 1):
            order = Dice(f"states {settings.seed} {verdict} {lap}").shuffled(pool)
            begin = lap * len(pool)
            drawn += [JudgedAction(chosen, verdict, lap) for chosen in order[max(first - begin, 0) : last - begin]]
    return drawn


def judged(model: LocalModel, drawn: Sequence[JudgedAction], settings: ReasoningSettings) -> Harvest:
    """Every action judged so often, replies about one action a group. Draws of other laps are others."""
    requests = [
        (f"{index} {example.key}", example, label, lap * settings.samples + sample)
        for index, (example, label, lap) in enumerate(drawn)
        for sample in range(settings.samples)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judgements = list(
            pool.map(
                lambda of: judge(
                    model, of[1].messages, of[1].action, sample=of[3], max_tokens=settings.reply_tokens
                ),
                requests,
            )
        )
    answers = zip(requests, judgements, strict=True)
    rows, counts = compared([(group, label, judgement) for (group, _, label, _), judgement in answers])
    return Harvest(rows=rows, counts=counts)


def _train(
    crew: Crew,
    recipe: Recipe,
    step: StepSettings,
    settings: ReasoningSettings,
    folder: Path,
    *,
    steps: int,
    lr: float,
    watch: Watch,
) -> None:
    arguments = arguments_of(
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
        optimizer=optimizer_of(crew.backbone, {"policy": lr, "critic": lr}),
        publish=crew.publish,
        watch=watch,
    )
    trainer.train(resume_from_checkpoint=newest_checkpoint(folder) or None)
