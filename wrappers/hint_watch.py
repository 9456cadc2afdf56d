"""What follows an obeyed hint, in one episode: advice that does not come true is withheld for its rest.

The watch reads the commands out of what an interface adds to the engine's answer, whoever wrote it, and compares them
with what the agent does next and how the engine takes it. A followed hint came true if the engine took the command and,
for one that names a step to take first, if the agent's own action then works or meets another obstacle. It did not if
the command was refused, or if it leads in a circle: back to an action that waits for it, to one that was just refused
without a way being named, or to the same step again after it was taken. A hint that would close a circle is not shown.
A sentence that only names several commands, as a list of forms does, promises of none that it works now: it is withheld
only if all of them are refused in one state.

A failure condemns an instance, which is a rule with its objects. The objects are the names in the sentence, or those in
the agent's action where the sentence has none. An instance also has the other names in the action, where the sentence
is about that action's things. Two failures on different objects condemn the rule. A failure does not count towards that
if the agent's action named what the engine had named nowhere: nobody can tell the way to a thing that is not there.

Each episode is watched by itself, beginning from a record that is fixed before the run (`hints.py`): what an episode
shows depends on nothing that other workers do. Left out: what an action does (`taken` asks the environment), claims
without a command, and rules that are told up front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from align_echo.commands import Command, commands_in, names_of, same_action, sentences_of, skeleton_of
from align_echo.types import HintEvent
from align_echo.wrappers.text_env import EngineState, TextEnv

LONGEST_RULE = 200
"""Characters of a rule's name."""


MOST_COMMANDS = 40
"""Commands of a sentence that are watched."""


Names = tuple[str, ...]


class Advice(NamedTuple):
    """A sentence of an interface that names commands. `start` and `end` are where it stands in the text. `objects` and
    `instance` are names in alphabetical order, as the module's docstring says."""

    rule: str
    objects: Names
    instance: Names
    start: int
    end: int
    commands: tuple[Command, ...]


@dataclass
class ShownHint:
    """A hint that was shown: in which sentence, after which action, with the engine's answer, and the command it named.

    `waits`: that action was not carried out, as far as is known, and may be said again. `promised`: it said that this
    works, and did not only name it among others. Once the agent followed it, `taken` is whether the engine took the
    command (None where nothing tells), and `settled` whether it came true or did not.
    """

    advice: Advice
    command: Command
    action: str
    answer: str | None
    waits: bool
    promised: bool
    taken: bool | None = None
    settled: bool = False


