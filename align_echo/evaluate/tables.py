"""A `VariantComparison` as rich tables: per variant, against the baseline and the placebo, by task type.

If an interface did not work its row says so: the figures are those of the raw environment, and are not shown as its
own. Not here: computing the figures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from align_echo.base.jsonl import JsonlFile
from align_echo.errors import printable
from align_echo.evaluate.audit.report import AuditReport
from align_echo.evaluate.comparison import BASELINE, PLACEBO, VariantComparison, VariantDifference, VariantResult
from align_echo.interface.contract import Interface, RuleCoverage, RuleRecord
from align_echo.interface.hints import HintCount
from align_echo.intervals import Estimate
from align_echo.registry import quantity
from align_echo.rollout.faults import InterfaceConduct
from align_echo.rollout.refusals import SOURCES, Known
from align_echo.types import ChoiceCounts, Step, Trajectory

NAMES = {"none": "none", "placebo": "placebo", "rules": "rules", "feedback": "feedback", "full": "both"}
TROUBLES: dict[str, Callable[[VariantResult], float | None]] = {
    "no action, %": lambda result: None if result.unparsed is None else result.unparsed.value,
    "cut off, %": lambda result: None if result.cut_off is None else result.cut_off.value,
    "overflows": lambda result: result.context_overflows,
    "faults": lambda result: result.faults,
    "fallbacks": lambda result: result.interface_fallbacks,
    "refused": lambda result: result.violations,
    "forged": lambda result: result.forged,
}
"""Optional columns, shown only with a nonzero figure: shares of the replies, counts of episodes, counts of turns on
which the interface failed or forged, and of engine calls refused to it."""

CAPTION = "consec. invalid: % of actions in runs of >= 2 refused, by replay;\nas shown: judged on what the agent saw"

CAPTION_CHANGE = "cut by: how much smaller the share is, in % of it; -: no interval, or nothing to compare"

NOT_DEFINED = "not defined"

MOST_SIGNS = 5
"""Most signs named in a line about replies."""

WORTH = "placebo: the same interface with neutral words for its own;\nit is worth what it adds to its placebo"


def tables(comparison: VariantComparison) -> list[Table]:
    """Build the tables of a comparison; those of differences only if there are any."""
    all_tables = [_variants_table(comparison)]
    if comparison.differences:
        table = _differences_table(comparison, "Against no interface, paired by task", comparison.differences)
        table.caption, table.caption_justify = CAPTION_CHANGE, "left"
        all_tables.append(table)
    if comparison.over_placebo and comparison.variants[PLACEBO].conduct.works:
        table = _differences_table(comparison, "Against the placebo, paired by task", comparison.over_placebo)
        table.caption, table.caption_justify = WORTH, "left"
        all_tables.append(table)
    all_tables.append(_types_table(comparison))
    for name, result in comparison.variants.items():
        untrue = [count for count in result.hints if count.failed or count.silenced]
        if untrue and name != PLACEBO:
            all_tables.append(hints_table(untrue, f"Hints that did not come true, interface: {NAMES[name]}"))
    return all_tables


def rules_table(rules: Iterable[RuleRecord]) -> Table:
    """Build the table of an interface's rules, with the experiments for and against each and the number of tasks."""
    table = plain_table("Rules and the experiments behind them: for, against, and on how many tasks")
    table.add_column("#", justify="right")
    table.add_column("rule", overflow="fold")
    for heading in ("for", "against", "tasks"):
        table.add_column(heading, justify="right")
    for number, rule in enumerate(rules, start=1):
        counts = rule.evidence.support, rule.evidence.refuted, rule.evidence.tasks
        text = f"(not confirmed) {rule.text}" if rule.untested else rule.text
        text += f" (against it: {rule.evidence.counterexample})" if rule.evidence.counterexample else ""
        table.add_row(str(number), Text(printable(text)), *map(str, counts))
    return table


def interface_line(named: str, interface: Interface) -> str:
    """Describe the played interface, by its given name, and the evidence of its rules, in one line."""
    rules = interface.provenance.rules
    tried = RuleCoverage.of(rules).in_words if rules else "no experiment"
    source_env, played_env = interface.provenance.environment, interface.contract.environment
    label = f"{interface.name}@{interface.content_hash}), made by {interface.provenance.backend}"
    on_record = quantity(len(rules), "rule")
    label += f" for {source_env}" if source_env != played_env else ""
    hints = "" if interface.retract else "; no hint is withheld"
    return printable(f"interface: {named} ({label}, {on_record} on record ({tried}){hints}")


