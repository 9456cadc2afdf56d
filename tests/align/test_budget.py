"""A budget ends a generation run with what it has, on the step, and a larger one goes on as if it had been there."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from align_echo.align import generation
from align_echo.align.budget import Budget, BudgetLimits, BudgetRecord, BudgetSpentError, RoleMeter
from align_echo.align.generation import (
    USUAL_SECONDS,
    ExperimentPrice,
    GenerationConfig,
    GenerationPlan,
    generate_interface,
    measure_price,
    plan_generation,
)
from align_echo.align.loop import GenerationResult, TrainingSplit
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.effects.learner import count_steps
from align_echo.align.probe.effects.trials import WALK
from align_echo.align.probe.findings import MIN_TESTS
from align_echo.align.run_folder import RunFolder, ending
from align_echo.cli.main import main
from align_echo.interface.contract import identity
from align_echo.models.recording import Call
from align_echo.rollout.batches import run_tasks
from align_echo.types import Completion, Message, Misalignment, Trajectory, Usage
from align_echo.wrappers.environment import EnvironmentSpec, never
from align_echo.wrappers.plain import TextEnvironment
from align_echo.wrappers.text_env import TextEnv
from tests import quay_env, ticket_env
from tests.doors import Doors as PlainDoors
from tests.worlds.agents import obedient
from tests.worlds.env import STEP_LIMIT, WorldEnv
from tests.worlds.worlds import held_out_tasks, make_world, train_tasks

WORLD = make_world(
    1, spelling="numbers", refusal="one", listed=True, depth=1, travel="none", whence=False, undo=True, goal="stow",
    looks=False, wrong_words=1, skipped=1, shown=True,
)  # fmt: skip
TASKS = train_tasks(WORLD, 8)


# ---------------------------------------------------------------- the budget itself


def test_each_limit_ends_by_its_name():
    now = [10.0]
    budget = Budget(BudgetLimits(engine_steps=2, seconds=5, tokens=100), clock=lambda: now[0])
    budget.take_step()
    budget.take_step()
    with pytest.raises(BudgetSpentError, match="engine-steps"):
        budget.take_step()
    assert budget.record.engine_steps == 2
    budget = Budget(BudgetLimits(seconds=5), clock=lambda: now[0])
    assert not budget.is_spent()
    now[0] = 15.0
    with pytest.raises(BudgetSpentError, match="seconds"):
        budget.check()
    assert (budget.record.ended_by, budget.record.seconds) == ("seconds", 5.0)


def test_tokens_are_those_reported_else_a_quarter_of_the_characters():
    budget = Budget(BudgetLimits(tokens=100))
    analyzer, optimizer, agent = RoleMeter(budget, 0.7), RoleMeter(budget, 1.0), RoleMeter(budget, None)
    message = Message(role="user", content="x" * 40)
    asked = Call(role="agent", model="m", request="r", temperature=0, max_tokens=9, messages=(message,), reply=None)
    analyzer.after_reply(asked, Completion(text="y" * 8, usage=Usage(prompt_tokens=50, completion_tokens=10)))
    assert budget.record.tokens == 60
    analyzer.before_requests([asked])
    analyzer.after_reply(asked, Completion(text="y" * 8, usage=Usage(prompt_tokens=None, completion_tokens=None)))
    assert budget.record.tokens == 72
    with pytest.raises(BudgetSpentError, match="tokens"):
        analyzer.before_requests([asked])
    optimizer.before_requests([asked])
    budget.add_tokens(28)
    with pytest.raises(BudgetSpentError):
        optimizer.before_requests([asked])
    agent.before_requests([asked])


@pytest.mark.parametrize(
    ("limits", "more"),
    [({"seconds": 5}, False), ({"seconds": 6}, True), ({}, True), ({"seconds": 5, "engine_steps": 9}, False)],
)
def test_only_a_larger_limit_of_the_same_kind_goes_on(limits, more):
    record = BudgetRecord(limits=BudgetLimits(seconds=5), seconds=5.1, ended_by="seconds")
    assert BudgetLimits(**limits).allow_more_than(record) == more
    assert not BudgetLimits(**limits).allow_more_than(BudgetRecord())


# ---------------------------------------------------------------- the probe


@cache
def episodes() -> tuple[Trajectory, ...]:
    return tuple(run_tasks(lambda: WorldEnv(WORLD, TASKS, STEP_LIMIT), obedient(WORLD), TASKS[:3], split="train"))


def analysed(budget: Budget, notes: list[str]) -> list[Misalignment]:
    backend = ProbeBackend(lambda: WorldEnv(WORLD, TASKS, 10**6), TASKS[3:], note=notes.append, budget=budget)
    return backend.analyze(episodes(), [], identity(WORLD.contract))


@pytest.mark.parametrize("steps", [1, 900, 8000])
def test_the_probe_ends_at_the_step_with_rules_that_stood_their_trials(steps):
    notes: list[str] = []
    budget = Budget(BudgetLimits(engine_steps=steps))
    found = analysed(budget, notes)
    assert budget.record.engine_steps == steps
    assert budget.record.ended_by == "engine-steps"
    assert any("budget of engine-steps" in note for note in notes)
    rules = [each for each in found if '"when"' in each.detail]
    assert all(each.evidence.support >= MIN_TESTS and not each.evidence.refuted for each in rules)


def test_enough_steps_end_nothing():
    notes: list[str] = []
    budget = Budget(BudgetLimits(engine_steps=10**6))
    whole = analysed(budget, notes)
    assert budget.record.ended_by == ""
    assert any('"when"' in each.detail for each in whole)
    assert not any("budget" in note for note in notes)


def test_the_probe_ends_with_the_seconds():
    ticks = iter(range(10**9))
    budget = Budget(BudgetLimits(seconds=3000), clock=lambda: float(next(ticks)))
    analysed(budget, [])
    assert budget.record.ended_by == "seconds"
    assert budget.record.engine_steps < 3100


# ---------------------------------------------------------------- a run


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    return WorldEnv(WORLD, TASKS if split == "train" else held_out_tasks(WORLD, 3), step_limit or STEP_LIMIT)


SPEC = EnvironmentSpec(
    name=WORLD.contract.environment,
    summary="a made-up world",
    splits=("train", "test"),
    train_split="train",
    test_split="test",
    step_limit=STEP_LIMIT,
    action_format="words",
    contract=WORLD.contract,
    is_invalid=None,
    task_type=lambda task: "task",
    make_env=make_env,
    task_ids=lambda *, split, data_root: TASKS if split == "train" else held_out_tasks(WORLD, 3),
    training_tasks=lambda *, data_root, iteration, seed: TASKS[:3] if iteration else TASKS[3:],
    has_expert=never,
)


class Agent:
    """The world's agent that errs."""

    name = "errs"

    def __init__(self, *_: object) -> None:
        self.act = obedient(WORLD).act


