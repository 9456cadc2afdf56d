"""Episodes as lines for a terminal: a run, one episode turn by turn, and the evidence of a rule.

    for line in overview(parts, 60, damaged): print(line)

Texts of an episode are printed without terminal control characters, and shortened to `LONGEST` characters. Not here:
comparing two episodes (`evaluate/tables.py`, and the page of `packing.py`).
"""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from align_echo.base.plain_yaml import json_object
from align_echo.errors import InterfaceError, UsageError, did_you_mean, printable
from align_echo.interface.contract import Provenance, RuleRecord, load_interface, shipped_interfaces
from align_echo.registry import quantity
from align_echo.report.view.reading import CritiqueIndex, Labels, OracleLabels, PlacedCritique
from align_echo.rollout.episode_files import DamagedLine, EpisodeFile, read_episodes, select_part
from align_echo.rollout.faults import fault_text
from align_echo.types import Choice, HintEvent, Step, Trajectory, Usage, source_in

# ---------------------------------------------------------------- evidence

_QUOTED = r"`([^`\n]{1,200})`"
_BRACKETS = re.compile(r"\([^()]*\)")
_CONDITION = re.compile(r",? when ")


def provenances(labels: Iterable[str], folders: Iterable[Path]) -> dict[str, Provenance]:
    """Look up the provenance of the interfaces with these labels, if it is on record here."""
    recorded = {provenance.content_hash: provenance for provenance in _find_in_folders(folders)}
    sources = {label: source for label in labels if (source := source_in(label))}
    if not recorded.keys() >= {*sources.values()}:
        recorded = {**_shipped_provenances(), **recorded}
    return {label: recorded[source] for label, source in sources.items() if source in recorded}


def rules_behind(message: str, rules: Sequence[RuleRecord]) -> list[int]:
    """Return the indices of the rules that fit a message, those with most experiments for them first.

    `message` is a rule as hints name it (`Step.hints`), with blanks for names. A rule fits if it names all of the
    message's commands and shares a word with it, ignoring conditions and brackets. If some rules name exactly these
    commands, only those are returned.
    """
    commands, words = _commands(message), _words(message)
    claims = [_BRACKETS.sub(" ", _CONDITION.split(rule.text)[0]) for rule in rules]
    fitting = [
        number
        for number, claim in enumerate(claims)
        if commands and commands <= _commands(claim) and words & _words(claim)
    ]
    exact = [number for number in fitting if _commands(claims[number]) == commands]
    return sorted(exact or fitting, key=lambda number: -rules[number].evidence.support)


def _commands(text: str) -> frozenset[str]:
    """Extract the commands quoted in a text, with blanks for names; a blank alone does not count."""
    quoted = re.findall(_QUOTED, re.sub(r"\b[A-Z]\b", "_", text))
    return frozenset(command.lower() for command in quoted if re.search(r"[^\W_]", command))


def _words(text: str) -> frozenset[str]:
    """Extract the longer words of a text outside its quotations."""
    return frozenset(re.findall(r"[^\W\d_]{4,}", re.sub(_QUOTED, " ", text).lower()))


def _find_in_folders(folders: Iterable[Path]) -> Iterable[Provenance]:
    for folder in folders:
        for file in (folder / "interface.json", *sorted(folder.glob("iterations/*/interface.json"))):
            try:
                yield Provenance.model_validate((json_object(file) or {})["provenance"])
            except (KeyError, ValidationError):
                continue


def _shipped_provenances() -> dict[str, Provenance]:
    """Return the provenance of the shipped interfaces, by the hash of their source."""
    shipped = {}
    for name in shipped_interfaces():
        with contextlib.suppress(InterfaceError):
            interface = load_interface(name)
            shipped[interface.content_hash] = interface.provenance
    return shipped


# ---------------------------------------------------------------- episodes as lines for a terminal

LONGEST = 2_000
"""Most characters printed of a text."""

