"""`align-echo evaluate --refine-rounds`: what failed is criticised and played anew, for some rounds.

Parts of the folder are rounds: `trajectories/round-0.jsonl`, `reviews/round-1.jsonl` ... Left out: who is played again
and how it counts (`align_echo.evaluate.refinement`).
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.cli.agents import Player, about, model_on_record
from align_echo.cli.console import Display, cost, stdout
from align_echo.cli.plan import SELF, Models, Plan, Refining, play_part, refuse_script
from align_echo.critic.language import Form
from align_echo.critic.review import MAX_TOKENS, Review, review
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config, EvaluationFolder
from align_echo.evaluate.refinement import Refinement, Reviewed, episode_of, refine_rounds, review_all, rounds_table
from align_echo.intervals import scored
from align_echo.models.endpoint import base_url_of
from align_echo.models.recording import weights_of
from align_echo.prompts import prompt_hash
from align_echo.rollout import Episode
from align_echo.trouble import conduct_of, tell
from align_echo.types import Agent, ChatModel, Trajectory, Usage
from align_echo.wrappers.data_source import games_of

NO_CRITIC = "none"
CRITIC_TEMPERATURE = 1.0
DEFAULT_FORM: Form = "echo"


def choose_refining(
    rounds: int | None, critic: str | None, form: Form | None, player: Player, *, compare_all: bool
) -> Refining | None:
    """The rounds that were asked for; None for none. Raises `UsageError` for options that contradict each other."""
    if rounds is None:
        if critic is not None or form is not None:
            raise UsageError("--critic and --critic-form are for rounds of refinement: add --refine-rounds K")
        return None
    if compare_all:
        raise UsageError("--refine-rounds plays one variant: leave --compare out")
    if critic is None:
        raise UsageError("--refine-rounds needs a critic: add --critic self, a model's NAME, or none")
    if critic == NO_CRITIC:
        if form is not None:
            raise UsageError("--critic none asks nobody: leave --critic-form out")
        return Refining(rounds, None, DEFAULT_FORM)
    chosen = player.model if critic == SELF else critic
    if chosen is None:
        raise UsageError(f"the agent {player.agent} has no model of its own: name one with --critic, or none")
    refuse_script("--critic", chosen)
    return Refining(rounds, chosen, form or DEFAULT_FORM)


def refining_on_record(refining: Refining | None, models: Models) -> Config:
    """What `config.json` holds of rounds of refinement; nothing where there are none."""
    if refining is None:
        return {}
    if refining.critic is None:
        return {"refine_rounds": refining.rounds, "critic_details": None}
    critic = models.of("critic", refining.critic)
    weights = weights_of(critic)
    return {
        "refine_rounds": refining.rounds,
        "critic_details": {
            "model.critic": critic.name,
            "base_url.critic": base_url_of(critic),
            **({"weights.critic": weights} if weights else {}),
            "form": refining.form,
            "temperature": str(CRITIC_TEMPERATURE),
            "max_tokens": str(MAX_TOKENS),
            **{f"prompt.{name}": prompt_hash(name) for name in (f"critic/{refining.form}", "critic/attempt")},
        },
    }


def refine(
    plan: Plan, refining: Refining, player: Agent, models: Models, folder: EvaluationFolder, display: Display
) -> Refinement:
    """Play all rounds; what is finished in the folder is neither played nor criticised again."""
    critic = models.of("critic", refining.critic) if refining.critic else None
    work = _Work(plan, player, folder, display)

    def reviews(number: int, attempts: Sequence[Trajectory]) -> list[Review]:
        assert critic is not None
        return work.review(number, attempts, critic, refining.form)

    rounds, _ = refine_rounds(
        plan.task_ids,
        work.play,
        reviews if critic else None,
        rounds=refining.rounds,
        samples=plan.samples,
        seed=plan.seed,
    )
    (interface,) = plan.variants.values()
    return Refinement(
        environment=plan.spec.name,
        split=plan.split,
        agent=player.name,
        interface=interface.label if interface else "none",
        critic=critic.name if critic else None,
        critic_form=refining.form if critic else None,
        seed=plan.seed,
        games=games_of(plan.spec, plan.data_root),
        tasks=tuple(plan.task_ids),
        rounds=tuple(rounds),
        conduct=conduct_of(scored(work.played)),
        usage=work.usage,
        critic_usage=work.critic_usage,
    )


class _Work:
    """Plays and criticises rounds into a folder; adds up what both cost."""

    def __init__(self, plan: Plan, player: Agent, folder: EvaluationFolder, display: Display) -> None:
        self._plan = plan
        self._player = player
        self._folder = folder
        self._display = display
        self.played: list[Trajectory] = []
        self.usage, self.critic_usage = Usage(), Usage()

    def play(self, number: int, episodes: Sequence[Episode]) -> list[Trajectory]:
        """The episodes of a round."""
        (interface,) = self._plan.variants.values()
        played = play_part(
            self._plan,
            self._player,
            interface,
            episodes,
            part=f"round-{number}",
            title=f"round {number}",
            folder=self._folder,
            display=self._display,
        )
        self.played += played
        self.usage = sum((one.usage for one in played), self.usage)
        return played

    def review(self, number: int, attempts: Sequence[Trajectory], critic: ChatModel, form: Form) -> list[Review]:
        """The critiques before a round; a sample of the critic's own for each sample of the agent's."""
        part = f"round-{number}"
        known = {one.attempt: one.review for one in self._folder.reviewed(part, attempts)}
        missing = [one for one in attempts if episode_of(one) not in known]
        kind = f"critiques before round {number}"
        self._display.status(f"{kind}: {len(known)} of {len(attempts)}")

        def ask(attempt: Trajectory) -> Review:
            return review(critic, attempt, form, sample=attempt.sample, temperature=CRITIC_TEMPERATURE)

        def came(attempt: Trajectory, said: Review) -> None:
            self._folder.add_review(part, Reviewed(attempt=episode_of(attempt), review=said))
            known[episode_of(attempt)] = said
            self._display.status(f"{kind}: {len(known)} of {len(attempts)}")

        review_all(ask, missing, workers=self._plan.workers, on_review=came)
        said = [known[episode_of(one)] for one in attempts]
        self.critic_usage = sum((one.usage for one in said), self.critic_usage)
        return said


def show_rounds(plan: Plan, player: Agent, rounds: Refinement) -> None:
    """The table of a run, and who played and criticised it."""
    stdout().print(rounds_table(rounds))
    print()
    for line in tell({rounds.interface: rounds.conduct}):
        print(line)
    print(about(plan.player, player))
    critic = plan.refining.critic if plan.refining else None
    print(f"critic: {model_on_record(critic)}, form {rounds.critic_form}" if critic else "critic: none, fresh attempts")
    if rounds.interface != "none":
        print(f"interface: {rounds.interface}")
    if rounds.games:
        print(f"games: {rounds.games}")
    cost(rounds.usage + rounds.critic_usage)
