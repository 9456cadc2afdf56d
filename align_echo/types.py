"""Shared data types: task -> environment -> agent -> trajectory -> interface | report.

Frozen pydantic models and the two protocols (`ChatModel`, `Agent`) used by the rollout. No behaviour beyond derived
properties; nothing here knows an environment by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---------------------------------------------------------------- chat


class Tokens(Frozen):
    """Token ids of one call of a local model, never re-encoded from text.

    `context_ids` are the ids added to the conversation since the previous call (the whole prompt at the first call),
    `start` the length of the conversation before them. `sampled_ids` [T] are the sampled ids, including a sampled end
    token; `logprobs` [T] are their natural log-probabilities at the temperature of the call (1 for greedy decoding),
    before top-k and top-p.
    """

    start: int = 0
    context_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def end(self) -> int:
        """Length of the conversation in tokens after the call."""
        return self.start + len(self.context_ids) + len(self.sampled_ids)


NO_REPLY = "(no reply)"
"""Replacement of an empty reply in a history: endpoints refuse an assistant message without content."""


class ToolCall(Frozen):
    """A call of a tool by a model, with its arguments as JSON, and the id by which the answer names it."""

    name: str
    arguments: str
    id: str = ""


class Message(Frozen):
    """One message of a chat. `tokens` is the call of a local model that wrote it, if the text is unaltered.

    `call` is the tool call beside the content, or of the role "tool" the one that it answers. `tools` of the first
    message are the tools that the model may call, as JSON of OpenAI's API; "" for none.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tokens: Tokens | None = None
    call: ToolCall | None = None
    tools: str = ""

    @property
    def identity(self) -> list[object]:
        """Return what distinguishes the message from others, without its token ids."""
        call = [self.call.model_dump()] if self.call else []
        return [self.role, self.content, *call, *([self.tools] if self.tools else [])]


class Usage(Frozen):
    """Tokens and money spent: 0 if nothing was asked.

    None is unknown: tokens not reported by the server, or the cost of a model without a price. A sum with an unknown
    part is unknown too. Older versions wrote 0 for unknown. `local_tokens` of the tokens were those of local models,
    which cost nothing.
    """

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0
    local_tokens: int = 0

    def __add__(self, right: Usage) -> Usage:
        cost = None if self.cost_usd is None or right.cost_usd is None else self.cost_usd + right.cost_usd
        return Usage(
            prompt_tokens=_added(self.prompt_tokens, right.prompt_tokens),
            completion_tokens=_added(self.completion_tokens, right.completion_tokens),
            cost_usd=cost,
            local_tokens=self.local_tokens + right.local_tokens,
        )

    @property
    def tokens(self) -> int | None:
        """Prompt and completion tokens together."""
        return _added(self.prompt_tokens, self.completion_tokens)

    def lines(self, at_endpoints: str) -> list[str]:
        """Return what the user is told: what was spent `at_endpoints`, counted for all sessions and also for replies
        that came to nothing, and the tokens of local models; the summary if no endpoint was asked.
        """
        local = f"of local models: {self.local_tokens:,} tokens" if self.local_tokens else ""
        return [line for line in ((at_endpoints, local) if at_endpoints else (self.in_words,)) if line]

    @property
    def in_words(self) -> str:
        """Summary for the user, "tokens: 1,234; cost: $0.0123; of local models: 56 tokens"; "" for nothing."""
        local = [f"of local models: {self.local_tokens:,} tokens"] if self.local_tokens else []
        if self.tokens is not None and self.tokens <= self.local_tokens:
            return "".join(local)
        tokens = "not told by every reply" if self.tokens is None else f"{self.tokens - self.local_tokens:,}"
        cost = "not known" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        return "; ".join([f"tokens: {tokens}", f"cost: {cost}", *local])


def _added(count: int | None, second: int | None) -> int | None:
    return None if count is None or second is None else count + second


class Completion(Frozen):
    """A model's reply. `finish_reason` is "length" if the reply was cut off.

    `thinking` is the text in the field of the model's thinking, `thinking_tokens` their number if the endpoint counts
    them. `in_thinking`: the text stood in that field, and the reply had no other. `calls` are its tool calls; if they
    stood in the text, `beside` is the text without them.
    """

    text: str
    finish_reason: Literal["stop", "length"] = "stop"
    usage: Usage = Usage()
    cached: bool = False
    in_thinking: bool = False
    thinking: str = ""
    thinking_tokens: int | None = None
    calls: tuple[ToolCall, ...] = ()
    beside: str | None = None
    tokens: Tokens | None = None


