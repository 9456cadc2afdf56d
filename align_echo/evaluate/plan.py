"""`EvaluationPlan`: an evaluation with all names resolved and all options checked.

`plan_evaluation` reads names and options; the other verbs that play build their plans themselves. Not here: building
agents and models (`cast.py`), and playing (`playing.py`, `rounds.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from align_echo import __version__
from align_echo.agents.players import (
    AgentChoice,
    choose_agent,
    choose_preset,
    choose_turns,
    model_on_record,
    refuse_idle_model,
)
from align_echo.agents.presets import AgentPreset
from align_echo.critic.drawn import SamplingSettings, read_sampling
from align_echo.critic.language import ECHO, FORMS, CritiqueForm
from align_echo.critic.selection import CRITIC, RULES, SelectionRule
from align_echo.errors import UsageError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, build_variants
from align_echo.evaluate.folder import Config
from align_echo.evaluate.selection import pick_tasks
from align_echo.interface import Interface
from align_echo.models.names import ModelName, read_name
from align_echo.runs import interface_fingerprints
from align_echo.session import Episode
from align_echo.workers.choice import ONE_THREAD, Workers, choose_workers, read_workers
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec

SELF = "self"
"""Name of the agent's own model in options for models."""

NO_CRITIC = "none"


@dataclass(frozen=True)
class RefinementPlan:
    """Settings of refinement rounds. `critic` names a model; None for fresh attempts without a critic."""

    rounds: int
    critic: ModelName | None
    form: CritiqueForm


@dataclass(frozen=True)
class SamplingLimits:
    """Sampling restrictions of a local model: the `top_k` likeliest tokens (0: all), and the nucleus of mass `top_p`.
    """

    top_k: int
    top_p: float


@dataclass(frozen=True)
class EvaluationPlan:
    """An evaluation with all settings checked.

    `interface` is the display name of the variants' interface; `judge` names the model that judges candidates, None for
    the agent's own, or without judging. `engine` and `turns` are the requested values; `spec` already includes them.
    """

    spec: EnvironmentSpec
    split: str
    task_ids: list[str]
    interface: str
    variants: dict[str, Interface | None]
    player: AgentChoice
    base_url: str | None = None
    seed: int = 0
    workers: Workers = ONE_THREAD
    data_root: Path | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    preset: AgentPreset | None = None
    engine: str | None = None
    turns: int | None = None
    samples: int = 1
    best_of: int = 1
    judge: ModelName | None = None
    pick: SelectionRule = CRITIC
    reasoning: bool = False
    abstain_below: float = 0.0
    truncation: SamplingLimits | None = None
    refining: RefinementPlan | None = None

    @property
    def models(self) -> list[ModelName]:
        """Return the names of all models in use, the agent's first."""
        critic = self.refining.critic if self.refining else None
        return list(dict.fromkeys(filter(None, (self.player.model, self.judge, critic))))

    @property
    def episodes(self) -> list[Episode]:
        """Return every episode of a variant, task by task."""
        return [Episode(task, sample) for task in self.task_ids for sample in range(self.samples)]

    @property
    def config(self) -> Config:
        """Return the content of `config.json`, without the agent's details and refinement rounds."""
        return {
            "command": "evaluate",
            "align_echo": __version__,
            "environment": self.spec.name,
            "split": self.split,
            "tasks": list(self.task_ids),
            "interfaces": {
                name: interface.label if interface else "none" for name, interface in self.variants.items()
            },
            "interface_contents": interface_fingerprints(self.variants),
            **({"interface_named": self.interface} if any(self.variants.values()) else {}),
            "agent": self.player.agent.name,
            **model_on_record(self.player.model, self.base_url),
            **({"agent_preset": self.preset.name} if self.preset else {}),
            **({} if self.engine is None else {"engine": self.engine}),
            **({} if self.turns is None else {"turns": self.turns}),
            "episodes_per_task": self.samples,
            "seed": self.seed,
            **switches_on_record(self.variants.values()),
            **({"top_k": self.truncation.top_k, "top_p": self.truncation.top_p} if self.truncation else {}),
            "games": self.spec.games(self.data_root),
            "data_root": str(self.data_root.absolute()) if self.data_root else None,
            **({"declared": dict(self.spec.declared)} if self.spec.declared else {}),
        }