def provenance_lines(interface: Interface) -> Iterator[str]:
    """Describe an interface's origin: its environment, its generation, and the evidence of its rules."""
    provenance, rules = interface.provenance, interface.provenance.rules
    yield f"{interface.name}@{interface.content_hash}, for {provenance.environment}, made by {provenance.backend}"
    facts = [f"agent {provenance.agent}"] * bool(provenance.agent)
    facts += [f"{role} {name}" for role, name in provenance.models.items()]
    if provenance.iterations:
        tasks = quantity(len(provenance.training_tasks), "training task")
        facts.append(f"seed {provenance.seed}, {quantity(provenance.iterations, 'iteration')}, {tasks}")
    facts += [f"{provenance.engine_steps:,} engine steps"] * bool(provenance.engine_steps)
    if facts:
        yield f"made with: {'; '.join(facts)}"
    if provenance.versions:
        yield f"versions: {', '.join(f'{name} {version}' for name, version in provenance.versions.items() if version)}"
    if rules:
        yield f"rules on record: {RuleCoverage.of(rules).in_words}"
    else:
        yield "rules on record: none, so nothing is known of what they rest on"


def audit_lines(audit: AuditReport) -> Iterator[str]:
    """Describe what an audit's table leaves out: the activity of each speaker, and the first false claims."""
    for spoken in audit.speakers:
        answered = f"{spoken.refusals:,} refused, {spoken.spoken:,} of them answered by a message"
        yield f"{spoken.speaker}: {quantity(spoken.games, 'game')}, {spoken.utterances:,} things said, {answered};"
        yield (
            f"  {spoken.obeyed:,} of {spoken.orders:,} orders obeyed, {spoken.circles:,} in a circle or in vain; "
            f"the interface failed on {spoken.broken:,} turns"
        )
        if not spoken.total.right + spoken.total.wrong:
            yield "  none of its claims was tried: that is no pass"
        yield from (f"  did not hold: {printable(example)}" for example in spoken.examples[:5])
    if audit.rules:
        tried = [rule for rule in audit.rules if rule.right or rule.wrong]
        trials = sum(rule.right + rule.wrong for rule in tried)
        yield f"told up front: {quantity(len(audit.rules), 'rule')}, {len(tried)} of them tried, {trials:,} trials"
    if audit.stopped:
        yield "stopped: this is what was found until then"


def audit_table(audit: AuditReport) -> Table:
    """Build the table of an interface's claims to each speaker, by kind, with how many were true when tested."""
    table = plain_table("Claims, tried in a fork of the state; % right with 95% intervals over games")
    table.add_column("speaker", no_wrap=True)
    table.add_column("claim", no_wrap=True)
    for heading in ("right", "wrong", "cannot tell", "games", "% right of those tried"):
        table.add_column(heading, justify="right", no_wrap=True)
    for spoken in audit.speakers:
        for row in (*spoken.rows, spoken.total):
            games = str(row.share.n if row.share else 0)
            counts = f"{row.right:,}", f"{row.wrong:,}", f"{row.cannot_tell:,}", games
            table.add_row(spoken.speaker, row.claim, *counts, cell(row.share, digits=2))
    return table


def hints_table(counts: Iterable[HintCount], title: str) -> Table:
    """Build the table of hints by rule: times shown, followed, came true and did not, and episodes with the rule
    silenced.
    """
    table = plain_table(title)
    table.add_column("rule", overflow="fold")
    for heading in ("fired", "followed", "came true", "did not", "silenced in"):
        table.add_column(heading, justify="right", no_wrap=True)
    for count in counts:
        numbers = (count.fired, count.followed, count.came_true, count.failed, count.silenced)
        table.add_row(Text(count.rule), *map(str, numbers))
    return table


def verdicts_given(comparison: VariantComparison) -> list[str]:
    """Summarise the verdicts of best-of-N over all variants, in a line or two; empty without any."""
    counts = [variant.choices for variant in comparison.variants.values() if variant.choices is not None]
    if not counts:
        return []
    total = sum(counts, ChoiceCounts())
    lines = [f"verdicts: {total.correct:,} correct, {total.wrong:,} wrong, {total.no_verdict:,} that were none"]
    if total.repeated:
        lines += [
            f"in {total.repeated:,} turns all candidates repeated an action that had changed nothing; "
            f"the critic called {total.repeated_wrong:,} of them wrong and had no other to take"
        ]
    return lines


def unplayed(comparison: VariantComparison) -> list[str]:
    """Return a line for each variant with episodes without any turn: they count as lost, but say nothing about the
    agent.
    """
    return [
        f"{NAMES[name]}: no turn was played in {result.unplayed} of {quantity(result.episodes, 'episode')}: the rules "
        "and the first observation alone fill the model's context, and they count as lost"
        for name, result in comparison.variants.items()
        if result.unplayed
    ]


def broken(comparison: VariantComparison) -> list[str]:
    """Return a line for each variant with episodes that broke."""
    return [
        f"{NAMES[name]}: {quantity(result.faults, 'episode')} broke and are in no figure: --resume plays them again"
        for name, result in comparison.variants.items()
        if result.faults
    ]


