"""Reasons why a step taught nothing, from its signals, in plain words with advice.

`obstacles` is a pure function of the signals; `ObstacleAlarm` decides when to repeat a warning. Not here: measuring
(`signals.py`), and runs that learn slowly.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from align_echo.errors import UsageError
from align_echo.models.local.loading import read_checked_files, source_memory
from align_echo.models.local.memory import MIB, MemoryPool, ModelMemory, learning_activations, size_text
from align_echo.rollout.faults import BROKE
from align_echo.train.backbone import ROLES
from align_echo.train.batching import BATCH_TOKENS
from align_echo.train.config import LoraSettings, TrainConfig
from align_echo.train.role_models import build_lora_config
from align_echo.train.rows import Role
from align_echo.train.signals import Signals
from align_echo.wrappers.catalogue import environment

NEARLY_ALL = 0.95
"""Share of replies or episodes treated as all of them."""

STEPS_IN_A_ROW = 2
"""Consecutive steps with equal rewards before a warning: a single step may be chance."""

REPEAT_AFTER = 25
"""Steps before the warning of a persistent obstacle is repeated."""


@dataclass(frozen=True)
class LearningObstacle:
    """A reason why nothing was learned: `fact` is the measurement and `advice` the change to make, in words.

    `kind` is the same whatever the figures. A `certain` obstacle cannot be the chance of a single step.
    """

    kind: str
    fact: str
    advice: str
    certain: bool = False


def obstacles(step: int, signals: Signals, config: TrainConfig) -> list[LearningObstacle]:
    """List the reasons why a step taught nothing; empty if it taught something. Root causes only, no consequences."""
    checks = (_broken(signals, config), _unreadable_replies(signals, config), _unreadable_critiques(signals, config))
    first_causes = [obstacle for obstacle in checks if obstacle is not None]
    if first_causes:
        return first_causes
    without_rows = _without_rows(signals, config)
    if without_rows:
        return [without_rows]
    if nothing_differs(signals) and config.implementation.loss is None:
        return [_equal_rewards(signals, config)]
    return _without_gradient(step, signals, config)


def nothing_differs(signals: Signals) -> bool:
    """Return whether each group has equal rewards or a single one; False for rewards without groups."""
    groups = signals.get("groups", 0)
    equal = round(signals.get("zero_variance_share", 0) * groups)
    return groups > 0 and equal + signals.get("singleton_groups", 0) >= groups


class ObstacleAlarm:
    """The warnings of a run. Each obstacle is reported once, then every `REPEAT_AFTER` steps, and when it is over."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._patience = min(STEPS_IN_A_ROW, config.steps)
        self._in_a_row = 0
        self._last_warning: dict[str, int] = {}
        self._facts: dict[str, str] = {}

    def lines(self, step: int, signals: Signals) -> list[str]:
        """Return the lines to print after a step with these signals."""
        new_obstacles = obstacles(step, signals, self._config)
        if not new_obstacles:
            return self._ended(step)
        self._in_a_row += 1
        due = [obstacle for obstacle in new_obstacles if self._is_due(step, obstacle)]
        for obstacle in due:
            self._last_warning[obstacle.kind] = step
            self._facts[obstacle.kind] = obstacle.fact
        return [f"warning: step {step}: nothing can be learned: {known.fact}: {known.advice}" for known in due]

    def _is_due(self, step: int, obstacle: LearningObstacle) -> bool:
        if not obstacle.certain and self._in_a_row < self._patience:
            return False
        return step - self._last_warning.get(obstacle.kind, -REPEAT_AFTER) >= REPEAT_AFTER

    def _ended(self, step: int) -> list[str]:
        over = "; ".join(self._facts.values())
        self._in_a_row = 0
        self._last_warning.clear()
        self._facts.clear()
        return [f"step {step}: there is something to learn again (before: {over})"] if over else []


# ---------------------------------------------------------------- first causes


