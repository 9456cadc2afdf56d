"""Audit of an interface in play: try the claims of each message in a copy of its state.

A claim holds if:

- a named step or wording: the engine accepts it there;
- "already so": it can be undone, is allowed afterwards, and leads back to the same views;
- "not seen": no text so far contains it; "seen": the agent or a view has shown it;
- a list of forms: they are offered, or all allowed actions have one of them;
- a name that "must stand alone": some form accepts it alone, where it is in sight;
- "not here": nothing possible or visible contains the name.

Rules told up front are tried as well (`rules.py`). An agent that obeys (does the step, then repeats its action) must
never reach a state twice, and the chain must end in acceptance or silence. A claim that cannot be refuted here counts
as untried.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from align_echo.align.probe.names import skeleton
from align_echo.base.commands import PLACEHOLDER, commands_in, split_sentences
from align_echo.evaluate.audit.rules import RuleKind, RuleTrials, Taken, read_told
from align_echo.evaluate.audit.speakers import AdversarySpeaker, Speaker, SpeakerState, adversary_speaks, written
from align_echo.interface.contract import Interface
from align_echo.interface.rules.actions import ActionGrammar, ActionTree, Reading, build_name_pattern
from align_echo.interface.rules.edits import apply_edit
from align_echo.interface.rules.model import (
    EndsEpisode,
    LockedAfter,
    NeedsFirst,
    NothingChanged,
    Rule,
    RuleSet,
    SayInstead,
)
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.interface.rules.runtime import RuleRuntime, count_refusals
from align_echo.interface.rules.vocabulary import NUMBERED
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.hint_watch import was_accepted
from align_echo.wrappers.plain import PlainEnv
from align_echo.wrappers.text_env import MAX_TEXT, EngineState, Snapshot, TextEnv

# ---------------------------------------------------------------- claims of a message

Kind = Literal[
    "do",
    "form",
    "then",
    "write",
    "already",
    "unseen",
    "absent",
    "after",
    "elsewhere",
    "alone",
    "forms",
    "only",
    "some",
    "worded",
    "unread",
]

_QUOTED = r"`([^`]{0,500})`"
_SENTENCES: tuple[tuple[Kind, str], ...] = (
    ("do", rf"{_QUOTED} does not work yet: you need to {_QUOTED} first\."),
    ("do", rf"{_QUOTED} is possible only after {_QUOTED}\."),
    ("form", rf"{_QUOTED} is not understood: the form is {_QUOTED}\."),
    ("then", rf"Then write {_QUOTED}: {_QUOTED} is not understood\."),
    ("write", rf"{_QUOTED} is not (?:understood|possible from here); write {_QUOTED} instead\."),
    ("worded", rf"This action is written {_QUOTED}\."),
    ("already", rf"{_QUOTED} would change nothing: that is already so\."),
    ("unseen", rf"Nothing called {_QUOTED} was seen so far(?:, only ([^.`]{{0,2000}}))?\."),
    ("after", rf"{_QUOTED} was last seen after {_QUOTED}\."),
    ("elsewhere", rf"{_QUOTED} is not here; it was last seen at ([^.`]{{0,500}})\."),
    ("alone", r'Words around a name are not understood: here ("[^.`]{0,500}") must stand alone\.'),
    ("forms", rf"(?:The environment knows these forms: |Write )({_QUOTED}(?:(?:, | or ){_QUOTED}){{0,500}})\."),
    ("only", rf"The environment knows only these forms: ({_QUOTED}(?:, {_QUOTED}){{0,500}})\."),
    ("some", rf"Some tasks understand ({_QUOTED}(?: or {_QUOTED}){{0,500}}), not all\."),
)


class Claim(NamedTuple):
    """Claim of a message: the action or name it concerns, and its content.

    `do`: that step first; `form`: its spelling; `then`, `write`: that action instead; `already`: "" (in effect);
    `unseen`: similar names seen; `after`: the action after which it was seen; `elsewhere`: the place; `alone`: ""
    (names joined); `forms`, `only`, `some`: joined forms, known here, exhaustive, or known in some tasks; `absent`: ""
    (not here, or nowhere); `worded`: how the action is written, by a rule's text or as an action; `unread`: text not
    understood.
    """

    kind: Kind
    about: str
    says: str


def read_claims(message: str, action: str = "") -> list[Claim]:
    """Parse all claims of a message after `action`: the probe's sentences in order, then the rest by sentence."""
    claims: list[tuple[int, Claim]] = []
    rest = message
    for kind, pattern in _SENTENCES:
        for match in re.finditer(pattern, message):
            groups = [group or "" for group in match.groups()]
            about, says = (groups[0], groups[1] if len(groups) > 1 and kind not in ("forms", "only", "some") else "")
            if kind in ("write", "do", "form"):
                about, says = groups[0], groups[1]
            if kind == "then":
                about, says = groups[1], groups[0]
            claims.append((match.start(), Claim(kind, about, says)))
        rest = re.sub(pattern, "", rest)
    plain = [claim for sentence in split_sentences(rest.strip()) for claim in _plain_claims(sentence.strip(), action)]
    return [claim for _, claim in sorted(claims)] + plain


