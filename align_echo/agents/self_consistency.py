"""Self-consistency agent (Wang et al., ICLR 2023; arXiv 2203.11171): the most frequent action of n samples.

Every turn the vanilla agent's prompt is answered n times at a temperature. Each answer is parsed strictly, and the
actions are counted as they are written; a tie goes to the action sampled first. n calls a turn. The method's own
temperature is 0.7 (its section 3.1, the larger models). It draws 40 samples of one answer; the default here is 5 a
turn. Samples hold no reasoning, so that this agent differs from the vanilla agent by the vote alone.

The reply's text is the action and a line with all votes ("votes: 3 look | 1 go to desk 1 | 1 without an action"). If no
sample holds an action, the text is the first sample's.
"""

from __future__ import annotations

from collections import Counter

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, action_or_reply
from align_echo.agents.parsing import parse_action
from align_echo.errors import UsageError
from align_echo.models.drawing import model_for_sample
from align_echo.types import AgentReply, AgentView, ChatModel, Turn, Usage


class SelfConsistency(ChatAgent):
    """A chat model sampled several times; the most frequent action wins."""

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
        """Add the number of samples."""
        return {**super().describe(), "samples": str(self._samples)}

    def act(self, view: AgentView) -> AgentReply:
        """Return the action with the most votes; `usage` sums over all samples. Raises `ModelError`."""
        messages = self.conversation(view)
        first = self._sample * self._samples
        models = [model_for_sample(self._model, first + sample) for sample in range(self._samples)]
        replies = [self.ask(messages, view, model=model) for model in models]
        return vote(replies)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action of one sample with `parse_action`."""
        return parse_action(reply, view)

    def history_text(self, turn: Turn) -> str:
        """Return the chosen action."""
        return action_or_reply(turn)


def vote(replies: list[AgentReply]) -> AgentReply:
    """Count the actions of at least one reply and return the most frequent."""
    usage = sum((reply.usage for reply in replies), Usage())
    votes = Counter(reply.action for reply in replies if reply.action is not None)
    if not votes:
        problem = f"none of {len(replies)} samples holds exactly one action; of the first: {replies[0].problem}"
        return AgentReply(text=replies[0].text, action=None, problem=problem, usage=usage)
    ranked = votes.most_common()  # equal counts stay in order of first appearance
    lost = len(replies) - votes.total()
    counted = [f"{count} {action}" for action, count in ranked] + ([f"{lost} without an action"] if lost else [])
    action, verbatim = ranked[0][0], replies[0].verbatim
    return AgentReply(text=f"{action}\nvotes: {' | '.join(counted)}", action=action, verbatim=verbatim, usage=usage)
