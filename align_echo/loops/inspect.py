"""Episodes as a task of inspect_ai: its models play, its logs keep what was said, the environment says what it earned.

    from inspect_ai import task
    from align_echo.loops.inspect import episodes

    @task
    def alfworld():
        return episodes("alfworld", tasks=6, interface="probe")

`inspect eval` of a file with these lines plays them, and `inspect eval align_echo/episodes -T env=alfworld` without
one. A sample is a task, its epoch an episode on it; its prompt and the reading of replies are those of an agent of
align-echo. Scored are "success" (0 or 1), "score" (the environment's own) and "truncated" (0 or 1: the step limit, the
model's context or a limit of inspect ended it). An episode that broke is an error of its sample and has no score;
`--retry-on-error` plays it anew. The whole `Trajectory` is in the sample's store as "trajectory".

Left out: token ids, which inspect's models do not give, tools, and agents that ask several times a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from align_echo import __version__
from align_echo.agents.conversation import MAX_TOKENS
from align_echo.errors import AlignEchoError, MissingExtraError, ModelError, ReplyWithheldError, first_line
from align_echo.interface import Interface
from align_echo.loops.driving import TaskPanel, end_of
from align_echo.session import Episode, Session
from align_echo.types import Message, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

try:
    import inspect_ai
    from anyio.to_thread import run_sync
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        ModelOutput,
    )
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.util import LimitExceededError
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("inspect_ai", "anyio"):
        raise
    raise MissingExtraError("a task of inspect_ai", "inspect") from None

TRAJECTORY = "trajectory"
"""The key of the whole episode in a sample's store, as the JSON of a `Trajectory`."""

FIGURES = ("success", "score", "truncated")


@inspect_ai.task
def episodes(
    env: str | EnvironmentSpec,
    split: str | None = None,
    tasks: int | str | Sequence[str] | None = None,
    interface: str | Path | Interface | None = None,
    agent: str = "vanilla",
    data_root: str | Path | None = None,
    step_limit: int | None = None,
    seed: int = 0,
) -> Task:
    """A task of inspect_ai over tasks of an environment; the arguments are those of `TaskPanel.of`.

    Temperature 0 and `MAX_TOKENS` a reply, as in `align-echo evaluate`, unless `inspect eval` is told otherwise. Raises
    `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
    """
    panel = TaskPanel.of(
        env,
        split=split,
        tasks=tasks,
        interface=interface,
        agent=agent,
        data_root=data_root,
        step_limit=step_limit,
        seed=seed,
    )
    samples = [Sample(id=task, input=task, metadata={"task_type": panel.spec.task_type(task)}) for task in panel.tasks]
    return Task(
        dataset=MemoryDataset(samples, name=panel.spec.name, location=panel.split),
        solver=play(panel),
        scorer=reward(),
        config=GenerateConfig(temperature=0.0, max_tokens=MAX_TOKENS),
        fail_on_error=False,
        metadata={**panel.about, "align_echo": __version__},
    )


# ---------------------------------------------------------------- playing


@solver
def play(panel: TaskPanel) -> Solver:
    """Plays a sample's task to its end with the model of the evaluation."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        session = await run_sync(partial(panel.open, agent=f"{panel.agent.name}({state.model})"))
        try:
            await _drive(panel, session, state, generate)
        finally:
            await run_sync(session.close)
        return state

    return solve


async def _drive(panel: TaskPanel, session: Session, state: TaskState, generate: Generate) -> None:
    """Play an episode. What breaks is raised; whatever happens, the store holds the episode so far."""
    try:
        await run_sync(session.reset, Episode(str(state.sample_id), sample=state.epoch - 1))
        while not session.over:
            state.messages = _chat(panel.messages(session.view), state.messages)
            state = await generate(state, tool_calls="none")
            if state.output.stop_reason == "model_length":
                session.overflow()
                continue
            cut_off = state.output.stop_reason == "max_tokens"
            reply = panel.reply(session.view, _said(state.output), cut_off=cut_off)
            await run_sync(session.act, reply)
    except ModelError as error:
        session.fail(error)
        raise
    except (AlignEchoError, LimitExceededError):
        raise
    except Exception as error:
        session.fail(ModelError(first_line(error)))
        raise
    finally:
        state.store.set(TRAJECTORY, session.trajectory().model_dump(mode="json"))


def _said(output: ModelOutput) -> str:
    """The text of a model's answer. Raises `ModelError` for an answer that is none."""
    if output.error or not output.choices:
        raise ModelError(output.error or "the model gave no answer")
    if output.stop_reason == "content_filter":
        raise ReplyWithheldError("the model's answer was filtered")
    return output.completion


def _chat(messages: Sequence[Message], before: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The conversation in inspect's words. What was sent or received before is kept as it is where it says the same:
    an assistant's message may hold reasoning that its provider wants back."""
    known: dict[int, ChatMessage] = dict(enumerate(before))
    kinds: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    chat = []
    for index, message in enumerate(messages):
        old = known.get(index)
        same = old is not None and old.role == message.role and old.text.strip() == message.content.strip()
        chat.append(old if old is not None and same else kinds[message.role](content=message.content))
    return chat


# ---------------------------------------------------------------- scoring


@scorer(metrics={name: [mean(), stderr()] for name in FIGURES})
def reward() -> Scorer:
    """What the environment said of the episode; nothing for one that broke."""

    async def score(state: TaskState, target: Target) -> Score:
        kept = state.store.get(TRAJECTORY)
        played = Trajectory.model_validate(kept) if kept else None
        if played is None or played.fault is not None:
            return Score.unscored(explanation="the episode broke")
        end = end_of(played)
        figures = {"success": float(played.won), "score": played.score, "truncated": float(end == "truncated")}
        last = played.actions[-1] if played.actions else None
        return Score(
            value=figures, answer=last, explanation=f"{end} after {len(played.steps)} turns", metadata={"end": end}
        )

    return score
