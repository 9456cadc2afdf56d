"""The interface of a training method: how to play a batch, its cost, its needs, and where it has one, its own advantage
and loss.

The methods that ship are in `methods/`. Any other is named in a config as `method: module:NAME`, or by its entry point
in the group `align_echo.methods`. Not here: learning from a batch (`trainer.py`), and each method's settings
(`configs/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from align_echo.agents.conversation import HistoryBounds
from align_echo.critic.labels import LABEL_RULES
from align_echo.critic.language import FORMS
from align_echo.errors import UsageError
from align_echo.models.endpoint import read_endpoint
from align_echo.registry import Registry, attempt, with_article
from align_echo.train.advantages import AdvantageFunction, read_advantage
from align_echo.train.rewards import REWARDS
from align_echo.train.rows import Role, RolloutBatch
from align_echo.train.stage import Stage
from align_echo.types import Frozen

if TYPE_CHECKING:
    from align_echo.train.objective import BatchLoss, LossFunction


def _address(url: str) -> str:
    if "@" in url:
        raise UsageError("a server's URL holds no user and password: set ALIGN_ECHO_API_KEY to the key")
    address = read_endpoint(url).url
    return address if address.endswith("/v1") else f"{address}/v1"


class CollectingSettings(Frozen, allow_inf_nan=False):
    """How a batch is played."""

    tasks: int = Field(default=4, ge=1)
    """Tasks in a batch."""
    samples: int = Field(default=8, ge=1)
    """Samples of each task: episodes, refined attempts, sessions or verdicts."""
    rounds: int = Field(default=2, ge=1)
    """ICRL: maximum number of attempts in a session."""
    states: int = Field(default=2, ge=1)
    """RCM: actions of a task to judge."""
    rule: Annotated[str, AfterValidator(LABEL_RULES.checked)] | None = None
    """RCM: label rule of right actions; null: the environment's."""
    critique_won: bool = True
    """ECHO: critiques of won attempts, too; false: their task is played again without."""
    critic_reward: Annotated[str, AfterValidator(REWARDS.checked)] = "saturation"
    """Reward of a critique, from the scores before and after it."""
    form: Annotated[str, AfterValidator(FORMS.checked)] = "echo"
    """Form of the critic's prompt."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of both roles."""
    best_of: int = Field(default=1, ge=1)
    """Candidates for each action; the policy's own verdict selects one."""
    turns: int | None = Field(default=None, ge=1)
    """Maximum number of turns in an episode; null: the environment's limit."""
    history_turns: int | None = Field(default=None, ge=1)
    """Most turns that the policy sees beside the opening; null: all."""
    history_tokens: int | None = Field(default=None, ge=256)
    """Most tokens of opening and turns that the policy sees, estimated; null: no bound."""
    reply_tokens: int = Field(default=64, ge=1)
    """Maximum number of tokens in a reply of the policy."""
    critique_tokens: int = Field(default=160, ge=1)
    """Maximum number of tokens in a critique or verdict."""
    workers: int = Field(default=32, ge=1)
    """Episodes played at once."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the engines in this process; the weights that learn stay float32."""
    demonstrations: tuple[str, ...] = ()
    """SFT: runs whose episodes are imitated; none: the environment's expert plays."""
    minimum_score: float | None = Field(default=None, ge=0, le=1)
    """SFT: least score of a demonstration; null: only won ones."""
    servers: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    """Base URLs of vLLM servers to play on; none: engines in this process."""

    @property
    def history(self) -> HistoryBounds:
        """Return the bounds of the history that the policy sees."""
        return HistoryBounds(self.history_turns, self.history_tokens)


@dataclass(frozen=True)
class BatchCost:
    """Upper bounds on the cost of a batch: the policy's `episodes`, the expert's `lessons`, texts of the critic
    (`critiques`), and the policy's `rows` to learn from."""

    episodes: int
    critiques: int = 0
    rows: int = 0
    lessons: int = 0


@dataclass(frozen=True)
class Method:
    """A training method. `collect(tasks, stage, collecting)` plays a batch and returns the rows to learn from.

    `bounds` computes the cost of a batch. `roles` are the roles of its rows. `needs` is a requirement on the
    environment: an "expert", "distances" to the goal, or none (""). `refines` is True if new attempts follow critiques
    (their scores are recorded), `moves` if these are learned from without the critique, `imitates` if rewards are not
    compared within groups (`step.advantage: reward`), `critiques_won` if won attempts get critiques, too. `advantage`
    computes the advantages of the rows unless the config names an advantage (None: `group`), `loss` the loss of a
    micro-batch (None: ours, `objective.batch_loss`).
    """

    name: str
    collect: Callable[[Sequence[str], Stage, CollectingSettings], RolloutBatch]
    bounds: Callable[[CollectingSettings], BatchCost]
    roles: tuple[Role, ...] = ("policy",)
    needs: Literal["", "expert", "distances"] = ""
    refines: bool = False
    moves: bool = False
    imitates: bool = False
    critiques_won: bool = False
    advantage: AdvantageFunction | None = None
    loss: LossFunction | None = None


def _read(name: str, entry: object) -> Method:
    if not isinstance(entry, Method):
        kind = with_article(type(entry).__name__)
        raise UsageError(f"{name} is {kind}: a method is an align_echo.train.method.Method")
    parts: dict[str, object] = {"collect": entry.collect, "bounds": entry.bounds}
    parts |= {} if entry.loss is None else {"loss": entry.loss}
    wrong = next((part for part, function in parts.items() if not callable(function)), None)
    if wrong is not None:
        raise UsageError(f"{name}: its {wrong} is {with_article(type(parts[wrong]).__name__)}, and must be a function")
    cost: object = attempt(lambda: entry.bounds(CollectingSettings()), f"the bounds of {name} fail")
    if not isinstance(cost, BatchCost):
        raise UsageError(f"the bounds of {name} give {with_article(type(cost).__name__)}, and must give a BatchCost")
    advantage = entry.advantage and read_advantage(name, entry.advantage)
    return replace(entry, advantage=advantage, loss=entry.loss and _checking(name, entry.loss))


def _checking(name: str, loss: LossFunction) -> LossFunction:
    """Wrap a loss, so that it returns a `BatchLoss` with a gradient or raises `UsageError`."""

    def checked(*given: Any, **options: Any) -> BatchLoss:
        from align_echo.train.objective import checked_loss

        return checked_loss(name, loss(*given, **options))

    return checked


METHODS: Registry[Method] = Registry("method", "align_echo.methods", _read)


def episodes_alone(collecting: CollectingSettings) -> BatchCost:
    """Compute the bounds of a method that plays `samples` episodes of each task and learns from all of them."""
    count = collecting.tasks * collecting.samples
    return BatchCost(count, rows=count)