def _broken(signals: Signals, config: TrainConfig) -> LearningObstacle | None:
    """Check for a fault in every episode."""
    by_source = {source: signals.get(f"count/{source}_faults", 0) for source in BROKE}
    episodes = signals.get("episodes", 0)
    if not episodes or sum(by_source.values()) < episodes:
        return None
    source = max(by_source, key=lambda name: by_source[name])
    see = "rollouts/ holds what it said (`fault`)" if config.rollouts.episodes else "set rollouts.episodes to see it"
    fact = f"all {episodes:g} episodes broke ({BROKE[source]})"
    return LearningObstacle("broken", fact, f"{see}, and align-echo doctor what is missing", certain=True)


def _unreadable_replies(signals: Signals, config: TrainConfig) -> LearningObstacle | None:
    """Check for replies of the policy without an action, nearly all of them."""
    share = signals.get("policy/no_action_share", 0)
    if share < NEARLY_ALL:
        return None
    fact = f"{share:.0%} of the policy's replies held no action"
    if signals.get("policy/cut_share", 0) >= NEARLY_ALL:
        fact += ", as they were cut off"
        return LearningObstacle("unreadable", fact, f"raise {_now(config, 'reply_tokens')}", certain=True)
    start = "take a --model that knows the action format, or teach it one first (--method sft)"
    return LearningObstacle("unreadable", fact, f"{start}; {_now(config, 'reply_tokens')} may be too few", certain=True)


def _unreadable_critiques(signals: Signals, config: TrainConfig) -> LearningObstacle | None:
    """Check for a critic without readable replies and a policy without any other attempt to learn from."""
    outcomes = ("lost", "won")
    asked = sum(signals.get(f"count/critiques_of_{outcome}_attempts", 0) for outcome in outcomes)
    unread = sum(signals.get(f"count/unread_critiques_of_{outcome}_attempts", 0) for outcome in outcomes)
    cut = sum(signals.get(f"count/cut_critiques_of_{outcome}_attempts", 0) for outcome in outcomes)
    verdicts = signals.get("count/unread_verdicts", 0)
    room = f"raise {_now(config, 'critique_tokens')}"
    if verdicts and verdicts >= signals.get("rows", 0):
        advice = f"teach the critic its form first (align-echo critic train --reasoning), or {room}"
        return LearningObstacle("unread verdicts", "no verdict of the critic could be read", advice, certain=True)
    policy_learns = "policy" in config.trained and "policy/reward" in signals
    if not asked or unread < asked or policy_learns:
        return None
    fact = f"none of {asked:g} critiques could be read"
    if cut >= NEARLY_ALL * asked:
        return LearningObstacle("unread critiques", f"{fact}, as they were cut off", room, certain=True)
    advice = f"take a critic that knows its form (critic: FOLDER, or another --model), or {room}"
    advice += "; critiques/ has the problem of each"
    return LearningObstacle("unread critiques", fact, advice, certain=True)


def _without_rows(signals: Signals, config: TrainConfig) -> LearningObstacle | None:
    """Check for a step without rows of a trained role."""
    if any(f"{role}/reward" in signals for role in config.trained):
        return None
    turns = _now(config, "turns")
    if signals.get("count/failed_lessons", 0):
        return LearningObstacle(
            "no rows", "the environment's expert won none of the tasks", f"raise {turns}", certain=True
        )
    if signals.get("count/too_long_demonstrations", 0):
        longer = "take a --model with a longer context"
        return LearningObstacle("no rows", "no stored episode fits into the model's context", longer, certain=True)
    if signals.get("policy/context_limit_share", 0) >= NEARLY_ALL:
        advice = "take a --model with a longer context, or an --interface with fewer rules"
        return LearningObstacle("no rows", "no task fits into the model's context", advice, certain=True)
    advice = "the counts in signals.jsonl (count/...) tell what could not be used"
    return LearningObstacle("no rows", "there was no episode or reply to learn from", advice, certain=True)


# ---------------------------------------------------------------- equal rewards, and no gradient