WIDTH = 110
FEWEST = 3
"""Episodes listed per part if there are many parts."""

MOST_NAMED = 6
"""Most names in a message."""


class ListedEpisode(NamedTuple):
    """An episode and its part of a run."""

    part: EpisodeFile
    played: Trajectory


def overview(parts: Sequence[EpisodeFile], most: int, damaged: list[DamagedLine]) -> Iterator[str]:
    """List parts with their figures and first episodes, about `most` episodes in total; the number of the rest is
    given.

    Raises `UsageError` if no episode can be read.
    """
    per_part = max(FEWEST, most // len(parts))
    listed_parts = parts[: max(1, most // FEWEST)]
    several_runs = len({part.run for part in parts}) > 1
    is_empty = True
    for part in listed_parts:
        counts = dict.fromkeys(("won", "lost", "fault"), 0)
        lines: list[str] = []
        interfaces: dict[str, None] = {}
        for trajectory in read_episodes(part.file, damaged):
            counts[episode_result(trajectory)] += 1
            interfaces[trajectory.interface] = None
            lines += [_row(trajectory)] if len(lines) < per_part else []
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
    if len(parts) > len(listed_parts):
        first, last = parts[len(listed_parts)], parts[-1]
        yield ""
        more = len(parts) - len(listed_parts)
        yield f"... and {more} more parts, from {_line(first.part, 80)} to {_line(last.part, 80)}"


def episode_result(trajectory: Trajectory) -> str:
    """Return "won", "lost", or "fault" for an episode without a score."""
    return "fault" if trajectory.fault is not None else "won" if trajectory.won else "lost"


def _row(trajectory: Trajectory) -> str:
    sample = f" sample {trajectory.sample}" if trajectory.sample else ""
    score = "    -" if trajectory.fault else f"{trajectory.score:.3f}"
    turns = f"{len(trajectory.steps):4} turn{' ' if len(trajectory.steps) == 1 else 's'}"
    return f"  {episode_result(trajectory):5}  {score}  {turns}  " + _line(f"{trajectory.task_id}{sample}", 200)


# ---------------------------------------------------------------- which episode


def find_episode(
    parts: Sequence[EpisodeFile], task: str, damaged: list[DamagedLine], *, part: str | None, sample: int | None
) -> tuple[ListedEpisode, list[ListedEpisode]]:
    """Find the first episode of a task, given by its id or a unique part of its id, and all other episodes of the task.

    Raises `UsageError` if no or several ids match, and if there is no episode of that part and sample.
    """
    select_part(parts, part)
    all_ids: dict[str, None] = {}
    matches: list[ListedEpisode] = []
    for file in parts:
        for trajectory in read_episodes(file.file, damaged):
            if part in (None, file.part):
                all_ids[trajectory.task_id] = None
            if task.lower() in trajectory.task_id.lower():
                matches.append(ListedEpisode(file, trajectory))
    ids = [task_id for task_id in all_ids if task.lower() in task_id.lower()]
    ids = [task] if task in ids else ids
    if not all_ids:
        raise UsageError(f"{f'the part {part!r}' if part else 'the run'} has no episode that can be read")
    if not ids:
        near = did_you_mean(task, all_ids)
        raise UsageError(f"no task here has {_line(task, 120)!r} in its id; {near}there are {_list_names([*all_ids])}")
    if len(ids) > 1:
        raise UsageError(f"{_line(task, 120)!r} is in the ids of {len(ids)} tasks, name more of it: {_list_names(ids)}")
    matches = [listed for listed in matches if listed.played.task_id == ids[0]]
    in_part = [listed for listed in matches if part in (None, listed.part.part)]
    wanted = [listed for listed in in_part if sample in (None, listed.played.sample)]
    if not wanted:
        samples = _list_names(sorted({str(listed.played.sample) for listed in in_part}))
        raise UsageError(f"{_line(ids[0], 120)} has no sample {sample} here; it has {samples}")
    return wanted[0], [listed for listed in matches if listed is not wanted[0]]


def _list_names(names: Sequence[str]) -> str:
    first_names = [_line(name, 120) for name in names[:MOST_NAMED]]
    more = len(names) - len(first_names)
    return ", ".join(first_names) + (f" and {more} more" if more > 0 else "")


# ---------------------------------------------------------------- one episode


def episode_lines(
    listed: ListedEpisode, peers: Sequence[ListedEpisode], parts: Sequence[EpisodeFile], damaged: list[DamagedLine]
) -> Iterator[str]:
    """Print an episode turn by turn, with the experiments behind its interface's messages and a critic's critiques."""
    part, trajectory = listed
    folders = {other_part.folder: None for other_part in parts}
    provenance = provenances([trajectory.interface], folders).get(trajectory.interface)
    index = CritiqueIndex(parts, damaged)
    critiques = index.for_episode(part, trajectory.task_id, trajectory.sample, trajectory.critique)
    labels = OracleLabels(parts, damaged).for_episode(part, trajectory)
    yield _line(f"{trajectory.task_id}, sample {trajectory.sample}, {part.run}: {part.part}", 300)
    agent, interface = _line(trajectory.agent, 80), _line(trajectory.interface, 120)
    yield f"{_describe_end(trajectory)}; agent {agent}, interface {interface}"
    yield from _wrapped("fault: ", fault_text(trajectory.fault)) if trajectory.fault else ()
    yield from _wrapped("interface error at reset: ", trajectory.reset_error)
    for violation in trajectory.reset_violations:
        yield from _wrapped("violation at reset: ", f"{violation.action}: {violation.reason}")
    yield from _wrapped("task: ", trajectory.goal)
    yield from _wrapped("critique of an earlier attempt: ", trajectory.critique)
    yield from _wrapped("rules told up front: ", trajectory.rules)
    yield from _wrapped("", trajectory.initial_observation)
    yield from _turns(trajectory.steps, labels, provenance)
    for placed in critiques:
        yield ""
        yield from _critique(placed)
    if peers:
        yield ""
        yield from _wrapped("the same task: ", "; ".join(_describe_peer(part, peer) for peer in peers[:20]))


def _turns(steps: Sequence[Step], labels: Sequence[Labels], provenance: Provenance | None) -> Iterator[str]:
    """Print all turns; a turn repeated at once is printed once, with its count."""
    number, score = 0, 0.0
    for _, run in groupby(steps, key=lambda step: step.model_dump_json(exclude={"usage", "tokens"})):
        repeats = list(run)
        yield ""
        yield from _turn(number + 1, repeats[0], score, provenance)
        for action, label in labels[number].items():
            yield from _wrapped(f"        oracle: {label}: ", action)
        number, score = number + len(repeats), repeats[0].score
        yield from (f"        the same until turn {number} ({len(repeats)} times)",) if len(repeats) > 1 else ()


def _describe_end(trajectory: Trajectory) -> str:
    usage = f", {_describe_usage(trajectory.usage)}" if trajectory.usage.tokens != 0 else ""
    full = ", the model's context was full" if trajectory.context_overflow else ""
    score = "no score" if trajectory.fault else f"score {trajectory.score:g}"
    full += ", one action was repeated too often" if trajectory.ended_by_repeats else ""
    return f"{episode_result(trajectory)}, {score}, {quantity(len(trajectory.steps), 'turn')}{usage}{full}"


def _describe_usage(usage: Usage) -> str:
    return "tokens not told" if usage.tokens is None else f"{usage.tokens:,} tokens"


def _turn(number: int, step: Step, before: float, provenance: Provenance | None) -> Iterator[str]:
    figures = [f"reward {step.reward:+g}"] if step.reward else []
    figures += [f"score {step.score:g}"] if step.score != before else []
    figures += [f"{step.engine_calls} engine calls"] if step.engine_calls != 1 else []
    figures += [word for word, is_so in (("ended", step.terminated), ("step limit", step.truncated)) if is_so]
    figures += [_describe_usage(step.usage)] if step.usage.tokens != 0 else []
    named = "(no action)" if step.action is None else step.action
    yield from _wrapped(f"{number:4}  > ", named)
    yield from (f"        [{', '.join(figures)}]",) if figures else ()
    yield from _wrapped("        thinking: ", step.thinking.strip())
    if step.reply != step.action:
        yield from _wrapped("        reply: ", step.reply)
    yield from _wrapped("        ", step.observation)
    if step.raw_observation is None:
        yield "        raw: the environment was not asked"
    elif step.raw_observation != step.observation:
        yield from _wrapped("        raw: ", step.raw_observation or "(empty)")
    yield from _wrapped("        no action: ", step.problem)
    yield from ("        the model's limit of tokens ended the reply",) if step.cut_off else ()
    yield from _wrapped("        taken off the reply: ", " ".join(step.residue))
    yield from _wrapped("        interface error: ", step.interface_error)
    for violation in step.violations:
        yield from _wrapped("        violation: ", f"{violation.action}: {violation.reason}")
    yield from _wrapped("        forged by the interface: ", ", ".join(step.forged))
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
        yield from _wrapped(f"      {sign} candidate {number + 1}: {verdict}{sure}{likely}: ", named)


def _hint(event: HintEvent, provenance: Provenance | None) -> Iterator[str]:
    outcome = {True: ["came true"], False: ["did not come true"], None: []}[event.came_true]
    states = (("shown", event.fired), ("followed", event.followed), ("silenced", event.silenced))
    words = [*(word for word, is_so in states if is_so), *outcome]
    yield from _wrapped(f"        rule ({', '.join(words)}): ", event.rule)
    behind = rules_behind(event.rule, provenance.rules) if provenance and event.fired else []
    for number in behind[:1]:
        rule = provenance.rules[number] if provenance else None
        if rule is not None:
            counts = f"{rule.evidence.support} experiments for, {rule.evidence.refuted} against"
            tried = f"{counts}, {quantity(rule.evidence.tasks, 'task')}"
            more = f"; {len(behind) - 1} more rules name the same" if len(behind) > 1 else ""
            evidence = f"not confirmed: {tried}" if rule.untested else tried
            yield from _wrapped("          on record: ", f"{rule.text} ({evidence}){more}")


def _critique(placed: PlacedCritique) -> Iterator[str]:
    review = placed.review
    if review.critique is None:
        why = fault_text(review.fault) if review.fault else review.problem
        yield from _wrapped("critic: ", why or "nothing")
        return
    yield from _wrapped("critic: ", review.critique.reason)
    for suggestion in review.critique.suggestions:
        yield from _wrapped("  advice: ", suggestion)


def _describe_peer(part: EpisodeFile, peer: ListedEpisode) -> str:
    name = peer.part.part if peer.part.run == part.run else f"{peer.part.run}: {peer.part.part}"
    return f"{name} sample {peer.played.sample} ({episode_result(peer.played)})"


# ---------------------------------------------------------------- text


def _wrapped(lead: str, text: str) -> Iterator[str]:
    """Print a text after its lead, with its own line breaks, wrapped; nothing for an empty text."""
    if not text:
        return
    more = len(text) - LONGEST
    cut = f"{text[:LONGEST]} ... and {more:,} characters more" if more > 0 else text
    inner = " " * min(len(lead), 8)
    for number, line in enumerate(printable(cut).splitlines() or [""]):
        begin = printable(lead) if number == 0 else inner
        yield from textwrap.wrap(line, WIDTH, initial_indent=begin, subsequent_indent=inner) or [begin.rstrip()]


def _line(text: str, most: int) -> str:
    """Put a text on one line."""
    flat = " ".join(printable(text[: most + 1]).split())
    return flat if len(text) <= most else f"{flat[:most]}..."
