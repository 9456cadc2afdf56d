"""The interface for methods to play: episodes of the policy, critiques and verdicts of the critic.

Methods see a stage and no trainer. Not here: environments and models, and updates of weights between steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import gymnasium as gym

from align_echo.agents.conversation import ChatAgent, assistant_message
from align_echo.agents.privileged import expert
from align_echo.base.halting import on_threads
from align_echo.critic.ask import CRITIQUE_TOKENS, ActionQuestion, AttemptQuestion, Critic, Label, Verdict, ask
from align_echo.critic.best_of import BestOf
from align_echo.critic.labels import label_turns
from align_echo.critic.language import ECHO, CritiqueForm
from align_echo.errors import EngineError, ReplyFormatError
from align_echo.models.local.chat import LocalModel
from align_echo.rollout.batches import HOPELESS, run_tasks, view_before
from align_echo.rollout.session import Episode, base_env
from align_echo.tokens import join
from align_echo.types import Tokens, Trajectory, join_thinking

Made = TypeVar("Made")

PARTS = 4
"""Parts of a batch played at once by engines on the CPU. With more, a part would have fewer workers than a group has
episodes."""


@dataclass(frozen=True)
class CritiqueRequest:
    """A request for a critique of an attempt; `sample` numbers several critiques of the same attempt."""

    attempt: Trajectory
    sample: int = 0


@dataclass(frozen=True)
class ActionProposal:
    """A proposed action to judge: that of an attempt's turn, counted from 0. `sample` as for critiques."""

    attempt: Trajectory
    turn: int
    sample: int = 0

    @property
    def action(self) -> str:
        """Return the action. Raises `ValueError` for a turn without an action."""
        action = self.attempt.steps[self.turn].action
        if action is None:
            raise ValueError(f"turn {self.turn} of {self.attempt.task_id} holds no action")
        return action


class Stage(Protocol):
    """A place to play and to ask the critic. Answers come in the order of the requests."""

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Play an episode of the policy for each."""

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        """Ask the critic for a critique of each attempt. No attempt may be broken."""

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        """Label the action of each turn of each episode; None if the oracle cannot tell."""

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        """Ask the critic for a reasoned verdict on each action."""

    def lessons(self, tasks: Sequence[str]) -> list[Trajectory]:
        """Play each task with the environment's expert, who sees the hidden state; omit broken episodes.

        Steps hold the tokens of the policy's chat format, with log-probabilities of 0. An episode longer than the
        policy's context counts as lost: the policy could not have finished it.
        """

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        """Return stored episodes by name, with tokens as `lessons` has them."""

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Return the token ids before the policy's first reply, without a critique."""

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], tasks: Sequence[str]) -> list[Made]:
        """Call `collect(stage, part)` for parts of the tasks at once, and return the results in order.

        Parts do not wait for each other between requests. The result for a task must not depend on its part.
        """


