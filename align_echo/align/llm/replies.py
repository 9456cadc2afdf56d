"""Parsers for the models' tagged replies. Ambiguous replies are returned with all reasons at once.

Every parser raises `ReplyFormatError` with instructions for the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, get_args

from pydantic import Field

from align_echo.agents.parsing import spans, unquoted, visible_code
from align_echo.align.experiments import (
    OPERATIONS,
    WITH_ARGUMENT,
    ExperimentResult,
    FailedStep,
    Failure,
    clip,
)
from align_echo.errors import ReplyFormatError
from align_echo.interface.contract import Interface
from align_echo.prompts import render
from align_echo.types import Evidence, Frozen, Misalignment

# ---------------------------------------------------------------- find tags in a reply

Kind = Literal["bug-of-current", "new-logic"]
KINDS = " or ".join(get_args(Kind))
TAGS = (
    *("misalignments", "misalignment", "task_id", "action_type", "action", "intent", "rule", "sufficient_feedback"),
    *("kind", "support", "refuted", "operation", "argument", "resolved", "unresolved", "refinement", "code", "choice"),
)
_WORDS_AROUND_NUMBERS = frozenset(
    {
        *("experiment", "experiments", "exp", "exps", "misalignment", "misalignments", "finding", "findings"),
        *("no", "nos", "nr", "number", "numbers", "and"),
    }
)
_NOTHING = frozenset({"", "none", "nothing", "no", "n/a", "-", "—", "0"})
_STRING = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
ARGUMENT_NAMES = ("task_id", "task", "agent_action", "action", "observation", "obs", "text", "argument")
"""Names models use for an operation's argument."""


def plain_tags(text: str, tags: tuple[str, ...] = TAGS) -> str:
    """Normalise these tags to the prompts' spelling."""
    return _tag_pattern(tags).sub(lambda match: f"<{match[1]}{match[2].lower().replace(chr(92), '')}>", text)


def inside(text: str, tag: str) -> list[str]:
    """Return the contents of each pair of tags, except the prompt's own example."""
    texts = [text[start:end] for start, end in spans(text, tag)]
    return [span for span in texts if " ".join(span.split()) not in _examples(tag)]


def only(text: str, tag: str) -> str:
    """Return the contents of the single pair of tags; repeated equal contents count once."""
    answers = {" ".join(part.split()): part for part in inside(text, tag)}
    if len(answers) == 1:
        return answers.popitem()[1]
    if answers:
        raise ReplyFormatError(f"<{tag}> must stand there exactly once")
    if spans(text, tag):
        raise ReplyFormatError(f"<{tag}> holds the example of the instructions; write your own there")
    opening, closing = text.find(f"<{tag}>"), text.find(f"</{tag}>")
    if opening < 0:
        raise ReplyFormatError(f"<{tag}> is missing")
    if closing < 0:
        raise ReplyFormatError(f"<{tag}> is not closed with </{tag}>")
    raise ReplyFormatError(f"</{tag}> stands before <{tag}>")


def words(text: str) -> str:
    """Strip emphasis, quotes and a final full stop from a short answer."""
    return unquoted(text.strip().strip("*_ \n\t").rstrip(".! ")).strip("*_ ")


def numbers(text: str, tag: str) -> list[int]:
    """Parse the numbers cited in a tag, for example "2, 5", "#2 and [5]", "Experiments 2, 5 and 7"."""
    if words(text).lower() in _NOTHING:
        return []
    parts = [part for part in re.split(r"[\s,;&#()\[\]{}+]+", text.strip().rstrip(".")) if part]
    parts = [part for part in parts if part.lower().rstrip(".:") not in _WORDS_AROUND_NUMBERS]
    if not parts or not all(re.fullmatch("[0-9]{1,6}", part) for part in parts):
        raise ReplyFormatError(f"<{tag}> must hold experiment numbers with commas between them")
    return sorted(set(map(int, parts)))


