"""Extract the commands in a message to an agent, however they are quoted, and the skeleton of its rule.

    >>> commands_in("You are not there: you need to `go to desk 1` first.")
    [AgentCommand(text='go to desk 1', kind='first')]

Reads commands in backquotes, in quotes of any kind, in bold, in tags, after a label ("Action: ...") or a colon, and
unmarked commands after words of order ("you must ... first", "try ...", "... instead."). Pure functions over English
text, without knowledge of any environment's spelling. Not here: statements about the state ("already so", "not here",
see `evaluate/audit`), which command the engine accepts, and orders that require reading whole texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

CommandKind = Literal["first", "instead", "named"]

LONGEST_MESSAGE = 20_000
"""Maximum characters read of a message."""

LONGEST_COMMAND = 200
"""Maximum characters of a command."""

LONGEST_SENTENCE = 600
"""Maximum characters of a sentence searched for unquoted orders."""

MOST_PLAIN_WORDS = 10
"""Maximum words of an unquoted command."""


class AgentCommand(NamedTuple):
    """One command of a message.

    `kind` is "first" (do this before), "instead" (use these words, or simply do this), or "named" (quoted, without an
    order to do it).
    """

    text: str
    kind: CommandKind


def commands_in(message: str, last_action: str = "") -> list[AgentCommand]:
    """Return the distinct commands of a message in order; an order's kind takes precedence over "named".

    Excludes `last_action`, templates with placeholders (`take X from Y`), and commands marked as forbidden or not
    working.
    """
    commands: dict[str, AgentCommand] = {}
    for command in _all_commands(message[:LONGEST_MESSAGE]):
        key = _plainly(command.text)
        template = PLACEHOLDER.search(command.text) is not None and not is_call(command.text)
        if not key or key == _plainly(last_action) or template:
            continue
        if key not in commands or commands[key].kind == "named":
            commands[key] = command
    return list(commands.values())


def is_call(text: str) -> bool:
    """Return True for a tool call in JSON, whose braces and brackets are no placeholders."""
    if not text.startswith("{") or "..." in text:
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def split_sentences(message: str) -> list[str]:
    """Split a message into sentences; joined, they give the message again.

    No sentence ends within a quotation, and a sentence ending in a colon continues in the next.
    """
    quoted = [match.span() for match in _QUOTES.finditer(message)]
    pieces, start, passed = [], 0, 0
    for match in _END.finditer(message):
        first_blank = match.end() - len(match.group().lstrip(")\"'"))
        while passed < len(quoted) and quoted[passed][1] <= first_blank:
            passed += 1
        within = passed < len(quoted) and quoted[passed][0] <= first_blank
        before = message[max(start, match.start() - LONGEST_COMMAND) : match.start()]
        if within or re.search(r"(?:\bi\.e\.|\be\.g\.|:)\s*$", before):
            continue
        pieces.append(message[start : match.end()])
        start = match.end()
    return [piece for piece in (*pieces, message[start:]) if piece]


def same_action(a: str, b: str) -> bool:
    """Return True if two actions are equal, ignoring letter case, spaces, and a final full stop."""
    return _plainly(a) == _plainly(b)


def guess_names(action: str) -> list[str]:
    """Guess the objects of an action: runs of words after the first word, split at prepositions and articles."""
    head = re.match(r"\s*\w+", action)
    rest = action[head.end() :] if head else action
    runs = re.split(rf"(?<!\w)(?:{_SMALL_WORDS})(?!\w)|[^\w\s'-]+", rest, flags=re.IGNORECASE)
    return [run.strip() for run in runs if run.strip()]


def build_skeleton(message: str, names: Iterable[str]) -> str:
    """Lowercase a message and blank these names and all numbers, so that messages of one rule become equal."""
    text = " ".join(message.lower().split())
    for name in sorted({" ".join(name.lower().split()) for name in names}, key=lambda name: (-len(name), name)):
        if name:
            text = re.sub(rf"(?<![\w_]){re.escape(name)}(?![\w_])", "_", text)
    text = re.sub(r"(?<!\w)\d+(?!\w)", "_", text)
    return re.sub(r"_(?:(?:,? (?:and |or )?)?_)+", "_", text)


# ---------------------------------------------------------------- quotes

_MASK = "\ue000"
"""Placeholder for a quotation while a sentence is read."""

_QUOTES = re.compile(
    r"```(?:\w*\n)?\s*([^`\n]{1,200}?)\s*```"
    r"|`([^`\n]{1,200})`"
    r"|“([^”\n]{1,200})”|„([^“”\n]{1,200})[“”]|«([^»\n]{1,200})»|‘((?:[^’\n]|(?<=\w)’(?=\w)){1,200})’(?!\w)"
    r"|\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__"
    r"|<(?:action|command)>([^<\n]{1,200})</(?:action|command)>"
    r'|"([^"\n]{1,200})"'
    r"|(?<![\w'])'((?:[^'\n]|(?<=\w)'(?=\w)){1,200})'(?!\w)",
    re.IGNORECASE,
)
_EMPHASIS = (7, 8)
"""Groups of bold text, which may be a stressed word rather than a command."""

_STRESSED = re.compile(
    r".*[:!?]|(?:must|need|have|first|instead|not|now|before|then|should|only|cannot|never|always|hint|note|warning|tip"
    r"|important|you|please|use|write|try|do)\b(?: (?:to|not|be))?",
    re.IGNORECASE,
)
_PAIRS = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’", "*": "*"}


def _masked(message: str) -> tuple[str, list[str]]:
    """Replace each quotation by a mark. Return the message and the quotations in order."""
    quoted: list[str] = []

    def mask(match: re.Match[str]) -> str:
        content = str(match.group(match.lastindex or 0))
        if match.lastindex in _EMPHASIS and _STRESSED.fullmatch(content.strip()):
            return content
        quoted.append(_bare(content))
        return _MASK

    plain = re.sub(r"(?<=\w)[’](?=\w)", "'", message.replace(_MASK, ""))
    plain = re.sub(r"\b([ie])\.([eg])\.", r"\1\2", plain)
    return _QUOTES.sub(mask, plain), quoted


def _bare(text: str) -> str:
    """Strip spaces, inner quotes and a final full stop from a quotation."""
    text = text.strip()
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text[:-1].rstrip() if text[-1:] in ".,;" and not text.endswith("..") else text


# ---------------------------------------------------------------- sentences

_END = re.compile(r"(?<=[.!?])[)\"']*\s+|(?<=;)\s+|\n+")


def _all_commands(message: str) -> Iterator[AgentCommand]:
    """Yield every command of every sentence, in order, with repetitions."""
    text, quoted = _masked(message.strip())
    used = 0
    heading = ""
    for sentence in _END.split(text):
        count = sentence.count(_MASK)
        full_sentence = f"{heading} {sentence}" if heading else sentence
        pieces = [*_plain_commands(full_sentence, quoted[used : used + count])]
        spent = [number for _, _, numbers in pieces for number in numbers]
        pieces += [
            (start, command, [])
            for number, (start, command) in _quoted_commands(full_sentence, quoted[used : used + count])
            if number not in spent
        ]
        yield from (command for _, command, _ in sorted(pieces, key=lambda piece: piece[0]))
        used += count
        heading = sentence.strip() if sentence.rstrip().endswith(":") and not count else ""


# ---------------------------------------------------------------- kinds of quotations

_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|avoid|stop|\w+n't|cannot|instead of|rather than|without|no need to|no such \w+ as|nothing|no"
    r"|unlike|unable to|fail(?:ed|s)? to|no \w+|unknown \w+|invalid \w+|already)"
    r"(?: (?:just|simply|only|to|be|us\w+|say\w*|writ\w+|typ\w+|try\w*|do|doing|called|named|the|that|a|again|repeat\w*"
    r"|understand|know|you|said|wrote|tried|action|command|words?|form|from|here|run|send|with|it))*\s*[:,(]?\s*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^[\s,)]*(?:(?:is|are|was|does|do|did|would|will|can|could|has|have|had|should|must|need)"
    r"(?: (?:not|never|no)\b|n't)"
    r"|cannot|fail|(?:would )?changes? nothing|(?:do|did|does|mean|means) nothing|(?:has|had|have) no effect|no longer"
    r"|(?:is|was) (?:already|wrong|invalid|unknown|impossible|useless|pointless|refused|rejected|no |only)"
    r"|(?:only )?works? (?:only|once|after|when|if)|only works|requires?|needs|will (?:only )?work|can only)",
    re.IGNORECASE,
)
_WANTED_BEFORE = re.compile(
    r"\b(?:before|until|unless|in order to|so (?:that )?you can|be able to|if you want to|you want(?:ed)? to"
    r"|then you can|you can then)(?: (?:you|one|can|could|may|be|able|to|do|try|trying|say|saying|using))*\s*$"
    r"|(?:^|, )to\s*$",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:first|before|beforehand|prior|prerequisite|next|required|requires|necessary)\b", re.IGNORECASE
)
_INSTEAD = re.compile(r"\b(?:instead|rather|mean|meant|spell|phrase|reword)\b", re.IGNORECASE)
_SAY = re.compile(
    r"\b(?:say|write|type|enter|try|use|send|issue|run|execute|perform|correct|right|expects?|do|proper|suggest\w*|accepts?"
    r"|understands?|call|choose|reply|answer|respond|please|recommend\w*|action|command)\b",
    re.IGNORECASE,
)
_NEED = re.compile(
    r"\b(?:needs?|needed|have|has|must|should|ought|supposed|sure|remember|better|try(?:ing)? to|go back|make sure) ?"
    r"(?:to)?\b",
    re.IGNORECASE,
)
_AFTER_IT = re.compile(
    r"^[\s,)]*(?:(?:now|here)?\s*\b(?:first|beforehand|before)\b|(?:is|are) (?:required|needed|necessary)"
    r"|(?:needs to|has to|must|should) (?:come|happen|go|be (?:done|said|carried|executed|tried)))",
    re.IGNORECASE,
)
_QUOTES_ONLY = re.compile(r"\b(?:seen|found|said|answered|shown|told|replied|wrote|called|named)\b[^:]*$", re.I)
_IN_ITS_PLACE = re.compile(
    r"^[\s,)]*(?:instead|rather|works\b(?! (?:only|once|after))|would work|is (?:the (?:right|correct)|what)"
    r"|is understood)",
    re.IGNORECASE,
)
_AND = re.compile(r"[\s,]*(?:and|or|then|and then|,|->|→)?[\s,]*", re.IGNORECASE)


def _quoted_commands(sentence: str, quoted: list[str]) -> Iterator[tuple[int, tuple[int, AgentCommand]]]:
    """Yield (number, (position, command)) of the quotations that may be commands."""
    parts = sentence.split(_MASK)
    start = 0
    before_kind: CommandKind | None = None
    for number, text in enumerate(quoted):
        start += len(parts[number]) + 1
        before, after = parts[number][-LONGEST_COMMAND:], parts[number + 1][:LONGEST_COMMAND]
        denied = _DENIED_BEFORE.search(before) or _DENIED_AFTER.search(after)
        if denied or _WANTED_BEFORE.search(before):
            before_kind = "first" if _WANTED_BEFORE.search(before) else None
            continue
        kind = _kind(before, after)
        if kind == "named" and before_kind and _AND.fullmatch(before):
            kind = before_kind
        form = PLACEHOLDER.search(text) is not None and not is_call(text)
        before_kind = None if form or kind == "named" else kind
        if 0 < len(text) <= LONGEST_COMMAND:
            yield number, (start, AgentCommand(text, kind))


def _kind(before: str, after: str) -> CommandKind:
    """Classify a quotation by the words around it."""
    if _IN_ITS_PLACE.search(after):
        return "instead"
    if _AFTER_IT.search(after):
        return "first"
    if _QUOTES_ONLY.search(before):
        return "named"
    if _INSTEAD.search(before):
        return "instead"
    if _FIRST.search(before):
        return "first"
    if _SAY.search(before):
        return "instead"
    return "first" if _NEED.search(before) else "named"


# ---------------------------------------------------------------- orders without quotes

_STOP = (
    r"(?=\s*(?:\b(?:first|instead|before|beforehand|then|and|so|because|since|until|when|if|but|again|now|in order|for"
    r" example|to be able|or else|otherwise|rather than|as)\b|[.!?;](?:\s|$)|,(?:\s|$)|[()]|\s-{1,2}\s|\s[–—]\s|:\s|$))"
)
_TEXT = rf"(?P<text>[^\s].*?){_STOP}"
_WHO = r"(?:you|we|one|i|the agent|the player|agents)(?:'ll|'d)?"
_SOFT = r"(?:(?:will|would|may|might|still|first|also|probably|just|simply|now|then|only|always)\s+)*"
_FILLER = r"(?:[\s,]*\b(?:first|then|also|just|simply|please|now|instead|next)\b,?)*\s*"
_SAYING = r"(?:\b(?:say|write|type|enter|try|execute|issue|send)\b\s*(?:(?:this|the) (?:action|command))?:?\s+)?"
_ORDER = re.compile(
    rf"(?:(?:^|(?<=[\s,:(]))(?:{_WHO}\s+{_SOFT}(?:need to|have to|must|should|ought to|better)"
    rf"|(?:necessary|required|needed|sure|remember|try|trying) to)\s|(?:^|[:,]\s|\s[-–—]\s)(?:so\s|then\s|and\s)?"
    rf"(?:please|try|first|instead(?! of)|next)\b[,:]?\s)\s*{_FILLER}{_SAYING}{_TEXT}",
    re.IGNORECASE,
)
_SAY_PLAIN = re.compile(
    rf"(?:^|[:,]\s|\s[-–—]\s)(?:so\s|then\s|please\s)?"
    rf"(?:say|write|type|enter|use|do|send|issue|try|did you mean|you (?:probably )?mean\w?)\b"
    rf"(?: to (?:say|write))?:?\s+{_TEXT}",
    re.IGNORECASE,
)
_PLAINLY_FIRST = re.compile(
    r"(?:^|[:,]\s|\s[-–—]\s|\bso\s)(?P<text>[^\s,:][^,:]*?)\s+(?:first|instead|before|beforehand)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:^|[.,]\s)(?P<label>(?:[\w']+ ){0,5}?(?:action|command|suggestion|correction|solution|step|form"
    r"|(?:do|try|say|write|use)(?: this| that)?)(?: is| first| instead| next)*)\s*:\s*" + _TEXT,
    re.IGNORECASE,
)
_NO_LABEL = re.compile(
    r"\b(?:invalid|unknown|unrecogni[sz]ed|wrong|bad|last|previous|your|no|not|failed|illegal|refused|rejected|don't)\b",
    re.IGNORECASE,
)
_NO_BEGINNING = (
    "you i it this that there these those the a an is are was be been being have has had not no never your its they we"
    " he she what which who why how where nothing everything as because each all any some only another other different"
    " exactly full exact correct names know see note ensure make sure again later"
)
_NO_START = frozenset(_NO_BEGINNING.split())
_NO_PART = re.compile(
    r"\b(?:it|them|this|that|these|those|something|anything|nothing|else|somewhere|anywhere|your|you|which|whatever|is|was"
    r"|are|were|has|does|did|can|cannot|will|would|not|never|must|should|need|another|different|words?|names?|forms?"
    r"|spelling|action|actions|commands?|numbers?|where|what|how|following)\b|n't\b",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"[{}]|<[^<>/]*>(?![^<]*</)|(?:^|\s)\[[^\]]{0,200}\]|\b[XYZ]\b|\.\.\.|…|\b(?:OBJ|LOC|OBJECT|ITEM|THING|PLACE|NAME|TEXT)\d?\b"
)
"""A placeholder in an action template, which is no command."""
_PROGRESSIVE = re.compile(
    r"(?!(?:bring|fling|swing|sting|cling|wring|sling|spring|string)\b)\w{2,}ing\b", re.IGNORECASE
)
_SMALL_WORDS = (
    "a|an|the|to|from|in|into|on|onto|with|at|off|of|out|up|down|over|under|for|by|and|or|about|through|inside|behind"
)
SMALL_WORDS = frozenset(_SMALL_WORDS.split("|"))
"""Prepositions, articles and other words that are no part of a name."""


def _plain_commands(sentence: str, quoted: list[str]) -> Iterator[tuple[int, AgentCommand, list[int]]]:
    """Yield (position, command, numbers of the quotations in it) of unquoted orders."""
    used_spans: list[tuple[int, int]] = []
    if len(sentence) > LONGEST_SENTENCE:
        return
    for pattern in (_LABEL, _ORDER, _SAY_PLAIN, _PLAINLY_FIRST):
        for match in pattern.finditer(sentence):
            start, end = match.span("text")
            label = match.groupdict().get("label") or ""
            if any(start < b and a < end for a, b in used_spans) or _NO_LABEL.search(label):
                continue
            if re.search(r"(?:\bnot|n't|never|\bno) (?:\w+ )?$", sentence[: match.start()], re.IGNORECASE):
                continue
            text, numbers = _filled(sentence, start, end, quoted)
            if match.start("text") == 0 and re.match("[A-Z][a-z]", text):
                text = text[0].lower() + text[1:]
            if _is_command(text, bool(numbers)):
                used_spans.append((start, end))
                yield start, AgentCommand(text, _plain_kind(sentence, match)), numbers


def _plain_kind(sentence: str, match: re.Match[str]) -> CommandKind:
    """Classify an unquoted order by its first words and the words around it."""
    lead = sentence[match.start() : match.start("text")]
    after = sentence[match.end("text") :]
    if _INSTEAD.search(lead) or re.match(r"\s*(?:instead|rather)\b", after, re.IGNORECASE):
        return "instead"
    if _FIRST.search(lead) or re.match(r"\s*(?:first|before|beforehand)\b", after, re.IGNORECASE):
        return "first"
    return "first" if _NEED.search(lead) and not _SAY.search(lead) else "instead"


def _filled(sentence: str, start: int, end: int, quoted: list[str]) -> tuple[str, list[int]]:
    """Fill the quotations into part of a sentence and return their numbers; nothing if it begins with a quotation."""
    piece = sentence[start:end]
    if piece.startswith(_MASK) or (_SAY.match(piece) and re.match(rf"\w*[ :]*{_MASK}", piece)):
        return "", []
    first = sentence[:start].count(_MASK)
    numbers = list(range(first, first + piece.count(_MASK)))
    for number in numbers:
        piece = piece.replace(_MASK, quoted[number] if number < len(quoted) else "", 1)
    return _bare(piece), numbers


def _is_command(text: str, with_names: bool) -> bool:
    """Check plain words for a possible command: few words, no clause, no reference such as "it" or "another"."""
    words = text.split()
    if not words or len(words) > MOST_PLAIN_WORDS or len(text) > LONGEST_COMMAND:
        return False
    if words[0].lower().strip(",.!?") in _NO_START or _PROGRESSIVE.match(text) or _NO_PART.search(text):
        return False
    return re.match(r"[\w\[<]", text) is not None and not (with_names and len(words) < 2)


def _plainly(action: str) -> str:
    return " ".join(action.casefold().split()).rstrip(" .")
