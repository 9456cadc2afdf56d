"""Play refinement rounds into a folder: failed tasks are criticised and played again.

Parts of the folder are rounds: `trajectories/round-0.jsonl`, `reviews/round-1.jsonl` ... Not here: choosing and
counting attempts (`refinement.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import CRITIQUE_TOKENS, AttemptQuestion, Critic, Verdict, ask
from align_echo.critic.language import CritiqueForm
from align_echo.evaluate.folder import Config
from align_echo.evaluate.plan import EvaluationPlan, RefinementPlan
from align_echo.evaluate.playing import Experiment
from align_echo.evaluate.refinement import RefinementResult, ReviewRecord, attempt_episode, refine_rounds, review_all
from align_echo.intervals import scored
from align_echo.models.endpoint import get_base_url
from align_echo.models.recording import get_weights
from align_echo.prompts import prompt_hash
from align_echo.rollout.faults import InterfaceConduct, summarize_conduct
from align_echo.rollout.session import Episode
from align_echo.types import ChatModel, Trajectory, Usage

CRITIC_TEMPERATURE = 1.0


def refine(
    plan: EvaluationPlan, refining: RefinementPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT
) -> RefinementResult:
    """Play all rounds of a plan with one variant; finished episodes and critiques in the folder are reused.

    Raises as `play`.
    """
    experiment = Experiment(plan, path, resume=resume, progress=progress)
    critic = experiment.models("critic", refining.critic) if refining.critic else None
    with experiment.begin(_on_record(refining, critic)).folder as folder:
        result = _play_rounds(experiment, refining, critic)
        folder.finish(result)
    return result


def _on_record(refining: RefinementPlan, critic: ChatModel | None) -> Config:
    """Return the `config.json` entries of refinement rounds."""
    if critic is None:
        return {"refine_rounds": refining.rounds, "critic_details": None}
    weights = get_weights(critic)
    return {
        "refine_rounds": refining.rounds,
        "critic_details": {
            "model.critic": critic.name,
            "base_url.critic": get_base_url(critic),
            **({"weights.critic": weights} if weights else {}),
            "form": refining.form.name,
            "temperature": str(CRITIC_TEMPERATURE),
            "max_tokens": str(CRITIQUE_TOKENS),
            **{f"prompt.{name}": prompt_hash(name) for name in refining.form.prompts},
        },
    }


def _play_rounds(experiment: Experiment, refining: RefinementPlan, critic: ChatModel | None) -> RefinementResult:
    plan = experiment.plan
    (interface,) = plan.variants.values()
    conduct, usage, critic_usage = InterfaceConduct(), Usage(), Usage()

    def play(number: int, episodes: Sequence[Episode]) -> list[Trajectory]:
        nonlocal conduct, usage
        played = list(experiment.play(f"round-{number}", interface, episodes, title=f"round {number}"))
        conduct += summarize_conduct(scored(played))
        usage += sum((trajectory.usage for trajectory in played), Usage())
        return played

    def criticise(number: int, attempts: Sequence[Trajectory]) -> list[Verdict]:
        nonlocal critic_usage
        assert critic is not None
        reviews = _review(experiment, number, attempts, critic, refining.form)
        critic_usage += sum((review.usage for review in reviews), Usage())
        return reviews

    rounds, _ = refine_rounds(
        plan.task_ids,
        play,
        criticise if critic else None,
        rounds=refining.rounds,
        samples=plan.samples,
        seed=plan.seed,
    )
    return RefinementResult(
        environment=plan.spec.name,
        split=plan.split,
        agent=experiment.agent.name,
        interface=interface.label if interface else "none",
        critic=critic.name if critic else None,
        critic_form=refining.form.name if critic else None,
        seed=plan.seed,
        games=plan.spec.games(plan.data_root),
        tasks=tuple(plan.task_ids),
        rounds=tuple(rounds),
        conduct=conduct,
        usage=usage,
        critic_usage=critic_usage,
    )


def _review(
    experiment: Experiment, number: int, attempts: Sequence[Trajectory], critic: ChatModel, form: CritiqueForm
) -> list[Verdict]:
    """Get the critiques before a round, with a critic's sample for each of the agent's samples."""
    folder, progress = experiment.folder, experiment.progress
    part, title = f"round-{number}", f"critiques before round {number}"
    if cut := folder.cut_line("reviews", part):
        progress.say(cut)
    known = {reviewed.attempt: reviewed.review for reviewed in folder.reviewed(part, attempts)}
    missing = [attempt for attempt in attempts if attempt_episode(attempt) not in known]
    progress.status(f"{title}: {len(known)} of {len(attempts)}")

    reviewer = Critic(critic, form=form, draws_at=CRITIC_TEMPERATURE)

    def review(attempt: Trajectory) -> Verdict:
        return ask(reviewer, [AttemptQuestion(attempt, attempt.sample)])[0]

    def keep(attempt: Trajectory, new: Verdict) -> None:
        folder.add_review(part, ReviewRecord(attempt=attempt_episode(attempt), review=new))
        known[attempt_episode(attempt)] = new
        progress.status(f"{title}: {len(known)} of {len(attempts)}")

    review_all(review, missing, workers=experiment.plan.workers.threads, on_review=keep)
    reviews = [known[attempt_episode(attempt)] for attempt in attempts]
    if problems := [review.problem for review in reviews if review.critique is None and review.fault is None]:
        progress.say(f"{title}: {len(problems)} of {len(reviews)} could not be read; the first: {problems[0]}")
    return reviews