def call(text: str) -> tuple[str, str]:
    """Parse an operation tag into name and argument ("" if missing).

    Accepts a bare name, `name(argument)` with or without quotes or a keyword, `name: argument`, or a JSON object.
    """
    text = unquoted(text.strip().strip("*"))
    if text.startswith("{"):
        return _json_call(text)
    match = re.fullmatch(r"([A-Za-z][A-Za-z_ -]{2,60}?)\s*(?:\((.*)\)\s*[;.]?|:\s+(.+))?", text, re.DOTALL)
    if match is None:
        return text, ""
    name = re.sub(r"[\s-]+", "_", match[1].strip()).lower()
    return name, argument(match[2] or match[3] or "", named="\\S")


def argument(text: str, named: str = "[\"']") -> str:
    """Strip an argument's keyword and surrounding quotes.

    A keyword counts only before text that matches `named`; otherwise "x = 1" may be an action.
    """
    text = text.strip()
    name = re.match(rf"(?:{'|'.join(ARGUMENT_NAMES)})\s*=\s*(?={named})", text)
    value = text[name.end() :] if name else text
    string = _STRING.match(value)
    if string and value[string.end() :].lstrip().startswith(",") and (name or "=" in value[string.end() :]):
        raise ReplyFormatError("an operation takes one argument; put that one alone in <argument>")
    if string and string.end() == len(value):  # the escapes that JSON and Python share
        escapes = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
        return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), value[1:-1], flags=re.DOTALL).strip()
    return unquoted(value)


# ---------------------------------------------------------------- helpers of tags


def _json_call(text: str) -> tuple[str, str]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    if not isinstance(record, dict):
        return text, ""
    name = next((record[key] for key in ("operation", "name", "function", "tool") if key in record), None)
    value = next((record[key] for key in ("argument", "arguments", "args", "parameters") if key in record), "")
    if isinstance(value, dict) and len(value) <= 1:
        value = next(iter(value.values()), "")
    return (name, value.strip()) if isinstance(name, str) and isinstance(value, str) else (text, "")


@cache
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(tag.replace("_", r"\\?_") for tag in sorted(tags, key=len, reverse=True))
    return re.compile(rf"<[ \t]{{0,3}}(/?)[ \t]{{0,3}}({names})[ \t]{{0,3}}>", re.IGNORECASE)


@cache
def _examples(tag: str) -> frozenset[str]:
    """Collect the prompts' example contents of a tag."""
    prompts = [
        *(render("shared/misalignment", {"kinds": KINDS, "cite": cite}) for cite in (True, False)),
        render("shared/tools", {"most": MOST_OPERATIONS}),
        render("analyzer/rerank", {"candidates": []}),
        render("optimizer/check", {"new": "", "turns": 0, "most": MOST_OPERATIONS}),
        render("optimizer/write", {"covered": "", "new": "", "samples": ""}),
    ]
    return frozenset(" ".join(text[start:end].split()) for text in prompts for start, end in spans(text, tag)) - {""}


# ---------------------------------------------------------------- reading the models' tagged replies

FIELDS = ("task_id", "action_type", "action", "intent", "rule", "sufficient_feedback")
LONGEST_FIELD = 2000

Concluded = TypeVar("Concluded")


MOST_OPERATIONS = 8
"""Operations carried out of one message."""


class ExperimentRequest(Frozen):
    """Model's request for an experiment."""

    operation: str
    argument: str = ""


class ExperimentRequests(Frozen):
    """Requests of a message in order. `dropped` counts those beyond `MOST_OPERATIONS`."""

    requests: tuple[ExperimentRequest, ...]
    dropped: int = 0


class AnalyzerFindings(Frozen):
    """Analyzer's conclusion. `dropped` explains each rejected finding.

    At least one misalignment is valid; replies without one are refused.
    """

    misalignments: tuple[Misalignment, ...]
    dropped: tuple[str, ...] = ()


