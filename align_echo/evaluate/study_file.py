"""What a study's YAML file holds: read, and checked as far as that needs no look-up.

The files of `studies/` are studies by name. Left out: what names stand for, and what is played (`study.py`).
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
from align_echo.errors import UsageError, did_you_mean, first_line
from align_echo.reading import first_wrong, in_yaml, yaml_mapping
from align_echo.regular_files import read_text
from align_echo.types import Frozen

GENERATE = "generate"
"""The interface that is learned in the study, by every agent in every environment."""

VERIFICATION = "verification"
ENDINGS = (".yaml", ".yml")

LEARNING = ("backend", "analyzer_model", "optimizer_model", "iterations", "tasks_per_iteration")
"""Settings of a file that only say how interfaces are learned."""

AgentEntry = tuple[str, str | None]
"""An agent's name and that of its model; None for the agent's own choice."""


MOST_WORKERS = 1024
"""Most episodes at once: a thread each."""


def _agent_entry(given: object) -> AgentEntry:
    """An agent of a YAML file: a name, or a mapping of `agent` and `model`."""
    if isinstance(given, str):
        return given, None
    strange = sorted({*map(str, given)} - {"agent", "model"}) if isinstance(given, dict) else []
    if isinstance(given, dict) and not strange and "agent" in given:
        agent, model = given["agent"], given.get("model")
        if isinstance(agent, str) and isinstance(model, str | None):
            return agent, model
    without = f", without {', '.join(strange)}" if strange else ""
    raise ValueError(f"an agent is a name or {{agent: NAME, model: NAME}}{without}")


def as_written(entry: AgentEntry) -> str | dict[str, str]:
    """An agent as a file has it."""
    agent, model = entry
    return agent if model is None else {"agent": agent, "model": model}


def _list(given: object) -> tuple[object, ...]:
    if isinstance(given, list | tuple):
        return tuple(given)
    if given is None:
        raise ValueError("nothing is there: write a list, [] for an empty one")
    raise ValueError(f"write a list: [{in_yaml(given)}]")


def _pair(given: object) -> tuple[object, ...]:
    if isinstance(given, list | tuple) and len(given) == 2:
        return tuple(given)
    raise ValueError("write a pair: [[LEARNER, PLAYER]]")


def _number(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError("write a number")
    return given


Named = Annotated[AgentEntry, BeforeValidator(_agent_entry), PlainSerializer(as_written)]
Pair = Annotated[tuple[Named, Named], BeforeValidator(_pair)]
AsList = BeforeValidator(_list)
AtLeastOne = Field(min_length=1)


class StudyFile(Frozen, allow_inf_nan=False, strict=True):
    """A study as it was asked for; docs/reference/config.md has a table of the keys."""

    environments: Annotated[tuple[str, ...], AtLeastOne, AsList]
    """Names, or `module:Name`."""
    agents: Annotated[tuple[Named, ...], AtLeastOne, AsList]
    """Names as for `--agent`, or `{agent: NAME, model: NAME}` with a model as for `--model`."""
    interface: str
    """A shipped name or a `.py` file, looked up in each environment; or `generate`: each agent learns one in each."""
    tasks: int = Field(default=20, ge=1)
    """Of each environment's test split, spread evenly over its task types."""
    seed: int = Field(default=0, ge=0)
    """Of every draw."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], AtLeastOne, AsList] | None = None
    """In place of `seed`: each has tables of its own, and no mean is taken over them."""
    placebo: bool = True
    """Whether the placebo is played too."""
    retract: bool = True
    """Whether hints are withheld whose like were followed and did not come true."""
    ablations: Annotated[tuple[Literal["rules", "feedback", "verification"], ...], AsList] = ()
    """Without WrapStep (`rules`), without InferRules (`feedback`), or learned without experiments (`verification`, with
    `backend: llm` alone)."""
    transfer: Annotated[tuple[Pair, ...], AsList] = ()
    """Pairs `[A, B]` of the agents: what A learned is played by B, on the same episodes without an interface; needs
    `interface: generate`."""
    backend: BackendName = "probe"
    """How interfaces are learned."""
    analyzer_model: str | None = None
    """The Analyzer's; null: the agent's."""
    optimizer_model: str | None = None
    """The Optimizer's; null: the agent's."""
    iterations: int = Field(default=ITERATIONS, ge=1)
    """At most so many."""
    tasks_per_iteration: int | None = Field(default=None, ge=1)
    """Null: the paper's number."""
    base_url: str | None = None
    """The endpoint of the models; it may differ when a study is resumed."""
    temperature: Annotated[float, Field(ge=0, strict=False), BeforeValidator(_number)] | None = None
    """Of agents that ask a model; null: each agent's own."""
    max_tokens: int | None = Field(default=None, ge=256)
    """Of one reply of such an agent; null: 512."""
    agent_preset: str | None = None
    """Of agents that ask a model, as for `--agent-preset`; null: none."""
    workers: int | None = Field(default=None, ge=1, le=MOST_WORKERS)
    """Episodes at once; it may differ when a study is resumed."""

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Every seed that the study is played with."""
        return self.seeds or (self.seed,)


def label_of(entry: AgentEntry) -> str:
    """How tables and folders call an agent with the model that the file names for it."""
    agent, model = entry
    return agent if model is None else f"{agent}({model})"


def studies() -> list[str]:
    """The studies that come along, by name."""
    names = (file.name for file in _folder().iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read_study(name: str | Path) -> StudyFile:
    """The study of a name or of a YAML file. Raises `UsageError` in one line that names the first wrong key."""
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
        raise UsageError(f"cannot read {text}: {first_line(error)}") from None
    return checked_study(content, text)


def checked_study(text: str, source: str) -> StudyFile:
    """The study that a YAML text asks for. Raises `UsageError` that begins with `source`."""
    try:
        file = StudyFile.model_validate(yaml_mapping(text, source))
    except ValidationError as error:
        raise UsageError(f"{source}: {first_wrong(error)}") from None
    refuse_contradictions(file, source)
    return file


def refuse_contradictions(file: StudyFile, source: str) -> None:
    """Raises `UsageError` for settings that contradict each other; the line begins with `source`."""
    for problem in _contradictions(file):
        raise UsageError(f"{source}: {problem}")


def _contradictions(file: StudyFile) -> list[str]:
    """What is wrong with settings that are each right by themselves."""
    agents = [label_of(entry) for entry in file.agents]
    pairs = [(label_of(learner), label_of(player)) for learner, player in file.transfer]
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
    """What to do about an agent of a transfer that is not among the agents as it is written."""
    alike = [in_yaml(as_written(known)) for known in agents if known[0] == entry[0]]
    return f"write it as there, {' or '.join(alike)}" if alike else "add it there"


@contextmanager
def in_keys(where: str = "") -> Iterator[None]:
    """Let a `UsageError` about options name the keys of a file that mean the same; the line begins with `where`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(where + _keys_for_options(str(error))) from error


def _keys_for_options(message: str) -> str:
    """A message of another verb in the words of a file, where no option or variable names the model of learning."""
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