class WordChoice(Frozen):
    """A model's choice of the next word, and the words' probabilities.

    `said` is the word that its most likely next token begins, None if it begins none of them. `logprobs` are the
    natural log-probabilities of the words, in order: -inf for a word less probable than everything listed by the
    endpoint, None if the model gives no probabilities. `models/drawing.py` defines the details for each model.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    said: str | None
    logprobs: tuple[float, ...] | None = None
    usage: Usage = Usage()
    cached: bool = False


@runtime_checkable
class Described(Protocol):
    """An object that can describe its parts, for run records and resuming.

    Keys: "model.<role>" a model's name, "base_url.<role>" its address, "weights.<role>" a hash of a local model's
    weights, "prompt.<role>/<name>" a prompt's hash; any other key is a setting.
    """

    def describe(self) -> dict[str, str]: ...


class ChatModel(Protocol):
    """A chat model. `complete` raises `ModelError` once its own retries are used up."""

    @property
    def name(self) -> str: ...

    def complete(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048
    ) -> Completion: ...


# ---------------------------------------------------------------- agent


def join_thinking(thinking: str, reply: str) -> str:
    """Return a reply as the model wrote it: with its thoughts, if they stood in its text."""
    inline = thinking.lstrip().startswith("<think>") or "</think>" in thinking
    return thinking + reply if inline else reply


class Turn(Frozen):
    """One exchange as seen by the agent: its reply and the observation. `thinking` and `call` are as in
    `AgentReply`.
    """

    reply: str
    action: str | None
    observation: str
    thinking: str = ""
    call: ToolCall | None = None
    tokens: Tokens | None = None


class AgentView(Frozen):
    """Everything an agent knows at a step. An agent is a function of it, so any state can be forked and replayed.

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
    """A candidate reply of an agent. `action` is None if it has none.

    `verdict` is the critic's verdict on the action: "neither" if it said neither word or broke, None if it was not
    asked. `p_correct` in [0, 1] is its probability that the action is correct, if available. `logprob` is the sum of
    the agent's own log-probabilities of the reply, if its model reports them.
    """

    action: str | None
    verdict: Literal["correct", "wrong", "neither"] | None = None
    p_correct: float | None = None
    logprob: float | None = None


class ChoiceCounts(Frozen):
    """Counts over choices: candidates, and distinct actions judged correct and wrong.

    `no_verdict` counts actions on which the critic broke or said neither word. If all candidates have the same action,
    it is judged only if it repeats an action that changed nothing: `repeated` counts such turns, `repeated_wrong`
    those with the verdict wrong and no alternative.
    """

    candidates: int = 0
    correct: int = 0
    wrong: int = 0
    no_verdict: int = 0
    repeated: int = 0
    repeated_wrong: int = 0

    def __add__(self, right: ChoiceCounts) -> ChoiceCounts:
        return ChoiceCounts(
            candidates=self.candidates + right.candidates,
            correct=self.correct + right.correct,
            wrong=self.wrong + right.wrong,
            no_verdict=self.no_verdict + right.no_verdict,
            repeated=self.repeated + right.repeated,
            repeated_wrong=self.repeated_wrong + right.repeated_wrong,
        )


class Choice(Frozen):
    """How a reply was chosen: all candidates in the order drawn, and the index of the chosen one, `taken`.

    `taken` is None if another agent's action was carried out (`critic/best_of.py`).
    """

    candidates: tuple[Candidate, ...]
    taken: int | None

    @property
    def counts(self) -> ChoiceCounts:
        """Counts of verdicts, one per distinct action."""
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
    """An agent's reply. `action` is None if the reply had no action; `problem` then describes the error.

    `thinking` holds the model's thoughts: those of its field at an endpoint, or those at the beginning of its text
    with their tags. `call` is the tool call behind the action; `text` is then what stood beside it. `tokens` is the
    single model call behind the reply; None if there were more, or the model gives no token ids. `cut_off`: the
    reply reached the model's token limit. `choice` is set for one of several candidates. `residue` names end tokens
    and invisible characters stripped from the reply before parsing. `verbatim`: the action is sent in the agent's
    own words, never in the spelling of a possible action.
    """

    text: str
    action: str | None
    thinking: str = ""
    call: ToolCall | None = None
    problem: str = ""
    verbatim: bool = False
    cut_off: bool = False
    residue: tuple[str, ...] = ()
    usage: Usage = Usage()
    tokens: Tokens | None = None
    choice: Choice | None = None


class Agent(Protocol):
    """A policy: a function from everything seen so far to the next reply. Raises `ModelError`."""

    @property
    def name(self) -> str: ...

    def act(self, view: AgentView) -> AgentReply: ...


# ---------------------------------------------------------------- trajectory


class Fault(Frozen):
    """A failure of the environment, the model, or the agent's own code (with the end of its `traceback`).

    A trajectory with a fault has no score and is counted separately.
    """

    source: Literal["environment", "model", "agent"]
    error: str
    message: str
    traceback: str = ""


class Violation(Frozen):
    """An engine call forbidden by the interface contract. It was refused."""

    action: str
    reason: str


