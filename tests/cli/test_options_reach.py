"""Every option of `evaluate`, seen where it acts: at the model that is asked, in the world that is played, in files.

`SCENES` is the table (`tests/reach.py`): a new option needs a row in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from align_echo.cli.main import main
from align_echo.evaluate import comparison
from align_echo.jsonl import JsonlFile
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.engine import Request
from align_echo.models.names import ModelName
from align_echo.types import Trajectory
from align_echo.wrappers.plain import TextEnvironment
from tests.cli import test_agents, test_cli
from tests.doors import REFUSED, Doors
from tests.models.local.scripted_engine import ScriptedEngine
from tests.models.local.tiny import tiny_encoder
from tests.reach import Case, Row, Scene, check, options, unseen

ENCODER = tiny_encoder()
RULE, FEEDBACK = "Knock before you open.", "You did not knock."
INTERFACE = f"""
def InferRules(init_obs, task):
    return {RULE!r}

def WrapStep(env, init_obs, task, agent_action, logger):
    observation, reward, done, info = env.step(agent_action)
    return observation + " " + {FEEDBACK!r}, info["won"], done
"""


HINT = "You have to `sing` first."
MISLEADING = f"""
def InferRules(init_obs, task):
    return ""

def WrapStep(env, init_obs, task, agent_action, logger):
    observation, reward, done, info = env.step(agent_action)
    return observation + " " + {HINT!r} * agent_action.startswith("open"), info["won"], done
"""


class Locked(Doors):
    """The same, without a way out."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return REFUSED, 0.0, False, False, {}


SPLITS = {"train": range(4), "test": range(4, 8), "spare": range(8, 12)}
DOORS = TextEnvironment(Doors, splits=SPLITS, step_limit=2, return_range=(-4.0, 2.0))
LOCKED = TextEnvironment(Locked, splits=SPLITS, step_limit=12)
HERE = "tests.cli.test_options_reach"


def said(text: str, seed: int) -> str:
    """An action of an agent by chance, or what it is told to do; a critique in its form; or a verdict with a reason."""
    if "You are the critic" in text:
        return "<reason>It was late.</reason>\n<suggestions>\nopen green\n</suggestions>"
    if "You made this attempt" in text:
        return "Mistake: It was late.\nNext time: open green"
    if "First say why" in text:
        return f"Reason: It is so.\nVerdict: {'correct' if liked(text) > 0.5 else 'wrong'}"
    action = "sing" if HINT in text.rpartition("user")[2] else "open red" if seed % 2 else "open green"
    return f"Thought: so\nAction: {action}" if "Thought: what" in text else action


def liked(text: str) -> float:
    """How right an action is that is proposed at the end: the green door is."""
    return 0.9 if "open green</action>" in text[-200:] else 0.2


@dataclass
class Evaluated:
    """What an evaluation did: requests by engine, the models that were loaded, and what is in its folder."""

    folder: Path
    error: str = ""
    engines: dict[str, ScriptedEngine] = field(default_factory=dict)
    base_urls: set[str | None] = field(default_factory=set)
    workers: list[int] = field(default_factory=list)

    @property
    def drawn(self) -> list[Request]:
        """Requests for replies, and not for verdicts in one word."""
        asked = [request for engine in self.engines.values() for request in engine.asked]
        return [request for request in asked if not request.sampling.choices]

    @property
    def episodes(self) -> list[Trajectory]:
        files = sorted((self.folder / "trajectories").glob("*.jsonl"))
        return [trajectory for file in files for trajectory in JsonlFile(file).read(Trajectory)]

    @property
    def parts(self) -> str:
        return " ".join(sorted(file.stem for file in (self.folder / "trajectories").glob("*.jsonl")))

    def asked_of(self, *words: str) -> str:
        """The engines whose contexts hold all the words."""
        return " ".join(
            name
            for name, engine in self.engines.items()
            if any(all(word in ENCODER.text(request.ids) for word in words) for request in engine.asked)
        )


def row(option: str, see: Callable[[Evaluated], Any], *cases: Case) -> Row[Evaluated]:
    return Row(option, see, cases)


