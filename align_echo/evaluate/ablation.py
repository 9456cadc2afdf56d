"""Measure single rules of an interface: play it complete, as its placebo, and without one rule at a time.

Without a rule, an episode changes only if the agent sees different text. So the complete interface's actions are first
replayed without the rule; if all text is the same, the episode counts for that arm too and is not played again. (An
agent that samples could have sampled differently; its samples are the same for equal prompts.) Rules that help only
together are not found: another rule often gives the hint of a missing one.

A rule is switched off in the rules as data and in the rules text, and code stays. Not supported: interfaces with rules
in code, and the probe's first rule (refusals and action forms), since all others depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
from pydantic import Field
from rich.table import Table
from rich.text import Text

from align_echo.agents import options
from align_echo.agents.options import ModelConfig, PayingConfig
from align_echo.agents.players import default_model
from align_echo.align.hybrid.hypotheses import UNTESTED, with_letters
from align_echo.base.jsonl import JsonlFile
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import EngineError, InterfaceError, UsageError, printable
from align_echo.evaluate.comparison import PLACEBO, build_variants
from align_echo.evaluate.folder import Config, EvaluationDir
from align_echo.evaluate.plan import EvaluationConfig, EvaluationPlan, plan_evaluation
from align_echo.evaluate.playing import Experiment
from align_echo.evaluate.tables import cell, failed_on, plain_table
from align_echo.interface.contract import Interface, check_source, parse_source
from align_echo.interface.rules.model import Rule, RuleSet, dump
from align_echo.interface.rules.rule_file import read_rule_set, told_text, write_data, write_lines
from align_echo.intervals import Estimate, bootstrap, by_task, scored, success_rate
from align_echo.models.spending import RoleSpending
from align_echo.registry import quantity
from align_echo.rollout.faults import InterfaceConduct, summarize_conduct
from align_echo.rollout.session import Episode, Session
from align_echo.types import AgentReply, Frozen, Trajectory, Usage

WHOLE = "full"
REPLAYS = "replays.jsonl"


@dataclass(frozen=True)
class AblationArm:
    """An interface without some rules. `number` is that of its rule in the interface's record, counted from 1, or of
    the group.
    """

    number: int
    rules: tuple[str, ...]
    action: str
    interface: Interface

    @property
    def name(self) -> str:
        return f"without-{self.number}"


class ReplayRecord(Frozen):
    """Differences in an episode of the complete interface, replayed without some rules. `told`: its rules text differs;
    `turns`: number of turns with different text; `diverged`: the environment itself answered differently, so nothing is
    known.
    """

    arm: str
    seed: int
    task_id: str
    sample: int
    told: bool = False
    turns: int = 0
    diverged: bool = False

    @property
    def is_other(self) -> bool:
        """Return whether the episode has to be played again."""
        return self.told or self.turns > 0 or self.diverged


class RuleWorth(Frozen):
    """Measurements of an arm, over all seeds. `worth` is the success of the complete interface minus that without the
    rules, in percentage points, `score_worth` the same for the score in [0, 1]; `over_placebo` is the success without
    them minus that of the placebo. All are paired by task. `fired` counts turns of the complete interface with
    different text without them, in `episodes` episodes; `told`: the rules text differs; `played` episodes were played
    again. If nothing ever differed, nothing was played, and all differences are 0.
    """

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
    conduct: InterfaceConduct

    @property
    def never_spoke(self) -> bool:
        """Return whether these rules had no effect on any text."""
        return not self.told and not self.fired and not self.played


class AblationResult(Frozen):
    """Measured effect of an interface's rules, one by one or group by group. `over_placebo` is the effect of the
    complete interface (success, percentage points); `not_switched` are recorded rules that cannot be switched off.
    `diverged` counts replays in which the environment itself answered differently. `at_endpoints` is as in
    `VariantComparison`.
    """

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
    conducts: dict[str, InterfaceConduct]
    usage: Usage
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)


# ---------------------------------------------------------------- playing


def build_arms(interface: Interface, *, groups: bool = False) -> list[AblationArm]:
    """Build the interface without each of its rules, or, with `groups`, without all rules about one form of action.

    Raises `UsageError` for an interface whose rules are code.
    """
    switches = list_switches(interface)
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


def _arm(interface: Interface, number: int, rules: tuple[str, ...], action: str) -> AblationArm:
    return AblationArm(number, rules, action, without_rules(interface, rules, f"{interface.name}-without-{number}"))


class AblationConfig(ModelConfig, PayingConfig):
    """Options of `align-echo interface ablate`."""

    env: options.Env
    agent: options.Agent = None
    model: options.Model = Field(default_factory=default_model)
    base_url: options.BaseUrl = None
    temperature: options.Temperature = None
    max_tokens: options.MaxTokens = None
    turns: options.Turns = None
    agent_preset: options.Preset = None
    split: options.TestSplit = None
    tasks: options.TaskCount = None
    seed: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1, description="Seed; repeat it for more runs of the same tasks."),
    ] = (0,)
    retract: options.Retract = True
    groups: Annotated[bool, Field(description="Ablate rules by form of action.")] = False
    workers: options.WorkerCount = None
    data_root: options.DataRoot = None


def plan_ablation(interface: str, config: AblationConfig) -> EvaluationPlan:
    """Plan the episodes of an interface with the first seed. Raises as `plan_evaluation`."""
    shared = {name: value for name, value in config if name not in ("seed", "groups")}
    return plan_evaluation(EvaluationConfig(**shared, interface=interface, seed=config.seed[0]))


def ablate(
    plan: EvaluationPlan,
    path: Path,
    *,
    seeds: Sequence[int] = (),
    groups: bool = False,
    resume: bool = False,
    progress: Progress = SILENT,
) -> AblationResult:
    """Play the plan's interface complete, as its placebo, and without each rule, on the same tasks with each seed
    (default: the plan's own); finished parts of the folder are reused.

    Raises as `playing.play`, and `UsageError` for an interface whose rules cannot be switched off.
    """
    interface = next((variant for variant in plan.variants.values() if variant is not None), None)
    if interface is None:
        raise UsageError("'none' is the plain environment: name an interface")
    if len(set(seeds)) < len(seeds):
        raise UsageError("a seed is there twice: name each --seed once")
    seeds = tuple(seeds) or (plan.seed,)
    if list_switches(interface):
        progress.status("taking rules out of the interface")
    arms = build_arms(interface, groups=groups)
    variants = {**build_variants(interface), **{arm.name: arm.interface for arm in arms}}
    arm_variants = {name: variants[name] for name in (WHOLE, PLACEBO, *(arm.name for arm in arms))}
    first = replace(plan, seed=seeds[0], variants=arm_variants)
    experiment = Experiment(first, path, resume=resume, progress=progress)
    config: Config = {"command": "interface ablate", "seeds": list(seeds)}
    with experiment.begin(config, warn=False).folder as folder:
        arms_played = _ArmPlayer(folder, arms, progress, tagged=len(seeds) > 1)
        for seed in seeds:
            arms_played.play(experiment.reseeded(seed))
        ablation = measure(first, interface, arms, arms_played.episodes, arms_played.replays, seeds)
        ablation = ablation.model_copy(update={"at_endpoints": experiment.spending.by_role})
        folder.finish(ablation)
    return ablation


class _ArmPlayer:
    """The episodes of all arms, by arm, and the replays of the complete interface's episodes."""

    def __init__(
        self, folder: EvaluationDir, arms: Sequence[AblationArm], progress: Progress, *, tagged: bool
    ) -> None:
        """`tagged`: add the seed to the names of the folder's parts."""
        self.episodes: dict[str, list[Trajectory]] = {}
        self._arms = arms
        self._progress = progress
        self._tagged = tagged
        self._file = JsonlFile(folder.path / REPLAYS)
        self.replays = self._file.read(ReplayRecord)

    def play(self, experiment: Experiment) -> None:
        """Play all arms with the experiment's seed."""
        plan = experiment.plan
        tag = f"-seed-{plan.seed}" if self._tagged else ""

        def part(name: str, episodes: Sequence[Episode]) -> list[Trajectory]:
            arm = f"{name}{tag}"
            return list(experiment.play(arm, plan.variants[name], episodes, title=arm))

        for name in (WHOLE, PLACEBO):
            self.episodes.setdefault(name, []).extend(part(name, plan.episodes))
        complete = [episode for episode in self.episodes[WHOLE] if episode.seed == plan.seed]
        for index, arm in enumerate(self._arms, start=1):
            self._progress.status(f"looking where a rule speaks: {index} of {len(self._arms)}")
            changed = self._find_changed(plan, arm, scored(complete))
            missing = [episode for episode in plan.episodes if episode in changed]
            new_episodes = part(arm.name, missing) if missing else []
            finished = scored(complete)
            unchanged = [episode for episode in finished if Episode(episode.task_id, episode.sample) not in changed]
            self.episodes.setdefault(arm.name, []).extend((*new_episodes, *unchanged))

    def _find_changed(self, plan: EvaluationPlan, arm: AblationArm, complete: Sequence[Trajectory]) -> set[Episode]:
        """Find the episodes to play again without the arm's rules; the replays are stored in the folder."""
        known = {
            Episode(replayed.task_id, replayed.sample): replayed
            for replayed in self.replays
            if replayed.arm == arm.name and replayed.seed == plan.seed
        }
        missing = [episode for episode in complete if Episode(episode.task_id, episode.sample) not in known]
        if missing:
            for replayed in replay_without_rules(plan, arm, missing):
                self._file.append(replayed)
                self.replays.append(replayed)
                known[Episode(replayed.task_id, replayed.sample)] = replayed
        return {episode for episode, replayed in known.items() if replayed.is_other}


def replay_without_rules(
    plan: EvaluationPlan, arm: AblationArm, episodes: Sequence[Trajectory]
) -> Iterator[ReplayRecord]:
    """Replay episodes of the complete interface without the arm's rules."""
    env = plan.spec.make(plan.split, interface=arm.interface, data_root=plan.data_root)
    with closing(Session(env, agent="replay", seed=plan.seed)) as session:
        for episode in episodes:
            rules_differ, turns, diverged = _replay(session, episode)
            yield ReplayRecord(
                arm=arm.name, seed=plan.seed, task_id=episode.task_id, sample=episode.sample,
                told=rules_differ, turns=turns, diverged=diverged,
            )  # fmt: skip


def _replay(session: Session, episode: Trajectory) -> tuple[bool, int, bool]:
    """Replay an episode's actions in a session.

    Returns (whether the rules text differs, number of turns with different text, whether the environment itself
    diverged).
    """
    rules_differ, turns = False, 0
    try:
        view = session.reset(episode.task_id)
        rules_differ = view.rules != episode.rules
        if view.initial_observation != episode.initial_observation:
            return rules_differ, turns, True
        for step in episode.steps:
            if session.over:
                return rules_differ, turns, True
            replayed_step = session.act(AgentReply(text=step.reply, action=step.action, problem=step.problem))
            if replayed_step.raw_observation != step.raw_observation or replayed_step.score != step.score:
                return rules_differ, turns, True
            turns += replayed_step.observation != step.observation
    except EngineError:
        return rules_differ, turns, True
    return rules_differ, turns, False


# ---------------------------------------------------------------- measuring


def measure(
    plan: EvaluationPlan,
    interface: Interface,
    arms: Sequence[AblationArm],
    episodes: dict[str, list[Trajectory]],
    replays: Sequence[ReplayRecord],
    seeds: Sequence[int],
) -> AblationResult:
    """Compute the figures of all episodes. Raises `UsageError` if an arm has no episode without a fault."""
    complete, placebo = scored(episodes[WHOLE]), scored(episodes[PLACEBO])
    for name, played in episodes.items():
        if not scored(played):
            raise UsageError(f"no episode of {name!r} finished without a fault; --resume plays them again")
    switched = {rule for arm in arms for rule in arm.rules}
    new_episodes = [episode for arm in arms for episode in new_episodes_only(arm, episodes[arm.name], replays)]
    return AblationResult(
        environment=plan.spec.name,
        split=plan.split,
        agent=complete[0].agent,
        seeds=tuple(seeds),
        interface=interface.label,
        games=plan.spec.games(plan.data_root),
        tasks=tuple(plan.task_ids),
        episodes=len(complete),
        faults=sum(episode.fault is not None for played in episodes.values() for episode in played),
        diverged=sum(replayed.diverged for replayed in replays),
        success_rate=success_rate(complete),
        placebo=success_rate(placebo),
        over_placebo=paired(placebo, complete, points, plan.seed),
        rules=tuple(_measure_arm(arm, episodes, replays, plan.seed) for arm in arms),
        not_switched=tuple(rule.text for rule in interface.provenance.rules if rule.text not in switched),
        conducts={name: summarize_conduct(scored(episodes[name])) for name in (WHOLE, PLACEBO)},
        usage=sum((episode.usage for episode in (*episodes[WHOLE], *episodes[PLACEBO], *new_episodes)), Usage()),
    )


def _measure_arm(
    arm: AblationArm, episodes: dict[str, list[Trajectory]], replays: Sequence[ReplayRecord], seed: int
) -> RuleWorth:
    played, complete = episodes[arm.name], scored(episodes[WHOLE])
    finished = scored(played)
    changed = [replayed for replayed in replays if replayed.arm == arm.name and replayed.is_other]
    return RuleWorth(
        number=arm.number,
        rules=arm.rules,
        action=arm.action,
        interface=arm.interface.label,
        told=any(replayed.told for replayed in changed),
        fired=sum(replayed.turns for replayed in changed),
        episodes=sum(replayed.turns > 0 for replayed in changed),
        played=len(new_episodes_only(arm, played, replays)),
        faults=len(played) - len(finished),
        success_rate=success_rate(finished),
        worth=paired(finished, complete, points, seed),
        score_worth=paired(finished, complete, lambda episode: episode.score, seed, most=1),
        over_placebo=paired(scored(episodes[PLACEBO]), finished, points, seed),
        conduct=summarize_conduct(finished),
    )


def new_episodes_only(
    arm: AblationArm, episodes: Sequence[Trajectory], replays: Sequence[ReplayRecord]
) -> list[Trajectory]:
    """Return the episodes played for an arm itself; the others are unchanged ones of the complete interface."""
    own_replays = (replayed for replayed in replays if replayed.arm == arm.name and replayed.is_other)
    changed = {(replayed.seed, replayed.task_id, replayed.sample) for replayed in own_replays}
    return [episode for episode in episodes if (episode.seed, episode.task_id, episode.sample) in changed]


def points(episode: Trajectory) -> float:
    """Return 100 for a won episode, else 0."""
    return 100.0 * episode.won


def paired(
    before: Sequence[Trajectory],
    after: Sequence[Trajectory],
    figure: Callable[[Trajectory], float],
    seed: int,
    most: float = 100,
) -> Estimate:
    """Compute a figure of `after` minus that of `before`, each 0 to `most`: the mean over common tasks, with an
    interval over them. Raises `UsageError` without a common task.
    """
    old, new = by_task(before), by_task(after)
    differences = [fmean(map(figure, new[task])) - fmean(map(figure, old[task])) for task in old if task in new]
    n = len(differences)
    sums = {"difference": np.asarray(differences)}
    return bootstrap(sums, lambda sums: sums["difference"] / n, seed=seed, bounds=(-most, most))


# ---------------------------------------------------------------- an `AblationResult` as a table and in words


def ablation_table(ablation: AblationResult) -> Table:
    """Build the table of rules with any effect on the text, those with the highest worth first."""
    graded = any(rule.score_worth.value and not rule.worth.value for rule in ablation.rules)
    table = plain_table("What the interface loses without a rule: success, points, paired by task, 95% intervals")
    for heading in ("#", "rule"):
        table.add_column(heading, overflow="fold")
    headings = ("fired", "in episodes", "won without, %", "worth", *(("score",) if graded else ()), "left over placebo")
    for heading in (*headings, ""):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for rule in sorted(ablation.rules, key=lambda rule: (-rule.worth.value, -rule.score_worth.value, -rule.fired)):
        if rule.never_spoke:
            continue
        score = (cell(rule.score_worth, signed=True, digits=3),) if graded else ()
        figures = cell(rule.success_rate), cell(rule.worth, signed=True), *score, cell(rule.over_placebo, signed=True)
        if not rule.conduct.works:
            figures = (failed_on(rule.conduct), *("-" for _ in figures[1:]))
        fired = f"{rule.fired:,}" + (" + told" if rule.told else "")
        table.add_row(str(rule.number), Text(_rule_name(rule)), fired, f"{rule.episodes:,}", *figures, verdict_on(rule))
    table.caption, table.caption_justify = CAPTION, "left"
    return table


CAPTION = (
    "fired: turns on which other words are shown without it; told: it has words up front;\n"
    "left over placebo: what the interface without it still adds to its placebo"
)


def verdict_on(rule: RuleWorth) -> str:
    """Summarise a rule's worth in words."""
    worth = rule.worth if rule.worth.sign or rule.worth.value else rule.score_worth
    if worth.n > 1 and worth.sign > 0:
        return "helps"
    if worth.n > 1 and worth.sign < 0:
        return "harms"
    return "cannot be told" if worth.value or any(worth.ci95 or ()) else "changed no outcome"


def ablation_lines(ablation: AblationResult) -> Iterator[str]:
    """Describe what the table leaves out: the complete interface and its placebo, silent rules, and limits of the
    figures.
    """
    over_placebo, n = ablation.over_placebo, len(ablation.tasks)
    seeds = ", ".join(map(str, ablation.seeds))
    episodes = quantity(ablation.episodes, "episode")
    yield (
        f"{printable(ablation.interface)}, agent {printable(ablation.agent)}: {episodes} of {quantity(n, 'task')} of "
        f"{ablation.environment} {ablation.split}, seed {seeds}"
    )
    yield (
        f"won: {cell(ablation.success_rate)}% whole, {cell(ablation.placebo)}% as its placebo; the whole is worth "
        f"{cell(over_placebo, signed=True)} points over its placebo"
        + ("" if over_placebo.sign > 0 else ", which cannot be told from nothing: little can be said of its rules here")
    )
    silent = [rule for rule in ablation.rules if rule.never_spoke]
    if silent:
        numbers = ", ".join(str(rule.number) for rule in silent)
        yield (
            f"{len(silent)} of {len(ablation.rules)} never spoke in these episodes, so they are worth nothing here and "
            f"were not played: {numbers}"
        )
    unchanged = [rule for rule in ablation.rules if not rule.never_spoke and verdict_on(rule) == "changed no outcome"]
    if unchanged:
        unseen = min(100.0, 300 / n)
        yield f"changed no outcome: with {n} tasks, a rule that decides fewer than {unseen:.3g}% of them may go unseen"
    tried = len(ablation.rules) - len(silent)
    if tried > 1:
        yield (
            f"of {tried} intervals about {tried / 20:.2g} leave 0 by chance alone; "
            "a rule may be worth nothing because another speaks where it is gone"
        )
    for rule in ablation.not_switched:
        yield f"cannot be switched off alone, the others rest on it: {printable(rule)}"
    if ablation.diverged:
        yield (
            f"{ablation.diverged} times an episode went another way when its own actions were played again, and was "
            "played anew: the environment draws, or the interface kept actions from it"
        )
    if ablation.faults:
        yield f"{ablation.faults} episodes broke and are in no figure; --resume plays them again"


def arm_conducts(ablation: AblationResult) -> dict[str, InterfaceConduct]:
    """Return the conduct of the interface in each arm, by the arm's name."""
    return ablation.conducts | {f"without {rule.number}": rule.conduct for rule in ablation.rules if rule.played}


def _rule_name(rule: RuleWorth) -> str:
    if len(rule.rules) == 1:
        return printable(rule.rules[0])
    return printable(f"all {len(rule.rules)} rules about `{with_letters(rule.action) or 'anything'}`")


# ---------------------------------------------------------------- switch rules off


def list_switches(interface: Interface) -> dict[str, str]:
    """Map each removable rule's text to its action form, in record order.

    Empty if the interface stores no rules as data.
    """
    switched = {_told_text(rule): getattr(rule, "form", "any") for rule in _read_rules(interface.source).rules}
    recorded = [rule.text for rule in interface.provenance.rules if rule.text in switched]
    return {rule: switched[rule] for rule in dict.fromkeys((*recorded, *switched))}


def without_rules(interface: Interface, rules: Collection[str], name: str) -> Interface:
    """Copy an interface under a new `name` with some rules removed from the rules text and the feedback.

    Raises `UsageError` for rules that cannot be removed.
    """
    unknown = set(rules) - list_switches(interface).keys()
    if unknown:
        raise UsageError(f"the interface {interface.name} has no rule that can be switched off: {min(unknown)}")
    source, before = interface.source, _read_rules(interface.source)
    after = before.model_copy(update={"rules": tuple(rule for rule in before.rules if _told_text(rule) not in rules)})
    if after != before:
        source = _replace_rules_text(source, told_text(before), told_text(after))
        source = _with_rules(source, after)
    check_source(source, interface.contract)
    left = tuple(rule for rule in interface.provenance.rules if rule.text not in rules)
    provenance = interface.provenance.model_copy(update={"rules": left})
    return interface.model_copy(update={"name": name, "source": source, "provenance": provenance})


@lru_cache(maxsize=8)
def _read_rules(source: str) -> RuleSet:
    return read_rule_set(source) or RuleSet()


def _told_text(rule: Rule) -> str:
    return rule.text.removeprefix(UNTESTED).removesuffix(".")


# ---------------------------------------------------------------- the source


def _with_rules(source: str, rules: RuleSet) -> str:
    """Replace the rules in the source."""
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULES":
            return _replace_expression(source, node.value, write_data(dump(rules)))
    raise InterfaceError("the source has no rules as data")


def _replace_rules_text(source: str, before: str, after: str) -> str:
    """Replace the rules text in the source. Raises `InterfaceError` if the source does not contain `before`."""
    if before == after:
        return source
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Constant) and node.value == before:
            text = repr(after) if node.lineno == node.end_lineno else write_lines(after)
            return _replace_expression(source, node, text)
    raise InterfaceError("what the interface tells up front is not what its rules say: it was changed by hand")


def _replace_expression(source: str, node: ast.expr, text: str) -> str:
    """Replace an expression in the source. `ast` column offsets are UTF-8 bytes."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = b"".join(lines[:first]) + lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    return (head + text.encode() + tail).decode()
