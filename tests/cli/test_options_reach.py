"""Every option of `evaluate` and of `grid`, seen where it acts: at models, in the worlds that are played, in files.

`SCENES` and `GRIDS` are the tables (`tests/reach.py`): a new option needs a row in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from align_echo.base.jsonl import JsonlFile
from align_echo.cli.main import main
from align_echo.models.endpoint import DEFAULT_BASE_URL
from align_echo.types import Trajectory
from align_echo.workers.ray_cluster import play_tasks
from tests.cli import test_cli, test_forecast, test_grid, test_spending, test_tools
from tests.cli.door_models import (
    FEEDBACK,
    HINT,
    RULE,
    SPLITS,
    Drawn,
    arguments,
    chat,
    sampling,
    script_models,
    told,
    write_interfaces,
)
from tests.cli.test_request_fields import SEEN
from tests.doors import REFUSED
from tests.reach import Case, Row, Scene, check, options, unseen

WORLDS = "tests.cli.door_models"


@dataclass
class Evaluated(Drawn):
    """What an evaluation did: what its models were asked, and what is in its folder."""

    folder: Path = Path()
    workers: list[int] = field(default_factory=list)

    @property
    def episodes(self) -> list[Trajectory]:
        files = sorted(self.folder.glob("**/trajectories/*.jsonl"))
        return [trajectory for file in files for trajectory in JsonlFile(file).read(Trajectory)]

    @property
    def parts(self) -> str:
        return " ".join(sorted(file.stem for file in self.folder.glob("**/trajectories/*.jsonl")))


SWITCHES = ("rules", "feedback", "placebo", "halves", "retract")


def row(option: str, see: Callable[[Evaluated], Any], *cases: Case) -> Row[Evaluated]:
    return Row(option, see, cases)


# ---------------------------------------------------------------- what is looked at


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

PLAYED = {"env": f"{WORLDS}:DOORS", "model": "transformers:first", "tasks": 2, "temperature": 0.7}
CHOSEN = {**PLAYED, "tasks": 4}

PRESET: Scene[Evaluated] = Scene(
    {**PLAYED, "temperature": None},
    [row("agent_preset", sampling("max_tokens"), (None, [512]), ("align-paper", [1024]))],
)

SCENES: dict[str, Scene[Evaluated]] = {
    "who plays what": Scene(
        PLAYED,
        [
            row("env", told(REFUSED), (f"{WORLDS}:DOORS", False), (f"{WORLDS}:LOCKED", True)),
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
            row("history_turns", told("left out here"), (9, False), (1, True)),
            row("history_tokens", told("left out here"), (4000, False), (256, True)),
            row("top_k", sampling("top_k"), (5, [5]), (7, [7])),
            row("top_p", sampling("top_p"), (0.5, [0.5]), (0.9, [0.9])),
            row("chat_template", chat("template"), (None, ""), ("./own.jinja", "./own.jinja")),
            row("template_args", chat("args"), (None, ""), ('{"a": 1}', '{"a": 1}')),
            row(
                "dtype",
                lambda played: played.dtypes,
                *((None, {""}), *((kind, {kind}) for kind in ("float32", "bfloat16", "float16"))),
            ),
            row("interface", told(RULE), ("none", False), ("./knock.py", True)),
            row("workers", lambda played: played.workers[0], (2, 2), (3, 3)),
            row("out", lambda played: played.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "halves of an interface": Scene(
        {**PLAYED, "env": f"{WORLDS}:LOCKED", "interface": "./knock.py"},
        [
            row("rules", told(RULE), (True, True), (False, False), (True, True)),
            row("feedback", told(FEEDBACK), (True, True), (True, True), (False, False)),
        ],
    ),
    "variants": Scene(
        {**PLAYED, "interface": "./knock.py"},
        [row("compare", lambda played: played.parts, (False, "full"), (True, "feedback full none placebo rules"))],
    ),
    "placebo": Scene(
        {**PLAYED, "interface": "./knock.py", "compare": True},
        [
            row("placebo", lambda played: "placebo" in played.parts, (True, True), (False, False)),
            row("halves", lambda played: "rules" in played.parts, (True, True), (False, False)),
        ],
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
        {**PLAYED, "env": f"{WORLDS}:LOCKED", "tasks": 1, "interface": "./misleading.py"},
        [row("retract", lambda played: hints(played) > len(("red", "green")), (True, False), (False, True))],
    ),
    "preset": PRESET,
    "engine": Scene(
        {**PLAYED, "env": f"{WORLDS}:FORKED"}, [row("engine", told("At the back."), ("front", False), ("back", True))]
    ),
    "turns": Scene(
        {**PLAYED, "env": f"{WORLDS}:LOCKED"},
        [row("turns", lambda played: max(len(each.steps) for each in played.episodes), (2, 2), (3, 3))],
    ),
    "rounds": Scene(
        {**PLAYED, "env": f"{WORLDS}:LOCKED"},
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
                *((None, DEFAULT_BASE_URL), ("http://127.0.0.1:9", "http://127.0.0.1:9")),
            )
        ],
    ),
}


GRIDS: dict[str, Scene[Evaluated]] = {
    "options": Scene(
        {**PLAYED, "agent": "vanilla", "interface": "./knock.py"},
        [
            row("env", told(REFUSED), (f"{WORLDS}:DOORS", False), (f"{WORLDS}:LOCKED", True)),
            row("agent", told("Thought: what"), ("vanilla", False), ("react", True)),
            row(
                "model",
                lambda played: played.players,
                *(("transformers:first", "first"), ("transformers:other", "other")),
            ),
            row("interface", told(RULE), ("./knock.py", True), ("./misleading.py", False)),
            row("tasks", tasks, (2, 2), (3, 3)),
            row("temperature", sampling("temperature"), (0.7, [0.7]), (1.3, [1.3])),
            row("max_tokens", sampling("max_tokens"), (300, [300]), (400, [400])),
            row("history_turns", told("left out here"), (9, False), (1, True)),
            row("history_tokens", told("left out here"), (4000, False), (256, True)),
            row("placebo", lambda played: "placebo" in played.parts, (True, True), (False, False)),
            row("workers", lambda played: played.workers[0], (2, 2), (3, 3)),
            row("out", lambda played: played.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "preset": Scene({**PRESET.base, "agent": "vanilla", "interface": "./knock.py"}, PRESET.rows),
    "turns": Scene(
        {**SCENES["turns"].base, "agent": "vanilla", "interface": "./knock.py"}, list(SCENES["turns"].rows)
    ),
    "hints": Scene(
        {**SCENES["hints"].base, "agent": "vanilla"},
        [row("retract", lambda played: hints(played) > len(("red", "green")), (True, False), (False, True))],
    ),
    "server": Scene(
        {**SCENES["server"].base, "agent": "vanilla", "interface": "./knock.py"}, list(SCENES["server"].rows)
    ),
}


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Give a verb options, and say what was done. Local models are scripts."""
    write_interfaces(Path())
    records: list[Evaluated] = []

    def played(workers: Any, *given: Any, **options: Any) -> None:
        records[-1].workers.append(workers.count)
        play_tasks(workers, *given, **options)

    script_models(monkeypatch, records)
    monkeypatch.setattr("align_echo.evaluate.playing.play_tasks", played)

    def begin(verb: str) -> Callable[[dict[str, Any], int], Evaluated]:
        def call(values: dict[str, Any], number: int) -> Evaluated:
            records.append(Evaluated(folder=tmp_path / str(number) / values.get("out", "out")))
            given = {**values, "out": records[-1].folder}
            assert main([verb, *arguments(given, switches=SWITCHES)]) == 0
            return records[-1]

        return call

    return begin


