"""Episodes that show all that there is to show, and a corpus that tries to do harm, written as runs write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from align_echo.base.jsonl import JsonlFile
from align_echo.types import Candidate, Choice, Fault, HintEvent, Step, Trajectory, Usage, Violation

RULE = "before `stow _ into _` you need to `unseal _`."
RECORD = "Before `stow X into Y` you need to `unseal Y`, when `scan` shows it"

RICH = Step(
    reply="I think.\nstow gem 4 into pod 1",
    action="stow gem 4 into pod 1",
    observation="Denied. Before `stow gem 4 into pod 1` you need to `unseal pod 1`.",
    raw_observation="Denied.",
    engine_calls=3,
    hints=(HintEvent(rule=RULE, fired=True, followed=True, came_true=False, silenced=True),),
    violations=(Violation(action="board deck 9", reason="not the agent's action"),),
    interface_error="line 3: it broke",
    forged=("reward",),
    usage=Usage(prompt_tokens=1200, completion_tokens=34),
    choice=Choice(
        candidates=(
            Candidate(action="scan", verdict="wrong", p_correct=0.25, logprob=-3.5),
            Candidate(action="stow gem 4 into pod 1", verdict="correct", p_correct=0.75, logprob=-1.5),
        ),
        taken=1,
    ),
)
MUTE = Step(
    reply="well ...", action=None, observation="Your reply held no action.", raw_observation=None,
    problem="no action line",
)  # fmt: skip
LAST = Step(
    reply="scan", action="scan", observation="You float.", raw_observation="You float.", reward=1.0, score=1.0,
    terminated=True,
)  # fmt: skip


def episode(task: str = "station/0", *steps: Step, **fields: Any) -> Trajectory:
    """An episode of the station world, won unless it is said otherwise."""
    known: dict[str, Any] = {
        "environment": "station", "split": "test", "task_id": task, "task_type": "stow", "agent": "novice",
        "goal": "stow gem 4 into pod 1", "initial_observation": "You float in a station.",
        "steps": steps or (RICH, MUTE, LAST), "score": 1.0, "won": True,
    }  # fmt: skip
    return Trajectory(**{**known, **fields})


def lost(task: str = "station/0", *steps: Step, **fields: Any) -> Trajectory:
    """One that was not won."""
    return episode(task, *(steps or (RICH, MUTE)), **{"score": 0.0, "won": False, **fields})


def broken(task: str = "station/0", **fields: Any) -> Trajectory:
    """One that a model broke."""
    fault = Fault(source="model", error="ModelError", message="no answer came", traceback="Traceback: deep")
    return lost(task, MUTE, fault=fault, **fields)


def write(file: str | Path, episodes: Iterable[Trajectory]) -> Path:
    """A file of episodes, as runs write it."""
    path = Path(file)
    for each in episodes:
        JsonlFile(path).append(each)
    return path


HARM = [
    "<script>window.harmed = 1</script>",
    "</script><script>window.harmed = 1</script><!--",
    "<img src=x onerror='window.harmed = 1'>",
    "\x1b[2J\x1b]0;title\x07\x1b[31mred",
    "abc \u202edcba\u202c \u2066isolated\u2069 \u200fmark",
    "line\u2028separator \u0085 \x00 nul",
    "{{ title }} $data ${policy} &lt;b&gt; \\u003cb\\u003e",
    "x" * 1_000_000,
]
"""What an environment or a model may say to harm who reads it."""

HALF = "half \ud800 a character"
"""A lone surrogate, which JSON can hold and UTF-8 cannot."""


def hostile(file: str | Path) -> Path:
    """A file whose every text is one of `HARM`, an episode each, with `HALF` in the last; then a line that is none."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, text in enumerate([*HARM, HALF]):
        step = {
            "reply": f"{text} reply", "action": text, "observation": f"{text} shown", "raw_observation": f"{text} raw",
            "problem": text, "interface_error": text, "hints": [{"rule": text[:200], "fired": True}],
            "violations": [{"action": text, "reason": text}],
            "choice": {"candidates": [{"action": text, "verdict": "wrong"}], "taken": 0},
        }  # fmt: skip
        whole = json.loads(episode(f"task/{number}").model_dump_json())
        fault = {"source": "model", "error": text[:100], "message": text, "traceback": text}
        whole |= {
            "task_type": text[:100], "goal": text, "rules": text, "critique": text, "initial_observation": text,
            "agent": text[:100], "interface": text[:100], "reset_error": text, "steps": [step, step], "fault": fault,
        }  # fmt: skip
        lines.append(json.dumps(whole))
    path.write_text("\n".join([*lines, '{"no": "episode"}', ""]), encoding="utf-8")
    return path
