"""Outcome of followed hints within an episode: hints that do not come true are withheld for the rest of it.

The watch reads the commands in an interface's additions to the engine's answer. It compares them with the agent's next
actions and the engine's reaction. A followed hint came true if the engine accepted the command. A hint that names a
step to take first also needs the agent's own action to work afterwards, or to meet another obstacle. A hint failed if
the command was refused, or if it leads in a circle: back to an action that waits for it, to an action that was just
refused without a remedy, or to the same step again. A hint that would close a circle is not shown. A sentence that only
lists several commands promises nothing about any of them. It is withheld only if all of them are refused in one state.

A failure condemns an instance: a rule together with its objects. The objects are the names in the sentence, or the
names in the agent's action if the sentence has none. An instance also has the other names in the action if the sentence
is about that action's objects. Two failures on different objects condemn the rule. A failure does not count towards
this if the agent's action named an object the engine never mentioned: no hint can lead to an object that does not
exist.

Each episode is watched alone, starting from a record fixed before the run (`interface/hints.py`), so results do not
depend on other workers. Not covered: the effect of an action (`was_accepted` asks the environment: it took effect, was
refused, or neither is known), claims without a command, and rules shown up front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from align_echo.base.commands import (
    AgentCommand,
    build_skeleton,
    commands_in,
    guess_names,
    same_action,
    split_sentences,
)
from align_echo.types import HintEvent
from align_echo.wrappers.text_env import EngineState, TextEnv

LONGEST_RULE = 200
"""Longest name of a rule, in characters."""


MOST_COMMANDS = 40
"""Largest number of commands of a sentence that are watched."""


Names = tuple[str, ...]


class ParsedHint(NamedTuple):
    """Sentence of an interface that names commands. `start` and `end` are its position in the text. `objects` and
    `instance` are names in alphabetical order, as the module's docstring defines them."""

    rule: str
    objects: Names
    instance: Names
    start: int
    end: int
    commands: tuple[AgentCommand, ...]


@dataclass
class ShownHint:
    """Hint that was shown: its sentence, the action before it, the engine's answer, and the command in it.

    `waits`: the action was not carried out, as far as is known, and may be repeated. `promised`: the sentence says that
    this command works, rather than only listing it. After the agent followed the hint, `accepted` says if the engine
    accepted the command (None if unknown), and `settled` if the outcome is known.
    """

    advice: ParsedHint
    command: AgentCommand
    action: str
    answer: str | None
    waits: bool
    promised: bool
    accepted: bool | None = None
    settled: bool = False


