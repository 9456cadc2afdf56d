"""The self-consistency agent (Wang et al., ICLR 2023; arXiv 2203.11171): the action that most of n samples name.

Every turn the vanilla agent's prompt is answered n times at a temperature, each answer is read strictly, and the votes
are counted over the actions as they are written; a tie goes to the action that was sampled first. n calls a turn.
The method's own temperature is 0.7 (its section 3.1, the larger models); it draws 40 samples of one answer, here the
default is 5 a turn. Left out: reasoning inside a sample, so that this agent differs from the vanilla one by the vote.

The reply's text is the action and a line with all votes ("votes: 3 look | 1 go to desk 1 | 1 without an action"). If no
sample holds an action, the text is the first sample's.
"""

from __future__ import annotations

from collections import Counter

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, action_alone
from align_echo.agents.parsing import parse_action
from align_echo.errors import UsageError
from align_echo.models.drawing import sample_of
from align_echo.types import AgentReply, AgentView, ChatModel, Turn, Usage


class SelfConsistency(ChatAgent):
    """A chat model that is asked several times; the action named most often is taken."""

    kind = "self-consistency"
    prompts = ("vanilla/system",)

    def __init__(
        self,
        model: ChatModel,
        *,
        samples: int = 5,
        temperature: float = 0.7,
        max_tokens: int = MAX_TOKENS,
        raw_replies: bool = False,
    ) -> None:
        """Raises `UsageError` for fewer than one sample."""
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, raw_replies=raw_replies)
        if samples < 1:
            raise UsageError(f"samples must be at least 1, not {samples}")
        self._samples = samples

    def describe(self) -> dict[str, str]:
        """Also how many samples."""
        return {**super().describe(), "samples": str(self._samples)}

    def act(self, view: AgentView) -> AgentReply:
        """The action with the most votes; `usage` is that of all samples. Raises `ModelError`."""
        messages = self.conversation(view)
        first = self._sample * self._samples
        models = [sample_of(self._model, first + sample) for sample in range(self._samples)]
        drawn = [self.ask(messages, view, model=model) for model in models]
        return vote(drawn)

    def read(self, reply: str, view: AgentView) -> str:
        """The action of one sample, by `parse_action`."""
        return parse_action(reply, view)

    def told(self, turn: Turn) -> str:
        """The action that was chosen."""
        return action_alone(turn)


def vote(drawn: list[AgentReply]) -> AgentReply:
    """What comes of the samples, at least one."""
    usage = sum((reply.usage for reply in drawn), Usage())
    votes = Counter(reply.action for reply in drawn if reply.action is not None)
    if not votes:
        problem = f"none of {len(drawn)} samples holds exactly one action; of the first: {drawn[0].problem}"
        return AgentReply(text=drawn[0].text, action=None, problem=problem, usage=usage)
    ranked = votes.most_common()  # equal counts stay in the order in which they were first met
    lost = len(drawn) - votes.total()
    counted = [f"{count} {action}" for action, count in ranked] + ([f"{lost} without an action"] if lost else [])
    action, verbatim = ranked[0][0], drawn[0].verbatim
    return AgentReply(text=f"{action}\nvotes: {' | '.join(counted)}", action=action, verbatim=verbatim, usage=usage)
