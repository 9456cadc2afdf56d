"""Training examples of critics as Parquet: proposed actions with their conversation and labels.

A row is a distinct action in a conversation. Rows of several collections are merged without duplicates, split by task
into training and test, and balanced between correct and wrong, by dropping some (GAIA, paper 3, section 3.1) or by
weights within each state. Not here: training (`fit`).
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from align_echo.base.dice import Dice
from align_echo.critic.ask import WORDS, Label
from align_echo.critic.calibration import action_type
from align_echo.critic.labels import OURS, labels
from align_echo.errors import EngineError, MissingDataError, MissingExtraError, UsageError
from align_echo.models.tool_calls import without_tools
from align_echo.rollout.batches import replay, view_before
from align_echo.rollout.session import base_env
from align_echo.types import AgentView, Candidate, Frozen, Message, Step, Trajectory

FILE = "examples.parquet"
Balance = Literal["dropped", "weighed"]
"""How correct and wrong actions are balanced: drop some of the larger class, or weight each by `even_weights`."""
BUCKETS = 2**32

LEAST_ACTIONS = 100
"""Default for the fewest training actions of a critic."""


class LabelledAction(Frozen):
    """A proposed action with its label by each rule; None if the rule cannot decide or is not available in the
    environment. `own` are the labels by rules that are not ours. `explores` is True for a look into something new.
    """

    expert: Label | None = None
    nearer: Label | None = None
    continues: Label | None = None
    own: dict[str, Label | None] = Field(default_factory=dict)
    explores: bool = False
    action: str

    @model_serializer(mode="wrap")
    def _without_none_of_its_own(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        record: dict[str, Any] = write(self)
        return record if self.own else {key: value for key, value in record.items() if key != "own"}

    @property
    def labels(self) -> dict[str, Label | None]:
        """Return the label by each rule, ours first."""
        return {rule: getattr(self, rule) for rule in OURS} | self.own

    def label(self, rule: str) -> Label | None:
        """Return the label by a rule; None also if the action was not labelled by it."""
        return self.labels.get(rule)


class ActionExample(LabelledAction):
    """A proposed action in its conversation. `messages` is the agent's conversation before it, without token ids, as
    critics with another model read it too; `turn` counts from 0.

    `drawn` of the turn's candidates gave this action; `logprob` is the sum of the agent's own log-probabilities of the
    first of these replies, `sent` whether the action was carried out. `round` is the flywheel's, from 1; `p_correct` is
    the probability from the critic guiding the round, None without a critic.
    """

    environment: str
    split: str
    task_id: str
    task_type: str
    sample: int
    turn: int
    messages: tuple[Message, ...]
    action_type: str
    drawn: int
    logprob: float | None
    sent: bool
    agent: str
    weights: str
    round: int
    p_correct: float | None

    @property
    def key(self) -> str:
        """Return the SHA-256 in hex of action and conversation."""
        return hashlib.sha256(json.dumps([*self._state, self.action]).encode()).hexdigest()

    @property
    def state(self) -> str:
        """Return the SHA-256 in hex of the conversation."""
        return hashlib.sha256(json.dumps(self._state).encode()).hexdigest()

    @property
    def _state(self) -> list[Any]:
        return [self.environment, [[message.role, message.content] for message in self.messages]]


def rule_for(actions: Iterable[tuple[str, LabelledAction]]) -> str:
    """Return the default rule of labelled actions, each given with its environment's name: `nearer` if the distance to
    the goal was measured, else `continues`.

    Raises `UsageError` if the environments differ in that.
    """
    measures: dict[str, bool] = {}
    for environment, action in actions:
        measures[environment] = measures.get(environment, False) or action.nearer is not None
    rules: dict[str, str] = {name: "nearer" if measures[name] else "continues" for name in sorted(measures)}
    if len(set(rules.values())) > 1:
        listed = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
        raise UsageError(f"the collections are of environments with other default rules ({listed}): choose with --rule")
    return next(iter(rules.values()), "continues")


def deduplicate(examples: Iterable[ActionExample]) -> list[ActionExample]:
    """Merge equal actions in the same conversation into the first, adding up how often they were drawn."""
    by_key: dict[str, ActionExample] = {}
    for example in examples:
        seen = by_key.get(example.key)
        by_key[example.key] = example if seen is None else seen.model_copy(update={"drawn": seen.drawn + example.drawn})
    return list(by_key.values())


def split_held_out(
    examples: Sequence[ActionExample], share: float, *, seed: int = 0
) -> tuple[list[ActionExample], list[ActionExample]]:
    """Split examples into (training, test): about `share` of the tasks are for tests, with all their examples.

    Whether a task is for tests depends on its id and the seed alone, so it stays the same when more is collected.
    Raises `UsageError` unless 0 <= share < 1.
    """
    check_share(share)
    tested = {task for task in {example.task_id for example in examples} if is_held_out(task, share, seed=seed)}
    learned = [example for example in examples if example.task_id not in tested]
    return learned, [example for example in examples if example.task_id in tested]


def check_share(share: float) -> None:
    """Raise `UsageError` for an invalid share of held-out tasks."""
    if not 0 <= share < 1:
        raise UsageError(f"the share of tasks that are held out is at least 0 and below 1, not {share}")


def is_held_out(task: str, share: float, *, seed: int = 0) -> bool:
    """Return whether a task is for tests: by its name and the seed alone, true for about `share` of all names."""
    digest = hashlib.blake2b(f"{seed} {task}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / BUCKETS < share


def balance_examples(examples: Sequence[ActionExample], rule: str, *, seed: int = 0) -> list[ActionExample]:
    """Drop random examples of the larger class until both have the same size, in the given order.

    Examples the rule cannot decide are dropped. Raises `UsageError` if a class is empty.
    """
    retained = set(balance_indices([example.label(rule) for example in examples], seed=seed))
    if not retained:
        labels = {example.label(rule) for example in examples}
        missing = " and ".join(label for label in WORDS if label not in labels)
        raise UsageError(f"no action is {missing} by the rule {rule!r}: collect more, or take another rule")
    return [example for index, example in enumerate(examples) if index in retained]


def balance_indices(labels: Sequence[Label | None], *, seed: int = 0) -> list[int]:
    """Choose indices with as many "correct" as "wrong" labels, in order; none if a class is empty."""
    by_label = {label: [index for index, candidate in enumerate(labels) if candidate == label] for label in WORDS}
    count = min(len(indices) for indices in by_label.values())
    return sorted(index for indices in by_label.values() for index in Dice(f"balance {seed}").shuffled(indices)[:count])


def even_weights(examples: Sequence[ActionExample], rule: str) -> list[float]:
    """Compute the weight of each example: within a state, correct and wrong ones have equal total weight.

    A state's total weight is its number of examples, so its mean is 1. Weight 0: states without both classes, since
    best-of-N has no choice there, and examples the rule cannot decide.
    """
    kinds = [(example.state, example.label(rule)) for example in examples]
    counts = Counter(kinds)
    weights = []
    for state, label in kinds:
        both = [counts[state, side] for side in WORDS]
        weights.append(sum(both) / (2 * counts[state, label]) if label is not None and all(both) else 0.0)
    return weights


def check_both(labels: Collection[Label | None], longest: int) -> None:
    """Raise `UsageError` unless the actions with conversations of at most `longest` tokens include correct and wrong
    ones.
    """
    missing = [label for label in WORDS if label not in labels]
    if missing:
        about = f" about a {missing[0]} action" if len(missing) == 1 else ""
        raise UsageError(f"no conversation{about} fits into {longest} tokens: set `longest`, or take another model")


def check_enough(count: int, least: int, left_out: Mapping[str, int]) -> None:
    """Raise `UsageError` for fewer than `least` training actions; the message gives the number `left_out`."""
    if count < least:
        reasons = describe_left_out(left_out)
        raise UsageError(
            f"{count} actions are too few to learn from ({reasons}): a critic needs {least}; collect more "
            f"(align-echo critic collect --tasks N), or add --least {count} to learn from these all the same"
        )


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Describe how many actions were left out, by reason."""
    reasons = [f"{count:,} {why}" for why, count in left_out.items() if count]
    return f"left out: {', '.join(reasons)}" if reasons else "none was left out"