# ---------------------------------------------------------------- what is looked at


def sampling(part: str) -> Callable[[Evaluated], Any]:
    """The values of a part of the sampling of replies."""
    return lambda played: sorted({getattr(request.sampling, part) for request in played.drawn})


def told(text: str) -> Callable[[Evaluated], bool]:
    """Whether a model is told a text."""
    return lambda played: bool(played.asked_of(text))


def tasks(played: Evaluated) -> int:
    return len({episode.task_id for episode in played.episodes})


def splits(played: Evaluated) -> str:
    """The split of the episodes, and those that their tasks are of."""
    own = {name for name, ids in SPLITS.items() for each in played.episodes if int(each.task_id) in ids}
    return f"{' '.join({each.split for each in played.episodes})}: {' '.join(own)}"


def candidates(played: Evaluated) -> int:
    """The most candidates of a turn."""
    choices = [step.choice for each in played.episodes for step in each.steps]
    return max(len(choice.candidates) if choice else 1 for choice in choices)


def taken(played: Evaluated) -> bool:
    """Whether another candidate than the first was ever sent."""
    choices = [step.choice for each in played.episodes for step in each.steps]
    return any(choice is not None and choice.taken != 0 for choice in choices)


def hints(played: Evaluated) -> int:
    """Turns of an episode on which the agent is told to sing."""
    return max(sum(HINT in step.observation for step in each.steps) for each in played.episodes)


# ---------------------------------------------------------------- the table

PLAYED = {"env": f"{HERE}:DOORS", "model": "transformers:first", "tasks": 2, "temperature": 0.7}
CHOSEN = {**PLAYED, "tasks": 4}