class HintEvent(Frozen):
    """State of one rule of an interface on one turn; a rule is a kind of sentence that names commands.

    `fired`: such a hint was shown; under a placebo, other words stood in its place. `followed`: the action was the one
    named by the previous hint. `came_true`: the followed hint did or did not do what it promised, if this turn settled
    it. `silenced`: its words are withheld from here on or already were, about these objects or any. `weak`: it failed,
    but this says nothing against the rule: the agent named objects unknown to the engine, or it had failed on these
    objects before.
    """

    rule: str
    fired: bool = False
    followed: bool = False
    came_true: bool | None = None
    silenced: bool = False
    weak: bool = False


class Step(Frozen):
    """One turn of the agent.

    `observation` is the text shown to the agent; `raw_observation` is the engine's answer to the agent's own action,
    or None if the engine was not asked (the interface answered alone, or the reply had no action). `engine_calls`
    counts every engine call of the turn. `interface_error` says why the interface was bypassed on this turn, if it
    was. `forged` lists its false claims about the environment: "reward", "done". `hints`: the states of its hints.
    `cut_off`: the reply reached the model's token limit. `choice`: the reply was chosen among candidates. `residue`
    names end tokens and invisible characters stripped from the reply before parsing. `thinking` and `call` are as in
    `AgentReply`.
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
    thinking: str = ""
    call: ToolCall | None = None
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
    """The interface of an episode, by content. Both hashes are the same under any name.

    `source` is a hash of its code, `fingerprint` of everything that decides its texts.
    """

    source: str
    fingerprint: str
    placebo: bool = False


_IN_LABEL = re.compile(r"@(?P<source>[0-9a-f]{16})(?:-[\w.-]+)?(?: \(\d+\))?$")
"""Position of the source's hash in an interface's label."""


def source_in(label: str) -> str:
    """Extract the hash of an interface's source from its label, as older versions wrote it; "" for none."""
    written = _IN_LABEL.search(label)
    return written["source"] if written else ""


class Trajectory(Frozen):
    """One episode of one agent on one task with one interface ("none" is the raw environment).

    `interface` is a readable label; `played_under` identifies the interface, None for the raw environment and in files
    of older versions. `reset_error` says why the interface's rules are missing, if they are; `reset_violations` are
    forbidden calls at reset. `context_overflow` is True if the conversation exceeded the model's context and ended the
    episode: no fault. `sample` distinguishes episodes of one agent on one task. `agent_preset` names the preset of the
    agent's settings, "" for none. `ended_by_repeats` is True if repetitions of one action ended the episode.
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
        """True if the environment ended the episode."""
        return bool(self.steps) and self.steps[-1].terminated

    @property
    def truncated(self) -> bool:
        """True if the step limit, the model's context or an action's repetition ended the episode."""
        ended_here = self.context_overflow or self.ended_by_repeats
        return ended_here or (bool(self.steps) and self.steps[-1].truncated)

    @property
    def source(self) -> str:
        """Hash of its interface's code; "" for the raw environment."""
        return source_in(self.interface) if self.played_under is None else self.played_under.source

    @property
    def is_placebo(self) -> bool:
        """True if its interface was played as a placebo."""
        if self.played_under is not None:
            return self.played_under.placebo
        return bool(self.source) and self.interface.endswith("-placebo")

    @property
    def actions(self) -> tuple[str | None, ...]:
        """Actions of the agent in order; None for a reply without an action."""
        return tuple(step.action for step in self.steps)

    @property
    def usage(self) -> Usage:
        """Tokens and money of the whole episode."""
        return sum((step.usage for step in self.steps), Usage())


def impossible(trajectory: Trajectory) -> str:
    """Describe why no environment can have played this; "" if possible. For records from other sources."""
    for score in (trajectory.score, *(step.score for step in trajectory.steps)):
        if score < -1e-6 or score > 1 + 1e-6:
            return f"its score is {score:g}, outside of [0, 1]"
    return "it was won without a turn" if trajectory.won and not trajectory.steps else ""


# ---------------------------------------------------------------- misalignment


class Evidence(Frozen):
    """Experiments about a claim: the numbers that agreed and disagreed, their tasks, and a counterexample. `attacked`
    counts the tasks in which it withstood counter-experiments."""

    support: int = 0
    refuted: int = 0
    tasks: int = 0
    attacked: int = 0
    counterexample: str = ""

    @property
    def precision(self) -> float:
        """Share of the experiments that agreed; 0 if there are none."""
        total = self.support + self.refuted
        return self.support / total if total else 0.0


class Misalignment(Frozen):
    """A difference between the agent's expectation of an action and the environment's behaviour (ALIGN, figure 3).

    `detail` holds the same as JSON for the backend that created it; empty if no backend needs it.
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
        """Kind of action and rule, in one line."""
        return f"{self.action_type}: {self.rule}"

    @property
    def claim(self) -> str:
        """Normalised text, equal for equal misalignments regardless of spacing and case."""
        return " ".join(self.text.lower().split())