def plan_evaluation(
    env: str | EnvironmentSpec,
    *,
    agent: str | None = None,
    interface: str = "none",
    rules: bool = True,
    feedback: bool = True,
    retract: bool = True,
    compare_all: bool = False,
    placebo: bool = True,
    split: str | None = None,
    tasks: int | None = None,
    episodes_per_task: int = 1,
    best_of: int = 1,
    judge: str | None = None,
    pick: str = CRITIC.name,
    reasoning: bool = False,
    abstain_below: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    refine_rounds: int | None = None,
    critic: str | None = None,
    critic_form: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    agent_preset: str | None = None,
    engine: str | None = None,
    turns: int | None = None,
    seed: int = 0,
    workers: int | str | None = None,
    data_root: Path | None = None,
) -> EvaluationPlan:
    """Build the plan of `align-echo evaluate` from options of the same names, with all names resolved and options
    checked.

    Raises `UsageError` for unknown names and contradictory options, `InterfaceError` for an interface that cannot be
    loaded, `MissingDataError` for missing data of an environment.
    """
    spec = environment(env)
    split = spec.check_split(split or spec.test_split)
    player = choose_agent(agent, model, (spec.name,))
    refuse_idle_model(player, model)
    preset = choose_preset(agent_preset, (player,))
    turns = choose_turns(turns, preset, spec)
    spec = spec.with_settings(engine=engine, turns=turns)
    refining = choose_refining(refine_rounds, critic, critic_form, player, compare_all=compare_all)
    rule = RULES.get(pick)
    judged_by = choose_judge(best_of, judge, player, pick=rule, abstain_below=abstain_below, reasoning=reasoning)
    variants = choose_variants(
        spec.interface(interface, retract=retract), rules=rules, feedback=feedback, compare_all=compare_all,
        placebo=placebo,
    )  # fmt: skip
    if not retract and not any(variants.values()):
        raise UsageError("--no-retract lets an interface withhold no hint: add --interface NAME or PATH")
    return EvaluationPlan(
        spec=spec,
        split=split,
        task_ids=pick_tasks(spec.tasks(split, data_root), tasks, task_type=spec.task_type, seed=seed),
        player=player,
        workers=choose_workers(read_workers(workers), player),
        samples=episodes_per_task,
        judge=judged_by,
        pick=rule,
        truncation=choose_truncation(player, judged_by, top_k, top_p),
        refining=refining,
        preset=preset,
        engine=engine,
        turns=turns,
        interface=interface, variants=variants, base_url=base_url, seed=seed, data_root=data_root,
        temperature=temperature, max_tokens=max_tokens, best_of=best_of, reasoning=reasoning,
        abstain_below=abstain_below,
    )  # fmt: skip


def switches_on_record(interfaces: Iterable[Interface | None]) -> dict[str, bool]:
    """Return the `config.json` entries of non-default interface switches."""
    return {"retract": False} if any(interface and not interface.retract for interface in interfaces) else {}


def choose_variants(
    interface: Interface | None, *, rules: bool, feedback: bool, compare_all: bool, placebo: bool = True
) -> dict[str, Interface | None]:
    """Choose the variants to play, by name. Raises `UsageError` for switches that leave nothing to play or to compare.
    """
    if not placebo and not compare_all:
        raise UsageError("--no-placebo leaves a variant of --compare out: add --compare")
    if compare_all and not (rules and feedback):
        raise UsageError("--compare plays every variant: leave out --no-rules and --no-feedback")
    if interface is None:
        if compare_all:
            raise UsageError("--compare needs an interface to compare with: add --interface NAME or PATH")
        if not (rules and feedback):
            raise UsageError("--no-rules and --no-feedback need an interface: add --interface NAME or PATH")
        return {BASELINE: None}
    if not rules and not feedback:
        raise UsageError("with --no-rules and --no-feedback nothing is left: say --interface none")
    variants = build_variants(interface)
    if compare_all:
        return {name: variant for name, variant in variants.items() if placebo or name != PLACEBO}
    name = "full" if rules and feedback else "rules" if rules else "feedback"
    return {name: variants[name]}


