"""The station as ALIGN's loop sees it: its spec, an agent that errs there, and what a model might write about it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from tests.station_env import CONTRACT, TASK_IDS, StationEnv

STEP_LIMIT = 30
LEARNED_ON, FRESH = TASK_IDS[:4], TASK_IDS[4:9]


class Fumbler:
    """Says plausible things at random, most of them out of order; once it holds a gem it brings it to the first pod,
    and words that wrongly."""

    name = "fumbler"

    def act(self, view: AgentView) -> AgentReply:
        rng = random.Random(f"{view.task_id}/{len(view.turns)}")
        gem, pod = rng.randint(1, 4), rng.randint(1, 5)
        forms = ["board deck {1}", "unseal pod {1}", "fetch gem {0} out pod {1}", "seal pod {1}"]
        seen = re.findall(r"Inside pod (\d) you find a gem (\d)", view.turns[-1].observation) if view.turns else []
        held = [gems for turn in view.turns if (gems := re.findall(r"Now gem (\d) floats", turn.observation))]
        if held:
            gem, pod = int(held[-1][0]), 1
            forms = ["board deck {1}", "unseal pod {1}", "put gem {0} in pod {1}"]
        elif seen:
            pod, gem = int(seen[0][0]), int(seen[0][1])
            forms = ["fetch gem {0} out pod {1}"]
        action = rng.choice(forms).format(gem, pod)
        return AgentReply(text=action, action=action)


def make_env(
    *, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None
) -> TextEnv:
    return StationEnv(step_limit or STEP_LIMIT)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    return list(TASK_IDS)


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    return list(LEARNED_ON)


SPEC = EnvironmentSpec(
    name="station",
    summary="decks and pods",
    splits=("train",),
    train_split="train",
    test_split="train",
    step_limit=STEP_LIMIT,
    action_format="short commands",
    contract=CONTRACT,
    is_invalid=None,
    task_type=lambda task_id: "stow",
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
)

TRUE: list[dict[str, Any]] = [
    {"kind": "needs", "action": "unseal pod {number}", "step": "board deck {number}"},
    {"kind": "needs", "action": "fetch gem {gem} out pod {pod}", "step": "unseal pod {pod}"},
    {"kind": "needs", "action": "stow gem {gem} into pod {pod}", "step": "fetch gem {gem} out pod {other}"},
    {"kind": "no_effect", "action": "unseal pod {0}", "after": "unseal pod {0}", "until": "seal pod {0}"},
    {"kind": "instead", "wrong": "put gem {0} in pod {1}", "right": "stow gem {0} into pod {1}"},
]
FALSE: list[dict[str, Any]] = [
    {"kind": "needs", "action": "board deck {0}", "step": "scan"},
    {"kind": "needs", "action": "fetch gem {0} out pod {1}", "step": "seal pod {1}"},
    {"kind": "no_effect", "action": "seal pod {0}", "after": "unseal pod {0}"},
    {"kind": "instead", "wrong": "unseal pod {0}", "right": "board deck {0}"},
]
UNTESTABLE: dict[str, Any] = {"kind": "needs", "action": "launch pod {0}", "step": "fuel pod {0}"}


def reply(*hypotheses: dict[str, Any]) -> str:
    """A model's reply with hypotheses."""
    return f"I think so.\n<hypotheses>\n{json.dumps(hypotheses, indent=1)}\n</hypotheses>"
