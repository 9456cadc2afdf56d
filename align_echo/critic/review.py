"""Ask a language critic about one attempt, and parse its reply strictly.

An unreadable reply is recorded with its problem, never guessed at. Not here: prompt and parsing
(`align_echo.critic.language`), and the reward of a critique (`align_echo.train.rewards`).
"""

from __future__ import annotations

from align_echo.agents.parsing import uncut_text
from align_echo.critic.language import ECHO, Critique, CritiqueForm
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError
from align_echo.models.drawing import model_for_sample
from align_echo.types import ChatModel, Fault, Frozen, Tokens, Trajectory, Usage

MAX_TOKENS = 256


class CriticReview(Frozen):
    """A critic's review of an attempt. `critique` is None without a readable critique, and `problem` says why. `cut` is
    set if the reply reached its token limit.

    `fault` is set if the critic's model failed; there is then no reply to train on.
    """

    form: str
    sample: int = 0
    reply: str = ""
    critique: Critique | None = None
    problem: str = ""
    cut: bool = False
    fault: Fault | None = None
    usage: Usage = Usage()
    tokens: Tokens | None = None

    @property
    def advice(self) -> str:
        """Return the text for the agent before its next attempt; "" without a critique."""
        return self.critique.advice if self.critique else ""


def review(
    model: ChatModel,
    attempt: Trajectory,
    form: CritiqueForm = ECHO,
    *,
    sample: int = 0,
    temperature: float = 1.0,
    max_tokens: int = MAX_TOKENS,
) -> CriticReview:
    """Ask once about an attempt. `sample` seeds repeated critiques of it.

    Raises `UsageError` for an attempt without a score (see `CritiqueForm`).
    """
    question = form.ask(attempt)
    try:
        completion = model_for_sample(model, sample).complete(question, temperature=temperature, max_tokens=max_tokens)
    except ContextOverflowError as error:
        return CriticReview(form=form.name, sample=sample, problem=str(error))
    except ModelError as error:
        fault = Fault(source="model", error=type(error).__name__, message=str(error))
        return CriticReview(form=form.name, sample=sample, problem=str(error), fault=fault)
    critique, problem = None, ""
    try:
        critique = form.read(uncut_text(completion, max_tokens))
    except ReplyFormatError as error:
        problem = str(error)
    return CriticReview(
        form=form.name,
        sample=sample,
        reply=completion.text,
        critique=critique,
        problem=problem,
        cut=completion.finish_reason == "length",
        usage=completion.usage,
        tokens=completion.tokens,
    )
