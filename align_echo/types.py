"""The data that flows: task -> environment -> agent -> trajectory -> interface | report.

Frozen pydantic models and the two protocols (`ChatModel`, `Agent`) that meet at the rollout. No behaviour beyond
derived properties; nothing here knows an environment by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable, and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---------------------------------------------------------------- chat


class Tokens(Frozen):
    """One call of a local model in token ids: what it was given and what it drew, never made from text again.

    `context_ids` is what its conversation gained since the call before (the whole prompt at the first call), `start`
    how many tokens the conversation held before that. `sampled_ids` [T] is what the model drew, its end token included
    where it drew one; `logprobs` [T] are natural logarithms of their probabilities under the temperature of the call
    (1 for greedy decoding), before top-k and top-p.
    """

    start: int = 0
    context_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def end(self) -> int:
        """How many tokens the conversation holds after the call."""
        return self.start + len(self.context_ids) + len(self.sampled_ids)


NO_REPLY = "(no reply)"
"""Stands for an empty reply in a history: endpoints refuse an assistant message without content."""


class Message(Frozen):
    """One message of a chat. `tokens` is the call that wrote it, where a local model did and the text is unaltered."""

    role: Literal["system", "user", "assistant"]
    content: str
    tokens: Tokens | None = None


class Usage(Frozen):
    """Tokens and money spent: 0 where nothing was asked. None is not known: tokens that the server did not tell, the
    cost of a model without a price. A sum with such a part is not known either. Older versions wrote 0 for those.
    """

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Usage(
            prompt_tokens=_added(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_added(self.completion_tokens, other.completion_tokens),
            cost_usd=cost,
        )

    @property
    def tokens(self) -> int | None:
        """Read and written ones together."""
        return _added(self.prompt_tokens, self.completion_tokens)

    @property
    def in_words(self) -> str:
        """What was spent, "tokens: 1,234; cost: $0.0123"; "" for nothing."""
        if self.tokens == 0:
            return ""
        tokens = "not told by every reply" if self.tokens is None else f"{self.tokens:,}"
        cost = "not known" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        return f"tokens: {tokens}; cost: {cost}"


def _added(count: int | None, other: int | None) -> int | None:
    return None if count is None or other is None else count + other


class Completion(Frozen):
    """A model's reply. `finish_reason` is "length" when the reply was cut off."""

    text: str
    finish_reason: Literal["stop", "length"] = "stop"
    usage: Usage = Usage()
    cached: bool = False
    tokens: Tokens | None = None