class HintWatch:
    """Watch over one episode. On each turn call `read` for the text to show, then `settle`."""

    def __init__(self, silenced: Iterable[str] = (), *, retract: bool = True) -> None:
        """Start with `silenced`, the rules withheld from the start. Without `retract` nothing is withheld."""
        self._retract = retract
        self._silenced = set(silenced) if retract else set()
        self._condemned: set[tuple[str, Names]] = set()
        self._failures: dict[str, set[Names]] = {}
        self._heard: list[tuple[str, str]] = []
        self._shown: list[ShownHint] = []
        self._chain: list[ShownHint] = []
        self._needs: dict[str, set[str]] = {}
        self._fresh: list[ParsedHint] = []
        self._events: dict[str, dict[str, bool]] = {}

    @property
    def waits(self) -> bool:
        """Return True if the next turn may settle a hint."""
        return bool(self._shown or self._chain or self._needs)

    def forget(self) -> None:
        """Forget the open hints, because the interface took no part in this turn."""
        self._shown, self._chain, self._needs = [], [], {}

    def answer_alike(self, action: str, answer: str | None) -> bool | None:
        """Compare an answer with the one before the hint: to the same action, or to the action the hint came after.
        None without an earlier answer."""
        known = [hint for hint in self._shown if same_action(hint.command.text, action)]
        known += [hint for hint in self._chain if same_action(hint.action, action)]
        before = next((hint for hint in known if hint.answer is not None), None)
        if before is None or answer is None:
            return None
        return _wording(answer, action) == _wording(str(before.answer), before.action)

    def hear(self, text: str, action: str = "") -> None:
        """Record a text of the engine and the action it answers, as a source of names the engine has mentioned."""
        self._heard.append((text, action))

    # ------------------------------------------------------------ a turn

    def read(self, action: str, answer: str | None, accepted: bool | None, text: str) -> str | None:
        """Return the part of an interface's text that may be shown; None if nothing of its own is left.

        `answer` is the engine's own answer, None if it was not asked; `accepted` says if it accepted the action.
        """
        advice = find_hints(text, answer, action)
        self._events, self._fresh = {}, []
        refused = accepted is False or (answer is None and bool(advice))
        if refused:
            self._needs.setdefault(_key(action), set())
        elif answer is not None:
            self._needs = {}
        cut = []
        for piece in advice:
            if not self._is_withheld(piece) and self._leads_in_circle(action, answer, refused, piece):
                self._fail(piece, action)
            if self._is_withheld(piece):
                self._note(piece.rule, "silenced")
                cut.append(piece)
            else:
                self._note(piece.rule, "fired")
                self._fresh.append(piece)
        if refused:
            remedies = (order for piece in self._fresh for order in ordered_commands(piece))
            self._needs[_key(action)].update(_key(order.text) for order in remedies)
        return _remove_sentences(text, answer, cut)

    def settle(self, action: str, answer: str | None, accepted: bool | None) -> tuple[HintEvent, ...]:
        """Return the outcome of each rule on this turn, after `read`. `accepted` is as in `read`, or of an action
        carried out since."""
        followed = [hint for hint in self._shown if same_action(hint.command.text, action)]
        waiting = [hint for hint in self._chain if hint.waits and same_action(hint.action, action)]
        if not followed and not waiting:
            self._chain = []
        for hint in self._chain:
            if accepted and hint.accepted is False and same_action(hint.command.text, action):
                hint.accepted = True
        for hint in waiting:
            self._settle_return(hint, answer, accepted)
        for hint in followed:
            self._note(hint.advice.rule, "followed")
            hint.accepted = accepted
            self._settle_followed(hint)
        if accepted:
            self._chain = [hint for hint in self._chain if hint not in waiting]
        self._chain += followed
        self._shown = [
            ShownHint(
                piece,
                command,
                action,
                answer,
                waits=not accepted or answer is None,
                promised=command.kind != "named" or len(piece.commands) == 1,
            )
            for piece in self._fresh
            for command in piece.commands
        ]
        return tuple(
            HintEvent(
                rule=rule,
                fired=outcomes.get("fired", False),
                followed=outcomes.get("followed", False),
                came_true=False if "failed" in outcomes else True if "came true" in outcomes else None,
                silenced=outcomes.get("silenced", False),
                weak="failed" in outcomes and "strongly" not in outcomes,
            )
            for rule, outcomes in self._events.items()
        )

    # ------------------------------------------------------------ judging

    def _settle_followed(self, hint: ShownHint) -> None:
        """Judge a hint after the agent sent its command."""
        if hint.accepted is False and not self._fresh:
            if hint.promised:
                self._settle_failed(hint)
        elif hint.accepted and (hint.command.kind != "first" or not hint.waits):
            self._confirm(hint)

    def _settle_return(self, hint: ShownHint, answer: str | None, accepted: bool | None) -> None:
        """Judge a hint after its command, when the agent repeats its own action. A refusal in new words may be another
        obstacle and says nothing about the hint."""
        if hint.settled or hint.accepted is False:
            return
        if accepted or (accepted is False and self._fresh):
            self._confirm(hint)
        elif accepted is False and not _is_reworded(hint, answer):
            self._settle_failed(hint)

    def _settle_failed(self, hint: ShownHint) -> None:
        hint.settled = True
        self._fail(hint.advice, hint.action)

    def _is_withheld(self, piece: ParsedHint) -> bool:
        """Check if a sentence is withheld: its rule is condemned, in general or for these objects."""
        return self._retract and (piece.rule in self._silenced or (piece.rule, piece.instance) in self._condemned)

    def _leads_in_circle(self, action: str, answer: str | None, refused: bool, piece: ParsedHint) -> bool:
        """Check if every command a sentence orders leads back to where the agent has just been."""
        return all(
            self._is_futile(action, order) or self._repeats(action, answer, refused, order)
            for order in ordered_commands(piece)
        )

    def _is_futile(self, action: str, order: AgentCommand) -> bool:
        """Check if a command was refused in this situation: without a remedy, or waiting for this very action."""
        wanted, reached, ahead = _key(order.text), set[str](), [_key(order.text)]
        while ahead:
            key = ahead.pop()
            if key not in reached:
                reached.add(key)
                ahead += self._needs.get(key, ())
        return wanted in self._needs and (not self._needs[wanted] or _key(action) in reached)

    def _repeats(self, action: str, answer: str | None, refused: bool, order: AgentCommand) -> bool:
        """Check if a command was accepted after this action before and led to the same action and answer again."""
        return any(
            same_action(hint.action, action)
            and same_action(hint.command.text, order.text)
            and hint.accepted is not False
            and (order.kind == "first" if refused else hint.answer == answer)
            for hint in self._chain
        )

    def _confirm(self, hint: ShownHint) -> None:
        hint.settled = True
        self._note(hint.advice.rule, "came true")

    def _fail(self, piece: ParsedHint, action: str) -> None:
        """Condemn a rule for these objects, and the whole rule if it has failed on others too."""
        self._note(piece.rule, "failed")
        self._condemned.add((piece.rule, piece.instance))
        failures = self._failures.setdefault(piece.rule, set())
        if piece.objects not in failures and all(map(self._was_named, guess_names(action))):
            self._note(piece.rule, "strongly")
            failures.add(piece.objects)
            if len(failures) > 1:
                self._silenced.add(piece.rule)
        if self._retract:
            self._note(piece.rule, "silenced")

    def _was_named(self, name: str) -> bool:
        """Check if the engine has mentioned a name by itself. Repeating the agent's own words, including those of
        earlier turns, does not count; some engines echo the whole dialogue."""
        wanted = _word_pattern(name)
        earlier: list[str] = []
        for text, action in self._heard:
            words = (action, *guess_names(action), *earlier)
            if wanted.search(text) and wanted.search(_without_words(text, words)):
                return True
            earlier += [action] if wanted.search(action) else []
        return False

    def _note(self, rule: str, outcome: str) -> None:
        self._events.setdefault(rule, {})[outcome] = True


