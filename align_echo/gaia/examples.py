"""What critics of actions learn from: proposed actions with what they were proposed in and their labels, as Parquet.

One row is one distinct action in one conversation. Rows of several collections are put together without duplicates,
divided by task, so that no task is learned from and tested on, and balanced between correct and wrong: by leaving some
out (GAIA, paper 3, section 3.1), or by how much each counts within its state. Left out: proposing and labelling
(`labelling.py`), and learning (`fit`).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from align_echo.critic.labels import Rule
from align_echo.critic.verdict import VERDICTS, Verdict
from align_echo.dice import Dice
from align_echo.errors import MissingDataError, MissingExtraError, UsageError
from align_echo.types import Frozen, Message

FILE = "examples.parquet"
Balance = Literal["dropped", "weighed"]
"""How as much comes from correct as from wrong actions: some of the class that has more are dropped, or each counts by
`even_weights`.
"""
BUCKETS = 2**32

LEAST_ACTIONS = 100
"""Fewest actions that a critic is trained on, unless less is asked for."""


class LabelledAction(Frozen):
    """A proposed action with its label by each rule, which is None where the rule cannot tell or is not one of the
    environment's. `explores` is True for a look into something that had not been looked into.
    """

    expert: Verdict | None = None
    nearer: Verdict | None = None
    continues: Verdict | None = None
    explores: bool = False
    action: str

    def label(self, rule: Rule) -> Verdict | None:
        """The label by a rule."""
        return {"expert": self.expert, "nearer": self.nearer, "continues": self.continues}[rule]


class Example(LabelledAction):
    """A proposed action in its conversation. `messages` is what the agent had read and said before it, without token
    ids, as critics of another model read it too; `turn` counts from 0.

    It was drawn in `drawn` of the candidates of its turn; `logprob` is the sum of the agent's own log-probabilities of
    the first such reply, `sent` whether the action was carried out. `round` is that of the flywheel, from 1;
    `p_correct` what the critic that guided the round said of it, None where none did.
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
        """The same for the same action in the same conversation: SHA-256 in hex."""
        return hashlib.sha256(json.dumps([*self._state, self.action]).encode()).hexdigest()

    @property
    def state(self) -> str:
        """The same for the same conversation: SHA-256 in hex."""
        return hashlib.sha256(json.dumps(self._state).encode()).hexdigest()

    @property
    def _state(self) -> list[Any]:
        return [self.environment, [[message.role, message.content] for message in self.messages]]


def rule_for(actions: Iterable[tuple[str, LabelledAction]]) -> Rule:
    """Return the default rule of labelled actions, each beside its environment's name: `nearer` where the distance to
    the goal was measured, else `continues`. Raises `UsageError` where environments differ in that.
    """
    measures: dict[str, bool] = {}
    for environment, action in actions:
        measures[environment] = measures.get(environment, False) or action.nearer is not None
    rules: dict[str, Rule] = {name: "nearer" if measures[name] else "continues" for name in sorted(measures)}
    if len(set(rules.values())) > 1:
        named = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
        raise UsageError(f"the collections are of environments with other default rules ({named}): choose with --rule")
    return next(iter(rules.values()), "continues")


def deduplicated(examples: Iterable[Example]) -> list[Example]:
    """The first of those that are the same action in the same conversation; it was drawn as often as all together."""
    by_key: dict[str, Example] = {}
    for example in examples:
        same = by_key.get(example.key)
        by_key[example.key] = example if same is None else same.model_copy(update={"drawn": same.drawn + example.drawn})
    return list(by_key.values())


