"""Episodes as lines for a terminal: what a run holds, and one episode turn by turn.

    for line in overview(parts, 60, damaged): print(line)

Every text of an episode is printed without what steers a terminal, and not beyond `LONGEST` characters. Left out: two
episodes beside each other (`evaluate/parting.py`, and the page of `packing.py`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from align_echo.errors import UsageError, did_you_mean
from align_echo.faults import fault_text
from align_echo.grammar import quantity
from align_echo.interface import Provenance
from align_echo.sandbox.session import printable
from align_echo.types import Choice, HintEvent, Step, Trajectory, Usage
from align_echo.view.critiques import Critiques, PlacedReview
from align_echo.view.evidence import provenances, rules_behind
from align_echo.view.finding import EpisodeFile, of_part
from align_echo.view.labels import Labels, OracleLabels
from align_echo.view.reading import DamagedLine, episodes_of

LONGEST = 2_000
"""Characters that are printed of a text."""

WIDTH = 110
FEWEST = 3
"""Episodes that are listed of a part, where there are many parts."""

MOST_NAMED = 6
"""Names in a message."""


class Listed(NamedTuple):
    """An episode and the part of a run that it is of."""

    part: EpisodeFile
    played: Trajectory


def overview(parts: Sequence[EpisodeFile], most: int, damaged: list[DamagedLine]) -> Iterator[str]:
    """Parts with their figures and their first episodes, about `most` of these in all; what is left out is counted.

    Raises `UsageError` where no episode can be read.
    """
    each = max(FEWEST, most // len(parts))
    shown = parts[: max(1, most // FEWEST)]
    several_runs = len({part.run for part in parts}) > 1
    is_empty = True
    for part in shown:
        counts = dict.fromkeys(("won", "lost", "fault"), 0)
        lines: list[str] = []
        interfaces: dict[str, None] = {}
        for played in episodes_of(part.file, damaged):
            counts[result_of(played)] += 1
            interfaces[played.interface] = None
            lines += [_row(played)] if len(lines) < each else []
        total = sum(counts.values())
        if not total:
            continue
        yield from () if is_empty else ("",)
        is_empty = False
        name = f"{part.run}: {part.part}" if several_runs else part.part
        labels = ", ".join([*interfaces][:MOST_NAMED])
        yield printable(
            f"{name}: {quantity(total, 'episode')}, {counts['won']} won, {counts['lost']} lost, "
            f"{counts['fault']} broken; interface: {labels}"
        )
        yield from lines
        yield from (f"  ... and {total - len(lines)} more",) if total > len(lines) else ()
    if is_empty:
        raise UsageError(f"no episode can be read in {parts[0].file}")
    if len(parts) > len(shown):
        first, last = parts[len(shown)], parts[-1]
        yield ""
        yield f"... and {len(parts) - len(shown)} more parts, from {_line(first.part, 80)} to {_line(last.part, 80)}"


def result_of(played: Trajectory) -> str:
    """won, lost, or fault for an episode that has no score."""
    return "fault" if played.fault is not None else "won" if played.won else "lost"


def _row(played: Trajectory) -> str:
    sample = f" sample {played.sample}" if played.sample else ""
    score = "    -" if played.fault else f"{played.score:.3f}"
    turns = f"{len(played.steps):4} turn{' ' if len(played.steps) == 1 else 's'}"
    return f"  {result_of(played):5}  {score}  {turns}  " + _line(f"{played.task_id}{sample}", 200)


# ---------------------------------------------------------------- which episode


def find_episode(
    parts: Sequence[EpisodeFile], task: str, damaged: list[DamagedLine], *, part: str | None, sample: int | None
) -> tuple[Listed, list[Listed]]:
    """The first episode of a task, which is named by its id or by what is in its id alone, and all others of the task.

    Raises `UsageError` where no task or several have that in their ids, and where none is of that part and sample.
    """
    of_part(parts, part)
    all_ids: dict[str, None] = {}
    found: list[Listed] = []
    for file in parts:
        for played in episodes_of(file.file, damaged):
            if part in (None, file.part):
                all_ids[played.task_id] = None
            if task.lower() in played.task_id.lower():
                found.append(Listed(file, played))
    ids = [task_id for task_id in all_ids if task.lower() in task_id.lower()]
    ids = [task] if task in ids else ids
    if not all_ids:
        raise UsageError(f"{f'part {part}' if part else 'the run'} has no episode that can be read")
    if not ids:
        near = did_you_mean(task, all_ids)
        raise UsageError(f"no task here has {_line(task, 120)!r} in its id; {near}there are {_some([*all_ids])}")
    if len(ids) > 1:
        raise UsageError(f"{_line(task, 120)!r} is in the ids of {len(ids)} tasks, name more of it: {_some(ids)}")
    found = [listed for listed in found if listed.played.task_id == ids[0]]
    of_wanted = [listed for listed in found if part in (None, listed.part.part)]
    wanted = [listed for listed in of_wanted if sample in (None, listed.played.sample)]
    if not wanted:
        samples = _some(sorted({str(listed.played.sample) for listed in of_wanted}))
        raise UsageError(f"{_line(ids[0], 120)} has no sample {sample} here; it has {samples}")
    return wanted[0], [listed for listed in found if listed is not wanted[0]]


def _some(names: Sequence[str]) -> str:
    shown = [_line(name, 120) for name in names[:MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


# ---------------------------------------------------------------- one episode


def episode_lines(
    listed: Listed, others: Sequence[Listed], parts: Sequence[EpisodeFile], damaged: list[DamagedLine]
) -> Iterator[str]:
    """An episode turn by turn, with the experiments behind what its interface said and what a critic said of it."""
    part, played = listed
    provenance = provenances([played.interface], {each.folder: None for each in parts}).get(played.interface)
    said = Critiques(parts, damaged).of(part, played.task_id, played.sample, played.critique)
    labels = OracleLabels(parts, damaged).of(part, played)
    yield _line(f"{played.task_id}, sample {played.sample}, {part.run}: {part.part}", 300)
    yield f"{_ending(played)}; agent {_line(played.agent, 80)}, interface {_line(played.interface, 120)}"
    yield from _told("fault: ", fault_text(played.fault)) if played.fault else ()
    yield from _told("interface error at reset: ", played.reset_error)
    for violation in played.reset_violations:
        yield from _told("violation at reset: ", f"{violation.action}: {violation.reason}")
    yield from _told("task: ", played.goal)
    yield from _told("critique of an earlier attempt: ", played.critique)
    yield from _told("rules told up front: ", played.rules)
    yield from _told("", played.initial_observation)
    yield from _turns(played.steps, labels, provenance)
    for heard in said:
        yield ""
        yield from _review(heard)
    if others:
        yield ""
        yield from _told("the same task: ", "; ".join(_other(part, other) for other in others[:20]))


def _turns(steps: Sequence[Step], labels: Sequence[Labels], provenance: Provenance | None) -> Iterator[str]:
    """All turns; one that is repeated at once is shown once, with how often."""
    number, score = 0, 0.0
    for _, run in groupby(steps, key=lambda step: step.model_dump_json(exclude={"usage", "tokens"})):
        same = list(run)
        yield ""
        yield from _turn(number + 1, same[0], score, provenance)
        for action, label in labels[number].items():
            yield from _told(f"        oracle: {label}: ", action)
        number, score = number + len(same), same[0].score
        yield from (f"        the same until turn {number} ({len(same)} times)",) if len(same) > 1 else ()


def _ending(played: Trajectory) -> str:
    spent = f", {_spent(played.usage)}" if played.usage.tokens != 0 else ""
    full = ", the model's context was full" if played.context_overflow else ""
    score = "no score" if played.fault else f"score {played.score:g}"
    full += ", one action was repeated too often" if played.ended_by_repeats else ""
    return f"{result_of(played)}, {score}, {quantity(len(played.steps), 'turn')}{spent}{full}"


def _spent(usage: Usage) -> str:
    return "tokens not told" if usage.tokens is None else f"{usage.tokens:,} tokens"


def _turn(number: int, step: Step, before: float, provenance: Provenance | None) -> Iterator[str]:
    figures = [f"reward {step.reward:+g}"] if step.reward else []
    figures += [f"score {step.score:g}"] if step.score != before else []
    figures += [f"{step.engine_calls} engine calls"] if step.engine_calls != 1 else []
    figures += [word for word, is_so in (("ended", step.terminated), ("step limit", step.truncated)) if is_so]
    figures += [_spent(step.usage)] if step.usage.tokens != 0 else []
    named = "(no action)" if step.action is None else step.action
    yield from _told(f"{number:4}  > ", named)
    yield from (f"        [{', '.join(figures)}]",) if figures else ()
    if step.reply != step.action:
        yield from _told("        reply: ", step.reply)
    yield from _told("        ", step.observation)
    if step.raw_observation is None:
        yield "        raw: the environment was not asked"
    elif step.raw_observation != step.observation:
        yield from _told("        raw: ", step.raw_observation or "(empty)")
    yield from _told("        no action: ", step.problem)
    yield from ("        the model's limit of tokens ended the reply",) if step.cut_off else ()
    yield from _told("        taken off the reply: ", " ".join(step.residue))
    yield from _told("        interface error: ", step.interface_error)
    for violation in step.violations:
        yield from _told("        violation: ", f"{violation.action}: {violation.reason}")
    yield from _told("        forged by the interface: ", ", ".join(step.forged))
    yield from _candidates(step.choice) if step.choice else ()
    for event in step.hints:
        yield from _hint(event, provenance)


def _candidates(choice: Choice) -> Iterator[str]:
    for number, candidate in enumerate(choice.candidates):
        sure = "" if candidate.p_correct is None else f" p(correct) {candidate.p_correct:.2f}"
        likely = "" if candidate.logprob is None else f" log p {candidate.logprob:.2f}"
        sign = "*" if number == choice.taken else " "
        verdict = candidate.verdict or "not judged"
        named = "(no action)" if candidate.action is None else candidate.action
        yield from _told(f"      {sign} candidate {number + 1}: {verdict}{sure}{likely}: ", named)


def _hint(event: HintEvent, provenance: Provenance | None) -> Iterator[str]:
    came = {True: ["came true"], False: ["did not come true"], None: []}[event.came_true]
    states = (("shown", event.fired), ("followed", event.followed), ("silenced", event.silenced))
    words = [*(word for word, is_so in states if is_so), *came]
    yield from _told(f"        rule ({', '.join(words)}): ", event.rule)
    behind = rules_behind(event.rule, provenance.rules) if provenance and event.fired else []
    for number in behind[:1]:
        rule = provenance.rules[number] if provenance else None
        if rule is not None:
            tried = f"{rule.evidence.support} experiments for, {rule.evidence.refuted} against"
            more = f"; {len(behind) - 1} more rules name the same" if len(behind) > 1 else ""
            yield from _told("          on record: ", f"{rule.text} ({'not tested' if rule.untested else tried}){more}")


def _review(heard: PlacedReview) -> Iterator[str]:
    review = heard.review
    if review.critique is None:
        why = fault_text(review.fault) if review.fault else review.problem
        yield from _told("critic: ", why or "nothing")
        return
    yield from _told("critic: ", review.critique.reason)
    for suggestion in review.critique.suggestions:
        yield from _told("  advice: ", suggestion)


def _other(part: EpisodeFile, other: Listed) -> str:
    name = other.part.part if other.part.run == part.run else f"{other.part.run}: {other.part.part}"
    return f"{name} sample {other.played.sample} ({result_of(other.played)})"


# ---------------------------------------------------------------- text


def _told(lead: str, text: str) -> Iterator[str]:
    """A text behind its lead, with its own line breaks, wrapped; nothing for no text."""
    if not text:
        return
    more = len(text) - LONGEST
    cut = f"{text[:LONGEST]} ... and {more:,} characters more" if more > 0 else text
    inner = " " * min(len(lead), 8)
    for number, line in enumerate(printable(cut).splitlines() or [""]):
        begin = printable(lead) if number == 0 else inner
        yield from textwrap.wrap(line, WIDTH, initial_indent=begin, subsequent_indent=inner) or [begin.rstrip()]


def _line(text: str, most: int) -> str:
    """A text on one line."""
    flat = " ".join(printable(text[: most + 1]).split())
    return flat if len(text) <= most else f"{flat[:most]}..."