class CheckVerdict(Frozen):
    """Checker's conclusion about an interface; `refinement` describes the necessary changes if unresolved.

    `unresolved` holds numbers of unresolved misalignments, from 1.
    """

    resolved: bool
    unresolved: tuple[int, ...] = ()
    refinement: str = ""


def parse_findings(reply: str, task_ids: Collection[str]) -> AnalyzerFindings:
    """Parse findings before any experiment."""
    return _findings(_text(reply), task_ids, outcomes=None)


def parse_choice(reply: str, candidates: int) -> int:
    """Parse the index, from 0, of the chosen candidate."""
    text = only(_text(reply), "choice")
    match = re.fullmatch(r"(?:(?:analysis|interface|candidate|number|no)\.?\s*)?#?\s*([0-9]{1,4})", words(text).lower())
    if match is None or not 1 <= int(match[1]) <= candidates:
        raise ReplyFormatError(f"<choice> must hold one number from 1 to {candidates}, not {clip(text, 40)!r}")
    return int(match[1]) - 1


def parse_code(reply: str, current: str = "") -> str:
    """Parse the source in `<code>`, without a Markdown fence.

    Without tags, use the only fence with both functions. A fence equal to `current` is a quotation.
    """
    text = plain_tags(visible_code(reply), ("code",))
    source = _tagged_code(text) if "<code>" in text or "</code>" in text else _fenced_code(text, current)
    if not source.strip():
        raise ReplyFormatError("<code> is empty; it must hold the whole source of both functions")
    return source.strip("\n").rstrip() + "\n"


def parse_analyzer_move(
    reply: str, task_ids: Collection[str], outcomes: Sequence[ExperimentResult], may_request: bool
) -> ExperimentRequests | AnalyzerFindings:
    """Parse the next experiments, or the verified findings; each must cite executed experiments in `outcomes`."""
    conclusions = ("misalignments", "misalignment")
    return _move(reply, conclusions, lambda text: _findings(text, task_ids, outcomes), may_request)


def parse_checker_move(
    reply: str, outcomes: Sequence[ExperimentResult], may_request: bool, claims: int = 1
) -> ExperimentRequests | CheckVerdict:
    """Parse the next experiments, or the verdict on `claims` misalignments.

    A "resolved" counts only after at least one executed experiment.
    """
    return _move(reply, ("resolved",), lambda text: _verdict(text, outcomes, claims), may_request)


# ---------------------------------------------------------------- a move


def _text(reply: str) -> str:
    return plain_tags(visible_code(reply))


def _move(
    reply: str, conclusions: tuple[str, ...], conclude: Callable[[str], Concluded], may_request: bool
) -> ExperimentRequests | Concluded:
    text, conclusion = _text(reply), conclusions[0]
    asks = bool(inside(text, "operation")) or ("<operation>" in text and not spans(text, "operation"))
    concludes = any(inside(text, tag) or (f"<{tag}>" in text and not spans(text, tag)) for tag in conclusions)
    if asks and concludes:
        raise ReplyFormatError(f"it holds both <operation> and <{conclusion}>; send only operations, or conclude")
    if concludes:
        return conclude(text)
    if not may_request:
        raise ReplyFormatError(f"no operations are left; conclude with <{conclusion}>")
    if not asks:
        raise ReplyFormatError(f"it holds neither <operation> nor <{conclusion}>; send operations, or conclude")
    return _requests(text)