def test_every_option_is_seen_where_it_acts():
    seed = {"seed": test_another_seed_plays_other_tasks_with_other_draws}
    apart = {
        "tools": test_tools.test_a_run_with_tools_goes_on_with_tools_only,
        "resume": test_cli.test_a_stopped_evaluation_says_how_to_go_on_and_does,
        "data_root": test_cli.test_bad_input_is_one_line_status_2_and_nothing_written,
        **dict.fromkeys(
            ("max_cost", "max_requests", "max_tokens_total"),
            test_spending.test_nothing_beyond_a_limit_is_sent_and_a_larger_limit_goes_on,
        ),
        "dry_run": test_forecast.test_the_run_asks_what_the_forecast_said,
    }
    resumed = {
        "resume": test_grid.test_a_stopped_grid_goes_on_where_it_stopped,
        "dry_run": test_forecast.test_the_run_asks_what_the_forecast_said,
        **test_spending.LIMITS,
    }
    fields = {name: SEEN[name] for name in ("reasoning_effort", "extra_body")}
    assert unseen(options("evaluate"), SCENES.values(), {**seed, **apart, **fields}) == []
    assert unseen(options("grid"), GRIDS.values(), {**seed, **resumed, **SEEN}) == []


@pytest.mark.parametrize("name", SCENES)
def test_options_of_evaluate_act(name, play):
    check(SCENES[name], play("evaluate"))


@pytest.mark.parametrize("name", GRIDS)
def test_options_of_grid_act(name, play):
    check(GRIDS[name], play("grid"))


GRID = {"agent": "vanilla", "interface": "./knock.py"}


@pytest.mark.parametrize(("verb", "more"), [("evaluate", {}), ("grid", GRID)])
def test_another_seed_plays_other_tasks_with_other_draws(verb, more, play):
    values = {**PLAYED, **more}
    first, other, again = (play(verb)({**values, "seed": seed}, run) for run, seed in enumerate((0, 5, 0)))

    def drawn(played: Evaluated) -> list[object]:
        return [{each.task_id for each in played.episodes}, {request.sampling.seed for request in played.drawn}]

    assert drawn(first) == drawn(again)
    assert all(here != there for here, there in zip(drawn(first), drawn(other), strict=True))