# ---------------------------------------------------------------- Parquet


def write_examples(examples: Sequence[ActionExample], file: Path) -> None:
    """Write examples to a Parquet file with the fields of `ActionExample` as columns, and a column of labels
    for each rule that is not ours, atomically.

    Raises `MissingExtraError` without `datasets`, `UsageError` for no example.
    """
    if not examples:
        raise UsageError(f"there is no example to write to {file}")
    datasets = _datasets()
    rules = list(dict.fromkeys(rule for example in examples for rule in example.own))
    rows = [
        {
            **example.model_dump(mode="json", exclude={"own": True, "messages": {"__all__": {"tokens"}}}),
            **{rule: example.own.get(rule) for rule in rules},
        }
        for example in examples
    ]
    table = datasets.Dataset.from_list(rows, features=_features(datasets, rules))
    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file = file.with_name(f".{file.name}.partial")
    table.to_parquet(str(partial_file))
    partial_file.replace(file)


def examples_file(path: Path) -> Path:
    """Return a Parquet file, or the one in a collection's folder. Raises `MissingDataError` if there is none."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise MissingDataError(f"there are no examples in {path}: first run align-echo critic collect --out {path}")
    return file


def read_examples(path: Path) -> list[ActionExample]:
    """Read the examples of a Parquet file, or of the one in a collection's folder.

    Raises `MissingDataError` if there is none, `UsageError` for a file of another kind, `MissingExtraError`.
    """
    file = examples_file(path)
    datasets = _datasets()
    try:
        with tempfile.TemporaryDirectory() as cache:
            table = datasets.Dataset.from_parquet(str(file), keep_in_memory=True, cache_dir=cache)
            return [_example(row) for row in table]
    except (ValidationError, ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        raise UsageError(f"{file} holds no examples of actions: {type(error).__name__}") from error


def _example(row: Mapping[str, Any]) -> ActionExample:
    """Validate a row; a further column is a label rule's."""
    fields = {name: value for name, value in row.items() if name in ActionExample.model_fields}
    own = {name: value for name, value in row.items() if name not in fields}
    return ActionExample.model_validate({**fields, "own": own})