class WordChoice(Frozen):
    """Which of the words it was asked about a model would say next, and how probable it holds each to be.

    `said` is the word that its likeliest next token begins; None if that token begins none of them. `logprobs` are the
    natural logarithms of the words' probabilities, in the order asked: -inf for one that is less probable than all that
    the endpoint lists, None where the model gives no probabilities. `models/choosing.py` says how each model counts.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    said: str | None
    logprobs: tuple[float, ...] | None = None
    usage: Usage = Usage()
    cached: bool = False


@runtime_checkable
class Described(Protocol):
    """Something that says what it is made of, for run records and resuming.

    Keys: "model.<role>" a model's name, "base_url.<role>" where it is asked, "weights.<role>" a hash of a local one's,
    "prompt.<role>/<name>" a prompt's hash; any other key is a setting.
    """

    def describe(self) -> dict[str, str]: ...


class ChatModel(Protocol):
    """A chat model. `complete` raises `ModelError` once its own retries are spent."""

    @property
    def name(self) -> str: ...

    def complete(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048
    ) -> Completion: ...


# ---------------------------------------------------------------- agent


class Turn(Frozen):
    """One exchange as the agent saw it: its whole reply and what came back."""

    reply: str
    action: str | None
    observation: str
    tokens: Tokens | None = None


class AgentView(Frozen):
    """All that an agent may know at one step. An agent is a function of it, so any state can be forked and replayed.

    `critique` is a language critic's advice on an earlier attempt at the same task (ECHO, ICRL); empty without one.
    """

    task_id: str
    action_format: str
    goal: str
    rules: str
    initial_observation: str
    critique: str = ""
    turns: tuple[Turn, ...] = ()


class Candidate(Frozen):
    """One of the replies that an agent chose from. `action` is None if it held none.

    `verdict` is what the critic said of the action, "neither" if it said neither word or broke, None if it was not
    asked; `p_correct` in [0, 1] its probability that the action is correct, where it gives one. `logprob` is the sum of
    the agent's own log-probabilities of the reply, where its model tells them.
    """

    action: str | None
    verdict: Literal["correct", "wrong", "neither"] | None = None
    p_correct: float | None = None
    logprob: float | None = None


class ChoiceCounts(Frozen):
    """Of one choice or many: candidates, and how many distinct actions were judged correct and wrong.

    `no_verdict` counts those on which the critic broke or said neither word. Where all candidates named one action, it
    is judged only if it repeats one that changed nothing: `repeated` counts such turns, `repeated_wrong` those in which
    it was called wrong and there was no other to take.
    """

    candidates: int = 0
    correct: int = 0
    wrong: int = 0
    no_verdict: int = 0
    repeated: int = 0
    repeated_wrong: int = 0

    def __add__(self, other: ChoiceCounts) -> ChoiceCounts:
        return ChoiceCounts(
            candidates=self.candidates + other.candidates,
            correct=self.correct + other.correct,
            wrong=self.wrong + other.wrong,
            no_verdict=self.no_verdict + other.no_verdict,
            repeated=self.repeated + other.repeated,
            repeated_wrong=self.repeated_wrong + other.repeated_wrong,
        )


class Choice(Frozen):
    """How a reply was chosen: all candidates in the order drawn, and the index of the one that was `taken`.

    `taken` is None where somebody else's action was carried out (`critic/led.py`).
    """

    candidates: tuple[Candidate, ...]
    taken: int | None

    @property
    def counts(self) -> ChoiceCounts:
        """The verdicts, one for each distinct action."""
        named = [candidate for candidate in self.candidates if candidate.action is not None]
        verdicts = list({candidate.action: candidate.verdict for candidate in named}.values())
        return ChoiceCounts(
            candidates=len(self.candidates),
            correct=verdicts.count("correct"),
            wrong=verdicts.count("wrong"),
            no_verdict=verdicts.count("neither"),
            repeated=len(verdicts) == 1 and verdicts[0] is not None,
            repeated_wrong=verdicts == ["wrong"],
        )


class AgentReply(Frozen):
    """What an agent answers. `action` is None when the reply held no action; `problem` then says what was wrong.

    `tokens` is the one model call behind the reply; None where there were several, or the model gives no token ids.
    `cut_off`: the model's limit of tokens ended it. `choice` is there if the reply is one of several candidates.
    `residue` names the end tokens and invisible signs that were taken off of it before it was read.
    `verbatim`: the action is sent in the agent's own words, and never in the spelling of a possible one.
    """

    text: str
    action: str | None
    problem: str = ""
    verbatim: bool = False
    cut_off: bool = False
    residue: tuple[str, ...] = ()
    usage: Usage = Usage()
    tokens: Tokens | None = None
    choice: Choice | None = None


class Agent(Protocol):
    """A policy: a function from all that was seen so far to the next reply. Raises `ModelError`."""

    @property
    def name(self) -> str: ...

    def act(self, view: AgentView) -> AgentReply: ...


# ---------------------------------------------------------------- trajectory


class Fault(Frozen):
    """Something broke: the environment, the model, or the agent's own code, whose `traceback` is kept (its end).

    A trajectory with a fault has no score and is counted apart.
    """

    source: Literal["environment", "model", "agent"]
    error: str
    message: str
    traceback: str = ""


class Violation(Frozen):
    """An engine call that the interface contract forbids. It was refused."""

    action: str
    reason: str


class HintEvent(Frozen):
    """What came of one rule of an interface on one turn; a rule is a kind of sentence that names commands.

    `fired`: such a hint was shown. `followed`: the action was what the hint before it had named. `came_true`: whether a
    followed hint did what it had promised, where this turn settled that. `silenced`: its words were withheld, or are
    from here on, about these objects or any. `weak`: it failed, and that says nothing against the rule, as the agent
    spoke of what the engine had named nowhere, or it had failed on these objects before.
    """

    rule: str
    fired: bool = False
    followed: bool = False
    came_true: bool | None = None
    silenced: bool = False
    weak: bool = False


class Step(Frozen):
    """One turn of the agent.

    `observation` is what the agent was shown; `raw_observation` is the engine's answer to the agent's own action, or
    None when the engine was not asked (the interface answered alone, or the reply held no action). `engine_calls`
    counts every engine call of the turn. `interface_error` says why the interface was bypassed on this turn, if it was.
    `forged` names what it claimed against the environment: "reward", "done". `hints`: what came of those it gave.
    `cut_off`: the model's limit of tokens ended the reply. `choice`: it was chosen among several. `residue` names the
    end tokens and invisible signs that were taken off of the reply before it was read.
    """

    reply: str
    action: str | None
    observation: str
    raw_observation: str | None
    reward: float = 0.0
    score: float = 0.0
    terminated: bool = False
    truncated: bool = False
    engine_calls: int = 1
    problem: str = ""
    cut_off: bool = False
    residue: tuple[str, ...] = ()
    interface_error: str = ""
    violations: tuple[Violation, ...] = ()
    forged: tuple[str, ...] = ()
    hints: tuple[HintEvent, ...] = ()
    usage: Usage = Usage()
    tokens: Tokens | None = None
    choice: Choice | None = None


class PlayedInterface(Frozen):
    """Which interface an episode was played under, by content: `source` is a hash of its code, `fingerprint` one of all
    that decides what it shows. Both are the same under any name.
    """

    source: str
    fingerprint: str
    placebo: bool = False


_IN_LABEL = re.compile(r"@(?P<source>[0-9a-f]{16})(?:-[\w.-]+)?(?: \(\d+\))?$")
"""Where a label of an interface has the hash of its source."""


def source_in(label: str) -> str:
    """The hash of an interface's source in its label, all that older versions wrote of it; "" for none."""
    written = _IN_LABEL.search(label)
    return written["source"] if written else ""


