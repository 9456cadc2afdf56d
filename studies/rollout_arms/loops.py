"""Two arms: this package's rollout, and the loop that computes every whole conversation anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from align_echo.models import ScriptedModel
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.rollout import run_tasks
from align_echo.session import extend, take_turn
from align_echo.types import AgentView, Message
from align_echo.wrappers.text_env import TextEnv
from studies.rollout_arms.setting import (
    CONTEXT,
    SPEC,
    SPLIT,
    Played,
    Setting,
    Watch,
    begin,
    copy_of,
    make,
    player,
    sampling,
)


class Ours:
    """`run_tasks` on the engine, as every command and trainer of this package rolls out."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._encoder = ChatEncoder(setting.tokenizer)
        if setting.fixed:
            self._encoder.stop_ids = ()
        self._engine = TransformersEngine(
            copy_of(setting.model), name="ours", decode=self._encoder.text, slots=setting.batch, context=CONTEXT
        )

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        agent = player(self._setting, LocalModel(self._engine, self._encoder, seed=seed))
        watch = Watch()
        played = run_tasks(
            partial(make, self._setting.turns),
            agent,
            tasks,
            split=SPLIT,
            action_format=SPEC.action_format,
            workers=self._setting.batch,
        )
        spent = watch.read()
        assert not any(trajectory.fault or trajectory.context_overflow for trajectory in played), (
            "an episode did not end by itself"
        )
        tokens = sum(trajectory.usage.completion_tokens or 0 for trajectory in played)
        return Played(*spent, tokens, len(played), sum(len(trajectory.steps) for trajectory in played))


@dataclass
class Seat:
    """One conversation of the prefill loop."""

    env: TextEnv
    view: AgentView
    ids: list[int]
    over: bool = False


class Prefill:
    """Each turn, the whole conversations through `generate`."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._model: Any = copy_of(setting.model)
        self._encoder = ChatEncoder(setting.tokenizer)
        self._agent = player(setting, ScriptedModel([]))
        self._envs = [make(setting.turns) for _ in range(setting.batch)]

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        torch.manual_seed(seed)
        tokens = replies = 0
        watch = Watch()
        for first in range(0, len(tasks), self._setting.batch):
            seats = [
                self._seat(*pair) for pair in zip(self._envs, tasks[first : first + self._setting.batch], strict=False)
            ]
            while playing := [seat for seat in seats if not seat.over]:
                drawn = self._generate([seat.ids for seat in playing])
                for seat, reply in zip(playing, drawn, strict=True):
                    self._turn(seat, reply)
                    tokens += len(reply)
                replies += len(playing)
        return Played(*watch.read(), tokens, len(tasks), replies)

    def _seat(self, env: TextEnv, task: str) -> Seat:
        view = begin(env, task)
        return Seat(env, view, list(self._encoder.opening(self._agent.conversation(view))))

    def _generate(self, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The replies' ids, each up to its end token."""
        longest, pad = max(map(len, contexts)), self._setting.tokenizer.pad_token_id
        rows = [[pad] * (longest - len(context)) + list(context) for context in contexts]
        mask = [[0] * (longest - len(context)) + [1] * len(context) for context in contexts]
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=torch.tensor(rows),
                attention_mask=torch.tensor(mask),
                **sampling(self._setting),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                pad_token_id=pad,
                eos_token_id=list(self._encoder.stop_ids),
            )
        drawn = out[:, longest:].tolist()
        return [row if self._setting.fixed else until(row, self._encoder.stop_ids) for row in drawn]

    def _turn(self, seat: Seat, reply: list[int]) -> None:
        step = take_turn(seat.env, self._agent.acted(self._encoder.text(reply), seat.view))
        seat.view = extend(seat.view, step)
        seat.over = step.terminated or step.truncated
        closed = reply[-1] in self._encoder.stop_ids
        seat.ids += [*reply, *self._encoder.continuation([Message(role="user", content=step.observation)], closed)]


def until(row: list[int], stop_ids: Sequence[int]) -> list[int]:
    """A row up to its first end token."""
    end = next((index + 1 for index, token in enumerate(row) if token in stop_ids), len(row))
    return row[:end]
