"""A stage on which every score and every critique is written down beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from align_echo.critic.ask import Label, Verdict
from align_echo.critic.language import Critique
from align_echo.rollout.session import Episode
from align_echo.train.stage import ActionProposal, CritiqueRequest, Made, Stage
from align_echo.types import Fault, Step, Tokens, Trajectory, Usage

BROKEN = Fault(source="environment", error="EngineError", message="gone")
OPENING = (1, 2, 3)
TOLD_OPENING = (1, 2, 9, 9, 3)


@dataclass
class ScriptedStage:
    """`score` gives an episode's score, None for a broken one; `advice` a review's suggestion, None for an unread one.
    """

    score: Callable[[Episode], float | None]
    advice: Callable[[CritiqueRequest], str | None] = lambda request: f"hint {request.sample}"
    expert_wins: Callable[[str], bool] = lambda query: True
    label: Callable[[str, int], Label | None] = lambda query, turn: "correct" if turn else "wrong"
    verdict: Callable[[ActionProposal], Label | Fault | None] = lambda proposal: "correct"
    spent: int = 0
    played: list[Episode] = field(default_factory=list)
    asked: list[CritiqueRequest] = field(default_factory=list)
    proposed: list[ActionProposal] = field(default_factory=list)

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        self.played += episodes
        return [self._episode(episode) for episode in episodes]

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        self.asked += requests
        return [self._review(request) for request in requests]

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        return [
            [self.label(trajectory.task_id, turn) for turn in range(len(trajectory.steps))] for trajectory in played
        ]

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        self.proposed += proposals
        return [self._judgement(proposal) for proposal in proposals]

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        played = [self._episode(Episode(query, sample=99)) for query in queries]
        ends = [{"score": float(won), "won": won} for won in map(self.expert_wins, queries)]
        return [lesson.model_copy(update=end) for lesson, end in zip(played, ends, strict=True)]

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        return self.lessons(names)

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        return OPENING

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        return [collect(self, [query]) for query in queries]

    def _episode(self, episode: Episode) -> Trajectory:
        score = self.score(episode)
        opening = TOLD_OPENING if episode.critique else OPENING
        calls = [
            Tokens(context_ids=opening, sampled_ids=(50 + episode.sample, 4), logprobs=(-0.5, -0.1)),
            Tokens(start=len(opening) + 2, context_ids=(5, 6), sampled_ids=(7,), logprobs=(-0.7,)),
        ]
        spent = Usage(completion_tokens=self.spent)
        steps = [
            Step(reply="a", action="a", observation="b", raw_observation="b", usage=spent, tokens=call)
            for call in calls
        ]
        return Trajectory(
            environment="scripted",
            split="train",
            task_id=episode.task_id,
            agent="scripted",
            sample=episode.sample,
            goal="win",
            critique=episode.critique,
            initial_observation="here",
            steps=tuple(steps),
            score=score or 0.0,
            won=score == 1.0,
            fault=BROKEN if score is None else None,
        )

    def _judgement(self, proposal: ActionProposal) -> Verdict:
        outcome = self.verdict(proposal)
        tokens = Tokens(context_ids=(8, 8), sampled_ids=(30 + proposal.sample,), logprobs=(-1.0,))
        if isinstance(outcome, Fault):
            return Verdict(fault=outcome)
        return Verdict(label=outcome, tokens=tokens, usage=Usage(completion_tokens=self.spent))

    def _review(self, request: CritiqueRequest) -> Verdict:
        advice = self.advice(request)
        return Verdict(
            form="echo",
            sample=request.sample,
            reply=advice or "?",
            critique=None if advice is None else Critique(reason="so", suggestions=(advice,)),
            problem="" if advice else "cannot be read",
            tokens=Tokens(context_ids=(8, 8), sampled_ids=(30 + request.sample,), logprobs=(-1.0,)),
        )