def _equal_rewards(signals: Signals, config: TrainConfig) -> LearningObstacle:
    """Describe equal rewards of all samples of each task."""
    roles = [role for role in config.trained if f"{role}/reward" in signals]
    role = roles[0]
    reward = signals[f"{role}/reward"]
    constant = all(signals.get(f"{name}/reward_std", 0) == 0 for name in roles)
    cut_short = _cut_short(signals, config)
    facts, advice = [fact for fact, _ in cut_short], [change for _, change in cut_short if change]
    if constant and role == "policy" and reward >= 1:
        harder = "take harder tasks (task_types, split), or end the run"
        return LearningObstacle("all won", "every task was won by every sample", harder)
    samples = f"more samples a task ({_now(config, 'samples')})"
    if constant and role == "policy" and reward == 0:
        fact = "every task was lost by every sample"
        ways = ["easier tasks (task_types)", "a stronger start (--model, or what --method sft trained)"]
        ways += ["an --interface"] if config.interface == "none" else []
        return LearningObstacle("all lost", _joined([fact, *facts]), _either([*advice, _choice([*ways, samples])]))
    fact = f"every reward of the {role} was {reward:.3g}" if constant else "all samples of a task earned the same"
    ways = [samples, f"more tasks a step ({_now(config, 'tasks')})"]
    ways += [f"more varied replies ({_now(config, 'temperature')})"]
    kind = "constant" if constant else "equal"
    return LearningObstacle(kind, _joined([fact, *facts]), _either([*advice, _choice(ways)]))


def _cut_short(signals: Signals, config: TrainConfig) -> list[tuple[str, str]]:
    """List limits met by nearly all episodes or replies, as (fact, advice); the advice may be empty."""
    turns = config.collecting.turns
    limit = f"their limit of {turns} turns" if turns else "the environment's limit of turns"
    raised = f"raise {_now(config, 'turns')}" if turns else ""
    outgrown = "take a --model with a longer context"
    outgrown += f", or fewer turns ({_now(config, 'turns')})" if turns else ", or set collecting.turns"
    limits = {
        "policy/turn_limit_share": (f"nearly all episodes ended at {limit}", raised),
        "policy/context_limit_share": ("nearly all episodes outgrew the model's context", outgrown),
        "policy/cut_share": ("nearly all replies were cut off", f"raise {_now(config, 'reply_tokens')}"),
    }
    return [words for name, words in limits.items() if signals.get(name, 0) >= NEARLY_ALL]


def _without_gradient(step: int, signals: Signals, config: TrainConfig) -> list[LearningObstacle]:
    """Check for a zero gradient although rewards differ."""
    updates = config.step.updates
    waiting = "policy" if (step - 1) // updates * updates < config.step.critic_warmup else ""
    norms = {role: signals.get(f"{role}/grad_norm") for role in config.trained if role != waiting}
    still = [role for role, norm in norms.items() if norm == 0]
    if not still or any(norms.values()):
        return []
    fact = f"the gradient of the {' and of the '.join(still)} is 0 although rewards differ"
    if any(signals.get(f"{role}/clip_share", 0) >= NEARLY_ALL for role in still):
        advice = "lower step.updates or the rate (optimising.lr), or widen step.objective.clip_low and clip_high"
        return [LearningObstacle("no gradient", f"{fact}, as every ratio is clipped", advice)]
    return [LearningObstacle("no gradient", fact, "look at trained and at step.objective: no token counts")]


def _now(config: TrainConfig, name: str) -> str:
    """Format a key of `collecting` with its current value."""
    value = getattr(config.collecting, name)
    return f"collecting.{name}, now {'not set' if value is None else format(value, 'g')}"


def _joined(facts: Sequence[str]) -> str:
    return ", and ".join(facts)


def _choice(ways: Sequence[str]) -> str:
    return f"take {', '.join(ways[:-1])} or {ways[-1]}"


def _either(advice: Sequence[str]) -> str:
    return "; or ".join(advice)


# ---------------------------------------------------------------- the cost of a run before it starts

CHECKPOINTS_AT_ONCE = 3
"""Two complete checkpoints and a third half-written."""

BYTES = 4
"""Bytes of a weight: trainers and engines hold float32."""