# ---------------------------------------------------------------- any other text

_ALREADY = re.compile(
    r"\b(?:already|would change nothing|changes nothing|(?:has|have) no effect|no need to|need not|unnecessary)\b",
    re.IGNORECASE,
)
_NAME = r"[`'\"“‘*]{0,4}(?P<name>\w[\w' -]{0,99}?)[`'\"”’*]{0,4}"
_NO_NAME = re.compile(
    r"\b(?:there(?: is|'s| are) (?:no|not)(?: such)?(?: an?| any| thing as)?|no such \w+(?: as)?:?"
    rf"|nothing (?:called|named)) {_NAME}(?=\s{{0,4}}(?:here|in|on|at|was|exists?|could|can)\b|[.,;!]|$)",
    re.IGNORECASE,
)
_NAME_IS_NOT = re.compile(
    rf"(?:^|[,:;] |\bthe |\ban? ){_NAME} (?:(?:is(?:n't| not)|are(?:n't| not)) (?:here|there|in sight|present|available"
    r"|(?:in|at) this \w+)|does(?:n't| not) exist|can(?:not|'t) be (?:found|seen)|was not found)\b",
    re.IGNORECASE,
)
_FORMS = re.compile(r"\b(?:forms?|commands?|actions?|verbs?)\b", re.IGNORECASE)
_ANY_QUOTE = re.compile(r"[`'\"“‘]([^`'\"”’\n]{1,200})[`'\"”’]")
_BLANK = re.compile(r"\{[^{}]*\}|<[^<>]*>|\[[^\[\]]*\]|\b[A-Z]{2,}\d?\b")


def _plain_claims(sentence: str, action: str) -> list[Claim]:
    """Parse a sentence outside the probe's wording."""
    if not re.search(r"\w", sentence):
        return []
    forms = [form for form in _ANY_QUOTE.findall(sentence) if PLACEHOLDER.search(form)]
    if forms and _FORMS.search(sentence):
        row = ", ".join(f"`{_lettered(form)}`" for form in _ANY_QUOTE.findall(sentence))
        return [Claim("only" if re.search(r"\bonly\b", sentence, re.IGNORECASE) else "forms", row, "")]
    kinds: dict[str, Kind] = {"first": "do", "instead": "write"}
    orders = [Claim(kinds[kind], action, text) for text, kind in commands_in(sentence, action) if kind in kinds]
    if orders and sentence.startswith("Then"):
        return [Claim("then", action, order.says) for order in orders]
    if orders:
        return orders
    if _ALREADY.search(sentence):
        return [Claim("already", action, "")]
    absent = _NO_NAME.search(sentence) or _NAME_IS_NOT.search(sentence)
    name = re.sub(r"^(?:the|an?) ", "", absent.group("name").strip().lower()) if absent is not None else ""
    if name and name in action.lower():
        return [Claim("absent", name, "")]
    return [Claim("unread", sentence, "")]


def _lettered(form: str) -> str:
    """Write a form with X, Y, Z for its slots, like the probe."""
    letters = iter(("X", "Y", "Z"))
    return _BLANK.sub(lambda match: next(letters, match.group()), form)


# ---------------------------------------------------------------- test every claim

LETTERS = ("X", "Y", "Z")
MAX_CHAIN = 12
MEANINGLESS = "xyzzy"
WITNESSES = 5
"""Latest actions that show whether a state changed."""
MAX_EXAMPLES = 25
Refused = Callable[[str], bool]