class Trajectory(Frozen):
    """One episode of one agent on one task under one interface ("none" is the raw environment).

    `interface` is a label to read; `played_under` tells interfaces apart, None for the raw environment and in files of
    older versions.
    `reset_error` says why the interface's rules are missing, if they are; `reset_violations` what it tried at reset.
    `context_overflow` is True when the conversation outgrew the model's context and ended the episode: no fault.
    `sample` tells several episodes of one agent on one task apart. `agent_preset` names the preset of the agent's
    settings, "" for none. `ended_by_repeats` is True where one action in a row too often ended the episode.
    """

    environment: str
    split: str
    task_id: str
    task_type: str = ""
    agent: str
    agent_preset: str = ""
    interface: str = "none"
    played_under: PlayedInterface | None = None
    seed: int = 0
    sample: int = 0
    goal: str
    rules: str = ""
    critique: str = ""
    initial_observation: str
    reset_error: str = ""
    reset_violations: tuple[Violation, ...] = ()
    steps: tuple[Step, ...] = ()
    score: float = 0.0
    won: bool = False
    context_overflow: bool = False
    ended_by_repeats: bool = False
    fault: Fault | None = None

    @property
    def terminated(self) -> bool:
        """The environment ended the episode."""
        return bool(self.steps) and self.steps[-1].terminated

    @property
    def truncated(self) -> bool:
        """The step limit, the model's context or an action's repeats ended the episode."""
        ended_here = self.context_overflow or self.ended_by_repeats
        return ended_here or (bool(self.steps) and self.steps[-1].truncated)

    @property
    def source(self) -> str:
        """The hash of its interface's code; "" for the raw environment."""
        return source_in(self.interface) if self.played_under is None else self.played_under.source

    @property
    def is_placebo(self) -> bool:
        """Whether its interface was played as a placebo."""
        if self.played_under is not None:
            return self.played_under.placebo
        return bool(self.source) and self.interface.endswith("-placebo")

    @property
    def actions(self) -> tuple[str | None, ...]:
        """The agent's own actions in order; None where a reply held none."""
        return tuple(step.action for step in self.steps)

    @property
    def usage(self) -> Usage:
        """Tokens and money of the whole episode."""
        return sum((step.usage for step in self.steps), Usage())


def impossible(played: Trajectory) -> str:
    """Say in words why no environment can have played this; "" if one can. For records that others may have written."""
    for score in (played.score, *(step.score for step in played.steps)):
        if score < -1e-6 or score > 1 + 1e-6:
            return f"its score is {score:g}, outside of [0, 1]"
    return "it was won without a turn" if played.won and not played.steps else ""


# ---------------------------------------------------------------- misalignment


class Evidence(Frozen):
    """Experiments behind a claim: how many agreed, how many did not, on how many tasks, and one that did not."""

    support: int = 0
    refuted: int = 0
    tasks: int = 0
    counterexample: str = ""

    @property
    def precision(self) -> float:
        """Share of the experiments that agreed; 0 where there was none."""
        total = self.support + self.refuted
        return self.support / total if total else 0.0


class Misalignment(Frozen):
    """A difference between what the agent expects of an action and what the environment does (ALIGN, figure 3).

    `detail` holds the same as JSON for the backend that found it to read back; it is empty where no backend needs it.
    """

    task_id: str
    action_type: str
    action: str
    intent: str
    rule: str
    sufficient_feedback: str
    kind: Literal["bug-of-current", "new-logic"] = "new-logic"
    evidence: Evidence = Evidence()
    detail: str = ""

    @property
    def text(self) -> str:
        """The kind of action and the rule, in one line."""
        return f"{self.action_type}: {self.rule}"

    @property
    def claim(self) -> str:
        """What makes two misalignments the same one: their text, however spaced and in whatever case."""
        return " ".join(self.text.lower().split())