def _requests(text: str) -> ExperimentRequests:
    """Parse the operations of a message, each with the argument in its tag or before the next operation."""
    before, behind = len("<operation>"), len("</operation>")
    every = spans(text, "operation")
    found = [(start, end) for start, end in every if inside(text[start - before : end + behind], "operation")]
    if not found:
        only(text, "operation")
    if len(found) == 1:
        start, end = found[0]
        return ExperimentRequests(requests=(_request(text[start:end], text[:start] + text[end:]),))
    ends = [start for start, _ in found[1:]] + [len(text)]
    requests, problems = list[ExperimentRequest](), list[str]()
    for number, ((start, end), behind) in enumerate(zip(found, ends, strict=True), start=1):
        try:
            requests.append(_request(text[start:end], text[end:behind]))
        except ReplyFormatError as error:
            problems.append(f"operation {number}: {error}")
    if problems:
        raise ReplyFormatError("; ".join(problems[:MOST_OPERATIONS]))
    dropped = max(len(requests) - MOST_OPERATIONS, 0)
    return ExperimentRequests(requests=tuple(requests[:MOST_OPERATIONS]), dropped=dropped)


def _request(content: str, around: str) -> ExperimentRequest:
    """Parse an operation from the contents of its tags and the text around them, which may hold its argument."""
    name, inline = call(content.partition("<argument>")[0])
    beside = _beside(around)
    written = [*inside(content, "argument"), *([] if beside is None else [beside])]
    arguments = {argument(text_of_argument) for text_of_argument in written} | ({inline} if inline else set())
    problems = []
    if name not in OPERATIONS:
        problems.append(f"{clip(name, 80)!r} is no operation; there are {', '.join(OPERATIONS)}")
    if len(arguments) > 1:
        problems.append("it holds two different arguments; send the one that is meant in <argument>")
    value = next(iter(arguments), "")
    if name == "run_task" and value.lower() == "none":
        value = ""
    if name in WITH_ARGUMENT and not value:
        problems.append(f"{name} needs an <argument>")
    if problems:
        raise ReplyFormatError("; ".join(problems))
    return ExperimentRequest(operation=name, argument=value)


def _beside(text: str) -> str | None:
    """Return the contents of argument tags outside operation tags; None without any."""
    if "<argument>" not in text and "</argument>" not in text:
        return None
    if spans(text, "argument") and not inside(text, "argument"):
        return None
    return only(text, "argument").strip()


def _verdict(text: str, outcomes: Sequence[ExperimentResult], claims: int) -> CheckVerdict:
    word = words(only(text, "resolved")).lower()
    if word not in ("yes", "no"):
        raise ReplyFormatError("<resolved> must hold yes or no")
    tried = any(outcome.telling for outcome in outcomes)
    if word == "yes":
        if not tried:
            raise ReplyFormatError("no experiment was carried out with this code; carry one out before you conclude")
        if any(words(number).lower() not in ("", "none", "0") for number in inside(text, "unresolved")):
            raise ReplyFormatError("<resolved> says yes and <unresolved> names some; send one of the two")
        return CheckVerdict(resolved=True)
    problems, unresolved, refinement = [], tuple(range(1, claims + 1)), ""
    try:
        named = _unresolved(text, claims)
        unresolved = named if tried else unresolved
    except ReplyFormatError as error:
        problems.append(str(error))
    try:
        refinement = only(text, "refinement").strip()
        if not refinement:
            problems.append("<refinement> is empty; say what has to change in the code")
    except ReplyFormatError as error:
        problems.append(str(error))
    if problems:
        raise ReplyFormatError("; ".join(problems))
    return CheckVerdict(resolved=False, unresolved=unresolved, refinement=refinement)


def _unresolved(text: str, claims: int) -> tuple[int, ...]:
    """Parse the numbers of unresolved misalignments; the only one if there is one."""
    everything = tuple(range(1, claims + 1))
    if claims == 1 and not inside(text, "unresolved"):
        return everything
    named = only(text, "unresolved")
    if words(named).lower() == "all":
        return everything
    unresolved = tuple(numbers(named, "unresolved"))
    if not unresolved or not set(unresolved) <= set(everything):
        raise ReplyFormatError(f"<resolved> is no: <unresolved> must hold numbers from 1 to {claims}")
    return unresolved


# ---------------------------------------------------------------- read code from a reply