@dataclass
class AuditFindings:
    """Counts of claims by kind, of false ones, and of chain endings. `spoken` counts refusals that a message answered,
    and `obeyed` the orders that were followed; `told` has the right and wrong trials of each rule told up front."""

    messages: int = 0
    utterances: int = 0
    refusals: int = 0
    spoken: int = 0
    orders: int = 0
    obeyed: int = 0
    told: dict[str, tuple[int, int]] = field(default_factory=dict)
    claims: Counter[str] = field(default_factory=Counter)
    untried: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    chains: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """Number of testable claims."""
        return self.claims.total() - self.untried.total()

    @property
    def wrong(self) -> int:
        """Number of tested claims that failed."""
        return sum(self.false.values())

    def blame(self, kind: str, example: str) -> None:
        """Count a false claim."""
        self.false[kind] += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(f"{kind}: {example}")


def _learned_names(rules: RuleSet) -> list[str]:
    """Return the names that rules know, in all tasks and by kind, and without the signs that texts may leave out."""
    slots = [slot for slots in rules.values.values() for slot in slots]
    names = [*rules.names, *(value for slot in slots for value in slot if isinstance(value, str))]
    names += [kind for slots in rules.kinds.values() for slot in slots for kind in slot]
    for rule in rules.rules:
        if isinstance(rule, SayInstead) and rule.edit.kind == "sign":
            sign = rule.edit.detail
            before, _, after = sign.lower().partition("{}")
            bare = [name[len(before) : len(name) - len(after)] for name in names if _is_signed(name, before, after)]
            names += [*bare, *(sign.replace("{}", name) for name in bare)]
    return names


def _is_signed(name: str, before: str, after: str) -> bool:
    signed = name.lower().startswith(before) and name.lower().endswith(after)
    return signed and len(name) > len(before) + len(after)