def require_parquet() -> None:
    """Raise `MissingExtraError` if the package for Parquet is not installed."""
    if find_spec("datasets") is None:
        raise MissingExtraError("examples as Parquet", "train")


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("examples as Parquet", "train") from error
    datasets.disable_progress_bars()
    return datasets


def _features(datasets: Any, rules: Sequence[str]) -> Any:
    """Return the column types, so that a column of all None has a type too."""
    text, number, real, flag = (datasets.Value(kind) for kind in ("string", "int64", "float64", "bool"))
    kinds = {
        **dict.fromkeys(("environment", "split", "task_id", "task_type", "action", "action_type"), text),
        **dict.fromkeys(("expert", "nearer", "continues", "agent", "weights"), text),
        **dict.fromkeys(("sample", "turn", "drawn", "round"), number),
        **dict.fromkeys(("logprob", "p_correct"), real),
        **dict.fromkeys(("sent", "explores"), flag),
        "messages": [{"role": text, "content": text}],
    }
    names = [name for name in ActionExample.model_fields if name != "own"]
    return datasets.Features({**{name: kinds[name] for name in names}, **dict.fromkeys(rules, text)})


# ---------------------------------------------------------------- label the candidates of an episode

ATTEMPTS = 2
"""Replays of an episode if the engine fails."""

Conversation = Callable[[AgentView], Sequence[Message]]
"""The conversation of an agent before its next reply."""


