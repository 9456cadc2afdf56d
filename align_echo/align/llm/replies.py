"""Strict reading of the models' tagged replies: a reply either follows the asked form or is sent back with the reason.

Every parser raises `ReplyFormatError` whose message tells the model what to put right, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Literal, TypeVar, cast, get_args

from align_echo.agents.parsing import visible_text
from align_echo.align.experiments import OPERATIONS, WITH_ARGUMENT, Outcome, clip
from align_echo.errors import ReplyFormatError
from align_echo.types import Evidence, Frozen, Misalignment

Kind = Literal["bug-of-current", "new-logic"]
FIELDS = ("task_id", "action_type", "action", "intent", "rule", "sufficient_feedback")
LONGEST_FIELD = 2000

Concluded = TypeVar("Concluded")


class Request(Frozen):
    """The model wants an experiment."""

    operation: str
    argument: str = ""


class Findings(Frozen):
    """The analyzer's conclusion."""

    misalignments: tuple[Misalignment, ...]


class Verdict(Frozen):
    """The checker's conclusion about an interface; `refinement` says what has to change if it is not resolved."""

    resolved: bool
    refinement: str = ""


def parse_findings(reply: str, task_ids: Collection[str]) -> Findings:
    """Findings before any experiment."""
    return _findings(visible_text(reply), task_ids, outcomes=None)


def parse_choice(reply: str, candidates: int) -> int:
    """The index, from 0, of the chosen candidate."""
    text = _only(visible_text(reply), "choice")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= candidates:
        raise ReplyFormatError(f"<choice> must hold one number from 1 to {candidates}, not {clip(text, 40)!r}")
    return int(text) - 1


def parse_code(reply: str) -> str:
    """The source in `<code>`, without a Markdown fence around it."""
    source = _only(visible_text(reply), "code").strip("\n")
    fenced = re.fullmatch(r"\s*```[a-z]*\n(.*?)\n?```\s*", source, re.DOTALL)
    source = fenced.group(1) if fenced else source
    if not source.strip():
        raise ReplyFormatError("<code> is empty; it must hold the whole source of both functions")
    return source.strip("\n").rstrip() + "\n"


def parse_analyzer_move(
    reply: str, task_ids: Collection[str], outcomes: Sequence[Outcome], may_request: bool
) -> Request | Findings:
    """The next experiment, or the findings that stood, each citing experiments of `outcomes` that were carried out."""

    def conclude(text: str) -> Findings:
        return _findings(text, task_ids, outcomes)

    return _move(reply, "misalignments", conclude, may_request)


def parse_checker_move(reply: str, outcomes: Sequence[Outcome], may_request: bool) -> Request | Verdict:
    """The next experiment, or the verdict; "yes" counts only after at least one experiment that was carried out."""

    def conclude(text: str) -> Verdict:
        return _verdict(text, outcomes)

    return _move(reply, "resolved", conclude, may_request)


# ---------------------------------------------------------------- inside


def _move(reply: str, conclusion: str, conclude: Callable[[str], Concluded], may_request: bool) -> Request | Concluded:
    text = visible_text(reply)
    asks, concludes = "<operation>" in text, f"<{conclusion}>" in text
    if asks and concludes:
        raise ReplyFormatError(f"it holds both <operation> and <{conclusion}>; send one of them")
    if concludes:
        return conclude(text)
    if not may_request:
        raise ReplyFormatError(f"no operations are left; conclude with <{conclusion}>")
    if not asks:
        raise ReplyFormatError(f"it holds neither <operation> nor <{conclusion}>; send exactly one of them")
    return _request(text)


def _request(text: str) -> Request:
    operation = _only(text, "operation").strip()
    argument = _only(text, "argument").strip() if "<argument>" in text or "</argument>" in text else ""
    if operation not in OPERATIONS:
        raise ReplyFormatError(f"{clip(operation, 80)!r} is no operation; there are {', '.join(OPERATIONS)}")
    if operation in WITH_ARGUMENT and not argument:
        raise ReplyFormatError(f"{operation} needs an <argument>")
    return Request(operation=operation, argument=argument)


def _verdict(text: str, outcomes: Sequence[Outcome]) -> Verdict:
    word = _only(text, "resolved").strip().lower()
    if word not in ("yes", "no"):
        raise ReplyFormatError("<resolved> must hold yes or no")
    if word == "no":
        refinement = _only(text, "refinement").strip()
        if not refinement:
            raise ReplyFormatError("<refinement> is empty; say what has to change in the code")
        return Verdict(resolved=False, refinement=refinement)
    if not any(outcome.telling for outcome in outcomes):
        raise ReplyFormatError("no experiment was carried out with this code; carry one out before you conclude")
    return Verdict(resolved=True)