class Auditor:
    """Auditor of an interface in an environment: plays episodes and judges every message."""

    def __init__(
        self,
        env: TextEnv,
        interface: Interface,
        refused: Refused | None,
        *,
        seed: int = 0,
        expert: float = 0.4,
    ) -> None:
        """Set up the audit.

        `refused` detects a refusal from an answer; None: use the engine's list, if it has one. `expert` is the share of
        oracle steps in walks. Names are matched as in the interface, if the probe wrote it. Hints a run would silence
        are audited too.
        """
        self._rules = read_rule_set(interface.source) or RuleSet()
        names = _learned_names(self._rules)
        learned = build_name_pattern(names) if names else NUMBERED
        self._name = self._rules.vocabulary.pattern if self._rules.vocabulary else learned
        self._guesses = False
        self._changed: bool | None = None
        self.findings = AuditFindings()
        self._env = env
        self._wrapped = AlignWrapper(env, interface, retract=False)
        self._told = RuleTrials([], self._take_all)
        self._by_data = RuleDataTrials(RuleSet(), self._told, "", self._take_all)
        self._accepted: bool | None = None
        self._refused = refused
        self._rng = random.Random(seed)
        self._expert = expert
        self._texts: list[tuple[str, str]] = []
        self._looked = ""
        self._ending: set[str] = set()
        self._known: dict[str, set[str]] = {}
        self._kinds: dict[tuple[str, int], set[str]] = {}

    def play(self, task_id: str, *, turns: int, per_state: int = 3, speaker: Speaker = adversary_speaks) -> None:
        """Play an episode: a walk of `turns` steps, with `per_state` utterances of the speaker in each state."""
        adversary = self._begin(task_id)
        for _ in range(turns):
            if self._env.over:
                break
            for why, action in list(speaker(SpeakerState(self._env, adversary, adversary.rng), per_state)):
                if not self._env.over and not self._ends(action):
                    self._say(action, adversary, why)
            self._walk(adversary)
        self._end(task_id, adversary)

    def replay(self, task_id: str, actions: Sequence[str], who: str) -> None:
        """Play an agent's own episode again under the interface; orders are followed in forks."""
        adversary = self._begin(task_id)
        for action in actions:
            if self._env.over:
                break
            message = self._turn(action, adversary)
            self._heard(message)
            for claim in self._claims(message, action):
                self._judge(claim, f"{who} {action!r}", adversary)
        self._end(task_id, adversary)

    def _begin(self, task_id: str) -> AdversarySpeaker:
        _, info = self._wrapped.reset(seed=0, options={"task": task_id})
        raw, engine = self._env.state.observation, self._env.unwrapped
        silent = isinstance(engine, PlainEnv) and not engine.declares_refusals
        self._guesses = silent and not self._env.state.admissible_actions
        self._texts = [("", raw), ("", str(info["goal"]))]
        self._looked = "\n".join(self._views()).lower()
        of_answers = (rule for rule in self._rules.rules if getattr(rule, "answers", None))
        known = {rule.text: TOLD[rule.kind] for rule in of_answers if rule.kind in TOLD}
        self._told = RuleTrials(read_told(str(info.get("rules", "")), known), self._take_all)
        self._by_data = RuleDataTrials(self._rules, self._told, f"{raw}\n{info['goal']}", self._take_all)
        foreign_names = sorted({name for task, names in self._known.items() if task != task_id for name in names})
        rng = random.Random(f"{self._rng.random()}/{task_id}")
        adversary = AdversarySpeaker(rng, tuple(foreign_names[:400]), self._name, self._kinds)
        adversary.learn(self._rules)
        adversary.see(self._env, raw)
        for rule in self._told.rules:
            if rule.kind == "forms":
                only = re.search(r"\bonly\b", rule.text, re.IGNORECASE)
                claim = Claim("only" if only else "forms", rule.text, "")
                self._told.count(rule, self._forms_hold(claim, adversary.allowed), "not so here")
        return adversary

    def _end(self, task_id: str, adversary: AdversarySpeaker) -> None:
        """Count the trials of the rules told up front."""
        self._known[task_id] = adversary.names
        findings, told = self.findings, self._told
        findings.orders += told.obeyed
        findings.obeyed += told.obeyed
        for rule in told.rules:
            kind, right, wrong = f"told-{rule.kind}", told.right[rule.text], told.wrong[rule.text]
            findings.claims[kind] += right + wrong or 1
            findings.untried[kind] += not right + wrong
            findings.false[kind] += wrong
            before = findings.told.get(rule.text, (0, 0))
            findings.told[rule.text] = (before[0] + right, before[1] + wrong)
        examples = [f"{task_id}: {example}" for example in told.examples]
        findings.examples += examples[: MAX_EXAMPLES - len(findings.examples)]

    def _ends(self, action: str) -> bool:
        """Check if an action would end the episode; these are not said, since little could be audited afterwards.

        Trying may cost a replay, so only actions with the same first word as an earlier ending are tried.
        """
        return _first_word(action) in self._ending and self._tried(action)[1]

    def _walk(self, adversary: AdversarySpeaker) -> None:
        """Take a step forward: the oracle's, an allowed one, or anything offered."""
        if self._env.over:
            return
        action = self._env.oracle().expert_action() if self._rng.random() < self._expert else None
        if action is None and adversary.allowed:
            names = [action for action in adversary.allowed if skeleton(action, adversary.name)[1]] or adversary.allowed
            action = self._rng.choice(names)
        self._turn(action or adversary.known()[1] or "look", adversary)

    def _turn(self, action: str, adversary: AdversarySpeaker) -> str:
        """Take a turn and return the interface's addition to the engine's answer."""
        self._told.before(action)
        self._by_data.before(action)
        before, fork = self._env.state, self._env.snapshot() if self._guesses and not self._env.over else None
        observation, _, _, _, info = self._wrapped.step(action)
        if info["interface_error"]:
            self.findings.blame("broken", f"{action}: {info['interface_error']}")
        if self._env.over:
            self._ending.add(_first_word(action))
        raw = info["raw_observation"] or ""
        self._texts.append((action, raw))
        adversary.utterances.append(action)
        self._accepted, self._changed = self._took(before, action, raw), None
        if fork is not None and not self._env.over:
            self._changed = self._changed_since(fork, action)
            self._accepted = self._accepted if self._changed or self._accepted is False else None
        self._told.after(action, self._accepted, over=self._env.over)
        self._by_data.after(AuditTurn(action, raw, self._accepted, self._changed, self._env.over))
        if self._accepted is not False:
            adversary.see(self._env, raw)
            self._looked += "\n".join(self._views()).lower()
        plain = raw[:MAX_TEXT].strip()
        return "" if plain.startswith(observation.strip()) else observation.removeprefix(plain).strip()

    def _say(self, action: str, adversary: AdversarySpeaker, why: str) -> None:
        """Say an action, judge the reply, and follow its advice to the end."""
        seen = [self._signature()]
        end = ""
        step = ""
        for _ in range(MAX_CHAIN):
            message = self._turn(action, adversary)
            accepted = self._heard(message)
            claims = self._claims(message, action)
            for claim in claims:
                self._judge(claim, f"{why} {action!r}", adversary)
            orders = [claim for claim in claims if claim.kind in ("do", "write")]
            if accepted or not orders or self._env.over:
                end = "accepted" if accepted else "silent" if not claims else claims[-1].kind
                break
            step = orders[0].says
            self._turn(step, adversary)
            if orders[0].kind == "write":
                end = "accepted" if self._accepted is not False else "refused"
                break
            if self._env.over:
                break
            signature = self._signature()
            if signature in seen and signature != ((), ()):
                end = "circle"
                break
            seen.append(signature)
        if step:
            self.findings.chains[end or "endless"] += 1
            if not self._env.over and (end in ("circle", "", "refused") or self._circles(end, seen)):
                self.findings.blame("circle", f"{self._env.state.observation!r}: {action!r} by way of {step!r}, {end}")

    def _claims(self, message: str, action: str) -> list[Claim]:
        """Read the claims of a message; the text of a rule about words stands for these words."""
        texts = {f"{rule.text.removesuffix('.')}.": rule.text for rule in self._rules.rules}
        claims = read_claims(message, action) if message else []
        return [
            Claim("worded", action, texts[claim.about]) if claim.kind == "unread" and claim.about in texts else claim
            for claim in claims
        ]

    def _heard(self, message: str) -> bool:
        """Count what was said and its answer; return False for a refusal."""
        accepted = self._accepted is not False
        self.findings.utterances += 1
        self.findings.refusals += not accepted
        self.findings.messages += bool(message)
        self.findings.spoken += bool(message) and not accepted
        return accepted

    def _circles(self, end: str, seen: Sequence[Any]) -> bool:
        """Check if the finally accepted action led back to a state of the chain."""
        known = self._signature()
        return end == "accepted" and len(seen) > 1 and known != ((), ()) and known in seen[:-1]

    # ------------------------------------------------------------ trying

    def _judge(self, claim: Claim, context: str, adversary: AdversarySpeaker) -> None:
        if self._env.over and claim.kind in ("do", "write", "already", "after"):
            return
        self.findings.claims[claim.kind] += 1
        holds = self._holds(claim, adversary)
        if claim.kind in ("do", "write"):
            self.findings.orders += 1
            self.findings.obeyed += holds is not None
        self.findings.untried[claim.kind] += holds is None
        if holds is False:
            self.findings.blame(claim.kind, f"{self._env.info(None)['task_id']} {context}: {tuple(claim)}")

    def _holds(self, claim: Claim, adversary: AdversarySpeaker) -> bool | None:
        """Check a claim in this state; None if it cannot be tested here.

        The chain of advice tests everything after "then". "Some" tasks cannot be judged from this one.
        """
        earlier = "\n".join(text for _, text in self._texts).lower()
        if claim.kind in ("do", "write"):
            return self._taken(claim.says)
        if claim.kind in ("then", "some", "unread"):
            return None
        if claim.kind == "worded":
            ways = self._by_data.words(claim.about, claim.says) if claim.says else [claim.about]
            return any(self._taken(each) for each in ways) or None
        if claim.kind == "form":
            return skeleton(claim.says, self._name)[0] in adversary.templates or None
        if claim.kind == "absent":
            return self._is_absent(claim.about)
        if claim.kind in ("forms", "only"):
            return self._forms_hold(claim, adversary.allowed)
        if claim.kind == "already":
            return self._is_so(claim.about, adversary)
        if claim.kind == "unseen":
            like = [name.strip() for name in claim.says.split(",") if name.strip()]
            return not _mentions(earlier, claim.about) and all(_mentions(earlier, name) for name in like)
        if claim.kind == "after":
            times = [number for number, (action, _) in enumerate(self._texts) if action == claim.says]
            later = "\n".join(text for _, text in self._texts[min(times, default=len(self._texts)) :]).lower()
            return self._taken(claim.says) if _mentions(later, claim.about) else False
        if claim.kind == "elsewhere":
            visible = earlier + self._looked
            return _mentions(visible, claim.about) and _mentions(visible, claim.says)
        if claim.kind == "alone":
            names = re.findall(r'"([^"]*)"', claim.about)
            if not all(_mentions(earlier + self._looked, name) for name in names):
                return False
            verdicts = [self._is_name(name) for name in names]
            return False if False in verdicts else None if None in verdicts else True
        return False

    def _forms_hold(self, claim: Claim, allowed: Sequence[str]) -> bool | None:
        """Check if the listed forms are known here or, for `only`, cover all allowed or offered actions.

        Where actions are allowed individually, a form without any may still be known.
        """
        listed = set(re.findall(r"`([^`]*)`", claim.about))
        offered = self._env.offered()
        known = {written(template, LETTERS) for template in offered.templates} if offered is not None else set()
        if claim.kind == "forms":
            return listed <= known if known else None
        patterns = [re.sub(r"\b[XYZ]\b", "(.+)", re.escape(form)) for form in listed]
        possible = {*known, *allowed}
        fits = [
            form in listed or self._lettered(form) in listed or any(re.fullmatch(pattern, form) for pattern in patterns)
            for form in possible
        ]
        return all(fits) if possible else None

    def _lettered(self, action: str) -> str:
        """Replace an action's names with letters."""
        rest = iter(LETTERS)
        return re.sub(self._name, lambda _: next(rest, "?"), action)

    def _is_name(self, name: str) -> bool | None:
        """Check if the engine accepts a name alone in an offered form; None if it is not in sight."""
        offered = self._env.offered()
        if offered is None or self._env.over or not _mentions("\n".join(self._views()).lower(), name):
            return None
        forms = [template for template in offered.templates if template.count("{") == 1]
        tries = (self._taken(written(form, [name])) for form in forms)  # the first that is taken will do
        refused = True
        for took in tries:
            if took:
                return True
            refused = refused and took is False
        return False if refused else None

    def _is_absent(self, name: str) -> bool | None:
        """Check that no possible action or view has a name; None if neither is known."""
        offered = self._env.offered()
        texts = [*(self._env.state.admissible_actions or ()), *self._views(), *(offered.names if offered else ())]
        return not any(_mentions(text.lower(), name) for text in texts) if texts else None

    def _took(self, before: EngineState, action: str, answer: str) -> bool | None:
        """Check if the engine accepted an action in a state; None if unclear, as where an environment does not declare
        its refusals and the text stays."""
        refused = self._refused is not None and self._refused(answer)
        if self._guesses and not refused:
            return None if answer == before.observation else True
        if self._refused is not None:
            return not refused
        return was_accepted(self._env, before, action, answer, None)

    def _changed_since(self, fork: Any, action: str) -> bool | None:
        """Check if an action changed the state of a fork: if it, or what was said before, is answered otherwise than
        after an action that nothing understands, as many turns from the beginning. None if no difference is seen."""
        now = self._env.snapshot()
        self._env.restore(fork)
        self._env.step(MEANINGLESS)
        if self._env.over:
            self._env.restore(now)
            return None
        idle, differs = self._env.snapshot(), False
        said = [action, *(earlier for earlier, _ in reversed(self._texts) if earlier)]
        for witness in list(dict.fromkeys(said))[:WITNESSES]:
            answers: list[str] = []
            for state in (idle, now):
                self._env.restore(state)
                answers.append(self._env.step(witness)[0])
            differs = differs or answers[0] != answers[1]
            if differs:
                break
        self._env.restore(now)
        return differs or None

    def _proves(self, fork: Snapshot, action: str, answer: str, changed: bool | None) -> bool | None:
        """Check if an answer proves that an action was accepted in a fork: where nothing is seen to change, an answer
        that was given before and is given to meaningless words as well is a refusal. None if unclear."""
        form, _, names = action.partition(" ")
        if changed or not names or answer not in [text for _, text in self._texts]:
            return changed
        now = self._env.snapshot()
        self._env.restore(fork)
        alike = self._env.step(" ".join([form, *(MEANINGLESS for _ in names.split())]))[0] == answer
        self._env.restore(now)
        return False if alike else None

    def _taken(self, action: str) -> bool | None:
        """Check in a fork if the engine accepts an action here."""
        return self._tried(action)[0]

    def _take_all(self, actions: Sequence[str]) -> list[Taken]:
        """Take actions in turn in a fork; those after the end are unclear."""
        snapshot, all_taken = self._env.snapshot(), list[Taken]()
        for action in actions:
            if self._env.over:
                all_taken.append(Taken(None, None))
                continue
            before, known = self._env.state, self._signature()
            fork = self._env.snapshot() if self._guesses else None
            answer = self._env.step(action)[0]
            changed = None if self._env.over or known == ((), ()) else self._signature() != known
            accepted = self._took(before, action, answer)
            if fork is not None and not self._env.over:
                changed = self._changed_since(fork, action)
                accepted = accepted and self._proves(fork, action, answer, changed)
            all_taken.append(Taken(accepted, changed))
        self._env.restore(snapshot)
        return all_taken

    def _tried(self, action: str) -> tuple[bool | None, bool]:
        """Try an action: accepted or not, and whether it ends the episode.

        The state is restored afterwards, possibly by a replay, unless a refusal left no trace.
        """
        snapshot, before = self._env.snapshot(), self._signature()
        observation, over = self._env.step(action)[0], self._env.over
        took = self._took(snapshot.state, action, observation)
        if self._guesses and took is not False and not over:
            took = self._proves(snapshot, action, observation, self._changed_since(snapshot, action))
            self._env.restore(snapshot)
        elif over or took is not False or self._signature() != before:
            self._env.restore(snapshot)
        return took, over

    def _is_so(self, action: str, adversary: AdversarySpeaker) -> bool | None:
        """Check if the action is accepted after some step and then restores the current state."""
        if self._guesses and self._changed and self._texts[-1][0] == action:
            return False
        snapshot = self._env.snapshot()
        current = self._signature()
        for step in adversary.allowed:
            self._env.step(step)
            if not self._env.over:
                before = self._env.state
                if self._took(before, action, self._env.step(action)[0]) and self._signature() == current:
                    self._env.restore(snapshot)
                    return True
            self._env.restore(snapshot)
        return False if adversary.allowed else None

    def _signature(self) -> Any:
        """Return the allowed actions and nameless views, to compare states."""
        return tuple(sorted(self._env.state.admissible_actions or ())), self._views()

    def _views(self) -> tuple[str, ...]:
        """Return the text of nameless views, open to the interface even if the agent did not look."""
        views = [view for view in self._env.contract.read_only_actions if "{}" not in view]
        return tuple(self._env.probe(view) for view in views) if not self._env.over else ()