class HintWatch:
    """Watches one episode. Each turn: `read`, which says what may be shown, then `settle`."""

    def __init__(self, silenced: Iterable[str] = (), *, retract: bool = True) -> None:
        """`silenced` are rules that are withheld from the start. Without `retract` nothing is withheld."""
        self._retract = retract
        self._silenced = set(silenced) if retract else set()
        self._condemned: set[tuple[str, Names]] = set()
        self._failures: dict[str, set[Names]] = {}
        self._heard: list[tuple[str, str]] = []
        self._shown: list[ShownHint] = []
        self._chain: list[ShownHint] = []
        self._needs: dict[str, set[str]] = {}
        self._fresh: list[Advice] = []
        self._events: dict[str, dict[str, bool]] = {}

    @property
    def waits(self) -> bool:
        """Whether the next turn may settle anything."""
        return bool(self._shown or self._chain or self._needs)

    def forget(self) -> None:
        """Forget what was being waited for: the interface did not take part in this turn."""
        self._shown, self._chain, self._needs = [], [], {}

    def answer_alike(self, action: str, answer: str | None) -> bool | None:
        """Whether the engine answers an action as it did the one that the hint came after, or as it did this action
        before the hint was followed; None where there is no such answer."""
        known = [hint for hint in self._shown if same_action(hint.command.text, action)]
        known += [hint for hint in self._chain if same_action(hint.action, action)]
        before = next((hint for hint in known if hint.answer is not None), None)
        if before is None or answer is None:
            return None
        return _wording(answer, action) == _wording(str(before.answer), before.action)

    def hear(self, text: str, action: str = "") -> None:
        """Take in a text of the engine's own, and the action that it answers: what it names, it has named."""
        self._heard.append((text, action))

    # ------------------------------------------------------------ a turn

    def read(self, action: str, answer: str | None, taken: bool | None, text: str) -> str | None:
        """What may be shown of an interface's text; None where nothing of its own is left.

        `answer` is the engine's own, None where it was not asked; `taken` whether it took the action.
        """
        advice = advice_in(text, answer, action)
        self._events, self._fresh = {}, []
        refused = taken is False or (answer is None and bool(advice))
        if refused:
            self._needs.setdefault(_key(action), set())
        elif answer is not None:
            self._needs = {}
        cut = []
        for piece in advice:
            if not self._is_withheld(piece) and self._leads_back(action, answer, refused, piece):
                self._fail(piece, action)
            if self._is_withheld(piece):
                self._note(piece.rule, "silenced")
                cut.append(piece)
            else:
                self._note(piece.rule, "fired")
                self._fresh.append(piece)
        if refused:
            self._needs[_key(action)].update(_key(order.text) for piece in self._fresh for order in orders(piece))
        return _without(text, answer, cut)

    def settle(self, action: str, answer: str | None, taken: bool | None) -> tuple[HintEvent, ...]:
        """What came of each rule on this turn, after `read`. `taken` as there, or of an action carried out since."""
        followed = [hint for hint in self._shown if same_action(hint.command.text, action)]
        waiting = [hint for hint in self._chain if hint.waits and same_action(hint.action, action)]
        if not followed and not waiting:
            self._chain = []
        for hint in self._chain:
            if taken and hint.taken is False and same_action(hint.command.text, action):
                hint.taken = True
        for hint in waiting:
            self._settle_return(hint, answer, taken)
        for hint in followed:
            self._note(hint.advice.rule, "followed")
            hint.taken = taken
            self._settle_followed(hint)
        if taken:
            self._chain = [hint for hint in self._chain if hint not in waiting]
        self._chain += followed
        self._shown = [
            ShownHint(
                piece,
                command,
                action,
                answer,
                waits=not taken or answer is None,
                promised=command.kind != "named" or len(piece.commands) == 1,
            )
            for piece in self._fresh
            for command in piece.commands
        ]
        return tuple(
            HintEvent(
                rule=rule,
                fired=seen.get("fired", False),
                followed=seen.get("followed", False),
                came_true=False if "failed" in seen else True if "came true" in seen else None,
                silenced=seen.get("silenced", False),
                weak="failed" in seen and "strongly" not in seen,
            )
            for rule, seen in self._events.items()
        )

    # ------------------------------------------------------------ judging

    def _settle_followed(self, hint: ShownHint) -> None:
        """Judge a hint whose command was just said."""
        if hint.taken is False and not self._fresh:
            if hint.promised:
                self._settle_failed(hint)
        elif hint.taken and (hint.command.kind != "first" or not hint.waits):
            self._keep(hint)

    def _settle_return(self, hint: ShownHint, answer: str | None, taken: bool | None) -> None:
        """Judge a hint whose command was said before, now that the agent's own action is said again. A refusal in other
        words than before may be another obstacle, which says nothing of the hint."""
        if hint.settled or hint.taken is False:
            return
        if taken or (taken is False and self._fresh):
            self._keep(hint)
        elif taken is False and not _other_words(hint, answer):
            self._settle_failed(hint)

    def _settle_failed(self, hint: ShownHint) -> None:
        hint.settled = True
        self._fail(hint.advice, hint.action)

    def _is_withheld(self, piece: Advice) -> bool:
        """Whether a sentence is not shown: its rule is condemned, or its rule about these objects."""
        return self._retract and (piece.rule in self._silenced or (piece.rule, piece.instance) in self._condemned)

    def _leads_back(self, action: str, answer: str | None, refused: bool, piece: Advice) -> bool:
        """Whether all that a sentence orders leads back to where the agent has just been."""
        return all(
            self._is_vain(action, order) or self._again(action, answer, refused, order)
            for order in orders(piece)
        )

    def _is_vain(self, action: str, order: Command) -> bool:
        """Whether a command was refused as things are: without a way being named, or waiting for this very action."""
        wanted, reached, ahead = _key(order.text), set[str](), [_key(order.text)]
        while ahead:
            key = ahead.pop()
            if key not in reached:
                reached.add(key)
                ahead += self._needs.get(key, ())
        return wanted in self._needs and (not self._needs[wanted] or _key(action) in reached)

    def _again(self, action: str, answer: str | None, refused: bool, order: Command) -> bool:
        """Whether a command was taken after this action already, and has led to the same action and answer again."""
        return any(
            same_action(hint.action, action)
            and same_action(hint.command.text, order.text)
            and hint.taken is not False
            and (order.kind == "first" if refused else hint.answer == answer)
            for hint in self._chain
        )

    def _keep(self, hint: ShownHint) -> None:
        hint.settled = True
        self._note(hint.advice.rule, "came true")

    def _fail(self, piece: Advice, action: str) -> None:
        """Condemn a rule about these objects, and the whole rule if it has failed on others, too."""
        self._note(piece.rule, "failed")
        self._condemned.add((piece.rule, piece.instance))
        failures = self._failures.setdefault(piece.rule, set())
        if piece.objects not in failures and all(map(self._was_named, names_of(action))):
            self._note(piece.rule, "strongly")
            failures.add(piece.objects)
            if len(failures) > 1:
                self._silenced.add(piece.rule)
        if self._retract:
            self._note(piece.rule, "silenced")

    def _was_named(self, name: str) -> bool:
        """Whether the engine has named something by itself. It names nothing by repeating the agent's own words, those
        of earlier turns included (an engine may show all that was said so far)."""
        wanted = _whole(name)
        earlier: list[str] = []
        for text, action in self._heard:
            words = (action, *names_of(action), *earlier)
            if wanted.search(text) and wanted.search(_without_words(text, words)):
                return True
            earlier += [action] if wanted.search(action) else []
        return False

    def _note(self, rule: str, what: str) -> None:
        self._events.setdefault(rule, {})[what] = True