def held_out(examples: Sequence[Example], share: float, *, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """(to learn from, to test on): about `share` of the tasks are tested on, with all that belongs to them.

    Whether a task is tested on depends on its id and the seed alone, so that it stays so when more is collected.
    Raises `UsageError` unless 0 <= share < 1.
    """
    check_share(share)
    tested = {task for task in {example.task_id for example in examples} if is_held_out(task, share, seed=seed)}
    learned = [example for example in examples if example.task_id not in tested]
    return learned, [example for example in examples if example.task_id in tested]


def check_share(share: float) -> None:
    """Raises `UsageError` for what is no share of tasks to hold out."""
    if not 0 <= share < 1:
        raise UsageError(f"the share of tasks that are held out is at least 0 and below 1, not {share}")


def is_held_out(task: str, share: float, *, seed: int = 0) -> bool:
    """Whether a task is tested on: by its name and the seed alone, true for about `share` of all names."""
    digest = hashlib.blake2b(f"{seed} {task}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / BUCKETS < share


def balanced(examples: Sequence[Example], rule: Rule, *, seed: int = 0) -> list[Example]:
    """As many correct as wrong ones by a rule, in the order given: of the class that has more, some drawn at random.

    What the rule cannot tell is left out. Raises `UsageError` where a class has none.
    """
    kept = set(balanced_places([example.label(rule) for example in examples], seed=seed))
    if not kept:
        labels = {example.label(rule) for example in examples}
        missing = " and ".join(label for label in VERDICTS if label not in labels)
        raise UsageError(f"no action is {missing} by the rule {rule!r}: collect more, or take another rule")
    return [example for index, example in enumerate(examples) if index in kept]


def balanced_places(labels: Sequence[Verdict | None], *, seed: int = 0) -> list[int]:
    """Which labels are kept so that as many are "correct" as "wrong", in order: none where a class has none."""
    by_label = {label: [index for index, given in enumerate(labels) if given == label] for label in VERDICTS}
    count = min(len(places) for places in by_label.values())
    return sorted(index for places in by_label.values() for index in Dice(f"balance {seed}").shuffled(places)[:count])


def even_weights(examples: Sequence[Example], rule: Rule) -> list[float]:
    """What each example counts: in every state the correct ones together as much as the wrong ones, and a state as much
    as it has examples, so that the mean of a state is 1. States without both count nothing, as best-of-N has no choice
    there; nor does what the rule cannot tell.
    """
    kinds = [(example.state, example.label(rule)) for example in examples]
    counts = Counter(kinds)
    weights = []
    for state, label in kinds:
        both = [counts[state, side] for side in VERDICTS]
        weights.append(sum(both) / (2 * counts[state, label]) if label is not None and all(both) else 0.0)
    return weights


def check_both(labels: Collection[Verdict | None], longest: int) -> None:
    """Raises `UsageError` if the actions whose conversations fit into `longest` tokens are not both right and wrong."""
    missing = [label for label in VERDICTS if label not in labels]
    if missing:
        about = f" about a {missing[0]} action" if len(missing) == 1 else ""
        raise UsageError(f"no conversation{about} fits into {longest} tokens: set `longest`, or take another model")


def check_enough(count: int, least: int, left_out: Mapping[str, int]) -> None:
    """Raises `UsageError` where fewer than `least` actions are there to learn from; it says what was `left_out`."""
    if count < least:
        without = told_left_out(left_out)
        raise UsageError(
            f"{count} actions are too few to learn from ({without}): a critic needs {least}; collect more "
            f"(align-echo critic collect --tasks N), or add --least {count} to learn from these all the same"
        )


def told_left_out(left_out: Mapping[str, int]) -> str:
    """How many actions were left out, by why, in words."""
    reasons = [f"{count:,} {why}" for why, count in left_out.items() if count]
    return f"left out: {', '.join(reasons)}" if reasons else "none was left out"


# ---------------------------------------------------------------- Parquet


def write_examples(examples: Sequence[Example], file: Path) -> None:
    """A Parquet file with the fields of `Example` as columns; it appears whole or not at all.

    Raises `MissingExtraError` without `datasets`, `UsageError` for no example.
    """
    if not examples:
        raise UsageError(f"there is no example to write to {file}")
    datasets = _datasets()
    rows = [example.model_dump(mode="json", exclude={"messages": {"__all__": {"tokens"}}}) for example in examples]
    table = datasets.Dataset.from_list(rows, features=_features(datasets))
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.partial")
    table.to_parquet(str(beside))
    beside.replace(file)


def examples_file(path: Path) -> Path:
    """A Parquet file, or the one in a collection's folder. Raises `MissingDataError` if there is none."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise MissingDataError(f"there are no examples in {path}: first run align-echo critic collect --out {path}")
    return file


def read_examples(path: Path) -> list[Example]:
    """The examples of a Parquet file, or of the one in a collection's folder.

    Raises `MissingDataError` if there is none, `UsageError` for a file of another kind, `MissingExtraError`.
    """
    file = examples_file(path)
    datasets = _datasets()
    try:
        with tempfile.TemporaryDirectory() as cache:
            table = datasets.Dataset.from_parquet(str(file), keep_in_memory=True, cache_dir=cache)
            return [Example.model_validate(row) for row in table]
    except (ValidationError, ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        raise UsageError(f"{file} holds no examples of actions: {type(error).__name__}") from error


def require_parquet() -> None:
    """Raises `MissingExtraError` where the package that reads and writes Parquet is not installed."""
    if find_spec("datasets") is None:
        raise MissingExtraError("examples as Parquet", "train")


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("examples as Parquet", "train") from error
    datasets.disable_progress_bars()
    return datasets


def _features(datasets: Any) -> Any:
    """The columns, so that one in which all is None has a type as well."""
    text, number, real, flag = (datasets.Value(kind) for kind in ("string", "int64", "float64", "bool"))
    kinds = {
        **dict.fromkeys(("environment", "split", "task_id", "task_type", "action", "action_type"), text),
        **dict.fromkeys(("expert", "nearer", "continues", "agent", "weights"), text),
        **dict.fromkeys(("sample", "turn", "drawn", "round"), number),
        **dict.fromkeys(("logprob", "p_correct"), real),
        **dict.fromkeys(("sent", "explores"), flag),
        "messages": [{"role": text, "content": text}],
    }
    return datasets.Features({name: kinds[name] for name in Example.model_fields})