def _tagged_code(text: str) -> str:
    if text.count("<code>") > 1 or text.count("</code>") > 1:
        written = [block for block in inside(text, "code") if block.strip()]
        if len(written) != 1 or text.count("<code>") != text.count("</code>"):
            raise ReplyFormatError("<code> must stand there exactly once")
        source = written[0]
    else:
        source = only(text, "code")
    source = source.strip("\n")
    fenced = re.fullmatch(r"\s*(?:```|~~~)[A-Za-z0-9]*[ \t]*\n(.*?)\n?(?:```|~~~)\s*", source, re.DOTALL)
    return fenced.group(1) if fenced else source


def _fenced_code(text: str, current: str) -> str:
    fences = [fence for fence in _fences(text) if "def InferRules" in fence and "def WrapStep" in fence]
    written = {fence.strip() for fence in fences} - {current.strip()}
    if len(written) == 1:
        return written.pop()
    if len(written) > 1:
        raise ReplyFormatError("<code> is missing, and several blocks of code hold both functions; put one in <code>")
    raise ReplyFormatError("<code> is missing; put the whole source of both functions in <code>")


def _fences(text: str) -> list[str]:
    """Return the contents of closed Markdown fences."""
    blocks: list[str] = []
    opened, lines = "", list[str]()
    for line in text.splitlines():
        mark = line.strip()[:3]
        if not opened and mark in ("```", "~~~"):
            opened, lines = mark, []
        elif opened and line.strip() == opened:
            blocks.append("\n".join(lines))
            opened = ""
        else:
            lines.append(line)
    return blocks


# ---------------------------------------------------------------- read misalignments from a reply


def _findings(text: str, task_ids: Collection[str], outcomes: Sequence[ExperimentResult] | None) -> AnalyzerFindings:
    tagged = "misalignments>" in text or not spans(text, "misalignment")
    body = only(text, "misalignments") if tagged else text
    rest, end = [], 0
    for start, stop in spans(body, "misalignment"):
        rest.append(body[end : start - len("<misalignment>")])
        end = stop + len("</misalignment>")
    beside = " ".join("".join([*rest, body[end:]]).split())
    blocks = inside(body, "misalignment")
    if not blocks and words(beside).strip("()").lower() == "none":
        return AnalyzerFindings(misalignments=())
    if tagged and ("<" in beside or not blocks or words(beside).lower() == "none"):
        raise ReplyFormatError(
            "<misalignments> must hold <misalignment>...</misalignment> blocks and nothing else, or the word none"
        )
    if not blocks:
        only(text, "misalignment")
    misalignments, problems = [], []
    for number, block in enumerate(blocks, start=1):
        misalignment, wrong = _misalignment(block, task_ids, outcomes)
        misalignments += [misalignment] if misalignment is not None else []
        problems += [f"misalignment {number}: {'; '.join(wrong)}"] if wrong else []
    if problems and not misalignments:
        raise ReplyFormatError(". ".join(problems))
    return AnalyzerFindings(misalignments=tuple(misalignments), dropped=tuple(problems))


def _misalignment(
    block: str, task_ids: Collection[str], outcomes: Sequence[ExperimentResult] | None
) -> tuple[Misalignment | None, list[str]]:
    """Parse a finding, or list all its errors."""
    problems: list[str] = []

    def read(name: str, reader: Callable[[str], Concluded], otherwise: Concluded) -> Concluded:
        try:
            return reader(name)
        except ReplyFormatError as error:
            problems.append(str(error))
            return otherwise

    values: dict[str, Any] = {name: read(name, lambda tag: _field(block, tag), "") for name in FIELDS}
    bare = words(values["task_id"])
    spellings = (values["task_id"], bare, re.sub(r"^[Tt]ask:?\s+", "", bare))
    task_id = next((spelling for spelling in spellings if spelling in task_ids), None)
    if values["task_id"] and task_id is None:
        problems.append(f"<task_id> must be one of {', '.join(sorted(task_ids))}")
    kind = read("kind", lambda tag: _kind(block), "")
    evidence = Evidence()
    if outcomes is not None:
        evidence = read("support", lambda tag: _evidence(block, outcomes), evidence)
    if problems or task_id is None:
        return None, problems
    read_values = {"task_id": task_id, "action": unquoted(values["action"]), "kind": kind, "evidence": evidence}
    return Misalignment.model_validate(values | read_values), []