def _findings(text: str, task_ids: Collection[str], outcomes: Sequence[Outcome] | None) -> Findings:
    body = _only(text, "misalignments")
    blocks = re.findall(r"<misalignment>(.*?)</misalignment>", body, re.DOTALL)
    rest = re.sub(r"<misalignment>.*?</misalignment>", "", body, flags=re.DOTALL).strip()
    if not blocks and rest.lower() in ("none", "none."):
        return Findings(misalignments=())
    if not blocks or rest:
        raise ReplyFormatError(
            "<misalignments> must hold <misalignment>...</misalignment> blocks and nothing else, or the word none"
        )
    found = []
    for number, block in enumerate(blocks, start=1):
        try:
            found.append(_misalignment(block, task_ids, outcomes))
        except ReplyFormatError as error:
            raise ReplyFormatError(f"misalignment {number}: {error}") from error
    return Findings(misalignments=tuple(found))


def _misalignment(block: str, task_ids: Collection[str], outcomes: Sequence[Outcome] | None) -> Misalignment:
    values = {name: _only(block, name).strip() for name in FIELDS}
    empty = [name for name, value in values.items() if not value]
    if empty:
        raise ReplyFormatError(f"<{empty[0]}> is empty")
    long = [name for name, value in values.items() if len(value) > LONGEST_FIELD]
    if long:
        raise ReplyFormatError(f"<{long[0]}> is longer than {LONGEST_FIELD} characters")
    if values["task_id"] not in task_ids:
        raise ReplyFormatError(f"<task_id> must be one of {', '.join(sorted(task_ids))}")
    kind = _only(block, "kind").strip()
    if kind not in get_args(Kind):
        raise ReplyFormatError(f"<kind> must be one of {', '.join(get_args(Kind))}")
    evidence = Evidence() if outcomes is None else _evidence(block, outcomes)
    return Misalignment(
        task_id=values["task_id"],
        action_type=values["action_type"],
        action=values["action"],
        intent=values["intent"],
        rule=values["rule"],
        sufficient_feedback=values["sufficient_feedback"],
        kind=cast(Kind, kind),
        evidence=evidence,
    )


def _evidence(block: str, outcomes: Sequence[Outcome]) -> Evidence:
    """Counts of cited experiments that were carried out; what was not carried out cannot be cited."""
    support = _cited(block, "support", outcomes)
    refuted = _cited(block, "refuted", outcomes)
    if not support:
        raise ReplyFormatError("<support> cites no experiment; leave out what no experiment shows")
    if {one.number for one in support} & {one.number for one in refuted}:
        raise ReplyFormatError("the same experiment stands in <support> and in <refuted>")
    counterexample = f"{refuted[0].task_id}: {refuted[0].argument}: {refuted[0].text}" if refuted else ""
    return Evidence(
        support=len(support),
        refuted=len(refuted),
        tasks=len({one.task_id for one in (*support, *refuted)}),
        counterexample=clip(counterexample, 500),
    )


def _cited(block: str, tag: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    words = [word for word in re.split(r"[\s,]+", _only(block, tag)) if word.lower() not in ("", "none", "nothing")]
    if not all(re.fullmatch("[0-9]{1,6}", word) for word in words):
        raise ReplyFormatError(f"<{tag}> must hold experiment numbers with commas between them")
    telling = {outcome.number: outcome for outcome in outcomes if outcome.telling}
    numbers = sorted(set(map(int, words)))
    for number in numbers:
        if number not in telling:
            known = ", ".join(map(str, telling)) or "none"
            raise ReplyFormatError(
                f"<{tag}> cites experiment {number}; experiments that ran an action, a task or the agent: {known}"
            )
    return [telling[number] for number in numbers]


def _only(text: str, tag: str) -> str:
    """What stands between the only `<tag>` and the only `</tag>`."""
    opened, closed = text.count(f"<{tag}>"), text.count(f"</{tag}>")
    if opened == 0:
        raise ReplyFormatError(f"<{tag}> is missing")
    if closed == 0:
        raise ReplyFormatError(f"<{tag}> is not closed with </{tag}>")
    if opened > 1 or closed > 1:
        raise ReplyFormatError(f"<{tag}> must stand there exactly once")
    _, _, rest = text.partition(f"<{tag}>")
    inside, end, _ = rest.partition(f"</{tag}>")
    if not end:
        raise ReplyFormatError(f"</{tag}> stands before <{tag}>")
    return inside