def repeated(comparison: VariantComparison) -> list[str]:
    """Return a line for each variant with episodes ended by an action repeated too often in a row."""
    return [
        f"{NAMES[name]}: one action, sent over and over, ended {result.ended_by_repeats} of "
        f"{quantity(result.episodes, 'episode')}"
        for name, result in comparison.variants.items()
        if result.ended_by_repeats
    ]


def residue_lines(comparison: VariantComparison) -> list[str]:
    """Return a line for each variant with signs removed from replies before parsing, the most frequent signs first."""
    return [
        f"{NAMES[name]}: {result.with_residue:,} of {result.replies:,} replies had signs taken off that are no part of "
        f"them: {', '.join(_list_signs(result.residue))}"
        for name, result in comparison.variants.items()
        if result.with_residue
    ]


def remarks(comparison: VariantComparison) -> list[str]:
    """Return all lines about what the tables do not show."""
    parts = (undefined, unplayed, broken, repeated, residue_lines)
    return [line for part in parts for line in part(comparison)]


def _list_signs(residue: Mapping[str, int]) -> list[str]:
    named = [f"{sign} in {count:,}" for sign, count in list(residue.items())[:MOST_SIGNS]]
    return [*named, "and others"] if len(residue) > MOST_SIGNS else named


def cell(figure: Estimate | None, *, signed: bool = False, digits: int = 1, missing: str = "-") -> str:
    """Format a figure with its interval to one digit less, "66.7 [39, 86]"; "66.7 -" without an interval, as of one
    task; `missing` for no figure.
    """
    if figure is None:
        return missing
    interval = figure.interval(max(digits - 1, 0), signed=signed) if figure.n > 1 else "-"
    return f"{figure.value:{'+' if signed else ''}.{digits}f} {interval}"


def refusals_line(known: Known | Literal[""], where: str = "") -> str:
    """Describe how refused actions are known, in an environment if there are several."""
    return f"refused{f' in {where}' if where else ''}: {SOURCES[known]}"


def undefined(comparison: VariantComparison) -> list[str]:
    """Return a line for each variant whose refused actions are partly unknown."""
    return [
        f"consec. invalid of {NAMES[name]} is not defined: {result.answers.in_words}"
        for name, result in comparison.variants.items()
        if result.answers is not None
    ]