def _field(block: str, tag: str) -> str:
    value = only(block, tag).strip()
    if not value:
        raise ReplyFormatError(f"<{tag}> is empty")
    if len(value) > LONGEST_FIELD:
        raise ReplyFormatError(f"<{tag}> is longer than {LONGEST_FIELD} characters")
    return value


def _kind(block: str) -> str:
    kind = re.sub(r"[\s_]+", "-", words(only(block, "kind")).lower())
    if kind not in get_args(Kind):
        raise ReplyFormatError(f"<kind> must be one of {', '.join(get_args(Kind))}")
    return kind


def _evidence(block: str, outcomes: Sequence[ExperimentResult]) -> Evidence:
    """Count cited experiments among the executed ones; unnamed ones do not count against the finding."""
    problems: list[str] = []
    cited: dict[str, list[ExperimentResult]] = {"support": [], "refuted": []}
    for tag in cited:
        if tag == "refuted" and "refuted>" not in block:
            continue
        try:
            cited[tag] = _cited(block, tag, outcomes)
            if tag == "support" and not cited[tag]:
                problems.append("<support> cites no experiment; leave out what no experiment shows")
        except ReplyFormatError as error:
            problems.append(str(error))
    support, refuted = cited["support"], cited["refuted"]
    if {outcome.number for outcome in support} & {outcome.number for outcome in refuted}:
        problems.append("the same experiment stands in <support> and in <refuted>")
    if problems:
        raise ReplyFormatError("; ".join(problems))
    counterexample = f"{refuted[0].task_id}: {refuted[0].argument}: {refuted[0].text}" if refuted else ""
    return Evidence(
        support=len(support),
        refuted=len(refuted),
        tasks=len({outcome.task_id for outcome in (*support, *refuted)}),
        counterexample=clip(counterexample, 500),
    )


def _cited(block: str, tag: str, outcomes: Sequence[ExperimentResult]) -> list[ExperimentResult]:
    telling = {outcome.number: outcome for outcome in outcomes if outcome.telling}
    cited = numbers(only(block, tag), tag)
    wrong = [number for number in cited if number not in telling]
    if wrong:
        known = ", ".join(map(str, telling)) or "none"
        raise ReplyFormatError(
            f"<{tag}> cites experiment {', '.join(map(str, wrong))}; experiments that ran an action, a task or the "
            f"agent: {known}"
        )
    return [telling[number] for number in cited]


# ---------------------------------------------------------------- plain text of a reply


def interface_values(interface: Interface, action_format: str) -> dict[str, object]:
    """Return the template values of `shared/interface`."""
    return {
        "environment": interface.contract.environment,
        "action_format": action_format,
        "signature": interface.contract.signature,
        "step_usage": step_usage(interface),
        "source": interface.source.strip(),
    }


def step_usage(interface: Interface) -> str:
    """Describe how interface code calls the environment and what `WrapStep` returns."""
    layout = interface.contract.layout
    note = ", with lists of one" if interface.contract.step_layout == "batched" else ""
    return (
        f"The environment is called as `{layout.call}`{note}; "
        f"WrapStep returns `{layout.returned}`, the first of which is the text that the agent will read."
    )


def looks_usage(interface: Interface) -> str:
    """Describe the read-only actions interface code may send."""
    looks = interface.contract.read_only_actions
    if not looks:
        return "There is no action that only looks: whatever is not the agent's own action is refused."
    return f"It may send these at any time to look without acting: {', '.join(looks)}. Every other action is refused."