class LabelledEpisode(Frozen):
    """The distinct proposed actions of each turn of an episode, with labels.

    From the turn on where the replay differs from the record, turns are empty.
    """

    task_id: str
    sample: int
    turns: tuple[tuple[LabelledAction, ...], ...]

    def belongs_to(self, trajectory: Trajectory) -> bool:
        """Return whether these are labels of the actions proposed in an episode."""
        own_id, trajectory_id = (self.task_id, self.sample), (trajectory.task_id, trajectory.sample)
        if own_id != trajectory_id or len(self.turns) != len(trajectory.steps):
            return False
        turns = zip(trajectory.steps, self.turns, strict=True)
        return all(not labels or [label.action for label in labels] == proposed_actions(step) for step, labels in turns)


def turn_candidates(step: Step) -> tuple[Candidate, ...]:
    """Return the candidates of a turn; the reply itself if there was no choice."""
    if step.choice:
        return step.choice.candidates
    return (Candidate(action=step.action, logprob=math.fsum(step.tokens.logprobs) if step.tokens else None),)


def proposed_actions(step: Step) -> list[str]:
    """Return the distinct actions of the turn's candidates, in the order drawn."""
    return list(dict.fromkeys(candidate.action for candidate in turn_candidates(step) if candidate.action is not None))


def label_episode(env: gym.Env[str, str], trajectory: Trajectory, rules: Sequence[str]) -> LabelledEpisode:
    """Label an episode by these rules, replaying it in `env`, an environment of the same kind.

    If the engine fails, the episode is replayed once more; after a second failure the remaining turns have no labels.
    """
    turns: list[tuple[LabelledAction, ...]] = []
    for _ in range(ATTEMPTS):
        try:
            for number, labelled in enumerate(replay(env, trajectory, partial(_label_turn, env, rules))):
                turns += [labelled] if number == len(turns) else []
            break
        except EngineError:
            continue
    turns += [()] * (len(trajectory.steps) - len(turns))
    return LabelledEpisode(task_id=trajectory.task_id, sample=trajectory.sample, turns=tuple(turns))


def _label_turn(
    env: gym.Env[str, str], rules: Sequence[str], view: AgentView, step: Step
) -> tuple[LabelledAction, ...]:
    actions = proposed_actions(step)
    by_rule = {rule: labels(env, view, actions, rule) for rule in rules} if actions else {}
    return tuple(
        LabelledAction(
            action=action,
            explores=base_env(env).explores(view, action),
            **{rule: labels[index] for rule, labels in by_rule.items() if rule in OURS},
            own={rule: labels[index] for rule, labels in by_rule.items() if rule not in OURS},
        )
        for index, action in enumerate(actions)
    )


def build_examples(
    trajectory: Trajectory,
    labelled: LabelledEpisode,
    conversation: Conversation,
    *,
    action_format: str,
    weights: str = "",
    number: int = 1,
) -> list[ActionExample]:
    """Build an example for each distinct action of each turn; none for an episode with a fault.

    `number` is the flywheel's round, `weights` the hash of the agent's weights.
    """
    if trajectory.fault is not None:
        return []
    examples = []
    for turn, (step, actions) in enumerate(zip(trajectory.steps, labelled.turns, strict=True)):
        chat = without_tools(conversation(view_before(trajectory, turn, action_format))) if actions else ()
        messages = tuple(Message(role=message.role, content=message.content) for message in chat)
        for action in actions:
            draws = [candidate for candidate in turn_candidates(step) if candidate.action == action.action]
            examples.append(
                ActionExample(
                    environment=trajectory.environment,
                    split=trajectory.split,
                    task_id=trajectory.task_id,
                    task_type=trajectory.task_type,
                    sample=trajectory.sample,
                    turn=turn,
                    messages=messages,
                    **{name: getattr(action, name) for name in LabelledAction.model_fields},
                    action_type=action_type(action.action),
                    drawn=len(draws),
                    logprob=draws[0].logprob,
                    sent=step.action == action.action,
                    agent=trajectory.agent,
                    weights=weights,
                    round=number,
                    p_correct=draws[0].p_correct,
                )
            )
    return examples