@dataclass(frozen=True)
class LocalStage:
    """A stage with policy and critic on local models, which may share an engine. `agent` builds the policy's agent.

    With `best_of` above 1, each action is the best of so many candidates by the policy's own verdict
    (`critic/best_of.py`). `rule` defines right actions (`critic/labels.py`). `overlapped` divides tasks and `workers`
    into `parts`. Play ends if each of the first `hopeless` episodes broke (0: never). `stored` are demonstrations by
    name. All draws depend on the models' `seed`: use `at_step` for each step, or every step draws the same.
    """

    make_env: Callable[[], gym.Env[str, str]]
    agent: Callable[[LocalModel], ChatAgent]
    policy: LocalModel
    critic: LocalModel
    split: str
    action_format: str
    form: CritiqueForm = ECHO
    critic_temperature: float = 1.0
    critic_tokens: int = CRITIQUE_TOKENS
    best_of: int = 1
    rule: str = "nearer"
    workers: int = 16
    parts: int = 1
    hopeless: int = HOPELESS
    stored: Mapping[str, Trajectory] = field(default_factory=dict)

    def at_step(self, step: int) -> LocalStage:
        """Copy the stage with a seed for this step."""
        policy = replace(self.policy, seed=self.policy.seed * 1_000_003 + step)
        return replace(self, policy=policy, critic=replace(self.critic, seed=self.critic.seed * 1_000_003 + step))

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Play an episode of the policy for each."""
        agent = self.agent(self.policy)
        return run_tasks(
            self.make_env,
            BestOf(agent, self.best_of) if self.best_of > 1 else agent,
            episodes,
            split=self.split,
            action_format=self.action_format,
            workers=self.workers,
            hopeless=self.hopeless,
        )

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        """Ask the critic for a critique of each attempt."""
        questions = [AttemptQuestion(request.attempt, request.sample) for request in requests]
        return ask(self._critic, questions, threads=self.workers)

    @property
    def _critic(self) -> Critic:
        """Return the critic as it is asked: with a reason, once, in the stage's form."""
        return Critic(
            self.critic, votes=1, form=self.form, draws_at=self.critic_temperature, max_tokens=self.critic_tokens
        )

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        """Label the action of each turn of each episode; None for all turns if the engine breaks."""
        env = self.make_env()
        try:
            return [self._labels(env, trajectory) for trajectory in played]
        finally:
            env.close()

    def _labels(self, env: gym.Env[str, str], trajectory: Trajectory) -> list[Label | None]:
        try:
            return label_turns(env, trajectory, self.rule)
        except EngineError:
            return [None] * len(trajectory.steps)

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        """Ask the critic for a reasoned verdict on each action. It reads the policy's conversation."""
        agent = self.agent(self.policy)
        questions = [
            ActionQuestion(
                agent.conversation(view_before(proposal.attempt, proposal.turn, self.action_format)),
                proposal.action,
                proposal.sample,
            )
            for proposal in proposals
        ]
        return ask(self._critic, questions, threads=self.workers)

    def lessons(self, tasks: Sequence[str]) -> list[Trajectory]:
        """Play each task with the environment's expert."""
        played = run_tasks(
            self.make_env,
            expert(lambda: base_env(self.make_env())),
            tasks,
            split=self.split,
            action_format=self.action_format,
        )
        return [self._as_own(trajectory) for trajectory in played if trajectory.fault is None and trajectory.steps]

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        """Return stored episodes by name, with replies that the policy's agent reads as the same actions."""
        return [self._as_own(self._in_own_form(self.stored[name])) for name in names]

    def _in_own_form(self, trajectory: Trajectory) -> Trajectory:
        """Replace replies that the policy's agent reads otherwise, such as another agent's form, by their action."""
        agent = self.agent(self.policy)
        view = view_before(trajectory, 0, self.action_format)

        def read(reply: str) -> str | None:
            try:
                return agent.read(reply, view)
            except ReplyFormatError:
                return None

        steps = []
        for step in trajectory.steps:
            whole = join_thinking(step.thinking, step.reply)
            reply = whole if step.action is None or read(whole) == step.action else step.action
            steps.append(step.model_copy(update={"reply": reply, "thinking": "", "tokens": None}))
        return trajectory.model_copy(update={"steps": tuple(steps)})

    def _as_own(self, trajectory: Trajectory) -> Trajectory:
        """Add the tokens of the policy's chat format to an expert's episode."""
        agent, last = self.agent(self.policy), len(trajectory.steps) - 1

        def calls_until(turn: int) -> list[Tokens]:
            chat = agent.conversation(view_before(trajectory, turn, self.action_format))
            chat = self.policy.encoder.as_sampled([*chat, assistant_message(trajectory.steps[turn].reply)])
            return [message.tokens for message in chat if message.tokens]

        calls = calls_until(last) if agent.sees_all else [_with_context(calls_until(turn)) for turn in range(last + 1)]
        steps = [
            step.model_copy(update={"tokens": tokens}) for step, tokens in zip(trajectory.steps, calls, strict=True)
        ]
        overflow = max(call.end for call in calls) > (self.policy.context or self.policy.engine.context)
        lost = {"won": False, "context_overflow": True} if overflow else {}
        return trajectory.model_copy(update={"steps": tuple(steps), **lost})

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Return the token ids of the agent's chat before its first reply, without a critique."""
        view = view_before(trajectory, 0, self.action_format).model_copy(update={"critique": ""})
        return self.policy.encoder.opening(self.agent(self.policy).conversation(view))

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], tasks: Sequence[str]) -> list[Made]:
        """Call `collect` for each of the `parts` on a thread of its own.

        A part does not end because its own episodes all broke: those of other parts may not.
        """
        count = max(1, min(self.parts, self.workers, len(tasks)))
        if count == 1:
            return [collect(self, tasks)]

        def collected(number: int) -> Made:
            first, end = (len(tasks) * boundary // count for boundary in (number, number + 1))
            workers = self.workers // count + (number < self.workers % count)
            return collect(replace(self, workers=workers, hopeless=0), tasks[first:end])

        return on_threads(collected, range(count), count)


def _with_context(calls: Sequence[Tokens]) -> Tokens:
    """Return the last call of a conversation with all that it holds as the context."""
    sequence, last = join(calls), calls[-1]
    before = sequence.ids[: len(sequence.ids) - len(last.sampled_ids)]
    return last.model_copy(update={"start": 0, "context_ids": before})