def misalignments_text(misalignments: Sequence[Misalignment]) -> str:
    """Format misalignments for a prompt; "none" if empty."""
    return "\n".join(f"- {_misalignment_text(misalignment)}" for misalignment in misalignments) or "none"


def numbered_text(misalignments: Sequence[Misalignment]) -> str:
    """Format misalignments with numbers from 1."""
    return "\n".join(
        f"{number}. {_misalignment_text(misalignment)}" for number, misalignment in enumerate(misalignments, start=1)
    )


def rules_text(interface: Interface) -> str:
    """Format the rules of earlier iterations; "nothing yet" for the identity."""
    return "\n".join(f"- {rule.text}" for rule in interface.provenance.rules) or "nothing yet"


def gold_text(played: Sequence[tuple[str, str]], limit: int) -> str:
    """Format an expert's solution; empty without one."""
    return clip("\n".join(f"Action: {action}\nObservation: {seen}" for action, seen in played), limit)


def located(misalignment: Misalignment, failures: Mapping[str, Failure]) -> Misalignment:
    """Return the misalignment with the failed episode up to its action, if the agent sent that action or reply there.
    """
    failure, wanted = failures.get(misalignment.task_id, ()), words(misalignment.action).lower()
    for number, step in enumerate(failure, start=1):
        if wanted in [words(text or "").lower() for text in (step.text, step.action)]:
            return misalignment.model_copy(update={"detail": json.dumps(failure[:number])})
    return misalignment


def failure_in(misalignment: Misalignment) -> Failure:
    """Return the failed episode up to the misalignment's action; empty if it is unknown."""
    return [FailedStep(*step) for step in json.loads(misalignment.detail or "[]")]


def failures_in(misalignments: Sequence[Misalignment]) -> dict[str, Failure]:
    """Return the failed episodes of misalignments by task, each up to the last of their actions."""
    found: dict[str, Failure] = {}
    for misalignment in misalignments:
        failure = failure_in(misalignment)
        if len(failure) > len(found.get(misalignment.task_id, ())):
            found[misalignment.task_id] = failure
    return found


def _misalignment_text(misalignment: Misalignment) -> str:
    failure = failure_in(misalignment)
    where = f"task {misalignment.task_id}" + (f", step {len(failure)}" if failure else "")
    return (
        f"{misalignment.action_type} ({where}, e.g. {misalignment.action!r}; {misalignment.kind})\n"
        f"  intent: {misalignment.intent}\n  rule: {misalignment.rule}\n"
        f"  sufficient feedback: {misalignment.sufficient_feedback}"
    )


# ---------------------------------------------------------------- the numbers of the `llm` backend, in one place


LEAST_WRITING = 256
"""Fewest tokens that a reply of Analyzer or Optimizer may be limited to."""


class LlmSettings(Frozen):
    """Limits and temperatures.

    `max_tokens` bounds a reply, `optimizer_max_tokens` one of the Optimizer if that differs.
    `verify=False` is the paper's ablation: the model chooses among `samples` analyses and interfaces drawn at
    `sample_temperature`, without experiments.
    """

    verify: bool = True
    samples: int = Field(default=6, ge=1)
    sample_temperature: float = 0.5
    analyzer_temperature: float = 0.0
    optimizer_temperature: float = 0.2
    episodes_per_analysis: int = Field(default=3, ge=1)
    episode_characters: int = Field(default=8000, ge=500)
    operations: int = Field(default=30, ge=1)
    format_tries: int = Field(default=3, ge=1)
    code_tries: int = Field(default=5, ge=1)
    refinements: int = Field(default=3, ge=0)
    max_tokens: int = Field(default=8192, ge=LEAST_WRITING)
    optimizer_max_tokens: int | None = Field(default=None, ge=LEAST_WRITING)

    @property
    def writing_tokens(self) -> int:
        """Most tokens of a reply of the Optimizer."""
        return self.optimizer_max_tokens or self.max_tokens