def choose_refining(
    rounds: int | None, critic: str | None, form: str | None, player: AgentChoice, *, compare_all: bool
) -> RefinementPlan | None:
    """Choose the refinement rounds; None for none. Raises `UsageError` for contradictory options."""
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
        return RefinementPlan(rounds, None, ECHO)
    chosen = model_named(critic, player)
    if chosen is None:
        raise UsageError(f"the agent {player.agent.name} has no model of its own: name one with --critic, or none")
    refuse_script("--critic", chosen)
    return RefinementPlan(rounds, chosen, FORMS.get(form) if form else ECHO)


def choose_judge(
    best_of: int,
    judge: str | None,
    player: AgentChoice,
    *,
    pick: SelectionRule,
    abstain_below: float,
    reasoning: bool = False,
) -> ModelName | None:
    """Choose the model that judges candidates; None for the agent's own, or without judging.

    Raises `UsageError` for a judge without candidates, and for a script, which can only play.
    """
    flags = {
        "--judge": judge is not None,
        "--pick": pick != CRITIC,
        "--reasoning": reasoning,
        "--abstain-below": abstain_below > 0,
    }
    option = next((option for option, is_set in flags.items() if is_set), None)
    if best_of == 1:
        if option is not None:
            raise UsageError(f"{option} needs candidates to choose from: add --best-of N")
        return None
    if pick.needs_logprobs and not (player.model and player.model.is_local):
        raise UsageError(f"--pick {pick.name} needs a local model, which tells how probable its replies are")
    if not pick.needs_judge:
        if judge is not None or abstain_below > 0 or reasoning:
            raise UsageError(f"--pick {pick.name} asks no critic: leave --judge, --reasoning and --abstain-below out")
        return None
    if pick.needs_logprobs and (reasoning or abstain_below > 0):
        raise UsageError(f"--pick {pick.name} goes by probabilities alone: leave --reasoning and --abstain-below out")
    if reasoning and abstain_below > 0:
        raise UsageError("--abstain-below needs probabilities, which --reasoning has none of: leave one of them out")
    chosen = model_named(judge or SELF, player)
    refuse_script("--judge", chosen)
    return None if chosen == player.model else chosen


def model_named(text: str, player: AgentChoice) -> ModelName | None:
    """Resolve a user's model name; "self" is the agent's own model, None for an agent without one."""
    return player.model if text == SELF else read_name(text)


def choose_truncation(
    player: AgentChoice, judge: ModelName | None, top_k: int | None, top_p: float | None
) -> SamplingLimits | None:
    """Choose the sampling restrictions: the requested ones; else those of the judge's training data, if unique; else
    None.

    Raises `UsageError` for a model at an endpoint, and for an invalid share.
    """
    local = player.model is not None and player.model.is_local
    if top_k is not None or top_p is not None:
        if not local:
            raise UsageError("--top-k and --top-p are for local models: others draw as their endpoint is set up")
        if top_p is not None and not 0 < top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {top_p}")
        return SamplingLimits(top_k or 0, 1.0 if top_p is None else top_p)
    settings = {(drawn.top_k, drawn.top_p) for drawn in read_judge_sampling(judge)}
    (setting,) = settings if len(settings) == 1 else [(None, None)]
    return (
        SamplingLimits(setting[0], setting[1]) if local and setting[0] is not None and setting[1] is not None else None
    )


def read_judge_sampling(judge: ModelName | None) -> tuple[SamplingSettings, ...]:
    """Read the sampling settings of a judge's training data; empty if its folder does not record them."""
    return read_sampling(judge.folder) if judge and judge.folder else ()


def refuse_script(option: str, model: ModelName | None) -> None:
    """Raise `UsageError` for the model name of a scripted novice."""
    if model is not None and model.is_scripted:
        raise UsageError(f"the model {model.on_record} can only play: name another with {option}")
