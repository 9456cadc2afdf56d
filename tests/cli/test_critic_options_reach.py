"""Every option of `critic collect` and `critic flywheel`, seen where it acts.

`COLLECTING` and `TURNING` are the tables (`tests/reach.py`). What a critic learns by is seen in
`tests/gaia/test_settings_reach.py`: here, that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

from align_echo.cli.main import main
from align_echo.gaia.collect import read_collection
from align_echo.gaia.fit.intuitive import TrainingSummary
from align_echo.gaia.trial import TrialConfig, run_trial
from align_echo.models.endpoint import DEFAULT_BASE_URL
from align_echo.types import Trajectory
from align_echo.workers.ray_cluster import play_tasks
from tests.cli import test_cli, test_critic, test_forecast, test_spending, test_tools
from tests.cli.door_models import (
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
from tests.models.local.tiny import tiny_config, tiny_model, tiny_tokenizer
from tests.reach import Case, Row, Scene, check, options, unseen

WORLDS = "tests.cli.door_models"


@dataclass
class Made(Drawn):
    """What a command did; `fits` are the critics that were trained, by what they were given, `trials` their rules."""

    folder: Path = Path()
    workers: list[int] = field(default_factory=list)
    fits: list[dict[str, Any]] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)

    def collection(self, part: str = "") -> list[Trajectory]:
        return read_collection(self.folder / part)[0]

    @property
    def settings(self) -> Any:
        """What the first critic learned by."""
        return self.fits[0]["settings"]


def row(option: str, see: Callable[[Made], Any], *cases: Case) -> Row[Made]:
    return Row(option, see, cases)


# ---------------------------------------------------------------- what is looked at


def splits(part: str = "") -> Callable[[Made], str]:
    """The split of a collection, and those that its tasks are of."""

    def found(made: Made) -> str:
        played = made.collection(part)
        own = {name for name, ids in SPLITS.items() for each in played if int(each.task_id) in ids}
        return f"{' '.join({each.split for each in played})}: {' '.join(own)}"

    return found


def tasks(part: str = "") -> Callable[[Made], int]:
    return lambda made: len({each.task_id for each in made.collection(part)})


def candidates(part: str = "") -> Callable[[Made], int]:
    """The most candidates of a turn."""

    def found(made: Made) -> int:
        choices = [step.choice for each in made.collection(part) for step in each.steps]
        return max(len(choice.candidates) if choice else 1 for choice in choices)

    return found


def leads(part: str = "") -> Callable[[Made], str]:
    """Whose actions were carried out, where an expert wins and the agent does not."""

    def found(made: Made) -> str:
        won = {each.won for each in made.collection(part)}
        return "mixed" if len(won) == 2 else "expert" if won == {True} else "agent"

    return found


def hints(made: Made) -> int:
    """Turns of an episode on which the agent is told to sing."""
    return max(sum(HINT in step.observation for step in each.steps) for each in made.collection())


def begun(number: int) -> Callable[[Made], str]:
    """What a critic began as."""
    return lambda made: Path(made.fits[number]["model"].text).name


def rules(made: Made) -> str:
    """What a critic learned by, and what it was tried by."""
    return f"{made.fits[0]['rule']} {made.trials[0]}"


def own_labels(made: Made) -> set[str]:
    """The rules of one's own that actions were labelled by."""
    labelled = read_collection(made.folder)[1]
    return {rule for episode in labelled for turn in episode.turns for each in turn for rule in each.own}


def compares_last(made: Made) -> bool:
    """Whether the critic's trial compares a rule of one's own."""
    return f'"{WORLDS}:LAST"' in (made.folder / "round-1/trial/summary.json").read_text()


# ---------------------------------------------------------------- the tables

PLAYED = {"env": f"{WORLDS}:DOORS", "model": "transformers:first", "tasks": 4}

MODEL = row("model", lambda made: made.players, ("transformers:first", "first"), ("transformers:other", "other"))