_SMALL_FILES, _STEP_ON_RECORD = 2**15, 2**11
"""Bytes beside weights and tokenizer in the folder of a role, and of each step in a checkpoint's log."""

_TOKENIZER_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
_TOKENIZER = 16 * MIB
"""Bytes allowed for the tokenizer of a model on a hub."""


@dataclass(frozen=True)
class RunCost:
    """Upper bounds on the cost of a run. Counts are of one batch unless stated otherwise.

    `episodes` are the policy's, `lessons` the expert's, `most_turns` the turns of both. `replies` are the policy's
    (with best-of-N, the candidates), `verdicts` the critic's on candidates, `critiques` all other texts of the critic.
    `rows` are by role. For the whole run: `batches` batches, `evaluations` of `held_out` episodes each, `parameters` of
    all models and adapters, `tokens_per_batch` that are learned from at once, `memory` in bytes by use without
    conversations, `engines` that play in this process, and `disk` in bytes: three checkpoints (one half-written) and
    the final models.
    """

    episodes: int
    lessons: int
    most_turns: int
    replies: int
    verdicts: int
    critiques: int
    rows: dict[str, int]
    batches: int
    evaluations: int
    held_out: int
    parameters: int
    tokens_per_batch: int
    memory: dict[str, int]
    engines: list[ModelMemory]
    disk: int

    @property
    def learning(self) -> int:
        """Bytes of memory without engines."""
        return sum(self.memory.values()) - sum(engine.fixed for engine in self.engines)

    @property
    def least(self) -> int:
        """Bytes of memory without which the run is refused."""
        return sum(self.memory.values()) + sum(engine.least - engine.fixed for engine in self.engines)

    def check_memory(self, pool: MemoryPool, device: str, other: Callable[[], RunCost | None] = lambda: None) -> int:
        """Return the number of tokens of all conversations at once that fit in a pool; 0 if none are played here.

        Raises `UsageError` if the run does not fit, with what it needs as `other` (with adapters) if that is less.
        """
        needed, limit = sum(self.memory.values()), pool.limit(device)
        if self.least > limit:
            adapters = other()
            fewer = adapters is not None and adapters.least < self.least
            advice = f"set weights: adapters (needs {size_text(adapters.least)}), " if adapters and fewer else ""
            uses = ", ".join(f"{name} {size_text(size)}" for name, size in self.memory.items() if size)
            raise UsageError(
                f"this run does not fit in {size_text(limit)} of memory: it needs "
                f"{size_text(self.least)} ({uses}); {advice}"
                "give it more with --memory, set gradient_checkpointing, lower step.tokens_per_batch, or name a "
                "smaller model"
            )
        return (limit - needed) // sum(engine.token for engine in self.engines) if self.engines else 0


def estimate(config: TrainConfig, sources: Mapping[Role, str], limit: float = math.inf) -> RunCost:
    """Compute upper bounds for a config, with as many tokens at once as fit into `limit` bytes where it names none.

    `sources` come from `find_sources`. Raises `UsageError` for an unknown environment, and for a model whose config
    cannot be read.
    """
    collecting = config.collecting
    turns = collecting.turns or environment(config.env).step_limit
    played = config.implementation.bounds(collecting)
    replies = played.episodes * turns * collecting.best_of
    rows = {"policy": played.rows, "critic": played.critiques}
    roles = ROLES if config.weights == "models" else ROLES[:1]
    sizes = {role: count_parameters(sources[role]) for role in roles}
    adapter = count_adapter(sources["policy"], config.lora) if config.weights == "adapters" else 0
    parameters, kept = sum(sizes.values()) + len(ROLES) * adapter, _kept(config, sizes, adapter)
    learners = ROLES if config.weights == "shared" else config.implementation.roles
    learn = sum(size for role, size in kept.items() if role in learners)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    playing = () if config.collecting.servers else roles
    dtype = config.collecting.dtype
    engines = [source_memory(sources[role], dtype, device=device) for role in playing]
    text, given = read_text_config(sources["policy"]), config.step.tokens_per_batch
    for tokens in (given,) if given else BATCH_TOKENS:
        memory = _memory(config, parameters, learn, text, engines, tokens)
        memory["engines"] += len(ROLES) * adapter * BYTES if engines else 0
        if sum(memory.values()) + sum(engine.least - engine.fixed for engine in engines) <= limit:
            break
    return RunCost(
        episodes=played.episodes,
        lessons=played.lessons,
        most_turns=(played.episodes + played.lessons) * turns,
        replies=replies,
        verdicts=replies if collecting.best_of > 1 else 0,
        critiques=played.critiques,
        rows={role: count for role, count in rows.items() if role in config.trained and count},
        batches=math.ceil(config.steps / config.step.updates),
        evaluations=_evaluations(config),
        held_out=config.evaluating.tasks if config.evaluating.every else 0,
        parameters=parameters,
        tokens_per_batch=tokens,
        memory=memory,
        engines=engines,
        disk=_disk(config, learn, kept, sources),
    )


