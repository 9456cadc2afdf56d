"""Scripted critiques of shopping: the fault that the pages show, and advice that helps the next attempt."""

from __future__ import annotations

import functools
import re

import pytest

import align_echo
from align_echo.agents.novices.webshop import shop_novice
from align_echo.base.dice import Dice
from align_echo.critic.language import Critique, parse_critique
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import Episode, base_env
from align_echo.types import Agent, AgentReply, AgentView, Trajectory
from studies.pocket.critiques import critique_demonstration
from studies.pocket.shopping import BUY, HABITS, Careless, Shopper, Wish
from studies.pocket.wordings import Advice

FAULTS = {
    "vague": r"search",
    "dear": r"costs|price|too dear|paid",
    "stuck on search": r"search ",
    "stuck on results": r"click\[\D",
    "stuck on item": r"click\[|buy now|choose ",
}
"""What the reason for each habit's failure must speak of."""

COMMAND = re.compile(r"(search|click)\[[^\]]+\]")


def shop(step_limit: int = 12):
    return align_echo.make("webshop", split="train", step_limit=step_limit)


def criticise(trajectory: Trajectory, seed: str = "0") -> tuple[Critique, Advice]:
    demonstration, advice = critique_demonstration(trajectory, Dice(seed))
    assert demonstration.kind == "webshop.critique"
    return parse_critique(demonstration.messages[-1].content), advice


@functools.cache
def attempts(habit: str) -> tuple[Trajectory, ...]:
    """Failed attempts of a careless shopper on eight goals."""
    env = shop()
    ids = align_echo.tasks("webshop", split="train")[:400:50]
    played = [run_episode(env, Careless(habit, Dice(task)), task, split="train") for task in ids]
    return tuple(attempt for attempt in played if attempt.score < 1)


@pytest.mark.parametrize("habit", FAULTS)
def test_the_reason_speaks_of_the_habit_that_cost_the_score(habit: str) -> None:
    reasons = [criticise(attempt)[0].reason for attempt in attempts(habit)]
    assert reasons
    assert sum(re.search(FAULTS[habit], reason) is not None for reason in reasons) > len(reasons) / 2


def test_advice_ends_in_the_commands_that_it_names() -> None:
    for habit in HABITS:
        for attempt in attempts(habit):
            critique, advice = criticise(attempt)
            assert advice.commands
            assert all(command in critique.advice for command in advice.commands)
            assert all(COMMAND.search(suggestion) for suggestion in critique.suggestions)


class Hasty(Shopper):
    """Opens the right product and buys it at once."""

    def shop(self, view: AgentView, wish: Wish) -> str:
        return BUY


def test_an_option_that_was_left_out_is_named() -> None:
    env = shop()
    named = 0
    for task in align_echo.tasks("webshop", split="train")[:400:20]:
        attempt = run_episode(env, Hasty(), task, split="train")
        critique, advice = criticise(attempt)
        options = [match[1] for match in map(re.compile(r"click\[([^B<].*)\]").fullmatch, advice.commands) if match]
        for option in options:
            assert option in attempt.goal
            assert option in attempt.steps[-2].observation
        if options and re.search("choose|chosen|left it out|clicked", critique.reason):
            named += 1
            assert all(option in critique.reason for option in options)
            assert advice.commands == (*(f"click[{option}]" for option in options), BUY)
    assert named >= 5


def test_who_follows_the_advice_does_better() -> None:
    env = shop()
    first, after = 0.0, 0.0
    for habit in HABITS:
        for attempt in attempts(habit):
            episode = Episode(attempt.task_id, critique=criticise(attempt)[0].advice)
            first += attempt.score
            after += run_episode(env, Shopper(), episode, split="train").score
    assert after > 1.5 * first


class Wanderer:
    """Clicks anything, in any case of letters, and says nonsense now and then."""

    name = "wanderer"

    def __init__(self, env, seed: str) -> None:
        self._env = base_env(env)
        self._dice = Dice(seed)

    def act(self, view: AgentView) -> AgentReply:
        clicks = [action for action in self._env.state.admissible_actions or () if "Buy" not in action]
        action: str | None = self._dice.pick([*clicks, "search[mug]", "SEARCH[shoe]", "hello", "click[x]"])
        if self._dice.chance(0.1):
            action = None
        elif self._dice.chance(0.3):
            action = (action or "").lower()
        if self._dice.chance(0.1):
            action = "click[buy now]"
        return AgentReply(text=action or "", action=action)


@pytest.mark.parametrize("make", [Wanderer, lambda env, seed: shop_novice(seed=int(seed))], ids=["wanderer", "novice"])
def test_whatever_was_done_the_critique_can_be_read(make) -> None:
    env = shop(20)
    for number, task in enumerate(align_echo.tasks("webshop", split="train")[:1200:40]):
        agent: Agent = make(env, str(number))
        attempt = run_episode(env, agent, task, split="train")
        critique, _ = criticise(attempt, str(number))
        assert critique.is_none == (attempt.score >= 1)
        assert len(critique.suggestions) <= 2


def test_nothing_done_is_criticised_too() -> None:
    env = shop()
    task = align_echo.tasks("webshop", split="train")[0]
    attempt = run_episode(env, Shopper(), task, split="train").model_copy(update={"steps": (), "score": 0.0})
    critique, advice = criticise(attempt)
    assert advice.commands[0].startswith("search[")
    assert advice.commands[0] in critique.advice