def _first_word(action: str) -> str:
    return next(iter(action.lower().split()), "")


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) is not None


TOLD: dict[str, RuleKind] = {
    "say_instead": "instead",
    "needs_first": "needs",
    "no_effect": "nothing",
    "locked_after": "locked",
    "ends_episode": "ends",
}
"""What a rule of each kind is called in the report."""


class AuditTurn(NamedTuple):
    """Turn of an audited episode: `accepted` and `changed` are None where that is unclear."""

    action: str
    answer: str
    accepted: bool | None
    changed: bool | None
    over: bool


class RuleDataTrials:
    """Trials of an episode. `told` counts them; `take` does actions in turn in a fork of the state."""

    def __init__(
        self, rules: RuleSet, told: RuleTrials, opening: str, take: Callable[[list[str]], list[Taken]]
    ) -> None:
        self._told, self._take = told, take
        self._runtime = RuleRuntime(rules, opening)
        self._grammar = ActionGrammar(rules.forms, rules.names)
        texts = {rule.text for rule in told.rules if rule.kind in TOLD.values() and not rule.action}
        self._rules = [rule for rule in rules.rules if rule.text in texts]
        self._taken: list[ActionTree] = []

    def words(self, action: str, text: str) -> list[str]:
        """Return an action in the words of the rule with this text, without its own words."""
        reading = self._grammar.read(action)
        rules = (rule for rule in self._rules if isinstance(rule, SayInstead) and rule.text == text)
        return [each for rule in rules for each in self._worded(rule, reading) if each != action.strip()]

    def before(self, action: str) -> None:
        """Try, in the state before an action, whether the words that a rule wants help where the action's do not."""
        reading = self._grammar.read(action)
        for rule in self._rules:
            if not isinstance(rule, SayInstead) or reading is None or reading.tree.form != rule.form:
                continue
            ways = [each for each in self._worded(rule, reading) if each != action.strip()]
            if not ways or not self._told.may_fork(rule.text):
                continue
            (said,) = self._take([action])
            meant = [self._take([each])[0] for each in ways]
            if said.accepted is False and any(each.accepted for each in meant):
                self._count(rule, True, "")
            elif said.accepted and said.changed is not False and all(each.accepted is False for each in meant):
                self._count(rule, False, f"`{ways[0]}` is refused where `{action}` is understood")

    def after(self, turn: AuditTurn) -> None:
        """Try the rules with the outcome of an action."""
        reading, runtime = self._grammar.read(turn.action), self._runtime
        silent = {
            rule.text: any(runtime.holds(condition, reading.tree) for condition in getattr(rule, "unless", ()))
            for rule in self._rules
            if reading is not None and getattr(rule, "form", "") == reading.tree.form
        }
        speaks = [rule for rule in self._rules if silent.get(rule.text) is False]
        if reading is not None:
            self._said(speaks, reading.tree, turn)
        runtime.hear(turn.action, turn.answer)
        for rule in self._rules:
            if not isinstance(rule, EndsEpisode) or runtime.answers[-1] not in rule.answers:
                continue
            if count_refusals(runtime.answers, rule) == rule.count:
                self._count(rule, turn.over, f"the episode goes on after `{turn.action}`")
        if reading is not None and turn.accepted:
            self._taken.append(reading.tree)

    def _said(self, rules: list[Rule], tree: ActionTree, turn: AuditTurn) -> None:
        for rule in rules:
            if isinstance(rule, NeedsFirst):
                self._needs(rule, tree, turn)
            elif isinstance(rule, NothingChanged) and turn.changed is not None and self._repeats(turn):
                self._count(rule, not turn.changed, f"`{turn.action}` changed something")
            elif isinstance(rule, LockedAfter) and turn.accepted is not None:
                cause = self._runtime.step(rule.cause, rule.terms, tree)
                if cause is not None and any(_is_like(cause, each) for each in self._taken):
                    self._count(rule, not turn.accepted, f"`{turn.action}` is possible after that")

    def _needs(self, rule: NeedsFirst, tree: ActionTree, turn: AuditTurn) -> None:
        step = self._runtime.step(rule.step, rule.terms, tree)
        if step is None or None in step.arguments or any(_is_like(step, each) for each in self._taken):
            return
        written = self._grammar.write(step)
        if turn.accepted:
            self._count(rule, False, f"`{turn.action}` is possible without `{written}`")
        elif not turn.over and self._told.may_fork(rule.text):
            first, then = self._take([written, turn.action])
            self._told.obeyed += first.accepted is not None
            if first.accepted and then.accepted:
                self._count(rule, True, "")

    def _repeats(self, turn: AuditTurn) -> bool:
        page = self._runtime.rules.reader.page(turn.answer, self._runtime.raw, turn.action)
        return page == self._runtime.page

    def _worded(self, rule: SayInstead, reading: Reading | None) -> Iterator[str]:
        for detail in (rule.edit.detail, *rule.edit.others):
            edit = rule.edit.model_copy(update={"detail": detail, "others": ()})
            tree = apply_edit(edit, reading, self._grammar, self._runtime.texts) if reading is not None else None
            if tree is not None:
                yield self._grammar.write(tree)

    def _count(self, rule: Rule, holds: bool, why: str) -> None:
        told = next(each for each in self._told.rules if each.text == rule.text)
        self._told.count(told, holds, why)


def _is_like(step: ActionTree, taken: ActionTree) -> bool:
    """Whether an action is a step, whose free arguments are None."""
    pairs = zip(step.arguments, taken.arguments, strict=False)
    return step.form == taken.form and all(wanted in (None, value) for wanted, value in pairs)
