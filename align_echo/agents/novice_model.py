"""Scripted chat model, NOT a language model, to rehearse a run offline without an endpoint or a key.

Its scores say nothing about any language model. It reads the messages back into an `AgentView` (the inverse of
`ChatAgent.conversation`) and refuses prompts of anything but align-echo's own agents. Behaviour:

- asked for an action, it gives the action of the environment's scripted novice, in the requested form. The thought is a
  fixed sentence; the plan is one sub-goal, the task itself. Neither affects its actions.
- asked for a plan alone, it gives the task; asked for the final action, it objects or not as in a review.
- asked to review an action, it objects with probability `OBJECTS` if that action was sent before in the episode and its
  observation was also that of another turn; never otherwise. Asked for a better action, it gives the first new one
  among those of novices with other seeds.
- at a temperature t above 0, with probability min(t, 1) a novice of another seed answers. All chance is a hash of
  seed, sample number and messages: the same request and sample (`with_sample`) get the same answer in every process.

The prompts do not carry the task's id; a hash of the opening stands for it. Usage is zero: it has no tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.novices import make_novice
from align_echo.agents.reasoning import Planning, ReAct, Vanilla, ask_for, find_plan
from align_echo.errors import ModelError, ReplyFormatError, UsageError
from align_echo.models.choosing import scripted_name
from align_echo.prompts import render
from align_echo.types import NO_REPLY, AgentView, ChatModel, Completion, Message, Turn

OBJECTS = 0.5
OTHER_SEEDS = 8
"""Novices of other seeds to ask for a better action before giving the first one again."""


class NoviceModel:
    """The scripted novice of an environment as a `ChatModel`. It needs no endpoint, no key and no network."""

    def __init__(self, environment: str, kind: str = "novice", *, seed: int = 0, sample: int = 0) -> None:
        """Raises `UsageError` for an environment without a scripted novice."""
        try:
            make_novice(environment, kind, seed=seed)
        except UsageError:
            raise UsageError(
                f"the agent asks a model, and there is no scripted {kind} for {environment}: name a model with --model"
            ) from None
        self._environment = environment
        self._kind = kind
        self._seed = seed
        self._sample = sample
        self._agents: tuple[ChatAgent, ...] = (Vanilla(self), ReAct(self), Planning(self))

    @property
    def name(self) -> str:
        """Return the kind, marked as a script and not a language model."""
        return scripted_name(self._kind)

    @property
    def identity(self) -> str:
        """Return name, environment and seed, to distinguish its replies from those of other models."""
        return f"{self.name}, {self._environment}, seed {self._seed}"

    def with_sample(self, sample: int) -> ChatModel:
        """Copy the model for another draw of the same request."""
        return NoviceModel(self._environment, self._kind, seed=self._seed, sample=sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Answer a prompt of an align-echo agent; `max_tokens` is ignored. Raises `ModelError` for any other prompt."""
        request = read_request(messages, self._agents)
        if request.wanted == "plan":
            return Completion(text=f"Plan: {_task(request.view)}")
        digest = _digest(*(f"{message.role}\n{message.content}" for message in messages))
        if request.wanted == "critique":
            return Completion(text=self._review(request, digest))
        if request.wanted == "refine":
            return Completion(text=self._another(request, digest))
        if request.wanted == "final":
            keeps_action = self._review(request, digest).endswith("keep")
            final = request.proposals[-1] if keeps_action else self._another(request, digest)
            return Completion(text=f"Thought: none; this is a script.\nFinal Action: {final}")
        use_other_seed = temperature > 0 and self._draw("other", digest) < temperature
        action = self._action(request.view, self._other_seed(digest) if use_other_seed else self._seed)
        return Completion(text=_in_form(action, request))

    def _action(self, view: AgentView, seed: int) -> str:
        reply = make_novice(self._environment, self._kind, seed=seed).act(view)
        return reply.action or reply.text

    def _review(self, request: NoviceRequest, digest: str) -> str:
        proposed, turns = request.proposals[-1], request.view.turns
        answers = [turn.observation for turn in turns]
        repeats_failure = any(turn.action == proposed and answers.count(turn.observation) > 1 for turn in turns)
        if repeats_failure and self._draw("object", digest) < OBJECTS:
            return "This was sent before and got an answer that other turns got too.\nVerdict: change"
        return "The scripted novice has no objection.\nVerdict: keep"

    def _another(self, request: NoviceRequest, digest: str) -> str:
        for number in range(OTHER_SEEDS):
            action = self._action(request.view, self._other_seed(digest, number))
            if action not in request.proposals:
                return action
        return request.proposals[-1]

    def _draw(self, *parts: object) -> float:
        """Draw a number in [0, 1)."""
        return int(_digest(self._seed, self._sample, *parts)[:12], 16) / 16**12

    def _other_seed(self, *parts: object) -> int:
        return int(_digest("seed", self._seed, self._sample, *parts)[:8], 16)


# ---------------------------------------------------------------- reading the messages


