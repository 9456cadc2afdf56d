"""Estimate what a run will ask of its models before it asks any: requests, tokens, and dollars where prices are known.

A stand-in answers the run's own agent and critic in a few of its episodes, with an action drawn at random in a reply of
a fixed length. What it was asked is counted by role and extended to all episodes, each of the whole turn limit. No
model, key or server is needed. Not here: limits (`models/spending.py`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import cycle

from align_echo.agents.presets import get_episode_rules
from align_echo.align.experiments import trajectory_text
from align_echo.align.generation import GenerationPlan
from align_echo.align.hybrid.backend import EPISODES
from align_echo.align.llm.replies import LlmSettings
from align_echo.critic.ask import AttemptQuestion, Critic, ask
from align_echo.errors import ModelError
from align_echo.evaluate.grid import GridPlan, cell_plans
from align_echo.evaluate.in_play import ARMS
from align_echo.evaluate.plan import EvaluationPlan, build_plan_agent
from align_echo.interface.contract import Interface
from align_echo.models.choosing import ModelName, memory_lines
from align_echo.models.endpoint import Role
from align_echo.models.spending import Amount, is_paid, price_of
from align_echo.registry import quantity
from align_echo.rollout.faults import ask as ask_agent
from align_echo.rollout.session import Episode, Session, base_env
from align_echo.types import Agent, ChatModel, Completion, Message, Trajectory, WordChoice
from align_echo.wrappers.copies import draw_action

CHARACTERS_PER_TOKEN = 4
PLAYED_TASKS = 2
"""Tasks of each variant that the stand-in plays."""

WRITTEN_TOKENS = 1000
"""Tokens of a reply of Analyzer or Optimizer."""

INSTRUCTION_TOKENS = 1500
"""Tokens of a prompt of Analyzer or Optimizer besides the episodes."""

WRITERS_REQUESTS: Mapping[str, tuple[int, int]] = {"hybrid": (2, 1), "llm": (15, 8)}
"""Requests to Analyzer and Optimizer in an iteration: hypotheses, attacks on them, and words. Of the llm backend for
each analysis and each version: most are experiments."""

REPLY = """\
Thought: I look at what there is and at what the task asks for, and go on from there.
Plan:
1. Do what the task asks for.
Sub-goal: 1
Verdict: keep
Action: {action}"""


@dataclass
class RoleForecast:
    """What a role is expected to be asked."""

    requests: float = 0.0
    prompt_tokens: float = 0.0
    reply_tokens: float = 0.0

    def add(self, other: RoleForecast, times: float = 1.0) -> None:
        """Add another forecast so many times."""
        self.requests += times * other.requests
        self.prompt_tokens += times * other.prompt_tokens
        self.reply_tokens += times * other.reply_tokens


@dataclass
class Forecast:
    """Expected requests by role and model, and what they were estimated from: the last `attempt` is one of them."""

    roles: dict[tuple[str, ModelName], RoleForecast] = field(default_factory=dict)
    played: int = 0
    episodes: int = 0
    turns: int = 0
    attempt: Trajectory | None = None

    def add(self, role: str, name: ModelName | None, part: RoleForecast, times: float = 1.0) -> None:
        """Add what a model is asked in a role."""
        if name is not None and not name.is_scripted:
            self.roles.setdefault((role, name), RoleForecast()).add(part, times)

    def amount(self, role: str) -> Amount:
        """Return what a role is expected to spend."""
        total = Amount()
        for (known, name), part in self.roles.items():
            if known == role:
                price = price_of(name)
                cost = price.cost(round(part.prompt_tokens), round(part.reply_tokens)) if price else 0.0
                total.add(Amount(cost, round(part.requests), round(part.prompt_tokens), round(part.reply_tokens)))
        return total

    @property
    def lines(self) -> list[str]:
        """Describe the estimate and its basis, a line for each role, and the memory of local models.

        Raises as `memory_lines` does.
        """
        lines = memory_lines(name for _, name in self.roles)
        lines += [self._line(role, name, part) for (role, name), part in self.roles.items()]
        played = RoleForecast()
        for (role, _), part in self.roles.items():
            played.add(part, float(role == "agent"))
        replies = round(played.reply_tokens / (played.requests or 1))
        if not lines:
            return ["expected: no language model is asked"]
        return [
            *lines,
            f"estimated from {quantity(self.played, 'episode')} played with random actions and replies of "
            f"{replies} tokens (a model that thinks writes more), "
            f"for {quantity(self.episodes, 'episode')} of all {self.turns} turns (those that end earlier cost less)",
        ]

    def _line(self, role: str, name: ModelName, part: RoleForecast) -> str:
        tokens = part.prompt_tokens + part.reply_tokens
        words = f"expected: {role} {name}: about {_round(part.requests)} requests, {_round(tokens)} tokens"
        if not is_paid(name):
            return f"{words} of a local model"
        price = price_of(name)
        if price is None:
            return f"{words}; its price is not known"
        cost = price.cost(round(part.prompt_tokens), round(part.reply_tokens))
        return f"{words}, ${cost:,.{2 if cost >= 0.01 else 4}f}"


def _round(number: float) -> str:
    """Round to two digits."""
    return f"{int(float(f'{number:.2g}')):,}"


# ---------------------------------------------------------------- the stand-in


class StandIn:
    """A chat model without a model: it counts what it is asked, and its replies hold the `actions` by turns."""

    name = "stand-in"

    def __init__(self) -> None:
        self.actions = cycle([""])
        self.asked = RoleForecast()

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Count a request, and reply with the next action."""
        self.asked.requests += 1
        self.asked.prompt_tokens += sum(len(message.content) for message in messages) / CHARACTERS_PER_TOKEN
        self.asked.reply_tokens += min(max_tokens, len(REPLY) / CHARACTERS_PER_TOKEN)
        return Completion(text=REPLY.format(action=next(self.actions)))

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Count a request for each conversation, and choose the first word."""
        for messages in conversations:
            self.complete(messages, temperature=0.0, max_tokens=1)
        return [WordChoice(said=words[0]) for _ in conversations]

    def take(self) -> RoleForecast:
        """Return what was asked since the last call."""
        asked, self.asked = self.asked, RoleForecast()
        return asked


def forecast_plan(plan: EvaluationPlan, forecast: Forecast | None = None) -> Forecast:
    """Estimate an evaluation, or a collection, and add it to a forecast."""
    forecast = forecast or Forecast()
    if all(name.is_scripted for name in plan.models):
        return forecast
    rehearsed = replace(plan, truncation=None)
    stand_ins: dict[str, StandIn] = {}
    names = {
        "agent": plan.player.model,
        "judge": plan.critic,
        "critic": plan.refining.critic if plan.refining else None,
    }

    def models(role: str, name: ModelName) -> ChatModel:
        return stand_ins.setdefault(role, StandIn())

    agent = build_plan_agent(rehearsed, models)
    rounds = plan.refining.rounds + 1 if plan.refining else 1
    critic = None
    if plan.refining and plan.refining.critic:
        critic = Critic(models("critic", plan.refining.critic), form=plan.refining.form, max_tokens=plan.judge_tokens)
    tasks = random.Random(plan.seed).sample(plan.task_ids, min(PLAYED_TASKS, len(plan.task_ids)))
    for interface in plan.variants.values():
        for task in tasks:
            attempt, expected = _play(plan, agent, interface, task, stand_ins)
            forecast.attempt = attempt
            forecast.played += 1
            for role, part in expected.items():
                forecast.add(role, names[role], part, rounds * len(plan.episodes) / len(tasks))
            if critic is not None:
                ask(critic, [AttemptQuestion(attempt)])
                part = stand_ins["critic"].take()
                forecast.add("critic", names["critic"], part, (rounds - 1) * len(plan.episodes) / len(tasks))
    forecast.episodes += rounds * len(plan.episodes) * len(plan.variants)
    forecast.turns = max(forecast.turns, plan.spec.step_limit)
    return forecast


def _play(
    plan: EvaluationPlan, agent: Agent, interface: Interface | None, task: str, stand_ins: Mapping[str, StandIn]
) -> tuple[Trajectory, dict[str, RoleForecast]]:
    """Play a task with random actions. Return the episode, and what each role is asked in one of all turns."""
    spec, rng = plan.spec, random.Random(task)
    env = spec.make(plan.split, interface=interface, data_root=plan.data_root)
    asked: dict[str, list[RoleForecast]] = {role: [] for role in stand_ins if role != "critic"}
    rules = get_episode_rules(agent)
    with closing(
        Session(env, agent=agent.name, split=plan.split, action_format=spec.action_format, episode_rules=rules)
    ) as session:
        view = session.reset(Episode(task))
        while not session.over:
            seen = view.turns[-1].observation if view.turns else view.initial_observation
            listed = base_env(env).state.admissible_actions
            drawn = [draw_action(rng, listed, spec.action_format, seen) for _ in range(plan.best_of)]
            for stand_in in stand_ins.values():
                stand_in.actions = cycle(drawn)
            session.act(ask_agent(agent, view))
            view = session.view
            for role, parts in asked.items():
                parts.append(stand_ins[role].take())
        return session.trajectory(), {role: _extend(parts, spec.step_limit) for role, parts in asked.items()}


def _extend(parts: Sequence[RoleForecast], turns: int) -> RoleForecast:
    """Extend what was asked in each turn to an episode of so many turns: prompts grow as they did."""
    whole, count = RoleForecast(), len(parts)
    for part in parts:
        whole.add(part)
    if count >= turns or not count:
        return whole
    growth = (parts[-1].prompt_tokens - parts[0].prompt_tokens) / max(1, count - 1)
    more = turns - count
    later = whole.prompt_tokens / count + max(0.0, growth) * turns / 2
    return RoleForecast(
        requests=whole.requests * turns / count,
        prompt_tokens=whole.prompt_tokens + more * later,
        reply_tokens=whole.reply_tokens * turns / count,
    )


# ---------------------------------------------------------------- verbs of several plans


def forecast_grid(grid: GridPlan) -> Forecast:
    """Estimate all cells of a grid."""
    forecast = Forecast()
    for plan in cell_plans(grid):
        forecast_plan(plan, forecast)
    return forecast


def forecast_generation(plan: GenerationPlan) -> Forecast:
    """Estimate a generation of all its iterations, and the play of its interface at the end."""
    world, config = plan.world, plan.config
    tasks = world.tasks(1, config.seed, config.tasks_per_iteration)
    forecast = Forecast()
    played = EvaluationPlan(
        spec=world.spec,
        split=world.split,
        task_ids=list(tasks),
        interface="none",
        variants={"none": None},
        player=plan.player,
        seed=config.seed,
        data_root=world.data_root,
        max_tokens=plan.reply_tokens("agent"),
        preset=plan.preset,
        history=plan.history,
    )
    one = forecast_plan(played)
    times = config.iterations + len(ARMS) * plan.play_count / len(tasks)
    for (role, name), part in one.roles.items():
        forecast.add(role, name, part, times)
    forecast.played, forecast.turns = one.played, one.turns
    forecast.episodes = config.iterations * len(tasks) + len(ARMS) * plan.play_count
    if plan.chosen in WRITERS_REQUESTS:
        shown = one.attempt  # none where nothing can be played at random
        characters = len(trajectory_text(shown, LlmSettings().episode_characters)) if shown else 0
        _add_writers(plan, forecast, len(tasks), characters / CHARACTERS_PER_TOKEN)
    return forecast


def _add_writers(plan: GenerationPlan, forecast: Forecast, failed: int, episode_tokens: float) -> None:
    """Add what Analyzer and Optimizer are asked, if all episodes fail in every iteration."""
    settings = LlmSettings()
    shown = EPISODES if plan.chosen == "hybrid" else settings.episodes_per_analysis
    analyses = 1 if plan.chosen == "hybrid" else -(-failed // settings.episodes_per_analysis)
    prompt = min(shown, failed) * episode_tokens + INSTRUCTION_TOKENS
    of_analyzer, of_optimizer = WRITERS_REQUESTS[plan.chosen]
    writers: list[tuple[Role, ModelName | None, int]] = [
        ("analyzer", plan.analyzer, of_analyzer * analyses),
        ("optimizer", plan.optimizer, of_optimizer),
    ]
    for role, name, count in writers:
        reply = min(WRITTEN_TOKENS, plan.reply_tokens(role) or settings.max_tokens)
        requests = plan.config.iterations * count
        forecast.add(role, name, RoleForecast(requests, requests * prompt, requests * reply))