def planned(**options: Any) -> GenerationPlan:
    config = GenerationConfig(
        env=SPEC, backend="probe", agent=f"{__name__}:Agent", iterations=2, play_tasks=0, **options
    )
    return plan_generation(config)


def generated(path: Path, *, resume: bool = False, **options: Any) -> GenerationResult:
    return generate_interface(planned(**options), path, resume=resume)


def steps_of(record: GenerationResult) -> Iterator[int]:
    yield from (each.budget.engine_steps for each in record.summary.iterations)


def test_a_run_ends_well_at_its_budget_and_a_larger_one_goes_on_as_if_it_had_been_there(tmp_path):
    small = generated(tmp_path / "run", max_engine_steps=100)
    assert (small.summary.stopped, small.summary.budget.ended_by) == ("budget", "engine-steps")
    assert [*steps_of(small)] == [100]
    summary = RunFolder(tmp_path / "run").summary()
    assert summary is not None
    assert summary.budget == small.summary.budget
    again = generated(tmp_path / "run", resume=True, max_engine_steps=100)
    assert (again.interface, again.summary.stopped) == (small.interface, "budget")
    assert again.summary.budget.engine_steps == 100
    larger = generated(tmp_path / "run", resume=True, max_engine_steps=4000)
    fresh = generated(tmp_path / "other", max_engine_steps=4000)
    assert larger.interface.source == fresh.interface.source
    assert larger.summary.misalignments == fresh.summary.misalignments > small.summary.misalignments
    assert [*steps_of(larger)] == [*steps_of(fresh)]


