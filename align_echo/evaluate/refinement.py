"""Self-improvement at test time: failed tasks are criticised and played again, for some rounds (ICRL, paper 4, section
5).

The same rounds without a critic are the control: as many fresh attempts. A round is a part of the run's folder:
`trajectories/round-0.jsonl`, `reviews/round-1.jsonl` ... Not here: training (`align_echo.train`), and the files of a
run (`folder.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import Field, NonNegativeInt
from rich.table import Table

from align_echo.base.halting import Halt, under
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import CRITIQUE_TOKENS, AttemptQuestion, Critic, Verdict, ask
from align_echo.errors import ModelError, UsageError
from align_echo.evaluate.folder import Config, CritiqueRecord, attempt_episode
from align_echo.evaluate.plan import EvaluationPlan, RefinementPlan
from align_echo.evaluate.playing import Experiment
from align_echo.evaluate.tables import cell, failed_on, plain_table
from align_echo.intervals import Percent, Score, mean_score, scored, success_rate
from align_echo.models.recording import describe_model
from align_echo.models.spending import RoleSpending
from align_echo.prompts import prompt_hash
from align_echo.rollout.batches import HOPELESS, failed
from align_echo.rollout.faults import InterfaceConduct, fault_text, faults_by_source, summarize_conduct
from align_echo.rollout.session import Episode
from align_echo.types import Frozen, Trajectory, Usage

Play = Callable[[int, Sequence[Episode]], list[Trajectory]]
"""Plays the episodes of a round, in order."""

Criticise = Callable[[int, Sequence[Trajectory]], list[Verdict]]
"""Criticises the attempts to improve in a round, in order."""

CRITIC_TEMPERATURE = 1.0

# ---------------------------------------------------------------- figures of a round


class RoundResult(Frozen):
    """State of all episodes after a round; round 0 is the first attempt. A won episode is not played again.

    Rates and scores are those of the latest attempts; `mean_best_score` is that of the best attempts so far, which
    differs with partial scores, since a later attempt may be worse. Success is the same by both.

    `played` counts the episodes played in this round, and `faults` those with a fault of an engine, a model or the
    agent's own code (`faults_by_source`); `episodes` counts those with a score so far. `unread` counts unreadable
    critiques, whose episodes were played without one. `unanswered` counts critiques with a model fault, whose episodes
    wait for the next round.
    """

    number: NonNegativeInt
    episodes: NonNegativeInt
    success_rate: Percent
    mean_score: Score
    mean_best_score: Score
    played: NonNegativeInt
    faults: NonNegativeInt = 0
    faults_by_source: dict[str, NonNegativeInt] = Field(default_factory=dict)
    unread: NonNegativeInt = 0
    unanswered: NonNegativeInt = 0


class RefinementResult(Frozen):
    """Results of refinement rounds. `critic` is None without one; `usage` is the agent's, `critic_usage` the critic's.

    `conduct` reports failures of the interface over all episodes. `at_endpoints` is as in `VariantComparison`.
    """

    environment: str
    split: str
    agent: str
    interface: str
    critic: str | None
    critic_form: str | None
    seed: int
    games: str
    tasks: tuple[str, ...]
    rounds: tuple[RoundResult, ...]
    conduct: InterfaceConduct = InterfaceConduct()
    usage: Usage
    critic_usage: Usage
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)


def _round(
    number: int,
    standing: Sequence[Trajectory],
    best: Sequence[Trajectory],
    played: Sequence[Trajectory],
    critiques: Sequence[Verdict],
    seed: int,
) -> RoundResult:
    return RoundResult(
        number=number,
        episodes=len(scored(standing)),
        success_rate=success_rate(standing),
        mean_score=mean_score(standing, seed=seed),
        mean_best_score=mean_score(best, seed=seed),
        played=len(played),
        faults=len(played) - len(scored(played)),
        faults_by_source=faults_by_source(played),
        unread=sum(verdict.critique is None and verdict.fault is None for verdict in critiques),
        unanswered=sum(verdict.fault is not None for verdict in critiques),
    )


def rounds_table(refinement: RefinementResult) -> Table:
    """Build the table with a line per round, and columns for faults only if there were any."""
    title = f"{refinement.environment} {refinement.split}, by round: % with 95% intervals"
    works = refinement.conduct.works
    table = plain_table(title if works else f"{title}; the interface {failed_on(refinement.conduct)}")
    broken = any(summary.faults or summary.unanswered for summary in refinement.rounds)
    headings = ("round", "n", "success", "score", "best score", "played", "unread critiques")
    for heading in (*headings, *(("faults", "unanswered") if broken else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for summary in refinement.rounds:
        scores = (cell(score, digits=3) for score in (summary.mean_score, summary.mean_best_score))
        figures = str(summary.episodes), cell(summary.success_rate), *scores
        trouble = (str(summary.faults), str(summary.unanswered)) if broken else ()
        table.add_row(str(summary.number), *figures, str(summary.played), str(summary.unread), *trouble)
    return table


# ---------------------------------------------------------------- who is played again


def refine_rounds(
    tasks: Sequence[str], play: Play, criticise: Criticise | None, *, rounds: int, samples: int = 1, seed: int = 0
) -> tuple[list[RoundResult], list[Trajectory]]:
    """Play `rounds` + 1 rounds, and return their results and the final episodes; without `criticise`, fresh attempts.

    Episode `sample` of a task is played as `sample + number * samples` in a round. Its latest attempt decides. After a
    fault the earlier attempt stays, and is criticised again in the next round. Raises `UsageError` if all first
    attempts broke.
    """
    standing = play(0, [Episode(task, sample) for task in tasks for sample in range(samples)])
    if not scored(standing):
        fault = next(
            (fault_text(attempt.fault) for attempt in standing if attempt.fault is not None), "no task was played"
        )
        raise UsageError(f"no first attempt finished without a fault; the first: {fault}; --resume plays them again")
    best = list(standing)
    results = [_round(0, standing, best, standing, (), seed)]
    for number in range(1, rounds + 1):
        lost = [index for index, attempt in enumerate(standing) if failed([attempt])]
        critiques: list[Verdict] = []
        advice = dict.fromkeys(lost, "")
        if criticise is not None:
            critiques = criticise(number, [standing[slot] for slot in lost])
            advice = {
                slot: verdict.advice for slot, verdict in zip(lost, critiques, strict=True) if verdict.fault is None
            }
        episodes = [
            Episode(standing[slot].task_id, standing[slot].sample % samples + number * samples, critique)
            for slot, critique in advice.items()
        ]
        again = play(number, episodes) if episodes else []
        for slot, played in zip(advice, again, strict=True):
            if played.fault is None:
                standing[slot] = played
                best[slot] = max(best[slot], played, key=lambda attempt: attempt.score)
        results.append(_round(number, standing, best, again, critiques, seed))
    return results, standing


def criticise_all(
    ask_critic: Callable[[Trajectory], Verdict],
    attempts: Sequence[Trajectory],
    *,
    workers: int = 1,
    on_critique: Callable[[Trajectory, Verdict], None],
) -> list[Verdict]:
    """Criticise each attempt, in order, `workers` at once; `on_critique` is called for each new verdict, one at a time.

    Raises `ModelError` if the model failed on each of the first `HOPELESS`. Any exception, Ctrl-C too, stops the
    others.
    """
    report, halt = threading.Lock(), Halt()

    def criticise_one(attempt: Trajectory) -> Verdict:
        halt.check()
        try:
            with under(halt):
                verdict = ask_critic(attempt)
            with report:
                on_critique(attempt, verdict)
        except BaseException:
            halt.set()  # now: this thread's next attempt may begin before the caller sees the error
            raise
        return verdict

    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for verdict in pool.map(criticise_one, attempts):
                verdicts.append(verdict)
                if len(verdicts) == HOPELESS and all(finished.fault for finished in verdicts):
                    raise ModelError(f"the critic broke on each of the first {HOPELESS} attempts: {verdict.problem}")
        except BaseException:
            halt.set()
            raise
    return verdicts


# ---------------------------------------------------------------- play the rounds into a folder


def refine(
    plan: EvaluationPlan, refining: RefinementPlan, path: Path, *, resume: bool = False, progress: Progress = SILENT
) -> RefinementResult:
    """Play all rounds of a plan with one variant; finished episodes and critiques in the folder are reused.

    Raises as `play`.
    """
    experiment = Experiment(plan, path, resume=resume, progress=progress)
    critic = None
    if refining.critic is not None:
        model = experiment.models("critic", refining.critic)
        critic = Critic(model, form=refining.form, draws_at=CRITIC_TEMPERATURE, max_tokens=plan.judge_tokens)
    with experiment.begin(_on_record(refining, critic)).folder as folder:
        result = _play_rounds(experiment, refining, critic)
        result = result.model_copy(update={"at_endpoints": experiment.spending.by_role})
        folder.finish(result)
    return result


def _on_record(refining: RefinementPlan, critic: Critic | None) -> Config:
    """Return the `config.json` entries of refinement rounds."""
    if critic is None:
        return {"refine_rounds": refining.rounds, "critic_details": None}
    return {
        "refine_rounds": refining.rounds,
        "critic_details": {
            **describe_model("critic", critic.model),
            "form": critic.form.name,
            "temperature": str(CRITIC_TEMPERATURE),
            "max_tokens": str(critic.max_tokens or CRITIQUE_TOKENS),
            **{f"prompt.{name}": prompt_hash(name) for name in critic.form.prompts},
        },
    }


def _play_rounds(experiment: Experiment, refining: RefinementPlan, critic: Critic | None) -> RefinementResult:
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
        verdicts = _criticise(experiment, number, attempts, critic)
        critic_usage += sum((verdict.usage for verdict in verdicts), Usage())
        return verdicts

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
        critic=critic.model.name if critic else None,
        critic_form=critic.form.name if critic else None,
        seed=plan.seed,
        games=plan.spec.games(plan.data_root),
        tasks=tuple(plan.task_ids),
        rounds=tuple(rounds),
        conduct=conduct,
        usage=usage,
        critic_usage=critic_usage,
    )


def _criticise(experiment: Experiment, number: int, attempts: Sequence[Trajectory], critic: Critic) -> list[Verdict]:
    """Get the critiques before a round, with a critic's sample for each of the agent's samples."""
    folder, progress = experiment.folder, experiment.progress
    part, title = f"round-{number}", f"critiques before round {number}"
    if cut := folder.cut_line("reviews", part):
        progress.say(cut)
    known = {record.attempt: record.review for record in folder.critiques(part, attempts)}
    missing = [attempt for attempt in attempts if attempt_episode(attempt) not in known]
    progress.status(f"{title}: {len(known)} of {len(attempts)}")

    def ask_critic(attempt: Trajectory) -> Verdict:
        return ask(critic, [AttemptQuestion(attempt, attempt.sample)])[0]

    def keep(attempt: Trajectory, verdict: Verdict) -> None:
        folder.add_critique(part, CritiqueRecord(attempt=attempt_episode(attempt), review=verdict))
        known[attempt_episode(attempt)] = verdict
        progress.status(f"{title}: {len(known)} of {len(attempts)}")

    criticise_all(ask_critic, missing, workers=experiment.plan.workers.threads, on_critique=keep)
    verdicts = [known[attempt_episode(attempt)] for attempt in attempts]
    if problems := [verdict.problem for verdict in verdicts if verdict.critique is None and verdict.fault is None]:
        progress.say(f"{title}: {len(problems)} of {len(verdicts)} could not be read; the first: {problems[0]}")
    return verdicts
