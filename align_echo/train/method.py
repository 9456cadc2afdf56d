"""What a method of training is: how a harvest is collected, what it costs at most, and what it needs.

A method is a file that ends in a `Method`. Ours are in `methods/`; another's is named in a config as
`method: module:NAME`, or by the name of its entry point in the group `align_echo.methods`.
Left out: learning from what was collected (`trainer.py`), and the settings that go with a method (`configs/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from align_echo.critic.language import FORMS
from align_echo.errors import UsageError
from align_echo.grammar import with_article
from align_echo.models.endpoint import resolve_base_url
from align_echo.registry import Registry
from align_echo.train.rewards import RewardName
from align_echo.train.rows import Harvest, Role
from align_echo.train.stage import Stage
from align_echo.types import Frozen


def _known_form(name: str) -> str:
    FORMS.get(name)
    return name


def _address(url: str) -> str:
    if "@" in url:
        raise UsageError("a server's URL holds no user and password: set ALIGN_ECHO_API_KEY to the key")
    address = resolve_base_url(url)
    return address if address.endswith("/v1") else f"{address}/v1"


class Collecting(Frozen, allow_inf_nan=False):
    """How a batch is played."""

    tasks: int = Field(default=4, ge=1)
    """Tasks in a batch."""
    samples: int = Field(default=8, ge=1)
    """Of each task: episodes, refined attempts, sessions or verdicts."""
    rounds: int = Field(default=2, ge=1)
    """ICRL: attempts of a session at most."""
    states: int = Field(default=2, ge=1)
    """RCM: actions of a task that its critic judges."""
    critic_reward: RewardName = "saturation"
    """What a critique earns by the scores before and after it."""
    form: Annotated[str, AfterValidator(_known_form)] = "echo"
    """What the critic is asked: a name, or `module:NAME`."""
    temperature: float = Field(default=1.0, gt=0)
    """Of both roles."""
    best_of: int = Field(default=1, ge=1)
    """Candidates for an action, of which the policy's own verdict takes one."""
    turns: int | None = Field(default=None, ge=1)
    """Turns of an episode at most; null: the environment's limit."""
    reply_tokens: int = Field(default=64, ge=1)
    """Of one reply of the policy."""
    critique_tokens: int = Field(default=160, ge=1)
    """Of one critique or verdict."""
    workers: int = Field(default=32, ge=1)
    """Episodes at once."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights of engines in this process; the weights that learn stay float32."""
    servers: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    """Base URLs of the vLLM servers that play; none: engines in this process."""


@dataclass(frozen=True)
class Bounds:
    """What one harvest costs at most: the policy's `episodes` and the expert's `lessons`, what the critic writes, and
    the policy's `rows` to learn from."""

    episodes: int
    critiques: int = 0
    rows: int = 0
    lessons: int = 0


@dataclass(frozen=True)
class Method:
    """A method by name. `harvest(queries, stage, collecting)` plays and gives the rows to learn from.

    `roles` are those that it makes rows of. `needs` is what the environment must have: an "expert", "distances" to the
    goal, or nothing (""). `refines` is True where critiques are followed by new attempts, whose scores are kept;
    `imitates` where a row's reward is compared with no other's (`step.advantage: reward`).
    """

    name: str
    collect: Callable[[Sequence[str], Stage, Collecting], Harvest]
    bounds: Callable[[Collecting], Bounds]
    roles: tuple[Role, ...] = ("policy",)
    needs: Literal["", "expert", "distances"] = ""
    refines: bool = False
    imitates: bool = False


def _read(name: str, entry: object) -> Method:
    if not isinstance(entry, Method):
        kind = with_article(type(entry).__name__)
        raise UsageError(f"{name} is {kind}: a method is an align_echo.train.method.Method")
    return entry


METHODS: Registry[Method] = Registry("method", "align_echo.methods", _read)


def episodes_alone(collecting: Collecting) -> Bounds:
    """The bounds of a method that plays `samples` episodes of each of its queries and learns from all."""
    count = collecting.tasks * collecting.samples
    return Bounds(count, rows=count)
