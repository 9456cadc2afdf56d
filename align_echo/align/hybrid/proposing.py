"""What the model is shown, and the hypotheses that it proposes.

A model of whose replies none can be read is an error, never "nothing to propose": a resumed run asks it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from align_echo.align.experiments import clip, trajectory_text
from align_echo.align.hybrid.hypotheses import Hypothesis
from align_echo.align.hybrid.reading import Proposals, parse_hypotheses
from align_echo.align.llm.dialogue import Dialogue
from align_echo.align.llm.settings import LlmSettings
from align_echo.align.llm.text import looks_usage
from align_echo.errors import ModelError
from align_echo.interface import Interface
from align_echo.prompts import render
from align_echo.types import ChatModel, Trajectory

PROMPTS = ("analyzer/hypotheses_system", "analyzer/hypotheses")

EPISODES = 6
"""Failed episodes that the model is shown, spread over all of them."""

OPENINGS = 4
OPENING_CHARACTERS = 1500
"""Beginnings of tasks that no failure is shown of, so that claims can be tried there."""


def proposed(
    model: ChatModel,
    settings: LlmSettings,
    failed: Sequence[Trajectory],
    openings: Sequence[tuple[str, str]],
    shown_already: Sequence[str],
    interface: Interface,
    action_format: str,
    note: Callable[[str], None],
) -> tuple[Hypothesis, ...]:
    """The hypotheses of one request, with a note of each that could not be read. `openings` are task ids with how those
    tasks begin. Raises `ModelError`."""
    chosen = failed[:: -(-len(failed) // EPISODES)]
    system = render(
        "analyzer/hypotheses_system",
        {
            "environment": interface.contract.environment,
            "action_format": action_format,
            "signature": f"The rules will be told to agents by two functions, {interface.contract.signature}.",
            "looks": looks_usage(interface),
        },
    )
    values = {
        "episodes": [
            {
                "task_id": episode.task_id,
                "goal": episode.goal,
                "log": trajectory_text(episode, settings.episode_characters),
            }
            for episode in chosen
        ],
        "openings": [{"task_id": task_id, "text": clip(text, OPENING_CHARACTERS)} for task_id, text in openings],
        "known": "\n".join(f"- {text}" for text in dict.fromkeys(shown_already)) or "nothing yet",
    }
    prompt = render("analyzer/hypotheses", values)
    tasks = {*(episode.task_id for episode in chosen), *(task_id for task_id, _ in openings)}
    dialogue = Dialogue(model, system, temperature=settings.analyzer_temperature, max_tokens=settings.max_tokens)

    def parse(reply: str) -> Proposals:
        return parse_hypotheses(reply, tasks, prompt)

    try:
        proposals = dialogue.ask(prompt, parse, tries=settings.format_tries)
    except ModelError as error:
        raise type(error)(f"proposing hypotheses broke: {error}") from error
    for reason in proposals.unread:
        note(f"a hypothesis was left out, since it could not be read: {reason}")
    return proposals.hypotheses
