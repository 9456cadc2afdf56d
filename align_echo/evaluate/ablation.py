"""What single rules of an interface are worth: it is played whole, as its placebo, and without one rule at a time.

Without a rule, an episode goes on otherwise only where the agent is shown other words. So the whole interface's own
actions are played again under the interface without the rule; an episode in which no word is other is that arm's too,
and is not played anew. (An agent that draws could have drawn otherwise; its draws are the same where its prompts are.)
Left out: the tables (`ablation_tables.py`), how a rule is switched off (`align/switching.py`), and rules that are worth
something only together: another rule often speaks where one is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from align_echo.agents.players import about, details_of
from align_echo.align.switching import switches_of, without_rules
from align_echo.errors import EngineError, UsageError
from align_echo.evaluate.cast import build_player, config_of, models_of
from align_echo.evaluate.comparison import PLACEBO, variants_of
from align_echo.evaluate.folder import Config, EvaluationFolder, check_folder
from align_echo.evaluate.plan import Plan
from align_echo.evaluate.playing import play_part
from align_echo.interface import Interface
from align_echo.intervals import Estimate, bootstrap, by_task, scored, success_rate
from align_echo.jsonl import JsonlFile
from align_echo.progress import SILENT, Progress
from align_echo.session import Episode, Session, try_reset
from align_echo.trouble import Conduct, conduct_of
from align_echo.types import AgentReply, Frozen, Trajectory, Usage

WHOLE = "full"
REPLAYS = "replays.jsonl"


@dataclass(frozen=True)
class Arm:
    """An interface without some rules. `number` is that of its rule in the interface's record, counted from 1, or of
    the group."""

    number: int
    rules: tuple[str, ...]
    action: str
    interface: Interface

    @property
    def name(self) -> str:
        return f"without-{self.number}"


class Replayed(Frozen):
    """What was other in an episode of the whole interface, played again without some rules. `told`: what is said up
    front; `turns`: so many turns; `diverged`: the environment itself answered otherwise, so that nothing is known."""

    arm: str
    seed: int
    task_id: str
    sample: int
    told: bool = False
    turns: int = 0
    diverged: bool = False

    @property
    def is_other(self) -> bool:
        """Whether the episode has to be played anew."""
        return self.told or self.turns > 0 or self.diverged


class RuleWorth(Frozen):
    """What an arm measured, over all seeds. `worth` is the success of the whole interface minus that without the rules,
    in percentage points, `score_worth` the same of the score in [0, 1]; `over_placebo` is the success without them
    minus that of the placebo. All are paired by task. `fired` are turns of the whole interface that show other words
    without them, in `episodes` episodes; `told`: something is told up front of them; `played` episodes were played
    anew. Where nothing ever was other, nothing was played, and nothing can differ."""

    number: int
    rules: tuple[str, ...]
    action: str
    interface: str
    told: bool
    fired: int
    episodes: int
    played: int
    faults: int
    success_rate: Estimate
    worth: Estimate
    score_worth: Estimate
    over_placebo: Estimate
    conduct: Conduct

    @property
    def never_spoke(self) -> bool:
        """Whether nothing that was shown came of these rules."""
        return not self.told and not self.fired and not self.played


class Ablation(Frozen):
    """What the rules of an interface are worth one by one, or group by group. `over_placebo` is what the whole is worth
    (success, percentage points); `not_switched` are the rules of its record that cannot be switched off. `diverged`
    counts replays in which the environment itself answered otherwise."""

    environment: str
    split: str
    agent: str
    seeds: tuple[int, ...]
    interface: str
    games: str
    tasks: tuple[str, ...]
    episodes: int
    faults: int
    diverged: int
    success_rate: Estimate
    placebo: Estimate
    over_placebo: Estimate
    rules: tuple[RuleWorth, ...]
    not_switched: tuple[str, ...]
    conducts: dict[str, Conduct]
    usage: Usage


# ---------------------------------------------------------------- what is played


def arms_of(interface: Interface, *, groups: bool = False) -> list[Arm]:
    """The interface without each of its rules, or, with `groups`, without all rules about one form of action.

    Raises `UsageError` for an interface whose rules are code.
    """
    switches = switches_of(interface)
    if not switches:
        raise UsageError(
            f"the rules of {interface.name} are code, not a table that the probe or hybrid wrote: no single one can be "
            "switched off; its halves can be measured: align-echo evaluate --compare plays rules only and feedback only"
        )
    recorded = [rule.text for rule in interface.provenance.rules]
    order = list(dict.fromkeys((*recorded, *switches)))
    if not groups:
        return [_arm(interface, order.index(rule) + 1, (rule,), action) for rule, action in switches.items()]
    forms = list(dict.fromkeys(switches.values()))
    return [
        _arm(interface, number, tuple(rule for rule, action in switches.items() if action == form), form)
        for number, form in enumerate(forms, start=1)
    ]


def _arm(interface: Interface, number: int, rules: tuple[str, ...], action: str) -> Arm:
    return Arm(number, rules, action, without_rules(interface, rules, f"{interface.name}-without-{number}"))


def ablate(
    plan: Plan,
    path: Path,
    *,
    seeds: Sequence[int] = (),
    groups: bool = False,
    resume: bool = False,
    progress: Progress = SILENT,
) -> Ablation:
    """Play the plan's interface whole, as its placebo, and without each rule, on the same tasks with each seed
    (default: the plan's own); what is finished in the folder is not played again.

    Raises as `playing.play`, and `UsageError` for an interface whose rules cannot be switched off.
    """
    interface = next((variant for variant in plan.variants.values() if variant is not None), None)
    if interface is None:
        raise UsageError("'none' is the plain environment: name an interface")
    if len(set(seeds)) < len(seeds):
        raise UsageError("a seed is there twice: name each --seed once")
    seeds = tuple(seeds) or (plan.seed,)
    if switches_of(interface):
        progress.status("taking rules out of the interface")
    arms = arms_of(interface, groups=groups)
    variants = {**variants_of(interface), **{arm.name: arm.interface for arm in arms}}
    kept = {name: variants[name] for name in (WHOLE, PLACEBO, *(arm.name for arm in arms))}
    plans = [replace(plan, seed=seed, variants=kept) for seed in seeds]
    config = _config(plans[0], path, seeds)
    check_folder(path, config, resume=resume)
    try_reset(plan.spec, plan.task_ids[0], split=plan.split, data_root=plan.data_root)
    played = _Played(EvaluationFolder(path, config, resume=resume), arms, progress, tagged=len(seeds) > 1)
    for seeded in plans:
        played.play(seeded)
    ablation = measure(plans[0], interface, arms, played.episodes, played.replays, seeds)
    played.folder.finish(ablation)
    return ablation


def _config(plan: Plan, path: Path, seeds: Sequence[int]) -> Config:
    """What `config.json` holds."""
    player = build_player(plan, models_of(plan, path))
    return {**config_of(plan, player), "command": "interface ablate", "seeds": list(seeds)}


class _Played:
    """The episodes of all arms, by arm, and what was other in those of the whole interface."""

    def __init__(self, folder: EvaluationFolder, arms: Sequence[Arm], progress: Progress, *, tagged: bool) -> None:
        """`tagged`: a part of the folder has its seed in its name."""
        self.folder = folder
        self.episodes: dict[str, list[Trajectory]] = {}
        self._arms = arms
        self._progress = progress
        self._tagged = tagged
        self._file = JsonlFile(folder.path / REPLAYS)
        self.replays = self._file.read(Replayed)

    def play(self, plan: Plan) -> None:
        """Play all arms with the plan's seed."""
        player = build_player(plan, models_of(plan, self.folder.path))
        self._progress.say(about(plan.player, details_of(player)))

        def part(name: str, episodes: Sequence[Episode]) -> list[Trajectory]:
            tag = f"-seed-{plan.seed}" if self._tagged else ""
            interface = plan.variants[name]
            played = play_part(
                plan, player, interface, episodes,
                part=f"{name}{tag}", title=f"{name}{tag}", folder=self.folder, progress=self._progress,
            )  # fmt: skip
            return list(played)

        for name in (WHOLE, PLACEBO):
            self.episodes.setdefault(name, []).extend(part(name, plan.episodes))
        whole = [episode for episode in self.episodes[WHOLE] if episode.seed == plan.seed]
        for index, arm in enumerate(self._arms, start=1):
            self._progress.status(f"looking where a rule speaks: {index} of {len(self._arms)}")
            other = self._other(plan, arm, scored(whole))
            missing = [episode for episode in plan.episodes if episode in other]
            anew = part(arm.name, missing) if missing else []
            alike = [episode for episode in scored(whole) if Episode(episode.task_id, episode.sample) not in other]
            self.episodes.setdefault(arm.name, []).extend((*anew, *alike))

    def _other(self, plan: Plan, arm: Arm, whole: Sequence[Trajectory]) -> set[Episode]:
        """The episodes that have to be played anew without the arm's rules; what is found is kept in the folder."""
        known = {
            Episode(replayed.task_id, replayed.sample): replayed
            for replayed in self.replays
            if replayed.arm == arm.name and replayed.seed == plan.seed
        }
        missing = [episode for episode in whole if Episode(episode.task_id, episode.sample) not in known]
        if missing:
            for replayed in replays_of(plan, arm, missing):
                self._file.append(replayed)
                self.replays.append(replayed)
                known[Episode(replayed.task_id, replayed.sample)] = replayed
        return {episode for episode, replayed in known.items() if replayed.is_other}


def replays_of(plan: Plan, arm: Arm, episodes: Sequence[Trajectory]) -> Iterator[Replayed]:
    """Episodes of the whole interface, played again without the arm's rules."""
    env = plan.spec.make(plan.split, interface=arm.interface, data_root=plan.data_root)
    with closing(Session(env, agent="replay", seed=plan.seed)) as session:
        for episode in episodes:
            told, turns, diverged = _differing(session, episode)
            yield Replayed(
                arm=arm.name, seed=plan.seed, task_id=episode.task_id, sample=episode.sample,
                told=told, turns=turns, diverged=diverged,
            )  # fmt: skip


def _differing(session: Session, episode: Trajectory) -> tuple[bool, int, bool]:
    """(whether other rules are told, on how many turns other words are shown, whether the environment itself went
    another way) when the actions of an episode are played again in a session."""
    told, turns = False, 0
    try:
        view = session.reset(episode.task_id)
        told = view.rules != episode.rules
        if view.initial_observation != episode.initial_observation:
            return told, turns, True
        for step in episode.steps:
            if session.over:
                return told, turns, True
            again = session.act(AgentReply(text=step.reply, action=step.action, problem=step.problem))
            if again.raw_observation != step.raw_observation or again.score != step.score:
                return told, turns, True
            turns += again.observation != step.observation
    except EngineError:
        return told, turns, True
    return told, turns, False


# ---------------------------------------------------------------- what came of it


def measure(
    plan: Plan,
    interface: Interface,
    arms: Sequence[Arm],
    episodes: dict[str, list[Trajectory]],
    replays: Sequence[Replayed],
    seeds: Sequence[int],
) -> Ablation:
    """The figures over what was played. Raises `UsageError` if no episode of an arm ended without a fault."""
    whole, placebo = scored(episodes[WHOLE]), scored(episodes[PLACEBO])
    for name, played in episodes.items():
        if not scored(played):
            raise UsageError(f"no episode of {name!r} finished without a fault")
    switched = {rule for arm in arms for rule in arm.rules}
    anew = [episode for arm in arms for episode in played_anew(arm, episodes[arm.name], replays)]
    return Ablation(
        environment=plan.spec.name,
        split=plan.split,
        agent=whole[0].agent,
        seeds=tuple(seeds),
        interface=interface.label,
        games=plan.spec.games(plan.data_root),
        tasks=tuple(plan.task_ids),
        episodes=len(whole),
        faults=sum(episode.fault is not None for played in episodes.values() for episode in played),
        diverged=sum(replayed.diverged for replayed in replays),
        success_rate=success_rate(whole),
        placebo=success_rate(placebo),
        over_placebo=paired(placebo, whole, points, plan.seed),
        rules=tuple(_worth(arm, episodes, replays, plan.seed) for arm in arms),
        not_switched=tuple(rule.text for rule in interface.provenance.rules if rule.text not in switched),
        conducts={name: conduct_of(scored(episodes[name])) for name in (WHOLE, PLACEBO)},
        usage=sum((episode.usage for episode in (*episodes[WHOLE], *episodes[PLACEBO], *anew)), Usage()),
    )


def _worth(
    arm: Arm, episodes: dict[str, list[Trajectory]], replays: Sequence[Replayed], seed: int
) -> RuleWorth:
    played, whole = episodes[arm.name], scored(episodes[WHOLE])
    done, other = scored(played), [replayed for replayed in replays if replayed.arm == arm.name and replayed.is_other]
    return RuleWorth(
        number=arm.number,
        rules=arm.rules,
        action=arm.action,
        interface=arm.interface.label,
        told=any(replayed.told for replayed in other),
        fired=sum(replayed.turns for replayed in other),
        episodes=sum(replayed.turns > 0 for replayed in other),
        played=len(played_anew(arm, played, replays)),
        faults=len(played) - len(done),
        success_rate=success_rate(done),
        worth=paired(done, whole, points, seed),
        score_worth=paired(done, whole, lambda episode: episode.score, seed, most=1),
        over_placebo=paired(scored(episodes[PLACEBO]), done, points, seed),
        conduct=conduct_of(done),
    )


def played_anew(arm: Arm, episodes: Sequence[Trajectory], replays: Sequence[Replayed]) -> list[Trajectory]:
    """The episodes of an arm that are its own: the others are those of the whole interface, which nothing changed."""
    other = {(each.seed, each.task_id, each.sample) for each in replays if each.arm == arm.name and each.is_other}
    return [episode for episode in episodes if (episode.seed, episode.task_id, episode.sample) in other]


def points(episode: Trajectory) -> float:
    """100 for an episode that was won, else 0."""
    return 100.0 * episode.won


def paired(
    before: Sequence[Trajectory],
    after: Sequence[Trajectory],
    figure: Callable[[Trajectory], float],
    seed: int,
    most: float = 100,
) -> Estimate:
    """A figure of `after` minus that of `before`, each 0 to `most`: the mean over tasks that both have, with an
    interval over them. Raises `UsageError` for no such task."""
    old, new = by_task(before), by_task(after)
    differences = [
        fmean(map(figure, new[task])) - fmean(map(figure, old[task])) for task in old if task in new
    ]
    n = len(differences)
    sums = {"difference": np.asarray(differences)}
    return bootstrap(sums, lambda sums: sums["difference"] / n, seed=seed, bounds=(-most, most))