def _variants_table(comparison: VariantComparison) -> Table:
    results = comparison.variants
    graded = _graded(comparison)
    table = plain_table(f"{comparison.environment} {comparison.split}, agent {comparison.agent}: % with 95% intervals")
    table.add_column("interface", no_wrap=True)
    for heading in ("n", "success", *(("score",) if graded else ()), "consec. invalid", "as shown", "turns"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.caption, table.caption_justify = f"{CAPTION}\n{refusals_line(comparison.refusals)}", "left"
    troubles = {
        heading: count for heading, count in TROUBLES.items() if any(count(result) for result in results.values())
    }
    for heading in troubles:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, result in results.items():
        score = (cell(result.mean_score, digits=3),) if graded else ()
        figures: tuple[str, ...] = (
            cell(result.success_rate),
            *score,
            cell(result.consecutive_invalid, missing=NOT_DEFINED),
            cell(result.consecutive_invalid_shown, missing=NOT_DEFINED),
            f"{result.mean_turns:.1f}",
        )
        if not result.conduct.works:
            figures = (failed_on(result.conduct), *("-" for _ in figures[1:]))
        counts = ["-" if (value := count(result)) is None else f"{value:.4g}" for count in troubles.values()]
        table.add_row(NAMES[name], str(result.episodes), *figures, *counts)
    return table


def _graded(comparison: VariantComparison) -> bool:
    """Return whether scores differ from the rate of wins."""
    results = comparison.variants.values()
    return any(abs(result.success_rate.value / 100 - result.mean_score.value) > 1e-9 for result in results)


def failed_on(conduct: InterfaceConduct) -> str:
    """Return the text in place of the figures of an interface that did not work."""
    return f"did not work: {conduct.failures}"


def _differences_table(
    comparison: VariantComparison, title: str, differences: Mapping[str, VariantDifference]
) -> Table:
    table = plain_table(title)
    table.add_column("interface", no_wrap=True)
    graded = _graded(comparison)
    for heading in ("success, points", *(("score",) if graded else ()), "consec. invalid, points", "cut by %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, difference in differences.items():
        conduct = comparison.variants[name].conduct
        if conduct.works:
            score = (cell(difference.score, signed=True, digits=3),) if graded else ()
            invalid = cell(difference.invalid_points, signed=True, missing=NOT_DEFINED)
            figures = cell(difference.success_points, signed=True), *score, invalid
            table.add_row(NAMES[name], *figures, cell(difference.invalid_reduction))
        else:
            table.add_row(NAMES[name], failed_on(conduct), *(("-",) if graded else ()), "-", "-")
    return table


def _types_table(comparison: VariantComparison) -> Table:
    variants = comparison.variants.values()
    has_repeats = any(variant.episodes + variant.faults > len(comparison.tasks) for variant in variants)
    table = plain_table("Won, by task type" + (": tasks, each the mean of its episodes" if has_repeats else ""))
    table.add_column("task type", no_wrap=True)
    for name in comparison.variants:
        table.add_column(NAMES[name], justify="right", no_wrap=True)
    kinds = sorted({kind for variant in comparison.variants.values() for kind in variant.success_by_type})
    for kind in kinds:
        estimates = [
            variant.success_by_type.get(kind) if variant.conduct.works else None
            for variant in comparison.variants.values()
        ]
        table.add_row(kind, *map(_format_wins, estimates))
    return table


def _format_wins(rate: Estimate | None) -> str:
    return "-" if rate is None else f"{rate.value * rate.n / 100:.4g}/{rate.n}"


def plain_table(title: str) -> Table:
    """Build an empty table in the common style."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.min_width = len(title)  # a title wraps at the width of its table
    return table


# ---------------------------------------------------------------- the game that two variants played differently

MOST_TURNS = 8
"""Most different turns of each episode after they diverge; a repeated turn counts once."""
LONGEST = 300
"""Most characters of an observation."""
WIDTH = 110


def show_parting(path: Path) -> list[str]:
    """Show the game of a comparison that best illustrates the interface's effect, as lines; empty without such a game.

    `path` is the comparison's folder. Of the games lost without the interface and won with it, the one with the fewest
    turns is shown. Raises `UsageError` for a damaged file of trajectories.
    """
    before, after = (JsonlFile(path / "trajectories" / f"{name}.jsonl").read(Trajectory) for name in (BASELINE, "full"))
    pair = telling_pair(before, after)
    names = (f"interface: {NAMES[BASELINE]}", f"interface: {NAMES['full']}")
    return [] if pair is None else ["", *parting(*pair, names=names), ""]


def telling_pair(before: Iterable[Trajectory], after: Iterable[Trajectory]) -> tuple[Trajectory, Trajectory] | None:
    """Find the episode lost before and won after in the fewest turns; None without any."""
    lost = {_key(episode): episode for episode in before if episode.fault is None and not episode.won}
    won = [episode for episode in after if episode.fault is None and episode.won and _key(episode) in lost]
    best = min(won, key=lambda episode: (len(episode.steps), _key(episode)), default=None)
    return None if best is None else (lost[_key(best)], best)


def parting(before: Trajectory, after: Trajectory, *, names: tuple[str, str] = ("before", "after")) -> list[str]:
    """Print two episodes of one task as lines: the number of common turns, then the rest of each, under its name."""
    same = parts_at(before, after)
    lines = [f"One task twice: {printable(before.task_id)}", *_wrapped("task: ", before.goal)]
    lines += [f"the same until turn {same}"] if same else []
    for name, trajectory in zip(names, (before, after), strict=True):
        outcome = "won" if trajectory.won else "not won"
        lines += ["", f"{name}: {outcome}, {len(trajectory.steps)} turns; from turn {same + 1}:"]
        lines += _turns(trajectory.steps, same)
    return lines


def parts_at(before: Trajectory, after: Trajectory) -> int:
    """Count the common turns from the start, by action and observation."""
    pairs = zip(before.steps, after.steps, strict=False)
    return next(
        (turn for turn, (left, right) in enumerate(pairs) if _turn_key(left) != _turn_key(right)),
        min(len(before.steps), len(after.steps)),
    )


def _turns(steps: Sequence[Step], first: int) -> Iterator[str]:
    """Print the turns from `first` on, counted from 0; a turn repeated at once is printed once, with its count."""
    number = first
    runs = [list(run) for _, run in groupby(steps[first:], key=_turn_key)]
    for run in islice(runs, MOST_TURNS):
        again = f"   ({len(run)} times)" if len(run) > 1 else ""
        yield f"{number + 1:4}  > {printable(run[0].action or run[0].reply)}{again}"
        yield from _wrapped("        ", run[0].observation)
        number += len(run)
    if number < len(steps):
        yield f"      ... and {len(steps) - number} turns more"


def _wrapped(lead: str, text: str) -> list[str]:
    flat = " ".join(text.split())
    flat = flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 3]}..."
    return textwrap.wrap(printable(flat), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _turn_key(step: Step) -> tuple[str, str]:
    return step.action or step.reply, step.observation


def _key(trajectory: Trajectory) -> tuple[str, int]:
    return trajectory.task_id, trajectory.sample