@dataclass(frozen=True)
class NoviceRequest:
    """What the messages ask for: "action", "plan", "critique", "refine" or "final", and the proposals so far in this
    turn.
    """

    view: AgentView
    agent: ChatAgent
    wanted: str = "action"
    proposals: tuple[str, ...] = ()


def read_request(messages: Sequence[Message], agents: Sequence[ChatAgent]) -> NoviceRequest:
    """Recover the request behind messages written by one of `agents`. Raises `ModelError` for any other messages."""
    reviews = {ask_for(step).content: step for step in ("critique", "refine", "final")}
    chat, proposals, wanted = list(messages), [], "action"
    while len(chat) > 3 and chat[-1].content in reviews:
        step = reviews[chat[-1].content]
        wanted = step if wanted == "action" else wanted
        if step != "refine":
            proposals.append(chat[-2].content.strip())
        chat = chat[:-2]
    if chat and chat[-1].content.endswith(render("planning/first", {})):
        wanted = "plan"
    for agent in agents:
        view = read_view(chat, agent)
        if view is not None:
            return NoviceRequest(view, agent, wanted, tuple(reversed(proposals)))
    raise ModelError("the scripted novice, which is no language model, reads only the prompts of align-echo's agents")


def read_view(messages: Sequence[Message], agent: ChatAgent) -> AgentView | None:
    """Recover the view behind the messages of `agent`; None if `agent` did not write them.

    Prompts do not carry the task's id, surrounding whitespace, or text that the history leaves out. Texts are assumed
    not to hold the prompts' own headings.
    """
    if len(messages) < 2 or len(messages) % 2 or messages[0].role != "system":
        return None
    up_front = _read_system_message(messages[0].content, agent.prompts[0])
    contents = [message.content for message in messages[1:]]
    if isinstance(agent, Planning):
        contents = [content.removesuffix(f"\n\n{render('planning/ask', {})}") for content in contents]
    contents = _without_plan_call(contents)
    opening = _literals("shared/start", {"initial_observation": _BLANK, "goal": _BLANK, "critique": ""})
    start = _between(contents[0], opening)
    if up_front is None or start is None:
        return None
    view = AgentView(
        task_id=f"opening-{_digest(contents[0])[:16]}",
        action_format=up_front[0],
        goal=start[1],
        rules=up_front[1],
        initial_observation=start[0],
    )
    for reply, observation in zip(contents[1::2], contents[2::2], strict=True):
        reply = "" if reply == NO_REPLY else reply
        turn = Turn(reply=reply, action=_read(agent, reply, view), observation=observation)
        view = view.model_copy(update={"turns": (*view.turns, turn)})
    return view


def _without_plan_call(contents: Sequence[str]) -> list[str]:
    """Remove a separate plan call from the texts of a chat."""
    asking, begin = f"\n\n{render('planning/first', {})}", render("planning/begin", {})
    start, *rest = contents
    if start.endswith(asking) and rest[1:2] == [begin]:
        rest = rest[2:]
    return [start.removesuffix(asking), *rest]


def _read(agent: ChatAgent, reply: str, view: AgentView) -> str | None:
    try:
        return agent.read(reply, view)
    except ReplyFormatError:
        return None


def _read_system_message(system: str, prompt: str) -> tuple[str, str] | None:
    """Extract action format and rules from a system message; None if it does not match the template."""
    with_rules = _between(system, _literals(prompt, {"action_format": _BLANK, "rules": _BLANK}))
    if with_rules is not None:
        return with_rules[0], with_rules[1]
    without = _between(system, _literals(prompt, {"action_format": _BLANK, "rules": ""}))
    return None if without is None else (without[0], "")


_BLANK = "\0"


def _literals(prompt: str, values: dict[str, str]) -> list[str]:
    """Split a rendered template into its fixed texts around the blanks."""
    return render(prompt, values).split(_BLANK)


def _between(text: str, literals: list[str]) -> list[str] | None:
    """Extract the values in a template's blanks; None if the text does not match the template."""
    first, *rest = literals
    if not text.startswith(first) or not text.endswith(rest[-1]):
        return None
    filled, text = [], text[len(first) : len(text) - len(rest[-1])]
    for literal in rest[:-1]:
        value, separator, text = text.partition(literal)
        if not separator:
            return None
        filled.append(value)
    return [*filled, text]


# ---------------------------------------------------------------- answering


def _in_form(action: str, request: NoviceRequest) -> str:
    """Wrap an action in the form the prompt asks for."""
    if isinstance(request.agent, ReAct):
        return f"Thought: none; this is a script, not a language model.\nAction: {action}"
    if isinstance(request.agent, Planning):
        plan = "" if find_plan(request.view) else f"Plan:\n1. {_task(request.view)}\n"
        return f"{plan}Sub-goal: 1\nAction: {action}"
    return action


def _task(view: AgentView) -> str:
    """Return the task on one line."""
    return " ".join(view.goal.split()) or "the task"


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
