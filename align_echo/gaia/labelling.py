"""Label every candidate of an episode by replaying it and asking the oracle in each state.

An episode and its labels give the training examples of critics (`examples.py`) and the states for comparing selection
rules (`figures.py`). Not here: the label rules (`align_echo.critic.labels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import gymnasium as gym

from align_echo.critic.calibration import action_type
from align_echo.critic.labels import Rule, labels
from align_echo.errors import EngineError
from align_echo.gaia.examples import ActionExample, LabelledAction
from align_echo.rollout import replay, view_before
from align_echo.session import base_env
from align_echo.types import AgentView, Candidate, Frozen, Message, Step, Trajectory

ATTEMPTS = 2
"""Replays of an episode if the engine fails."""

Conversation = Callable[[AgentView], Sequence[Message]]
"""The conversation of an agent before its next reply."""


class LabelledEpisode(Frozen):
    """The distinct proposed actions of each turn of an episode, with labels.

    From the turn on where the replay differs from the record, turns are empty.
    """

    task_id: str
    sample: int
    turns: tuple[tuple[LabelledAction, ...], ...]

    def belongs_to(self, trajectory: Trajectory) -> bool:
        """Return whether these are labels of the actions proposed in an episode."""
        own_id, trajectory_id = (self.task_id, self.sample), (trajectory.task_id, trajectory.sample)
        if own_id != trajectory_id or len(self.turns) != len(trajectory.steps):
            return False
        turns = zip(trajectory.steps, self.turns, strict=True)
        return all(not labels or [label.action for label in labels] == proposed_actions(step) for step, labels in turns)


def turn_candidates(step: Step) -> tuple[Candidate, ...]:
    """Return the candidates of a turn; the reply itself if there was no choice."""
    if step.choice:
        return step.choice.candidates
    return (Candidate(action=step.action, logprob=math.fsum(step.tokens.logprobs) if step.tokens else None),)


def proposed_actions(step: Step) -> list[str]:
    """Return the distinct actions of the turn's candidates, in the order drawn."""
    return list(dict.fromkeys(candidate.action for candidate in turn_candidates(step) if candidate.action is not None))


def label_episode(env: gym.Env[str, str], trajectory: Trajectory, rules: Sequence[Rule]) -> LabelledEpisode:
    """Label an episode by these rules, replaying it in `env`, an environment of the same kind.

    If the engine fails, the episode is replayed once more; after a second failure the remaining turns have no labels.
    """
    turns: list[tuple[LabelledAction, ...]] = []
    for _ in range(ATTEMPTS):
        try:
            for number, labelled in enumerate(replay(env, trajectory, partial(_label_turn, env, rules))):
                turns += [labelled] if number == len(turns) else []
            break
        except EngineError:
            continue
    turns += [()] * (len(trajectory.steps) - len(turns))
    return LabelledEpisode(task_id=trajectory.task_id, sample=trajectory.sample, turns=tuple(turns))


def _label_turn(
    env: gym.Env[str, str], rules: Sequence[Rule], view: AgentView, step: Step
) -> tuple[LabelledAction, ...]:
    actions = proposed_actions(step)
    by_rule = {rule: labels(env, view, actions, rule) for rule in rules} if actions else {}
    return tuple(
        LabelledAction(
            action=action,
            explores=base_env(env).explores(view, action),
            **{rule: verdicts[index] for rule, verdicts in by_rule.items()},
        )
        for index, action in enumerate(actions)
    )


def build_examples(
    trajectory: Trajectory,
    labelled: LabelledEpisode,
    conversation: Conversation,
    *,
    action_format: str,
    weights: str = "",
    number: int = 1,
) -> list[ActionExample]:
    """Build an example for each distinct action of each turn; none for an episode with a fault.

    `number` is the flywheel's round, `weights` the hash of the agent's weights.
    """
    if trajectory.fault is not None:
        return []
    examples = []
    for turn, (step, actions) in enumerate(zip(trajectory.steps, labelled.turns, strict=True)):
        chat = conversation(view_before(trajectory, turn, action_format)) if actions else ()
        messages = tuple(Message(role=message.role, content=message.content) for message in chat)
        for action in actions:
            draws = [candidate for candidate in turn_candidates(step) if candidate.action == action.action]
            examples.append(
                ActionExample(
                    environment=trajectory.environment,
                    split=trajectory.split,
                    task_id=trajectory.task_id,
                    task_type=trajectory.task_type,
                    sample=trajectory.sample,
                    turn=turn,
                    messages=messages,
                    action=action.action,
                    action_type=action_type(action.action),
                    drawn=len(draws),
                    logprob=draws[0].logprob,
                    sent=step.action == action.action,
                    expert=action.expert,
                    nearer=action.nearer,
                    continues=action.continues,
                    explores=action.explores,
                    agent=trajectory.agent,
                    weights=weights,
                    round=number,
                    p_correct=draws[0].p_correct,
                )
            )
    return examples
