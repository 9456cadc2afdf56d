"""An `AblationResult` as a table and in words. Not here: computing its figures (`ablation.py`)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from align_echo.align.hybrid.hypotheses import with_letters
from align_echo.evaluate.ablation import AblationResult, RuleWorth
from align_echo.evaluate.tables import cell, failed_on, plain_table
from align_echo.grammar import quantity
from align_echo.sandbox.session import printable
from align_echo.trouble import InterfaceConduct


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
