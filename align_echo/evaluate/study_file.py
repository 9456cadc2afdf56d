"""Read a study's YAML file and check what needs no look-up.

The files of `studies/` are studies by name. Not here: resolving names, and playing (`study.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError

from align_echo.align.generation import BackendName
from align_echo.align.loop import ITERATIONS
from align_echo.base.files import read_text
from align_echo.base.plain_yaml import first_wrong, in_yaml, yaml_mapping
from align_echo.errors import UsageError, did_you_mean, unreadable
from align_echo.types import Frozen

GENERATE = "generate"
"""Name for interfaces generated in the study, for every agent in every environment."""

VERIFICATION = "verification"
ENDINGS = (".yaml", ".yml")

LEARNING = ("backend", "analyzer_model", "optimizer_model", "iterations", "tasks_per_iteration")
"""Settings of a file for generating interfaces only."""

AgentEntry = tuple[str, str | None]
"""An agent's name and its model's name; None for the agent's default."""


MOST_WORKERS = 1024
"""Most episodes at once: a thread each."""


def _agent_entry(value: object) -> AgentEntry:
    """Parse an agent of a YAML file: a name, or a mapping of `agent` and `model`."""
    if isinstance(value, str):
        return value, None
    unknown_keys = sorted({*map(str, value)} - {"agent", "model"}) if isinstance(value, dict) else []
    if isinstance(value, dict) and not unknown_keys and "agent" in value:
        agent, model = value["agent"], value.get("model")
        if isinstance(agent, str) and isinstance(model, str | None):
            return agent, model
    hint = f", without {', '.join(unknown_keys)}" if unknown_keys else ""
    raise ValueError(f"an agent is a name or {{agent: NAME, model: NAME}}{hint}")


def as_written(entry: AgentEntry) -> str | dict[str, str]:
    """Write an agent as in a file."""
    agent, model = entry
    return agent if model is None else {"agent": agent, "model": model}


def _list(value: object) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    if value is None:
        raise ValueError("nothing is there: write a list, [] for an empty one")
    raise ValueError(f"write a list: [{in_yaml(value)}]")


def _pair(value: object) -> tuple[object, ...]:
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    raise ValueError("write a pair: [[LEARNER, PLAYER]]")


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a number")
    return value


Named = Annotated[AgentEntry, BeforeValidator(_agent_entry), PlainSerializer(as_written)]
Pair = Annotated[tuple[Named, Named], BeforeValidator(_pair)]
AsList = BeforeValidator(_list)
AtLeastOne = Field(min_length=1)


