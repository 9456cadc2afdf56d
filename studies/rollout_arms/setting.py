"""What all arms share: the model, the agent, the environments, and what an arm reports."""

from __future__ import annotations

import copy
import re
import time
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

import align_echo
from align_echo.agents.reasoning import Vanilla
from align_echo.models import ScriptedModel
from align_echo.session import base_env, extend, start_view, take_turn
from align_echo.train.sft import Demonstration
from align_echo.types import AgentReply, AgentView, Completion
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from studies.pocket.build import PocketSettings, new_model
from studies.pocket.tokenizer import train_tokenizer

SPEC = environment("alfworld")
SPLIT = "train"
CONTEXT = 4096


@dataclass(frozen=True)
class Setting:
    """What all arms share. `fixed`: every reply has exactly `reply_tokens` tokens, and actions are a walk."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    fixed: bool
    batch: int
    turns: int
    reply_tokens: int
    processes: int = 2


@dataclass(frozen=True)
class Played:
    """What an arm did in a round. `replies` is how many times the model answered, `cpu` the CPU seconds it took,
    `busiest` those of the process that took most, where there were several."""

    seconds: float
    cpu: float
    tokens: int
    episodes: int
    replies: int
    busiest: float = 0.0


class Watch:
    """Seconds and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._start[0], time.process_time() - self._start[1]


class Player(Vanilla):
    """The vanilla agent; with `walk`, one whose action is the next place to walk to, whatever the reply says."""

    walk = False

    def read(self, reply: str, view: AgentView) -> str:
        return next_place(view) if self.walk else super().read(reply, view)

    def full_text(self, completion: Completion) -> str:
        return completion.text if self.walk else super().full_text(completion)

    def acted(self, text: str, view: AgentView) -> AgentReply:
        """What `act` answers when the model says `text`."""
        return self.ask((), view, model=ScriptedModel([text]))


def player(setting: Setting, model: Any) -> Player:
    agent = Player(model, temperature=1.0, max_tokens=setting.reply_tokens)
    agent.walk = setting.fixed
    return agent


def next_place(view: AgentView) -> str:
    """A walk over the places that the first observation names."""
    places = re.findall(r"[a-z]+ \d+", view.initial_observation) or ["look"]
    return f"go to {places[len(view.turns) % len(places)]}"


def make(turns: int) -> TextEnv:
    return base_env(align_echo.make("alfworld", split=SPLIT, step_limit=turns))


def begin(env: TextEnv, task: str) -> AgentView:
    return start_view(env, task, SPEC.action_format, 0)


def sampling(setting: Setting) -> dict[str, Any]:
    """`generate`'s limits on the length of a reply."""
    least = {"min_new_tokens": setting.reply_tokens} if setting.fixed else {}
    return {"max_new_tokens": setting.reply_tokens, **least}


def copy_of(model: Any) -> Any:
    """A model of its own with the same weights."""
    made = type(model)(copy.deepcopy(model.config))
    made.load_state_dict(model.state_dict())
    return made.eval()


def random_model() -> tuple[Any, PreTrainedTokenizerBase]:
    """The untrained pocket model, and a tokenizer trained on walks."""
    env, agent = make(12), Player(ScriptedModel([]))
    agent.walk = True
    chats = []
    for task in align_echo.tasks("alfworld", split=SPLIT)[:60]:
        view = begin(env, task)
        while len(view.turns) < 12:
            view = extend(view, take_turn(env, agent.acted(next_place(view), view)))
        messages = agent.conversation(view)
        weights = [1.0] * sum(message.role == "assistant" for message in messages)
        chats.append(Demonstration(kind="walk", messages=tuple(messages), weights=tuple(weights)))
    tokenizer = train_tokenizer(chats, size=1536)
    made: Any = new_model(PocketSettings(), len(tokenizer))
    return made.eval(), tokenizer


def pocket_model() -> tuple[Any, PreTrainedTokenizerBase]:
    """The pocket model in float32."""
    with resources.as_file(resources.files("align_echo.models").joinpath("pocket")) as folder:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)