# ---------------------------------------------------------------- reading


def advice_in(text: str, answer: str | None, action: str) -> list[Advice]:
    """The sentences of an interface's text that are not the engine's and name commands, with their rules."""
    pieces = []
    for start, end in _own_parts(text, answer):
        for sentence in sentences_of(text[start:end]):
            commands = commands_in(sentence, action)[:MOST_COMMANDS]
            if commands:
                said = [action, *(command.text for command in commands)]
                names = [name for words in said for name in names_of(words)]
                rule, about = skeleton_of(sentence, names)[:LONGEST_RULE], _objects(sentence, names, action)
                pieces.append(Advice(rule, *about, start, start + len(sentence), tuple(commands)))
            start += len(sentence)
    return pieces


def _objects(sentence: str, names: Iterable[str], action: str) -> tuple[Names, Names]:
    """(objects, instance) of a sentence after an action, of these names in both."""
    own = {*map(_key, names_of(action))}
    spoken = {_key(name) for name in names if _whole(name).search(sentence)} or own
    return tuple(sorted(spoken)), tuple(sorted(own if spoken <= own else spoken))


def orders(piece: Advice) -> list[Command]:
    """The commands of a sentence that it says should be done; all of them where it says that of none."""
    ordered = [command for command in piece.commands if command.kind != "named"]
    return ordered or list(piece.commands)


def _own_parts(text: str, answer: str | None) -> list[tuple[int, int]]:
    """What stands before and after the engine's answer in a text: from where to where. Where the answer is not there as
    it is, its sentences are left out one by one."""
    engine = (answer or "").strip()
    if not engine:
        return [(0, len(text))]
    found_at = text.find(engine)
    if found_at >= 0:
        return [(0, found_at), (found_at + len(engine), len(text))]
    plain = " ".join(engine.split())
    parts, start = [], 0
    for sentence in sentences_of(text):
        if " ".join(sentence.split()) not in plain:
            parts.append((start, start + len(sentence)))
        start += len(sentence)
    return parts


def _without(text: str, answer: str | None, cut: list[Advice]) -> str | None:
    """A text without some of its sentences; None where they leave nothing that is not the engine's."""
    if not cut:
        return text
    left = text
    for piece in reversed(cut):
        left = left[: piece.start].rstrip(" ") + left[piece.end - _blanks_at_end(text, piece) :]
    own = "".join(left[start:end] for start, end in _own_parts(left, answer))
    return left.strip() if any(letter.isalnum() for letter in own) else None


def _blanks_at_end(text: str, piece: Advice) -> int:
    sentence = text[piece.start : piece.end]
    return len(sentence) - len(sentence.rstrip())


def _wording(answer: str, action: str) -> str:
    """An answer without the words of the action that it is to."""
    return skeleton_of(answer, [action, *names_of(action), action.split(" ")[0]])


def _other_words(hint: ShownHint, answer: str | None) -> bool:
    """Whether the engine answers the action that a hint came after in other words now."""
    if hint.answer is None or answer is None:
        return False
    return _wording(answer, hint.action) != _wording(hint.answer, hint.action)


def _whole(words: str) -> re.Pattern[str]:
    """Matches words as they stand in a text, in letters of any case and with any blanks between them."""
    return re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words.split())) + r"(?!\w)", re.IGNORECASE)


def _without_words(text: str, words: Iterable[str]) -> str:
    """A text in which none of these words stand."""
    for part in words:
        text = _whole(part).sub("_", text) if part.strip() else text
    return text


def _key(action: str) -> str:
    return " ".join(action.casefold().split()).rstrip(" .")


# ---------------------------------------------------------------- the engine's side


def taken(env: TextEnv, before: EngineState, action: str, answer: str | None, alike: bool | None) -> bool | None:
    """Whether the engine took the agent's action on this turn; None where nothing tells.

    Told, in this order, by the score, by the environment's own test of refusals, by what it listed as possible
    `before`, and by whether its answer is another than that to what was refused (`alike`).
    """
    after = env.state
    if answer is None:
        return None
    if after.won or after.score > before.score:
        return True
    if type(env).refuses is not TextEnv.refuses:
        return not env.refuses(answer)
    possible = before.admissible_actions
    if possible:
        read = env.as_read(action)
        listed = any(read == env.as_read(other) or same_action(action, other) for other in possible)
        return listed or after.admissible_actions != possible or env.read_only(action) != ""
    return None if alike is None else not alike
