"""Episodes as a task of inspect_ai: its models play, its logs record the conversation, the environment gives the
score.

    from inspect_ai import task
    from align_echo.loops.inspect import episodes

    @task
    def alfworld():
        return episodes("alfworld", tasks=6, interface="probe")

Run it with `inspect eval` on a file with these lines, or without a file: `inspect eval align_echo/episodes -T
env=alfworld`. A sample is a task, an epoch is an episode on it. The prompt and the parser of replies are those of an
align-echo agent. Scores: "success" (0 or 1), "score" (the environment's) and "truncated" (0 or 1: the step limit, the
model's context or a limit of inspect ended it). An episode that broke is an error of its sample and has no score;
`--retry-on-error` plays it again. The full `Trajectory` is in the sample's store as "trajectory".

Not here: token ids, which inspect's models do not return, tools, and agents that call their model more than once per
turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from align_echo.agents.conversation import MAX_TOKENS
from align_echo.errors import AlignEchoError, MissingExtraError, ModelError, ReplyWithheldError, first_line
from align_echo.interface.contract import Interface
from align_echo.loops.driving import TaskPanel, classify_end
from align_echo.rollout.session import Episode, Session
from align_echo.types import Message, Trajectory
from align_echo.version import __version__
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
"""Key of the full episode in a sample's store, as the JSON of a `Trajectory`."""

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
    """Build a task of inspect_ai over tasks of an environment. The arguments are those of `TaskPanel.build`.

    Uses temperature 0 and `MAX_TOKENS` per reply, as `align-echo evaluate` does, unless `inspect eval` sets them.
    Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
    """
    panel = TaskPanel.build(
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
    """Play a sample's task to its end with the model under evaluation."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        session = await run_sync(partial(panel.open, agent=f"{panel.agent.name}({state.model})"))
        try:
            await _drive(panel, session, state, generate)
        finally:
            await run_sync(session.close)
        return state

    return solve


async def _drive(panel: TaskPanel, session: Session, state: TaskState, generate: Generate) -> None:
    """Play an episode. Exceptions propagate; in every case the store holds the episode so far."""
    try:
        await run_sync(session.reset, Episode(str(state.sample_id), sample=state.epoch - 1))
        while not session.over:
            state.messages = _chat(panel.messages(session.view), state.messages)
            state = await generate(state, tool_calls="none")
            if state.output.stop_reason == "model_length":
                session.overflow()
                continue
            cut_off = state.output.stop_reason == "max_tokens"
            reply = panel.reply(session.view, _reply_text(state.output), cut_off=cut_off)
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


def _reply_text(output: ModelOutput) -> str:
    """Return the text of a model's answer. Raises `ModelError` if there is no usable answer."""
    if output.error or not output.choices:
        raise ModelError(output.error or "the model gave no answer")
    if output.stop_reason == "content_filter":
        raise ReplyWithheldError("the model's answer was filtered")
    return output.completion


def _chat(messages: Sequence[Message], before: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Convert the conversation to inspect's messages.

    Earlier messages with the same text are reused as they are: an assistant's message may hold reasoning that its
    provider wants back.
    """
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
    """Score an episode with the environment's figures; leave it unscored if it broke."""

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(TRAJECTORY)
        trajectory = Trajectory.model_validate(stored) if stored else None
        if trajectory is None or trajectory.fault is not None:
            return Score.unscored(explanation="the episode broke")
        end = classify_end(trajectory)
        figures = {"success": float(trajectory.won), "score": trajectory.score, "truncated": float(end == "truncated")}
        last = trajectory.actions[-1] if trajectory.actions else None
        return Score(
            value=figures, answer=last, explanation=f"{end} after {len(trajectory.steps)} turns", metadata={"end": end}
        )

    return score
