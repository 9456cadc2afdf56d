"""What a study's YAML file holds: read, and checked as far as that needs no look-up.

The files of `studies/` are studies by name. Left out: what names stand for, and what is played (`study.py`).
"""

from __future__ import annotations

from collections import Counter
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from align_echo.align.generation import BackendName
from align_echo.align.loop import ITERATIONS
from align_echo.errors import UsageError, did_you_mean, first_line
from align_echo.reading import first_wrong, yaml_mapping
from align_echo.types import Frozen

GENERATE = "generate"
"""The interface that is learned in the study, by every agent in every environment."""

VERIFICATION = "verification"
ENDINGS = (".yaml", ".yml")

LEARNING = ("backend", "analyzer_model", "optimizer_model", "iterations", "tasks_per_iteration")
"""Settings of a file that only say how interfaces are learned."""

AgentEntry = tuple[str, str | None]
"""An agent's name and that of its model; None for the agent's own choice."""


def _agent_entry(given: object) -> AgentEntry:
    """An agent of a YAML file: a name, or a mapping of `agent` and `model`."""
    if isinstance(given, str):
        return given, None
    if isinstance(given, dict) and {"agent"} <= given.keys() <= {"agent", "model"}:
        agent, model = given["agent"], given.get("model")
        if isinstance(agent, str) and isinstance(model, str | None):
            return agent, model
    raise ValueError("an agent is a name or {agent: NAME, model: NAME}")


Named = Annotated[AgentEntry, BeforeValidator(_agent_entry)]


class StudyFile(Frozen, allow_inf_nan=False):
    """A study as it was asked for; docs/cli.md has a table of the keys."""

    environments: Annotated[tuple[str, ...], Field(min_length=1)]
    agents: Annotated[tuple[Named, ...], Field(min_length=1)]
    interface: str
    tasks: int = Field(default=20, ge=1)
    seed: int = Field(default=0, ge=0)
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    placebo: bool = True
    ablations: tuple[Literal["rules", "feedback", "verification"], ...] = ()
    transfer: tuple[tuple[Named, Named], ...] = ()
    backend: BackendName = "probe"
    analyzer_model: str | None = None
    optimizer_model: str | None = None
    iterations: int = Field(default=ITERATIONS, ge=1)
    tasks_per_iteration: int | None = Field(default=None, ge=1)
    base_url: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=256)
    workers: int | None = Field(default=None, ge=1)

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
    if not text.endswith(ENDINGS):
        hint = did_you_mean(text, studies())
        raise UsageError(f"unknown study {text!r}; {hint}known: {', '.join(studies())}; your own is a FILE.yaml")
    try:
        content = Path(text).read_text(encoding="utf-8")
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
        f"transfer: {label} is not among the agents: add it there"
        for pair in pairs
        for label in pair
        if label not in agents
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


def _folder() -> Traversable:
    return resources.files("align_echo.evaluate").joinpath("studies")
