"""What the tests of the critics share: steps, an attempt, a model, and texts that try to pass for tags."""

from __future__ import annotations

from hypothesis import strategies as st

from align_echo.critic.language import TAGS
from align_echo.types import Completion, Step, Trajectory

ATTEMPT = Trajectory(
    environment="rooms",
    split="train",
    task_id="t",
    agent="a",
    goal="find the mug",
    rules="Doors must be opened.",
    initial_observation="You are in the hall.",
    score=0.5,
)


def steps(*turns: tuple[str | None, str]) -> tuple[Step, ...]:
    """Steps of (action, observation)."""
    return tuple(
        Step(reply=action or "?", action=action, observation=seen, raw_observation=seen) for action, seen in turns
    )


def attempt(*turns: tuple[str | None, str], score: float = 0.5) -> Trajectory:
    """`ATTEMPT` with turns."""
    return ATTEMPT.model_copy(update={"steps": steps(*turns), "score": score})


class Answering:
    """A model that always does the same: gives an answer, or breaks."""

    name = "answering"

    def __init__(self, answer: Completion | Exception) -> None:
        self._answer = answer

    def complete(self, messages: object, *, temperature: float, max_tokens: int = 1) -> Completion:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


tags = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["<", "< ", "</", "< /", "<\n/ "]),
    st.sampled_from(TAGS),
    st.sampled_from(["", " ", ' x="1"', "s"]),
    st.sampled_from(["", "/"]),
    st.sampled_from([">", " >", ""]),
)
hostile = st.lists(
    st.one_of(tags, tags.map(str.upper), st.sampled_from(["<", "</", ">", "response>", "feedback", " "]), st.text()),
    max_size=6,
).map("".join)
"""Texts full of tags, whole and in pieces."""
