"""Local models that are scripts, in worlds of two doors, and what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from align_echo.critic.best_of import SelectionRule
from align_echo.critic.labels import LabelRule
from align_echo.models.choosing import ModelName
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.chat_template import ChatFormat
from align_echo.models.local.engine import TokenRequest
from align_echo.wrappers.plain import TextEnvironment
from align_echo.wrappers.text_env import TextEnv
from tests.doors import REFUSED, Doors
from tests.models.local.scripted_engine import ScriptedEngine
from tests.models.local.tiny import tiny_encoder

ENCODER = tiny_encoder()
RULE, FEEDBACK = "Knock before you open.", "You did not knock."
INTERFACE = f"""
def InferRules(init_obs, task):
    return {RULE!r}

def WrapStep(env, init_obs, task, agent_action, logger):
    observation, reward, done, info = env.step(agent_action)
    return observation + " " + {FEEDBACK!r}, info["won"], done
"""


HINT = "You have to `sing` first."
MISLEADING = f"""
def InferRules(init_obs, task):
    return ""

def WrapStep(env, init_obs, task, agent_action, logger):
    observation, reward, done, info = env.step(agent_action)
    return observation + " " + {HINT!r} * agent_action.startswith("open"), info["won"], done
"""


class BackDoors(Doors):
    """The same, said otherwise."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(seed=seed, options=options)
        return f"At the back. {text}", info


class Locked(Doors):
    """The same, without a way out."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return REFUSED, 0.0, False, False, {}


class Hidden(Doors):
    """The same, but that a third door leads out, which nobody but an expert thinks of."""

    right = "blue"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        is_out = action == "open blue"
        return "You are out." if is_out else REFUSED, 2.0 * is_out, is_out, False, {}


SPLITS = {"train": range(8), "test": range(8, 12), "spare": range(12, 16)}
DOORS, BACK_DOORS, HIDDEN = (
    TextEnvironment(
        kind,
        splits=SPLITS,
        step_limit=2,
        return_range=(-4.0, 2.0),
        expert=lambda env: "open blue" if isinstance(env, Hidden) else f"open {env.right}",
        distance=lambda env: 1,
    )
    for kind in (Doors, BackDoors, Hidden)
)
UNMEASURED = TextEnvironment(
    Doors, splits=SPLITS, step_limit=2, return_range=(-4.0, 2.0), expert=lambda env: f"open {env.right}"
)
HIDDEN_LONG = replace(HIDDEN, step_limit=12)
LOCKED = TextEnvironment(Locked, splits=SPLITS, step_limit=12)


def _make_forked(
    *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
) -> TextEnv:
    doors = BACK_DOORS if engine == "back" else DOORS
    return doors.spec("forked").make_env(split=split, data_root=data_root, step_limit=step_limit)


FORKED = replace(DOORS.spec("forked"), engines=("front", "back"), make_env=_make_forked)
"""Which doors they are is for the engine to say."""


def write_interfaces(folder: Path) -> None:
    """Write one that says a rule and the same feedback on each turn, and one whose hint leads nowhere."""
    (folder / "knock.py").write_text(INTERFACE)
    (folder / "misleading.py").write_text(MISLEADING)


def said(text: str, seed: int) -> str:
    """An action of an agent by chance, or what it is told to do; a critique in its form; or a verdict with a reason."""
    if "You are the critic" in text:
        return "<reason>It was late.</reason>\n<suggestions>\nopen green\n</suggestions>"
    if "You made this attempt" in text:
        return "Mistake: It was late.\nNext time: open green"
    if "First say why" in text:
        return f"Reason: It is so.\nVerdict: {'correct' if liked(text) > 0.5 else 'wrong'}"
    action = "sing" if HINT in text.rpartition("user")[2] else "open red" if seed % 2 else "open green"
    return f"Thought: so\nAction: {action}" if "Thought: what" in text else action


def liked(text: str) -> float:
    """How right an action is that is proposed at the end: the green door is."""
    return 0.9 if "open green</action>" in text[-200:] else 0.2


@dataclass
class Drawn:
    """What local models were asked, by the names of their engines, at which addresses, in which chat formats and in
    which precisions.
    """

    engines: dict[str, ScriptedEngine] = field(default_factory=dict)
    base_urls: set[str | None] = field(default_factory=set)
    chats: set[ChatFormat] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)

    @property
    def drawn(self) -> list[TokenRequest]:
        """Requests for replies, and not for verdicts in one word."""
        asked = [request for engine in self.engines.values() for request in engine.asked]
        return [request for request in asked if not request.sampling.choices]

    @property
    def players(self) -> str:
        """The engines that were asked for replies."""
        asked = {name: [request.sampling for request in engine.asked] for name, engine in self.engines.items()}
        return " ".join(name for name, samplings in asked.items() if any(not each.choices for each in samplings))

    def asked_of(self, *words: str) -> str:
        """The engines whose contexts hold all the words."""
        return " ".join(
            name
            for name, engine in self.engines.items()
            if any(all(word in ENCODER.text(request.ids) for word in words) for request in engine.asked)
        )


def script_models(patch: pytest.MonkeyPatch, records: Sequence[Drawn]) -> None:
    """Let local models be scripts, which tell the last of the records what they are asked."""

    def load(name: ModelName, seed: int, processes: int) -> LocalModel:
        engine = records[-1].engines.setdefault(name.source, ScriptedEngine(name.source, ENCODER, said, liked))
        records[-1].base_urls.add(name.base_url)
        records[-1].chats.add(name.chat)
        records[-1].dtypes.add(name.dtype)
        return LocalModel(engine, ENCODER, seed=seed, weights=name.source)

    patch.setattr("align_echo.models.choosing._load_local", load)


def sampling(part: str) -> Callable[[Drawn], Any]:
    """The values of a part of the sampling of replies."""
    return lambda played: sorted({getattr(request.sampling, part) for request in played.drawn})


def chat(part: str) -> Callable[[Drawn], Any]:
    """A part of the chat format of the only model."""
    return lambda played: getattr(next(iter(played.chats)), part)


def told(text: str) -> Callable[[Drawn], bool]:
    """Whether a model is told a text."""
    return lambda played: bool(played.asked_of(text))


def arguments(values: Mapping[str, Any], *, switches: Collection[str] = ()) -> list[str]:
    """Options as they are written; switches are True or False."""
    written = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is False:
            written += [option.replace("--", "--no-")] if name in switches else []
        elif value is not None:
            written += [option] if value is True else [option, str(value)]
    return written


ALL_WRONG = LabelRule("all wrong", lambda env, view, actions: ["wrong"] * len(actions))
ALL_RIGHT = LabelRule("all right", lambda env, view, actions: ["correct"] * len(actions))
LAST = SelectionRule("last", lambda given: len(given.actions) - 1)