def _evaluations(config: TrainConfig) -> int:
    """Count the evaluations: before training, during it, at the last step, and of the saved weights."""
    every = config.evaluating.every
    return 2 + math.ceil(config.steps / every) if every else 0


def read_text_config(source: str) -> Any:
    """Read the text configuration of a model."""
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    return config.get_text_config()


def count_parameters(source: str) -> int:
    """Count the parameters of a causal language model from its config alone."""
    make = cast("Any", AutoModelForCausalLM)
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    with torch.device("meta"):
        model = make.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count_adapter(source: str, lora: LoraSettings) -> int:
    """Count the parameters of an adapter for a causal language model from the model's config alone."""
    make = cast("Any", AutoModelForCausalLM)
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(make.from_config(config), build_lora_config(lora))
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _kept(config: TrainConfig, sizes: Mapping[Role, int], adapter: int) -> dict[Role, int]:
    """Count the numbers of each set of trained weights by its (first) role: adapters, or models of these sizes."""
    if config.weights == "adapters":
        return dict.fromkeys(config.trained, adapter)
    return {role: size for role, size in sizes.items() if role in config.trained or config.weights == "shared"}


def _memory(
    config: TrainConfig, parameters: int, learn: int, text: Any, engines: Sequence[ModelMemory], tokens: int
) -> dict[str, int]:
    """Add up weights, gradients, AdamW's two moments and activations, in bytes by use.

    `parameters` are those of all weights, of which `learn` learn; `text` is the policy's text configuration; `tokens`
    are learned from at once.
    """
    ahead = {"weights that play ahead, for checkpoints": 2 * learn * BYTES} if config.step.ahead else {}
    refers = config.step.objective.beta > 0 and config.weights != "adapters"
    return {
        "weights that learn or are frozen": parameters * BYTES,
        "gradients and optimizer": 3 * learn * BYTES,
        "references": learn * BYTES if refers else 0,
        "activations of learning": learning_activations(text, tokens, checkpointing=config.gradient_checkpointing),
        "engines": sum(engine.weights for engine in engines),
        "activations of engines": sum(engine.activations for engine in engines),
        **ahead,
    }


def _disk(config: TrainConfig, learn: int, kept: Mapping[Role, int], sources: Mapping[Role, str]) -> int:
    """Add up the files of checkpoints and final models in bytes: weights by role, AdamW's two moments of those that
    learn, weights that play ahead, and what is beside them.
    """
    weights = sum(kept.values()) * BYTES
    beside = sum(_SMALL_FILES + _tokenizer_size(sources[role]) for role in kept)
    checkpoint = weights * (2 if config.step.ahead else 1) + 2 * learn * BYTES
    checkpoint += beside + config.steps * _STEP_ON_RECORD
    models = 2 if config.evaluating.every else 1
    return CHECKPOINTS_AT_ONCE * checkpoint + models * (weights + beside)


def _tokenizer_size(source: str) -> int:
    folder = Path(source)
    if not folder.is_dir():
        return _TOKENIZER
    return sum(file.stat().st_size for pattern in _TOKENIZER_FILES for file in folder.glob(pattern))