SCENES: dict[str, Scene[Evaluated]] = {
    "who plays what": Scene(
        PLAYED,
        [
            row("env", told(REFUSED), (f"{HERE}:DOORS", False), (f"{HERE}:LOCKED", True)),
            row("agent", told("Thought: what"), ("vanilla", False), ("react", True)),
            row(
                "model",
                lambda played: " ".join(played.engines),
                *(("transformers:first", "first"), ("transformers:other", "other")),
            ),
            row("split", splits, (None, "test: test"), ("spare", "spare: spare")),
            row("tasks", tasks, (2, 2), (3, 3)),
            row("episodes_per_task", lambda played: len(played.episodes) / tasks(played), (1, 1), (2, 2)),
            row("temperature", sampling("temperature"), (0.7, [0.7]), (1.3, [1.3])),
            row("max_tokens", sampling("max_tokens"), (300, [300]), (400, [400])),
            row("top_k", sampling("top_k"), (5, [5]), (7, [7])),
            row("top_p", sampling("top_p"), (0.5, [0.5]), (0.9, [0.9])),
            row("interface", told(RULE), ("none", False), ("./knock.py", True)),
            row("workers", lambda played: played.workers[0], (2, 2), (3, 3)),
            row("out", lambda played: played.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "halves of an interface": Scene(
        {**PLAYED, "env": f"{HERE}:LOCKED", "interface": "./knock.py"},
        [
            row("rules", told(RULE), (True, True), (False, False), (True, True)),
            row("feedback", told(FEEDBACK), (True, True), (True, True), (False, False)),
        ],
    ),
    "variants": Scene(
        {**PLAYED, "interface": "./knock.py"},
        [row("compare_all", lambda played: played.parts, (False, "full"), (True, "feedback full none placebo rules"))],
    ),
    "placebo": Scene(
        {**PLAYED, "interface": "./knock.py", "compare_all": True},
        [row("placebo", lambda played: "placebo" in played.parts, (True, True), (False, False))],
    ),
    "candidates": Scene(
        CHOSEN,
        [
            row("best_of", candidates, (2, 2), (3, 3)),
            row(
                "judge",
                lambda played: played.asked_of("is proposed"),
                *((None, "first"), ("transformers:other", "other")),
            ),
            row("reasoning", told("First say why"), (False, False), (True, True)),
        ],
    ),
    "choice": Scene({**CHOSEN, "best_of": 3}, [row("pick", taken, ("critic", True), ("first", False))]),
    "doubt": Scene({**CHOSEN, "best_of": 3}, [row("abstain_below", taken, (0.0, True), (0.95, False))]),
    "hints": Scene(
        {**PLAYED, "env": f"{HERE}:LOCKED", "tasks": 1, "interface": "./misleading.py"},
        [row("retract", lambda played: hints(played) > len(("red", "green")), (True, False), (False, True))],
    ),
    "rounds": Scene(
        {**PLAYED, "env": f"{HERE}:LOCKED"},
        [
            row("refine_rounds", lambda played: played.parts, (1, "round-0 round-1"), (2, "round-0 round-1 round-2")),
            row(
                "critic",
                lambda played: played.asked_of("<score>"),
                *(("self", "first"), ("transformers:other", "other")),
            ),
            row("critic_form", told("You made this attempt"), ("echo", False), ("icrl", True)),
        ],
    ),
    "server": Scene(
        {**PLAYED, "model": "vllm-server:first"},
        [
            row(
                "base_url",
                lambda played: str(*played.base_urls),
                *((None, "None"), ("http://127.0.0.1:9", "http://127.0.0.1:9")),
            )
        ],
    ),
}


def arguments(values: dict[str, Any]) -> list[str]:
    """Options as they are written; switches are True or False."""
    written = []
    for name, value in values.items():
        option = "--" + {"compare_all": "compare"}.get(name, name).replace("_", "-")
        if value is False:
            written += [option.replace("--", "--no-")] if name in ("rules", "feedback", "placebo", "retract") else []
        elif value is not None:
            written += [option] if value is True else [option, str(value)]
    return written


@pytest.fixture
def evaluate(monkeypatch, tmp_path):
    """Evaluate with options, and say what was done. Local models are scripts."""
    Path("knock.py").write_text(INTERFACE)
    Path("misleading.py").write_text(MISLEADING)
    records: list[Evaluated] = []
    run_variant = comparison.run_variant

    def run(name: ModelName, base_url: str | None, processes: int) -> LocalModel:
        engine = records[-1].engines.setdefault(name.source, ScriptedEngine(name.source, ENCODER, said, liked))
        records[-1].base_urls.add(base_url)
        return LocalModel(engine, ENCODER, weights=name.source)

    def played(*given: Any, **options: Any) -> list[Trajectory]:
        records[-1].workers.append(options["workers"].count)
        return run_variant(*given, **options)

    monkeypatch.setattr("align_echo.models.local._running", run)
    monkeypatch.setattr("align_echo.evaluate.playing.run_variant", played)

    def call(values: dict[str, Any], number: int) -> Evaluated:
        records.append(Evaluated(tmp_path / str(number) / values.get("out", "out")))
        given = {**values, "out": records[-1].folder}
        assert main(["evaluate", *arguments(given)]) == 0
        return records[-1]

    return call


def test_every_option_of_evaluate_is_seen_where_it_acts():
    apart = {
        "agent_preset": test_agents.test_an_agent_plays_under_the_preset_of_the_paper,
        "turns": test_agents.test_turns_and_engine_act_and_are_kept,
        "engine": test_agents.test_turns_and_engine_act_and_are_kept,
        "seed": test_another_seed_plays_other_tasks_with_other_draws,
        "resume": test_cli.test_a_stopped_evaluation_says_how_to_go_on_and_does,
        "data_root": test_cli.test_bad_input_is_one_line_status_2_and_nothing_written,
    }
    assert unseen(options("evaluate"), SCENES.values(), apart) == []


@pytest.mark.parametrize("name", SCENES)
def test_options_of_evaluate_act(name, evaluate):
    check(SCENES[name], evaluate)


def test_another_seed_plays_other_tasks_with_other_draws(evaluate):
    first, other, again = (evaluate({**PLAYED, "seed": seed}, run) for run, seed in enumerate((0, 5, 0)))

    def drawn(played: Evaluated) -> list[object]:
        return [{each.task_id for each in played.episodes}, {request.sampling.seed for request in played.drawn}]

    assert drawn(first) == drawn(again)
    assert all(here != there for here, there in zip(drawn(first), drawn(other), strict=True))