def test_a_budget_that_allows_no_trial_gives_no_result_and_unmeasured_seconds_are_null(tmp_path):
    result = generated(tmp_path, max_engine_steps=1)
    assert result.summary.misalignments == 0
    said = [json.loads(line)["message"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert not any("0 new misalignments" in line or "no new misalignment" in line for line in said)
    assert "no result about 3 failed episodes: the budget was spent before" in said
    assert "no result" in ending(result.summary)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [record["budget"]["seconds"] for record in (summary, *summary["iterations"])] == [None, None]


def test_no_episode_begins_after_the_last_second_and_those_played_are_kept(tmp_path, monkeypatch):
    ticks = iter(range(10**9))
    monkeypatch.setattr(generation, "Budget", partial(Budget, clock=lambda: float(next(ticks))))
    result = generated(tmp_path / "run", max_seconds=3)
    assert (result.summary.stopped, result.summary.iterations) == ("budget", ())
    assert not result.summary.written
    played = [*RunFolder(tmp_path / "run").trajectories(1).read(Trajectory)]
    assert 0 < len(played) < 3
    monkeypatch.undo()
    whole = generated(tmp_path / "run", resume=True, max_engine_steps=100)
    assert [record.tasks for record in whole.summary.iterations] == [3]
    assert [*RunFolder(tmp_path / "run").trajectories(1).read(Trajectory)][: len(played)] == played


# ---------------------------------------------------------------- the price beforehand


class Doors(PlainDoors):
    """Doors that cannot be copied, since a file is open."""

    def __init__(self) -> None:
        self.log = tempfile.TemporaryFile("w")  # noqa: SIM115


REPLAYED = TextEnvironment(Doors, return_range=(-4.0, 2.0), action_format="look | wait")


def test_a_dry_run_says_what_replays_cost_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("align_echo.align.probe.effects.learner.SEARCH_STEPS", 10**8)
    monkeypatch.setattr("align_echo.align.generation.LEARNING_SECONDS", (0.0, 0.0))
    monkeypatch.setattr("align_echo.align.generation.RESTORED_SECONDS", 0.0)
    command = ["generate-interface", "--env", f"{__name__}:REPLAYED", "--agent", f"{__name__}:Agent", "--dry-run"]
    assert main([*command, "--backend", "probe"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"1,000 to [\d,]+ engine steps, \d+ s to \d+ minutes; states are returned to by replaying", shown)
    assert "declare save and restore to make it at most" in shown
    assert "may be more than the budget of 600 seconds" in shown
    assert [*tmp_path.iterdir()] == []


def test_returns_are_priced_in_walks_as_long_as_those_of_trials_whatever_the_step_limit():
    played: list[int] = []

    class Long(PlainDoors):
        """Doors, of which only one can be open."""

        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            played.append(0)
            return super().reset(**options)

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            played[-1] += 1
            return "Nothing.", 0.0, False, False, {}

    world = TextEnvironment(Long, return_range=(-4.0, 2.0), step_limit=3, action_format="wait")
    measure_price(TrainingSplit(world.spec("long")), 1, 1, 1)
    assert max(played) == WALK


DESK, LETTERED = map(ticket_env.environment, (ticket_env.Desk, ticket_env.Lettered))
LUCKY = quay_env.environment(quay_env.Lucky, 20)


class DeskClerk:
    """Clerk of the plain desk."""

    name = "clerk"
    world: type[ticket_env.Desk] = ticket_env.Desk

    def __init__(self) -> None:
        self.act = ticket_env.Clerk(self.world).act


class LetteredClerk(DeskClerk):
    """Clerk of the desk whose pages leave out a letter."""

    world = ticket_env.Lettered


class LuckyPorter:
    """Porter of a quay where posting works by chance."""

    name = "porter"

    def __init__(self) -> None:
        self.act = quay_env.Porter(quay_env.Lucky).act


@pytest.mark.long
@pytest.mark.parametrize(("desk", "agent"), [("DESK", DeskClerk), ("LETTERED", LetteredClerk), ("LUCKY", LuckyPorter)])
def test_a_job_takes_as_many_steps_as_was_said_beforehand(tmp_path, desk, agent):
    name = f"{__name__}:{agent.__name__}"
    plan = plan_generation(GenerationConfig(env=f"{__name__}:{desk}", agent=name, backend="probe", play_tasks=0))
    price = measure_price(plan.world, 20, len(plan.fresh), plan.config.iterations)
    assert price.least <= generate_interface(plan, tmp_path).summary.budget.engine_steps <= price.most


def test_more_iterations_and_lists_may_cost_more_steps_and_not_fewer():
    one, eight, listed = count_steps(1, 0, lists=False), count_steps(8, 0, lists=False), count_steps(1, 0, lists=True)
    assert eight[0] == one[0] < one[1] < eight[1]
    assert listed == (one[0], 2 * one[1])
    long = count_steps(1, 20 * 250, lists=False)
    assert long[1] > 93_349 > one[1]  # MiniGrid-DoorKey: agents' episodes of 250 turns are played again


PRICE = ExperimentPrice(step=0.01, fork=0.1, way="by replaying", replays=True, plain=True, least=10**4, most=10**5)


def test_only_environments_from_outside_that_may_take_long_get_a_limit_of_their_own():
    assert PRICE.limits(BudgetLimits(tokens=9)) == BudgetLimits(tokens=9, seconds=USUAL_SECONDS)
    assert PRICE.limits(BudgetLimits(seconds=9.0)) == BudgetLimits(seconds=9.0)
    own = PRICE.model_copy(update={"plain": False, "replays": False})
    short = PRICE.model_copy(update={"most": 10})
    assert own.limits(BudgetLimits()) == short.limits(BudgetLimits()) == BudgetLimits()
    assert (own.about_limits(BudgetLimits()), short.about_limits(BudgetLimits())) == ("", "")


@pytest.mark.parametrize(("fork", "is_advised"), [(0.1, True), (0.0012, False)])
def test_save_and_restore_are_advised_where_they_cost_less(fork, is_advised):
    price = PRICE.model_copy(update={"step": 0.0001, "fork": fork})
    assert ("declare save and restore" in price.in_words) == is_advised


def test_a_limit_of_steps_below_the_expected_ones_is_said():
    price = PRICE.model_copy(update={"replays": False})
    assert "the budget of 99 engine steps (--max-engine-steps):" in price.about_limits(
        BudgetLimits(engine_steps=99, seconds=10**6)
    )
    both = price.about_limits(BudgetLimits(engine_steps=99, seconds=9))
    assert "99 engine steps (--max-engine-steps) and 9 seconds (--max-seconds)" in both
    assert price.about_limits(BudgetLimits(engine_steps=10**5)) == ""


def test_a_small_budget_walks_less_and_says_so():
    notes: list[str] = []
    analysed(Budget(BudgetLimits(engine_steps=8000)), notes)
    assert any("of the usual walks: they are shorter" in note for note in notes)