class StudyFile(Frozen, allow_inf_nan=False, strict=True):
    """Settings of a study; docs/reference/config.md has a table of the keys."""

    environments: Annotated[tuple[str, ...], AtLeastOne, AsList]
    """Names, or `module:Name`."""
    agents: Annotated[tuple[Named, ...], AtLeastOne, AsList]
    """Names as for `--agent`, or `{agent: NAME, model: NAME}` with a model as for `--model`."""
    interface: str
    """A shipped name or a `.py` file, looked up in each environment; or `generate`: one per agent and environment."""
    tasks: int = Field(default=20, ge=1)
    """Tasks of each environment's test split, spread evenly over its task types."""
    seed: int = Field(default=0, ge=0)
    """Seed of all random draws."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], AtLeastOne, AsList] | None = None
    """In place of `seed`: each has its own tables, without means over them."""
    placebo: bool = True
    """Also play the placebo."""
    retract: bool = True
    """Withhold hints of rules that were followed without success."""
    ablations: Annotated[tuple[Literal["rules", "feedback", "verification"], ...], AsList] = ()
    """Without WrapStep (`rules`), without InferRules (`feedback`), or generated without experiments (`verification`,
    only with `backend: llm`)."""
    transfer: Annotated[tuple[Pair, ...], AsList] = ()
    """Pairs `[A, B]` of agents: A's generated interface is played by B, with the same episodes without an interface;
    needs `interface: generate`."""
    backend: BackendName = "probe"
    """Method to generate interfaces."""
    analyzer_model: str | None = None
    """Model of the Analyzer; null: the agent's."""
    optimizer_model: str | None = None
    """Model of the Optimizer; null: the agent's."""
    iterations: int = Field(default=ITERATIONS, ge=1)
    """Most iterations."""
    tasks_per_iteration: int | None = Field(default=None, ge=1)
    """Tasks per iteration; null: the paper's number."""
    base_url: str | None = None
    """Endpoint of the models; it may differ when a study is resumed."""
    temperature: Annotated[float, Field(ge=0, strict=False), BeforeValidator(_number)] | None = None
    """Temperature of agents with a model; null: each agent's own."""
    max_tokens: int | None = Field(default=None, ge=256)
    """Most tokens of a reply of an agent with a model; null: 512."""
    template_args: str | None = None
    """As `--template-args`, for every model that an agent names; null: none."""
    reasoning_effort: str | None = None
    """As `--reasoning-effort`, for these models; null: none."""
    extra_body: str | None = None
    """As `--extra-body`, for these models; null: none."""
    turns: int | None = Field(default=None, ge=1)
    """Step limit of all episodes; null: that of the preset, else each environment's own."""
    agent_preset: str | None = None
    """Preset of agents with a model, as for `--agent-preset`; null: none."""
    workers: int | None = Field(default=None, ge=1, le=MOST_WORKERS)
    """Parallel episodes; it may differ when a study is resumed."""

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Return every seed of the study."""
        return self.seeds or (self.seed,)


def agent_label(entry: AgentEntry) -> str:
    """Name an agent in tables and folders, with its model if the file names one."""
    agent, model = entry
    return agent if model is None else f"{agent}({model})"


def studies() -> list[str]:
    """List the shipped studies by name."""
    names = (file.name for file in _folder().iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read_study(name: str | Path) -> StudyFile:
    """Read a study by name or from a YAML file. Raises `UsageError` in one line naming the first wrong key."""
    text = str(name)
    if text in studies():
        return checked_study(_folder().joinpath(f"{text}.yaml").read_text(encoding="utf-8"), text)
    if not text.lower().endswith(ENDINGS):
        hint = did_you_mean(text, studies())
        known = ", ".join(studies())
        raise UsageError(f"unknown study {text!r}; {hint}known: {known}; your own is a FILE.yaml or FILE.yml")
    try:
        content = read_text(Path(text))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(unreadable(text, error)) from None
    return checked_study(content, text)


def checked_study(text: str, source: str) -> StudyFile:
    """Parse and check a study from YAML text. Raises `UsageError` that begins with `source`."""
    try:
        file = StudyFile.model_validate(yaml_mapping(text, source))
    except ValidationError as error:
        raise UsageError(f"{source}: {first_wrong(error, of_settings=True)}") from None
    refuse_contradictions(file, source)
    return file


def refuse_contradictions(file: StudyFile, source: str) -> None:
    """Raise `UsageError` for contradictory settings; the line begins with `source`."""
    for problem in _contradictions(file):
        raise UsageError(f"{source}: {problem}")


def _contradictions(file: StudyFile) -> list[str]:
    """List the contradictions between individually valid settings."""
    agents = [agent_label(entry) for entry in file.agents]
    pairs = [(agent_label(learner), agent_label(player)) for learner, player in file.transfer]
    axes: dict[str, list[str]] = {
        "environments": list(file.environments),
        "agents": agents,
        "seeds": [str(seed) for seed in file.all_seeds],
        "ablations": list(file.ablations),
        "transfer": [f"[{learner}, {player}]" for learner, player in pairs],
    }
    problems = [
        f"{axis}: {name} is there twice: name each once"
        for axis, names in axes.items()
        for name, count in Counter(names).items()
        if count > 1
    ]
    if {"seed", "seeds"} <= file.model_fields_set:
        problems.append("seeds: seed is there too: leave one of them out")
    problems += [
        f"transfer: {in_yaml(as_written(entry))} is not among the agents: {_remedy(entry, file.agents)}"
        for pair in file.transfer
        for entry in pair
        if entry not in file.agents
    ]
    problems += [
        f"transfer: {learner} plays its own interface in the study anyway: name two agents"
        for learner, player in pairs
        if learner == player
    ]
    if file.interface != GENERATE:
        needing = [*(key for key in LEARNING if key in file.model_fields_set), *(["transfer"] if pairs else [])]
        needing += ["ablations: verification"] if VERIFICATION in file.ablations else []
        problems += [f"{key}: nothing is learned in this study: it needs interface: {GENERATE}" for key in needing]
    return problems


def _remedy(entry: AgentEntry, agents: tuple[AgentEntry, ...]) -> str:
    """Suggest a fix for an agent of a transfer missing among the agents."""
    similar = [in_yaml(as_written(known)) for known in agents if known[0] == entry[0]]
    return f"write it as there, {' or '.join(similar)}" if similar else "add it there"


@contextmanager
def in_keys(where: str = "") -> Iterator[None]:
    """Rename options in a `UsageError` to the file's keys; the line begins with `where`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(where + _keys_for_options(str(error))) from error


def _keys_for_options(message: str) -> str:
    """Translate a message about options into the keys of a file."""
    message = re.sub(r" \(or --model NAME for both\)| or set ALIGN_ECHO_MODEL", "", message)
    message = message.replace("add --model NAME", "add analyzer_model and optimizer_model")

    def key_for(option: re.Match[str]) -> str:
        key, value = option[1].replace("-", "_"), option[2]
        if key not in StudyFile.model_fields and key not in ("agent", "model"):
            return option[0]
        return f"{key}: {value}" if value else key

    return re.sub(r"--([a-z-]+)(?: (NAME|llm|probe)\b)?", key_for, message)


def _folder() -> Traversable:
    return resources.files("align_echo.evaluate").joinpath("studies")
