"""Where recipes play: episodes of the policy, and reviews by the critic. Recipes see this and no trainer.

Left out: environments and models themselves (`LocalStage` is given both), and updates of weights between steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import gymnasium as gym

from align_echo.agents.conversation import ChatAgent, said
from align_echo.agents.privileged import expert
from align_echo.critic.best_of import BestOf
from align_echo.critic.labels import Rule, labels_of
from align_echo.critic.language import ECHO, CritiqueForm
from align_echo.critic.reasoned_verdict import Judgement, judge
from align_echo.critic.review import MAX_TOKENS, Review, review
from align_echo.critic.verdict import Verdict
from align_echo.errors import EngineError
from align_echo.halting import on_threads
from align_echo.models.local.chat import LocalModel
from align_echo.rollout import HOPELESS, run_tasks, view_before
from align_echo.session import Episode, base_env
from align_echo.types import Tokens, Trajectory

Made = TypeVar("Made")

PARTS = 4
"""Of a harvest, at once, where engines compute on the CPU. More would leave each with fewer workers than a group has
episodes."""


@dataclass(frozen=True)
class ReviewRequest:
    """An attempt to be reviewed; `sample` tells several reviews of one attempt apart."""

    attempt: Trajectory
    sample: int = 0


@dataclass(frozen=True)
class Proposal:
    """The action of an attempt's turn, counted from 0, to be judged before it is sent; `sample` as for reviews."""

    attempt: Trajectory
    turn: int
    sample: int = 0

    @property
    def action(self) -> str:
        """Raises `ValueError` for a turn without one."""
        action = self.attempt.steps[self.turn].action
        if action is None:
            raise ValueError(f"turn {self.turn} of {self.attempt.task_id} holds no action")
        return action


class Stage(Protocol):
    """Answers come in the order of what was asked."""

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """One episode of the policy each."""

    def review(self, requests: Sequence[ReviewRequest]) -> list[Review]:
        """One reply of the critic each. The attempts must not be broken."""

    def labels(self, played: Sequence[Trajectory]) -> list[list[Verdict | None]]:
        """For each episode, by turn, whether the action was right; None where the oracle cannot tell."""

    def judge(self, proposals: Sequence[Proposal]) -> list[Judgement]:
        """One reasoned verdict of the critic each."""

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        """One episode of the environment's expert each, which sees the hidden state; those that broke are left out.

        Their steps hold tokens as if the policy's agent had made them, with log-probabilities of 0. One that outgrows
        the policy's context is not won: the policy could not have played it to its end.
        """

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Token ids that the policy is given before its first reply when it knows of no critique."""

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        """What `collect` gives for parts of the queries, in their order: none of them waits for another between what it
        asks of the stage that it is given. It must give the same of a query whichever part that is in.
        """


@dataclass(frozen=True)
class LocalStage:
    """Policy and critic on local models, which may share an engine. `agent` makes the policy's agent from its model.

    With `best_of` above 1, each action played is the best of so many by the policy's own verdict (`critic/best_of.py`).
    `rule` says which actions are right (`critic/labels.py`). What is `overlapped` is done in `parts`, among which the
    `workers` are divided. Play ends if the model broke each of its first `hopeless` episodes (0: whatever breaks).
    Every draw depends on the models' `seed`: give `at_step` each step's number, or every step draws the same.
    """

    make_env: Callable[[], gym.Env[str, str]]
    agent: Callable[[LocalModel], ChatAgent]
    policy: LocalModel
    critic: LocalModel
    split: str
    action_format: str
    form: CritiqueForm = ECHO
    critic_temperature: float = 1.0
    critic_tokens: int = MAX_TOKENS
    best_of: int = 1
    rule: Rule = "nearer"
    workers: int = 16
    parts: int = 1
    hopeless: int = HOPELESS

    def at_step(self, step: int) -> LocalStage:
        """The same stage with draws of its own."""
        policy = replace(self.policy, seed=self.policy.seed * 1_000_003 + step)
        return replace(self, policy=policy, critic=replace(self.critic, seed=self.critic.seed * 1_000_003 + step))

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """One episode of the policy each."""
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

    def review(self, requests: Sequence[ReviewRequest]) -> list[Review]:
        """One reply of the critic each."""

        def review_one(request: ReviewRequest) -> Review:
            return review(
                self.critic,
                request.attempt,
                self.form,
                sample=request.sample,
                temperature=self.critic_temperature,
                max_tokens=self.critic_tokens,
            )

        return on_threads(review_one, requests, self.workers)

    def labels(self, played: Sequence[Trajectory]) -> list[list[Verdict | None]]:
        """For each episode, by turn, whether the action was right; nothing is known of one that breaks the engine."""
        env = self.make_env()
        try:
            return [self._labels(env, trajectory) for trajectory in played]
        finally:
            env.close()

    def _labels(self, env: gym.Env[str, str], trajectory: Trajectory) -> list[Verdict | None]:
        try:
            return labels_of(env, trajectory, self.rule)
        except EngineError:
            return [None] * len(trajectory.steps)

    def judge(self, proposals: Sequence[Proposal]) -> list[Judgement]:
        """One reasoned verdict of the critic each, who reads what the policy had read."""

        def judge_one(proposal: Proposal) -> Judgement:
            view = view_before(proposal.attempt, proposal.turn, self.action_format)
            return judge(
                self.critic,
                self.agent(self.policy).conversation(view),
                proposal.action,
                sample=proposal.sample,
                temperature=self.critic_temperature,
                max_tokens=self.critic_tokens,
            )

        return on_threads(judge_one, proposals, self.workers)

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        """One episode of the environment's expert each."""
        played = run_tasks(
            self.make_env,
            expert(lambda: base_env(self.make_env())),
            queries,
            split=self.split,
            action_format=self.action_format,
        )
        return [self._as_own(trajectory) for trajectory in played if trajectory.fault is None and trajectory.steps]

    def _as_own(self, trajectory: Trajectory) -> Trajectory:
        """An expert's episode with the tokens that it has in the chat of the policy's agent."""
        last = len(trajectory.steps) - 1
        chat = self.agent(self.policy).conversation(view_before(trajectory, last, self.action_format))
        encoded = self.policy.encoder.supervised([*chat, said(trajectory.steps[last].reply)])
        steps, start = [], 0
        for step, (first, end) in zip(trajectory.steps, encoded.turns, strict=True):
            context, reply = encoded.ids[start:first], encoded.ids[first:end]
            tokens = Tokens(start=start, context_ids=context, sampled_ids=reply, logprobs=(0.0,) * len(reply))
            steps.append(step.model_copy(update={"tokens": tokens}))
            start = end
        overflow = len(encoded.ids) > (self.policy.context or self.policy.engine.context)
        lost = {"won": False, "context_overflow": True} if overflow else {}
        return trajectory.model_copy(update={"steps": tuple(steps), **lost})

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Token ids of the agent's chat before its first reply, without a critique."""
        view = view_before(trajectory, 0, self.action_format).model_copy(update={"critique": ""})
        return self.policy.encoder.opening(self.agent(self.policy).conversation(view))

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        """What `collect` gives for each of the `parts`, each on a thread of its own. None of them is ended because its
        own episodes all broke: those of the others may not.
        """
        count = max(1, min(self.parts, self.workers, len(queries)))
        if count == 1:
            return [collect(self, queries)]

        def collected(number: int) -> Made:
            first, end = (len(queries) * boundary // count for boundary in (number, number + 1))
            workers = self.workers // count + (number < self.workers % count)
            return collect(replace(self, workers=workers, hopeless=0), queries[first:end])

        return on_threads(collected, range(count), count)