# ---------------------------------------------------------------- reading


def find_hints(text: str, answer: str | None, action: str) -> list[ParsedHint]:
    """Find the sentences of an interface's text that are not the engine's and name commands, with their rules."""
    pieces = []
    for start, end in _own_parts(text, answer):
        for sentence in split_sentences(text[start:end]):
            commands = commands_in(sentence, action)[:MOST_COMMANDS]
            if commands:
                phrases = [action, *(command.text for command in commands)]
                names = [name for words in phrases for name in guess_names(words)]
                rule, about = build_skeleton(sentence, names)[:LONGEST_RULE], _objects(sentence, names, action)
                pieces.append(ParsedHint(rule, *about, start, start + len(sentence), tuple(commands)))
            start += len(sentence)
    return pieces


def _objects(sentence: str, names: Iterable[str], action: str) -> tuple[Names, Names]:
    """Return (objects, instance) of a sentence after an action, given the names in both."""
    own = {*map(_key, guess_names(action))}
    spoken = {_key(name) for name in names if _word_pattern(name).search(sentence)} or own
    return tuple(sorted(spoken)), tuple(sorted(own if spoken <= own else spoken))


def ordered_commands(piece: ParsedHint) -> list[AgentCommand]:
    """Return the commands a sentence orders; all of its commands if it orders none."""
    ordered = [command for command in piece.commands if command.kind != "named"]
    return ordered or list(piece.commands)


def _own_parts(text: str, answer: str | None) -> list[tuple[int, int]]:
    """Return the (start, end) spans before and after the engine's answer in a text. If the answer is not there
    verbatim, its sentences are removed separately."""
    engine = (answer or "").strip()
    if not engine:
        return [(0, len(text))]
    position = text.find(engine)
    if position >= 0:
        return [(0, position), (position + len(engine), len(text))]
    plain = " ".join(engine.split())
    parts, start = [], 0
    for sentence in split_sentences(text):
        if " ".join(sentence.split()) not in plain:
            parts.append((start, start + len(sentence)))
        start += len(sentence)
    return parts


def _remove_sentences(text: str, answer: str | None, cut: list[ParsedHint]) -> str | None:
    """Remove sentences from a text; None if only the engine's own words remain."""
    if not cut:
        return text
    left = text
    for piece in reversed(cut):
        left = left[: piece.start].rstrip(" ") + left[piece.end - _blanks_at_end(text, piece) :]
    own = "".join(left[start:end] for start, end in _own_parts(left, answer))
    return left.strip() if any(letter.isalnum() for letter in own) else None


def _blanks_at_end(text: str, piece: ParsedHint) -> int:
    sentence = text[piece.start : piece.end]
    return len(sentence) - len(sentence.rstrip())


def _wording(answer: str, action: str) -> str:
    """Return an answer without the words of its action."""
    return build_skeleton(answer, [action, *guess_names(action), action.split(" ")[0]])


def _is_reworded(hint: ShownHint, answer: str | None) -> bool:
    """Check if the engine now answers the action before a hint in other words."""
    if hint.answer is None or answer is None:
        return False
    return _wording(answer, hint.action) != _wording(hint.answer, hint.action)


def _word_pattern(words: str) -> re.Pattern[str]:
    """Compile a pattern for whole words, in any case and with any blanks between them."""
    return re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words.split())) + r"(?!\w)", re.IGNORECASE)


def _without_words(text: str, words: Iterable[str]) -> str:
    """Replace all occurrences of these words in a text."""
    for part in words:
        text = _word_pattern(part).sub("_", text) if part.strip() else text
    return text


def _key(action: str) -> str:
    return " ".join(action.casefold().split()).rstrip(" .")


# ---------------------------------------------------------------- the engine's side


def was_accepted(
    env: TextEnv, before: EngineState, action: str, answer: str | None, same_answer: bool | None
) -> bool | None:
    """Decide if the agent's action took effect on this turn (True) or was refused (False); None if unknown.

    The evidence, in this order: the score, the environment's own test of refusals, the admissible actions of `before`,
    and whether the answer differs from an earlier refusal (`same_answer`). An end without a gain is unknown, and so is
    a page that stays where nothing is listed.
    """
    after = env.state
    if answer is None:
        return None
    if after.won or after.score > before.score:
        return True
    if env.declares_refusals and env.refuses(answer):
        return False
    if after.done or after.truncated:
        return None
    possible = before.admissible_actions
    if env.declares_refusals:
        return None if possible is None and answer == before.observation else True
    if possible:
        read = env.as_read(action)
        listed = any(read == env.as_read(option) or same_action(action, option) for option in possible)
        return listed or after.admissible_actions != possible or env.read_only(action) != ""
    return None if same_answer is None else not same_answer