COLLECTING: dict[str, Scene[Made]] = {
    "options": Scene(
        PLAYED,
        [
            row("env", told("At the back."), (f"{WORLDS}:DOORS", False), (f"{WORLDS}:BACK_DOORS", True)),
            row("agent", told("Thought: what"), ("vanilla", False), ("react", True)),
            row("split", splits(), (None, "train: train"), ("spare", "spare: spare")),
            row("tasks", tasks(), (2, 2), (4, 4)),
            row("episodes_per_task", lambda made: len(made.collection()) / tasks()(made), (1, 1), (2, 2)),
            row("candidates", candidates(), (2, 2), (3, 3)),
            row("temperature", sampling("temperature"), (0.7, [0.7]), (1.3, [1.3])),
            row("max_tokens", sampling("max_tokens"), (300, [300]), (400, [400])),
            row("top_k", sampling("top_k"), (None, [30]), (7, [7])),
            row("top_p", sampling("top_p"), (None, [0.8]), (0.9, [0.9])),
            row("chat_template", chat("template"), (None, ""), ("./own.jinja", "./own.jinja")),
            row("template_args", chat("args"), (None, ""), ('{"a": 1}', '{"a": 1}')),
            row("interface", told(RULE), ("none", False), ("./knock.py", True)),
            row("rule", own_labels, (None, set()), (f"{WORLDS}:ALL_WRONG", {f"{WORLDS}:ALL_WRONG"})),
            row("workers", lambda made: made.workers[0], (2, 2), (3, 3)),
            row("out", lambda made: made.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "models": Scene(
        {**PLAYED, "candidates": 2},
        [
            MODEL,
            row("judge", lambda made: made.asked_of("is proposed"), (None, ""), ("transformers:judge", "judge")),
        ],
    ),
    "states": Scene(
        {**PLAYED, "env": f"{WORLDS}:HIDDEN", "episodes_per_task": 4},
        [row("states", leads(), ("agent", "agent"), ("expert", "expert"), ("mixed", "mixed"))],
    ),
    "hints": Scene(
        {**PLAYED, "env": f"{WORLDS}:HIDDEN_LONG", "candidates": 1, "tasks": 1, "interface": "./misleading.py"},
        [row("retract", lambda made: hints(made) > len(("red", "green")), (True, False), (False, True))],
    ),
    "turns": Scene(
        {**PLAYED, "env": f"{WORLDS}:HIDDEN_LONG"},
        [row("turns", lambda made: max(len(each.steps) for each in made.collection()), (2, 2), (3, 3))],
    ),
    "server": Scene(
        {**PLAYED, "model": "vllm-server:first"},
        [row("base_url", lambda made: str(*made.base_urls), (None, DEFAULT_BASE_URL), ("http://a/v1", "http://a/v1"))],
    ),
}

TURNED = {**PLAYED, "critic_model": "./start", "rounds": 1, "candidates": 2, "test_tasks": 2}
FIRST, TESTS = "round-1/collection", "held-out"

TURNING: dict[str, Scene[Made]] = {
    "options": Scene(
        TURNED,
        [
            row("env", told("At the back."), (f"{WORLDS}:DOORS", False), (f"{WORLDS}:BACK_DOORS", True)),
            row("agent", told("Thought: what"), ("vanilla", False), ("react", True)),
            MODEL,
            row("critic_model", begun(0), ("./start", "start"), ("./other", "other")),
            row("rounds", lambda made: len(made.fits), (1, 1), (2, 2)),
            row("split", splits(FIRST), (None, "train: train"), ("spare", "spare: spare")),
            row("tasks", tasks(FIRST), (3, 3), (4, 4)),
            row("test_split", splits(TESTS), (None, "test: test"), ("train", "train: train")),
            row("test_tasks", tasks(TESTS), (2, 2), (3, 3)),
            row("candidates", candidates(FIRST), (2, 2), (3, 3)),
            row("test_candidates", candidates(TESTS), (None, 2), (4, 4)),
            row("temperature", sampling("temperature"), (0.7, [0.7]), (1.3, [1.3])),
            row("max_tokens", sampling("max_tokens"), (300, [300]), (400, [400])),
            row("top_k", sampling("top_k"), (None, [30]), (7, [7])),
            row("top_p", sampling("top_p"), (None, [0.8]), (0.9, [0.9])),
            row("rule", rules, ("nearer", "nearer nearer"), ("expert", "expert expert")),
            row("pick", compares_last, (None, False), (f"{WORLDS}:LAST", True)),
            row("weights", lambda made: made.settings.weights, ("lora", "lora"), ("full", "full")),
            row("lr", lambda made: made.settings.lr, (1e-3, 1e-3), (2e-3, 2e-3)),
            row("epochs", lambda made: made.settings.epochs, (4, 4), (5, 5)),
            row("config", lambda made: made.settings.batch_size, ("paper-gaia", 16), ("./mine.yaml", 5)),
            row("held_out", lambda made: made.fits[0]["share"], (0.2, 0.2), (0.3, 0.3)),
            row("workers", lambda made: made.workers[0], (2, 2), (3, 3)),
            row("out", lambda made: made.folder.name, ("here", "here"), ("there", "there")),
        ],
    ),
    "states": Scene(
        {**TURNED, "env": f"{WORLDS}:HIDDEN", "tasks": 8},
        [row("states", leads(FIRST), ("agent", "agent"), ("expert", "expert"), ("mixed", "mixed"))],
    ),
    "turns": Scene(
        {**TURNED, "env": f"{WORLDS}:HIDDEN_LONG"},
        [row("turns", lambda made: max(len(each.steps) for each in made.collection(FIRST)), (2, 2), (3, 3))],
    ),
    "server": Scene(
        {**TURNED, "model": "vllm-server:first"},
        [row("base_url", lambda made: str(*made.base_urls - {None}), (None, DEFAULT_BASE_URL), ("http://a/v1", "http://a/v1"))],
    ),
    "no distance": Scene(
        {**TURNED, "env": f"{WORLDS}:UNMEASURED"},
        [row("rule", rules, ("continues", "continues continues"), ("expert", "expert expert"))],
    ),
    "beginnings": Scene(
        {**TURNED, "rounds": 2},
        [row("begin", begun(1), ("start", "start"), ("last", "critic"))],
    ),
}


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Give a command options, and say what was done. Local models are scripts, and critics learn nothing."""
    write_interfaces(Path())
    Path("mine.yaml").write_text("batch_size: 5\n")
    for name in ("start", "other"):
        tiny_model().save_pretrained(name)
        tiny_tokenizer().save_pretrained(name)
    records: list[Made] = []

    def played(workers: Any, *given: Any, **given_by_name: Any) -> None:
        records[-1].workers.append(workers.count)
        play_tasks(workers, *given, **given_by_name)

    def fitted(collections: Sequence[Path], folder: Path, **given_by_name: Any) -> TrainingSummary:
        records[-1].fits.append({**given_by_name, "collections": collections})
        tiny_config().save_pretrained(folder / "critic")
        rule: Any = given_by_name["rule"] or "nearer"
        return TrainingSummary(rule=rule, learned_from=1, tasks=1, too_long=0, temperature=1.0, held_out=None)

    def tried(config: TrialConfig, folder: Path, **given_by_name: Any) -> Any:
        records[-1].trials.append(str(config.rule))
        return run_trial(config, folder, **given_by_name)

    script_models(monkeypatch, records)
    monkeypatch.setattr("align_echo.evaluate.playing.play_tasks", played)
    monkeypatch.setattr("align_echo.gaia.flywheel.fit", fitted)
    monkeypatch.setattr("align_echo.gaia.flywheel.run_trial", tried)

    def begin(verb: str) -> Callable[[dict[str, Any], int], Made]:
        def call(values: dict[str, Any], number: int) -> Made:
            records.append(Made(folder=tmp_path / str(number) / values.get("out", "out")))
            given = {**values, "out": records[-1].folder}
            assert main(["critic", verb, *arguments(given, switches=["retract"])]) == 0
            return records[-1]

        return call

    return begin


@pytest.mark.parametrize("name", COLLECTING)
def test_options_of_collecting_act(name, command):
    check(COLLECTING[name], command("collect"))


@pytest.mark.long
@pytest.mark.parametrize("name", TURNING)
def test_options_of_the_flywheel_act(name, command):
    check(TURNING[name], command("flywheel"))


def test_every_option_of_collecting_and_of_the_flywheel_is_seen_where_it_acts():
    seed = {"seed": test_another_seed_plays_other_tasks_with_other_draws}
    resumed = test_critic.test_a_finished_collection_resumes_to_the_same
    collected = {
        "resume": resumed,
        "data_root": test_cli.test_bad_input_is_one_line_status_2_and_nothing_written,
        "dry_run": test_forecast.test_the_run_asks_what_the_forecast_said,
        **test_spending.LIMITS,
    }
    fields = {name: SEEN[name] for name in ("reasoning_effort", "extra_body")}
    collected["tools"] = test_tools.test_a_collection_by_calls_is_labelled_as_its_actions
    turned = {"resume": resumed, **test_spending.LIMITS}
    assert unseen(options("critic collect"), COLLECTING.values(), {**seed, **collected, **fields}) == []
    assert unseen(options("critic flywheel"), TURNING.values(), {**seed, **turned, **SEEN}) == []


@pytest.mark.parametrize(("verb", "values", "part"), [("collect", PLAYED, ""), ("flywheel", TURNED, FIRST)])
def test_another_seed_plays_other_tasks_with_other_draws(verb, values, part, command):
    given = {**values, "tasks": 2}
    first, other, again = (command(verb)({**given, "seed": seed}, run) for run, seed in enumerate((0, 5, 0)))

    def drawn(made: Made) -> list[object]:
        return [{each.task_id for each in made.collection(part)}, {request.sampling.seed for request in made.drawn}]

    assert drawn(first) == drawn(again)
    assert all(here != there for here, there in zip(drawn(first), drawn(other), strict=True))
